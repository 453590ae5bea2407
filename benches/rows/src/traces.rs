//! Miss ratios of a full store: seeded traces of requests, for our store and for memcached.
//!
//! The client uses the store as a look-aside cache: it reads a key, and stores the value when the
//! key is missing. Misses count in the second half of a trace, when the store has long been full. A
//! trace depends on its seed alone, so that both stores get the same requests.
//!
//! ```
//! use niclab_bench::traces::{ALL, Ours, replay};
//! let trace = ALL[0].scaled(100);
//! let missed = replay(&trace, &mut Ours::new(1 << 20)?)?;
//! assert!(missed.requests > 0.0 && missed.requests < 1.0);
//! # Ok::<(), niclab_bench::BenchError>(())
//! ```

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use niclab_apps::kvs::codec::context::Context;
use niclab_apps::kvs::codec::session::{Next, Session};
use niclab_apps::kvs::protocol::time::UnixTime;
use niclab_apps::kvs::store::Store;

use crate::BenchError;

/// Memory of each store, bytes: memcached's default.
pub const MEMORY_BYTES: usize = 64 << 20;

/// Exponent of Zipf's law: the key of rank k is asked for in proportion to `1 / k^EXPONENT`.
const EXPONENT: f64 = 0.99;

/// Time that a store has until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// The distribution of value lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The logarithm is uniform, from 1 B to 64 KiB.
    LogUniform,
    /// Uniform, from 16 B to 1 KiB.
    Uniform,
}

/// A sequence of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trace {
    /// Name in the output.
    pub name: &'static str,
    /// Keys that are requested again and again, by Zipf's law.
    pub keys: usize,
    /// Requests.
    pub requests: usize,
    /// Lengths of values. All values of a key have the same length.
    pub sizes: Sizes,
    /// Percentage of requests whose key is requested once.
    pub once_percent: u64,
    /// In the second half, other keys are requested, with these lengths of values.
    pub then: Option<Sizes>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The traces of the bar.
pub const ALL: [Trace; 4] = [
    Trace { name: "log-uniform sizes", ..BASE },
    Trace { name: "uniform sizes", sizes: Sizes::Uniform, keys: 400_000, ..BASE },
    Trace { name: "a fifth asked once", once_percent: 20, ..BASE },
    Trace {
        name: "sizes that change",
        keys: 200_000,
        sizes: Sizes::Uniform,
        then: Some(Sizes::LogUniform),
        ..BASE
    },
];

const BASE: Trace = Trace {
    name: "",
    keys: 50_000,
    requests: 6_000_000,
    sizes: Sizes::LogUniform,
    once_percent: 0,
    then: None,
    seed: 1,
};

/// Number of the first of the other keys.
const OTHERS: u64 = 50_000_000;

/// A request: the number of its key, and the length of its value in bytes.
type TraceRequest = (u64, usize);

impl Trace {
    /// The same trace with its keys and requests divided by `by`.
    pub fn scaled(&self, by: usize) -> Trace {
        Trace { keys: self.keys / by, requests: self.requests / by, ..*self }
    }

    /// All requests.
    pub fn draw(&self) -> impl Iterator<Item = TraceRequest> {
        let shares = (1..=self.keys).scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-EXPONENT);
            Some(*sum)
        });
        let (shares, trace): (Vec<f64>, Trace) = (shares.collect(), *self);
        (0..self.requests).map(move |at| {
            let drawn = mixed(trace.seed ^ mixed(at as u64));
            let (coin, drawn) = (drawn % 100, (drawn >> 11) as f64 / (1_u64 << 53) as f64);
            let wanted = drawn * shares.last().copied().unwrap_or(0.0);
            let key = match coin < trace.once_percent {
                true => (trace.keys + at) as u64,
                false => shares.partition_point(|sum| *sum <= wanted) as u64,
            };
            match trace.then.filter(|_| at >= trace.requests / 2) {
                Some(sizes) => (key + OTHERS, trace.len_of(sizes, key + OTHERS)),
                None => (key, trace.len_of(trace.sizes, key)),
            }
        })
    }

    /// Length of a key's value.
    fn len_of(&self, sizes: Sizes, key: u64) -> usize {
        let drawn = mixed(mixed(self.seed ^ 1 << 32) ^ key);
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        match sizes {
            Sizes::LogUniform => f64::from(1 << 16).powf(share).round() as usize,
            Sizes::Uniform => 16 + (share * 1009.0) as usize,
        }
    }
}

/// The bits of a number, mixed: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A store under test.
pub trait Cache {
    /// Whether a key is there.
    ///
    /// # Errors
    /// [`BenchError`]: the store does not answer, or answers otherwise than memcached.
    fn get(&mut self, key: &str) -> Result<bool, BenchError>;

