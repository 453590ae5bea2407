//! The writing end of an exact-match table: insert, remove, update, grow.
//!
//! The table has one writer, its owner; `shared` explains what readers see meanwhile. Each
//! operation does a bounded amount of housekeeping: it moves at most one group of a growing table,
//! frees at most two batches of destroyed slots, frees at most one piece of a replaced array, and
//! makes the system back at most one piece of the next array. A table that has used three quarters
//! of its slots prepares the next array, so that no growth waits for memory.

use crate::error::{CreateError, InsertError};
use crate::grid::{Grid, GridSlot, Position};
use crate::hash::{Hasher, key_bytes_max, pack_bytes};
use crate::limits::{
    CAPACITY_LIMIT, GROW_QUARTERS, HUGE_BYTES, MAKESHIFT_BYTES_MAX, MOVE_GROUPS, PAGE_BYTES,
    RESERVE_PER_GROUP, TURN,
};
use crate::memory::{OutOfMemory, Pages};
use crate::qsbr::QsbrDomain;
use crate::reader::Reader;
use crate::retired::Retired;
use crate::shared::{Array, Arrays};
use crate::sync::{Relaxed, Release};

/// The configuration of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The most entries, 1 to [`CAPACITY_LIMIT`].
    pub capacity_max: usize,
    /// Pages for its larger arrays.
    pub pages: Pages,
    /// Entries to make room for now, at most `capacity_max`; their memory is touched at once. The
    /// table grows from there in small steps.
    pub reserve: usize,
    /// Seed of its hash. Draw it at random if an attacker may choose keys.
    pub seed: u64,
}

impl Config {
    /// A table of up to `capacity_max` entries that starts small and grows.
    #[must_use]
    pub const fn growing(capacity_max: usize, seed: u64) -> Self {
        Self { capacity_max, pages: Pages::Huge, reserve: 0, seed }
    }

    /// A table of up to `capacity_max` entries with room for all of them from the start.
    #[must_use]
    pub const fn reserved(capacity_max: usize, seed: u64) -> Self {
        Self { capacity_max, pages: Pages::Huge, reserve: capacity_max, seed }
    }
}

/// The handle of a slot with an entry, for the writer: with it, the writer finds the entry without
/// a search.
///
/// An entry moves only when its table grows. A handle is valid for as long as the entry lives;
/// [`Exact::is_current`] says whether the table has grown since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotHandle {
    /// Number of the array, from 1 on; 0 is no array.
    array: u32,
    position: Position,
}

/// An exact-match table from keys of `W` words (1 to 17) to 64-bit values: the writing end.
#[derive(Debug)]
pub struct Exact<const W: usize> {
    arrays: Arrays<W>,
    /// Number of the current array, from 1 on.
    number: u32,
    retired: Retired<Position>,
    len: usize,
    /// Used slots (live or retired) at which the current array is too full.
    grow_at: usize,
    /// The next array, made ahead. Either it has twice the memory of the current array, and is kept
    /// until the table grows, even if entries are removed. Or it is as large as the current one,
    /// for a move to huge pages.
    next: Option<Array<W>>,
    /// Used slots (live or retired) from which on an insert prepares the next array.
    prepare_at: usize,
    /// Number of operations that did housekeeping.
    housekept: usize,
    config: Config,
}

