//! Our load clients against those of others, each on the core of the bench, asking the same server
//! on another one.
//!
//! The peers run for a second, or for a number of requests, so slices are longer here than those of
//! other rows. Requests are the same on both sides: connections, share of gets, lengths.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use niclab_load::requests::{
    KeyLength, KeySelection, Order, Pace, Protocol, Requested, Requests, Values, fill, run,
};
use niclab_pairing::alternate;
use niclab_peer::Answer;
use tempfile::TempDir;

use crate::servers::{Program, Server, Service};
use crate::{Bench, BenchError, Measured, Slices, alone, median};

/// A slice of ours, and of a peer that counts requests, nanoseconds.
const SLICE_NS: u64 = 400_000_000;
/// Unmeasured start of a slice of ours, nanoseconds.
const WARMUP_NS: u64 = 20_000_000;

/// How long the server stands still in slices that show who tells of it.
const STALL: Duration = Duration::from_millis(100);
/// Length of these slices: the shortest that all peers can do.
const STALLED: Duration = Duration::from_secs(1);
/// How many there are of each side.
const STALLED_COUNT: usize = 3;

/// Which server and which peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPair {
    /// memcached, nine gets and a set, 64-byte keys and values of 1 KiB, beside memcaslap.
    Memcached,
    /// Redis, sets of 64 bytes, so many waiting on each connection, beside redis-benchmark.
    Redis {
        /// Requests that wait on each connection.
        depth: u16,
    },
    /// nginx, a page of five bytes, beside wrk.
    Http,
}

impl ServerPair {
    fn service(self) -> Service {
        match self {
            ServerPair::Memcached => Service::Memcached,
            ServerPair::Redis { .. } => Service::Redis,
            ServerPair::Http => Service::Nginx,
        }
    }

    /// Who does the same.
    pub fn peer(self) -> Program {
        let (name, package) = match self {
            ServerPair::Memcached => ("memcaslap", "libmemcached-tools"),
            ServerPair::Redis { .. } => ("redis-benchmark", "redis-tools"),
            ServerPair::Http => ("wrk", "wrk"),
        };
        Program { name, package }
    }

    fn requests(self) -> Requests {
        let (protocol, get_ratio, key_len, value_len, connections, depth) = match self {
            ServerPair::Memcached => (Protocol::MemcachedTcp, 0.9, 64, 1024, 64, 1),
            ServerPair::Redis { depth } => (Protocol::Redis, 0.0, 16, 64, 50, depth),
            ServerPair::Http => (Protocol::Http, 1.0, 16, 0, 64, 1),
        };
        let length = KeyLength::Fixed(key_len);
        // memcaslap asks for what it has stored itself: a tenth of its requests, so some 2,500 keys
        // in the middle of a slice. redis-benchmark gets their number.
        let count = if self == ServerPair::Memcached { 2_500 } else { 10_000 };
        Requests {
            protocol,
            get_ratio,
            keys: KeySelection { count, order: Order::Uniform, length },
            values: Values::Fixed(value_len),
            path: "/".to_owned(),
            connections,
            depth,
            pace: Pace::Closed,
            duration_ns: SLICE_NS,
            warmup_ns: WARMUP_NS,
            seed: 1,
        }
    }

    /// The arguments with which the peer does the same for a slice, at this rate as far as it
    /// counts requests, or to run for [`STALLED`] and to tell its latencies.
    fn arguments(self, server: SocketAddr, place: &str, requests: u64, stalled: bool) -> String {
        let Requests { connections, depth, .. } = self.requests();
        let port = server.port();
        match self {
            ServerPair::Memcached => {
                let until =
                    if stalled { "-t 1s -S 1s".to_owned() } else { format!("-x {requests}") };
                format!("-s {server} -T 1 -c {connections} -F {place}/memcaslap {until}")
            }
            ServerPair::Redis { .. } => format!(
                "-h 127.0.0.1 -p {port} -c {connections} -P {depth} -t set -d 64 -r 10000 \
                 -n {requests} --csv"
            ),
            ServerPair::Http => {
                format!("-t 1 -c {connections} -d 1s --latency http://{server}/")
            }
        }
    }

    /// The rate that the peer tells, requests a second.
    fn rate(self, said: &str) -> Option<f64> {
        match self {
            ServerPair::Memcached => after(said, "TPS: "),
            ServerPair::Redis { .. } => field(said, "\"rps\""),
            ServerPair::Http => after(said, "Requests/sec:"),
        }
    }

    /// The 99th percentile that the peer tells, milliseconds.
    fn p99_ms(self, said: &str) -> Option<f64> {
        match self {
            ServerPair::Memcached => log2_p99_us(said).map(|us| us / 1e3),
            ServerPair::Redis { .. } => field(said, "\"p99_latency_ms\""),
            ServerPair::Http => {
                let text = said.split_once("99% ")?.1.split_whitespace().next()?;
                let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
                Some(
                    value * [("us", 1e-3), ("ms", 1.0), ("s", 1e3)].iter().find(|u| u.0 == unit)?.1,
                )
            }
        }
    }
}

