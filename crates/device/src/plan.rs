//! Plans: the operations of the control side during a load.

use niclab_nic::rule::Action;
use serde::{Deserialize, Serialize};

use crate::face::{DeviceError, RuleBlock};

/// What the control side does while the load runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Nothing.
    #[default]
    Rest,
    /// Operations on rules.
    Rules(Box<RulesPlan>),
    /// Changes of RSS.
    Rss(RssPlan),
}

impl Plan {
    /// Refuses what a device without rules cannot do.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] for operations on rules.
    pub fn check_no_plan(&self) -> Result<(), DeviceError> {
        match self {
            Plan::Rest => Ok(()),
            Plan::Rules(_) => Err(DeviceError::lacks("rules")),
            Plan::Rss(_) => no_rss_changes(),
        }
    }
}

/// The refusal of a device whose RSS stays as its set-up has it.
pub(crate) fn no_rss_changes<T>() -> Result<T, DeviceError> {
    Err(DeviceError::lacks("changes of RSS while frames flow"))
}

/// Changes of RSS in the measured part. RSS picks the queues of frames that no rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RssPlan {
    /// The kind of change, each time a random one; `None`: nothing, unless the device answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<RssChangeKind>,
    /// Changes a second, 1 to [`RSS_CHANGES_PER_S_MAX`]. One that is due while the last has not
    /// settled waits for it.
    pub per_s: u32,
    /// What the device does by itself about a queue that fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<BalanceMode>,
    /// Time that the function takes for each frame beside forwarding it, nanoseconds: what fills a
    /// core.
    pub work_ns: u32,
    /// Of everything random.
    pub seed: u64,
}

/// Most changes of RSS a second.
pub const RSS_CHANGES_PER_S_MAX: u32 = 10_000;

/// The part of RSS that is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RssChangeKind {
    /// The queues of some entries of the indirection table.
    Entries,
    /// The number of queues that the table names, evenly.
    Queues,
    /// The key of the hash.
    Key,
    /// The function of the hash: Toeplitz, or symmetric Toeplitz.
    Function,
    /// The fields that are hashed.
    Fields,
    /// One of these.
    Any,
}

/// What a device does about a queue that fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BalanceMode {
    /// Entries of the table move to other queues (RSS++: Barbette et al., CoNEXT 2019).
    Moves,
    /// The same, and only as many cores are in use as the load needs.
    SaveCores,
    /// The next of eight keys is taken, and the best of them once all were tried.
    Keys,
}

/// Operations on rules, from a moment of the measured part on. The device is left with the rules of
/// its set-up: what the plan created goes, what it changed is put back, behind the trial. An
/// operation of [`RuleChangeKind::Anew`] and of [`RuleWork::Renew`] is both: one rule goes, one
/// comes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RulesPlan {
    /// The core that carries them out.
    pub core: ControlCore,
    /// When the first begins, nanoseconds after the start of the measured part.
    pub start_ns: u64,
    /// Its work.
    pub work: RuleWork,
    /// How the device is asked for it.
    pub calls: CallMode,
    /// Operations between two turns of the core's other work, which are bursts of packets; `None`:
    /// all of them at once, and packets wait. On the soft device a whole burst that waits goes
    /// first, sixteen in a row at most; where operations have a rate, as long as no whole slice of
    /// them is due.
    pub slice: Option<u32>,
    /// Number of threads that ask for the operations, each on a core of its own: 1 to as many cores
    /// as the process may use. Only for rules that are created without a load. On the soft device
    /// each thread has an operation queue, the first of them has the card, and the time is from the
    /// first operation to the last. On ports and interfaces each thread has a queue or a socket,
    /// and the time is that in the calls of the slowest. `None`: one thread does everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Operations a second, 1 to [`OPERATIONS_PER_S_MAX`], each due at its own moment; what is late
    /// is made up for. `None`: one after the other, which is not for [`RuleWork::Renew`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<u32>,
    /// Least time from the end of a slice to the next, nanoseconds: the core has so long for other
    /// work, however late the operations are. `None`: no longer than that work takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_ns: Option<u64>,
}

/// Which core carries the operations out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlCore {
    /// The one that polls the device's queues.
    Same,
    /// Another one. Where each operation is due at its own moment, the core that polls asks it for
    /// that operation then.
    Distinct,
}

/// How operations are handed to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// One call an operation, each visible when it returns.
    Single,
    /// Through an asynchronous operation queue, by template.
    Queue,
    /// In one transaction: all of them become visible at one instant. The soft device settles it
    /// behind the trial, and keeps both versions of what changed until then.
    Transaction,
}

/// The work of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleWork {
    /// Creates the rules of a block.
    Create(RuleBlock),
    /// Changes the rules of a block of the set-up, each once.
    Change {
        /// Which block, from 0.
        block: usize,
        /// What of them.
        change: RuleChangeKind,
    },
    /// Renews the rules of a block of the set-up for as long as the load lasts: the oldest goes,
    /// and one for the flow behind that of the newest comes, so that there are as many as before.
    /// The block is of flows, of which its flow set has twice as many, to be gone through in
    /// circles.
    Renew {
        /// Which block, from 0.
        block: usize,
    },
}

/// Most operations a second.
pub const OPERATIONS_PER_S_MAX: u32 = 100_000_000;

/// What of a rule is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChangeKind {
    /// Its actions, in place.
    Actions(Vec<Action>),
    /// The values that it matches, in place: those of the flow behind it by as many as the block
    /// has rules. Its flow set has twice as many.
    Values,
    /// Which bits it matches, in place: the source port no longer counts. The block is of flows.
    Mask,
    /// Its priority, in place.
    Priority(u32),
    /// It is destroyed, and one with these actions created in its stead.
    Anew(Vec<Action>),
}
