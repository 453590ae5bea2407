//! The bar: our code against peers, row by row.
//!
//! A [`Row`] says what is measured, against which peer, and the [`Goal`]. It is decided by pairs
//! of slices in turn (`niclab-pairing`): met where the whole interval of the median ratio reaches
//! the goal and our median rate reaches the floor. The peer of some rows is the same code without
//! what the row is about. Where the peer is not built our rate is measured alone, and nothing is
//! decided; a row that has no peer is decided by its floor. `command` alone prints.
#![forbid(unsafe_code)]

pub mod acl;
pub mod beside;
mod calm;
pub mod chain;
pub mod command;
pub mod echo;
pub mod entries;
pub mod exact;
pub mod forward;
pub mod frames;
pub mod generator;
pub mod insert;
pub mod keys;
pub mod kvs;
pub mod modify;
pub mod pipeline;
pub mod prefixes;
mod program;
pub mod requests;
mod row;
pub mod rss;
pub mod scaling;
pub mod servers;
pub mod sets;
pub mod sheet;
pub mod sockperf;
pub mod stores;
pub mod stream;
pub mod ternary;
mod times;
pub mod traces;
pub mod update;

use std::path::PathBuf;

use niclab_device::DeviceError;
use niclab_load::LoadError;
use niclab_nic::memory::MemoryError;
use niclab_nic::toeplitz::ToeplitzError;
use niclab_nic::{NicError, RuleError};
use niclab_packet::BuildError;
use niclab_packet::trace::TraceError;
use niclab_pairing::{Interval, PAIRS_MIN, PairingError, alternate, median_interval};
use niclab_peer::{Answer, Peer, PeerError};
use niclab_table::{CreateError, InsertError};

pub use niclab_pairing::Pairs;
pub use row::{ACL_GOAL, Row, Subject, rows};
pub use times::{Bar, Times};

/// How to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bench {
    /// The core that both sides take in turn.
    pub core: usize,
    /// A core besides, of rows on two hosts; they are not measured without.
    pub other: Option<usize>,
    /// Pairs of slices; [`PAIRS_MIN`] decide a row, fewer do not.
    pub pairs: usize,
    /// Where the peers are that `benches/peers/build` made.
    pub peers: PathBuf,
    /// Length of a slice, milliseconds; at most [`niclab_pairing::SLICE_MS_MAX`].
    pub slice_ms: u64,
}

impl Default for Bench {
    fn default() -> Bench {
        let peers = niclab_peer::peers();
        Bench { core: 1, other: Some(0), pairs: PAIRS_MIN + 1, peers, slice_ms: 25 }
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
        Ok(Measured::of(match peer {
            Ok(mut peer) => Slices::Paired(alternate(count, ours, || theirs(&mut peer))?),
            Err(missing @ BenchError::NotBuilt { .. }) => {
                Slices::Alone { ours: alone(count, ours)?, missing }
            }
            Err(error) => return Err(error),
        }))
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

/// Returns the median of rates; `None` without one.
pub fn median(rates: &[f64]) -> Option<f64> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0)
}

/// What a row gave.
#[derive(Debug)]
pub struct Measured {
    /// Its slices.
    pub slices: Slices,
    /// What else there is to say of them, a line each.
    pub notes: Vec<String>,
    /// Whether it missed its goal whatever the rates say; a note says why.
    pub broken: bool,
}

impl Measured {
    fn of(slices: Slices) -> Measured {
        Measured { slices, notes: Vec::new(), broken: false }
    }

    fn with(mut self, note: String) -> Measured {
        self.notes.push(note);
        self
    }
}

/// The slices of a row.
#[derive(Debug)]
pub enum Slices {
    /// Our rates, operations per second: the peer is not there.
    Alone {
        /// One rate a slice.
        ours: Vec<f64>,
        /// Why there is no peer.
        missing: BenchError,
    },
    /// The card refuses what the row asks for; why.
    NotSupported(String),
    /// Ours and the peer's.
    Paired(Pairs),
    /// Times of ours and of the peer's, a figure each.
    Times(Vec<Times>),
    /// Our rates, operations per second, in a row without a peer.
    Single(Vec<f64>),
}

