//! The operations of commands on a partition, for all protocols.
//!
//! The rules are memcached's: its protocol.txt says them, and where that is silent its tests do.

use super::item::mark;
use super::log::LogAddress;
use super::partition::{NewItem, Partition, StoreFailure, Value};
use crate::kvs::protocol::answer::{DeleteOutcome, StoreOutcome};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::number::{DIGITS_MAX, decimal, unsigned};
use crate::kvs::protocol::request::{CountDirection, CountRequest, StoreMode, StoreRequest};
use crate::kvs::protocol::time::{Expiry, UnixTime};

/// The outcome of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountOutcome {
    /// The item has this value now.
    Now {
        /// The number.
        value: u64,
        /// The address of the item.
        place: LogAddress,
        /// It was made for that.
        is_made: bool,
    },
    /// The value is no number.
    NotNumeric,
    /// There is no item.
    NotFound,
    /// The item has another number.
    Exists,
    /// There is no room for the longer number.
    NoMemory,
}

impl Partition {
    /// Reads an item: counted, and the item is in use.
    #[inline]
    pub fn get(&mut self, key: &HashedKey<'_>, now: UnixTime) -> Option<LogAddress> {
        let before = self.counters.reclaimed;
        let found = self.find_read(key, now);
        self.counters.get_expired += self.counters.reclaimed - before;
        self.counters.cmd_get += 1;
        self.counters.get_hits += u64::from(found.is_some());
        self.counters.get_misses += u64::from(found.is_none());
        found
    }

    /// Finds an item, and counts one that was over.
    #[inline]
    pub fn find_counted(&mut self, key: &HashedKey<'_>, now: UnixTime) -> Option<LogAddress> {
        let before = self.counters.reclaimed;
        let found = self.find(key, now);
        self.counters.get_expired += self.counters.reclaimed - before;
        found
    }

    /// Gives an item another end.
    pub fn touch(
        &mut self,
        key: &HashedKey<'_>,
        expiry: Expiry,
        now: UnixTime,
    ) -> Option<LogAddress> {
        self.counters.cmd_touch += 1;
        let found = self.find_counted(key, now);
        match found {
            Some(place) => {
                self.counters.touch_hits += 1;
                self.bump(place, now);
                self.change(place, |header| header.expiry = expiry);
            }
            None => self.counters.touch_misses += 1,
        }
        found
    }

    /// Takes an item out.
    pub fn delete(
        &mut self,
        key: &HashedKey<'_>,
        compare: Option<u64>,
        now: UnixTime,
    ) -> DeleteOutcome {
        let Some(place) = self.find(key, now) else {
            self.counters.delete_misses += 1;
            return DeleteOutcome::NotFound;
        };
        if compare.is_some_and(|cas| cas != self.item(place).header.cas) {
            return DeleteOutcome::Exists;
        }
        self.counters.delete_hits += 1;
        self.unlink(place);
        DeleteOutcome::Done
    }

    /// Stores a value.
    pub fn write(&mut self, write: &StoreRequest<'_>, now: UnixTime) -> StoreOutcome {
        self.counters.cmd_set += 1;
        let found = self.find(&write.key, now);
        if write.value.len() > VALUE_LEN_MAX {
            return self.too_large(write, found);
        }
        let Some(place) = found else { return self.write_new(write, now) };
        let header = self.item(place).header;
        let is_same = write.compare.map(|cas| cas == header.cas);
        let (mut expiry, mut marks) = (write.expiry, binary_key(write));
        let value = match (write.mode, is_same) {
            (StoreMode::Add, _) => {
                self.bump(place, now);
                return StoreOutcome::NotStored;
            }
            (StoreMode::Set | StoreMode::Replace, None) => Value::Whole(write.value),
            (StoreMode::Set | StoreMode::Replace, Some(true)) => {
                self.counters.cas_hits += 1;
                Value::Whole(write.value)
            }
            (StoreMode::Set | StoreMode::Replace, Some(false)) => {
                // A 0 compares with nothing, and so is not older than anything.
                let is_older = write.compare.is_some_and(|cas| cas != 0 && cas < header.cas);
                if !(write.stale_allowed && is_older) {
                    self.counters.cas_badval += 1;
                    return StoreOutcome::Exists;
                }
                self.counters.cas_hits += 1;
                expiry = header.expiry;
                marks |= mark::STALE | header.marks & mark::WON;
                Value::Whole(write.value)
            }
            (StoreMode::Append | StoreMode::Prepend, Some(false)) if write.compare != Some(0) => {
                return StoreOutcome::Exists;
            }
            (StoreMode::Append, _) => Value::Behind(write.value),
            (StoreMode::Prepend, _) => Value::Before(write.value),
        };
        let mut flags = write.flags;
        if !matches!(value, Value::Whole(_)) {
            // As memcached says it, whose room for both is not to be had.
            if self.item(place).value.len() + write.value.len() > VALUE_LEN_MAX {
                return StoreOutcome::NotStored;
            }
            (flags, expiry) = (header.flags, header.expiry);
        }
        let cas = write.cas.unwrap_or_else(|| self.next_cas());
        let stored = self.put(&write.key, NewItem { flags, expiry, cas, marks }, value, now);
        self.written(write, stored, now)
    }

