//! The rules of one mask in one group: the table that workers look into, and the keys in it.
//!
//! The word of a key is what workers find: that of the rule in effect, or a reference to what a
//! transaction made of it (`niclab_table::Versions`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Config, CreateError, Domain, InsertError, prefetch};

use crate::error::RuleError;
use crate::limits::RULES_MAX;
use crate::tables::{CompactKey, Selector, Shared, Table};

const TABLE_CAPACITY_MAX: usize = RULES_MAX as usize;

/// The rules of one mask in one group; the default has none and stands for a free place.
#[derive(Default)]
pub(crate) struct Mask {
    /// `None` for the empty mask.
    table: Option<Table>,
    pub(crate) shared: Arc<Shared>,
    /// Keys of its rules, `words` each; a record knows its place.
    keys: Vec<u64>,
    keys_free: Vec<u32>,
    /// Rules, those included that a burst under way may still meet.
    pub(crate) rules: u32,
}

impl Mask {
    pub(crate) fn new(selector: Selector, seed: u64, domain: &Domain) -> Result<Mask, RuleError> {
        let config = Config::growing(TABLE_CAPACITY_MAX, seed);
        let memory = |error: CreateError| RuleError::Memory { reason: error.to_string() };
        let table = match selector.words() {
            0 => None,
            words => Some(Table::new(words, config, domain).map_err(memory)?),
        };
        let view = table.as_ref().map(Table::view);
        let shared = Arc::new(Shared::new(selector, view));
        Ok(Mask { table, shared, keys: Vec::new(), keys_free: Vec::new(), rules: 0 })
    }

    pub(crate) fn bytes(&self) -> usize {
        let table = self.table.as_ref().map_or(0, Table::bytes);
        table + self.keys.capacity() * 8 + self.keys_free.capacity() * 4
    }

    /// Asks for the key kept at a place.
    pub(crate) fn prefetch_key(&self, place: u32) {
        let words = self.shared.selector.words();
        self.keys.get(place as usize * words).into_iter().for_each(prefetch);
    }

    /// Asks for the memory that an operation on a key looks at first.
    pub(crate) fn prefetch_tags(&self, key: &[u64]) {
        self.table.iter().for_each(|table| table.prefetch_tags(key));
    }

    /// Asks for what it looks at then; to be called when that has come. The key may be that of
    /// another mask, which had this one's place.
    pub(crate) fn prefetch_entry(&self, key: &[u64]) {
        let own = key.len() == self.shared.selector.words();
        self.table.iter().filter(|_| own).for_each(|table| table.prefetch_entry(key));
    }

    /// The key kept at a place.
    pub(crate) fn key(&self, place: u32) -> CompactKey {
        let words = self.shared.selector.words();
        self.keys[place as usize * words..][..words].iter().copied().collect()
    }

    /// The word of a key; zero where it is not kept.
    pub(crate) fn word(&self, key: &[u64]) -> u64 {
        match &self.table {
            Some(table) => table.get(key).unwrap_or(0),
            None => self.shared.any.load(Ordering::Relaxed),
        }
    }

    /// The word of the key kept at a place.
    pub(crate) fn word_at(&self, place: u32) -> u64 {
        self.word(&self.key(place))
    }

    /// Keeps a new key, with its word; where it is kept. `None` if it was kept before: nothing is
    /// then changed.
    pub(crate) fn keep(&mut self, key: &[u64], word: u64) -> Result<Option<u32>, RuleError> {
        let words = self.shared.selector.words();
        match &mut self.table {
            Some(table) => match table.insert(key, word) {
                Ok(()) => {}
                Err(InsertError::Duplicate { .. }) => return Ok(None),
                Err(error) => return Err(RuleError::Memory { reason: error.to_string() }),
            },
            None if self.shared.any.load(Ordering::Relaxed) != 0 => return Ok(None),
            None => self.shared.any.store(word, Ordering::Release),
        }
        if let Some(place) = self.keys_free.pop() {
            self.keys[place as usize * words..][..words].copy_from_slice(key);
            return Ok(Some(place));
        }
        self.keys.extend_from_slice(key);
        Ok(Some((self.keys.len() / words.max(1)) as u32 - u32::from(words > 0)))
    }

    /// Gives a kept key the word that `next` makes of the one it has, by one store; `None` leaves
    /// it. Zero takes the key out.
    #[inline]
    pub(crate) fn change(&mut self, place: u32, next: impl FnOnce(u64) -> Option<u64>) {
        let key = self.key(place);
        let mut gone = false;
        let next = |word| {
            let next = next(word);
            gone = next == Some(0);
            next.filter(|&next| next != 0)
        };
        match &mut self.table {
            Some(table) => table.update_with(&key, next),
            None => {
                let next = next(self.shared.any.load(Ordering::Relaxed));
                next.inspect(|&next| self.shared.any.store(next, Ordering::Release))
            }
        };
        if gone {
            match &mut self.table {
                Some(table) => table.remove(&key),
                None => self.shared.any.store(0, Ordering::Release),
            }
            self.keys_free.push(place);
        }
    }
}
