//! The bar: our code against peers, row by row.
//!
//! A [`Row`] says what is measured, against which peer, and the [`Goal`]. It is decided by pairs
//! of slices in turn (`niclab-pairing`): met where the whole interval of the median ratio reaches
//! the goal and our median rate reaches the floor. Where the peer is not built our rate is measured
//! alone, and nothing is decided. This crate prints nothing.
#![forbid(unsafe_code)]

pub mod exact;
pub mod generator;
pub mod insert;
pub mod keys;
pub mod rss;

use std::path::PathBuf;

use niclab_load::LoadError;
use niclab_nic::toeplitz::ToeplitzError;
use niclab_nic::{NicError, RuleError};
use niclab_pairing::{
    Answer, Interval, PAIRS_MIN, PairingError, Pairs, Peer, alternate, median_interval,
};
use niclab_table::{CreateError, InsertError};

use crate::insert::Room;

/// How to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bench {
    /// The core that both sides take in turn.
    pub core: usize,
    /// Pairs of slices; [`PAIRS_MIN`] decide a row, fewer do not.
    pub pairs: usize,
    /// Where the peers are that `benches/peers/build` made.
    pub peers: PathBuf,
    /// Length of a slice, milliseconds; at most [`niclab_pairing::SLICE_MS_MAX`].
    pub slice_ms: u64,
}

impl Default for Bench {
    fn default() -> Bench {
        let peers = PathBuf::from("target/peers");
        Bench { core: 1, pairs: PAIRS_MIN + 1, peers, slice_ms: 25 }
    }
}

impl Bench {
    /// Keeps this thread on the core of this bench.
    pub fn pin(&self) -> Result<(), BenchError> {
        Ok(niclab_pairing::pin(self.core)?)
    }

    /// Starts a peer on the core of this bench.
    pub fn peer(&self, program: &'static str, arguments: &[&str]) -> Result<Peer, BenchError> {
        let path = self.peers.join(program);
        if !path.is_file() {
            return Err(BenchError::NotBuilt { program });
        }
        let core = self.core.to_string();
        Ok(Peer::spawn(&path, &[&[core.as_str()], arguments].concat())?)
    }

    /// Measures `count` pairs of slices, or as many of ours alone where the peer is not built.
    fn compare(
        &self,
        count: usize,
        peer: Result<Peer, BenchError>,
        ours: impl FnMut() -> Result<Answer, BenchError>,
        mut theirs: impl FnMut(&mut Peer) -> Result<Answer, BenchError>,
    ) -> Result<Measured, BenchError> {
        match peer {
            Ok(mut peer) => alternate(count, ours, || theirs(&mut peer)).map(Measured::Paired),
            Err(missing @ BenchError::NotBuilt { .. }) => {
                Ok(Measured::Alone { ours: alone(count, ours)?, missing })
            }
            Err(error) => Err(error),
        }
    }
}

/// Runs `count` slices of ours, after one that warms up and does not count; gives their rates,
/// operations per second.
pub fn alone(
    count: usize,
    mut ours: impl FnMut() -> Result<Answer, BenchError>,
) -> Result<Vec<f64>, BenchError> {
    ours()?;
    (0..count).map(|_| Ok(ours()?.rate())).collect()
}

/// Returns the median of rates, `None` for fewer than have an interval.
pub fn median(rates: &[f64]) -> Option<f64> {
    Some(median_interval(rates)?.median)
}

/// The slices of a row.
#[derive(Debug)]
pub enum Measured {
    /// Our rates, operations per second: there is no peer.
    Alone {
        /// One rate a slice.
        ours: Vec<f64>,
        /// Why there is no peer.
        missing: BenchError,
    },
    /// Ours and the peer's.
    Paired(Pairs),
}

/// Why a row was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A load of ours was refused.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A look-up went wrong.
    #[error("{hits} hits in {lookups} look-ups, {expected} expected")]
    Hits {
        /// Counted.
        hits: u64,
        /// Should have been.
        expected: u64,
        /// Done.
        lookups: u64,
    },
    /// A rule was refused.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// A card could not be made.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// There is nothing to compare with.
    #[error("{program} is not built; build with benches/peers/build")]
    NotBuilt {
        /// The peer.
        program: &'static str,
    },
    /// The peer failed, or disagrees.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// A rule was refused.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A table could not be made.
    #[error(transparent)]
    Table(#[from] CreateError),
    /// A hash could not be made.
    #[error(transparent)]
    Toeplitz(#[from] ToeplitzError),
}

/// What would be good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Our rate over the peer's.
    pub ratio: f64,
    /// Our own rate, operations per second; 0 where there is no such goal.
    pub floor: f64,
}

