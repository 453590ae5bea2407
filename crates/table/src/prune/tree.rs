//! The tree from the values of a field to sets of tables.
//!
//! The first bits of a value select a *slot* of the field's root. The slot stands for the *block*
//! of values that begin with these bits. It has a set, if all values of the block have the same
//! set, or a node:
//!
//! | node | bytes | for blocks of | content |
//! |---|---|---|---|
//! | ranges | 16, 32, 64 | 8 or 16 bits of 32 | 4, 8, 16 last values of ranges, then their sets |
//! | fan | 1024 | 16 bits | 256 slots, one for each 8-bit block |
//! | list | 512 | 8 bits | 256 sets, one for each value |
//!
//! So three steps lead to a set, each through one cache line. The last values under a fan include
//! the bits that selected the slot: so a packet compares sixteen bits everywhere. Most rules'
//! prefixes are alone in their block, and then need only 16 bytes: the 6,671 destinations of
//! ClassBench's fw1 at 10,000 rules take 110 kB beside the root, where a fan and a list each would
//! take 10 MB.
//!
//! Slots are halves of words, last values and sets are quarters. Only the writer stores, so it may
//! load a word, change a part and store the word.

use std::hint::select_unpredictable;

use crate::limits::FAN_BITS;
use crate::prefetch::prefetch_at;
use crate::prune::Bits;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
pub(super) use crate::prune::vectors::quarter;
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
use crate::prune::vectors::{self, half, line_quarter};
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
use crate::sync::Acquire;
use crate::sync::{AtomicU64, Relaxed, Release};

/// How the values of a field are split: first bits for the root, the rest for nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) bits: Bits,
    /// Bits of a value after those that select the slot of the root.
    pub(super) block_bits: u32,
    /// The first slot of the root.
    pub(super) root: usize,
}

