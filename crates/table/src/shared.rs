//! What the writer publishes and the readers see: the current array, and the one it grows from.
//!
//! # Growth, and why no reader sees old after new
//!
//! A growing table has two arrays. The new one is current and points to its predecessor; new
//! entries go into it at once. The writer copies the old home groups in order, one group with each
//! insert, and moves the mark `moved` past a group when all its entries are in the new array
//! (Release). Copying removes nothing from the old array. A reader loads `current`, then
//! `predecessor`, then `moved`, once per call. For a key whose old home is below the mark, it
//! searches the new array only; for other keys the old array, and then the new one.
//!
//! - *A live key is never missed.* Below the mark it is in the new array. At or above the mark it
//!   is in the old array until it is destroyed, or was inserted into the new one.
//! - *A thread that saw a value never sees an earlier one.* It uses the old copy of a key first. It
//!   uses the new copy from the first call on in which it sees the mark beyond the key's home, and
//!   the mark never moves back. While a key is in both arrays, `update` stores into the new copy
//!   first and then into the old copy (Release): a reader of the new value in the old copy
//!   (Acquire) finds it in the new copy as well. The other order would show the new value from the
//!   old copy and then, if the mark moved between two calls, the old value from the new copy.
//! - *A destroyed key does not come back.* It is removed from the old array first, and then from
//!   the new one. A reader that missed the new copy searches no further. A reader that searches the
//!   old array first finds either a copy that was live during the call, or none, and then searches
//!   the new array.
//! - *A call in progress* may hold the array that was current when it began. That array gets
//!   updates and removals until all of it has been copied, and lives until its grace period is
//!   over. What the call returns was true at some moment while it ran.
//!
//! When all groups are copied, `predecessor` becomes null (Release; a reader that sees null sees
//! every copy) and the old array is retired.
//!
//! One of the modules that may use `unsafe`: the published pointers are set and followed only here.
//! [`Arrays`] owns what they point to, and frees an array only when no reader can hold it.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use crate::grid::{GROUPS_LIMIT, Grid, GridSlot};
use crate::hash::Hasher;
use crate::memory::{Memory, OutOfMemory, Pages};
use crate::qsbr::{Participant, QsbrDomain, Stamp};
use crate::sync::{Acquire, AtomicPtr, AtomicUsize, Mutex, Relaxed, Release};

/// A fixed number of groups with the entries of `W`-word keys: one array of a table.
#[derive(Debug)]
pub(crate) struct Array<const W: usize> {
    /// Has `Grid::words(groups)` words for as long as the array exists.
    memory: Memory,
    /// At least one.
    groups: usize,
    /// The array whose entries are being moved here; null when there is none.
    predecessor: AtomicPtr<Array<W>>,
    /// Home groups of the predecessor, from the first, whose entries are all here.
    pub(crate) moved: AtomicUsize,
}

impl<const W: usize> Array<W> {
    /// An empty array of `groups` groups.
    pub(crate) fn new(groups: usize, pages: Pages) -> Result<Self, OutOfMemory> {
        if groups == 0 || groups > GROUPS_LIMIT {
            return Err(OutOfMemory { bytes: usize::MAX });
        }
        Ok(Self {
            memory: Memory::zeroed(Grid::<W>::words(groups), pages)?,
            groups,
            predecessor: AtomicPtr::new(std::ptr::null_mut()),
            moved: AtomicUsize::new(0),
        })
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Its memory, to query.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// [`Memory::populate`] of its memory.
    pub(crate) fn populate(&mut self, bytes: usize) -> bool {
        self.memory.populate(bytes)
    }

    /// Its groups and entries.
    #[inline(always)]
    pub(crate) fn grid(&self) -> Grid<'_, W> {
        // SAFETY: `new` made at least one group and the words for all of them, and no other code
        // can shorten the memory.
        unsafe { Grid::new(&self.memory, self.groups) }
    }
}

/// The arrays of a table, for its writer: the current one, its predecessor, and those that readers
/// may still hold.
#[derive(Debug)]
pub(crate) struct Arrays<const W: usize> {
    shared: Arc<Shared<W>>,
    current: Arc<Array<W>>,
    /// The array that `current` grows from.
    predecessor: Option<Arc<Array<W>>>,
    /// Replaced arrays that readers may still hold, oldest first.
    retired: VecDeque<(Stamp, Arc<Array<W>>)>,
    /// Memory of an array that no reader holds, which is being freed.
    leaving: Option<Memory>,
}

impl<const W: usize> Arrays<W> {
    /// The first array, and its view for readers.
    pub(crate) fn new(array: Array<W>, hasher: Hasher, domain: QsbrDomain) -> Self {
        let current = Arc::new(array);
        let pointer = AtomicPtr::new(Arc::as_ptr(&current).cast_mut());
        let shared = Shared { current: pointer, hasher, domain, kept: Mutex::new(Vec::new()) };
        let (predecessor, retired, leaving) = (None, VecDeque::new(), None);
        Self { shared: Arc::new(shared), current, predecessor, retired, leaving }
    }

    /// The part that readers share.
    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared<W>> {
        &self.shared
    }

    /// The array that new entries go into.
    #[inline]
    pub(crate) fn current(&self) -> &Array<W> {
        &self.current
    }

