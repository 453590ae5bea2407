//! What the writer publishes and the readers see: the current array, and the one it grows from.
//!
//! # Growth, and why no reader sees old after new
//!
//! A growing table has two arrays. The new one is current and points at its predecessor; new
//! entries go into it at once. The writer copies the old home groups in order, a group with each
//! insert, and moves the mark `moved` past a group when all its entries are in the new array
//! (Release). Nothing leaves the old array by being copied. A reader loads `current`, then
//! `predecessor`, then `moved`, once per call. For a key whose old home is below the mark it
//! looks in the new array only; for others in the old array, then in the new one.
//!
//! - *A live key is never missed.* Below the mark it is in the new array. At or above the mark
//!   it is in the old array until it is destroyed, or was inserted into the new one.
//! - *A thread that saw a value never sees an earlier one.* It uses the old copy of a key first,
//!   and the new copy from the call on in which it sees the mark beyond the key's home, which
//!   never moves back. While a key is in both arrays, `update` stores into the new copy first
//!   and into the old copy then (Release): whoever read the new value from the old copy
//!   (Acquire) finds it in the new copy as well. The other order would show the new value from
//!   the old copy and then, the mark having moved between two calls, the old value from the
//!   new copy.
//! - *A destroyed key does not come back.* It is taken out of the old array first, of the new
//!   one then: who missed the new copy looks no further, and who looks in the old one first
//!   finds either a copy that was live during the call, or none and asks the new array.
//! - *A call under way* may hold the array that was current when it began. That array keeps
//!   receiving updates and destructions until all of it has been copied, and lives until its
//!   grace period is over; what the call returns was true at some moment while it ran.
//!
//! When all groups are copied `predecessor` becomes null (Release; who sees null sees every
//! copy) and the old array is retired.
//!
//! One of the modules that may use `unsafe`: the published pointers are followed here alone.

#![allow(unsafe_code)]

use std::sync::Arc;

use crate::array::Array;
use crate::domain::{Domain, Participant};
use crate::grid::{Grid, Position};
use crate::hash::Hasher;
use crate::sync::{Acquire, AtomicPtr, Mutex, Release};

/// The side of a table that its writer and all its readers hold.
#[derive(Debug)]
pub(crate) struct Shared<const W: usize> {
    current: AtomicPtr<Array<W>>,
    pub(crate) hasher: Hasher,
    pub(crate) domain: Domain,
    /// Arrays of a table whose writer is gone, for the readers that are left.
    kept: Mutex<Vec<Arc<Array<W>>>>,
}

/// The arrays as one call sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View<'a, const W: usize> {
    /// Old home groups below `moved` are in `new`.
    Growing {
        old: Grid<'a, W>,
        new: Grid<'a, W>,
        moved: usize,
    },
    Settled(Grid<'a, W>),
}

impl<const W: usize> Shared<W> {
    pub(crate) fn new(array: &Arc<Array<W>>, hasher: Hasher, domain: Domain) -> Self {
        let current = AtomicPtr::new(Arc::as_ptr(array).cast_mut());
        Self { current, hasher, domain, kept: Mutex::new(Vec::new()) }
    }

    /// Makes `array` current. The writer keeps it, and what it replaces, alive: until the grace
    /// period after its successor was published is over, or by `keep`.
    pub(crate) fn publish(&self, array: &Arc<Array<W>>) {
        self.current.store(Arc::as_ptr(array).cast_mut(), Release);
    }

    /// Keeps arrays until the last reader is gone.
    pub(crate) fn keep(&self, arrays: impl Iterator<Item = Arc<Array<W>>>) {
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend(arrays);
    }

    /// The arrays, for as long as the participant is borrowed.
    ///
    /// # Panics
    /// If the participant is offline or belongs to another domain.
    #[inline(always)]
    pub(crate) fn view<'a>(&'a self, participant: &'a Participant) -> View<'a, W> {
        if !participant.protects(&self.domain) {
            wrong_participant();
        }
        // SAFETY: `current` always points at an array that lives until the grace period after
        // its replacement is over. The participant is online in the same domain and cannot pass
        // a quiescent state or go offline while it is borrowed, so that period outlasts 'a.
        let new = unsafe { &*self.current.load(Acquire) };
        let predecessor = new.predecessor.load(Acquire);
        if predecessor.is_null() {
            return View::Settled(new.grid());
        }
        // SAFETY: as above: a predecessor is retired only after this pointer was set to null.
        let old = unsafe { &*predecessor };
        View::Growing { old: old.grid(), new: new.grid(), moved: new.moved.load(Acquire) }
    }
}

#[cold]
#[inline(never)]
fn wrong_participant() -> ! {
    panic!("look-up by a participant that is offline or of another domain");
}

impl<'a, const W: usize> View<'a, W> {
    /// Where a key is; of two copies the one that is to be believed.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &[u64; W]) -> Option<(Grid<'a, W>, Position)> {
        let settled = |grid: Grid<'a, W>| Some((grid, grid.find(hash, key)?));
        match *self {
            Self::Settled(grid) => settled(grid),
            Self::Growing { old, new, moved } if old.home(hash) < moved => settled(new),
            Self::Growing { old, new, .. } => settled(old).or_else(|| settled(new)),
        }
    }

    /// Where a look-up of `hash` begins.
    #[inline(always)]
    pub(crate) fn first(&self, hash: u64) -> Grid<'a, W> {
        match *self {
            Self::Settled(grid) => grid,
            Self::Growing { old, new, moved } if old.home(hash) < moved => new,
            Self::Growing { old, .. } => old,
        }
    }
}
