//! The keys of a mask's rules, by place: each has as many words as the mask picks.

use niclab_table::{Fifo, prefetch};

use crate::tables::CompactKey;

/// Keys of a chunk. Adding a key never moves other keys, except those of the first chunk: so masks
/// with few rules take little memory.
const CHUNK: usize = 1 << 10;

/// Keys that keep their places.
#[derive(Default)]
pub(crate) struct RuleKeys {
    /// Words of a key.
    words: usize,
    /// All chunks but the last are full.
    chunks: Vec<Vec<u64>>,
    /// Number of places.
    places: u32,
    /// Free places.
    free: Fifo<u32>,
}

impl RuleKeys {
    pub(crate) fn new(words: usize) -> RuleKeys {
        RuleKeys { words, ..RuleKeys::default() }
    }

    /// Stores a key; returns its place.
    #[inline]
    pub(crate) fn put(&mut self, key: &[u64]) -> u32 {
        if let Some(place) = self.free.pop_newest() {
            let (chunk, at) = self.at(place);
            self.chunks[chunk][at..][..key.len()].copy_from_slice(key);
            return place;
        }
        let place = self.places;
        if (place as usize).is_multiple_of(CHUNK) {
            let room = if place == 0 { 0 } else { CHUNK * self.words };
            self.chunks.push(Vec::with_capacity(room));
        }
        self.chunks.last_mut().into_iter().for_each(|last| last.extend_from_slice(key));
        self.places += 1;
        place
    }

    /// Frees a place.
    #[inline]
    pub(crate) fn free(&mut self, place: u32) {
        self.free.push(place);
    }

    /// The key at a place.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> CompactKey {
        let (chunk, at) = self.at(place);
        CompactKey::new(&self.chunks[chunk][at..][..self.words])
    }

    /// Prefetches the key at a place.
    pub(crate) fn prefetch(&self, place: u32) {
        let (chunk, at) = self.at(place);
        self.chunks.get(chunk).and_then(|chunk| chunk.get(at)).into_iter().for_each(prefetch);
    }

    /// Number of places, including free ones; 0 for keys without words.
    pub(crate) fn places(&self) -> u32 {
        if self.words == 0 { 0 } else { self.places }
    }

    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(Vec::capacity).sum::<usize>();
        chunks * size_of::<u64>() + self.free.bytes()
    }

    #[inline]
    fn at(&self, place: u32) -> (usize, usize) {
        let place = place as usize;
        (place / CHUNK, place % CHUNK * self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_where_it_was_put_and_its_place_is_used_again() {
        for words in [0, 1, 3, 8] {
            let mut keys = RuleKeys::new(words);
            let key = |number: u64| vec![number; words];
            for number in 0..3 * CHUNK as u64 {
                assert_eq!(u64::from(keys.put(&key(number))), number);
            }
            assert_eq!(keys.get(CHUNK as u32 + 5)[..], key(CHUNK as u64 + 5)[..]);
            keys.free(7);
            assert_eq!(keys.put(&key(99)), 7);
            assert_eq!(keys.get(7)[..], key(99)[..]);
            assert_eq!(keys.places(), if words == 0 { 0 } else { 3 * CHUNK as u32 });
        }
    }
}
