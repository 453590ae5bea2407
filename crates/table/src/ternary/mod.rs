//! Ternary match: rules with masks and priorities, changed beside readers that never wait.
//!
//! A rule has a mask (the bits of a key that it looks at), the values of these bits, and a
//! priority, which decides among rules that match the same key. [`TernaryScan`] is the definition:
//! it searches all rules. [`Ternary`] finds the same rule in a tuple space (`tuples`).
//!
//! # Why a reader sees a change as a whole
//!
//! A rule is one word, its priority and its value, under its masked key. So adding or removing a
//! rule, or changing its priority or value, is one store. A change of more than one place is a
//! transaction of `versioned_values`: each place gets a reference that readers resolve by the
//! generation of their burst.
//!
//! A look-up reads the generation first, and then the tuple space. The writer goes the other way:
//! it prepares the tuple space for a word before it stores the word, and stores all words of a
//! transaction before the generation. So a reader with the generation of a transaction finds every
//! place that it changed. An older reader finds the old word, or a reference to it.

mod reader;
mod scan;
mod writer;

pub use reader::TernaryReader;
pub use scan::TernaryScan;
pub use writer::{Ternary, TernaryConfig};

use crate::tuples::masked;

/// The largest value of a rule, plus two.
const VALUES: u32 = 1 << 31;

/// A rule of `W` words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TernaryRule<const W: usize> {
    /// The values of the bits of the mask; other bits do not count.
    pub key: [u64; W],
    /// The bits that the rule looks at.
    pub mask: [u64; W],
    /// Of the rules that match a key, the one with the smallest number wins.
    pub priority: u32,
    /// What a look-up returns, up to [`TernaryRule::VALUE_MAX`]: mostly an index of the caller's.
    /// Of rules with the same priority, the one with the smallest value wins.
    pub value: u32,
}

impl<const W: usize> TernaryRule<W> {
    /// The largest value of a rule.
    pub const VALUE_MAX: u32 = VALUES - 2;

    /// Whether it matches a key.
    #[must_use]
    pub fn matches(&self, key: &[u64; W]) -> bool {
        masked(key, &self.mask) == masked(&self.key, &self.mask)
    }

    /// What a look-up returns if the rule wins.
    #[must_use]
    pub fn hit(&self) -> Hit {
        Hit { priority: self.priority, value: self.value }
    }
}

/// What a look-up returns: the priority and the value of the rule that wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hit {
    /// Its priority.
    pub priority: u32,
    /// Its value.
    pub value: u32,
}

impl Hit {
    /// As a word that is not zero and whose highest bit is not set: the smaller word wins.
    fn word(self) -> Option<u64> {
        let value = self.value.checked_add(1).filter(|value| *value < VALUES)?;
        Some(u64::from(self.priority) << 31 | u64::from(value))
    }

    /// The hit of a word that is not zero.
    #[inline]
    fn of(word: u64) -> Self {
        let value = word as u32 & (VALUES - 1);
        Self { priority: (word >> 31) as u32, value: value.wrapping_sub(1) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_a_word_in_the_order_of_priorities_and_values() {
        let max = TernaryRule::<1>::VALUE_MAX;
        let hits = [(0, 0), (0, 1), (0, max), (1, 0), (u32::MAX, 0), (u32::MAX, max)];
        let hits = hits.map(|(priority, value)| Hit { priority, value });
        let words = hits.map(|hit| hit.word().unwrap());
        assert!(words.is_sorted() && words[0] > 0 && words[5] < 1 << 63);
        assert_eq!(words.map(Hit::of), hits);
        assert_eq!(Hit { priority: 0, value: max + 1 }.word(), None);
        assert_eq!(Hit { priority: 0, value: u32::MAX }.word(), None);
    }
}