impl<const W: usize> Exact<W> {
    /// An empty table whose readers are participants of `domain`.
    ///
    /// # Errors
    /// If the configuration contradicts itself or the reserved memory cannot be allocated.
    pub fn new(config: Config, domain: &QsbrDomain) -> Result<Self, CreateError> {
        let Config { capacity_max, pages, reserve, seed } = config;
        if !(1..=CAPACITY_LIMIT).contains(&capacity_max) {
            return Err(CreateError::Capacity { capacity_max, limit: CAPACITY_LIMIT });
        }
        if reserve > capacity_max {
            return Err(CreateError::Reserve { reserve, capacity_max });
        }
        let mut array = Array::new(groups_for(reserve), pages)
            .map_err(|OutOfMemory { bytes }| CreateError::OutOfMemory { bytes })?;
        if reserve > 0 {
            array.populate(usize::MAX);
        }
        Ok(Self {
            grow_at: grow_at(array.groups()),
            next: None,
            prepare_at: prepare_at(array.groups()),
            housekept: 0,
            arrays: Arrays::new(array, Hasher::new(seed), domain.clone()),
            number: 1,
            retired: Retired::default(),
            len: 0,
            config,
        })
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> Reader<W> {
        Reader::new(self.arrays.shared())
    }

    /// Adds an entry; returns its handle.
    ///
    /// # Errors
    /// If the key exists, the table is full, no slot near the key's home is free, or the memory to
    /// grow cannot be allocated. The table is then unchanged.
    #[inline]
    pub fn insert(&mut self, key: &[u64; W], value: u64) -> Result<SlotHandle, InsertError> {
        self.insert_hashed(self.hash(key), key, value)
    }

    /// The hash function, for code that hashes keys without the table.
    #[must_use]
    pub fn hasher(&self) -> Hasher {
        self.secrets().clone()
    }

    /// The hash of a key; the same in every table with this seed.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u64; W]) -> u64 {
        self.secrets().hash(key)
    }

    /// [`insert`](Self::insert) for a key whose [`hash`](Self::hash) is known. With another hash
    /// the entry cannot be found, and its removal disturbs other keys.
    ///
    /// # Errors
    /// As `insert`.
    #[inline]
    pub fn insert_hashed(
        &mut self,
        hash: u64,
        key: &[u64; W],
        value: u64,
    ) -> Result<SlotHandle, InsertError> {
        if let Some(slot) = self.arrays.view().find(hash, key) {
            return Err(InsertError::Duplicate { value: slot.value() });
        }
        if self.len >= self.config.capacity_max {
            return Err(InsertError::Full { capacity_max: self.config.capacity_max });
        }
        if self.is_busy() || self.len + self.retired.len() >= self.prepare_at {
            self.make_room()?;
        }
        let placed = self.grid().place(hash, key, value).map(GridSlot::position);
        let position = match placed {
            Some(position) => position,
            None => self.place_crowded(hash, key, value)?,
        };
        self.len += 1;
        Ok(self.handle(position))
    }

    /// The handle of a key.
    #[must_use]
    pub fn handle_of(&self, key: &[u64; W]) -> Option<SlotHandle> {
        let slot = self.grid().find(self.hash(key), key)?;
        Some(self.handle(slot.position()))
    }

    /// Whether a handle still leads to its entry. If not, the table has grown since, or grows now;
    /// look the key up.
    #[inline]
    #[must_use]
    pub fn is_current(&self, handle: SlotHandle) -> bool {
        self.slot_at(handle).is_some()
    }

