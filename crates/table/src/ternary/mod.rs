//! Ternary match: rules with masks and priorities, changed beside readers that never wait.
//!
//! A rule says which bits of a key it looks at (its mask), what they are to be, and how it compares
//! with other rules that match the same key (its priority). [`TernaryScan`] is what that means: it
//! searches all rules. [`Ternary`] finds the same rule by a *tuple space*: an exact table for each
//! mask, and a pruning filter (`prune`) that says which of them can have a rule for a key.
//!
//! # Why a reader sees a change as a whole
//!
//! A rule is one word, its priority and its value, under its masked key in the table of its mask.
//! So one that comes, goes, or gets another priority or value is one store. What takes more than
//! one place is a transaction of `versions`: each place gets a reference that readers resolve by
//! the generation of their burst.
//!
//! A look-up reads the generation first, then the list of masks with the filter, then words. The
//! writer goes the other way: it has the list, the filter and the bound of the mask know of a rule
//! before it stores the word, and stores all words of a transaction before the generation. So who
//! has the generation of a transaction finds every place that it changed. What is found before is
//! the word of before, or a reference that stands for it.
//!
//! A mask without rules leaves the list. Its table stays for bursts that have the older list, and
//! its number may go to another mask: they ask the old table by that number, which is empty, and a
//! filter names a number rather too often.
//!
//! # What is left to other users of rules
//!
//! A word orders rules by itself. Tables whose words say something else (actions), and several
//! tables that change in one transaction, need ranks and [`Changes`](crate::Changes) from outside:
//! all of that passes `writer::Ternary::set`, and on the readers' side `reader::ask`.

mod pruner;
mod reader;
mod scan;
mod writer;

pub use reader::TernaryReader;
pub use scan::TernaryScan;
pub use writer::{Ternary, TernaryConfig};

use crate::prune::{Bits, Span};

/// The largest value of a rule, and two more.
const VALUES: u32 = 1 << 31;

/// A rule of `W` words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TernaryRule<const W: usize> {
    /// What the bits of the mask are to be; its other bits do not count.
    pub key: [u64; W],
    /// The bits that the rule looks at.
    pub mask: [u64; W],
    /// Of the rules that match a key the one with the smallest number wins.
    pub priority: u32,
    /// What a look-up returns, up to [`TernaryRule::VALUE_MAX`]: mostly where the caller has more.
    /// Of rules with one priority the one with the smallest value wins.
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

    /// What a look-up returns where it wins.
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
    /// As one word that is not zero and whose highest bit is not set: the smaller one wins.
    fn word(self) -> Option<u64> {
        let value = self.value.checked_add(1).filter(|value| *value < VALUES)?;
        Some(u64::from(self.priority) << 31 | u64::from(value))
    }

    /// Of a word that is not zero.
    #[inline]
    fn of(word: u64) -> Self {
        let value = word as u32 & (VALUES - 1);
        Self { priority: (word >> 31) as u32, value: value.wrapping_sub(1) }
    }
}

/// Where in a key a number is that the filter looks at, and that rules have mostly prefixes of.
///
/// Fields change nothing of what is found. They are to be what tells rules under different masks
/// apart, such as addresses and ports: without good ones look-ups ask more tables. Those of 32 bits
/// that differ most come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its lowest bit, counted from the lowest bit of the first word.
    at: usize,
    bits: Bits,
    /// Its bytes are in network order.
    is_network: bool,
}

impl Field {
    /// A number in network order from byte `at` of a key that was packed by
    /// [`pack_key`](crate::pack_key).
    #[must_use]
    pub const fn bytes(at: usize, bits: Bits) -> Self {
        Self { at: at.saturating_mul(8), bits, is_network: true }
    }

    /// A number that stands in the words as it is, whose lowest bit is bit `at`, counted from the
    /// lowest bit of the first word.
    #[must_use]
    pub const fn number(at: usize, bits: Bits) -> Self {
        Self { at, bits, is_network: false }
    }

    /// Whether it lies within keys of `words` words.
    fn fits(self, words: usize) -> bool {
        self.at.saturating_add(self.bits.count() as usize) <= 64 * words
    }

    /// Its value in a key.
    #[inline]
    fn value<const W: usize>(self, key: &[u64; W]) -> u32 {
        let (word, shift) = (self.at / 64, self.at % 64);
        let low = key.get(word).map_or(0, |word| word >> shift);
        let high = key.get(word + 1).map_or(0, |next| (next << 1) << (63 - shift));
        let number = (low | high) as u32 & self.bits.value_max();
        match self.is_network {
            true => number.swap_bytes() >> (32 - self.bits.count()),
            false => number,
        }
    }

    /// The values that a rule matches, or more: those with the leading ones of its mask.
    fn span<const W: usize>(self, key: &[u64; W], mask: &[u64; W]) -> Span {
        let ones = (self.value(mask) << (32 - self.bits.count())).leading_ones();
        Span::prefix(self.bits, self.value(key), ones.min(self.bits.count()))
    }
}

/// The bits of a key that a mask has.
#[inline]
fn masked<const W: usize>(key: &[u64; W], mask: &[u64; W]) -> [u64; W] {
    std::array::from_fn(|word| key[word] & mask[word])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::pack_key;

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

    #[test]
    fn a_field_is_a_number_in_either_order_also_across_words() {
        let key: [u64; 2] = pack_key(&[0, 1, 2, 3, 4, 5, 10, 1, 2, 3, 0x1f, 0x90]).unwrap();
        assert_eq!(Field::bytes(6, Bits::ThirtyTwo).value(&key), 0x0a01_0203);
        assert_eq!(Field::bytes(10, Bits::Sixteen).value(&key), 8080);
        assert_eq!(Field::bytes(5, Bits::Eight).value(&key), 5);
        let key = [0xdd00_0000_0000_0000, 0x00aa_bbcc];
        assert_eq!(Field::number(56, Bits::ThirtyTwo).value(&key), 0xaabb_ccdd);
        assert_eq!(Field::number(64, Bits::Sixteen).value(&key), 0xbbcc);
        assert!(Field::bytes(12, Bits::ThirtyTwo).fits(2));
        assert!(!Field::bytes(13, Bits::ThirtyTwo).fits(2));
        assert!(!Field::bytes(usize::MAX, Bits::Eight).fits(2));
    }

    #[test]
    fn a_span_has_the_leading_ones_of_the_mask() {
        let field = Field::bytes(0, Bits::ThirtyTwo);
        let of = |key: [u8; 4], mask: [u8; 4]| {
            field.span(&pack_key::<1>(&key).unwrap(), &pack_key::<1>(&mask).unwrap())
        };
        let span = |low, high| Span { low, high };
        assert_eq!(of([10, 1, 2, 3], [255, 255, 0, 0]), span(0x0a01_0000, 0x0a01_ffff));
        assert_eq!(of([10, 1, 2, 3], [255, 0, 255, 0]), span(0x0a00_0000, 0x0aff_ffff));
        assert_eq!(of([10, 1, 2, 3], [255; 4]), Span::one(0x0a01_0203));
        assert_eq!(of([10, 1, 2, 3], [0, 255, 255, 255]), Span::ALL);
    }
}
