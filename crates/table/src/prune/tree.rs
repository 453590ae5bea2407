//! The tree that leads from the value of a field to its set of tables: slots, nodes, steps.
//!
//! The first bits of a value choose a *slot* of the field's root, which speaks for the *block* of
//! values that begin with them. A slot holds a set, when all of the block has the same, or a node:
//!
//! | node | bytes | for blocks of | content |
//! |---|---|---|---|
//! | ranges | 16, 32, 64 | 8 or 16 bits | 4, 8, 16 last values of ranges, then their sets |
//! | fan | 1024 | 16 bits | 256 slots, one for each 8-bit block |
//! | list | 512 | 8 bits | 256 sets, one for each value |
//!
//! so that three steps lead to a set, each through one cache line. Most rules' prefixes stand alone
//! in their block, and then 16 bytes are all that they need: the 6,671 destinations of ClassBench's
//! fw1 at 10,000 rules take 110 kB beside the root, where a fan and a list each would take 10 MB.
//!
//! Slots are halves of words, last values and sets are quarters. Only the writer stores, so that it
//! may load a word, change a part and store the word.

use crate::limits::FAN_BITS;
use crate::prefetch::prefetch_at;
use crate::prune::Bits;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// How the values of a field are split: first bits for the root, the rest for nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) bits: Bits,
    /// Bits of a value behind those that choose the slot of the root.
    pub(super) block_bits: u32,
    /// The first slot of the root.
    pub(super) root: usize,
}

impl Shape {
    pub(super) fn new(bits: Bits, root: usize) -> Self {
        let block_bits = match bits {
            // A model under loom can follow only so many atomics, and is to see nodes.
            Bits::Eight if cfg!(loom) => 6,
            Bits::Eight => 0,
            Bits::Sixteen => 8,
            Bits::ThirtyTwo => 16,
        };
        Self { bits, block_bits, root }
    }

    pub(super) fn root_slots(self) -> usize {
        1 << (self.bits.count() - self.block_bits)
    }

    /// The slot that speaks for a value.
    #[inline(always)]
    pub(super) fn slot(self, value: u32) -> usize {
        self.root + ((value & self.bits.value_max()) >> self.block_bits) as usize
    }

    /// What is left of a value behind the bits that chose the slot.
    #[inline(always)]
    pub(super) fn rest(self, value: u32) -> u32 {
        value & low_bits(self.block_bits)
    }
}

/// As many ones.
#[inline(always)]
pub(super) const fn low_bits(count: u32) -> u32 {
    (1 << count) - 1
}

/// What a slot holds: a set, or a node by its kind and the place of its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u32);

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    /// With room for this many.
    Ranges(usize),
    Fan,
    List,
}

const KIND_SHIFT: u32 = 29;
pub(super) const FAN: u32 = 4;
pub(super) const LIST: u32 = 5;

/// Words of the smallest node, and what every node's place is a multiple of.
const UNIT_WORDS: usize = 2;

/// The most ranges of a node: with their sets they fill a cache line.
pub(super) const RANGES_MAX: usize = 16;

impl Kind {
    /// The smallest node for this many ranges, at most `RANGES_MAX`.
    pub(super) fn of_ranges(count: usize) -> Self {
        Self::Ranges(count.next_power_of_two().max(4))
    }

    pub(super) fn words(self) -> usize {
        match self {
            Self::Set => 0,
            Self::Ranges(room) => room / 2,
            Self::Fan => (1 << FAN_BITS) / 2,
            Self::List => 256 / 4,
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Set => 0,
            Self::Ranges(room) => room.trailing_zeros() - 1,
            Self::Fan => FAN,
            Self::List => LIST,
        }
    }
}

impl Entry {
    pub(super) fn of_set(set: u16) -> Self {
        Self(u32::from(set))
    }

    /// A node of a kind, its first word a multiple of its size or of a cache line. `None` if the
    /// place is too far away to be named.
    pub(super) fn of_node(kind: Kind, word: usize) -> Option<Self> {
        let unit = u32::try_from(word / UNIT_WORDS).ok()?;
        (unit >> KIND_SHIFT == 0).then_some(Self(kind.code() << KIND_SHIFT | unit))
    }

    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        match self.0 >> KIND_SHIFT {
            0 => Kind::Set,
            FAN => Kind::Fan,
            LIST => Kind::List,
            code => Kind::Ranges(2 << code),
        }
    }

    #[inline(always)]
    pub(super) fn set(self) -> u16 {
        self.0 as u16
    }

    /// The number of its kind.
    #[inline(always)]
    pub(super) fn code(self) -> usize {
        (self.0 >> KIND_SHIFT) as usize
    }

    /// The first word of a node.
    #[inline(always)]
    pub(super) fn word(self) -> usize {
        (self.0 & low_bits(KIND_SHIFT)) as usize * UNIT_WORDS
    }
}

// ---- what readers do --------------------------------------------------------------------------

#[inline(always)]
pub(super) fn slot(tree: &[AtomicU64], at: usize) -> Entry {
    Entry((tree[at / 2].load(Acquire) >> (at % 2 * 32)) as u32)
}