    /// The slot of a current handle. (A handle of another table may lie beyond the end.)
    #[inline]
    fn slot_at(&self, handle: SlotHandle) -> Option<GridSlot<'_, W>> {
        let is_of_this = handle.array == self.number && self.arrays.predecessor().is_none();
        if is_of_this { self.grid().slot(handle.position) } else { None }
    }

    /// The value of the entry at a handle, which lives; `None` if the handle is not current.
    #[inline]
    #[must_use]
    pub fn value_of(&self, handle: SlotHandle) -> Option<u64> {
        self.slot_at(handle).map(GridSlot::value)
    }

    /// Replaces the value of the entry at a handle, which lives, by one store. False if the handle
    /// is not current.
    #[inline]
    pub fn set_at(&mut self, handle: SlotHandle, value: u64) -> bool {
        let slot = self.slot_at(handle);
        if let Some(slot) = slot {
            slot.set_value(value);
        }
        slot.is_some()
    }

    /// Removes the entry at a handle, which lives; returns its last value. `None` if the handle is
    /// not current. The slot is reused after a grace period.
    #[inline]
    pub fn remove_at(&mut self, handle: SlotHandle) -> Option<u64> {
        let slot = self.slot_at(handle)?;
        let value = slot.take(self.hash(&slot.key()));
        self.retire_slot(handle.position);
        self.len -= 1;
        if self.is_busy() {
            self.housekeep();
        }
        Some(value)
    }

    /// Prefetches the entry at a handle.
    #[inline]
    pub fn prefetch_at(&self, handle: SlotHandle) {
        if let Some(slot) = self.slot_at(handle) {
            slot.prefetch_to_write();
        }
    }

    /// Prefetches what [`remove_at`](Self::remove_at) reads other than the entry.
    #[inline]
    pub fn prefetch_tags_at(&self, handle: SlotHandle) {
        if let Some(slot) = self.slot_at(handle) {
            slot.prefetch_tags_to_write();
        }
    }

    fn handle(&self, position: Position) -> SlotHandle {
        SlotHandle { array: self.number, position }
    }

    /// Removes an entry; returns its last value. Its slot is reused after a grace period.
    #[inline]
    pub fn remove(&mut self, key: &[u64; W]) -> Option<u64> {
        let hash = self.hash(key);
        let take = |grid: Grid<'_, W>| {
            let slot = grid.find(hash, key)?;
            Some((slot.position(), slot.take(hash)))
        };
        // The old copy first: see `shared`.
        let old = self.arrays.predecessor().and_then(|old| take(old.grid()));
        let new = take(self.grid());
        if let Some((position, _)) = new {
            self.retire_slot(position);
        }
        let (_, value) = new.or(old)?;
        self.len -= 1;
        if self.is_busy() {
            self.housekeep();
        }
        Some(value)
    }

    /// Replaces the value of an entry; returns the old value. One atomic store, or two while the
    /// table grows; between the two, two threads may differ.
    #[inline]
    pub fn update(&mut self, key: &[u64; W], value: u64) -> Option<u64> {
        let hash = self.hash(key);
        let new = self.grid().find(hash, key);
        let old = self.arrays.predecessor().and_then(|old| old.grid().find(hash, key));
        let before = new.or(old)?.value();
        // The new copy first: see `shared`.
        for copy in [new, old].into_iter().flatten() {
            copy.set_value(value);
        }
        Some(before)
    }

    /// Prefetches what an operation on a key of this hash reads first. Call
    /// [`prefetch_entry`](Self::prefetch_entry) when it has arrived, and then the operation.
    #[inline]
    pub fn prefetch_tags(&self, hash: u64) {
        self.grid().prefetch_home_to_write(hash);
        if let Some(old) = self.arrays.predecessor() {
            old.grid().prefetch_home_to_write(hash);
        }
    }

    /// Prefetches the entry that an operation on a key of this hash most likely reads.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.grid().prefetch_entry(hash);
        if let Some(old) = self.arrays.predecessor() {
            old.grid().prefetch_entry(hash);
        }
    }

    /// The value of a key, for the writer, which needs no participant.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u64; W]) -> Option<u64> {
        Some(self.arrays.view().find(self.hash(key), key)?.value())
    }

    /// [`insert`](Self::insert) with a key of bytes, of any length up to [`key_bytes_max`]`(W)`,
    /// packed by [`pack_bytes`]. A table has either keys of bytes or keys of words.
    ///
    /// # Errors
    /// As `insert`, and [`InsertError::KeyTooLong`].
    pub fn insert_bytes(&mut self, key: &[u8], value: u64) -> Result<SlotHandle, InsertError> {
        let too_long = InsertError::KeyTooLong { len: key.len(), limit: key_bytes_max(W) };
        self.insert(&pack_bytes(key).ok_or(too_long)?, value)
    }

    /// [`remove`](Self::remove) with a key of bytes; `None` if the key is too long.
    pub fn remove_bytes(&mut self, key: &[u8]) -> Option<u64> {
        self.remove(&pack_bytes(key)?)
    }

    /// [`update`](Self::update) with a key of bytes; `None` if the key is too long.
    pub fn update_bytes(&mut self, key: &[u8], value: u64) -> Option<u64> {
        self.update(&pack_bytes(key)?, value)
    }

    /// [`get`](Self::get) with a key of bytes; `None` if the key is too long.
    #[must_use]
    pub fn lookup_bytes(&self, key: &[u8]) -> Option<u64> {
        self.get(&pack_bytes(key)?)
    }

    /// Live entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries that the table has room for; it grows when more come.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.grow_at.min(self.config.capacity_max)
    }

    /// Memory of entries and tags, including arrays that still wait for readers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arrays.bytes() + self.next.as_ref().map_or(0, |next| next.memory().bytes())
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = ([u64; W], u64)> + '_ {
        let new = entries(self.arrays.current());
        let old = self.arrays.predecessor().into_iter().flat_map(entries);
        let moved = |key: &[u64; W]| self.grid().find(self.hash(key), key).is_some();
        new.chain(old.filter(move |(key, _)| !moved(key)))
    }

    /// The number of the array with all entries, and its groups; `None` while the table grows, when
    /// two arrays have entries.
    #[must_use]
    pub fn array(&self) -> Option<(u32, usize)> {
        let grows = self.arrays.predecessor().is_some();
        (!grows).then(|| (self.number, self.arrays.current().groups()))
    }

    /// The entries of a group of that array, to go through a table in parts. The groups of one
    /// array together have all entries that existed from the first call to the last.
    pub fn group(&self, group: usize) -> impl Iterator<Item = ([u64; W], u64)> + '_ {
        self.grid().live(group).map(|slot| (slot.key(), slot.value()))
    }

    /// Moves up to `groups` groups of a growing table; true if the table does not grow any more.
    pub fn advance(&mut self, groups: usize) -> bool {
        self.move_some_groups(groups);
        self.arrays.predecessor().is_none()
    }

    /// Does housekeeping in idle time: moves up to `groups` groups of a growing table, frees
    /// destroyed slots and replaced arrays. True if nothing is left to do. If false, call it again
    /// after the readers have passed quiescent states.
    ///
    /// You need not call it. But while a table has not finished its growth, look-ups search two
    /// arrays.
    pub fn run_housekeeping(&mut self, groups: usize) -> bool {
        self.retired.close(&self.arrays.shared().domain);
        self.reclaim();
        let is_grown = self.finish_growth(groups);
        self.arrays.release();
        is_grown && !self.is_busy() && self.retired.is_empty()
    }

    /// Finishes growth in idle time, which makes look-ups cheaper: moves up to `groups` groups of a
    /// growing table, and moves a table that grew on small pages to huge pages. Each call makes the
    /// system back one huge page. True if nothing is left to do. Does not wait for readers.
    pub fn finish_growth(&mut self, groups: usize) -> bool {
        self.move_some_groups(groups);
        if self.arrays.predecessor().is_some() {
            return false;
        }
        if self.config.pages == Pages::Small || !self.arrays.current().memory().lacks_huge() {
            return true;
        }
        // A table that would grow soon grows now.
        let groups = self.arrays.current().groups();
        let soon = self.len + self.retired.len() >= prepare_at(groups);
        let largest = groups >= self.groups_max();
        let wanted = if soon && !largest { self.groups_next() } else { groups };
        let fits = |next: &Array<W>| next.groups() == wanted && !next.memory().lacks_huge();
        if !self.next.as_ref().is_some_and(fits) {
            let Ok(array) = Array::new(wanted, self.config.pages) else {
                return true;
            };
            self.replace_next(Some(array));
        }
        let backed = |next: &mut Array<W>| next.populate(HUGE_BYTES);
        if self.next.as_mut().is_some_and(backed) {
            return self.grow().is_err();
        }
        false
    }

    /// Replaces the next array; the old one is freed piece by piece.
    fn replace_next(&mut self, array: Option<Array<W>>) {
        if let Some(unused) = std::mem::replace(&mut self.next, array) {
            self.arrays.discard(unused);
        }
        self.prepare_at = prepare_at(self.arrays.current().groups());
    }

    /// The grid of the current array.
    #[inline]
    fn grid(&self) -> Grid<'_, W> {
        self.arrays.current().grid()
    }

    #[inline]
    fn secrets(&self) -> &Hasher {
        &self.arrays.shared().hasher
    }

    #[inline]
    fn is_busy(&self) -> bool {
        self.arrays.predecessor().is_some() || self.arrays.has_retired()
    }

    /// Retires the slot of an entry that was removed from the current array.
    fn retire_slot(&mut self, position: Position) {
        if self.retired.push(position, &self.arrays.shared().domain) {
            self.reclaim();
        }
    }

    fn reclaim(&mut self) {
        // All positions are of the current array, because growth forgets retired slots.
        let current = self.arrays.current().grid();
        let reuse = |position| current.slot(position).into_iter().for_each(GridSlot::reuse);
        self.retired.reclaim(&self.arrays.shared().domain, reuse);
    }

    /// Advances growth, or begins it if the array is too full.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), InsertError> {
        let is_turn = self.housekeep();
        let used = |table: &Self| table.len + table.retired.len();
        if self.arrays.predecessor().is_some() || used(self) < self.prepare_at {
            return Ok(());
        }
        if used(self) < self.grow_at {
            self.prepare(is_turn);
            return Ok(());
        }
        self.reclaim();
        if used(self) >= self.grow_at && self.arrays.current().groups() < self.groups_max() {
            self.grow()?;
        }
        Ok(())
    }

    /// Places a key that found no empty slot: frees retired slots if it can, or grows beyond the
    /// size for `capacity_max`, but at most to twice that size.
    #[cold]
    #[inline(never)]
    fn place_crowded(
        &mut self,
        hash: u64,
        key: &[u64; W],
        value: u64,
    ) -> Result<Position, InsertError> {
        self.retired.close(&self.arrays.shared().domain);
        self.reclaim();
        if let Some(slot) = self.grid().place(hash, key, value) {
            return Ok(slot.position());
        }
        let is_small = self.arrays.current().groups() < 2 * self.groups_max();
        if self.arrays.predecessor().is_none() && is_small {
            self.grow()?;
            if let Some(slot) = self.grid().place(hash, key, value) {
                return Ok(slot.position());
            }
        }
        Err(InsertError::Crowded { len: self.len, waiting: self.retired.len() })
    }

    fn groups_max(&self) -> usize {
        groups_for(self.config.capacity_max)
    }

    /// Groups of the next array: twice as many if `capacity_max` allows.
    fn groups_next(&self) -> usize {
        let groups = self.arrays.current().groups();
        (2 * groups).min(self.groups_max()).max(groups + groups / 4 + 1)
    }

    /// Makes the next array, or makes the system back a piece of it. A lack of memory does no harm:
    /// growth tries again.
    fn prepare(&mut self, is_turn: bool) {
        let groups = self.arrays.current().groups();
        let is_largest = groups >= self.groups_max();
        let turns = (self.grow_at - prepare_at(groups)) / TURN;
        let is_done = match &mut self.next {
            _ if is_largest => true,
            Some(next) if next.groups() > groups => {
                // Enough bytes that all of it is backed when it is needed, and a page.
                let bytes = next.memory().bytes() / turns.max(1) + PAGE_BYTES;
                is_turn && next.populate(bytes)
            }
            // There is none, or one to move to.
            _ => {
                let array = self.array_to_grow().ok();
                let is_none = array.is_none();
                self.replace_next(array);
                is_none
            }
        };
        if is_done {
            self.prepare_at = self.grow_at;
        }
    }

    /// An array to grow into, on pages that the system backs quickly.
    fn array_to_grow(&self) -> Result<Array<W>, OutOfMemory> {
        let groups = self.groups_next();
        let is_small = groups * Grid::<W>::words(1) * 8 < MAKESHIFT_BYTES_MAX;
        Array::new(groups, if is_small { Pages::Small } else { self.config.pages })
    }

    /// Publishes the next array, or a new one, to grow into.
    fn grow(&mut self) -> Result<(), InsertError> {
        let array = match self.next.take() {
            Some(next) => next,
            None => self
                .array_to_grow()
                .map_err(|OutOfMemory { bytes }| InsertError::OutOfMemory { bytes })?,
        };
        let groups = array.groups();
        self.arrays.grow(array);
        self.number += 1;
        (self.grow_at, self.prepare_at) = (grow_at(groups), prepare_at(groups));
        // The old array gets no more entries, so its retired slots are not reused.
        self.retired.clear();
        Ok(())
    }

    /// The housekeeping of one operation; true if it is this operation's turn to handle memory.
    fn housekeep(&mut self) -> bool {
        self.move_some_groups(MOVE_GROUPS);
        self.housekept = self.housekept.wrapping_add(1);
        let is_turn = self.housekept.is_multiple_of(TURN);
        if is_turn {
            self.arrays.release();
        }
        is_turn
    }

    /// Moves up to `groups` groups of a growing table.
    fn move_some_groups(&mut self, groups: usize) {
        if self.arrays.predecessor().is_some_and(|old| self.move_groups(old, groups)) {
            self.arrays.end_growth();
        }
    }

    /// True when all groups of `old` have been moved.
    fn move_groups(&self, old: &Array<W>, groups: usize) -> bool {
        let current = self.arrays.current();
        let moved = current.moved.load(Relaxed);
        let end = old.groups().min(moved.saturating_add(groups));
        for home in moved..end {
            if !self.move_home(old.grid(), home) {
                return false;
            }
            current.moved.store(home + 1, Release);
        }
        end == old.groups()
    }

    /// Copies the keys whose home in `old` is `home`. False if a key found no room, which the hash
    /// makes extremely unlikely; the home is then tried again later.
    fn move_home(&self, old: Grid<'_, W>, home: usize) -> bool {
        let new = self.grid();
        old.live_from(home).all(|slot| {
            let key = slot.key();
            let hash = self.hash(&key);
            old.home(hash) != home
                || new.find(hash, &key).is_some()
                || new.place(hash, &key, slot.value()).is_some()
        })
    }
}

