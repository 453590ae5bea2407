//! The kinds of experiments there are, and what `--set` knows in each.

use serde::{Deserialize, Serialize};

use super::sweeps::{
    APPLICATION_AXES, BATCH_AXES, CHANGE_AXES, ECHO_AXES, OCCUPANCY_AXES, PROGRAM_AXES,
    RENEWAL_AXES, RESPREAD_AXES, RULE_AXES, SCALING_AXES, SERVING_AXES, SIZE_AXES, SPREAD_AXES,
    STREAM_AXES,
};

/// The kinds of experiments there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Throughput and latency over the number of rules and groups.
    Occupancy,
    /// Throughput over time while a batch of rules is created.
    UpdateBatch,
    /// Throughput and latency while rules are renewed at a rate.
    UpdateRate,
    /// How fast rules are created and destroyed, and when they take effect.
    RuleRate,
    /// How fast rules are changed, and what packets meet meanwhile.
    RuleUpdate,
    /// How the hash spreads flows over queues.
    HashSkew,
    /// Throughput over the length of frames.
    FrameSize,
    /// Throughput over cores, queues and ports.
    QueueScaling,
    /// What changes of the spread over queues do to frames that flow.
    QueueChange,
    /// How long messages take there and back through the kernel's stack.
    Echo,
    /// Where the time of their round trips goes.
    Ledger,
    /// What real servers answer, and how soon.
    Application,
    /// How much data the kernel's stack carries from one host to another.
    Stream,
    /// What programs take of a core.
    ProgramCost,
    /// What a card's help is worth to a key-value store.
    KvsSteering,
}

impl Kind {
    /// It sends messages to a server that answers them, over the stack of the kernel.
    pub fn has_messages(self) -> bool {
        matches!(self, Kind::Echo | Kind::Ledger | Kind::Application)
    }

    /// Names that `--set` knows in an experiment of this kind, and what each means.
    pub fn axes(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Occupancy => OCCUPANCY_AXES,
            Kind::UpdateBatch => BATCH_AXES,
            Kind::RuleRate => RULE_AXES,
            Kind::RuleUpdate => CHANGE_AXES,
            Kind::HashSkew => SPREAD_AXES,
            Kind::FrameSize => SIZE_AXES,
            Kind::QueueScaling => SCALING_AXES,
            Kind::QueueChange => RESPREAD_AXES,
            Kind::Echo | Kind::Ledger => ECHO_AXES,
            Kind::Application => APPLICATION_AXES,
            Kind::Stream => STREAM_AXES,
            Kind::ProgramCost => PROGRAM_AXES,
            Kind::KvsSteering => SERVING_AXES,
            Kind::UpdateRate => RENEWAL_AXES,
        }
    }
}