#[inline(always)]
pub(super) fn quarter(tree: &[AtomicU64], at: usize) -> u16 {
    (tree[at / 4].load(Acquire) >> (at % 4 * 16)) as u16
}

/// Numbers of kinds; see [`Entry::code`].
pub(super) const CODES: usize = 8;

/// One step from a node of a kind towards the set of the value whose last bits are `rest`.
#[inline(always)]
pub(super) fn step<const CODE: u32>(tree: &[AtomicU64], node: Entry, rest: u32) -> Entry {
    let word = node.word();
    match CODE {
        1 => ranges::<1>(tree, word, rest),
        2 => ranges::<2>(tree, word, rest),
        3 => ranges::<4>(tree, word, rest),
        FAN => slot(tree, 2 * word + (rest >> FAN_BITS) as usize),
        LIST => Entry::of_set(quarter(tree, 4 * word + (rest & low_bits(FAN_BITS)) as usize)),
        _ => node,
    }
}

/// The set of the first range whose last value is not below `rest`; the last range of a node ends
/// with the largest 16-bit value.
#[inline(always)]
fn ranges<const WORDS: usize>(tree: &[AtomicU64], word: usize, rest: u32) -> Entry {
    let node = &tree[word..word + 2 * WORDS];
    let mut below = 0;
    for ends in &node[..WORDS] {
        below += ends_below(ends.load(Relaxed), rest);
    }
    // Both halves of `below` have counts of at most eight: their sum is an index.
    let index = ((below + (below >> 32)) & 0xff) as usize;
    Entry::of_set(quarter(node, 4 * WORDS + index))
}

/// How many of four 16-bit numbers are below `rest`, in two parts: the lower and the upper half.
///
/// `2^16 + rest - 1 - end` has bit 16 set where `end < rest`, and every number has 32 bits to
/// itself in which to borrow.
#[inline(always)]
fn ends_below(ends: u64, rest: u32) -> u64 {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    const ONES: u64 = 0x0000_0001_0000_0001;
    let above = ONES * u64::from(0xffff + rest);
    let low = (above - (ends & EVEN)) >> 16 & ONES;
    let high = (above - (ends >> 16 & EVEN)) >> 16 & ONES;
    low + high
}

/// Asks for the line that the next step reads; for a set, for some line of the roots.
#[inline(always)]
pub(super) fn prefetch_step(tree: &[AtomicU64], entry: Entry, rest: u32) {
    let skip = match entry.0 >> KIND_SHIFT {
        FAN => (rest >> FAN_BITS) as usize / 2,
        LIST => (rest & low_bits(FAN_BITS)) as usize / 4,
        _ => 0,
    };
    prefetch_at(tree.as_ptr().wrapping_add(entry.word() + skip));
}

// ---- what the writer does ---------------------------------------------------------------------

/// Stores a slot; what it refers to is complete.
pub(super) fn set_slot(tree: &[AtomicU64], at: usize, entry: Entry) {
    set_part(&tree[at / 2], at % 2 * 32, u64::from(u32::MAX), u64::from(entry.0));
}

/// Stores a set or a last value; the set is complete.
pub(super) fn set_quarter(tree: &[AtomicU64], at: usize, quarter: u16) {
    set_part(&tree[at / 4], at % 4 * 16, u64::from(u16::MAX), u64::from(quarter));
}

fn set_part(word: &AtomicU64, shift: usize, mask: u64, part: u64) {
    let others = word.load(Relaxed) & !(mask << shift);
    word.store(others | part << shift, Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn entries_say_what_they_were_made_of() {
        assert_eq!(Entry::of_set(65_535).kind(), Kind::Set);
        assert_eq!(Entry::of_set(65_535).set(), 65_535);
        let kinds = [Kind::Ranges(4), Kind::Ranges(8), Kind::Ranges(16), Kind::Fan, Kind::List];
        for kind in kinds {
            for word in [0, 128, (1 << 30) - 128] {
                let entry = Entry::of_node(kind, word).unwrap();
                assert_eq!((entry.kind(), entry.word()), (kind, word));
            }
            assert_eq!(Entry::of_node(kind, 1 << 30), None);
        }
        for count in 1..=RANGES_MAX {
            let Kind::Ranges(room) = Kind::of_ranges(count) else { panic!() };
            assert!(room >= count && [4, 8, 16].contains(&room));
        }
    }

    /// Every value against every border, where carries between the parts would show.
    #[test]
    fn the_range_of_a_value_is_the_first_that_does_not_end_below_it() {
        let ends: [u16; 16] = [
            0, 1, 2, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfefe, 0xff00, 0xfffc, 0xfffd,
            0xfffe, 0xffff, 0xffff,
        ];
        let tree: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let node = Entry::of_node(Kind::Ranges(16), 0).unwrap();
        for (index, end) in ends.iter().enumerate() {
            set_quarter(&tree, index, *end);
            set_quarter(&tree, 16 + index, 1000 + index as u16);
        }
        for value in 0..=0xffff_u32 {
            let index = ends.iter().position(|end| u32::from(*end) >= value).unwrap();
            let expected = Entry::of_set(1000 + index as u16);
            assert_eq!(step::<3>(&tree, node, value), expected, "{value:#x}");
        }
    }
}
