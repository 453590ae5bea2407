//! The pruning filter: which tables of a tuple space can hold a rule that matches a packet?
//!
//! A group of ternary rules is many tables of exact keys, one for each mask, numbered by
//! priority. To probe them all costs hundreds of look-ups a packet. The filter knows, field by
//! field, which tables have a rule that the packet's value of that field lies in; the tables that
//! have one in every field are the *candidates*. That is a superset of the tables that match, and
//! on ClassBench's sets hardly more than one table a packet.
//!
//! Every field maps a value to a *set* of tables: a bitmap. Equal sets are stored once. A tree of
//! at most three steps leads from a value to its set (`tree.rs`); a packet's candidates are the
//! common tables of the sets of its fields, and those are computed 64 at a time, when asked for.
//! What a packet costs depends on the rules alone: traffic leaves no trace. While a filter rests, a
//! copy of its sets makes that less (`join.rs`), and where the processor has AVX-512, sixteen
//! packets take each step at once (`sixteen.rs`).
//!
//! A filter only ever grows: a rule that is destroyed leaves its tables in the sets. A filter built
//! anew from the rules that are left is exact again; who swaps it in is the caller.
//!
//! # Why no reader misses a rule whose `add` returned before
//!
//! There is one writer. Three kinds of places change under readers, and for every value the set
//! that is reached only ever grows:
//!
//! - *The bits of a set* are only ever set, never cleared, and the number of a set is never given
//!   to another one. So a number that was read some time ago still leads to a superset of what it
//!   stood for.
//! - *A place of the tree that holds a set* gets the number of a larger set. That set's bits were
//!   stored before its number (Release), so who reads the number (Acquire) sees them.
//! - *A slot of the tree gets another entry*: mostly a new node, a copy of the old one with more
//!   ranges, every value of which has at least the tables it had. It is complete before the entry
//!   is stored (Release, read with Acquire). Nodes are never used again, and one that was replaced
//!   stays as it was: who is still in it came through the slot before, and finds every rule whose
//!   `add` had returned when he did.
//!
//! `add` returns when every field has the rule. A reader that knows of this (by whatever brought
//! the news: it happens after `add`) reads from each place what was there at that moment or
//! something later, and both hold the rule. Fields need no order among each other, for each of
//! them alone is a superset.
//!
//! Nor do packets: where one instruction reads a place for each of sixteen, in whatever order, each
//! place is read whole, and which place is next follows from what was read.

mod change;
mod filter;
mod join;
mod joining;
mod reader;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod sixteen;
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

/// The width of a field: how many low bits of its 32-bit values count.
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

    /// The values whose first `length` of `bits` bits are those of `value`. A mask that is no
    /// prefix is given by its leading ones: the span of those is a superset.
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

    /// The part of it that values of `bits` bits can lie in; `None` if there is none.
    fn within(self, bits: Bits) -> Option<Self> {
        let high = self.high.min(bits.value_max());
        (self.low <= high).then_some(Self { high, ..self })
    }

    fn values_count(self) -> u64 {
        u64::from(self.high - self.low) + 1
    }
}

/// What the writer and the readers of a filter share.
#[derive(Debug)]
struct SharedFilter<const F: usize> {
    /// Roots of the fields, then nodes.
    tree: Memory,
    /// Bitmaps of tables: set `n` starts at word `n << set_shift`.
    sets: Memory,
    shapes: [Shape; F],
    /// Fields of 32 bits before the first of another width, two at most.
    wide: usize,
    /// Words that a bitmap has tables in.
    set_words: usize,
    set_shift: u32,
    /// How often sets have got a table that a copy of them may know.
    changes: AtomicU64,
}

impl<const F: usize> SharedFilter<F> {
    /// Where the bitmap of a set starts.
    #[inline(always)]
    fn set_at(&self, set: u16) -> usize {
        usize::from(set) << self.set_shift
    }
}
