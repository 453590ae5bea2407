//! `niclab serve echo` and `niclab measure echo`: messages over the kernel's stack, there and back.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use niclab_device::address::display;
use niclab_device::cores::{Pinned, allowed};
use niclab_device::echo::{Echo, Echoed, Pace, SIZE_MAX, Serve, Server, Transport};
use niclab_device::linux::stamps_at;
use niclab_device::realtime::RealTime;
use niclab_device::{
    DeviceError, Family, Feature, Host, Latency, Observation, RoundTrips, RoundTripsObservation,
    Task, peer,
};
use niclab_lab::words;
use serde_json::json;

use crate::arguments::{MeasureEchoArguments, ServeEchoArguments};
use crate::failure::Failure;
use crate::output::stdout;
use crate::run::stop_flag;
use crate::{rules, tune};

/// What is shown of a distribution, and the share of the messages that stays below each.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// Serves until it is stopped, then says what it did.
pub fn serve(arguments: &ServeEchoArguments) -> Result<(), Failure> {
    let stop: Arc<AtomicBool> = stop_flag()?;
    let address = peer::address(&arguments.bind).map_err(Failure::address("--bind"))?;
    let transport = arguments.transport;
    let (receive, batch) = (arguments.receive, arguments.batch);
    let _pinned = pinned(arguments.core)?;
    let _real_time = real_time(arguments.fifo)?;
    let idle_ns = arguments.idle_timeout * 1_000_000_000;
    let serve = Serve { transport, receive, batch, size_max: SIZE_MAX, idle_ns };
    let server = Server::bind(address, serve)?;
    let tuned = arguments.tune.then(|| tune::address(address)).transpose()?.flatten();
    let protocols = match transport {
        None => "UDP and TCP",
        Some(Transport::Udp) => "UDP",
        Some(Transport::Tcp) => "TCP",
    };
    let probes = arguments.stamps.then(|| stamps_at(server.address())).transpose()?;
    server.stamp(probes.is_some());
    let stamped = if probes.is_some() { "; stamps are taken" } else { "" };
    writeln!(
        stdout(),
        "echo of {protocols} at {}{stamped}; Ctrl-C ends it",
        display(server.address())
    )?;
    let ran = server.run(&stop);
    tune::end(tuned);
    ran?;
    let done = server.served();
    let whole = |count: u64| words::whole(count as f64);
    let closed = match done.closed {
        0 => String::new(),
        closed => format!(", {} of them closed by the server", whole(closed)),
    };
    writeln!(
        stdout(),
        "{}, {} answered; {} other messages; {}{closed}",
        rules::counted(done.received, "request", "requests"),
        whole(done.answered),
        whole(done.foreign),
        rules::counted(done.connections, "connection", "connections")
    )?;
    Ok(())
}

/// Keeps the process on a core, where one is named.
fn pinned(core: Option<u32>) -> Result<Option<Pinned>, Failure> {
    let there = allowed();
    match core {
        Some(core) if !there.contains(&core) => Err(Failure::Core { core: core as usize, there }),
        core => Ok(core.map(Pinned::to)),
    }
}

fn real_time(priority: Option<u8>) -> Result<Option<RealTime>, Failure> {
    let refused = |error: std::io::Error| {
        Failure::Device(DeviceError::Rights {
            what: format!("real-time priority ({error})"),
            remedy: "run it as root, or raise `ulimit -r`; or leave --fifo out".to_owned(),
        })
    };
    priority.map(RealTime::with).transpose().map_err(refused)
}

/// Measures the round trips of one setting and prints the result.
pub fn measure(arguments: &MeasureEchoArguments) -> Result<(), Failure> {
    let milliseconds = |ms: u64| ms * 1_000_000;
    let echo = Echo {
        transport: arguments.transport,
        size: arguments.size,
        batch: arguments.batch,
        receive: arguments.receive,
        pace: arguments.rate.map_or(Pace::Closed, |per_s| Pace::Open { per_s }),
        duration_ns: milliseconds(arguments.duration_ms),
        warmup_ns: milliseconds(arguments.warmup_ms),
    };
    echo.check()?;
    let _pinned = pinned(arguments.core)?;
    let (name, family) = match &arguments.server {
        None => ("linux:veth".to_owned(), Family::V4),
        Some(server) => {
            let address = peer::address(server).map_err(Failure::address("--server"))?;
            let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
            (format!("peer:{}", display(address)), family)
        }
    };
    let family = if arguments.ipv6 { Family::V6 } else { family };
    let client = if arguments.reverse { Host::There } else { Host::Here };
    let feature = Feature::None;
    let trips = RoundTrips {
        client,
        family,
        fifo: arguments.fifo,
        feature,
        deep: false,
        sockets: false,
        echo,
    };
    let names = [name];
    let tuned = if arguments.tune { tune::devices(&names)? } else { Vec::new() };
    let [name] = names;
    let mut bed = niclab_device::open(&name)?;
    let observation = bed.measure(&Task::RoundTrips(trips.clone()));
    tune::end(tuned);
    let observation =
        observation.and_then(Observation::into_round_trips).map_err(|error| match error {
            DeviceError::NotSupported { capability } => {
                DeviceError::NotSupported { capability: bed.about().lack(&capability) }
            }
            error => error,
        })?;
    match arguments.json {
        true => writeln!(stdout(), "{:#}", document(&trips, &observation))?,
        false => print(&name, &trips, &observation)?,
    }
    let echoed = observation.echoed;
    match echoed.ended {
        Some(reason) => Err(Failure::Lost { reason }),
        None if echoed.rtt.0.is_empty() => {
            let duration_ms = arguments.duration_ms;
            Err(Failure::NoAnswer { sent: echoed.sent, duration_ms })
        }
        None => Ok(()),
    }
}