/// The number behind the last of these words.
fn after(said: &str, words: &str) -> Option<f64> {
    said.rsplit_once(words)?.1.split_whitespace().next()?.parse().ok()
}

/// The number in the last line under the column of this name: values between commas and quotes.
fn field(said: &str, name: &str) -> Option<f64> {
    let mut lines = said.lines().filter(|line| line.starts_with('"'));
    let column = lines.next()?.split(',').position(|one| one == name)?;
    lines.next_back()?.split(',').nth(column)?.trim_matches('"').parse().ok()
}

/// The upper end of the bucket that has the 99th percentile, microseconds: memcaslap's last table
/// counts latencies by their logarithm to the base 2, four to a line.
fn log2_p99_us(said: &str) -> Option<f64> {
    let total = said.rsplit_once("Total Statistics (")?.1;
    let lines = total.split_once("Log2 Dist:")?.1.lines().skip(1);
    let mut buckets: Vec<(i32, u64)> = Vec::new();
    for line in lines {
        let Some((first, counts)) = line.split_once(':') else { break };
        let Ok(first) = first.trim().parse::<i32>() else { break };
        let counts = counts.split_whitespace().map(|count| count.parse().unwrap_or(0));
        buckets.extend((first..).zip(counts));
    }
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let mut below = 0;
    let (log2, _) = buckets.iter().find(|(_, count)| {
        below += count;
        below * 100 >= all * 99
    })?;
    (all > 0).then(|| 2f64.powi(log2 + 1))
}

/// memcaslap's own description of the requests: lengths of keys and values, shares of sets (0) and
/// gets (1).
const MEMCASLAP: &str = "key\n64 64 1\nvalue\n1024 1024 1\ncmd\n0 0.1\n1 0.9\n";

/// The row: how many requests a second one core makes, and who tells of a server that stood still.
pub fn rates(bench: &Bench, application: ServerPair) -> Result<Measured, BenchError> {
    let contest = match Contest::new(application, bench.core) {
        Ok(contest) => contest,
        Err(missing @ BenchError::NotInstalled { .. }) => {
            return Ok(Measured::of(Slices::NotSupported(missing.to_string())));
        }
        Err(error) => return Err(error),
    };
    let ours = || {
        let seen = contest.ask(&contest.requests)?;
        Ok(Answer { ops: seen.answered, ns: seen.duration_ns, rest: Vec::new() })
    };
    if let Err(missing) = application.peer().path() {
        return Ok(Measured::of(Slices::Alone { ours: alone(bench.pairs, ours)?, missing }));
    }
    let rate = median(&alone(3, ours)?).unwrap_or(1.0);
    let count = (rate * SLICE_NS as f64 / 1e9) as u64;
    let theirs = || {
        let rate = contest.told(&contest.tell(count, false)?, |said| application.rate(said))?;
        Ok(Answer { ops: rate as u64, ns: 1_000_000_000, rest: Vec::new() })
    };
    let pairs = alternate(bench.pairs, ours, theirs)?;
    let (ours_ms, theirs_ms) = contest.stalled(rate)?;
    let theirs = if application == ServerPair::Http { ", the peer's of 1 s" } else { "" };
    let slices = format!("slices of {} ms{theirs}", SLICE_NS / 1_000_000);
    let measured = Measured::of(Slices::Paired(pairs)).with(slices);
    Ok(stall_told(measured, application, &ours_ms, &theirs_ms))
}

/// A server that runs, and what both sides need to ask it.
struct Contest {
    application: ServerPair,
    requests: Requests,
    server: Server,
    place: TempDir,
}

impl Contest {
    /// A server on another core than `core`, with every key stored.
    fn new(application: ServerPair, core: usize) -> Result<Contest, BenchError> {
        let server_core = if core == 0 { 1 } else { 0 };
        let server = Server::start(application.service(), server_core)?;
        let place = tempfile::tempdir().map_err(BenchError::Temporary)?;
        let text = place.path().join("memcaslap");
        std::fs::write(text, MEMCASLAP).map_err(BenchError::Temporary)?;
        let requests = application.requests();
        fill(&requests, server.address())?;
        Ok(Contest { application, requests, server, place })
    }

    /// A run of ours, in which no request may fail.
    fn ask(&self, requests: &Requests) -> Result<Requested, BenchError> {
        let seen = run(requests, self.server.address(), &AtomicBool::new(false), || (), None)?;
        let bad = seen.lost + seen.refused + seen.foreign + seen.misses;
        match seen.ended {
            Some(why) => Err(BenchError::Requests(why)),
            None if bad > 0 => {
                Err(BenchError::Requests(format!("{bad} of {} failed", seen.planned)))
            }
            None => Ok(seen),
        }
    }

    /// A run of the peer; what it says.
    fn tell(&self, count: u64, stalled: bool) -> Result<String, BenchError> {
        let (address, place) = (self.server.address(), self.place.path().to_string_lossy());
        let line = self.application.arguments(address, &place, count.max(1), stalled);
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        self.application.peer().run(&arguments)
    }

