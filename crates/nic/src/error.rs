//! Why the NIC refuses.

use crate::control::RuleId;
use crate::limits::{
    ACTIONS_MAX, CONTEXTS_MAX, GROUPS_MAX, INDIRECTION_LEN, MASKS_MAX, OPERATIONS_MAX, PORTS_MAX,
    PRIORITY_MAX, QUEUES_MAX, RSS_QUEUES_MAX, RULES_MAX, TEMPLATES_MAX,
};
use crate::rule::Action;
use crate::toeplitz::ToeplitzError;

/// A [`RuleError`] within the control side. In a box it is a word: as what it says, it went through
/// memory at every step of an operation, refused or not, which was a tenth of the time.
pub(crate) type Refused = Box<RuleError>;

impl From<Refused> for RuleError {
    fn from(refused: Refused) -> RuleError {
        *refused
    }
}

/// Why a rule operation was refused. Nothing that a packet can meet was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A rule may do only so much.
    #[error("{count} actions; a rule has at most {ACTIONS_MAX}")]
    ActionsTooMany {
        /// Given.
        count: usize,
    },
    /// Too many states of RSS are in use.
    #[error("more than {CONTEXTS_MAX} states of RSS; use fewer, and let every worker run")]
    ContextsTooMany,
    /// An action that only one of may stand in a rule stands twice.
    #[error("two fates: `{first}` and `{second}`; a packet has one")]
    FatesTwo {
        /// The first.
        first: Action,
        /// The other.
        second: Action,
    },
    /// Same group, priority and pattern.
    #[error("group {group} has this pattern with priority {priority} already; update that rule")]
    Duplicate {
        /// Its group.
        group: u32,
        /// Its priority.
        priority: u32,
        /// The rule that is there.
        of: RuleId,
    },
    /// An action's value makes no sense.
    #[error("`{action}`: {reason}")]
    ActionUnfit {
        /// The action.
        action: Action,
        /// What would do.
        reason: &'static str,
    },
    /// There is no such entry in an indirection table.
    #[error("entry {entry}; an indirection table has entries 0 to {}", INDIRECTION_LEN - 1)]
    EntryUnknown {
        /// Given.
        entry: usize,
    },
    /// The packet would have no end.
    #[error("no fate among the actions; add queue, rss, drop, jump or represented_port")]
    FateMissing,
    /// A rule of a template table gives as many numbers as actions vary in it.
    #[error("{given} numbers; {wanted} actions of the template vary")]
    GivenCount {
        /// Given.
        given: usize,
        /// How many vary.
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
    /// There are too many groups.
    #[error("more than {GROUPS_MAX} groups; use fewer, and let every worker run")]
    GroupsTooMany,
    /// A jump that could go round for ever.
    #[error("jump from group {from} to group {to}; a jump goes to a greater group")]
    JumpBack {
        /// Where the rule stands.
        from: u32,
        /// Where it would jump to.
        to: u32,
    },
    /// The RSS key cannot be used.
    #[error(transparent)]
    Key(#[from] ToeplitzError),
    /// There are too many masks in the group.
    #[error("group {group} has {MASKS_MAX} masks; use fewer combinations of fields")]
    MasksTooMany {
        /// The group.
        group: u32,
    },
    /// There is such a meter.
    #[error("meter {number} exists; destroy it first, or use another number")]
    MeterKnown {
        /// Its number.
        number: u32,
    },
    /// A meter cannot be so.
    #[error("meter {number}: {reason}")]
    MeterUnfit {
        /// Its number.
        number: u32,
        /// What would do.
        reason: &'static str,
    },
    /// There is no such meter.
    #[error("no meter {number}; create it first")]
    MeterUnknown {
        /// Its number.
        number: u32,
    },
    /// A rule names the meter.
    #[error("meter {number} is used; destroy its rules first")]
    MeterUsed {
        /// Its number.
        number: u32,
    },
    /// Memory is short.
    #[error("no memory for the rule: {reason}")]
    Memory {
        /// What the table said.
        reason: String,
    },
    /// Outside the range.
    #[error("priority {priority}; use 0 (highest) to {PRIORITY_MAX}")]
    Priority {
        /// Given.
        priority: u32,
    },
    /// There is no such port.
    #[error("port {port}; this NIC has ports 0 to {}", ports - 1)]
    PortUnknown {
        /// Given.
        port: u16,
        /// How many there are.
        ports: u16,
    },
    /// The NIC holds as many rules as it can.
    #[error("the NIC holds {RULES_MAX} rules; destroy some, and let every worker run")]
    RulesTooMany,
    /// A template cannot be used.
    #[error("template: {reason}")]
    TemplateUnfit {
        /// Why, and what would do.
        reason: &'static str,
    },
    /// The template table is another NIC's, or was destroyed.
    #[error("no such template table; make it on this NIC, and destroy it last")]
    TemplateUnknown,
    /// There are too many template tables.
    #[error("the NIC has {TEMPLATES_MAX} template tables; destroy some")]
    TemplatesTooMany,
    /// There is no such queue.
    #[error("no queue {queue}; this NIC has queues 0 to {}", queues - 1)]
    QueueUnknown {
        /// Given.
        queue: u16,
        /// How many there are.
        queues: u16,
    },
    /// An `rss` action names too many queues.
    #[error("rss names {count} queues; it takes at most {RSS_QUEUES_MAX}")]
    QueuesTooMany {
        /// Given.
        count: usize,
    },
    /// Too many changes are under way.
    #[error("the transaction changes too many rules; commit smaller ones, and let workers run")]
    TransactionFull,
    /// It was destroyed, or never created.
    #[error("no rule {0:?}; it was destroyed")]
    Unknown(RuleId),
}

/// Why a NIC could not be made.
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
    /// The key cannot be used.
    #[error(transparent)]
    Rss(#[from] ToeplitzError),
}
