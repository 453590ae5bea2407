//! The key-value store over sockets of the kernel, beside memcached: a thread of each on the same
//! core, asked for the same by the same client on another one, in turn.
//!
//! Most of the time is the kernel's, on both sides of the loopback, and the client may be as busy
//! as the server: what differs between two servers shows in a ratio of rates by less than it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use niclab_apps::kvs::store::Spread;
use niclab_apps::kvs::transport::{self, ServerError, ServerOptions, Udp};
use niclab_load::requests::{
    KeyLength, KeySelection, Order, Pace, Protocol, Requested, Requests, Values, fill, run,
};
use niclab_pairing::{alternate, in_turn, pin};
use niclab_peer::Answer;

use crate::servers::{Server, Service};
use crate::{Bar, Bench, BenchError, Measured, Slices, Times, alone, median};

/// A slice, and its unmeasured start, nanoseconds.
const SLICE_NS: u64 = 300_000_000;
const WARMUP_NS: u64 = 20_000_000;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPath {
    /// Connections.
    Tcp,
    /// Datagrams, each with memcached's frame header.
    Udp,
}

impl RequestPath {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            RequestPath::Tcp => "TCP",
            RequestPath::Udp => "UDP",
        }
    }

    /// The workload of the key-value store's other rows: keys of 32 B, values of 64 B, nine gets to
    /// a set, of 100,000 keys; each of 64 clients waits for its answer.
    fn requests(self) -> Requests {
        let protocol = match self {
            RequestPath::Tcp => Protocol::MemcachedTcp,
            RequestPath::Udp => Protocol::MemcachedUdp,
        };
        let length = KeyLength::Fixed(32);
        Requests {
            protocol,
            get_ratio: 0.9,
            keys: KeySelection { count: 100_000, order: Order::Uniform, length },
            values: Values::Fixed(64),
            path: "/".to_owned(),
            connections: 64,
            depth: 1,
            pace: Pace::Closed,
            duration_ns: SLICE_NS,
            warmup_ns: WARMUP_NS,
            seed: 1,
        }
    }
}

/// Ours, on a thread of this process. It ends with this value.
struct Ours {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Ours {
    fn start(core: usize) -> Result<Ours, BenchError> {
        let options = ServerOptions {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            udp: Udp::On,
            cores: vec![core as u32],
            partitions: 1,
            spread: Spread::Secret,
            memory_bytes: 512 << 20,
            connections_max: 1024,
            idle_timeout: None,
            buffers_bytes_max: 64 << 20,
        };
        let failed = |error: ServerError| BenchError::Requests(error.to_string());
        let server = transport::Server::bind(options).map_err(failed)?;
        let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
        let serving = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                // The server accepts away from the client's core. The client notices
                // a connection that breaks.
                let _ = pin(core);
                let _ = server.run(&stop);
            }
        });
        Ok(Ours { address, stop, serving: Some(serving) })
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

/// Both servers on one core, with every key stored.
struct Contest {
    ours: Ours,
    theirs: Server,
    requests: Requests,
}

impl Contest {
    fn new(way: RequestPath, core: usize) -> Result<Contest, BenchError> {
        let service = match way {
            RequestPath::Tcp => Service::Memcached,
            RequestPath::Udp => Service::MemcachedUdp,
        };
        let (theirs, ours) = (Server::start(service, core)?, Ours::start(core)?);
        let requests = way.requests();
        for address in [ours.address, theirs.address()] {
            fill(&requests, address)?;
        }
        Ok(Contest { ours, theirs, requests })
    }

    /// A slice of one of them, in which all that is answered is right.
    fn ask(&self, address: SocketAddr, pace: Pace) -> Result<Requested, BenchError> {
        let requests = Requests { pace, ..self.requests.clone() };
        let seen = run(&requests, address, &AtomicBool::new(false), || (), None)?;
        match (&seen.ended, seen.refused + seen.foreign + seen.misses) {
            (Some(why), _) => Err(BenchError::Requests(why.clone())),
            (None, 0) => Ok(seen),
            (None, bad) => Err(BenchError::Requests(format!("{bad} answers are wrong"))),
        }
    }

