//! A change of one field: the values of a span get tables. For the writer.

use std::collections::HashMap;

use super::tree::{self, LINE_WORDS, NodeKind, RANGES_MAX, TreeEntry, low_bits};
use super::{Bits, SharedFilter, Span};
use crate::hash::Mixing;
use crate::limits::{FAN_BITS, SETS_MAX};
use crate::sync::{Relaxed, Release};

/// The sets of a filter, for the writer.
#[derive(Debug)]
pub(super) struct SetWriter {
    /// The number of each set, by its field and its bitmap without the tables that are in every set
    /// of the field.
    known: HashMap<Box<[u64]>, u16, Mixing>,
    fields: Vec<FieldSets>,
    /// Number of sets.
    count: usize,
    count_max: usize,
    key: Vec<u64>,
    /// A copy of the sets may know tables below this number.
    guarded: usize,
}

#[derive(Debug)]
struct FieldSets {
    /// Numbers of its sets.
    sets: Vec<u16>,
    /// Tables that are in all of them.
    everywhere: Vec<u64>,
}

impl SetWriter {
    /// Each field starts with the empty set, which has the field's number.
    pub(super) fn new(fields_count: usize, set_words: usize) -> Self {
        let field = |number| FieldSets { sets: vec![number], everywhere: vec![0; set_words] };
        let fields: Vec<_> = (0..fields_count as u16).map(field).collect();
        let first = |field: usize| -> Box<[u64]> {
            std::iter::once(field as u64).chain(std::iter::repeat_n(0, set_words)).collect()
        };
        let known = (0..fields_count).map(|field| (first(field), field as u16)).collect();
        let key = Vec::new();
        Self { known, fields, count: fields_count, count_max: SETS_MAX, key, guarded: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// From now on counts how often an existing set gets a table below `tables`.
    pub(super) fn guard(&mut self, tables: usize) {
        self.guarded = self.guarded.max(tables);
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn limit(&mut self, count_max: usize) {
        self.count_max = count_max;
    }

    /// Whether a table is in every set of a field.
    pub(super) fn is_everywhere(&self, field: usize, table: usize) -> bool {
        self.fields[field].everywhere[table / 64] >> (table % 64) & 1 == 1
    }

    /// Adds tables to every set of a field.
    pub(super) fn add_everywhere<const F: usize>(
        &mut self,
        shared: &SharedFilter<F>,
        field: usize,
        tables: &[u64],
    ) {
        for set in &self.fields[field].sets {
            self.widen(shared, *set, tables);
        }
        for (word, tables) in self.fields[field].everywhere.iter_mut().zip(tables) {
            *word |= tables;
        }
    }

    /// The set with the tables of `set` and these; `None` if it is new and no number is left.
    fn union<const F: usize>(
        &mut self,
        shared: &SharedFilter<F>,
        field: usize,
        set: u16,
        tables: &[u64],
    ) -> Option<u16> {
        let (words, at) = (shared.sets.words(), shared.set_at(set));
        let everywhere = &self.fields[field].everywhere;
        self.key.clear();
        self.key.push(field as u64);
        let mut missing = 0;
        for (word, tables) in tables.iter().enumerate() {
            let old = words[at + word].load(Relaxed);
            missing |= tables & !old;
            self.key.push((old | tables) & !everywhere[word]);
        }
        if missing == 0 {
            return Some(set);
        }
        if let Some(known) = self.known.get(self.key.as_slice()) {
            return Some(*known);
        }
        let number = u16::try_from(self.count).ok().filter(|_| self.count < self.count_max)?;
        let at = shared.set_at(number);
        for (word, tables) in self.key[1..].iter().enumerate() {
            words[at + word].store(tables | everywhere[word], Relaxed);
        }
        self.count += 1;
        self.known.insert(self.key.as_slice().into(), number);
        self.fields[field].sets.push(number);
        Some(number)
    }

    /// Adds tables to a set in place.
    fn widen<const F: usize>(&self, shared: &SharedFilter<F>, set: u16, tables: &[u64]) {
        let (at, mut changed) = (shared.set_at(set), false);
        for (index, (word, tables)) in shared.sets.words()[at..].iter().zip(tables).enumerate() {
            let old = word.load(Relaxed);
            let new = tables & !old;
            if new != 0 {
                word.store(old | tables, Relaxed);
                changed |= 64 * index + (new.trailing_zeros() as usize) < self.guarded;
            }
        }
        if changed {
            shared.changes.store(shared.changes.load(Relaxed) + 1, Release);
        }
    }
}

/// The values from the end of the previous range up to `end`, and their set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    end: u32,
    set: u16,
}

/// The values of a slot, as their last bits.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// Number of these bits.
    bits: u32,
    /// The bits before them in the last values of ranges.
    base: u32,
}

impl Block {
    /// The last value.
    fn last(self) -> u32 {
        low_bits(self.bits)
    }

