//! The experiments on applications: what clients ask, and what their answers show.

use niclab_device::cores::allowed;
use niclab_device::requests::{
    CONNECTIONS_MAX, DEPTH_MAX, KEYS_MAX, KeyLength, Keys, Order, Pace, Protocol, Requests,
    VALUE_LEN_MAX, Values as Lengths,
};
use niclab_device::{Application, Applied, CoreUse, Energy};
use niclab_result::{Coordinate, Mark, Point};

use crate::axes::{at_axes, name_of, numbers, refused, words};
use crate::exchange::{CLOSED, FAMILIES, HOSTS, paces, product};
use crate::ledger::put_ledger;
use crate::measure::{Metrics, put, put_ratio, quantiles};
use crate::occupancy::Place;
use crate::run::{PlannedRate, Resolver, Task, Trial, index_of};
use crate::runner::json;
use crate::spec::{ApplicationSweep, Hits, SpecError, TrialKind};
use crate::values::Values;

/// Protocols, by name.
const PROTOCOLS: [(&str, Protocol); 4] = [
    ("memcached-tcp", Protocol::MemcachedTcp),
    ("memcached-udp", Protocol::MemcachedUdp),
    ("redis", Protocol::Redis),
    ("http", Protocol::Http),
];

/// Whether there is a ledger, by name. It is no axis of a point: what is measured there is measured
/// without it.
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

/// Share of the requests due that clients may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// A core is taken to have nothing left from here on.
pub(crate) const BUSY: f64 = 0.95;

/// Requests answered a second.
pub(crate) const RATE: &str = "requests_per_s";
/// Requests that waited for an answer at once, on average.
pub(crate) const WAITING: &str = "waiting_requests";
/// Median of the latency.
pub(crate) const LATENCY: &str = "request_ns_p50";
/// Its tail.
pub(crate) const LATENCY_TAIL: &str = "request_ns_p99";
/// Share of the time in which the server's cores worked.
pub(crate) const SERVER_BUSY: &str = "server_busy_ratio";
/// The same of the clients'.
pub(crate) const CLIENT_BUSY: &str = "client_busy_ratio";
/// Time of the server's cores for a request.
pub(crate) const SERVER_TIME: &str = "server_ns_per_request";