    /// Stores a value under a key that has none.
    fn write_new(&mut self, write: &StoreRequest<'_>, now: UnixTime) -> StoreOutcome {
        let is_joined = matches!(write.mode, StoreMode::Append | StoreMode::Prepend);
        let expiry = match (write.mode, write.vivify) {
            (StoreMode::Set | StoreMode::Replace, _) if write.compare.is_some() => {
                self.counters.cas_misses += 1;
                return StoreOutcome::NotFound;
            }
            (StoreMode::Set | StoreMode::Add, _) => write.expiry,
            (StoreMode::Append | StoreMode::Prepend, Some(expiry)) => expiry,
            _ => return StoreOutcome::NotStored,
        };
        debug_assert!(!is_joined || write.vivify.is_some());
        let cas = write.cas.unwrap_or_else(|| self.next_cas());
        let new = NewItem { flags: write.flags, expiry, cas, marks: binary_key(write) };
        let stored = self.put(&write.key, new, Value::Whole(write.value), now);
        self.written(write, stored, now)
    }

    fn written(
        &mut self,
        write: &StoreRequest<'_>,
        stored: Result<LogAddress, StoreFailure>,
        now: UnixTime,
    ) -> StoreOutcome {
        match stored {
            Ok(place) => {
                let item = self.item(place);
                StoreOutcome::Stored { cas: item.header.cas, value_len: item.value.len() }
            }
            Err(StoreFailure::Gone) => StoreOutcome::NotStored,
            Err(StoreFailure::NoMemory) => {
                self.counters.store_no_memory += 1;
                // Whoever reads must not find what was to be replaced.
                if write.mode == StoreMode::Set
                    && let Some(place) = self.find(&write.key, now)
                {
                    self.unlink(place);
                }
                StoreOutcome::NoMemory
            }
        }
    }

    fn too_large(&mut self, write: &StoreRequest<'_>, found: Option<LogAddress>) -> StoreOutcome {
        self.counters.store_too_large += 1;
        if let (StoreMode::Set, Some(place)) = (write.mode, found) {
            self.unlink(place);
        }
        StoreOutcome::TooLarge
    }

    /// A value so long will never come: what it was to replace goes now.
    pub fn refuse_large(&mut self, key: &HashedKey<'_>, mode: StoreMode, now: UnixTime) {
        self.counters.store_too_large += 1;
        if let (StoreMode::Set, Some(place)) = (mode, self.find(key, now)) {
            self.unlink(place);
        }
    }

    /// Counts up or down.
    pub fn count(&mut self, count: &CountRequest<'_>, now: UnixTime) -> CountOutcome {
        let Some(place) = self.find(&count.key, now) else { return self.count_new(count, now) };
        let item = self.item(place);
        if item.value.is_empty() {
            return CountOutcome::NotNumeric;
        }
        if count.compare.is_some_and(|cas| cas != item.header.cas) {
            return CountOutcome::Exists;
        }
        let Some(before) = unsigned(item.value) else { return CountOutcome::NotNumeric };
        let (header, old_len) = (item.header, item.value.len());
        let value = match count.way {
            CountDirection::Up => before.wrapping_add(count.delta),
            CountDirection::Down => before.saturating_sub(count.delta),
        };
        match count.way {
            CountDirection::Up => self.counters.incr_hits += 1,
            CountDirection::Down => self.counters.decr_hits += 1,
        }
        self.bump(place, now);
        let cas = count.cas.unwrap_or_else(|| self.next_cas());
        let (mut digits, mut stored) = ([0; DIGITS_MAX], Ok(place));
        let text = decimal(value, &mut digits);
        if text.len() <= old_len {
            // As memcached does: a shorter number is followed by spaces.
            let room = self.value_mut(place);
            room[..text.len()].copy_from_slice(text);
            room[text.len()..].fill(b' ');
            self.change(place, |header| header.cas = cas);
        } else {
            let (flags, expiry) = (header.flags, header.expiry);
            let marks = header.marks | mark::FETCHED;
            stored = self.put(
                &count.key,
                NewItem { flags, expiry, cas, marks },
                Value::Whole(text),
                now,
            );
        }
        let is_made = false;
        stored.map_or(CountOutcome::NoMemory, |place| CountOutcome::Now { value, place, is_made })
    }

    fn count_new(&mut self, count: &CountRequest<'_>, now: UnixTime) -> CountOutcome {
        let Some((value, expiry)) = count.initial else {
            match count.way {
                CountDirection::Up => self.counters.incr_misses += 1,
                CountDirection::Down => self.counters.decr_misses += 1,
            }
            return CountOutcome::NotFound;
        };
        let cas = count.cas.unwrap_or_else(|| self.next_cas());
        let mut digits = [0; DIGITS_MAX];
        let text = Value::Whole(decimal(value, &mut digits));
        let stored = self.put(&count.key, NewItem { flags: 0, expiry, cas, marks: 0 }, text, now);
        let is_made = true;
        stored.map_or(CountOutcome::NoMemory, |place| CountOutcome::Now { value, place, is_made })
    }
}

fn binary_key(write: &StoreRequest<'_>) -> u8 {
    if write.is_binary_key { mark::BINARY_KEY } else { 0 }
}