/// What a row came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Median of our rate, operations per second.
    pub ours: f64,
    /// Median of the peer's rate.
    pub theirs: f64,
    /// Median of the paired ratios.
    pub ratio: Interval,
    /// Pairs measured.
    pub pairs: usize,
}

/// Whether a goal is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is beyond the goal, and our median beyond the floor.
    Met,
    /// It is not.
    Missed,
    /// Too few pairs for a verdict.
    Undecided,
}

impl Figures {
    /// Returns the medians of `pairs`, `None` for fewer than have an interval.
    pub fn new(pairs: &Pairs) -> Option<Figures> {
        Some(Figures {
            ours: median(&pairs.ours)?,
            theirs: median(&pairs.theirs)?,
            ratio: median_interval(&pairs.ratios())?,
            pairs: pairs.ours.len(),
        })
    }

    /// Decides the row.
    pub fn verdict(&self, goal: &Goal) -> Verdict {
        if self.pairs < PAIRS_MIN {
            return Verdict::Undecided;
        }
        match self.ratio.low >= goal.ratio && self.ours >= goal.floor {
            true => Verdict::Met,
            false => Verdict::Missed,
        }
    }
}

/// What can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Look-ups in the exact-match table.
    Exact,
    /// The generator.
    Generator,
    /// New keys and new rules.
    Insert,
    /// Receive-side scaling.
    Rss,
}

/// One row of the bar.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// What it belongs to.
    pub subject: Subject,
    /// What is done.
    pub what: &'static str,
    /// Who does the same.
    pub peer: &'static str,
    /// What would be good enough.
    pub goal: Goal,
    measure: fn(&Bench) -> Result<Measured, BenchError>,
}

impl Row {
    /// Measures this row on the core this thread is kept on; see [`Bench::pin`].
    pub fn measure(&self, bench: &Bench) -> Result<Measured, BenchError> {
        (self.measure)(bench)
    }
}

/// The rows, in the order of the bar.
pub const ROWS: &[Row] = &[
    Row {
        subject: Subject::Exact,
        what: "exact match, 64 k entries",
        peer: "rte_hash bulk",
        goal: Goal { ratio: 3.0, floor: 60e6 },
        measure: |bench| exact::hits(bench, 65_536),
    },
    Row {
        subject: Subject::Exact,
        what: "exact match, 1 M entries",
        peer: "rte_hash bulk",
        goal: Goal { ratio: 3.0, floor: 30e6 },
        measure: |bench| exact::hits(bench, 1_000_000),
    },
    Row {
        subject: Subject::Insert,
        what: "insert, 1 M keys",
        peer: "rte_hash add",
        goal: Goal { ratio: 2.0, floor: 0.0 },
        measure: |bench| insert::keys(bench, 1_000_000, Room::Reserved),
    },
    Row {
        subject: Subject::Insert,
        what: "insert, 1 M rules",
        peer: "rte_hash add",
        goal: Goal { ratio: 2.0, floor: 5e6 },
        measure: |bench| insert::rules(bench, 1_000_000),
    },
    Row {
        subject: Subject::Rss,
        what: "RSS hash, 12-byte tuples",
        peer: "rte_softrss_be",
        goal: Goal { ratio: 30.0, floor: 0.0 },
        measure: rss::best,
    },
    Row {
        subject: Subject::Generator,
        what: "generator, 10 k flows, 64 B",
        peer: "testpmd flowgen",
        goal: Goal { ratio: 4.0, floor: 0.0 },
        measure: |bench| generator::saturated(bench, 10_000),
    },
];

/// Checks what our side did before it counts.
fn expect_hits(hits: u64, expected: u64, answer: Answer) -> Result<Answer, BenchError> {
    match hits == expected {
        true => Ok(answer),
        false => Err(BenchError::Hits { hits, expected, lookups: answer.ops }),
    }
}

#[cfg(test)]
mod tests;