/// The task and its observation, with times in nanoseconds.
fn document(trips: &RoundTrips, observation: &RoundTripsObservation) -> serde_json::Value {
    let echoed = &observation.echoed;
    json!({
        "round_trips": trips,
        "duration_ns": echoed.duration_ns,
        "planned": echoed.planned,
        "sent": echoed.sent,
        "unsent": echoed.unsent,
        "answered": echoed.answered,
        "lost": echoed.lost,
        "late": echoed.late,
        "reordered": echoed.reordered,
        "duplicated": echoed.duplicated,
        "foreign": echoed.foreign,
        "ended": echoed.ended,
        "rtt_ns": percentiles(&echoed.rtt),
        "service_ns": echoed.service.as_ref().map(percentiles),
        "lateness_ns": echoed.lateness.as_ref().map(percentiles),
        "server": observation.served,
    })
}

/// `null` of no latency at all.
fn percentiles(latency: &Latency) -> serde_json::Value {
    if latency.0.is_empty() {
        return serde_json::Value::Null;
    }
    let at =
        |(name, share): (&str, f64)| (name.to_owned(), json!(latency.0.value_at_quantile(share)));
    let mut all: serde_json::Map<_, _> = PERCENTILES.into_iter().map(at).collect();
    all.insert("min".to_owned(), json!(latency.0.min()));
    all.insert("mean".to_owned(), json!(latency.0.mean()));
    all.insert("count".to_owned(), json!(latency.0.len()));
    all.into()
}

fn print(
    name: &str,
    trips: &RoundTrips,
    observation: &RoundTripsObservation,
) -> Result<(), Failure> {
    let mut out = stdout();
    let (echo, echoed) = (&trips.echo, &observation.echoed);
    let pace = match echo.pace {
        Pace::Closed => "closed loop".to_owned(),
        Pace::Open { per_s } => format!("{}/s", words::significant(per_s)),
    };
    writeln!(
        out,
        "{name}: {} B over {}, batches of {}, {pace}, {}",
        echo.size, echo.transport, echo.batch, echo.receive
    )?;
    let mut line = |name: &str, latency: &Latency| -> std::io::Result<()> {
        if latency.0.is_empty() {
            return Ok(());
        }
        let at = |(name, share): (&str, f64)| {
            format!("{name} {}", words::time(latency.0.value_at_quantile(share) as f64))
        };
        let times: Vec<String> = PERCENTILES.into_iter().map(at).collect();
        writeln!(out, "  {name:<12}{}", times.join("  "))
    };
    line("round trip", &echoed.rtt)?;
    if let Some(service) = &echoed.service {
        line("service", service)?;
    }
    if let Some(lateness) = &echoed.lateness {
        line("left late", lateness)?;
    }
    writeln!(out, "  {:<12}{}", "messages", counted(echoed))?;
    let per_s = echoed.answered as f64 / (echoed.duration_ns as f64 / 1e9);
    writeln!(out, "  {:<12}{}/s answered", "rate", words::whole(per_s))?;
    Ok(())
}

/// The outcome of the messages. Zero counts are left out, except losses.
fn counted(echoed: &Echoed) -> String {
    let whole = |count: u64| words::whole(count as f64);
    let mut text = format!("{} sent, {} lost", whole(echoed.sent), whole(echoed.lost));
    for (count, what) in [
        (echoed.late, "of these answered too late"),
        (echoed.unsent, "due and never sent"),
        (echoed.reordered, "out of order"),
        (echoed.duplicated, "answered twice"),
        (echoed.foreign, "foreign messages"),
    ] {
        if count > 0 {
            text += &format!(", {} {what}", whole(count));
        }
    }
    text
}
