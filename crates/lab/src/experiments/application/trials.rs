//! The trials of the experiments on applications: requests of clients, and their results.

use niclab_device::cores::allowed;
use niclab_device::requests::{
    CONNECTIONS_MAX, DEPTH_MAX, KEYS_MAX, KeyLength, KeySelection, Order, Pace, Protocol, Requests,
    VALUE_LEN_MAX, Values as Lengths,
};
use niclab_device::{Application, Task};
use niclab_result::{Coordinate, Point};

use super::metrics::APPLICATION;
use super::spec::ApplicationSweep;
use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::hosts::{CLOSED, FAMILIES, HOSTS, paces, product};
use crate::run::Resolver;
use crate::spec::SpecError;
use crate::values::Values;

/// Protocols, by name.
const PROTOCOLS: [(&str, Protocol); 4] = [
    ("memcached-tcp", Protocol::MemcachedTcp),
    ("memcached-udp", Protocol::MemcachedUdp),
    ("redis", Protocol::Redis),
    ("http", Protocol::Http),
];

/// Whether there is a breakdown, by name. It is no axis of a point: what is measured there is
/// measured without it.
const STAMPS: [(&str, bool); 2] = [("no", false), ("yes", true)];

/// Stands for lengths and an order of keys as they were measured, among lengths of values.
pub(crate) const ETC: &str = "etc";

/// Stands for 1, 2, 4, … and all cores there are, among numbers of cores.
const TO_ALL: &str = "to-all";

/// Ends a number of connections that is one for each core of the server.
const PER_CORE: &str = "/core";

/// Length of keys that are all of one length, bytes.
const KEY_LEN: u16 = 16;

/// How much more often keys are asked for than others of the pool ETC: near 1 (Atikoglu et al.,
/// SIGMETRICS 2012, §4.2 give the popularity as a curve alone).
const ZIPF: f64 = 0.99;

