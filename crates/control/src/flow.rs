//! What commands of the rule language did.

use serde::{Deserialize, Serialize};

/// What one command did at a port. Counts are those from before the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum FlowDone {
    /// `query … age`: since when a rule has matched no frame.
    Age {
        /// The port.
        port: u16,
        /// The rule.
        rule: u32,
        /// Nanoseconds since its last frame.
        idle_ns: u64,
        /// After so many seconds it ages.
        timeout_s: u32,
    },
    /// `aged`: rules that are aged.
    Aged {
        /// The port.
        port: u16,
        /// Their numbers, ascending.
        rules: Vec<u32>,
        /// They were destroyed.
        destroyed: bool,
    },
    /// `query … count`: what a rule has counted.
    Counted {
        /// The port.
        port: u16,
        /// The rule.
        rule: u32,
        /// Frames.
        packets: u64,
        /// Their bytes, with FCS.
        bytes: u64,
    },
    /// A rule was created.
    Created {
        /// The port.
        port: u16,
        /// Its number.
        rule: u32,
    },
    /// A rule was destroyed.
    Destroyed {
        /// The port.
        port: u16,
        /// Its number.
        rule: u32,
    },
    /// All rules were destroyed.
    Flushed {
        /// The port.
        port: u16,
        /// How many there were.
        rules_count: u32,
    },
    /// The action for frames that no rule matches was set.
    Isolated {
        /// The port.
        port: u16,
        /// They are dropped.
        on: bool,
    },
    /// The rules there are, in the order of group, priority and number.
    Listed {
        /// The port.
        port: u16,
        /// The rules.
        rules: Vec<ListedRule>,
    },
    /// Headers were set for actions to come.
    Set {
        /// The port.
        port: u16,
    },
    /// A rule got other actions.
    Updated {
        /// The port.
        port: u16,
        /// Its number.
        rule: u32,
    },
    /// A rule could be created.
    Validated {
        /// The port.
        port: u16,
    },
}

/// A rule in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRule {
    /// Its number.
    pub rule: u32,
    /// Its group.
    pub group: u32,
    /// Its priority.
    pub priority: u32,
    /// Names of its items and actions, such as `ETH IPV4 => COUNT QUEUE`.
    pub shape: String,
}

impl FlowDone {
    /// The port.
    pub fn port(&self) -> u16 {
        match self {
            FlowDone::Age { port, .. }
            | FlowDone::Aged { port, .. }
            | FlowDone::Counted { port, .. }
            | FlowDone::Created { port, .. }
            | FlowDone::Destroyed { port, .. }
            | FlowDone::Flushed { port, .. }
            | FlowDone::Isolated { port, .. }
            | FlowDone::Listed { port, .. }
            | FlowDone::Set { port }
            | FlowDone::Updated { port, .. }
            | FlowDone::Validated { port } => *port,
        }
    }
}