    /// A figure in what the peer says.
    fn told(&self, said: &str, figure: impl Fn(&str) -> Option<f64>) -> Result<f64, BenchError> {
        figure(said).ok_or_else(|| BenchError::Program {
            program: self.application.peer().name,
            said: format!("no figure in: {said}"),
        })
    }

    /// The 99th percentiles, milliseconds, that both sides tell of runs in which the server stood
    /// still: ours at half of this rate.
    fn stalled(&self, rate: f64) -> Result<(Vec<f64>, Vec<f64>), BenchError> {
        let open = Requests {
            pace: Pace::Open { per_s: rate / 2.0 },
            duration_ns: STALLED.as_nanos() as u64,
            ..self.requests.clone()
        };
        let count = (rate * STALLED.as_secs_f64()) as u64;
        let after = STALLED.mul_f64(0.4);
        let (mut ours_ms, mut theirs_ms) = (Vec::new(), Vec::new());
        for _ in 0..STALLED_COUNT {
            let seen = self.server.stalled(after, STALL, || self.ask(&open))?;
            ours_ms.push(seen.latency.0.value_at_quantile(0.99) as f64 / 1e6);
            let said = self.server.stalled(after, STALL, || self.tell(count, true))?;
            theirs_ms.push(self.told(&said, |said| self.application.p99_ms(said))?);
        }
        Ok((ours_ms, theirs_ms))
    }
}

/// Adds what both sides tell of a server that stood still; the row is missed where ours does not
/// tell of it.
fn stall_told(
    measured: Measured,
    application: ServerPair,
    ours_ms: &[f64],
    theirs_ms: &[f64],
) -> Measured {
    let (ours, theirs) = (median(ours_ms).unwrap_or(0.0), median(theirs_ms).unwrap_or(0.0));
    let peer = application.peer().name;
    let (stall, slice) = (STALL.as_millis(), STALLED.as_secs());
    let (below, how) = match application {
        ServerPair::Memcached => ("below ", ""),
        ServerPair::Redis { .. } => ("", ""),
        // It takes its mean for when requests would have been due (`stats_correct` in its source).
        ServerPair::Http => ("", ", which adds by calculation what it has not asked"),
    };
    // A tenth of all requests were due while it stood still, so the last hundredth of all waited
    // for nine tenths of that.
    let is_seen = ours >= 0.5 * STALL.as_secs_f64() * 1e3;
    let mut measured = measured.with(format!(
        "server stopped for {stall} ms of {slice} s: p99 of ours (open loop, half the rate) \
         {ours:.1} ms, of {peer} {below}{theirs:.1} ms{how}",
    ));
    measured.broken |= !is_seen;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_say_is_read() {
        let slap = "Set Statistics (2 events)\n   Log2 Dist:\n       4:        9        0\n\n\
                    Total Statistics (100 events)\n   Min: 47\n   Log2 Dist:\n       \
                    4:        0        0        8       90\n       8:        1        1\n\n\
                    cmd_get: 68632\n\nRun time: 1.0s Ops: 76292 TPS: 76283 Net_rate: 85.3M/s\n";
        assert_eq!(ServerPair::Memcached.rate(slap), Some(76283.0));
        // 98 of 100 are below 256 us, and the 99th between 256 and 512.
        assert_eq!(ServerPair::Memcached.p99_ms(slap), Some(0.512));
        let redis = ServerPair::Redis { depth: 1 };
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"p99_latency_ms\"\n\
                   \"SET\",\"41753.65\",\"0.879\",\"6.023\"\n";
        assert_eq!((redis.rate(csv), redis.p99_ms(csv)), (Some(41753.65), Some(6.023)));
        let wrk = "     50%  405.00us\n     99%    7.95ms\n  60429 requests in 1.02s\n\
                   Requests/sec:  59235.81\n";
        assert_eq!(
            (ServerPair::Http.rate(wrk), ServerPair::Http.p99_ms(wrk)),
            (Some(59235.81), Some(7.95))
        );
        assert_eq!(ServerPair::Http.p99_ms("  99%  1.50s\n"), Some(1500.0));
        for application in [ServerPair::Memcached, redis, ServerPair::Http] {
            assert_eq!((application.rate("error"), application.p99_ms("error")), (None, None));
        }
    }

    #[test]
    fn a_row_that_hides_a_stall_is_missed() {
        let row = |ours: f64| {
            let single = Measured::of(Slices::Single(Vec::new()));
            let redis = ServerPair::Redis { depth: 1 };
            stall_told(single, redis, &[ours, 1.0, 99.0], &[2.0])
        };
        assert!(!row(90.5).broken && row(4.0).broken);
        let said = "server stopped for 100 ms of 1 s: p99 of ours (open loop, half the rate) \
                    90.5 ms, of redis-benchmark 2.0 ms";
        assert_eq!(row(90.5).notes, [said]);
    }
}