/// Energy of the machine for a request.
pub(crate) const ENERGY: &str = "joules_per_request";

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
fn keys_of(count: u32, values: Lengths) -> Keys {
    match values {
        Lengths::Fixed(_) => {
            Keys { count, order: Order::Uniform, length: KeyLength::Fixed(KEY_LEN) }
        }
        Lengths::Etc => {
            Keys { count, order: Order::Zipf { exponent: ZIPF }, length: KeyLength::Etc }
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

fn cores(values: &Values) -> Result<Vec<u16>, SpecError> {
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
        let (groups, rules, match_percent, hits, flows) = (0, 0, 0, Hits::Flows, 1);
        let nothing = Place { groups, rules, match_percent, hits, flows }.setup(self.seed, 64);
        let setup = index_of(&mut self.run.setups, nothing);
        for sweep in sweeps {
            let times = (self.grid.duration_ms, self.grid.warmup_ms);
            for asked in applications(sweep, times, self.seed)? {
                let point = point(&asked);
                let application = index_of(&mut self.run.applications, asked);
                let (kind, rate) = (TrialKind::Application, PlannedRate::Saturate);
                self.trial(Trial { kind, setup, task: Task::Apply { application }, rate, point });
            }
        }
        Ok(())
    }
}

/// The metrics of an application.
///
/// | metric | meaning |
/// |---|---|
/// | `planned_requests` … `unsent_requests` | were due, were sent, were answered, were not |
/// | `refused_requests`, `miss_ratio` | answers that are errors; gets that found nothing, by gets |
/// | `foreign_requests`, `duplicated_requests`, `late_requests` | as they came |
/// | `loss_ratio` | lost by sent |
/// | `requests_per_s` | answered |
/// | `waiting_requests` | that were answered waited at once, on average (Little's law) |
/// | `request_gbps`, `answer_gbps` | bytes of the application there and back |
/// | `request_ns_…` | from when a request was due to its answer; in a closed loop from the call |
/// | `service_ns_…`, `lateness_ns_…` | of an open loop: from the call; how late it left |
/// | `server_user_ratio`, `…_system_…`, `…_softirq_…`, `…_busy_…` | use of the server's cores |
/// | `client_busy_ratio` | use of the clients' |
/// | `server_ns_per_request` | time of the server's cores by requests answered |
/// | `shared_cores` | cores that both have |
/// | `link_tx_gbps`, `link_rx_gbps`, `link_ratio` | frames; by the link's speed where it has one |
/// | `joules_per_request` | energy of the machine by requests answered, where it has a meter |
/// | `client_transmit_ns`, `server_ns` … | a term of the ledger ([`put_ledger`]) |
/// | `rtt_ns_…`, `residue_ratio` … | latency with probes, and what else a ledger tells |
pub(crate) fn put_application(metrics: &mut Metrics, seen: &Applied) {
    let r = &seen.requested;
    for (name, count) in [
        ("planned_requests", r.planned),
        ("sent_requests", r.sent),
        ("unsent_requests", r.unsent),
        ("answered_requests", r.answered),
        ("lost_requests", r.lost),
        ("late_requests", r.late),
        ("refused_requests", r.refused),
        ("duplicated_requests", r.duplicated),
        ("foreign_requests", r.foreign),
    ] {
        put(metrics, name, count as f64, "requests");
    }
    put_ratio(metrics, "loss_ratio", r.lost, r.sent);
    put_ratio(metrics, "miss_ratio", r.misses, r.hits + r.misses);
    let duration_s = r.duration_ns as f64 / 1e9;
    put(metrics, RATE, r.answered as f64 / duration_s, "requests/s");
    // In an open loop what waits for its turn at the client is not sent yet.
    let sent = &r.service.as_ref().unwrap_or(&r.latency).0;
    if !sent.is_empty() {
        let waiting = r.answered as f64 * sent.mean() / r.duration_ns as f64;
        put(metrics, WAITING, waiting, "requests");
    }
    put(metrics, "request_gbps", r.sent_bytes as f64 * 8e-9 / duration_s, "Gbps");
    put(metrics, "answer_gbps", r.received_bytes as f64 * 8e-9 / duration_s, "Gbps");
    quantiles(metrics, "request_ns", &r.latency);
    if let Some(service) = &r.service {
        quantiles(metrics, "service_ns", service);
    }
    if let Some(lateness) = &r.lateness {
        quantiles(metrics, "lateness_ns", lateness);
    }
    put_use(metrics, seen);
    if let Some(Ok(ledger)) = &seen.ledger {
        put_ledger(metrics, ledger);
    }
}

fn put_use(metrics: &mut Metrics, seen: &Applied) {
    let share = |cores: &[CoreUse], of: fn(&CoreUse) -> u64| {
        let had: u64 = cores.iter().map(|core| core.busy_ns() + core.idle_ns).sum();
        (had > 0).then(|| cores.iter().map(of).sum::<u64>() as f64 / had as f64)
    };
    let shares = [
        ("server_user_ratio", share(&seen.server, |core| core.user_ns + core.nice_ns)),
        ("server_system_ratio", share(&seen.server, |core| core.system_ns)),
        ("server_softirq_ratio", share(&seen.server, |core| core.softirq_ns + core.irq_ns)),
        (SERVER_BUSY, share(&seen.server, CoreUse::busy_ns)),
        (CLIENT_BUSY, share(&seen.client, CoreUse::busy_ns)),
    ];
    for (name, share) in shares {
        if let Some(share) = share {
            put(metrics, name, share, "1");
        }
    }
    let answered = seen.requested.answered as f64;
    // The share is of a time that is not to the nanosecond that of the requests.
    if let Some(busy) = share(&seen.server, CoreUse::busy_ns).filter(|_| answered > 0.0) {
        let had_ns = seen.requested.duration_ns as f64 * seen.server.len() as f64;
        put(metrics, SERVER_TIME, busy * had_ns / answered, "ns");
    }
    let is_shared = |core: &&CoreUse| seen.client.iter().any(|client| client.core == core.core);
    put(metrics, "shared_cores", seen.server.iter().filter(is_shared).count() as f64, "cores");
    // Link bytes and energy cover the time between the two readings, which is longer than that of
    // the requests if the machine stalled.
    let watched_s = seen.watched_ns as f64 / 1e9;
    if let Some(link) = seen.link {
        let [tx, rx] = [link.tx_bytes, link.rx_bytes].map(|bytes| bytes as f64 * 8.0 / watched_s);
        put(metrics, "link_tx_gbps", tx / 1e9, "Gbps");
        put(metrics, "link_rx_gbps", rx / 1e9, "Gbps");
        if let Some(speed) = link.bits_per_s {
            put(metrics, "link_ratio", tx.max(rx) / speed as f64, "1");
        }
    }
    if let Energy::Measured { joules, .. } = seen.energy
        && answered > 0.0
    {
        let part = seen.requested.duration_ns as f64 / seen.watched_ns as f64;
        put(metrics, ENERGY, joules * part / answered, "J");
    }
}

/// What stands beside the metrics of a sample.
pub(crate) fn counters(seen: &Applied) -> serde_json::Value {
    let mut counters = serde_json::json!({
        "server": json(&seen.server),
        "client": json(&seen.client),
        "link": json(&seen.link),
        "energy": json(&seen.energy),
    });
    match &seen.ledger {
        Some(Ok(ledger)) => {
            counters["terms"] = json(&ledger.terms);
            counters["pairs"] = json(&ledger.pairs);
            counters["stamps"] = ledger.stamps.into();
        }
        Some(Err(why)) => counters["no_ledger"] = why.as_str().into(),
        None => {}
    }
    counters
}

/// The warnings that belong to an application.
pub(crate) fn marks(seen: &Applied) -> Vec<Mark> {
    let requested = &seen.requested;
    let mut marks = Vec::new();
    let busy =
        |cores: &[CoreUse]| !cores.is_empty() && cores.iter().all(|core| core.busy_ratio() >= BUSY);
    let is_unsent = requested.unsent as f64 > UNSENT_MAX * requested.planned as f64;
    if busy(&seen.client) && !busy(&seen.server) || is_unsent && busy(&seen.client) {
        marks.push(Mark::GeneratorLimited);
    }
    if requested.sent != requested.answered + requested.lost
        || requested.planned != requested.sent + requested.unsent
    {
        marks.push(Mark::Unbalanced);
    }
    marks
}

#[cfg(test)]
#[path = "application_tests.rs"]
pub(crate) mod tests;