    /// Stores a value of this length.
    ///
    /// # Errors
    /// As of [`get`](Cache::get).
    fn set(&mut self, key: &str, len: usize) -> Result<(), BenchError>;
}

/// Miss ratios of the second half.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Missed {
    /// Misses per request.
    pub requests: f64,
    /// Bytes of the values that missed, per byte requested.
    pub bytes: f64,
}

/// Sends all requests of a trace to a store.
///
/// # Errors
/// As of [`Cache`].
pub fn replay(trace: &Trace, cache: &mut impl Cache) -> Result<Missed, BenchError> {
    let (mut asked, mut missed, mut name) = ((0, 0), (0, 0), String::new());
    for (at, (key, len)) in trace.draw().enumerate() {
        name.clear();
        let _ = write!(name, "key-{key:08}");
        let is_there = cache.get(&name)?;
        if !is_there {
            cache.set(&name, len)?;
        }
        if at >= trace.requests / 2 {
            let add = |(count, bytes): (u64, u64)| (count + 1, bytes + len as u64);
            asked = add(asked);
            missed = if is_there { missed } else { add(missed) };
        }
    }
    let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
    Ok(Missed { requests: share(missed.0, asked.0), bytes: share(missed.1, asked.1) })
}

/// Our store, in this process, over its text protocol. Its clock goes on by a second with each
/// million requests.
#[derive(Debug)]
pub struct Ours {
    store: Store,
    session: Session,
    said: Vec<u8>,
    out: Vec<u8>,
    asked: u32,
}

/// An answer that our store never gives.
fn said(said: String) -> BenchError {
    BenchError::Program { program: "the store", said }
}

impl Ours {
    /// An empty one, of one partition, as on one core.
    ///
    /// # Errors
    /// [`BenchError`]: too little memory.
    pub fn new(memory_bytes: usize) -> Result<Ours, BenchError> {
        let store = Store::new(memory_bytes, 1, 1).map_err(|error| said(error.to_string()))?;
        let (session, said, out) = Default::default();
        Ok(Ours { store, session, said, out, asked: 0 })
    }

    fn serve(&mut self) -> Result<(), BenchError> {
        self.out.clear();
        let now = UnixTime(1_000_000 + self.asked / 1_000_000);
        let context = Context { store: &self.store, now, host: &() };
        let progress = self.session.serve(&self.said, &mut self.out, usize::MAX, &context);
        match progress.next == Next::Input(1) && progress.used == self.said.len() {
            true => Ok(()),
            false => Err(said(format!("{progress:?}"))),
        }
    }
}

impl Cache for Ours {
    fn get(&mut self, key: &str) -> Result<bool, BenchError> {
        self.asked += 1;
        self.said.clear();
        self.said.extend_from_slice(format!("get {key}\r\n").as_bytes());
        self.serve()?;
        Ok(self.out.starts_with(b"VALUE "))
    }

    fn set(&mut self, key: &str, len: usize) -> Result<(), BenchError> {
        self.said.clear();
        set_to(&mut self.said, key, len);
        self.serve()
    }
}

/// Adds a request to store that nobody answers.
fn set_to(said: &mut Vec<u8>, key: &str, len: usize) {
    said.extend_from_slice(format!("set {key} 0 0 {len} noreply\r\n").as_bytes());
    said.resize(said.len() + len, b'v');
    said.extend_from_slice(b"\r\n");
}

/// A memcached with default settings over a Unix socket. It is killed when the value is dropped.
#[derive(Debug)]
pub struct Memcached {
    child: Child,
    stream: BufReader<UnixStream>,
    said: Vec<u8>,
    value: Vec<u8>,
}

impl Memcached {
    /// Starts memcached with so many MiB and its socket in this directory; `None` where memcached
    /// is not installed.
    ///
    /// # Errors
    /// [`BenchError`]: memcached does not start.
    pub fn start(directory: &Path, memory_mib: usize) -> Result<Option<Memcached>, BenchError> {
        let socket = directory.join("memcached");
        let mut command = Command::new("memcached");
        command.args(["-u", "nobody", "-a", "0777", "-m", &memory_mib.to_string()]);
        command.arg("-s").arg(&socket).stderr(Stdio::null());
        let mut child = match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(broken)?,
        };
        let start = Instant::now();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() < PATIENCE => sleep(Duration::from_millis(10)),
                Err(error) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(broken(error));
                }
            }
        };
        let (said, value) = Default::default();
        Ok(Some(Memcached { child, stream: BufReader::new(stream), said, value }))
    }
}