    /// Answers of a slice of a closed loop.
    fn rate(&self, address: SocketAddr) -> Result<Answer, BenchError> {
        let seen = self.ask(address, Pace::Closed)?;
        Ok(Answer { ops: seen.answered, ns: seen.duration_ns, rest: Vec::new() })
    }

    /// p50 and p99 of a slice of an open loop, nanoseconds.
    fn times(&self, address: SocketAddr, per_s: f64) -> Result<[f64; 2], BenchError> {
        let seen = self.ask(address, Pace::Open { per_s })?;
        Ok([0.5, 0.99].map(|quantile| seen.latency.0.value_at_quantile(quantile) as f64))
    }
}

/// The servers on a core beside the client's; `None` says why there are none.
fn contest(bench: &Bench, way: RequestPath) -> Result<Result<Contest, Measured>, BenchError> {
    let missing = |why: String| Ok(Err(Measured::of(Slices::NotSupported(why))));
    let Some(core) = bench.other else { return missing("two cores".to_owned()) };
    match Contest::new(way, core) {
        Ok(contest) => Ok(Ok(contest)),
        Err(absent @ BenchError::NotInstalled { .. }) => missing(absent.to_string()),
        Err(error) => Err(error),
    }
}

/// The row of rates: closed loops of 64 clients.
///
/// # Errors
/// [`BenchError`]. One core, or no memcached, is no error but [`Slices::NotSupported`].
pub fn rates(bench: &Bench, way: RequestPath) -> Result<Measured, BenchError> {
    let contest = match contest(bench, way)? {
        Ok(contest) => contest,
        Err(measured) => return Ok(measured),
    };
    let (ours, theirs) = (contest.ours.address, contest.theirs.address());
    let pairs = alternate(bench.pairs, || contest.rate(ours), || contest.rate(theirs))?;
    Ok(Measured::of(Slices::Paired(pairs)).with(slices()))
}

/// The row of latencies: open loops, both at half of what memcached answers at most.
///
/// # Errors
/// As of [`rates`].
pub fn latencies(bench: &Bench, way: RequestPath) -> Result<Measured, BenchError> {
    let contest = match contest(bench, way)? {
        Ok(contest) => contest,
        Err(measured) => return Ok(measured),
    };
    let (ours, theirs) = (contest.ours.address, contest.theirs.address());
    let per_s = median(&alone(5, || contest.rate(theirs))?).unwrap_or(0.0) / 2.0;
    let turns =
        in_turn(bench.pairs, || contest.times(ours, per_s), || contest.times(theirs, per_s))?;
    let times = |what, at: usize| Times {
        what,
        ours_ns: turns.iter().map(|[ours, _]| ours[at]).collect(),
        theirs_ns: turns.iter().map(|[_, theirs]| theirs[at]).collect(),
        bar: Bar::NoLonger,
    };
    let all = Slices::Times(vec![times("p50", 0), times("p99", 1)]);
    let note =
        format!("an open loop of {per_s:.0} requests a second, counted from when each is due");
    Ok(Measured::of(all).with(note).with(slices()))
}

fn slices() -> String {
    format!("slices of {} ms", Duration::from_nanos(SLICE_NS).as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_asked_for_the_same_and_answer_it() {
        for way in [RequestPath::Tcp, RequestPath::Udp] {
            let bench = Bench { core: 0, other: Some(1), pairs: 2, ..Bench::default() };
            let contest = match contest(&bench, way).unwrap() {
                Ok(contest) => contest,
                Err(measured) => {
                    println!("SKIP both_are_asked_for_the_same_and_answer_it: {measured:?}");
                    return;
                }
            };
            for address in [contest.ours.address, contest.theirs.address()] {
                assert!(contest.rate(address).unwrap().ops > 0, "{way:?}");
                let [p50, p99] = contest.times(address, 1_000.0).unwrap();
                assert!(0.0 < p50 && p50 <= p99, "{way:?}");
            }
        }
    }

    #[test]
    fn a_machine_of_one_core_is_reported() {
        let bench = Bench { other: None, ..Bench::default() };
        for measured in [rates(&bench, RequestPath::Tcp), latencies(&bench, RequestPath::Udp)] {
            assert!(matches!(measured.unwrap().slices, Slices::NotSupported(_)));
        }
    }
}
