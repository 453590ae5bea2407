//! Bulk look-up in three stages, chunk by chunk: hash the keys and prefetch their tags, choose the
//! likely entries and prefetch them, compare.
//!
//! The loops are free functions over slices. Each step visits the keys of a burst in order, so
//! that of two equal keys the later one never sees an earlier state.
//!
//! One of the modules that may use `unsafe`: a function compiled for more than the base
//! processor.

#![allow(unsafe_code)]

use std::ops::Range;

use crate::grid::{Grid, GridEntry};
use crate::hash::LiveHash;
use crate::limits::BURST_MAX;
use crate::shared::View;
use crate::tags::{Common, Compare};

/// Keys of a chunk: enough that a cache line has arrived when the next stage needs it. Zen 3, 64 k
/// and 1 M entries, in turn with `rte_hash`: 2.2 and 1.7 times its rate with 8, 2.3 and 2.2 with
/// 16, 2.2 and 1.9 with 32; all hashes first, then chunks of 32: 2.1 and 1.9.
const CHUNK: usize = 16;

/// Looks up `keys`, at most `BURST_MAX` and no more than `values`; `hash_of` returns the hash of
/// the key at an index.
#[inline(always)]
pub(crate) fn bulk<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> LiveHash,
    values: &mut [u64],
) -> u64 {
    match *view {
        View::Stable(grid) => stable(grid, keys, hash_of, values),
        View::Growing { .. } => {
            let mut hashes = [LiveHash::ZERO; BURST_MAX];
            for (index, (hash, key)) in hashes.iter_mut().zip(keys).enumerate() {
                *hash = hash_of(index, key);
            }
            growing(view, keys, &hashes, values)
        }
    }
}

#[inline(always)]
fn stable<const W: usize>(
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> LiveHash,
    values: &mut [u64],
) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if let Some(wide) = crate::tags::avx2::Avx2::detect() {
        // SAFETY: the processor was just found to have what the function is compiled for.
        return unsafe { stable_avx2(wide, grid, keys, hash_of, values) };
    }
    stable_by(Common, grid, keys, hash_of, values)
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn stable_avx2<const W: usize>(
    wide: crate::tags::avx2::Avx2,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> LiveHash,
    values: &mut [u64],
) -> u64 {
    stable_by(wide, grid, keys, hash_of, values)
}

#[inline(always)]
fn stable_by<C: Compare, const W: usize>(
    compare: C,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> LiveHash,
    values: &mut [u64],
) -> u64 {
    // One length for all, so that one bounds check covers an index.
    let count = keys.len().min(BURST_MAX);
    let (keys, values) = (&keys[..count], &mut values[..count]);
    let likely = [grid.first(); BURST_MAX];
    let hashes = [LiveHash::ZERO; BURST_MAX];
    let mut burst = BulkBurst { grid, keys, hashes, values, likely, doubtful: false };
    let chunk = |at: usize| (at * CHUNK).min(count)..((at + 1) * CHUNK).min(count);
    let (mut found, mut absent) = (0, 0);
    // Hashes a chunk, chooses the entries of the one before, and compares the one before that.
    for step in 0..count.div_ceil(CHUNK) + 2 {
        burst.hash(&hash_of, chunk(step));
        let absent_before = absent;
        if step >= 1 {
            absent = burst.choose(compare, chunk(step - 1));
        }
        if step >= 2 {
            found |= burst.compare(chunk(step - 2), absent_before);
        }
    }
    found
}

/// A bit for each of `count` keys, at most `BURST_MAX`.
#[inline(always)]
fn all(count: usize) -> u64 {
    u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0)
}

/// A bit for each key of a range.
#[inline(always)]
fn bits(range: Range<usize>) -> u64 {
    all(range.end) & !all(range.start)
}

/// A burst in progress.
struct BulkBurst<'a, 'g, const W: usize> {
    grid: Grid<'g, W>,
    keys: &'a [[u64; W]],
    hashes: [LiveHash; BURST_MAX],
    values: &'a mut [u64],
    /// The likely entry of each key.
    likely: [GridEntry<'g, W>; BURST_MAX],
    /// Whether a likely entry had another key: entries that were chosen since are not used.
    doubtful: bool,
}

impl<const W: usize> BulkBurst<'_, '_, W> {
    /// Hashes a range of keys and prefetches the tags of their homes.
    #[inline(always)]
    fn hash(&mut self, hash_of: impl Fn(usize, &[u64; W]) -> LiveHash, range: Range<usize>) {
        for index in range {
            let hash = hash_of(index, &self.keys[index]);
            self.hashes[index % BURST_MAX] = hash;
            self.grid.prefetch_home(hash.word());
        }
    }

