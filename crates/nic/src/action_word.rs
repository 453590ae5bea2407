//! The action word: the 64-bit value of a table entry, which is stored at once.
//!
//! | bits | content |
//! |---|---|
//! | 0..3 | fate: 1 queue, 2 drop, 3 jump, 4 action list, 5 RSS, 6 port; 0 is no word |
//! | 3 | the rule counts |
//! | 8..32 | number of the action list (`action_list`) |
//! | 16..32 | else queue, port, place of the group to jump to, or number of the context (`rss`) |
//! | 32..63 | index of the rule |
//! | 63 | never set: it marks a reference (`niclab_table::VersionedValues`) |

/// The fate of a packet that matches a rule, as an action word has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Queue(u16),
    Drop,
    /// Send the packet by this port.
    Port(u16),
    /// Place of the group, not its number.
    Jump(u16),
    /// The fate of this action list, below [`ACTION_LISTS_MAX`](crate::limits::ACTION_LISTS_MAX).
    ActionList(u32),
    /// Number of the context.
    Rss(u16),
}

/// The fate of a packet, as the actions of a rule name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleFate {
    Queue(u16),
    Drop,
    Port(u16),
    /// Number of the group.
    Jump(u32),
    /// Number of the context; 0 until the context is acquired.
    Rss(u16),
}

/// An action word; zero is no word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActionWord(pub u64);

const QUEUE: u64 = 1;
const DROP: u64 = 2;
const JUMP: u64 = 3;
const ACTION_LIST: u64 = 4;
const RSS: u64 = 5;
const PORT: u64 = 6;
const COUNTS: u64 = 1 << 3;

impl ActionWord {
    pub(crate) fn new(fate: Fate, counts: bool, rule: u32) -> ActionWord {
        let (op, argument) = match fate {
            Fate::Queue(queue) => (QUEUE, u32::from(queue) << 16),
            Fate::Drop => (DROP, 0),
            Fate::Port(port) => (PORT, u32::from(port) << 16),
            Fate::Jump(group) => (JUMP, u32::from(group) << 16),
            Fate::ActionList(number) => (ACTION_LIST, number << 8),
            Fate::Rss(context) => (RSS, u32::from(context) << 16),
        };
        let counts = if counts { COUNTS } else { 0 };
        ActionWord(op | counts | u64::from(argument) | u64::from(rule) << 32)
    }

    #[inline]
    pub(crate) fn fate(self) -> Fate {
        let argument = (self.0 >> 16) as u16;
        match self.0 & 7 {
            QUEUE => Fate::Queue(argument),
            JUMP => Fate::Jump(argument),
            PORT => Fate::Port(argument),
            ACTION_LIST => Fate::ActionList(self.0 as u32 >> 8),
            RSS => Fate::Rss(argument),
            _ => Fate::Drop,
        }
    }

    #[inline]
    pub(crate) fn counts(self) -> bool {
        self.0 & COUNTS != 0
    }

    #[inline]
    pub(crate) fn rule(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Whether the word refers to no resource: a queue needs none, an action list does.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        matches!(self.0 & 7, QUEUE | DROP | PORT)
    }

    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ACTION_LISTS_MAX, RULES_MAX};

    #[test]
    fn an_action_word_gives_back_what_it_was_made_of() {
        let last = Fate::ActionList(ACTION_LISTS_MAX - 1);
        let plain = [Fate::Queue(u16::MAX), Fate::Drop, Fate::Jump(0), Fate::Jump(4_095)];
        let others =
            [Fate::Port(255), Fate::ActionList(0), last, Fate::Rss(1), Fate::Rss(u16::MAX)];
        for fate in plain.into_iter().chain(others) {
            for (counts, rule) in [(false, 0), (true, RULES_MAX - 1)] {
                let word = ActionWord::new(fate, counts, rule);
                assert!(word.is_some() && word.0 >> 63 == 0);
                assert_eq!((word.fate(), word.counts(), word.rule()), (fate, counts, rule));
            }
        }
        assert!(!ActionWord::default().is_some());
    }
}
