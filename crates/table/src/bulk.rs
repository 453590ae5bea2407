//! Bulk look-up: prefetch all tags, then choose candidates and compare them chunk by chunk.
//!
//! The loops are free functions over slices. Each step visits the keys of a burst in order, so
//! that of two equal keys the later one never sees an earlier state.
//!
//! One of the modules that may use `unsafe`: a function compiled for more than the base
//! processor.

#![allow(unsafe_code)]

use crate::grid::{Grid, Position};
use crate::limits::BURST_MAX;
use crate::shared::View;
use crate::tags::{Common, Compare, tag_of};

/// Keys whose entries are prefetched before those of the chunk before are compared. Zen 5, 64 k
/// and 1 M entries: 302 and 104 M/s with 16, 300 and 140 with 32, 268 and 134 with 64.
const CHUNK: usize = 32;

/// Looks up `keys` by `hashes`: as many, at most `BURST_MAX`, and no more than `values`.
#[inline]
pub(crate) fn bulk<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    match *view {
        View::Settled(grid) => settled(grid, keys, hashes, values),
        View::Growing { .. } => growing(view, keys, hashes, values),
    }
}

#[inline]
fn settled<const W: usize>(
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    if let Some(wide) = crate::tags::avx2::Avx2::detect() {
        // SAFETY: the processor was just found to have what the function is compiled for.
        return unsafe { settled_avx2(wide, grid, keys, hashes, values) };
    }
    settled_by(Common, grid, keys, hashes, values)
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn settled_avx2<const W: usize>(
    wide: crate::tags::avx2::Avx2,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    settled_by(wide, grid, keys, hashes, values)
}

#[inline(always)]
fn settled_by<C: Compare, const W: usize>(
    compare: C,
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    for hash in hashes {
        grid.prefetch_line(grid.home(*hash));
    }
    // One length for all, so that one bounds check covers an index.
    let count = keys.len();
    let (hashes, values) = (&hashes[..count], &mut values[..count]);
    let mut positions = [0; BURST_MAX];
    let (mut hits, mut waiting, mut start) = (0, 0, 0);
    while start < count {
        let end = (start + CHUNK).min(count);
        let found = candidates(compare, grid, hashes, &mut positions, start..end);
        hits |= compare_all(grid, keys, hashes, values, &positions, waiting);
        waiting = found;
        start = end;
    }
    hits | compare_all(grid, keys, hashes, values, &positions, waiting)
}

/// Bit `i` of the result: a slot with the tag of `hashes[i]`, now in `positions[i]`.
#[inline(always)]
fn candidates<C: Compare, const W: usize>(
    compare: C,
    grid: Grid<'_, W>,
    hashes: &[u64],
    positions: &mut [Position; BURST_MAX],
    range: std::ops::Range<usize>,
) -> u64 {
    let mut found = 0;
    for index in range {
        let hash = hashes[index];
        if let Some(position) = grid.candidate(compare, grid.home(hash), tag_of(hash)) {
            grid.prefetch_entry(position);
            positions[index % BURST_MAX] = position;
            found |= 1 << index;
        }
    }
    found
}

/// Compares the candidates in `waiting`; those that are the key.
#[inline(always)]
fn compare_all<const W: usize>(
    grid: Grid<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
    positions: &[Position; BURST_MAX],
    mut waiting: u64,
) -> u64 {
    let mut hits = 0;
    while waiting != 0 {
        let index = waiting.trailing_zeros() as usize;
        waiting &= waiting - 1;
        let (key, mut position) = (&keys[index], positions[index % BURST_MAX]);
        if !grid.holds(position, key) {
            let Some(other) = second_look(grid, hashes[index], key) else {
                continue;
            };
            position = other;
        }
        values[index] = grid.value(position);
        hits |= 1 << index;
    }
    hits
}

/// One slot in 65,534 has the tag of another key.
#[cold]
#[inline(never)]
fn second_look<const W: usize>(grid: Grid<'_, W>, hash: u64, key: &[u64; W]) -> Option<Position> {
    grid.find(hash, key)
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
    for hash in hashes {
        let grid = view.first(*hash);
        grid.prefetch_line(grid.home(*hash));
    }
    for hash in hashes {
        let grid = view.first(*hash);
        if let Some(position) = grid.candidate(Common, grid.home(*hash), tag_of(*hash)) {
            grid.prefetch_entry(position);
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
