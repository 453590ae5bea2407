//! The set-up of a device, and its report.

use std::path::PathBuf;
use std::time::Duration;

use niclab_nic::rss::Rss;
use niclab_nic::rule::Action;
use niclab_packet::flow::FlowSpec;
use serde::{Deserialize, Serialize};

use super::DeviceError;
use crate::capability;
use crate::stack::Stack;

/// The state of a device before the load starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Rules, installed in this order.
    pub rules: Vec<RuleBlock>,
    /// Receive queues of each port; RSS spreads over them.
    pub queues: u16,
    /// Cores that poll them: queue `q` of port `p` is of core `(p * queues + q) % cores`.
    #[serde(default = "one")]
    pub cores: u16,
    /// Ports that frames come by, all alike.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ports: u16,
    /// Which of the cores receive.
    #[serde(default, skip_serializing_if = "Receive::is_queues")]
    pub receive: Receive,
    /// The function on the packets of a queue.
    pub function: Function,
    /// Longest frame that will be offered, bytes with FCS.
    pub frame_len_max: u16,
}

fn one() -> u16 {
    1
}

fn is_one(count: &u16) -> bool {
    *count == 1
}

impl Setup {
    /// Refuses several ports, and cores that do not receive: few devices have either.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `ports` or `serial receive`.
    pub fn check_plain(&self) -> Result<(), DeviceError> {
        let lacks = |capability: &str| Err(DeviceError::lacks(capability));
        match (self.ports, self.receive) {
            (2.., _) => lacks("ports"),
            (_, Receive::Serial) => lacks("serial receive"),
            _ => Ok(()),
        }
    }

    /// Refuses rules, for a device that has none.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`]: `rules`.
    pub fn check_no_rules(&self) -> Result<(), DeviceError> {
        if self.rules.is_empty() { Ok(()) } else { Err(DeviceError::lacks(capability::RULES)) }
    }
}

/// Which cores receive, where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Receive {
    /// All of them: each has queues of its own.
    #[default]
    Queues,
    /// One, which hands each frame to another: a card with a single queue, multiplied in software.
    Serial,
}

impl Receive {
    fn is_queues(&self) -> bool {
        *self == Receive::Queues
    }
}

/// Many rules of one kind, declared by what generates them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleBlock {
    /// One rule for every frame: `eth / end`.
    Any {
        /// Group it stands in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// What it does.
        actions: Vec<Action>,
    },
    /// The rules of a file of `flow` commands, applied whole or not at all.
    File {
        /// The file.
        path: PathBuf,
        /// Rules that it creates.
        rules_count: u32,
    },
    /// `count` rules over a stack of headers, from rule `first` on.
    Stack {
        /// Group they stand in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// The headers that each of them matches.
        stack: Stack,
        /// First rule.
        first: u32,
        /// Number of rules.
        count: u32,
        /// The actions of each of them.
        actions: Vec<Action>,
    },
    /// `count` rules, one for each flow `first .. first + count` of `flows`: both addresses, the
    /// protocol and both ports exact.
    FiveTuples {
        /// Group they stand in.
        group: u32,
        /// Priority, 0 is highest.
        priority: u32,
        /// The flows; its `count` must reach `first + count`.
        flows: FlowSpec,
        /// First flow.
        first: u32,
        /// Number of rules.
        count: u32,
        /// The actions of each of them.
        actions: Vec<Action>,
    },
}

impl RuleBlock {
    /// Group, priority and actions of its rules; `None` where each has its own.
    pub fn place(&self) -> Option<(u32, u32, &[Action])> {
        match self {
            RuleBlock::Any { group, priority, actions }
            | RuleBlock::Stack { group, priority, actions, .. }
            | RuleBlock::FiveTuples { group, priority, actions, .. } => {
                Some((*group, *priority, actions))
            }
            RuleBlock::File { .. } => None,
        }
    }

    /// Rules that there are to be.
    pub fn count(&self) -> u32 {
        match self {
            RuleBlock::Any { .. } => 1,
            RuleBlock::File { rules_count, .. } => *rules_count,
            RuleBlock::Stack { count, .. } | RuleBlock::FiveTuples { count, .. } => *count,
        }
    }
}

/// A network function on the device's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Swap the MAC addresses and send the frame back out of the port it came from.
    #[default]
    Forward,
}

impl Function {
    /// The label of its box in a testbed's drawing.
    pub fn label(self) -> &'static str {
        match self {
            Function::Forward => "forward: swap MACs, send back",
        }
    }
}

/// The result of [`Testbed::setup`](crate::Testbed::setup).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetupReport {
    /// Rules that are in effect.
    pub rules_installed: u64,
    /// Rules that the device refused.
    pub rules_refused: u64,
    /// The reason of the first of them.
    pub refusal: Option<String>,
    /// Time spent in rule operations.
    pub install: Duration,
    /// Memory the rules take, bytes; `None` where the device does not tell.
    pub rule_bytes: Option<u64>,
    /// How it says that it spreads packets that no rule decides about; `None` where it does not
    /// tell. A table of fewer entries stands in it over and over; one of more than
    /// [`INDIRECTION_LEN`](niclab_nic::limits::INDIRECTION_LEN) cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<Rss>,
    /// What frames have shown of each kind of rule before the rules were created; empty where the
    /// device is not asked for proofs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<RuleProof>,
}

/// What frames have shown of a kind of rule: one that had to hit a rule of the kind, and one that
/// had to miss it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleProof {
    /// The first rule of the kind, in testpmd's syntax.
    pub rule: String,
    /// It was created through an operation queue, by template.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_templated: bool,
    /// What they have shown.
    pub result: ProofResult,
}

/// What the frames of a proof have shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofResult {
    /// The device does what the rule says.
    Right {
        /// Time from its creation until it did, nanoseconds; 0 where the first frames showed it.
        late_ns: u64,
    },
    /// The device accepts the rule and does something else: what.
    Wrong(String),
    /// The device refuses the rule, in these words.
    Refused(String),
    /// No frame was sent: why.
    NotTried(String),
}
