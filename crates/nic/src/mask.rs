//! The rules of one tuple in one group: their keys, and the table with the words of the keys.
//!
//! Workers find the word of a key: the action word of the best rule, or a reference to its old and
//! new word (`niclab_table::VersionedValues`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_packet::key::Key;
use niclab_table::{InsertError, SlotHandle};

use crate::error::{Refused, RuleError};
use crate::keys::RuleKeys;
use crate::limits::PATTERN_WORDS_MAX;
use crate::rule::Pattern;
use crate::tables::{CompactKey, Selector, Table};
use crate::tuple::{Shape, Tuple};

/// The rules of one tuple in one group. The default has no rules: its number is free.
#[derive(Default)]
pub(crate) struct Mask {
    pub(crate) tuple: Arc<Tuple>,
    /// Bits of the outer headers that the mask has.
    outer: Key,
    /// Keys of its rules; a record has the place of its key.
    pub(crate) keys: RuleKeys,
    /// Rules and template tables of the mask, including rules that a burst may still match.
    pub(crate) rules: u32,
    /// The NIC's families of masks that its keys belong to, a bit each.
    pub(crate) families: u8,
}

/// A key that a mask stores.
#[derive(Clone, Copy, Default)]
pub(crate) struct StoredKey {
    /// Its place among the mask's keys.
    pub(crate) place: u32,
    /// The slot where its entry was last seen.
    pub(crate) handle: SlotHandle,
}

/// A mask and the table of its keys.
pub(crate) struct MaskTable<'a> {
    pub(crate) mask: &'a mut Mask,
    /// `None` for the empty mask.
    pub(crate) table: Option<&'a mut Table>,
}

impl Mask {
    pub(crate) fn new(shape: Shape, number: u16) -> Mask {
        let tuple = Arc::new(Tuple::new(shape, number));
        let (_, outer) = shape.selector.expand(&[u64::MAX; PATTERN_WORDS_MAX]);
        let keys = RuleKeys::new(shape.selector.words());
        Mask { tuple, outer, keys, rules: 0, families: 0 }
    }

    /// Whether a pattern without deep keys has this shape. Does not build the pattern's shape.
    #[inline]
    pub(crate) fn suits(&self, pattern: &Pattern) -> bool {
        let shape = &self.tuple.shape;
        self.outer == *pattern.mask()
            && shape.ranges == *pattern.ranges()
            && !shape.selector.is_deep()
    }

    /// Whether its rules match these bits and hardly any others.
    pub(crate) fn shares_most_bits(&self, selector: &Selector) -> bool {
        self.rules > 0 && selector.is_most_of(&self.tuple.shape.selector)
    }
}

