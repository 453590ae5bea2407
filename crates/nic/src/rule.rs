//! Rules: pattern, actions, priority, group; written as testpmd's users write them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a rule does with a packet that matches it. Actions act in list order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Count packets and bytes.
    Count,
    /// Discard the packet (a fate).
    Drop,
    /// Go on in a greater group (a fate).
    Jump(u32),
    /// Deliver to this receive queue (a fate).
    Queue(u16),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Count => write!(f, "count"),
            Action::Drop => write!(f, "drop"),
            Action::Jump(group) => write!(f, "jump group {group}"),
            Action::Queue(queue) => write!(f, "queue index {queue}"),
        }
    }
}
