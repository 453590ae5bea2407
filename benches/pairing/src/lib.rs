//! Paired benchmarks: our code and a peer program in turn on one core.
//!
//! A figure is a ratio measured in pairs of slices, ours and the peer's one after the other, so
//! that a noisy machine troubles both. Nothing is dropped: the median bears what outliers do.

#![forbid(unsafe_code)]

mod statistics;

use std::time::{Duration, Instant};

use niclab_peer::{Answer, PeerError};

pub use statistics::{Interval, median_interval};

/// Fewest pairs that decide a bar.
pub const PAIRS_MIN: usize = 30;

/// Longest slice of a pair, in milliseconds.
pub const SLICE_MS_MAX: u64 = 50;

/// Why a paired benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    /// Both sides must give the same results for their speeds to be compared.
    #[error("peer {peer} computed {theirs:#018x} where we have {ours:#018x}: not the same work")]
    Checksum {
        /// The program.
        peer: String,
        /// Our checksum.
        ours: u64,
        /// The peer's checksum.
        theirs: u64,
    },
    /// A peer failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// This thread cannot be kept on a core.
    #[error("pin to core {core}: {source}")]
    Pin {
        /// The core.
        core: usize,
        /// Why not.
        source: std::io::Error,
    },
}

/// The paired slices of one comparison.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    /// Our rate in each pair, operations per second.
    pub ours: Vec<f64>,
    /// The peer's rate in each pair.
    pub theirs: Vec<f64>,
}

impl Pairs {
    /// Returns our rate over the peer's in each pair.
    pub fn ratios(&self) -> Vec<f64> {
        self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect()
    }
}

/// Runs `count` pairs of turns, ours and theirs, the side that begins swapped from pair to pair,
/// after one of each that warms up and does not count.
pub fn in_turn<T, E>(
    count: usize,
    mut ours: impl FnMut() -> Result<T, E>,
    mut theirs: impl FnMut() -> Result<T, E>,
) -> Result<Vec<[T; 2]>, E> {
    ours()?;
    theirs()?;
    let pair = |pair: usize| {
        if pair.is_multiple_of(2) {
            let our_turn = ours()?;
            Ok([our_turn, theirs()?])
        } else {
            let their_turn = theirs()?;
            Ok([ours()?, their_turn])
        }
    };
    (0..count).map(pair).collect()
}

/// The rates of `count` pairs of slices [in turn](in_turn).
pub fn alternate<E>(
    count: usize,
    ours: impl FnMut() -> Result<Answer, E>,
    theirs: impl FnMut() -> Result<Answer, E>,
) -> Result<Pairs, E> {
    let mut pairs = Pairs::default();
    for [ours, theirs] in in_turn(count, ours, theirs)? {
        pairs.ours.push(ours.rate());
        pairs.theirs.push(theirs.rate());
    }
    Ok(pairs)
}

/// Repeats `work`, which returns its operations, until `ms` milliseconds have passed. The clock is
/// read once per call: let a call do some ten microseconds of work.
pub fn slice(ms: u64, mut work: impl FnMut() -> u64) -> Answer {
    let slice = Duration::from_millis(ms);
    let mut ops = 0;
    let start = Instant::now();
    loop {
        ops += work();
        let elapsed = start.elapsed();
        if elapsed >= slice {
            return Answer { ops, ns: elapsed.as_nanos() as u64, rest: Vec::new() };
        }
    }
}

/// Keeps this thread, and what it spawns from now on, on `core`.
pub fn pin(core: usize) -> Result<(), PairingError> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores)
        .map_err(|error| PairingError::Pin { core, source: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer<E>(ops: u64) -> Result<Answer, E> {
        Ok(Answer { ops, ns: 1_000_000_000, rest: Vec::new() })
    }

    #[test]
    fn sides_take_turns_to_begin() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name, ops| {
            order.borrow_mut().push(name);
            answer(ops)
        };
        let pairs: Result<Pairs, PairingError> = alternate(3, || side('o', 60), || side('p', 20));
        let pairs = pairs.unwrap();
        assert_eq!(order.into_inner(), "opoppoop");
        assert_eq!(pairs.ratios(), [3.0, 3.0, 3.0]);
    }

    #[test]
    fn an_error_ends_the_comparison() {
        let refuse = || -> Result<Answer, PairingError> {
            Err(PairingError::Checksum { peer: "p".into(), ours: 1, theirs: 2 })
        };
        let error = alternate(3, || answer(1), refuse).unwrap_err();
        assert_eq!(
            error.to_string(),
            "peer p computed 0x0000000000000002 where we have 0x0000000000000001: \
             not the same work"
        );
    }

    #[test]
    fn a_slice_lasts_as_long_as_asked() {
        let mut calls = 0;
        let answer = slice(5, || {
            calls += 1;
            7
        });
        assert!(answer.ns >= 5_000_000);
        assert_eq!(answer.ops, 7 * calls);
    }
}
