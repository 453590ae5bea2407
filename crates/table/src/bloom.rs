//! A Bloom filter of sets: one look-up tells which of several places may have a key.
//!
//! A blocked Bloom filter (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
//! Filters", WEA 2007) whose cells are sets of places. A key has three cells in one cache line. The
//! places in all three cells are those that may have the key; at most sixteen places are
//! distinguished. The filter only grows: to remove keys, build another one.
//!
//! # Why no reader misses a key
//!
//! One thread adds a key, and then publishes where the key is (`Release`, after the addition). A
//! reader that has seen this (`Acquire`) and then asks the filter finds the place. A reader that
//! keeps an answer reads the [`version`](BloomFilter::version) before it asks, and again before
//! each use of the answer. An addition changes the version after the cells. So while the version is
//! the same, no key was added that the reader can know of.

use crate::memory::{Memory, Pages};
use crate::prefetch::prefetch;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Cells of a line, and its words, of four cells each.
const CELLS: usize = 32;
const LINE_WORDS: usize = CELLS / 4;

/// Keys for each line: a key takes four to eight bytes. With sixteen places and as many keys in
/// each, one absent key in twenty is reported in some place; with twice the memory, half as many.
const KEYS_PER_LINE: usize = 16;

/// The places of keys, or a superset: one thread adds, any number of threads ask.
#[derive(Debug)]
pub struct BloomFilter {
    memory: Memory,
    /// Bits of a hash that do not select the line.
    shift: u32,
    /// Number of additions that changed something.
    version: AtomicU64,
}

impl BloomFilter {
    /// Places that are distinguished; places with the same remainder share their answers.
    pub const PLACES: u16 = u16::BITS as u16;

    /// A filter without keys, sized for this number of keys; `None` if there is no memory for it.
    #[must_use]
    pub fn new(keys: usize) -> Option<BloomFilter> {
        // Two lines at least, so that some bits of a hash select one.
        let lines = keys.div_ceil(KEYS_PER_LINE).max(2).checked_next_power_of_two()?;
        let memory = Memory::zeroed(lines.checked_mul(LINE_WORDS)?, Pages::Huge).ok()?;
        let shift = u64::BITS - lines.trailing_zeros();
        Some(BloomFilter { memory, shift, version: AtomicU64::new(0) })
    }

    /// Adds the key with this hash, a [`Hasher`](crate::Hasher)'s, to a place. For the one thread
    /// that adds.
    pub fn add(&self, hash: u64, place: u16) {
        let (line, mut changed) = (self.line(hash), false);
        for (word, shift) in cells_of(hash) {
            let (word, bit) = (&line[word], 1 << (shift + u32::from(place % BloomFilter::PLACES)));
            let cells = word.load(Relaxed);
            if cells & bit == 0 {
                word.store(cells | bit, Relaxed);
                changed = true;
            }
        }
        if changed {
            self.version.store(self.version.load(Relaxed) + 1, Release);
        }
    }

    /// The version of the filter; see the module's argument.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Prefetches the line of a key.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.line(hash));
    }

    /// The places that may have the key with this hash: bit p for the places with the remainder p
    /// modulo [`BloomFilter::PLACES`].
    #[inline]
    #[must_use]
    pub fn places(&self, hash: u64) -> u16 {
        let line = self.line(hash);
        let cell = |(word, shift): (usize, u32)| (line[word].load(Relaxed) >> shift) as u16;
        cells_of(hash).into_iter().fold(u16::MAX, |all, at| all & cell(at))
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The line that the highest bits of a hash select.
    #[inline]
    fn line(&self, hash: u64) -> &[AtomicU64; LINE_WORDS] {
        let (lines, _) = self.memory.words().as_chunks();
        &lines[(hash >> self.shift) as usize]
    }
}

/// The cells of a hash in its line, by word and shift: selected by bits above those that all hashes
/// share, and below those that select the line.
#[inline]
fn cells_of(hash: u64) -> [(usize, u32); 3] {
    [16, 21, 26].map(|at| {
        let cell = (hash >> at) as usize % CELLS;
        (cell / 4, 16 * (cell % 4) as u32)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::Hasher;

    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn a_key_is_found_in_its_places_and_hardly_elsewhere() {
        let hasher = Hasher::new(1);
        let filter = BloomFilter::new(64_000).unwrap();
        let hash = |key: u64| hasher.hash(&[key]);
        for key in 0..64_000 {
            filter.add(hash(key), (key / 4_000) as u16);
        }
        let mut wrong = 0;
        for key in 0..64_000 {
            let places = filter.places(hash(key));
            let own = 1 << (key / 4_000);
            assert_eq!(places & own, own, "key {key}");
            wrong += (places & !own).count_ones();
        }
        for key in 64_000..128_000 {
            wrong += filter.places(hash(key)).count_ones();
        }
        assert!(wrong < 128_000 / 20, "{wrong} places of 128,000 keys that do not have them");
        assert!(filter.bytes() <= 64_000 * 8);
        assert!(BloomFilter::new(usize::MAX).is_none());
    }

    #[test]
    fn colliding_places_share_their_slots() {
        let (hasher, filter) = (Hasher::new(1), BloomFilter::new(0).unwrap());
        filter.add(hasher.hash(&[7]), 3 + BloomFilter::PLACES);
        assert_eq!(filter.places(hasher.hash(&[7])), 1 << 3);
    }

    #[test]
    fn the_version_tells_of_what_is_new() {
        let (hasher, filter) = (Hasher::new(1), BloomFilter::new(100).unwrap());
        let first = filter.version();
        filter.add(hasher.hash(&[7]), 3);
        let second = filter.version();
        assert_ne!(first, second);
        filter.add(hasher.hash(&[7]), 3);
        assert_eq!(filter.version(), second, "nothing was new");
        filter.add(hasher.hash(&[7]), 4);
        assert_ne!(filter.version(), second);
    }
}
