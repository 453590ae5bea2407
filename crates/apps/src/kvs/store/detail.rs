//! What was asked for by the prefixes of keys, as far as somebody wants to know (`stats detail`).
//!
//! As memcached has it: a prefix is what stands before the first colon, a key without one counts
//! nowhere, and what was counted stays when counting ends.

use std::collections::BTreeMap;

/// What stands behind a prefix.
const DELIMITER: u8 = b':';

/// Prefixes that a partition counts, at most: who makes up ever new ones does not fill the memory.
const PREFIXES_MAX: usize = 10_000;

/// Something that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A value, which was there or not.
    Get {
        /// It was there.
        is_hit: bool,
    },
    /// To store.
    Set,
    /// To delete.
    Delete,
}

/// What was counted under a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixed {
    /// Keys asked for.
    pub gets: u64,
    /// Keys that were found.
    pub hits: u64,
    /// Requests to store.
    pub sets: u64,
    /// Requests to delete.
    pub deletes: u64,
}

/// What was counted by prefix.
pub type Prefixes = BTreeMap<Vec<u8>, Prefixed>;

/// A partition's counts.
#[derive(Debug, Default)]
pub struct Detail {
    pub is_on: bool,
    pub prefixes: Prefixes,
}

impl Detail {
    /// Counts, where that is wanted.
    #[inline]
    pub fn record(&mut self, key: &[u8], asked: Asked) {
        if self.is_on {
            self.count(key, asked);
        }
    }

    #[cold]
    fn count(&mut self, key: &[u8], asked: Asked) {
        let Some(end) = key.iter().position(|byte| *byte == DELIMITER) else { return };
        let is_new = !self.prefixes.contains_key(&key[..end]);
        if is_new && self.prefixes.len() >= PREFIXES_MAX {
            return;
        }
        let prefixed = self.prefixes.entry(key[..end].to_vec()).or_default();
        match asked {
            Asked::Get { is_hit } => {
                prefixed.gets += 1;
                prefixed.hits += u64::from(is_hit);
            }
            Asked::Set => prefixed.sets += 1,
            Asked::Delete => prefixed.deletes += 1,
        }
    }

    /// Adds what was counted here.
    pub fn add_to(&self, all: &mut Prefixes) {
        for (prefix, prefixed) in &self.prefixes {
            let sum = all.entry(prefix.clone()).or_default();
            sum.gets += prefixed.gets;
            sum.hits += prefixed.hits;
            sum.sets += prefixed.sets;
            sum.deletes += prefixed.deletes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts_under_what_stands_before_the_first_colon() {
        let mut detail = Detail::default();
        detail.record(b"a:1", Asked::Set);
        assert!(detail.prefixes.is_empty(), "nobody wants to know");
        detail.is_on = true;
        for (key, asked) in [
            (&b"a:1"[..], Asked::Get { is_hit: true }),
            (b"a:2:3", Asked::Get { is_hit: false }),
            (b"a:", Asked::Set),
            (b":a", Asked::Delete),
            (b"none", Asked::Set),
        ] {
            detail.record(key, asked);
        }
        let mut all = Prefixes::new();
        detail.add_to(&mut all);
        let a = Prefixed { gets: 2, hits: 1, sets: 1, deletes: 0 };
        let empty = Prefixed { deletes: 1, ..Prefixed::default() };
        assert_eq!(all, Prefixes::from([(b"a".to_vec(), a), (Vec::new(), empty)]));
        for number in 0..2 * PREFIXES_MAX {
            detail.record(format!("{number}:").as_bytes(), Asked::Set);
        }
        assert_eq!(detail.prefixes.len(), PREFIXES_MAX);
    }
}
