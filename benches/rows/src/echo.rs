//! Round trips of messages over the kernel's stack, ours and sockperf's in turn between the same
//! two hosts: one message and its answer at a time, both programs asleep until something comes.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use niclab_device::cores::Cores;
use niclab_device::linux::{Hosts, Wire};
use niclab_device::program::{self, Program, Sockets};
use niclab_device::{DeviceError, Family, Feature, Host, RoundTrips};
use niclab_load::echo::{Echo, Pace, Receive, Transport};
use niclab_pairing::in_turn;

use crate::sockperf::{self, MEASURED, RUN, WARMUP};
use crate::{Bar, Bench, BenchError, Measured, Slices, Times};

/// Where sockperf's server listens.
const PORT: u16 = 11_111;

/// How long a program may take beyond its run.
const PATIENCE: Duration = Duration::from_secs(20);

/// UDP messages of `size` bytes, a turn of a second each.
///
/// # Errors
/// [`BenchError::Device`]; [`BenchError::Said`] where sockperf says something else than expected.
/// What is missing here is no error but [`Slices::NotSupported`].
pub fn round_trips(bench: &Bench, size: u16) -> Result<Measured, BenchError> {
    or_not_supported(compare(bench, size))
}

/// Takes what this machine lacks for a result.
pub(crate) fn or_not_supported(
    measured: Result<Measured, BenchError>,
) -> Result<Measured, BenchError> {
    match measured {
        Err(BenchError::Device(DeviceError::NotSupported { capability })) => {
            Ok(Measured::of(Slices::NotSupported(capability)))
        }
        Err(BenchError::Device(
            error @ (DeviceError::Rights { .. } | DeviceError::Cores { .. }),
        )) => Ok(Measured::of(Slices::NotSupported(error.to_string()))),
        measured => measured,
    }
}

/// Two hosts, the client's on the core of the bench.
pub(crate) fn hosts(bench: &Bench) -> Result<Hosts, BenchError> {
    let device = bench.other.ok_or_else(|| DeviceError::Cores {
        device: "two hosts".into(),
        needed: 2,
        available: 1,
        remedy: "use a larger machine".into(),
    })?;
    Ok(Hosts::with(Cores { tester: bench.core as u32, device: device as u32 }, &Feature::None)?)
}

/// Where a program of others is.
pub(crate) fn command(name: &str) -> Result<Command, DeviceError> {
    let absent = || DeviceError::lacks(name);
    Ok(Command::new(program::find(name).ok_or_else(absent)?))
}

fn compare(bench: &Bench, size: u16) -> Result<Measured, BenchError> {
    command("sockperf")?;
    let hosts = hosts(bench)?;
    let server = Sockperf::start(&hosts)?;
    let mut run = 0;
    let turns = in_turn(
        bench.pairs,
        || {
            run += 1;
            ours(&hosts, size, run)
        },
        || server.round_trips(&hosts, size),
    )?;
    let times = |what, at: usize| Times {
        what,
        ours_ns: turns.iter().map(|[ours, _]| ours[at]).collect(),
        theirs_ns: turns.iter().map(|[_, theirs]| theirs[at]).collect(),
        bar: Bar::Alike,
    };
    Ok(Measured::of(Slices::Times(vec![times("p50", 0), times("p99", 1)])))
}

/// p50 and p99 of a turn of ours, nanoseconds.
fn ours(hosts: &Hosts, size: u16, run: u32) -> Result<[f64; 2], BenchError> {
    let echo = Echo {
        transport: Transport::Udp,
        size,
        batch: 1,
        receive: Receive::Blocking,
        pace: Pace::Closed,
        duration_ns: MEASURED.as_nanos() as u64,
        warmup_ns: WARMUP.as_nanos() as u64,
    };
    let (client, family, feature) = (Host::Here, Family::V4, Feature::None);
    let trips =
        RoundTrips { client, family, feature, fifo: None, deep: false, sockets: false, echo };
    let seen = hosts.round_trips(&trips, run)?.echoed;
    let wrong = match (&seen.ended, seen.answered, seen.lost) {
        (Some(ended), ..) => Some(ended.clone()),
        (None, 0, _) => Some("no message came back".to_owned()),
        (None, _, 0) => None,
        (None, _, lost) => Some(format!("{lost} messages were lost")),
    };
    match wrong {
        Some(reason) => Err(DeviceError::Broken { device: "our echo".into(), reason }.into()),
        None => Ok([0.5, 0.99].map(|quantile| seen.rtt.0.value_at_quantile(quantile) as f64)),
    }
}

/// The peer's server; the client of each turn is a program of its own.
struct Sockperf {
    address: IpAddr,
    _server: Program,
}

impl Sockperf {
    fn start(hosts: &Hosts) -> Result<Sockperf, BenchError> {
        let address = hosts.address(Host::There, Wire::Plain);
        let mut server = command("sockperf")?;
        server.args(["server", "-i", &address.to_string(), "-p", &PORT.to_string()]);
        let _server = hosts.serve(Host::There, server, Sockets::Udp, PORT)?;
        Ok(Sockperf { address, _server })
    }

    /// p50 and p99 of a turn, nanoseconds.
    fn round_trips(&self, hosts: &Hosts, size: u16) -> Result<[f64; 2], BenchError> {
        let mut client = command("sockperf")?;
        client.args(["ping-pong", "--full-rtt", "-i", &self.address.to_string()]);
        client.args(["-p", &PORT.to_string(), "-m", &size.to_string()]);
        client.args(["-t", &RUN.as_secs().to_string()]);
        let text = hosts.start(Host::Here, client)?.wait(RUN + PATIENCE)?;
        let said = sockperf::read(&text)
            .map_err(|reason| BenchError::Said { program: "sockperf", reason })?;
        Ok([said.p50_ns, said.p99_ns])
    }
}
