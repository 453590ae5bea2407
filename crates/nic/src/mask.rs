//! The rules of one mask in one group: the table that workers look into, and the keys in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_table::{Config, CreateError, Domain, InsertError};

use crate::control::RuleError;
use crate::limits::RULES_MAX;
use crate::tables::{CompactKey, Selector, Shared, Table};
use crate::word::Word;

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
    /// Live rules.
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

    /// The key kept at a place.
    pub(crate) fn key(&self, place: u32) -> CompactKey {
        let words = self.shared.selector.words();
        self.keys[place as usize * words..][..words].iter().copied().collect()
    }

    /// The rule in effect for a key.
    pub(crate) fn head(&self, key: &[u64]) -> Option<u32> {
        let word = match &self.table {
            Some(table) => Word(table.get(key)?),
            None => Word(self.shared.any.load(Ordering::Relaxed)),
        };
        word.is_some().then(|| word.rule())
    }

    /// Keeps a new key and puts its first rule into effect; where the key is kept.
    pub(crate) fn remember(&mut self, key: &[u64], word: Word) -> Result<u32, RuleError> {
        let words = self.shared.selector.words();
        match &mut self.table {
            Some(table) => table
                .insert(key, word.0)
                .map_err(|error: InsertError| RuleError::Memory { reason: error.to_string() })?,
            None => self.shared.any.store(word.0, Ordering::Release),
        }
        if let Some(place) = self.keys_free.pop() {
            self.keys[place as usize * words..][..words].copy_from_slice(key);
            return Ok(place);
        }
        self.keys.extend_from_slice(key);
        Ok((self.keys.len() / words.max(1)) as u32 - u32::from(words > 0))
    }

    /// Takes the last rule of a key out of effect and forgets the key.
    pub(crate) fn forget(&mut self, place: u32) {
        let key = self.key(place);
        match &mut self.table {
            Some(table) => table.remove(&key),
            None => self.shared.any.store(0, Ordering::Release),
        }
        self.keys_free.push(place);
    }

    /// Puts another rule into effect for a kept key, by one store.
    pub(crate) fn show(&mut self, place: u32, word: Word) {
        let key = self.key(place);
        match &mut self.table {
            Some(table) => table.update(&key, word.0),
            None => self.shared.any.store(word.0, Ordering::Release),
        }
    }
}
