//! The pruning filter: which tables of a tuple space can have a rule that matches a packet?
//!
//! A group of ternary rules consists of many tables of exact keys, one for each mask, numbered by
//! priority. To probe all of them takes hundreds of look-ups a packet. The filter knows, for each
//! field, which tables have a rule that matches the packet's value of that field. The tables that
//! have one in every field are the *candidates*. They are a superset of the tables that match, and
//! on ClassBench's sets hardly more than one table a packet.
//!
//! Every field maps a value to a *set* of tables: a bitmap. Equal sets are stored once. A tree of
//! at most three steps leads from a value to its set (`tree.rs`). The candidates of a packet are
//! the intersection of the sets of its fields, computed on demand for 64 tables at a time. The cost
//! of a packet depends on the rules alone, because traffic changes nothing. While a filter rests, a
//! copy of its sets reduces the cost (`join.rs`), and with AVX-512 sixteen packets take each step
//! at once (`avx512.rs`).
//!
//! A filter only ever grows: a destroyed rule leaves its tables in the sets. A filter that is
//! rebuilt from the existing rules is exact again; the caller replaces the old one.
//!
//! # Why no reader misses a rule whose `add` returned before
//!
//! There is one writer. Three kinds of places change while readers use them. For every value, the
//! set that it leads to only ever grows:
//!
//! - *The bits of a set* are only ever set, never cleared, and the number of a set is never reused.
//!   So an old number still leads to a superset of what it stood for.
//! - *A place of the tree with a set* gets the number of a larger set. The bits of that set were
//!   stored before its number (Release), so a reader of the number (Acquire) sees them.
//! - *A slot of the tree gets another entry*: mostly a new node, a copy of the old one with more
//!   ranges, in which every value has at least the tables that it had. It is complete before the
//!   entry is stored (Release, read with Acquire). Nodes are never reused, and a replaced node does
//!   not change. A reader that is still in it read the slot before, and finds every rule whose
//!   `add` had returned by then.
//!
//! `add` returns when every field has the rule. A reader that knows of this (its knowledge comes
//! after `add`) reads from each place what was there at that moment or something later, and both
//! have the rule. Fields need no order among each other, because each of them alone is a superset.
//!
//! Nor do packets: where one instruction reads a place for each of sixteen packets, in any order,
//! each place is read whole, and the next place depends only on what was read.

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod avx512;
mod change;
mod filter;
mod join;
mod joining;
mod reader;
mod tree;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod vectors;

pub use filter::{Filter, FilterConfig, FilterRule};
pub use join::Joined;
pub use joining::{Joining, Progress};
pub use reader::{Burst, Candidates, FilterReader, Sets};

use crate::memory::Memory;
use crate::sync::AtomicU64;
use tree::Shape;

/// The width of a field: the number of low bits of its 32-bit values that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bits {
    /// Values below 2^8.
    Eight,
    /// Values below 2^16.
    Sixteen,
    /// All values.
    ThirtyTwo,
}

impl Bits {
    /// The number of bits.
    #[must_use]
    pub const fn count(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Sixteen => 16,
            Self::ThirtyTwo => 32,
        }
    }

    /// The largest value.
    #[must_use]
    pub const fn value_max(self) -> u32 {
        u32::MAX >> (32 - self.count())
    }
}

/// The values of one field that a rule matches: those from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The least value.
    pub low: u32,
    /// The greatest value.
    pub high: u32,
}

impl Span {
    /// Every value.
    pub const ALL: Self = Self { low: 0, high: u32::MAX };

    /// One value.
    #[must_use]
    pub const fn one(value: u32) -> Self {
        Self { low: value, high: value }
    }

    /// The values whose first `length` of `bits` bits equal those of `value`. For a mask that is no
    /// prefix, use its number of leading ones, which gives a superset.
    #[must_use]
    pub const fn prefix(bits: Bits, value: u32, length: u32) -> Self {
        let free = bits.count().saturating_sub(length);
        let below = match free {
            32 => u32::MAX,
            free => (1 << free) - 1,
        };
        let value = value & bits.value_max();
        Self { low: value & !below, high: value | below }
    }

    /// The part of it that values of `bits` bits can lie in, if any.
    fn within(self, bits: Bits) -> Option<Self> {
        let high = self.high.min(bits.value_max());
        (self.low <= high).then_some(Self { high, ..self })
    }

    fn values_count(self) -> u64 {
        u64::from(self.high - self.low) + 1
    }
}

/// The part that the writer and the readers of a filter share.
#[derive(Debug)]
struct SharedFilter<const F: usize> {
    /// Roots of the fields, then nodes.
    tree: Memory,
    /// Bitmaps of tables: set `n` starts at word `n << set_shift`.
    sets: Memory,
    shapes: [Shape; F],
    /// Fields of 32 bits before the first of another width, two at most.
    wide: usize,
    /// Words of a bitmap that have tables.
    set_words: usize,
    set_shift: u32,
    /// How often a set got a table that a copy of the sets may know.
    changes: AtomicU64,
}

impl<const F: usize> SharedFilter<F> {
    /// Where the bitmap of a set starts.
    #[inline(always)]
    fn set_at(&self, set: u16) -> usize {
        usize::from(set) << self.set_shift
    }
}
