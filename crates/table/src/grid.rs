//! Groups of tags and the entries behind them, addressed by position.
//!
//! A hash has a home group; a key lives there or, while groups are full, in one of the next
//! (`PROBE_GROUPS_MAX` at most, around the end). Every full group it passed counts it, so a
//! look-up stops at the first group with neither its tag nor an overflow count. An entry is
//! found at `15 * group + slot`: no index is stored, a look-up costs one line of tags and one
//! line of entries. A stride keeps an entry within one line (two for 64-byte keys):
//!
//! | key words | stride | content |
//! |---|---|---|
//! | 1 | 16 bytes | key, value |
//! | 2 | 32 bytes | key, value, spare word |
//! | 3 | 32 bytes | key, value |
//! | 4 to 7 | 64 bytes | key, value, spare words |
//! | 8 to 15 | 128 bytes | key, value, spare words |
//! | 16, 17 | 192 bytes | key, value, spare words |
//!
//! Order of stores: key and value (Relaxed), then the tag (Release). Who sees the tag
//! (Acquire) sees the entry, and a slot is written again only after a grace period.
//!
//! One of the modules that may use `unsafe`: unchecked indexing on the look-up path.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::limits::{PROBE_GROUPS_MAX, SLOTS};
use crate::memory::Memory;
use crate::prefetch::{prefetch_at, prefetch_to_write};
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};
use crate::tags::{self, Compare, EMPTY, LINE_WORDS, LIVE_MIN, Line, RETIRED, tag_of};

/// Where an entry lives: `15 * group + slot`.
pub(crate) type Position = u32;

/// The most groups there can be: positions stay below `u32::MAX`.
pub(crate) const GROUPS_LIMIT: usize = (u32::MAX as usize - 1) / SLOTS;

/// Three registers: where the tags are, where the entries are, how many groups there are.
///
/// A copy for the length of one call, because the compiler may not keep a field in a register
/// across an atomic load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid<'a, const W: usize> {
    tags: *const Line,
    entries: *const AtomicU64,
    groups: usize,
    memory: PhantomData<&'a Memory>,
}

impl<'a, const W: usize> Grid<'a, W> {
    const STRIDE: usize = match W {
        1 => 2,
        2 | 3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16 | 17 => 24,
        _ => panic!("keys have 1 to 17 words"),
    };

    /// Bytes from an entry to the next.
    const ENTRY_BYTES: usize = Self::STRIDE * size_of::<u64>();

    /// Words of memory for `groups` groups.
    pub(crate) fn words(groups: usize) -> usize {
        Self::first_entry(groups) + groups * SLOTS * Self::STRIDE
    }

    /// Entries start on a line of their own.
    fn first_entry(groups: usize) -> usize {
        (groups * LINE_WORDS).next_multiple_of(16)
    }

    /// The grid in `memory`, which was made of `words(groups)` zeros for it.
    #[inline(always)]
    pub(crate) fn new(memory: &'a Memory, groups: usize) -> Self {
        let words = memory.words();
        debug_assert_eq!(words.len(), Self::words(groups));
        let tags = words.as_ptr();
        let entries = tags.wrapping_add(Self::first_entry(groups));
        Self { tags: tags.cast(), entries, groups, memory: PhantomData }
    }