impl Shape {
    pub(super) fn new(bits: Bits, root: usize) -> Self {
        let block_bits = match bits {
            // A model under loom can follow only so many atomics, and has to see nodes.
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

    /// The slot of a value.
    #[inline(always)]
    pub(super) fn slot(self, value: u32) -> usize {
        self.root + ((value & self.bits.value_max()) >> self.block_bits) as usize
    }

    /// [`Shape::slot`] of a wide field.
    #[inline(always)]
    pub(super) fn wide_slot(self, value: u32) -> usize {
        self.root + (value >> 16) as usize
    }

    /// The bits of a value after those that select the slot.
    #[inline(always)]
    pub(super) fn rest(self, value: u32) -> u32 {
        value & low_bits(self.block_bits)
    }
}

/// A number of ones.
#[inline(always)]
pub(super) const fn low_bits(count: u32) -> u32 {
    (1 << count) - 1
}

/// The content of a slot: a set, or a node by its kind and its first word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeEntry(pub(super) u32);

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKind {
    Set,
    /// With room for this many ranges.
    Ranges(usize),
    Fan,
    List,
}

pub(super) const KIND_SHIFT: u32 = 29;
pub(super) const FAN: u32 = 4;
pub(super) const LIST: u32 = 5;

/// Words of the smallest node, and the unit of every node's place.
const UNIT_WORDS: usize = 2;

/// The most ranges of a node: with their sets they fill a cache line.
pub(super) const RANGES_MAX: usize = 16;

impl NodeKind {
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

impl TreeEntry {
    pub(super) fn of_set(set: u16) -> Self {
        Self(u32::from(set))
    }

    /// A node of a kind; its first word is a multiple of its size or of a cache line. `None` if the
    /// place cannot be addressed.
    pub(super) fn of_node(kind: NodeKind, word: usize) -> Option<Self> {
        let unit = u32::try_from(word / UNIT_WORDS).ok()?;
        (unit >> KIND_SHIFT == 0).then_some(Self(kind.code() << KIND_SHIFT | unit))
    }

    #[inline(always)]
    pub(super) fn kind(self) -> NodeKind {
        match self.0 >> KIND_SHIFT {
            0 => NodeKind::Set,
            FAN => NodeKind::Fan,
            LIST => NodeKind::List,
            code => NodeKind::Ranges(2 << code),
        }
    }

    #[inline(always)]
    pub(super) fn set(self) -> u16 {
        self.0 as u16
    }

    /// The first word of a node.
    #[inline(always)]
    pub(super) fn word(self) -> usize {
        (self.0 & low_bits(KIND_SHIFT)) as usize * UNIT_WORDS
    }
}

// ---- for readers ------------------------------------------------------------------------------

#[inline(always)]
pub(super) fn slot(tree: &[AtomicU64], at: usize) -> TreeEntry {
    TreeEntry(half(tree, at))
}

/// A half of a word, by its place.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline(always)]
fn half(tree: &[AtomicU64], at: usize) -> u32 {
    (tree[at / 2].load(Acquire) >> (at % 2 * 32)) as u32
}

/// A quarter of a line, which is there.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline(always)]
fn line_quarter(line: &[AtomicU64; LINE_WORDS], at: u32) -> u16 {
    quarter(line, at as usize % (4 * LINE_WORDS))
}

/// A quarter of a word, by its place.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
#[inline(always)]
pub(super) fn quarter(tree: &[AtomicU64], at: usize) -> u16 {
    (tree[at / 4].load(Acquire) >> (at % 4 * 16)) as u16
}

/// Words of a cache line: the most that a step from a node reads.
pub(super) const LINE_WORDS: usize = 8;

/// Where the next step reads, for an entry that is no fan: a line or a part of one. A set leads
/// nowhere, so then somewhere in the roots.
#[inline(always)]
pub(super) fn place(entry: TreeEntry, value: u32) -> usize {
    let code = entry.0 >> KIND_SHIFT;
    let line = select_unpredictable(code == LIST, (value & 0xe0) as usize / 4, 0);
    select_unpredictable(code == 0, 0, entry.word() + line)
}

/// The content of a fan's slot for a value, or any other entry unchanged. (The entry is not read
/// again, because its slot may have a fan by now.)
#[inline(always)]
pub(super) fn behind_fan(tree: &[AtomicU64], entry: TreeEntry, value: u32) -> TreeEntry {
    let is_fan = entry.0 >> KIND_SHIFT == FAN;
    let child = 2 * entry.word() + (value >> FAN_BITS & low_bits(FAN_BITS)) as usize;
    let TreeEntry(child) = slot(tree, select_unpredictable(is_fan, child, 0));
    TreeEntry(select_unpredictable(is_fan, child, entry.0))
}

/// The last step: from an entry that is no fan to the set of a value.
///
/// It takes the same path for all kinds, because no branch predictor learns which kind comes next.
#[inline(always)]
pub(super) fn set_of(tree: &[AtomicU64], entry: TreeEntry, value: u32) -> u16 {
    let word = place(entry, value);
    let Some(line) = tree[word..].first_chunk::<LINE_WORDS>() else { return 0 };
    let code = entry.0 >> KIND_SHIFT;
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    let index = vectors::first_not_below(line, code, value as u16);
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    let index = first_not_below(line, code, value as u16);
    let index = select_unpredictable(code == LIST, value & 31, (2 << code) + index);
    let set = line_quarter(line, index);
    select_unpredictable(code == 0, entry.set(), set)
}

/// The set of a value, in a field of any shape.
#[inline(always)]
pub(super) fn number(tree: &[AtomicU64], shape: Shape, value: u32) -> u16 {
    match shape.bits {
        Bits::Eight if shape.block_bits == 0 => {
            slot(tree, shape.root + (value & low_bits(8)) as usize).set()
        }
        // Only sets and lists.
        Bits::Sixteen => {
            let block = value >> FAN_BITS & low_bits(FAN_BITS);
            let entry = slot(tree, shape.root + block as usize);
            let is_list = entry.0 >> KIND_SHIFT == LIST;
            let in_list = 4 * entry.word() + (value & low_bits(FAN_BITS)) as usize;
            let set = quarter(tree, select_unpredictable(is_list, in_list, 0));
            select_unpredictable(is_list, set, entry.set())
        }
        _ => {
            let entry = slot(tree, shape.slot(value));
            set_of(tree, behind_fan(tree, entry, value), shape.rest(value))
        }
    }
}

/// The first of the last values of a node's ranges that is not below `value`. The last one is the
/// largest value.
#[cfg_attr(
    all(target_arch = "x86_64", not(any(test, loom, miri))),
    expect(dead_code, reason = "the vectors' twin")
)]
#[inline(always)]
fn first_not_below(line: &[AtomicU64; LINE_WORDS], code: u32, value: u16) -> u32 {
    let words = if code == 0 || code > 3 { 1 } else { 1 << (code - 1) };
    let mut below = 0;
    for ends in &line[..words] {
        below += ends_below(ends.load(Relaxed), value);
    }
    // Each half of `below` has a count of at most eight: their sum is an index.
    ((below + (below >> 32)) & 15) as u32
}

/// How many of four 16-bit numbers are below `value`, in two parts: the lower and the upper half.
///
/// `2^16 + value - 1 - end` has bit 16 set where `end < value`, and every number has 32 bits to
/// itself in which to borrow.
#[inline(always)]
fn ends_below(ends: u64, value: u16) -> u64 {
    const EVEN: u64 = 0x0000_ffff_0000_ffff;
    const ONES: u64 = 0x0000_0001_0000_0001;
    let above = ONES * u64::from(0xffff + u32::from(value));
    let low = (above - (ends & EVEN)) >> 16 & ONES;
    let high = (above - (ends >> 16 & EVEN)) >> 16 & ONES;
    low + high
}

/// Prefetches the line that the next step from a root reads; for a set, some line of the roots.
#[inline(always)]
pub(super) fn prefetch_step(tree: &[AtomicU64], entry: TreeEntry, value: u32) {
    let is_fan = entry.0 >> KIND_SHIFT == FAN;
    let child = value >> FAN_BITS & low_bits(FAN_BITS);
    let skip = select_unpredictable(is_fan, child as usize / 2, 0);
    prefetch_at(tree.as_ptr().wrapping_add(entry.word() + skip));
}

// ---- for the writer ---------------------------------------------------------------------------

/// Stores a slot; its node or set is complete.
pub(super) fn set_slot(tree: &[AtomicU64], at: usize, entry: TreeEntry) {
    set_part(&tree[at / 2], at % 2 * 32, u64::from(u32::MAX), u64::from(entry.0));
}

/// Stores a set or a last value; the set is complete.
pub(super) fn set_quarter(tree: &[AtomicU64], at: usize, quarter: u16) {
    set_part(&tree[at / 4], at % 4 * 16, u64::from(u16::MAX), u64::from(quarter));
}

/// Calls `with` for each set that values of a slot's block lead to; for some sets more than once.
pub(super) fn visit(tree: &[AtomicU64], at: usize, block_bits: u32, with: &mut impl FnMut(u16)) {
    let entry = slot(tree, at);
    let word = entry.word();
    match entry.kind() {
        NodeKind::Set => with(entry.set()),
        NodeKind::Fan => {
            (0..1 << FAN_BITS).for_each(|at| visit(tree, 2 * word + at, FAN_BITS, with))
        }
        NodeKind::List => (0..1 << FAN_BITS).for_each(|at| with(quarter(tree, 4 * word + at))),
        NodeKind::Ranges(room) => {
            for at in 0..room {
                with(quarter(tree, 4 * word + room + at));
                if !u32::from(quarter(tree, 4 * word + at)) & low_bits(block_bits) == 0 {
                    break;
                }
            }
        }
    }
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
        assert_eq!(TreeEntry::of_set(65_535).kind(), NodeKind::Set);
        assert_eq!(TreeEntry::of_set(65_535).set(), 65_535);
        let kinds = [
            NodeKind::Ranges(4),
            NodeKind::Ranges(8),
            NodeKind::Ranges(16),
            NodeKind::Fan,
            NodeKind::List,
        ];
        for kind in kinds {
            for word in [0, 128, (1 << 30) - 128] {
                let entry = TreeEntry::of_node(kind, word).unwrap();
                assert_eq!((entry.kind(), entry.word()), (kind, word));
            }
            assert_eq!(TreeEntry::of_node(kind, 1 << 30), None);
        }
        for count in 1..=RANGES_MAX {
            let NodeKind::Ranges(room) = NodeKind::of_ranges(count) else { panic!() };
            assert!(room >= count && [4, 8, 16].contains(&room));
        }
    }