impl MaskTable<'_> {
    /// The hash of a key, for the functions that take it.
    #[inline]
    pub(crate) fn hash(&self, key: &CompactKey) -> u64 {
        self.table.as_ref().map_or(0, |table| table.hash(key, self.mask.tuple.number))
    }

    /// Prefetches what the insertion of a key with this hash reads first.
    #[inline]
    pub(crate) fn prefetch_tags(&self, hash: u64) {
        self.table.iter().for_each(|table| table.prefetch_tags(hash));
    }

    /// Prefetches what the insertion reads next; call it when the tags have arrived.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        self.table.iter().for_each(|table| table.prefetch_entry(hash));
    }

    /// The word of a key; zero if the key is not stored.
    pub(crate) fn word(&self, key: &CompactKey) -> u64 {
        match &self.table {
            Some(table) => table.get(key, self.mask.tuple.number).unwrap_or(0),
            None => self.mask.tuple.any.load(Ordering::Relaxed),
        }
    }

    /// The word of a stored key, if its handle is current.
    #[inline]
    pub(crate) fn current_word(&self, stored: StoredKey) -> Option<u64> {
        self.table.as_ref()?.value_of(stored.handle)
    }

    /// The word of a stored key.
    #[inline]
    pub(crate) fn word_at(&self, stored: StoredKey) -> u64 {
        let known = self.table.as_ref().and_then(|table| table.value_of(stored.handle));
        known.unwrap_or_else(|| self.word(&self.mask.keys.get(stored.place)))
    }

    /// Whether a stored key equals this one.
    #[inline]
    pub(crate) fn has(&self, stored: StoredKey, key: &CompactKey) -> bool {
        self.mask.keys.get(stored.place)[..] == key[..]
    }

    /// Whether the handle of a stored key is current.
    #[inline]
    pub(crate) fn is_current(&self, stored: StoredKey) -> bool {
        self.table.as_ref().is_none_or(|table| table.is_current(stored.handle))
    }

    /// Prefetches the entry of a stored key, if its handle is current.
    pub(crate) fn prefetch_value(&self, stored: StoredKey) {
        self.table.iter().for_each(|table| table.prefetch_at(stored.handle));
    }

    /// Prefetches what the removal of a stored key reads: its entry and tag, or the key if its
    /// handle is not current.
    pub(crate) fn prefetch_removal(&self, stored: StoredKey) {
        match &self.table {
            Some(table) if table.is_current(stored.handle) => {
                table.prefetch_at(stored.handle);
                table.prefetch_tags_at(stored.handle);
            }
            _ => self.mask.keys.prefetch(stored.place),
        }
    }

    /// A stored key with a current handle.
    #[cold]
    #[inline(never)]
    pub(crate) fn refreshed(&self, stored: StoredKey) -> StoredKey {
        let key = &self.mask.keys.get(stored.place);
        let handle = self.table.as_ref().and_then(|t| t.handle_of(key, self.mask.tuple.number));
        StoredKey { handle: handle.unwrap_or_default(), ..stored }
    }

    /// Inserts a key with its word. `None`, and nothing is changed, if the key is already stored.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        (key, hash): (&CompactKey, u64),
        word: u64,
    ) -> Result<Option<StoredKey>, Refused> {
        let mask = &mut *self.mask;
        let any = &mask.tuple.any;
        let handle = match &mut self.table {
            Some(table) => match table.insert((key, hash), mask.tuple.number, word) {
                Ok(handle) => handle,
                Err(InsertError::Duplicate { .. }) => return Ok(None),
                Err(error) => return Err(RuleError::Memory { reason: error.to_string() }.into()),
            },
            None if any.load(Ordering::Relaxed) != 0 => return Ok(None),
            None => {
                any.store(word, Ordering::Release);
                SlotHandle::default()
            }
        };
        Ok(Some(StoredKey { place: mask.keys.put(key), handle }))
    }

    /// Replaces the word of a stored key by what `next` returns for it; `None` keeps the word.
    pub(crate) fn change(&mut self, stored: StoredKey, next: impl FnOnce(u64) -> Option<u64>) {
        if let Some(word) = next(self.word_at(stored)) {
            self.set(stored, word);
        }
    }

    /// Replaces the word of a stored key by one store. Zero removes the key.
    #[inline]
    pub(crate) fn set(&mut self, stored: StoredKey, word: u64) {
        match word {
            0 => self.remove(stored),
            word => self.store(stored, word),
        }
    }

    #[inline]
    fn store(&mut self, stored: StoredKey, word: u64) {
        let tuple = &self.mask.tuple;
        match &mut self.table {
            Some(table) => {
                if !table.set_at(stored.handle, word) {
                    table.update(&self.mask.keys.get(stored.place), tuple.number, word);
                }
            }
            None => tuple.any.store(word, Ordering::Release),
        }
    }

    fn remove(&mut self, stored: StoredKey) {
        let tuple = &self.mask.tuple;
        match &mut self.table {
            Some(table) => {
                if !table.remove_at(stored.handle) {
                    table.remove(&self.mask.keys.get(stored.place), tuple.number);
                }
            }
            None => tuple.any.store(0, Ordering::Release),
        }
        self.mask.keys.free(stored.place);
    }
}
