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

use crate::grid::{Entry, Grid};
use crate::limits::BURST_MAX;
use crate::shared::View;
use crate::tags::{Common, Compare, tag_of};

/// Keys of a chunk: far enough apart that a line has come when the next stage wants it. Zen 3,
/// 64 k and 1 M entries, in turn with `rte_hash`: 2.2 and 1.7 times its rate with 8, 2.3 and 2.2
/// with 16, 2.2 and 1.9 with 32; all hashes first, then chunks of 32: 2.1 and 1.9.
const CHUNK: usize = 16;

/// Looks up `keys`, at most `BURST_MAX` and no more than `values`; `hash_of` has the hash of the
/// key at an index.
#[inline(always)]
pub(crate) fn bulk<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> u64,
    values: &mut [u64],
) -> u64 {
    match *view {
        View::Settled(grid) => settled(grid, keys, hash_of, values),
        View::Growing { .. } => {
            let mut hashes = [0; BURST_MAX];
            for (index, (hash, key)) in hashes.iter_mut().zip(keys).enumerate() {
                *hash = hash_of(index, key);
            }
            growing(view, keys, &hashes, values)
        }
    }
}

#[inline(always)]
fn settled<const W: usize>(
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> u64,
    values: &mut [u64],
) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if let Some(wide) = crate::tags::avx2::Avx2::detect() {
        // SAFETY: the processor was just found to have what the function is compiled for.
        return unsafe { settled_avx2(wide, grid, keys, hash_of, values) };
    }
    settled_by(Common, grid, keys, hash_of, values)
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn settled_avx2<const W: usize>(
    wide: crate::tags::avx2::Avx2,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> u64,
    values: &mut [u64],
) -> u64 {
    settled_by(wide, grid, keys, hash_of, values)
}

#[inline(always)]
fn settled_by<C: Compare, const W: usize>(
    compare: C,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hash_of: impl Fn(usize, &[u64; W]) -> u64,
    values: &mut [u64],
) -> u64 {
    // One length for all, so that one bounds check covers an index.
    let count = keys.len().min(BURST_MAX);
    let (keys, values) = (&keys[..count], &mut values[..count]);
    let likely = [grid.entry(0); BURST_MAX];
    let mut burst = Burst { grid, keys, hashes: [0; BURST_MAX], values, likely };
    let chunk = |at: usize| (at * CHUNK).min(count)..((at + 1) * CHUNK).min(count);
    let mut missed = 0;
    // A chunk is hashed while the one before is chosen and the one before that is compared.
    for step in 0..count.div_ceil(CHUNK) + 2 {
        burst.hash(&hash_of, chunk(step));
        if step >= 1 {
            missed |= burst.choose(compare, chunk(step - 1));
        }
        if step >= 2 {
            missed |= burst.compare(chunk(step - 2), missed);
        }
    }
    !missed & all(count)
}

/// A bit for each of `count` keys, at most `BURST_MAX`.
#[inline(always)]
fn all(count: usize) -> u64 {
    u64::MAX.checked_shr((BURST_MAX - count) as u32).unwrap_or(0)
}

/// A burst on its way.
struct Burst<'a, 'g, const W: usize> {
    grid: Grid<'g, W>,
    keys: &'a [[u64; W]],
    hashes: [u64; BURST_MAX],
    values: &'a mut [u64],
    /// The likely entry of each key.
    likely: [Entry<'g, W>; BURST_MAX],
}

impl<const W: usize> Burst<'_, '_, W> {
    /// Hashes a range of keys and prefetches the tags of their homes.
    #[inline(always)]
    fn hash(&mut self, hash_of: impl Fn(usize, &[u64; W]) -> u64, range: Range<usize>) {
        for index in range {
            let hash = hash_of(index, &self.keys[index]);
            self.hashes[index % BURST_MAX] = hash;
            self.grid.prefetch_line(self.grid.home(hash));
        }
    }

    /// Finds and prefetches the likely entries of a range of keys; a bit for each key that has
    /// none.
    #[inline(always)]
    fn choose<C: Compare>(&mut self, compare: C, range: Range<usize>) -> u64 {
        let mut absent = 0;
        for index in range {
            let hash = self.hashes[index % BURST_MAX];
            match self.grid.candidate(compare, self.grid.home(hash), tag_of(hash)) {
                Some(entry) => {
                    entry.prefetch();
                    self.likely[index % BURST_MAX] = entry;
                }
                None => absent |= 1 << index,
            }
        }
        absent
    }

    /// Compares the likely entries of a range of keys, those in `absent` left out; a bit for
    /// each key that is not there.
    #[inline(always)]
    fn compare(&mut self, range: Range<usize>, absent: u64) -> u64 {
        let mut missed = 0;
        for index in range {
            if absent != 0 && absent >> index & 1 == 1 {
                continue;
            }
            let (key, mut entry) = (&self.keys[index], self.likely[index % BURST_MAX]);
            if !entry.holds(key) {
                match second_look(self.grid, self.hashes[index % BURST_MAX], key) {
                    Some(other) => entry = other,
                    None => {
                        missed |= 1 << index;
                        continue;
                    }
                }
            }
            self.values[index] = entry.value();
        }
        missed
    }
}

/// One slot in 32,768 has the tag of another key.
#[cold]
#[inline(never)]
fn second_look<'g, const W: usize>(
    grid: Grid<'g, W>,
    hash: u64,
    key: &[u64; W],
) -> Option<Entry<'g, W>> {
    grid.find(hash, key).map(|position| grid.entry(position))
}

/// While a table grows: the tags and likely entries are prefetched, then each key is looked up
/// by itself in the array or arrays that may hold it.
#[inline(never)]
fn growing<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    let hashes = &hashes[..keys.len()];
    for hash in hashes {
        let grid = view.first(*hash);
        grid.prefetch_line(grid.home(*hash));
    }
    for hash in hashes {
        let grid = view.first(*hash);
        if let Some(entry) = grid.candidate(Common, grid.home(*hash), tag_of(*hash)) {
            entry.prefetch();
        }
    }
    let mut hits = 0;
    for (index, (hash, key)) in hashes.iter().zip(keys).enumerate() {
        if let Some((grid, position)) = view.find(*hash, key) {
            values[index] = grid.value(position);
            hits |= 1 << index;
        }
    }
    hits
}