/// Why a row was not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The frames could not be written for a peer.
    #[error("a capture of the frames: {0}")]
    Capture(#[from] TraceError),
    /// Both sides counted packets of a rule, and not the same.
    #[error("rule {rule}: we counted {ours} packets, the peer {theirs}: not the same work")]
    Counts {
        /// Which rule, from 0.
        rule: usize,
        /// Our count.
        ours: u64,
        /// The peer's.
        theirs: u64,
    },
    /// A program could not be started, or two hosts could not do what was asked.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A set of rules cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Both sides let a frame leave, and not in the same way.
    #[error("a frame leaves us as `{ours}`, the peer as `{theirs}`: not the same work")]
    Frames {
        /// Number, port and bytes.
        ours: String,
        /// The same.
        theirs: String,
    },
    /// A frame could not be made.
    #[error(transparent)]
    Frame(#[from] BuildError),
    /// A line that is no rule.
    #[error("{}:{number}: no rule as ClassBench writes them: {text}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        number: usize,
        /// What stands there.
        text: String,
    },
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
    /// Frame memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A card could not be made.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// There is nothing to compare with.
    #[error("{program} is not built; build with benches/peers/build")]
    NotBuilt {
        /// The peer.
        program: &'static str,
    },
    /// A program is not there.
    #[error("{program} is not installed: apt-get install {package}")]
    NotInstalled {
        /// The program.
        program: &'static str,
        /// What has it.
        package: &'static str,
    },
    /// The peer disagrees, or a pair could not be run.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// The peer failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// A program of others failed.
    #[error("{program}: {said}")]
    Program {
        /// Which.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// A program of ours cannot be read.
    #[error(transparent)]
    Text(#[from] niclab_nic::text::TextError),
    /// An entry of ours was refused.
    #[error(transparent)]
    Entry(#[from] niclab_program::ChangeError),
    /// A load client of ours was refused, or what it asked for failed.
    #[error("requests: {0}")]
    Requests(String),
    /// A rule was refused.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// Both sides found rules for a packet, and not the same.
    #[error("packet {packet}: we found rule {ours}, the peer {theirs}: not the same work")]
    Rules {
        /// Which packet.
        packet: usize,
        /// Number of our rule, from 1.
        ours: u32,
        /// Number of the peer's, from 1; 0 for none.
        theirs: u32,
    },
    /// A program of others did not say what was expected.
    #[error("{program} said: {reason}; its version is another, or it could not measure")]
    Said {
        /// The program.
        program: &'static str,
        /// What is missing or wrong.
        reason: String,
    },
    /// A table could not be made.
    #[error(transparent)]
    Table(#[from] CreateError),
    /// A temporary file could not be made or written; `TMPDIR` names another place for it.
    #[error("a temporary file (TMPDIR names another place for it): {0}")]
    Temporary(std::io::Error),
    /// A reader was shown what no rule ever said.
    #[error("{torn} of {looked} look-ups gave what their rule never said")]
    Torn {
        /// So many look-ups.
        torn: u64,
        /// Of so many.
        looked: u64,
    },
    /// A hash could not be made.
    #[error(transparent)]
    Toeplitz(#[from] ToeplitzError),
}

impl From<niclab_load::requests::RequestsError> for BenchError {
    fn from(error: niclab_load::requests::RequestsError) -> BenchError {
        BenchError::Requests(error.to_string())
    }
}

/// What would be good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Our rate over the peer's; 0 where there is no such goal.
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
pub enum GoalVerdict {
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
    pub fn verdict(&self, goal: &Goal) -> GoalVerdict {
        GoalVerdict::of(self.pairs, self.ratio.low >= goal.ratio && self.ours >= goal.floor)
    }
}

impl GoalVerdict {
    /// Decides a row without a peer by the median of its rates.
    pub fn single(rates: &[f64], goal: &Goal) -> GoalVerdict {
        GoalVerdict::of(rates.len(), median(rates).is_some_and(|ours| ours >= goal.floor))
    }

    fn of(slices: usize, reached: bool) -> GoalVerdict {
        match (slices < PAIRS_MIN, reached) {
            (true, _) => GoalVerdict::Undecided,
            (false, true) => GoalVerdict::Met,
            (false, false) => GoalVerdict::Missed,
        }
    }
}

impl Goal {
    /// Something to know and not to reach.
    pub const NONE: Goal = Goal { ratio: 0.0, floor: 0.0 };
}

/// The geometric means over comparisons, pair by pair: as many pairs as the shortest has. `None`
/// without a comparison.
pub fn geomean(all: &[Pairs]) -> Option<Pairs> {
    let count = all.iter().map(|pairs| pairs.ours.len()).min()?;
    let mean = |rates: &dyn Fn(&Pairs) -> f64| {
        (all.iter().map(|pairs| rates(pairs).ln()).sum::<f64>() / all.len() as f64).exp()
    };
    Some(Pairs {
        ours: (0..count).map(|at| mean(&|pairs| pairs.ours[at])).collect(),
        theirs: (0..count).map(|at| mean(&|pairs| pairs.theirs[at])).collect(),
    })
}

/// Checks what our side did before it counts.
fn expect_hits(hits: u64, expected: u64, answer: Answer) -> Result<Answer, BenchError> {
    match hits == expected {
        true => Ok(answer),
        false => Err(BenchError::Hits { hits, expected, lookups: answer.ops }),
    }
}

#[cfg(test)]
mod tests;