    /// The block of a slot of a fan.
    fn child(at: u32) -> Self {
        Self { bits: FAN_BITS, base: at << FAN_BITS }
    }
}

/// The sets that a change has visited, and their unions with the new tables: mostly a few.
#[derive(Default)]
pub(super) struct Grown {
    few: [(u16, u16); FEW],
    count: usize,
    others: HashMap<u16, u16, Mixing>,
}

/// More sets are looked up by their hash.
const FEW: usize = 4;

impl Grown {
    fn get(&self, set: u16) -> Option<u16> {
        let few = self.few[..self.count].iter().find(|(of, _)| *of == set);
        match few {
            Some((_, grown)) => Some(*grown),
            None if self.count == FEW => self.others.get(&set).copied(),
            None => None,
        }
    }

    fn insert(&mut self, set: u16, grown: u16) {
        match self.few.get_mut(self.count) {
            Some(free) => {
                *free = (set, grown);
                self.count += 1;
            }
            None => _ = self.others.insert(set, grown),
        }
    }
}

/// A change in progress.
pub(super) struct Change<'a, const F: usize> {
    pub(super) shared: &'a SharedFilter<F>,
    pub(super) sets: &'a mut SetWriter,
    /// The first free word of the tree.
    pub(super) free: &'a mut usize,
    pub(super) field: usize,
    /// The tables that the values get, a bit each.
    pub(super) tables: &'a [u64],
    /// Slots and list places that may still be visited.
    pub(super) visits: usize,
    /// Whether the limit was reached.
    pub(super) cut: bool,
    /// The sets visited so far, and their unions.
    pub(super) grown: Grown,
    /// The last of them: neighbours are often equal.
    pub(super) last: Option<(u16, u16)>,
    /// Whether no value outside the span got any of the tables.
    pub(super) exact: bool,
}