    /// Finds and prefetches the likely entries of a range of keys; returns the keys without one.
    #[inline(always)]
    fn choose<C: Compare>(&mut self, compare: C, range: Range<usize>) -> u64 {
        let mut absent = 0;
        for index in range {
            let hash = self.hashes[index % BURST_MAX];
            match self.grid.candidate(compare, hash) {
                Some(entry) => {
                    entry.prefetch();
                    self.likely[index % BURST_MAX] = entry;
                }
                None => absent |= 1 << index,
            }
        }
        absent
    }

    /// Compares the likely entries of a range of keys, except those in `absent`; returns the keys
    /// that were found.
    #[inline(always)]
    fn compare(&mut self, range: Range<usize>, absent: u64) -> u64 {
        if self.doubtful {
            return self.search(range);
        }
        for index in range.clone() {
            if absent != 0 && absent >> index & 1 == 1 {
                continue;
            }
            let (key, entry) = (&self.keys[index], self.likely[index % BURST_MAX]);
            if !entry.holds(key) {
                self.doubtful = true;
                return bits(range.start..index) & !absent | self.search(index..range.end);
            }
            self.values[index] = entry.value();
        }
        bits(range) & !absent
    }

    /// Looks up a range of keys one by one; returns the keys that were found.
    ///
    /// One slot in 32,768 has the tag of another key; then the key is searched. All later keys are
    /// searched too. One of them may be the same key, and its likely entry was chosen earlier, when
    /// the key was in another slot or absent.
    #[cold]
    #[inline(never)]
    fn search(&mut self, range: Range<usize>) -> u64 {
        let mut found = 0;
        for index in range {
            let hash = self.hashes[index % BURST_MAX].word();
            if let Some(slot) = self.grid.find(hash, &self.keys[index]) {
                self.values[index] = slot.value();
                found |= 1 << index;
            }
        }
        found
    }
}

/// Looks up keys while the table grows: prefetches tags and likely entries, and then looks up each
/// key in the array or arrays that may have it.
#[inline(never)]
fn growing<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hashes: &[LiveHash],
    values: &mut [u64],
) -> u64 {
    let hashes = &hashes[..keys.len()];
    for hash in hashes {
        view.first(hash.word()).prefetch_home(hash.word());
    }
    for hash in hashes {
        if let Some(entry) = view.first(hash.word()).candidate(Common, *hash) {
            entry.prefetch();
        }
    }
    let mut hits = 0;
    for (index, (hash, key)) in hashes.iter().zip(keys).enumerate() {
        if let Some(slot) = view.find(hash.word(), key) {
            values[index] = slot.value();
            hits |= 1 << index;
        }
    }
    hits
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::Hasher;
    use crate::memory::Pages;
    use crate::shared::Array;
    use crate::tags::tag_of;

    /// Two keys with the same tag; in a table of one group they have the same home too.
    fn twins(hasher: &Hasher) -> [[u64; 1]; 2] {
        let mut seen = std::collections::HashMap::new();
        let pair = (0u64..).find_map(|key| {
            let other = seen.insert(tag_of(hasher.hash(&[key])), key)?;
            Some([[other], [key]])
        });
        pair.unwrap_or_default()
    }

    #[test]
    fn of_two_equal_keys_the_later_never_sees_an_earlier_state() {
        let (hasher, array) = (Hasher::new(1), Array::<1>::new(1, Pages::Small).unwrap());
        let [other, key] = twins(&hasher);
        let (grid, keys) = (array.grid(), [key, key]);
        let place = |key, value| assert!(grid.place(hasher.hash(key), key, value).is_some());
        let take = |key: &[u64; 1]| {
            let hash = hasher.hash(key);
            grid.find(hash, key).unwrap().take(hash);
        };
        place(&other, 1);
        place(&key, 2);
        let mut values = [0; 2];
        let likely = [grid.first(); BURST_MAX];
        let hashes = [LiveHash::ZERO; BURST_MAX];
        let mut burst =
            BulkBurst { grid, keys: &keys, hashes, values: &mut values, likely, doubtful: false };
        burst.hash(|_, key| hasher.live(key), 0..2);
        assert_eq!(burst.choose(Common, 0..1), 0, "the other's entry, whose tag is the same");
        take(&other);
        assert_eq!(burst.choose(Common, 1..2), 0, "the key's own");
        take(&key);
        assert_eq!(burst.compare(0..2, 0), 0, "the first is gone, so the second is");
    }
}
