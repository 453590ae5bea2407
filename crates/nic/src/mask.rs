//! The rules of one tuple in one group: their keys, and the table that has the words of the keys.
//!
//! The word of a key is what workers find: that of the rule in effect, or a reference to what a
//! transaction made of it (`niclab_table::Versions`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_packet::key::Key;
use niclab_table::{InsertError, Spot};

use crate::error::{Refused, RuleError};
use crate::keys::Keys;
use crate::limits::PATTERN_WORDS_MAX;
use crate::rule::Pattern;
use crate::tables::{CompactKey, Selector, Table};
use crate::tuple::{Shape, Tuple};

/// The rules of one tuple in one group; the default has none and stands for a free place.
#[derive(Default)]
pub(crate) struct Mask {
    pub(crate) tuple: Arc<Tuple>,
    /// Bits of the outer headers that it picks.
    outer: Key,
    /// Keys of its rules; a record knows its place.
    pub(crate) keys: Keys,
    /// Rules, those included that a burst under way may still meet, and template tables.
    pub(crate) rules: u32,
    /// Which of the NIC's families of masks its keys belong to, a bit each.
    pub(crate) families: u8,
}

/// A key that a mask keeps.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Its place among the mask's keys.
    pub(crate) place: u32,
    /// Its entry, where it was last seen.
    pub(crate) spot: Spot,
}

/// A mask with the table of its keys.
pub(crate) struct Seated<'a> {
    pub(crate) mask: &'a mut Mask,
    /// `None` for the empty mask.
    pub(crate) table: Option<&'a mut Table>,
}

impl Mask {
    pub(crate) fn new(shape: Shape, number: u16) -> Mask {
        let tuple = Arc::new(Tuple::new(shape, number));
        let (_, outer) = shape.selector.spread(&[u64::MAX; PATTERN_WORDS_MAX]);
        let keys = Keys::new(shape.selector.words());
        Mask { tuple, outer, keys, rules: 0, families: 0 }
    }

    /// Whether a pattern, which has no deep lines, has this shape. Makes no shape of it.
    #[inline]
    pub(crate) fn suits(&self, pattern: &Pattern) -> bool {
        let shape = &self.tuple.shape;
        self.outer == *pattern.mask()
            && shape.ranges == *pattern.ranges()
            && !shape.selector.is_deep()
    }

    /// Whether its rules look at these bits and hardly any other.
    pub(crate) fn has_most_in(&self, selector: &Selector) -> bool {
        self.rules > 0 && selector.is_most_of(&self.tuple.shape.selector)
    }
}