impl<const F: usize> Change<'_, F> {
    /// Gives the tables to all values of a span within the field.
    pub(super) fn cover(mut self, span: Span) -> bool {
        let shape = self.shared.shapes[self.field];
        let (first, last) = (shape.slot(span.low), shape.slot(span.high));
        for at in first..=last {
            let low = if at == first { shape.rest(span.low) } else { 0 };
            let high = if at == last { shape.rest(span.high) } else { low_bits(shape.block_bits) };
            self.cover_block(at, Block { bits: shape.block_bits, base: 0 }, low, high);
        }
        if self.cut {
            self.exact = false;
            self.sets.add_everywhere(self.shared, self.field, self.tables);
        }
        self.exact
    }

    /// Gives the tables to the values from `low` to `high` in the block of the slot `at`, unless
    /// the limit of visits is reached.
    fn cover_block(&mut self, at: usize, block: Block, low: u32, high: u32) {
        let tree = self.shared.tree.words();
        let entry = tree::slot(tree, at);
        let visits = if entry.kind() == NodeKind::List { (high - low + 1) as usize } else { 1 };
        match self.visits.checked_sub(visits) {
            Some(left) => self.visits = left,
            None => (self.visits, self.cut) = (0, true),
        }
        if self.cut {
            return;
        }
        let whole = low == 0 && high == block.last();
        match entry.kind() {
            NodeKind::Set if whole => {
                let grown = self.grow(entry.set());
                if grown != entry.set() {
                    tree::set_slot(tree, at, TreeEntry::of_set(grown));
                }
            }
            NodeKind::Ranges(room) if whole => self.cover_quarters(4 * entry.word() + room, room),
            NodeKind::Fan => {
                let (first, last) = (low >> FAN_BITS, high >> FAN_BITS);
                for child in first..=last {
                    let low = if child == first { low & low_bits(FAN_BITS) } else { 0 };
                    let high = if child == last { high } else { u32::MAX } & low_bits(FAN_BITS);
                    let at = 2 * entry.word() + child as usize;
                    self.cover_block(at, Block::child(child), low, high);
                }
            }
            NodeKind::List => {
                let first = 4 * entry.word() + low as usize;
                self.cover_quarters(first, (high - low + 1) as usize);
            }
            NodeKind::Set | NodeKind::Ranges(_) => self.cover_ranges(at, block, low, high),
        }
    }

    /// Gives the tables to successive sets.
    fn cover_quarters(&mut self, first: usize, count: usize) {
        let tree = self.shared.tree.words();
        for at in first..first + count {
            let set = tree::quarter(tree, at);
            let grown = self.grow(set);
            if grown != set {
                tree::set_quarter(tree, at, grown);
            }
        }
    }

    fn cover_ranges(&mut self, at: usize, block: Block, low: u32, high: u32) {
        let tree = self.shared.tree.words();
        let entry = tree::slot(tree, at);
        let old = self.ranges(entry, block);
        let mut new = self.split(&old, low, high);
        if new == old {
            return;
        }
        if let (NodeKind::Ranges(room), true) = (entry.kind(), new.len() == old.len()) {
            for (index, range) in new.iter().enumerate() {
                tree::set_quarter(tree, 4 * entry.word() + room + index, range.set);
            }
            return;
        }
        merge(&mut new);
        match self.entry(&new, block) {
            Some(entry) => tree::set_slot(tree, at, entry),
            None => self.widen_ranges(&old, low, high),
        }
    }

    /// The ranges of a block.
    fn ranges(&self, entry: TreeEntry, block: Block) -> Vec<Range> {
        let last = block.last();
        let NodeKind::Ranges(room) = entry.kind() else {
            return vec![Range { end: last, set: entry.set() }];
        };
        let (tree, at) = (self.shared.tree.words(), 4 * entry.word());
        let range = |index| Range {
            end: u32::from(tree::quarter(tree, at + index)) & last,
            set: tree::quarter(tree, at + room + index),
        };
        let mut ranges: Vec<Range> = (0..room).map(range).collect();
        let count = ranges.iter().take_while(|range| range.end < last).count() + 1;
        ranges.truncate(count);
        ranges
    }

    /// The ranges after the change.
    fn split(&mut self, old: &[Range], low: u32, high: u32) -> Vec<Range> {
        let mut new = Vec::with_capacity(old.len() + 2);
        let mut start = 0;
        for range in old {
            let Range { end, set } = *range;
            let (from, to) = (start.max(low), end.min(high));
            let grown = if from <= to { self.grow(set) } else { set };
            if grown == set {
                new.push(*range);
            } else {
                let before = (start < from).then(|| Range { end: from - 1, set });
                let after = (to < end).then_some(*range);
                new.extend(before.into_iter().chain([Range { end: to, set: grown }]).chain(after));
            }
            start = end + 1;
        }
        new
    }

    /// The entry for the ranges of a block; new nodes are complete when this returns. `None` if
    /// there is no memory for them.
    fn entry(&mut self, ranges: &[Range], block: Block) -> Option<TreeEntry> {
        // They are so few that each may be a list, which is faster to read.
        let in_lists = self.shared.shapes[self.field].bits == Bits::Sixteen;
        match ranges {
            [range] => Some(TreeEntry::of_set(range.set)),
            _ if ranges.len() <= RANGES_MAX && !in_lists => self.ranges_node(ranges, block),
            _ if block.bits > FAN_BITS => self.fan(ranges),
            _ => self.list(ranges),
        }
    }

    fn ranges_node(&mut self, ranges: &[Range], block: Block) -> Option<TreeEntry> {
        let kind = NodeKind::of_ranges(ranges.len());
        let node = self.node(kind)?;
        let (tree, at, room) = (self.shared.tree.words(), 4 * node.word(), 2 * kind.words());
        let last = ranges.len() - 1;
        for index in 0..room {
            let Range { end, set } = ranges[index.min(last)];
            let end = if index < last { (block.base | end) as u16 } else { u16::MAX };
            tree::set_quarter(tree, at + index, end);
            tree::set_quarter(tree, at + room + index, set);
        }
        Some(node)
    }

    fn fan(&mut self, ranges: &[Range]) -> Option<TreeEntry> {
        let node = self.node(NodeKind::Fan)?;
        let tree = self.shared.tree.words();
        let mut rest = ranges;
        for child in 0..1 << FAN_BITS {
            let (start, last) = (child << FAN_BITS, child << FAN_BITS | low_bits(FAN_BITS));
            let within = rest.iter().take_while(|range| range.end < last).count();
            let mut inner = rest[..=within].to_vec();
            for range in &mut inner {
                range.end = range.end.min(last) - start;
            }
            rest = &rest[within + usize::from(rest[within].end == last)..];
            let entry = self.entry(&inner, Block::child(child))?;
            tree::set_slot(tree, 2 * node.word() + child as usize, entry);
        }
        Some(node)
    }

    fn list(&mut self, ranges: &[Range]) -> Option<TreeEntry> {
        let node = self.node(NodeKind::List)?;
        let mut start = 0;
        for range in ranges {
            for value in start..=range.end {
                let at = 4 * node.word() + value as usize;
                tree::set_quarter(self.shared.tree.words(), at, range.set);
            }
            start = range.end + 1;
        }
        Some(node)
    }

    /// Memory for a node, within one cache line or from the start of one on.
    fn node(&mut self, kind: NodeKind) -> Option<TreeEntry> {
        let word = self.free.next_multiple_of(kind.words().min(8));
        let end = word + kind.words();
        let entry = TreeEntry::of_node(kind, word)
            .filter(|_| end + LINE_WORDS <= self.shared.tree.words().len())?;
        *self.free = end;
        Some(entry)
    }

    /// The union of a set and the tables. If no number is left, the set grows in place, for other
    /// values too.
    fn grow(&mut self, set: u16) -> u16 {
        if let Some((last, grown)) = self.last
            && last == set
        {
            return grown;
        }
        if let Some(grown) = self.grown.get(set) {
            self.last = Some((set, grown));
            return grown;
        }
        let union = self.sets.union(self.shared, self.field, set, self.tables);
        let grown = union.unwrap_or_else(|| {
            self.exact = false;
            self.sets.widen(self.shared, set, self.tables);
            set
        });
        self.grown.insert(set, grown);
        self.last = Some((set, grown));
        grown
    }

    /// Without memory for a node, the sets of the span's values grow in place.
    fn widen_ranges(&mut self, ranges: &[Range], low: u32, high: u32) {
        self.exact = false;
        let mut start = 0;
        for range in ranges {
            if start <= high && range.end >= low {
                self.sets.widen(self.shared, range.set, self.tables);
            }
            start = range.end + 1;
        }
    }
}

/// Merges neighbours with the same set.
fn merge(ranges: &mut Vec<Range>) {
    ranges.dedup_by(|next, range| {
        let same = next.set == range.set;
        if same {
            range.end = next.end;
        }
        same
    });
}