    /// The home group of a hash: its high bits, scaled, so that any number of groups will do.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.groups as u128) >> 64) as usize
    }

    #[inline(always)]
    fn next(&self, group: usize) -> usize {
        if group + 1 == self.groups { 0 } else { group + 1 }
    }

    /// The tags of `group`, which is below `groups`: a home or the next of a group.
    #[inline(always)]
    pub(crate) fn line(&self, group: usize) -> &'a Line {
        debug_assert!(group < self.groups);
        // SAFETY: homes and their successors are below `groups` (`home` scales a 64-bit hash by
        // `groups / 2^64`), and the memory, borrowed for 'a, has a line for each group.
        unsafe { &*self.tags.add(group) }
    }

    /// The entry at `position`.
    #[inline(always)]
    pub(crate) fn entry(&self, position: Position) -> Entry<'a, W> {
        debug_assert!((position as usize) < self.groups * SLOTS);
        self.entry_at(position as usize * Self::ENTRY_BYTES)
    }

    /// The entry that starts `offset` bytes behind the first.
    #[inline(always)]
    fn entry_at(&self, offset: usize) -> Entry<'a, W> {
        debug_assert!(offset < self.groups * SLOTS * Self::ENTRY_BYTES);
        Entry { words: self.entries.wrapping_byte_add(offset), memory: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn prefetch_line(&self, group: usize) {
        prefetch_at(self.tags.wrapping_add(group));
    }

    /// [`Grid::prefetch_line`] for the writer.
    #[inline(always)]
    pub(crate) fn prefetch_line_to_write(&self, group: usize) {
        prefetch_to_write(self.tags.wrapping_add(group));
    }

    /// Prefetches the entry that an operation on a key of this hash will most likely look at: the
    /// first whose tag fits, else the one it would be placed at.
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        let home = self.home(hash);
        let line = self.line(home);
        let fits = tags::matches(line, tag_of(hash));
        let slots = if fits == 0 { tags::matches(line, EMPTY) } else { fits };
        if slots != 0 {
            self.entry(position_of(home, slots.trailing_zeros() as usize)).prefetch_to_write();
        }
    }

    #[inline(always)]
    pub(crate) fn value(&self, position: Position) -> u64 {
        self.entry(position).value()
    }

    /// The one store by which an entry changes its value.
    #[inline(always)]
    pub(crate) fn set_value(&self, position: Position, value: u64) {
        self.entry(position).words()[W].store(value, Release);
    }

    pub(crate) fn key(&self, position: Position) -> [u64; W] {
        let entry = self.entry(position).words();
        std::array::from_fn(|word| entry[word].load(Relaxed))
    }

    /// The first entry on the way from `home` whose tag fits.
    ///
    /// `None` says that no key with this hash is here; an entry must still be compared.
    #[inline(always)]
    pub(crate) fn candidate<C: Compare>(
        &self,
        compare: C,
        home: usize,
        tag: u16,
    ) -> Option<Entry<'a, W>> {
        let line = self.line(home);
        let mask = compare.matches(line, tag);
        if mask != 0 {
            return Some(self.likely::<C>(home, mask));
        }
        match tags::overflow(line) {
            0 => None,
            _ => self.candidate_beyond(compare, home, tag),
        }
    }

    #[inline(always)]
    fn candidate_beyond<C: Compare>(
        &self,
        compare: C,
        home: usize,
        tag: u16,
    ) -> Option<Entry<'a, W>> {
        let mut group = home;
        for _ in 1..PROBE_GROUPS_MAX {
            group = self.next(group);
            let line = self.line(group);
            let mask = compare.matches(line, tag);
            if mask != 0 {
                return Some(self.likely::<C>(group, mask));
            }
            if tags::overflow(line) == 0 {
                return None;
            }
        }
        None
    }

    /// The entry of the first slot in a mask of `group`.
    #[inline(always)]
    fn likely<C: Compare>(&self, group: usize, mask: u32) -> Entry<'a, W> {
        self.entry_at(group * (SLOTS * Self::ENTRY_BYTES) + C::scaled_slot(mask, Self::ENTRY_BYTES))
    }

    /// The position of `key`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u64; W]) -> Option<Position> {
        let tag = tag_of(hash);
        let mut group = self.home(hash);
        for _ in 0..PROBE_GROUPS_MAX {
            let line = self.line(group);
            let mut mask = tags::matches(line, tag);
            while mask != 0 {
                let position = position_of(group, mask.trailing_zeros() as usize);
                if self.entry(position).holds(key) {
                    return Some(position);
                }
                mask &= mask - 1;
            }
            if tags::overflow(line) == 0 {
                return None;
            }
            group = self.next(group);
        }
        None
    }

    /// Writes a new entry into the first empty slot on its way; false when there is none.
    ///
    /// The key must not be here. For the writer only.
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64, key: &[u64; W], value: u64) -> Option<Position> {
        let home = self.home(hash);
        let mut group = home;
        for _ in 0..PROBE_GROUPS_MAX.min(self.groups) {
            let empty = tags::matches(self.line(group), EMPTY);
            if empty != 0 {
                let slot = empty.trailing_zeros() as usize;
                self.count_passed(home, group, true);
                self.write(position_of(group, slot), key, value);
                tags::set_tag(self.line(group), slot, tag_of(hash));
                return Some(position_of(group, slot));
            }
            group = self.next(group);
        }
        None
    }

    #[inline(always)]
    fn write(&self, position: Position, key: &[u64; W], value: u64) {
        let entry = self.entry(position).words();
        for (word, content) in entry.iter().zip(key) {
            word.store(*content, Relaxed);
        }
        entry[W].store(value, Relaxed);
    }

    /// Takes an entry out; its slot stays unusable until [`Array::reuse`]. For the writer only.
    ///
    /// The tag goes first: a look-up that still finds the counts merely looks further.
    pub(crate) fn take(&self, hash: u64, position: Position) -> u64 {
        let (group, slot) = place_of(position);
        tags::set_tag(self.line(group), slot, RETIRED);
        self.count_passed(self.home(hash), group, false);
        self.value(position)
    }

    /// Makes the slot of a taken entry usable; its grace period is over. For the writer only.
    pub(crate) fn reuse(&self, position: Position) {
        let (group, slot) = place_of(position);
        debug_assert_eq!(tags::tag(self.line(group), slot), RETIRED);
        tags::set_tag(self.line(group), slot, EMPTY);
    }

    #[inline(always)]
    fn count_passed(&self, home: usize, end: usize, more: bool) {
        let mut group = home;
        while group != end {
            tags::add_overflow(self.line(group), more);
            group = self.next(group);
        }
    }

    /// Positions of live entries in one group.
    pub(crate) fn live(self, group: usize) -> impl Iterator<Item = Position> + 'a {
        let line = self.line(group);
        (0..SLOTS)
            .filter(|slot| tags::tag(line, *slot) >= LIVE_MIN)
            .map(move |slot| position_of(group, slot))
    }

    /// The groups that may hold keys of the home `group`: it and those its full ones point to.
    pub(crate) fn reach(self, group: usize) -> impl Iterator<Item = usize> + 'a {
        let next = move |group: &usize| {
            (tags::overflow(self.line(*group)) != 0).then(|| self.next(*group))
        };
        let limit = PROBE_GROUPS_MAX.min(self.groups);
        std::iter::successors(Some(group), next).take(limit)
    }
}