    /// Every value against every border, to find wrong carries between the parts.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn the_range_of_a_value_is_the_first_that_does_not_end_below_it() {
        let ends: [u16; 16] = [
            0, 1, 2, 0xff, 0x100, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xfefe, 0xff00, 0xfffc, 0xfffd,
            0xfffe, 0xffff, 0xffff,
        ];
        for room in [4, 8, 16] {
            // At the end of a line, followed by other numbers.
            let tree: Vec<AtomicU64> = (0..24).map(|_| AtomicU64::new(0x5555)).collect();
            let kind = NodeKind::Ranges(room);
            let word = 16 - kind.words();
            let node = TreeEntry::of_node(kind, word).unwrap();
            let ends = &ends[16 - room..];
            for (index, end) in ends.iter().enumerate() {
                set_quarter(&tree, 4 * word + index, *end);
                set_quarter(&tree, 4 * word + room + index, 1000 + index as u16);
            }
            let line = tree[word..].first_chunk().unwrap();
            for value in 0..=0xffff_u32 {
                let index = ends.iter().position(|end| u32::from(*end) >= value).unwrap();
                assert_eq!(set_of(&tree, node, value), 1000 + index as u16, "{value:#x}");
                let scalar = first_not_below(line, node.0 >> KIND_SHIFT, value as u16);
                assert_eq!(scalar, index as u32, "{value:#x} without vectors");
            }
        }
    }
}
