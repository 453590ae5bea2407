//! What commands do to a partition, whatever protocol they came by.
//!
//! The rules are memcached's: its protocol.txt says them, and where that is silent its tests do.

use super::item::mark;
use super::log::Place;
use super::partition::{New, Partition, Unstored, Value};
use crate::kvs::protocol::answer::{Deleted, Written};
use crate::kvs::protocol::hash::Key;
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::number::{DIGITS_MAX, decimal, unsigned};
use crate::kvs::protocol::request::{Count, CountWay, Mode, Write};
use crate::kvs::protocol::time::{Expiry, Moment};

/// What became of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The item has this value now.
    Now {
        /// The number.
        value: u64,
        /// Where the item is.
        place: Place,
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
    pub fn get(&mut self, key: &Key<'_>, now: Moment) -> Option<Place> {
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
    pub fn find_counted(&mut self, key: &Key<'_>, now: Moment) -> Option<Place> {
        let before = self.counters.reclaimed;
        let found = self.find(key, now);
        self.counters.get_expired += self.counters.reclaimed - before;
        found
    }

    /// Gives an item another end.
    pub fn touch(&mut self, key: &Key<'_>, expiry: Expiry, now: Moment) -> Option<Place> {
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
    pub fn delete(&mut self, key: &Key<'_>, compare: Option<u64>, now: Moment) -> Deleted {
        let Some(place) = self.find(key, now) else {
            self.counters.delete_misses += 1;
            return Deleted::NotFound;
        };
        if compare.is_some_and(|cas| cas != self.item(place).header.cas) {
            return Deleted::Exists;
        }
        self.counters.delete_hits += 1;
        self.unlink(place);
        Deleted::Done
    }

    /// Stores a value.
    pub fn write(&mut self, write: &Write<'_>, now: Moment) -> Written {
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
            (Mode::Add, _) => {
                self.bump(place, now);
                return Written::NotStored;
            }
            (Mode::Set | Mode::Replace, None) => Value::Whole(write.value),
            (Mode::Set | Mode::Replace, Some(true)) => {
                self.counters.cas_hits += 1;
                Value::Whole(write.value)
            }
            (Mode::Set | Mode::Replace, Some(false)) => {
                // A 0 compares with nothing, and so is not older than anything.
                let is_older = write.compare.is_some_and(|cas| cas != 0 && cas < header.cas);
                if !(write.stale_allowed && is_older) {
                    self.counters.cas_badval += 1;
                    return Written::Exists;
                }
                self.counters.cas_hits += 1;
                expiry = header.expiry;
                marks |= mark::STALE | header.marks & mark::WON;
                Value::Whole(write.value)
            }
            (Mode::Append | Mode::Prepend, Some(false)) if write.compare != Some(0) => {
                return Written::Exists;
            }
            (Mode::Append, _) => Value::Behind(write.value),
            (Mode::Prepend, _) => Value::Before(write.value),
        };
        let mut flags = write.flags;
        if !matches!(value, Value::Whole(_)) {
            // As memcached says it, whose room for both is not to be had.
            if self.item(place).value.len() + write.value.len() > VALUE_LEN_MAX {
                return Written::NotStored;
            }
            (flags, expiry) = (header.flags, header.expiry);
        }
        let cas = write.cas.unwrap_or_else(|| self.next_cas());
        let stored = self.put(&write.key, New { flags, expiry, cas, marks }, value, now);
        self.written(write, stored, now)
    }

    /// Stores a value under a key that has none.
    fn write_new(&mut self, write: &Write<'_>, now: Moment) -> Written {
        let is_joined = matches!(write.mode, Mode::Append | Mode::Prepend);
        let expiry = match (write.mode, write.vivify) {
            (Mode::Set | Mode::Replace, _) if write.compare.is_some() => {
                self.counters.cas_misses += 1;
                return Written::NotFound;
            }
            (Mode::Set | Mode::Add, _) => write.expiry,
            (Mode::Append | Mode::Prepend, Some(expiry)) => expiry,
            _ => return Written::NotStored,
        };
        debug_assert!(!is_joined || write.vivify.is_some());
        let cas = write.cas.unwrap_or_else(|| self.next_cas());
        let new = New { flags: write.flags, expiry, cas, marks: binary_key(write) };
        let stored = self.put(&write.key, new, Value::Whole(write.value), now);
        self.written(write, stored, now)
    }

    fn written(
        &mut self,
        write: &Write<'_>,
        stored: Result<Place, Unstored>,
        now: Moment,
    ) -> Written {
        match stored {
            Ok(place) => {
                let item = self.item(place);
                Written::Stored { cas: item.header.cas, value_len: item.value.len() }
            }
            Err(Unstored::Gone) => Written::NotStored,
            Err(Unstored::NoMemory) => {
                self.counters.store_no_memory += 1;
                // Whoever reads must not find what was to be replaced.
                if write.mode == Mode::Set
                    && let Some(place) = self.find(&write.key, now)
                {
                    self.unlink(place);
                }
                Written::NoMemory
            }
        }
    }

    fn too_large(&mut self, write: &Write<'_>, found: Option<Place>) -> Written {
        self.counters.store_too_large += 1;
        if let (Mode::Set, Some(place)) = (write.mode, found) {
            self.unlink(place);
        }
        Written::TooLarge
    }

    /// A value so long will never come: what it was to replace goes now.
    pub fn refuse_large(&mut self, key: &Key<'_>, mode: Mode, now: Moment) {
        self.counters.store_too_large += 1;
        if let (Mode::Set, Some(place)) = (mode, self.find(key, now)) {
            self.unlink(place);
        }
    }

    /// Counts up or down.
    pub fn count(&mut self, count: &Count<'_>, now: Moment) -> Counted {
        let Some(place) = self.find(&count.key, now) else { return self.count_new(count, now) };
        let item = self.item(place);
        if item.value.is_empty() {
            return Counted::NotNumeric;
        }
        if count.compare.is_some_and(|cas| cas != item.header.cas) {
            return Counted::Exists;
        }
        let Some(before) = unsigned(item.value) else { return Counted::NotNumeric };
        let (header, old_len) = (item.header, item.value.len());
        let value = match count.way {
            CountWay::Up => before.wrapping_add(count.delta),
            CountWay::Down => before.saturating_sub(count.delta),
        };
        match count.way {
            CountWay::Up => self.counters.incr_hits += 1,
            CountWay::Down => self.counters.decr_hits += 1,
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
            stored =
                self.put(&count.key, New { flags, expiry, cas, marks }, Value::Whole(text), now);
        }
        let is_made = false;
        stored.map_or(Counted::NoMemory, |place| Counted::Now { value, place, is_made })
    }

    fn count_new(&mut self, count: &Count<'_>, now: Moment) -> Counted {
        let Some((value, expiry)) = count.initial else {
            match count.way {
                CountWay::Up => self.counters.incr_misses += 1,
                CountWay::Down => self.counters.decr_misses += 1,
            }
            return Counted::NotFound;
        };
        let cas = count.cas.unwrap_or_else(|| self.next_cas());
        let mut digits = [0; DIGITS_MAX];
        let text = Value::Whole(decimal(value, &mut digits));
        let stored = self.put(&count.key, New { flags: 0, expiry, cas, marks: 0 }, text, now);
        let is_made = true;
        stored.map_or(Counted::NoMemory, |place| Counted::Now { value, place, is_made })
    }
}

fn binary_key(write: &Write<'_>) -> u8 {
    if write.is_binary_key { mark::BINARY_KEY } else { 0 }
}