fn broken(error: io::Error) -> BenchError {
    BenchError::Program { program: "memcached", said: error.to_string() }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cache for Memcached {
    fn get(&mut self, key: &str) -> Result<bool, BenchError> {
        self.said.extend_from_slice(format!("get {key}\r\n").as_bytes());
        self.stream.get_mut().write_all(&self.said).map_err(broken)?;
        self.said.clear();
        let mut line = String::new();
        self.stream.read_line(&mut line).map_err(broken)?;
        if line == "END\r\n" {
            return Ok(false);
        }
        let reason = || format!("{line:?} to a get");
        let strange = || BenchError::Said { program: "memcached", reason: reason() };
        let len = line.strip_prefix("VALUE ").and_then(|rest| rest.trim_end().rsplit(' ').next());
        let len: usize = len.and_then(|len| len.parse().ok()).ok_or_else(strange)?;
        // The value, its end, and the line behind the last.
        self.value.resize(len + 2 + 5, 0);
        self.stream.read_exact(&mut self.value).map_err(broken)?;
        match self.value.ends_with(b"\r\nEND\r\n") {
            true => Ok(true),
            false => Err(strange()),
        }
    }

    fn set(&mut self, key: &str, len: usize) -> Result<(), BenchError> {
        // It leaves with the next question.
        set_to(&mut self.said, key, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traces and memory are smaller than those of the bar by this factor.
    const SCALE: usize = 20;

    /// Highest percentages of requests and bytes that may miss. An eviction that ignored the length
    /// of items missed 29, 24, 49 and 48 % of the requests.
    const MOST: [(&str, f64, f64); 4] = [
        ("log-uniform sizes", 13.0, 27.5),
        ("uniform sizes", 21.0, 22.5),
        ("a fifth asked once", 34.0, 44.0),
        ("sizes that change", 31.0, 32.0),
    ];

    #[test]
    fn few_requests_miss_in_a_store_that_is_full() {
        for (trace, (name, requests, bytes)) in ALL.iter().zip(MOST) {
            assert_eq!(trace.name, name);
            let trace = trace.scaled(SCALE);
            let missed = replay(&trace, &mut Ours::new(MEMORY_BYTES / SCALE).unwrap()).unwrap();
            let is_low = 100.0 * missed.requests <= requests && 100.0 * missed.bytes <= bytes;
            println!("{name}: {missed:?}");
            assert!(is_low, "{name}: {missed:?}");
        }
    }

    #[test]
    fn a_trace_is_what_it_says() {
        let trace = ALL[2].scaled(100);
        let (drawn, again): (Vec<_>, Vec<_>) = (trace.draw().collect(), trace.draw().collect());
        assert_eq!(drawn.len(), trace.requests);
        assert_eq!(drawn, again, "the same whenever it is drawn");
        let once = drawn.iter().filter(|(key, _)| *key >= trace.keys as u64).count();
        let share = once as f64 / drawn.len() as f64;
        assert!((0.19..0.21).contains(&share), "{share}");
        let most = drawn.iter().filter(|(key, _)| *key == 0).count() as f64;
        let tenth = drawn.iter().filter(|(key, _)| *key == 9).count() as f64;
        assert!((7.0..14.0).contains(&(most / tenth)), "Zipf's law: {most} and {tenth}");
        let short = drawn.iter().filter(|(key, len)| *key < 500 && *len < 256).count();
        assert!(drawn.iter().all(|(_, len)| (1..=65_536).contains(len)) && short > 0);
        let changed: Vec<_> = ALL[3].scaled(100).draw().collect();
        let (before, behind) = changed.split_at(changed.len() / 2);
        assert!(before.iter().all(|(_, len)| (16..=1_024).contains(len)));
        assert!(behind.iter().any(|(_, len)| *len > 1_024));
    }

    #[test]
    fn memcached_is_asked_the_same() {
        let directory = tempfile::tempdir().unwrap();
        use std::os::unix::fs::PermissionsExt;
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let Some(mut memcached) = Memcached::start(directory.path(), 64).unwrap() else {
            println!("SKIP memcached_is_asked_the_same: needs memcached (apt-get install it)");
            return;
        };
        // Nothing is evicted: only the first request for a key misses.
        let trace = ALL[1].scaled(200);
        let theirs = replay(&trace, &mut memcached).unwrap();
        assert_eq!(theirs, replay(&trace, &mut Ours::new(64 << 20).unwrap()).unwrap());
        assert!(theirs.requests > 0.0 && theirs.requests < 0.2, "{theirs:?}");
    }
}
