//! Look-ups: hash all, prefetch all tags, choose candidates and prefetch them, compare all.
//!
//! The fast loops are free functions over slices. They visit the keys of a burst in order and
//! settle each before the next, so that of two equal keys the later one sees the later state.

use std::sync::Arc;

use crate::array::{Array, Position};
use crate::domain::Participant;
use crate::limits::BURST_MAX;
use crate::shared::{Shared, View};
use crate::tags::tag_of;

/// A reading end of an [`Exact`](crate::Exact) table. Clone it into any number of threads.
///
/// Look-ups never wait and write nothing that is shared. They borrow the thread's
/// [`Participant`], which must be online and of the table's domain: they panic otherwise. When
/// the table is dropped its readers go on to see what it held last.
#[derive(Debug)]
pub struct Reader<const W: usize> {
    shared: Arc<Shared<W>>,
}

impl<const W: usize> Clone for Reader<W> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<const W: usize> Reader<W> {
    pub(crate) fn new(shared: &Arc<Shared<W>>) -> Self {
        Self { shared: Arc::clone(shared) }
    }

    /// The hash of `key`, for the look-ups that take it.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u64; W]) -> u64 {
        self.shared.hasher.hash(key)
    }

    /// The value of `key`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, participant: &Participant, key: &[u64; W]) -> Option<u64> {
        let view = self.shared.view(participant);
        let (array, position) = view.find(self.hash(key), key)?;
        Some(array.value(position))
    }

    /// Looks up a burst. Bit `i` of the result says whether `keys[i]` was found; its value is
    /// then in `values[i]`. Values of keys not found are left alone.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys or fewer values than keys.
    #[inline]
    pub fn lookup_bulk(
        &self,
        participant: &Participant,
        keys: &[[u64; W]],
        values: &mut [u64],
    ) -> u64 {
        assert!(keys.len() <= BURST_MAX && keys.len() <= values.len(), "burst too long");
        let view = self.shared.view(participant);
        let mut hashes = [0; BURST_MAX];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.shared.hasher.hash(key);
        }
        bulk(&view, keys, &hashes[..keys.len()], values)
    }

    /// [`lookup_bulk`](Self::lookup_bulk) with hashes from [`hash`](Self::hash); a wrong hash
    /// is a miss.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys, fewer values than keys, or not one hash for
    /// each key.
    #[inline]
    pub fn lookup_bulk_hashed(
        &self,
        participant: &Participant,
        keys: &[[u64; W]],
        hashes: &[u64],
        values: &mut [u64],
    ) -> u64 {
        assert!(keys.len() <= BURST_MAX && keys.len() <= values.len(), "burst too long");
        assert_eq!(keys.len(), hashes.len(), "one hash for each key");
        bulk(&self.shared.view(participant), keys, hashes, values)
    }
}

#[inline(always)]
fn bulk<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    match view {
        View::Settled(array) => bulk_settled(array, keys, hashes, values),
        View::Growing { .. } => bulk_growing(view, keys, hashes, values),
    }
}

fn bulk_settled<const W: usize>(
    array: &Array<W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    for hash in hashes {
        array.prefetch_line(array.home(*hash));
    }
    let mut positions = [0; BURST_MAX];
    let found = candidates(array, hashes, &mut positions);
    let mut hits = 0;
    let mut left = found;
    while left != 0 {
        let index = left.trailing_zeros() as usize % BURST_MAX;
        left &= left - 1;
        let (key, position) = (&keys[index], positions[index]);
        if array.holds(position, key) {
            values[index] = array.value(position);
            hits |= 1 << index;
        } else if let Some(position) = second_look(array, hashes[index], key) {
            values[index] = array.value(position);
            hits |= 1 << index;
        }
    }
    hits
}

/// Bit `i` of the result: a slot with the tag of `hashes[i]`, now in `positions[i]`.
#[inline(always)]
fn candidates<const W: usize>(
    array: &Array<W>,
    hashes: &[u64],
    positions: &mut [Position; BURST_MAX],
) -> u64 {
    let mut found = 0;
    for (index, (hash, slot)) in hashes.iter().zip(positions).enumerate() {
        if let Some(position) = array.candidate(array.home(*hash), tag_of(*hash)) {
            array.prefetch_entry(position);
            *slot = position;
            found |= 1 << index;
        }
    }
    found
}

/// One slot in 4000 has the tag of another key.
#[cold]
#[inline(never)]
fn second_look<const W: usize>(array: &Array<W>, hash: u64, key: &[u64; W]) -> Option<Position> {
    array.find(hash, key)
}

/// While a table grows: the tags and likely entries are prefetched, then each key is looked up
/// by itself in the array or arrays that may hold it.
#[inline(never)]
fn bulk_growing<const W: usize>(
    view: &View<'_, W>,
    keys: &[[u64; W]],
    hashes: &[u64],
    values: &mut [u64],
) -> u64 {
    let first = |hash| first_array(view, hash);
    for hash in hashes {
        first(*hash).prefetch_line(first(*hash).home(*hash));
    }
    for hash in hashes {
        let array = first(*hash);
        if let Some(position) = array.candidate(array.home(*hash), tag_of(*hash)) {
            array.prefetch_entry(position);
        }
    }
    let mut hits = 0;
    for (index, (hash, key)) in hashes.iter().zip(keys).enumerate() {
        if let Some((array, position)) = view.find(*hash, key) {
            values[index] = array.value(position);
            hits |= 1 << index;
        }
    }
    hits
}

#[inline(always)]
fn first_array<'a, const W: usize>(view: &View<'a, W>, hash: u64) -> &'a Array<W> {
    match *view {
        View::Settled(array) => array,
        View::Growing { old, new, moved } if old.home(hash) < moved => new,
        View::Growing { old, .. } => old,
    }
}