fn groups_for(entries: usize) -> usize {
    entries.div_ceil(RESERVE_PER_GROUP).max(1)
}

fn grow_at(groups: usize) -> usize {
    groups * GROW_QUARTERS / 4
}

fn prepare_at(groups: usize) -> usize {
    grow_at(groups) / 4 * 3
}

fn entries<const W: usize>(array: &Array<W>) -> impl Iterator<Item = ([u64; W], u64)> + '_ {
    let grid = array.grid();
    let slots = (0..array.groups()).flat_map(move |group| grid.live(group));
    slots.map(|slot| (slot.key(), slot.value()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::{Memory, REFUSE};

    fn growing() -> (QsbrDomain, Exact<2>) {
        let domain = QsbrDomain::new();
        let table = Exact::new(Config::growing(100_000, 1), &domain).unwrap();
        (domain, table)
    }

    #[test]
    fn growth_without_memory_changes_nothing() {
        let (_, mut table) = growing();
        let full = table.capacity() as u64;
        REFUSE.set(true);
        for id in 0..full {
            table.insert(&[id, 0], id).unwrap();
        }
        let bytes = table.bytes();
        let refused = table.insert(&[full, 0], full);
        REFUSE.set(false);
        assert!(matches!(refused, Err(InsertError::OutOfMemory { .. })), "{refused:?}");
        assert_eq!((table.len() as u64, table.bytes()), (full, bytes));
        assert!((0..full).all(|id| table.get(&[id, 0]) == Some(id)));
        assert_eq!(table.get(&[full, 0]), None);
        table.insert(&[full, 0], full).unwrap();
        assert!((0..=full).all(|id| table.get(&[id, 0]) == Some(id)));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let new = |config| Exact::<2>::new(config, &QsbrDomain::new()).map(|_| ());
        let config = Config::reserved(10, 1);
        let limit = CAPACITY_LIMIT;
        for capacity_max in [0, limit + 1] {
            let error = new(Config { capacity_max, reserve: 0, ..config });
            assert_eq!(error, Err(CreateError::Capacity { capacity_max, limit }));
        }
        let error = new(Config { reserve: 11, ..config });
        assert_eq!(error, Err(CreateError::Reserve { reserve: 11, capacity_max: 10 }));
        REFUSE.set(true);
        let error = new(config);
        REFUSE.set(false);
        assert!(matches!(error, Err(CreateError::OutOfMemory { .. })));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn replaced_arrays_go_once_the_readers_have_passed() {
        let (domain, mut table) = growing();
        let mut participant = domain.register_reader();
        for id in 0..50_000 {
            table.insert(&[id, 0], id).unwrap();
        }
        for _ in 0..10_000 {
            table.run_housekeeping(100);
        }
        assert!(table.arrays.has_retired(), "a reader may still look at them");
        participant.quiescent();
        assert!((0..1000).any(|_| table.run_housekeeping(100)));
        let next = table.next.as_ref().map_or(0, |next| next.memory().bytes());
        assert_eq!(table.bytes(), table.arrays.current().memory().bytes() + next);
    }

    /// The widest entries take the most memory for each insert.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn the_next_array_is_there_and_backed_when_a_table_grows() {
        let domain = QsbrDomain::new();
        let mut table = Exact::<17>::new(Config::growing(200_000, 1), &domain).unwrap();
        let mut growths = 0;
        for id in 0..100_000 {
            let is_last = table.arrays.predecessor().is_none() && table.len == table.grow_at;
            if is_last && table.len > 1_000 {
                let next = table.next.as_mut().unwrap();
                assert!(next.populate(0), "at {id}");
                growths += 1;
            }
            table.insert(&[id; 17], id).unwrap();
        }
        assert!(growths > 5, "{growths}");
    }

    /// A huge page is more than an insert may wait for, and so are many small ones.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn an_insert_has_the_system_back_a_few_small_pages_at_most() {
        let (_, mut table) = growing();
        let mut before = 0;
        for id in 0..100_000 {
            table.insert(&[id, 0], id).unwrap();
            let backed = table.next.as_ref().map_or(0, |next| next.memory().backed());
            assert!(backed <= before + 16 * PAGE_BYTES, "{} at {id}", backed - before);
            before = backed;
            let arrays = table.next.iter().map(|next| next.memory());
            let mut arrays = arrays.chain([table.arrays.current().memory()]);
            let is_small = |memory: &Memory| memory.bytes() < HUGE_BYTES || memory.lacks_huge();
            assert!(cfg!(any(miri, not(target_os = "linux"))) || arrays.all(is_small), "{id}");
        }
        assert!(table.bytes() > 4 * HUGE_BYTES, "{}", table.bytes());
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_table_at_rest_moves_to_huge_pages_and_grows_on() {
        // Where it is to grow soon, where it grows, and where it has much room.
        for part in [40_000, 47_000, 60_000] {
            let (_, mut table) = growing();
            for id in 0..part {
                table.insert(&[id, 0], id).unwrap();
            }
            assert!(table.arrays.current().memory().lacks_huge(), "{part}");
            assert!(!table.finish_growth(1), "{part}");
            assert!((0..100_000).any(|_| table.finish_growth(100)), "{part}");
            assert!(!table.arrays.current().memory().lacks_huge(), "{part}");
            assert!(table.arrays.predecessor().is_none(), "{part}");
            assert!(table.len() < table.prepare_at, "{part}");
            for id in part..100_000 {
                table.insert(&[id, 0], id).unwrap();
            }
            assert!((0..100_000).all(|id| table.get(&[id, 0]) == Some(id)), "{part}");
            assert_eq!(table.len(), 100_000);
        }
    }

    #[test]
    fn replaced_arrays_go_beside_removals_alone() {
        let (_, mut table) = growing();
        let mut count = 0;
        while count < if cfg!(miri) { 200 } else { 2_000 } || table.arrays.predecessor().is_none() {
            table.insert(&[count, 0], count).unwrap();
            count += 1;
        }
        for id in 0..count {
            assert_eq!(table.remove(&[id, 0]), Some(id));
        }
        assert!(table.arrays.predecessor().is_none() && !table.arrays.has_retired());
    }

    /// An insert moves one group at most, so no insert copies more than a group's reach.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn an_insert_moves_one_group_at_most() {
        let (_, mut table) = growing();
        let mut growths = 0;
        for id in 0..50_000 {
            let before = table.arrays.current().moved.load(Relaxed);
            let was_growing = table.arrays.predecessor().is_some();
            table.insert(&[id, 0], id).unwrap();
            growths += u64::from(!was_growing && table.arrays.predecessor().is_some());
            if was_growing {
                assert!(table.arrays.current().moved.load(Relaxed) <= before + MOVE_GROUPS);
            }
        }
        assert!(growths > 8, "{growths}");
    }
}
