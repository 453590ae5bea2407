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
//! Order of stores: key and value (Relaxed), then the tag (Release). A reader that sees the tag
//! (Acquire) sees the entry, and a slot is written again only after a grace period.
//!
//! One of the modules that may use `unsafe`: unchecked indexing on the look-up path. It rests on
//! types that are made only here: a [`Group`] is below the number of groups, a [`GridSlot`] and a
//! [`GridEntry`] are inside of the grid that they came from. Numbers from elsewhere are checked
//! before they become one of these.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::hash::LiveHash;
use crate::limits::{PROBE_GROUPS_MAX, SLOTS};
use crate::memory::Memory;
use crate::prefetch::{prefetch_at, prefetch_to_write};
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};
use crate::tags::{self, Compare, EMPTY, LINE_WORDS, LIVE_MIN, Line, RETIRED, tag_of};

/// The position of an entry: `15 * group + slot`.
pub(crate) type Position = u32;

/// The most groups there can be: positions stay below `u32::MAX`.
pub(crate) const GROUPS_LIMIT: usize = (u32::MAX as usize - 1) / SLOTS;

/// The number of a group of one grid, below its number of groups. It never leaves the method that
/// created it, so it never reaches another grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group(usize);

/// Three registers: the address of the tags, the address of the entries, and the number of groups.
///
/// A copy for one call, because the compiler may not keep a field in a register across an atomic
/// load.
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

    /// Entries start on a cache line of their own.
    fn first_entry(groups: usize) -> usize {
        (groups * LINE_WORDS).next_multiple_of(16)
    }

    /// The grid of `groups` groups in `memory`.
    ///
    /// # Safety
    /// There is a group, and `memory` has `words(groups)` words at least.
    #[inline(always)]
    pub(crate) unsafe fn new(memory: &'a Memory, groups: usize) -> Self {
        let words = memory.words();
        debug_assert!(groups > 0 && words.len() >= Self::words(groups));
        let tags = words.as_ptr();
        let entries = tags.wrapping_add(Self::first_entry(groups));
        Self { tags: tags.cast(), entries, groups, memory: PhantomData }
    }

    /// The number of the home group of a hash.
    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> usize {
        self.home_group(hash).0
    }

    /// The home group of a hash: its high bits, scaled, so that any number of groups works.
    #[inline(always)]
    fn home_group(&self, hash: u64) -> Group {
        Group(((u128::from(hash) * self.groups as u128) >> 64) as usize)
    }

    #[inline(always)]
    fn next(&self, Group(group): Group) -> Group {
        Group(if group + 1 == self.groups { 0 } else { group + 1 })
    }

    /// The group of a number, if it exists.
    fn group(&self, number: usize) -> Option<Group> {
        (number < self.groups).then_some(Group(number))
    }

    /// The tags of a group.
    #[inline(always)]
    fn line(&self, Group(group): Group) -> &'a Line {
        debug_assert!(group < self.groups);
        // SAFETY: a `Group` is below `groups`: `home_group` scales a 64-bit hash by that / 2^64,
        // `next` wraps, `group` checks, and `GridSlot::place` divides a checked position by SLOTS.
        // The memory, borrowed for 'a, has a line for each group (`new`).
        unsafe { &*self.tags.add(group) }
    }

    /// The first entry, whatever it contains: a placeholder for arrays.
    #[inline(always)]
    pub(crate) fn first(&self) -> GridEntry<'a, W> {
        GridEntry { words: self.entries, memory: PhantomData }
    }

    /// The slot at a position, if it exists.
    #[inline(always)]
    pub(crate) fn slot(&self, position: Position) -> Option<GridSlot<'a, W>> {
        let is_there = (position as usize) < self.groups * SLOTS;
        is_there.then_some(GridSlot { grid: *self, position })
    }

    #[inline(always)]
    fn slot_of(&self, Group(group): Group, slot: usize) -> GridSlot<'a, W> {
        debug_assert!(group < self.groups && slot < SLOTS);
        GridSlot { grid: *self, position: (group * SLOTS + slot) as Position }
    }

    /// Prefetches the tags of the home of a hash.
    #[inline(always)]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        prefetch_at(self.tags.wrapping_add(self.home(hash)));
    }

    /// [`Grid::prefetch_home`] for the writer.
    #[inline(always)]
    pub(crate) fn prefetch_home_to_write(&self, hash: u64) {
        prefetch_to_write(self.tags.wrapping_add(self.home(hash)));
    }

    /// Prefetches the entry that an operation on a key of this hash most likely reads: the first
    /// one whose tag fits, else the slot where it would be placed.
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        let home = self.home_group(hash);
        let line = self.line(home);
        let fits = tags::matches(line, tag_of(hash));
        let slots = if fits == 0 { tags::matches(line, EMPTY) } else { fits };
        if slots != 0 {
            self.slot_of(home, slots.trailing_zeros() as usize).prefetch_to_write();
        }
    }

    /// The first entry in the probe sequence of a hash whose tag fits.
    ///
    /// `None` means that no key with this hash is here; an entry must still be compared.
    #[inline(always)]
    pub(crate) fn candidate<C: Compare>(
        &self,
        compare: C,
        hash: LiveHash,
    ) -> Option<GridEntry<'a, W>> {
        let home = self.home_group(hash.word());
        let line = self.line(home);
        let mask = compare.matches(line, hash.tag());
        if mask != 0 {
            return Some(self.likely::<C>(home, mask));
        }
        match tags::overflow(line) {
            0 => None,
            _ => self.candidate_beyond(compare, home, hash.tag()),
        }
    }

    #[inline(always)]
    fn candidate_beyond<C: Compare>(
        &self,
        compare: C,
        home: Group,
        tag: u16,
    ) -> Option<GridEntry<'a, W>> {
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

    /// The entry of the first slot in a mask of `group`, which is not empty: the lane after the
    /// last slot is a count below LIVE_MIN (`tags::add_overflow`), which no tag of a live hash
    /// equals.
    #[inline(always)]
    fn likely<C: Compare>(&self, Group(group): Group, mask: u32) -> GridEntry<'a, W> {
        let slot = C::scaled_slot(mask, Self::ENTRY_BYTES);
        debug_assert!(slot < SLOTS * Self::ENTRY_BYTES);
        self.entry_at(group * (SLOTS * Self::ENTRY_BYTES) + slot)
    }

    /// The entry that starts `offset` bytes behind the first.
    #[inline(always)]
    fn entry_at(&self, offset: usize) -> GridEntry<'a, W> {
        debug_assert!(offset < self.groups * SLOTS * Self::ENTRY_BYTES);
        GridEntry { words: self.entries.wrapping_byte_add(offset), memory: PhantomData }
    }

    /// The slot of `key`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u64; W]) -> Option<GridSlot<'a, W>> {
        let tag = tag_of(hash);
        let mut group = self.home_group(hash);
        for _ in 0..PROBE_GROUPS_MAX {
            let line = self.line(group);
            let mut mask = tags::matches(line, tag);
            while mask != 0 {
                let slot = self.slot_of(group, mask.trailing_zeros() as usize);
                if slot.entry().holds(key) {
                    return Some(slot);
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

    /// Writes a new entry into the first empty slot of its probe sequence; `None` if there is none.
    ///
    /// The key must not be here. For the writer only.
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64, key: &[u64; W], value: u64) -> Option<GridSlot<'a, W>> {
        let home = self.home_group(hash);
        let mut group = home;
        for _ in 0..PROBE_GROUPS_MAX.min(self.groups) {
            let empty = tags::matches(self.line(group), EMPTY);
            if empty != 0 {
                let number = empty.trailing_zeros() as usize;
                let slot = self.slot_of(group, number);
                self.count_passed(home, group, true);
                slot.write(key, value);
                tags::set_tag(self.line(group), number, tag_of(hash));
                return Some(slot);
            }
            group = self.next(group);
        }
        None
    }

    #[inline(always)]
    fn count_passed(&self, home: Group, end: Group, more: bool) {
        let mut group = home;
        while group != end {
            tags::add_overflow(self.line(group), more);
            group = self.next(group);
        }
    }

    /// The live entries of a group; none if the group does not exist.
    pub(crate) fn live(self, number: usize) -> impl Iterator<Item = GridSlot<'a, W>> {
        self.group(number).into_iter().flat_map(move |group| self.live_in(group))
    }

    fn live_in(self, group: Group) -> impl Iterator<Item = GridSlot<'a, W>> {
        let line = self.line(group);
        (0..SLOTS)
            .filter(|slot| tags::tag(line, *slot) >= LIVE_MIN)
            .map(move |slot| self.slot_of(group, slot))
    }

    /// The live entries of the groups that may have keys of this home: the home, and the groups
    /// that follow full ones.
    pub(crate) fn live_from(self, home: usize) -> impl Iterator<Item = GridSlot<'a, W>> {
        let next = move |group: &Group| {
            (tags::overflow(self.line(*group)) != 0).then(|| self.next(*group))
        };
        let limit = PROBE_GROUPS_MAX.min(self.groups);
        let groups = std::iter::successors(self.group(home), next).take(limit);
        groups.flat_map(move |group| self.live_in(group))
    }
}