/// All applications of a sweep, the product of its axes.
pub fn applications(
    sweep: &ApplicationSweep,
    (duration_ms, warmup_ms): (u64, u64),
    seed: u64,
) -> Result<Vec<Application>, SpecError> {
    let gets = numbers("gets", &sweep.gets, 0, 100)?;
    let sizes = lengths(&sweep.size)?;
    let keys = numbers("keys", &sweep.keys, 1, KEYS_MAX)?;
    let depths = numbers("depth", &sweep.depth, 1, DEPTH_MAX.into())?;
    let paces = paces(&sweep.rate)?;
    let hosts = words("client", &sweep.client, &HOSTS)?;
    let families = words("family", &sweep.family, &FAMILIES)?;
    let cores = cores(&sweep.cores)?;
    let stamps = one_word("stamps", &sweep.stamps, &STAMPS)?;
    let mut all = Vec::new();
    for protocol in words("protocol", &sweep.protocol, &PROTOCOLS)? {
        for ((&family, &client), path) in product(&families, &hosts)
            .flat_map(|at| sweep.path.0.iter().map(move |path| (at, path)))
        {
            for ((&gets, &size), (&keys, &pace)) in product(&gets, &sizes)
                .flat_map(|at| product(&keys, &paces).map(move |other| (at, other)))
            {
                for (&cores, &depth) in product(&cores, &depths) {
                    for connections in connections(&sweep.connections, cores)? {
                        let requests = Requests {
                            protocol,
                            get_ratio: gets as f64 / 100.0,
                            keys: keys_of(keys, size),
                            values: size,
                            path: path.to_string(),
                            connections,
                            depth: depth as u16,
                            pace,
                            duration_ns: duration_ms * 1_000_000,
                            warmup_ns: warmup_ms * 1_000_000,
                            seed,
                        };
                        requests.check().map_err(|error| unfit(&error))?;
                        all.push(Application { client, family, cores, stamps, requests });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The one of these that is said.
fn one_word<T: Copy + PartialEq>(
    axis: &'static str,
    values: &Values,
    named: &[(&str, T)],
) -> Result<T, SpecError> {
    match (words(axis, values, named)?.as_slice(), values.0.last()) {
        ([one], _) | ([one, ..], None) => Ok(*one),
        (_, Some(last)) => Err(refused(axis, last, "give one value".to_owned())),
        ([], None) => Err(refused(axis, &Coordinate::Number(0.0), "give one value".to_owned())),
    }
}

/// What of a combination of values does not go together.
fn unfit(error: &dyn std::fmt::Display) -> SpecError {
    let text = error.to_string();
    let (axis, rest) = text.split_once(" = ").unwrap_or(("", &text));
    let axis = match axis {
        "path" => "path",
        "keys" | "key length" => "keys",
        "connections" => "connections",
        "depth" => "depth",
        _ => "size",
    };
    let (value, remedy) = rest.split_once(": ").unwrap_or((rest, ""));
    refused(axis, &Coordinate::Word(value.to_owned()), remedy.to_owned())
}

/// Keys that go with values: those of ETC have lengths and an order of their own.
fn keys_of(count: u32, values: Lengths) -> KeySelection {
    match values {
        Lengths::Fixed(_) => {
            KeySelection { count, order: Order::Uniform, length: KeyLength::Fixed(KEY_LEN) }
        }
        Lengths::Etc => {
            KeySelection { count, order: Order::Zipf { exponent: ZIPF }, length: KeyLength::Etc }
        }
    }
}

fn lengths(values: &Values) -> Result<Vec<Lengths>, SpecError> {
    let one = |value: &Coordinate| match value {
        Coordinate::Word(word) if word == ETC => Ok(Lengths::Etc),
        Coordinate::Number(bytes) if (0.0..=f64::from(VALUE_LEN_MAX)).contains(bytes) => {
            Ok(Lengths::Fixed(*bytes as u32))
        }
        _ => Err(refused("size", value, format!("use 0 to {VALUE_LEN_MAX} bytes, or {ETC}"))),
    };
    values.0.iter().map(one).collect()
}

pub(crate) fn cores(values: &Values) -> Result<Vec<u16>, SpecError> {
    let there = allowed().len().max(1) as u16;
    let mut cores = Vec::new();
    for value in &values.0 {
        match value {
            Coordinate::Word(word) if word == TO_ALL => {
                let doubled = (0..16).map(|power| 1u16 << power).take_while(|&count| count < there);
                cores.extend(doubled.chain([there]));
            }
            Coordinate::Number(count) if (1.0..=4096.0).contains(count) => {
                cores.push(*count as u16);
            }
            _ => return Err(refused("cores", value, format!("use 1 or more, or {TO_ALL}"))),
        }
    }
    cores.dedup();
    Ok(cores)
}

/// Connections, some of them so many for each core of the server.
fn connections(values: &Values, cores: u16) -> Result<Vec<u16>, SpecError> {
    let one = |value: &Coordinate| {
        let count = match value {
            Coordinate::Number(count) => Some(*count),
            Coordinate::Word(word) => word
                .strip_suffix(PER_CORE)
                .and_then(|count| count.parse::<f64>().ok())
                .map(|count| count * f64::from(cores)),
        };
        let legal = |count: &f64| (1.0..=f64::from(CONNECTIONS_MAX)).contains(count);
        let remedy = || {
            format!("use 1 to {CONNECTIONS_MAX}, or so many for each core of the server: 100/core")
        };
        count
            .filter(legal)
            .map(|count| count as u16)
            .ok_or_else(|| refused("connections", value, remedy()))
    };
    values.0.iter().map(one).collect()
}

/// Where an application stands.
fn point(application: &Application) -> Point {
    let word = |word: &str| Coordinate::Word(word.to_owned());
    let number = |number: f64| Coordinate::Number(number);
    let asked = &application.requests;
    let rate = match asked.pace {
        Pace::Closed => word(CLOSED),
        Pace::Open { per_s } => number(per_s),
    };
    let size = match asked.values {
        Lengths::Fixed(bytes) => number(bytes.into()),
        Lengths::Etc => word(ETC),
    };
    at_axes([
        ("protocol", word(name_of(&PROTOCOLS, asked.protocol))),
        ("family", word(name_of(&FAMILIES, application.family))),
        ("client", word(name_of(&HOSTS, application.client))),
        ("path", word(&asked.path)),
        ("gets", number((asked.get_ratio * 100.0).round())),
        ("size", size),
        ("keys", number(asked.keys.count.into())),
        ("rate", rate),
        ("connections", number(asked.connections.into())),
        ("depth", number(asked.depth.into())),
        ("cores", number(application.cores.into())),
    ])
}

impl Resolver<'_> {
    /// A trial for each application. They have no set-up but that nothing is set up.
    pub fn add_applications(&mut self, sweeps: &[ApplicationSweep]) -> Result<(), SpecError> {
        for sweep in sweeps {
            let times = (self.grid.duration_ms, self.grid.warmup_ms);
            for asked in applications(sweep, times, self.seed)? {
                self.task(APPLICATION, point(&asked), Task::Requests(asked));
            }
        }
        Ok(())
    }
}