/// An entry of a grid: one register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a, const W: usize> {
    words: *const AtomicU64,
    memory: PhantomData<&'a Memory>,
}

impl<'a, const W: usize> Entry<'a, W> {
    /// Its words: key, value, spare.
    #[inline(always)]
    fn words(self) -> &'a [AtomicU64] {
        // SAFETY: entries come from `entry_at` with the offset of a group below `groups` and a
        // slot below SLOTS (the lane behind the last slot is a count below LIVE_MIN, see `limits`,
        // which no tag equals); the memory, borrowed for 'a, has STRIDE words for each.
        unsafe { std::slice::from_raw_parts(self.words, Grid::<W>::STRIDE) }
    }

    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch_at(self.words);
        if Grid::<W>::STRIDE > 8 {
            prefetch_at(self.words.wrapping_add(8));
        }
    }

    /// [`Entry::prefetch`] for the writer.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(self) {
        prefetch_to_write(self.words);
        if Grid::<W>::STRIDE > 8 {
            prefetch_to_write(self.words.wrapping_add(8));
        }
    }

    #[inline(always)]
    pub(crate) fn holds(self, key: &[u64; W]) -> bool {
        let words = self.words();
        let differ = |word: usize| words[word].load(Relaxed) ^ key[word];
        (0..W).fold(0, |all, word| all | differ(word)) == 0
    }

    #[inline(always)]
    pub(crate) fn value(self) -> u64 {
        self.words()[W].load(Acquire)
    }
}

#[inline(always)]
fn position_of(group: usize, slot: usize) -> Position {
    (group * SLOTS + slot) as Position
}

#[inline(always)]
fn place_of(position: Position) -> (usize, usize) {
    (position as usize / SLOTS, position as usize % SLOTS)
}