/// A slot of a grid: a position below the end.
///
/// It does not guarantee the content: the writer has to know whether another entry was put there
/// since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GridSlot<'a, const W: usize> {
    grid: Grid<'a, W>,
    position: Position,
}

impl<'a, const W: usize> GridSlot<'a, W> {
    /// Its position, for [`Grid::slot`].
    #[inline(always)]
    pub(crate) fn position(self) -> Position {
        self.position
    }

    #[inline(always)]
    fn place(self) -> (Group, usize) {
        (Group(self.position as usize / SLOTS), self.position as usize % SLOTS)
    }

    #[inline(always)]
    fn entry(self) -> GridEntry<'a, W> {
        self.grid.entry_at(self.position as usize * Grid::<W>::ENTRY_BYTES)
    }

    #[inline(always)]
    pub(crate) fn value(self) -> u64 {
        self.entry().value()
    }

    /// Replaces the value of the entry, by one store.
    #[inline(always)]
    pub(crate) fn set_value(self, value: u64) {
        self.entry().words()[W].store(value, Release);
    }

    pub(crate) fn key(self) -> [u64; W] {
        let entry = self.entry().words();
        std::array::from_fn(|word| entry[word].load(Relaxed))
    }

    #[inline(always)]
    fn write(self, key: &[u64; W], value: u64) {
        let entry = self.entry().words();
        for (word, content) in entry.iter().zip(key) {
            word.store(*content, Relaxed);
        }
        entry[W].store(value, Relaxed);
    }

    /// Prefetches the entry, for the writer.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(self) {
        self.entry().prefetch_to_write();
    }

    /// Prefetches the tags of its group, for the writer.
    #[inline(always)]
    pub(crate) fn prefetch_tags_to_write(self) {
        prefetch_to_write(self.grid.tags.wrapping_add(self.place().0.0));
    }

    /// Removes the entry, whose key has this hash; returns its last value. The slot cannot be used
    /// until [`GridSlot::reuse`]. For the writer only.
    ///
    /// The tag is removed first: a look-up that still finds the counts only searches further.
    pub(crate) fn take(self, hash: u64) -> u64 {
        let (group, slot) = self.place();
        tags::set_tag(self.grid.line(group), slot, RETIRED);
        self.grid.count_passed(self.grid.home_group(hash), group, false);
        self.value()
    }

    /// Makes the slot of a removed entry usable, after its grace period. For the writer only.
    pub(crate) fn reuse(self) {
        let (group, slot) = self.place();
        debug_assert_eq!(tags::tag(self.grid.line(group), slot), RETIRED);
        tags::set_tag(self.grid.line(group), slot, EMPTY);
    }
}

/// An entry of a grid: one register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GridEntry<'a, const W: usize> {
    words: *const AtomicU64,
    memory: PhantomData<&'a Memory>,
}

impl<'a, const W: usize> GridEntry<'a, W> {
    /// Its words: key, value, spare.
    #[inline(always)]
    fn words(self) -> &'a [AtomicU64] {
        // SAFETY: an entry is the first of a grid, which has one, that of a `GridSlot`, whose
        // position is below the end, or the likely one of a group below `groups`, in a slot below
        // SLOTS (`likely`). The memory, borrowed for 'a, has STRIDE words for each (`Grid::new`).
        unsafe { std::slice::from_raw_parts(self.words, Grid::<W>::STRIDE) }
    }

    #[inline(always)]
    pub(crate) fn prefetch(self) {
        prefetch_at(self.words);
        if Grid::<W>::STRIDE > 8 {
            prefetch_at(self.words.wrapping_add(8));
        }
    }

    /// [`GridEntry::prefetch`] for the writer.
    #[inline(always)]
    fn prefetch_to_write(self) {
        prefetch_to_write(self.words);
        if Grid::<W>::STRIDE > 8 {
            prefetch_to_write(self.words.wrapping_add(8));
        }
    }

    /// Whether its key is this one.
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
