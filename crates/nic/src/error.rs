//! Errors of the NIC.

use crate::control::RuleId;
use crate::limits::{
    ACTIONS_MAX, CONTEXTS_MAX, GROUPS_MAX, INDIRECTION_LEN, MASKS_MAX, OPERATIONS_MAX, PORTS_MAX,
    PRIORITY_MAX, QUEUES_MAX, RSS_QUEUES_MAX, RULES_MAX, TEMPLATES_MAX,
};
use crate::rule::Action;
use crate::toeplitz::ToeplitzError;

/// A [`RuleError`] within the control side. The box is one word: unboxed, each step of an operation
/// moved the error through memory, refused or not, which took a tenth of the time.
pub(crate) type Refused = Box<RuleError>;

impl From<Refused> for RuleError {
    fn from(refused: Refused) -> RuleError {
        *refused
    }
}

/// Why a rule operation was refused. Nothing that packets can see was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule has too many actions.
    #[error("{count} actions; a rule has at most {ACTIONS_MAX}")]
    ActionsTooMany {
        /// Given.
        count: usize,
    },
    /// Too many states of RSS are in use.
    #[error("more than {CONTEXTS_MAX} states of RSS; use fewer, and let every worker run")]
    ContextsTooMany,
    /// A rule has two fates.
    #[error("two fates: `{first}` and `{second}`; a packet has one")]
    FatesTwo {
        /// The first.
        first: Action,
        /// The other.
        second: Action,
    },
    /// A rule with the same group, priority and pattern exists.
    #[error("group {group} has this pattern with priority {priority} already; update that rule")]
    Duplicate {
        /// Its group.
        group: u32,
        /// Its priority.
        priority: u32,
        /// The rule that exists.
        of: RuleId,
    },
    /// An action has an invalid value.
    #[error("`{action}`: {reason}")]
    ActionUnfit {
        /// The action.
        action: Action,
        /// What is wrong, or what is valid.
        reason: &'static str,
    },
    /// The indirection table has no such entry.
    #[error("entry {entry}; an indirection table has entries 0 to {}", INDIRECTION_LEN - 1)]
    EntryUnknown {
        /// Given.
        entry: usize,
    },
    /// A rule has no fate.
    #[error("no fate among the actions; add queue, rss, drop, jump or represented_port")]
    FateMissing,
    /// A rule of a template table gives the wrong count of numbers.
    #[error("{given} numbers; {wanted} actions of the template vary")]
    GivenCount {
        /// Given.
        given: usize,
        /// How many actions vary.
        wanted: usize,
    },
    /// The group is full.
    #[error("group {group} is full: {rules_max} rules; destroy some or use another group")]
    GroupFull {
        /// The group.
        group: u32,
        /// Its limit.
        rules_max: u32,
    },
    /// Too many groups.
    #[error("more than {GROUPS_MAX} groups; use fewer, and let every worker run")]
    GroupsTooMany,
    /// A jump that could lead back: it goes to the same or a lower group.
    #[error("jump from group {from} to group {to}; a jump goes to a greater group")]
    JumpBack {
        /// Group of the rule.
        from: u32,
        /// Target of the jump.
        to: u32,
    },
    /// The RSS key is not valid.
    #[error(transparent)]
    Key(#[from] ToeplitzError),
    /// The group has too many masks.
    #[error("group {group} has {MASKS_MAX} masks; use fewer combinations of fields")]
    MasksTooMany {
        /// The group.
        group: u32,
    },
    /// The meter exists.
    #[error("meter {number} exists; destroy it first, or use another number")]
    MeterKnown {
        /// Its number.
        number: u32,
    },
    /// The parameters of a meter are not valid.
    #[error("meter {number}: {reason}")]
    MeterUnfit {
        /// Its number.
        number: u32,
        /// What is wrong, or what is valid.
        reason: &'static str,
    },
    /// The meter does not exist.
    #[error("no meter {number}; create it first")]
    MeterUnknown {
        /// Its number.
        number: u32,
    },
    /// A rule still names the meter.
    #[error("meter {number} is used; destroy its rules first")]
    MeterUsed {
        /// Its number.
        number: u32,
    },
    /// There is no memory.
    #[error("no memory for the rule: {reason}")]
    Memory {
        /// The reason, from the table.
        reason: String,
    },
    /// The priority is out of range.
    #[error("priority {priority}; use 0 (highest) to {PRIORITY_MAX}")]
    Priority {
        /// Given.
        priority: u32,
    },
    /// The port does not exist.
    #[error("port {port}; this NIC has ports 0 to {}", ports - 1)]
    PortUnknown {
        /// Given.
        port: u16,
        /// Number of ports.
        ports: u16,
    },
    /// The NIC is full.
    #[error("the NIC holds {RULES_MAX} rules; destroy some, and let every worker run")]
    RulesTooMany,
    /// A template is not valid.
    #[error("template: {reason}")]
    TemplateUnfit {
        /// What is wrong, and what is valid.
        reason: &'static str,
    },
    /// The template table belongs to another NIC, or was destroyed.
    #[error("no such template table; make it on this NIC, and destroy it last")]
    TemplateUnknown,
    /// Too many template tables.
    #[error("the NIC has {TEMPLATES_MAX} template tables; destroy some")]
    TemplatesTooMany,
    /// The queue does not exist.
    #[error("no queue {queue}; this NIC has queues 0 to {}", queues - 1)]
    QueueUnknown {
        /// Given.
        queue: u16,
        /// Number of queues.
        queues: u16,
    },
    /// An `rss` action names too many queues.
    #[error("rss names {count} queues; it takes at most {RSS_QUEUES_MAX}")]
    QueuesTooMany {
        /// Given.
        count: usize,
    },
    /// The open transactions change too many values.
    #[error("the transaction changes too many rules; commit smaller ones, and let workers run")]
    TransactionFull,
    /// The rule was destroyed, or never existed.
    #[error("no rule {0:?}; it was destroyed")]
    Unknown(RuleId),
}

/// Why a NIC could not be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// Size of an operation queue out of range.
    #[error("an operation queue for {size} operations; use 1 to {OPERATIONS_MAX}")]
    Operations {
        /// Asked for.
        size: usize,
    },
    /// Number of Ethernet ports out of range.
    #[error("{ports} Ethernet ports; use 1 to {PORTS_MAX}")]
    Ports {
        /// Asked for.
        ports: u16,
    },
    /// Number of queues out of range.
    #[error("{queues} queues; use 1 to {QUEUES_MAX}")]
    Queues {
        /// Asked for.
        queues: u16,
    },
    /// The RSS key is not valid.
    #[error(transparent)]
    Rss(#[from] ToeplitzError),
}
