//! Failures: an `errno` for programs, a place in what was given, and a message for people.

use niclab_nic::rule::Action;
use niclab_nic::rule::compile::CompileError;
use niclab_nic::{NicError, RuleError};
use niclab_port::error::PortError;

/// The part of a call that a failure concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FailurePart {
    /// Nothing in particular.
    None = 0,
    /// An action, by its index.
    Action = 1,
    /// The list of actions as a whole.
    Actions = 2,
    /// The group.
    Group = 3,
    /// A handle: of a rule, of an indirect action.
    Handle = 4,
    /// An item, by its index.
    Item = 5,
    /// The priority.
    Priority = 6,
    /// The NIC's room for rules.
    Room = 7,
}

/// Why a call failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// A positive `errno`.
    pub errno: i32,
    /// The part of the call that it concerns.
    pub part: FailurePart,
    /// Which item or action, from 0.
    pub index: usize,
    /// What is wrong, where, and the remedy.
    pub message: String,
}

impl Failure {
    /// A failure that is about no item and no action.
    pub fn new(errno: i32, part: FailurePart, message: impl Into<String>) -> Failure {
        Failure { errno, part, index: 0, message: message.into() }
    }

    /// A failure of an action.
    pub fn of_action(errno: i32, index: usize, message: impl Into<String>) -> Failure {
        Failure { errno, part: FailurePart::Action, index, message: message.into() }
    }

    /// A failure of an item.
    pub fn of_item(errno: i32, index: usize, message: impl Into<String>) -> Failure {
        Failure { errno, part: FailurePart::Item, index, message: message.into() }
    }

    /// The failure of a rule with these actions.
    pub fn of_rule(error: &RuleError, actions: &[Action]) -> Failure {
        let index = match error {
            RuleError::ActionUnfit { action, .. } | RuleError::FatesTwo { second: action, .. } => {
                actions.iter().rposition(|known| known == action)
            }
            RuleError::JumpBack { .. } => at(actions, |a| matches!(a, Action::Jump(_))),
            RuleError::MeterUnknown { number } => at(actions, |a| *a == Action::Meter(*number)),
            RuleError::PortUnknown { port, .. } => at(actions, |a| *a == Action::Port(*port)),
            RuleError::QueueUnknown { queue, .. } => at(actions, |a| match a {
                Action::Rss(rss) => rss.queues.contains(queue),
                action => *action == Action::Queue(*queue),
            }),
            RuleError::Key(_) | RuleError::QueuesTooMany { .. } => {
                at(actions, |a| matches!(a, Action::Rss(_)))
            }
            _ => None,
        };
        match index {
            Some(index) => Failure::of_action(errno_of(error), index, error.to_string()),
            None => Failure::new(errno_of(error), part_of(error), error.to_string()),
        }
    }
}

fn at(actions: &[Action], is_meant: impl Fn(&Action) -> bool) -> Option<usize> {
    actions.iter().position(is_meant)
}

fn errno_of(error: &RuleError) -> i32 {
    match error {
        RuleError::Duplicate { .. } | RuleError::MeterKnown { .. } => libc::EEXIST,
        RuleError::GroupFull { .. }
        | RuleError::RulesTooMany
        | RuleError::MasksTooMany { .. }
        | RuleError::GroupsTooMany
        | RuleError::TemplatesTooMany
        | RuleError::ContextsTooMany => libc::ENOSPC,
        RuleError::Memory { .. } | RuleError::TransactionFull => libc::ENOMEM,
        RuleError::Unknown(_) | RuleError::MeterUnknown { .. } | RuleError::TemplateUnknown => {
            libc::ENOENT
        }
        RuleError::MeterUsed { .. } => libc::EBUSY,
        _ => libc::EINVAL,
    }
}

fn part_of(error: &RuleError) -> FailurePart {
    match error {
        RuleError::ActionsTooMany { .. } | RuleError::FateMissing => FailurePart::Actions,
        RuleError::GroupFull { .. }
        | RuleError::RulesTooMany
        | RuleError::MasksTooMany { .. }
        | RuleError::Memory { .. }
        | RuleError::ContextsTooMany => FailurePart::Room,
        RuleError::GroupsTooMany => FailurePart::Group,
        RuleError::Priority { .. } => FailurePart::Priority,
        RuleError::Unknown(_) => FailurePart::Handle,
        _ => FailurePart::None,
    }
}

impl From<RuleError> for Failure {
    fn from(error: RuleError) -> Failure {
        Failure::of_rule(&error, &[])
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Failure {
        let errno = match error {
            CompileError::NotSupported { .. } | CompileError::TooWide { .. } => libc::ENOTSUP,
            _ => libc::EINVAL,
        };
        Failure::of_item(errno, error.index(), error.to_string())
    }
}

impl From<NicError> for Failure {
    fn from(error: NicError) -> Failure {
        Failure::new(libc::EINVAL, FailurePart::None, error.to_string())
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Failure {
        Failure::new(libc::EIO, FailurePart::None, error.to_string())
    }
}