impl Seated<'_> {
    /// The hash of a key, by which its entry is asked for and made.
    #[inline]
    pub(crate) fn hash(&self, key: &CompactKey) -> u64 {
        self.table.as_ref().map_or(0, |table| table.hash(key, self.mask.tuple.number))
    }

    /// Asks for the memory that the making of a key with this hash looks at first.
    #[inline]
    pub(crate) fn prefetch_tags(&self, hash: u64) {
        self.table.iter().for_each(|table| table.prefetch_tags(hash));
    }

    /// Asks for what it looks at then; to be called when that has come.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        self.table.iter().for_each(|table| table.prefetch_entry(hash));
    }

    /// The word of a key; zero where it is not kept.
    pub(crate) fn word(&self, key: &CompactKey) -> u64 {
        match &self.table {
            Some(table) => table.get(key, self.mask.tuple.number).unwrap_or(0),
            None => self.mask.tuple.any.load(Ordering::Relaxed),
        }
    }

    /// The word of a kept key, if its entry is where it was last seen.
    #[inline]
    pub(crate) fn known_word(&self, kept: Kept) -> Option<u64> {
        self.table.as_ref()?.at(kept.spot)
    }

    /// The word of a kept key.
    #[inline]
    pub(crate) fn word_at(&self, kept: Kept) -> u64 {
        let known = self.table.as_ref().and_then(|table| table.at(kept.spot));
        known.unwrap_or_else(|| self.word(&self.mask.keys.get(kept.place)))
    }

    /// Whether a kept key is this one.
    #[inline]
    pub(crate) fn has(&self, kept: Kept, key: &CompactKey) -> bool {
        self.mask.keys.get(kept.place)[..] == key[..]
    }

    /// Whether the entry of a kept key is where it was last seen.
    #[inline]
    pub(crate) fn knows(&self, kept: Kept) -> bool {
        self.table.as_ref().is_none_or(|table| table.knows(kept.spot))
    }

    /// Asks for the entry of a kept key, if it is where it was last seen.
    pub(crate) fn prefetch_kept(&self, kept: Kept) {
        self.table.iter().for_each(|table| table.prefetch_at(kept.spot));
    }

    /// Asks for what the taking out of a kept key looks at: its entry and tag, or the key if its
    /// entry is not where it was last seen.
    pub(crate) fn prefetch_taking(&self, kept: Kept) {
        match &self.table {
            Some(table) if table.knows(kept.spot) => {
                table.prefetch_at(kept.spot);
                table.prefetch_tags_at(kept.spot);
            }
            _ => self.mask.keys.prefetch(kept.place),
        }
    }

    /// A kept key, its entry seen anew.
    #[cold]
    #[inline(never)]
    pub(crate) fn seen(&self, kept: Kept) -> Kept {
        let key = &self.mask.keys.get(kept.place);
        let spot = self.table.as_ref().and_then(|t| t.spot_of(key, self.mask.tuple.number));
        Kept { spot: spot.unwrap_or_default(), ..kept }
    }

    /// Keeps a new key, with its word; where it is kept. `None` if it was kept before: nothing is
    /// then changed.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        (key, hash): (&CompactKey, u64),
        word: u64,
    ) -> Result<Option<Kept>, Refused> {
        let mask = &mut *self.mask;
        let any = &mask.tuple.any;
        let spot = match &mut self.table {
            Some(table) => match table.insert((key, hash), mask.tuple.number, word) {
                Ok(spot) => spot,
                Err(InsertError::Duplicate { .. }) => return Ok(None),
                Err(error) => return Err(RuleError::Memory { reason: error.to_string() }.into()),
            },
            None if any.load(Ordering::Relaxed) != 0 => return Ok(None),
            None => {
                any.store(word, Ordering::Release);
                Spot::default()
            }
        };
        Ok(Some(Kept { place: mask.keys.put(key), spot }))
    }

    /// Gives a kept key the word that `next` makes of the one it has; `None` leaves it.
    pub(crate) fn change(&mut self, kept: Kept, next: impl FnOnce(u64) -> Option<u64>) {
        if let Some(word) = next(self.word_at(kept)) {
            self.put(kept, word);
        }
    }

    /// Gives a kept key another word by one store. Zero takes the key out.
    #[inline]
    pub(crate) fn put(&mut self, kept: Kept, word: u64) {
        match word {
            0 => self.take_out(kept),
            word => self.store(kept, word),
        }
    }

    #[inline]
    fn store(&mut self, kept: Kept, word: u64) {
        let tuple = &self.mask.tuple;
        match &mut self.table {
            Some(table) => {
                if !table.set_at(kept.spot, word) {
                    table.update(&self.mask.keys.get(kept.place), tuple.number, word);
                }
            }
            None => tuple.any.store(word, Ordering::Release),
        }
    }

    fn take_out(&mut self, kept: Kept) {
        let tuple = &self.mask.tuple;
        match &mut self.table {
            Some(table) => {
                if !table.remove_at(kept.spot) {
                    table.remove(&self.mask.keys.get(kept.place), tuple.number);
                }
            }
            None => tuple.any.store(0, Ordering::Release),
        }
        self.mask.keys.free(kept.place);
    }
}
