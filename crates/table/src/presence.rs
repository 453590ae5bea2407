//! Which of several places can have a key: one look instead of one in each of them.
//!
//! A blocked Bloom filter (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom
//! Filters", WEA 2007) whose bits are sets of places. A key has one line of memory, three cells of
//! that line, and the places that all three name, with sixteen at most told apart, are those that
//! may have it. It grows only: who wants to be rid of keys that are gone makes another one.
//!
//! # Why no reader misses a key
//!
//! One thread adds, and then says where the key is to be found (`Release`, behind the addition).
//! Whoever has read that (`Acquire`) and looks here afterwards finds the place. Who looked before,
//! and keeps what was found, asks for the [`version`](Presence::version) first and, before each
//! use, again: an addition changes it after the cells, so where it is the same nothing was added
//! that the reader can have heard of.

use crate::memory::{Memory, Pages};
use crate::prefetch::prefetch;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Cells of a line, and words, of four cells each.
const CELLS: usize = 32;
const LINE_WORDS: usize = CELLS / 4;

/// Keys there is a line for: a key takes four to eight bytes, and of sixteen places with as many
/// keys each one absent key in twenty is taken to be in one of them, half of that where there is
/// twice the room.
const KEYS_PER_LINE: usize = 16;

/// The places of keys, or more: one thread adds, any number look.
#[derive(Debug)]
pub struct Presence {
    memory: Memory,
    /// Bits of a hash that do not choose the line.
    shift: u32,
    /// Additions that changed something.
    version: AtomicU64,
}

impl Presence {
    /// Places that are told apart; others share what is known of them.
    pub const PLACES: u16 = u16::BITS as u16;

    /// One without keys, good for some number of them; `None` if there is no memory for it.
    #[must_use]
    pub fn new(keys: usize) -> Option<Presence> {
        // Two lines at least, so that some bits of a hash choose one.
        let lines = keys.div_ceil(KEYS_PER_LINE).max(2).checked_next_power_of_two()?;
        let memory = Memory::zeroed(lines.checked_mul(LINE_WORDS)?, Pages::Huge).ok()?;
        let shift = u64::BITS - lines.trailing_zeros();
        Some(Presence { memory, shift, version: AtomicU64::new(0) })
    }

    /// Says that a place has the key with this hash, a [`Hasher`](crate::Hasher)'s. For the one
    /// thread that adds.
    pub fn add(&self, hash: u64, place: u16) {
        let (line, mut changed) = (self.line(hash), false);
        for (word, shift) in cells_of(hash) {
            let (word, bit) = (&line[word], 1 << (shift + u32::from(place % Presence::PLACES)));
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

    /// The number of what has been added; see the module's argument.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Asks for the memory of a key.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.line(hash));
    }

    /// The places that may have the key with this hash: bit p for each place of which the remainder
    /// by [`Presence::PLACES`] is p.
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

    /// The line that the highest bits of a hash choose.
    #[inline]
    fn line(&self, hash: u64) -> &[AtomicU64; LINE_WORDS] {
        let (lines, _) = self.memory.words().as_chunks();
        &lines[(hash >> self.shift) as usize]
    }
}

/// Which cells of a line belong to a hash, by word and shift: chosen by bits above those that every
/// hash has alike, and below those that choose the line.
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
        let presence = Presence::new(64_000).unwrap();
        let hash = |key: u64| hasher.hash(&[key]);
        for key in 0..64_000 {
            presence.add(hash(key), (key / 4_000) as u16);
        }
        let mut wrong = 0;
        for key in 0..64_000 {
            let places = presence.places(hash(key));
            let own = 1 << (key / 4_000);
            assert_eq!(places & own, own, "key {key}");
            wrong += (places & !own).count_ones();
        }
        for key in 64_000..128_000 {
            wrong += presence.places(hash(key)).count_ones();
        }
        assert!(wrong < 128_000 / 20, "{wrong} places of 128,000 keys that do not have them");
        assert!(presence.bytes() <= 64_000 * 8);
        assert!(Presence::new(usize::MAX).is_none());
    }

    #[test]
    fn places_that_are_not_told_apart_share_what_is_known() {
        let (hasher, presence) = (Hasher::new(1), Presence::new(0).unwrap());
        presence.add(hasher.hash(&[7]), 3 + Presence::PLACES);
        assert_eq!(presence.places(hasher.hash(&[7])), 1 << 3);
    }

    #[test]
    fn the_version_tells_of_what_is_new() {
        let (hasher, presence) = (Hasher::new(1), Presence::new(100).unwrap());
        let first = presence.version();
        presence.add(hasher.hash(&[7]), 3);
        let second = presence.version();
        assert_ne!(first, second);
        presence.add(hasher.hash(&[7]), 3);
        assert_eq!(presence.version(), second, "nothing was new");
        presence.add(hasher.hash(&[7]), 4);
        assert_ne!(presence.version(), second);
    }
}
