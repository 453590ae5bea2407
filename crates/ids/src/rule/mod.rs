//! Rules in Suricata's language, read far enough to know which packets each can match.
//!
//! Source: the user guide of Suricata 7.0, chapter "Suricata Rules".

mod expression;
mod options;
mod protocol;
mod text;

use crate::ranges::{AddressSet, RangeSet};

pub use expression::ExpressionProblem;
pub(crate) use options::is_known;
pub use options::{Keyword, SharedState};
pub use protocol::{Protocol, Transport, Transports};
pub(crate) use text::read_with;
pub use text::{ERRORS_MAX, LINE_MAX, RuleError, RuleProblem, read};

/// The action of an engine on a packet that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An alert.
    Alert,
    /// No other rule is tried.
    Pass,
    /// An alert; an engine that forwards drops the packet, too.
    Drop,
    /// An alert; an engine that forwards drops the packet and ends the connection. All forms of
    /// `reject`.
    Reject,
    /// No alert: it sets what is logged of a flow.
    Config,
}

/// One of the two ends of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEnd {
    /// Addresses.
    pub addresses: AddressSet,
    /// Whether a variable is in the rule's text of them.
    pub has_address_variables: bool,
    /// Ports; all of them where the protocol has none.
    pub ports: RangeSet,
    /// Whether the rule's text of them is not `any`. Such a rule matches no packet without ports.
    pub names_ports: bool,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of its first line, from 1.
    pub line: u64,
    /// The rule as it was written, in one line.
    pub text: String,
    /// Its action.
    pub action: Action,
    /// The protocol of the packets.
    pub protocol: Protocol,
    /// Where they come from.
    pub source: RuleEnd,
    /// Where they go to.
    pub destination: RuleEnd,
    /// Whether source and destination can change places (`<>`).
    pub is_bidirectional: bool,
    /// Its options, in order.
    pub keywords: Vec<Keyword>,
    /// Number of the signature, by `sid`.
    pub sid: u32,
    /// Number of the group that the `sid` is of, by `gid`; 1 if the rule has none.
    pub gid: u32,
}

impl Rule {
    /// The value of the first keyword of this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.keywords.iter().find(|keyword| keyword.name == name)?.value.as_deref()
    }
}
