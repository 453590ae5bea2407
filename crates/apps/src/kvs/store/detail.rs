//! Counts of requests by the prefix of their key, while `stats detail` is on.
//!
//! As in memcached, the prefix of a key is the part before its first colon, and a key without a
//! colon is not counted. Counts stay when counting is turned off.

use std::collections::BTreeMap;

use super::limits::{PREFIX_BYTES, PREFIXES_BYTES_MAX};

/// The byte behind a prefix.
const DELIMITER: u8 = b':';

/// A request, as far as it is counted by prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixRequest {
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

/// The counters of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounters {
    /// Keys asked for.
    pub gets: u64,
    /// Keys that were found.
    pub hits: u64,
    /// Requests to store.
    pub sets: u64,
    /// Requests to delete.
    pub deletes: u64,
}

/// Counters by prefix.
pub type Prefixes = BTreeMap<Vec<u8>, PrefixCounters>;

/// A partition's counts.
#[derive(Debug)]
pub struct Detail {
    pub is_on: bool,
    prefixes: Prefixes,
    /// Memory for further prefixes, bytes.
    room_bytes: usize,
    /// Memory for all prefixes, bytes.
    bytes_max: usize,
}

impl Detail {
    /// One of so many partitions, which share the memory for prefixes.
    pub fn new(partitions: usize) -> Detail {
        let bytes_max = PREFIXES_BYTES_MAX / partitions;
        Detail { is_on: false, prefixes: Prefixes::new(), room_bytes: bytes_max, bytes_max }
    }

    /// Forgets what was counted.
    pub fn clear(&mut self) {
        self.prefixes.clear();
        self.room_bytes = self.bytes_max;
    }

    /// Counts, where that is wanted.
    #[inline]
    pub fn record(&mut self, key: &[u8], asked: PrefixRequest) {
        if self.is_on {
            self.count(key, asked);
        }
    }

    #[cold]
    fn count(&mut self, key: &[u8], asked: PrefixRequest) {
        let Some(end) = key.iter().position(|byte| *byte == DELIMITER) else { return };
        let prefix = &key[..end];
        if let Some(prefixed) = self.prefixes.get_mut(prefix) {
            return prefixed.add(asked);
        }
        let bytes = prefix.len() + PREFIX_BYTES;
        if bytes > self.room_bytes || !prefix.iter().copied().all(is_shown) {
            return;
        }
        self.room_bytes -= bytes;
        self.prefixes.entry(prefix.to_vec()).or_default().add(asked);
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

impl PrefixCounters {
    fn add(&mut self, asked: PrefixRequest) {
        match asked {
            PrefixRequest::Get { is_hit } => {
                self.gets += 1;
                self.hits += u64::from(is_hit);
            }
            PrefixRequest::Set => self.sets += 1,
            PrefixRequest::Delete => self.deletes += 1,
        }
    }
}

/// Whether a byte of a prefix can be shown in a line: keys of the binary protocol have any.
fn is_shown(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use super::super::limits::PARTITIONS_MAX;
    use super::*;

    #[test]
    fn a_request_counts_under_the_text_before_the_first_colon() {
        let mut detail = Detail::new(1);
        detail.record(b"a:1", PrefixRequest::Set);
        assert!(detail.prefixes.is_empty(), "nobody wants to know");
        detail.is_on = true;
        for (key, asked) in [
            (&b"a:1"[..], PrefixRequest::Get { is_hit: true }),
            (b"a:2:3", PrefixRequest::Get { is_hit: false }),
            (b"a:", PrefixRequest::Set),
            (b":a", PrefixRequest::Delete),
            (b"none", PrefixRequest::Set),
        ] {
            detail.record(key, asked);
        }
        let mut all = Prefixes::new();
        detail.add_to(&mut all);
        let a = PrefixCounters { gets: 2, hits: 1, sets: 1, deletes: 0 };
        let empty = PrefixCounters { deletes: 1, ..PrefixCounters::default() };
        assert_eq!(all, Prefixes::from([(b"a".to_vec(), a), (Vec::new(), empty)]));
    }

    #[test]
    fn prefixes_take_no_more_memory_than_they_may() {
        for partitions in [1, 16, PARTITIONS_MAX] {
            let mut detail = Detail::new(partitions);
            detail.is_on = true;
            let counted = |detail: &Detail| {
                let bytes = |prefix: &Vec<u8>| prefix.len() + PREFIX_BYTES;
                detail.prefixes.keys().map(bytes).sum::<usize>()
            };
            for round in 0..2 {
                let long = "p".repeat(200);
                for number in 0..20_000 {
                    detail.record(format!("{long}{number}:").as_bytes(), PrefixRequest::Set);
                }
                let (bytes, bytes_max) = (counted(&detail), PREFIXES_BYTES_MAX / partitions);
                assert!(bytes <= bytes_max && bytes > bytes_max - 400, "{bytes} of {bytes_max}");
                // What is there is counted on.
                detail.record(format!("{long}0:").as_bytes(), PrefixRequest::Set);
                let first = detail.prefixes[format!("{long}0").as_bytes()];
                assert_eq!(first.sets, 2, "{partitions} partitions, round {round}");
                detail.clear();
            }
        }
    }

    #[test]
    fn prefixes_that_no_line_can_show_are_not_counted() {
        let mut detail = Detail::new(1);
        detail.is_on = true;
        for byte in (0..=u8::MAX).filter(|byte| *byte != DELIMITER) {
            detail.record(&[b'a', byte, DELIMITER], PrefixRequest::Set);
        }
        let shown = |byte: &u8| !(*byte <= 0x20 || *byte == 0x7f || *byte == DELIMITER);
        let expected: Vec<_> = (0..=u8::MAX).filter(shown).map(|byte| vec![b'a', byte]).collect();
        assert_eq!(detail.prefixes.into_keys().collect::<Vec<_>>(), expected);
    }
}