    /// The array that it grows from.
    #[inline]
    pub(crate) fn predecessor(&self) -> Option<&Array<W>> {
        self.predecessor.as_deref()
    }

    /// Whether an array waits for readers, or is being freed.
    #[inline]
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty() || self.leaving.is_some()
    }

    /// The arrays, for one call of the writer.
    #[inline]
    pub(crate) fn view(&self) -> View<'_, W> {
        let new = self.current.grid();
        match &self.predecessor {
            None => View::Stable(new),
            Some(old) => {
                View::Growing { old: old.grid(), new, moved: self.current.moved.load(Acquire) }
            }
        }
    }

    /// Makes `array` current; it grows from the array that was current.
    ///
    /// # Panics
    /// If the table grows already.
    pub(crate) fn grow(&mut self, array: Array<W>) {
        assert!(self.predecessor.is_none(), "a table grows from one array at a time");
        array.predecessor.store(Arc::as_ptr(&self.current).cast_mut(), Relaxed);
        let array = Arc::new(array);
        self.shared.current.store(Arc::as_ptr(&array).cast_mut(), Release);
        self.predecessor = Some(std::mem::replace(&mut self.current, array));
    }

    /// Ends growth: all entries of the predecessor are in the current array.
    pub(crate) fn end_growth(&mut self) {
        if let Some(old) = self.predecessor.take() {
            self.current.predecessor.store(std::ptr::null_mut(), Release);
            self.retired.push_back((self.shared.domain.stamp(), old));
        }
    }

    /// Frees an array that no reader has seen, piece by piece.
    pub(crate) fn discard(&mut self, array: Array<W>) {
        self.retired.push_back((Stamp::FIRST, Arc::new(array)));
    }

    /// Frees a piece of the oldest replaced array once no reader can hold it.
    pub(crate) fn release(&mut self) {
        if self.leaving.is_none() {
            let has_passed = |(stamp, _): &mut (Stamp, _)| *stamp <= self.shared.domain.passed();
            let Some((_, array)) = self.retired.pop_front_if(has_passed) else {
                return;
            };
            self.leaving = Arc::into_inner(array).map(|array| array.memory);
        }
        if self.leaving.as_mut().is_some_and(Memory::release) {
            self.leaving = None;
        }
    }

    /// Memory of all of them.
    pub(crate) fn bytes(&self) -> usize {
        let retired = self.retired.iter().map(|(_, array)| array);
        let arrays = retired.chain(&self.predecessor).chain([&self.current]);
        let leaving = self.leaving.as_ref().map_or(0, Memory::bytes);
        arrays.map(|array| array.memory.bytes()).sum::<usize>() + leaving
    }
}

impl<const W: usize> Drop for Arrays<W> {
    /// Readers may continue: the last of them frees the arrays.
    fn drop(&mut self) {
        let retired = self.retired.drain(..).map(|(_, array)| array);
        let rest = self.predecessor.take().into_iter().chain([Arc::clone(&self.current)]);
        let mut kept = self.shared.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.extend(retired.chain(rest));
    }
}

/// The part of a table that its writer and all its readers share.
#[derive(Debug)]
pub(crate) struct Shared<const W: usize> {
    /// An array that lives until the grace period after its replacement is over (`Arrays`).
    current: AtomicPtr<Array<W>>,
    pub(crate) hasher: Hasher,
    pub(crate) domain: QsbrDomain,
    /// Arrays of a table whose writer was dropped, for the remaining readers.
    kept: Mutex<Vec<Arc<Array<W>>>>,
}

/// The arrays, for one call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View<'a, const W: usize> {
    /// Old home groups below `moved` are in `new`.
    Growing {
        old: Grid<'a, W>,
        new: Grid<'a, W>,
        moved: usize,
    },
    Stable(Grid<'a, W>),
}

impl<const W: usize> Shared<W> {
    /// The arrays, for as long as the participant is borrowed.
    ///
    /// # Panics
    /// If the participant is offline or belongs to another domain.
    #[inline(always)]
    pub(crate) fn view<'a>(&'a self, participant: &'a Participant) -> View<'a, W> {
        if !participant.protects(&self.domain) {
            wrong_participant();
        }
        // SAFETY: `current` always points to an array that lives until the grace period after its
        // replacement is over: only `Arrays` sets it, keeps what it points to, and stamps what it
        // replaces. The participant is online in the same domain and cannot pass a quiescent state
        // or go offline while it is borrowed, so that period outlasts 'a.
        let new = unsafe { &*self.current.load(Acquire) };
        let predecessor = new.predecessor.load(Acquire);
        if predecessor.is_null() {
            return View::Stable(new.grid());
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
    /// The slot of a key; if there are two copies, the one that counts.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &[u64; W]) -> Option<GridSlot<'a, W>> {
        match *self {
            Self::Stable(grid) => grid.find(hash, key),
            Self::Growing { old, new, moved } if old.home(hash) < moved => new.find(hash, key),
            Self::Growing { old, new, .. } => old.find(hash, key).or_else(|| new.find(hash, key)),
        }
    }

    /// The grid in which a look-up of `hash` begins.
    #[inline(always)]
    pub(crate) fn first(&self, hash: u64) -> Grid<'a, W> {
        match *self {
            Self::Stable(grid) => grid,
            Self::Growing { old, new, moved } if old.home(hash) < moved => new,
            Self::Growing { old, .. } => old,
        }
    }
}
