//! Values of which any number change at one instant.
//!
//! Readers keep values in places of their own choice: entries of a table, elements of an array.
//! A transaction puts into each place that it changes, instead of the value, a reference to a
//! *cell*, which has the value before, the value after and the generation from which on the latter
//! holds. Readers read the generation once per burst and resolve what they find with it. To commit
//! is to raise the generation by one: one store, whatever the number of changes. When every reader
//! has passed a quiescent state since, the references are replaced by the values they stand for, so
//! that a look-up costs what it did before.
//!
//! A value is any 64-bit word whose highest bit is not set; zero is "nothing there".
//!
//! # Why no reader sees half of a transaction
//!
//! - *A reader with a generation below `born`* takes `before` in every cell of the transaction. In
//!   a place that it read before the reference was stored there it found the same value.
//! - *A reader with `born` or more* read the generation (Acquire) after the writer had stored every
//!   reference (and then the generation, Release): it sees a reference in every place, and takes
//!   `after` in each.
//! - *None sees old after new*: the generation of a thread never falls.
//! - *A reference is replaced* (folded) once the stamp taken after the commit has passed: whoever
//!   passed it reads a generation of `born` or more from then on, so all take `after` already.
//! - *A cell is used again* after another grace period, because a burst under way may still hold
//!   the reference.
//! - *Later changes*: a single operation on a place with a reference stores into the cell's `after`
//!   (Release), so that it holds for those who see the commit, and for nobody else. A later
//!   transaction makes a cell whose `before` is the older reference; who takes it has not passed a
//!   quiescent state since that commit, so the older cell is not used again before.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::domain::{Domain, Stamp};
use crate::limits::CELLS_MAX;
use crate::retired::Retired;
use crate::segments::Segments;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Set in a word that is a reference to a cell.
const REFERENCE: u64 = 1 << 63;

/// What readers resolve references with.
#[derive(Debug)]
pub struct Versions {
    generation: CachePadded<AtomicU64>,
    cells: Segments<3>,
}

/// A cell, of three words.
struct Cell<'a> {
    /// First generation that takes `after`.
    born: &'a AtomicU64,
    before: &'a AtomicU64,
    after: &'a AtomicU64,
}

impl<'a> From<&'a [AtomicU64; 3]> for Cell<'a> {
    #[inline]
    fn from([born, before, after]: &'a [AtomicU64; 3]) -> Self {
        Self { born, before, after }
    }
}

/// A generation: how many transactions a burst knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Generation(u64);

/// A cell, for its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellId(u32);

impl CellId {
    /// A small number of its own, for what the writer wants to remember with it.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    fn reference(self) -> u64 {
        REFERENCE | u64::from(self.0)
    }
}

/// Whether a word is a reference. The bits of any number of words may be joined and asked at once.
#[inline(always)]
#[must_use]
pub const fn is_reference(word: u64) -> bool {
    word & REFERENCE != 0
}

fn cell_of(word: u64) -> Option<CellId> {
    is_reference(word).then_some(CellId(word as u32))
}

impl Versions {
    /// The generation for a burst: to be read after the burst's quiescent state, and used for all
    /// of the burst.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.generation.load(Acquire))
    }

    /// What a word that was read in this burst stands for; zero is nothing.
    #[inline]
    #[must_use]
    pub fn at(&self, mut word: u64, generation: Generation) -> u64 {
        while let Some(id) = cell_of(word) {
            let Some(cell) = self.cells.get(id.0).map(Cell::from) else {
                return 0;
            };
            let changed = cell.born.load(Relaxed) <= generation.0;
            word = if changed { cell.after.load(Acquire) } else { cell.before.load(Acquire) };
        }
        word
    }

    fn cell(&self, id: CellId) -> Cell<'_> {
        self.cells.reach(id.0).into()
    }
}

/// What a place is to hold after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// This word; zero says that the place itself may go.
    Word(u64),
    /// This reference to a new cell, which the place is remembered with.
    Cell(CellId, u64),
    /// What is there: the change went into its cell.
    Kept,
}

/// The writing end of [`Versions`].
#[derive(Debug)]
pub struct Changes {
    versions: Arc<Versions>,
    domain: Domain,
    /// The generation that the open transaction will be born in.
    open: Option<u64>,
    /// Cells that were never used start here.
    fresh: u32,
    /// Cells that no place refers to any more.
    free: Retired<CellId>,
    /// One that was taken back.
    cancelled: Option<CellId>,
}

impl Changes {
    /// For values that participants of `domain` read.
    #[must_use]
    pub fn new(domain: &Domain) -> Self {
        let generation = CachePadded::new(AtomicU64::new(0));
        let versions = Arc::new(Versions { generation, cells: Segments::new(CELLS_MAX) });
        let (free, cancelled) = (Retired::default(), None);
        Self { versions, domain: domain.clone(), open: None, fresh: 0, free, cancelled }
    }

    /// For the readers.
    #[must_use]
    pub fn versions(&self) -> Arc<Versions> {
        Arc::clone(&self.versions)
    }

    /// Begins a transaction.
    pub fn open(&mut self) {
        debug_assert!(self.open.is_none(), "one transaction at a time");
        self.open = Some(self.versions.generation.load(Relaxed) + 1);
    }

    /// Whether a transaction is open.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Ends the transaction: readers see all of it from their next burst on. The stamp after which
    /// its cells can be folded.
    pub fn commit(&mut self) -> Stamp {
        if let Some(born) = self.open.take() {
            self.versions.generation.store(born, Release);
        }
        self.domain.stamp()
    }

    /// Ends the transaction as if it had not been; to be called when every place holds what
    /// [`Changes::before`] says of its cell.
    pub fn abort(&mut self) {
        self.open = None;
    }

    /// Whether `count` more places can change.
    #[must_use]
    pub fn has_room(&mut self, count: usize) -> bool {
        let fresh = (CELLS_MAX - self.fresh) as usize + usize::from(self.cancelled.is_some());
        fresh >= count || {
            self.free.close(&self.domain);
            fresh + self.free.ready(&self.domain) >= count
        }
    }

    /// What a place that holds `current` is to hold for its value to become `next`: at once, or
    /// with the open transaction.
    ///
    /// # Panics
    /// If there is no room for another cell; see [`Changes::has_room`].
    #[inline]
    pub fn place(&mut self, current: u64, next: u64) -> Placed {
        debug_assert!(!is_reference(next));
        if let Some(id) = cell_of(current) {
            let cell = self.versions.cell(id);
            if self.open.is_none_or(|born| cell.born.load(Relaxed) == born) {
                cell.after.store(next, Release);
                return Placed::Kept;
            }
        }
        let Some(born) = self.open else {
            return Placed::Word(next);
        };
        let id = self.take();
        let cell = self.versions.cell(id);
        cell.born.store(born, Relaxed);
        cell.before.store(current, Relaxed);
        cell.after.store(next, Relaxed);
        Placed::Cell(id, id.reference())
    }

    /// The newest value of a word, that of the open transaction included.
    #[inline]
    #[must_use]
    pub fn newest(&self, word: u64) -> u64 {
        cell_of(word).map_or(word, |id| self.versions.cell(id).after.load(Relaxed))
    }

    /// The least that `of` says of any word that a reader may take this one for, whatever its
    /// generation.
    #[must_use]
    pub fn least(&self, mut word: u64, of: impl Fn(u64) -> u64) -> u64 {
        let mut least = u64::MAX;
        while let Some(id) = cell_of(word) {
            least = least.min(of(self.newest(word)));
            word = self.before(id);
        }
        least.min(of(word))
    }

    /// The cell that a word refers to.
    #[must_use]
    pub fn cell(&self, word: u64) -> Option<CellId> {
        cell_of(word)
    }

    /// What a place held before its cell was made.
    #[must_use]
    pub fn before(&self, id: CellId) -> u64 {
        self.versions.cell(id).before.load(Relaxed)
    }

    /// Lets the oldest cell of a place go, the stamp of whose commit has passed: the word that the
    /// place, which holds `current`, is to hold. `None` where newer cells have taken the place: the
    /// `before` of the one behind it becomes the value, so that nothing refers to this cell when it
    /// is used again, be it for the same place.
    #[must_use]
    pub fn fold(&self, current: u64, id: CellId) -> Option<u64> {
        let value = self.newest(id.reference());
        if current == id.reference() {
            return Some(value);
        }
        let mut newer = cell_of(current)?;
        loop {
            let cell = self.versions.cell(newer);
            let before = cell.before.load(Relaxed);
            if before == id.reference() {
                cell.before.store(value, Release);
                return None;
            }
            newer = cell_of(before)?;
        }
    }

    /// Takes a cell back that no place ever referred to.
    pub fn cancel(&mut self, id: CellId) {
        debug_assert!(self.cancelled.is_none(), "it is the next to be taken");
        self.cancelled = Some(id);
    }

    /// Says that no place refers to a cell any more.
    pub fn release(&mut self, id: CellId) {
        self.free.push(id, &self.domain);
    }

    /// Memory of the cells, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.versions.cells.bytes() + self.free.bytes()
    }

    fn take(&mut self) -> CellId {
        if let Some(id) = self.cancelled.take() {
            return id;
        }
        if let Some(id) = self.free.take(&self.domain) {
            return id;
        }
        assert!(self.fresh < CELLS_MAX, "asked for room before");
        self.fresh += 1;
        CellId(self.fresh - 1)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Three transactions change one place before a reader passes; the oldest cell is used for the
    /// same place again while the others wait.
    #[test]
    fn a_cell_that_is_used_again_for_its_place_is_in_its_chain_once() {
        let domain = Domain::new();
        let mut changes = Changes::new(&domain);
        let versions = changes.versions();
        let change = |changes: &mut Changes, current: u64, next: u64| {
            changes.open();
            let Placed::Cell(id, word) = changes.place(current, next) else {
                panic!("a transaction makes a cell");
            };
            changes.commit();
            (id, word)
        };
        let (first, word) = change(&mut changes, 5, 6);
        let before = versions.generation();
        let (_, word) = change(&mut changes, word, 7);
        let (_, word) = change(&mut changes, word, 8);
        assert_eq!(changes.fold(word, first), None);
        changes.release(first);
        // Enough to close a batch of cells that are free.
        let others: Vec<CellId> = (0..40).map(|n| change(&mut changes, n + 100, 1).0).collect();
        others.into_iter().for_each(|id| changes.release(id));
        let (again, word) = change(&mut changes, word, 9);
        assert_eq!(again, first, "the oldest free cell");
        assert_eq!(changes.least(word, |word| word), 6, "5 was folded");
        assert_eq!((versions.at(word, before), changes.newest(word)), (6, 9));
    }
}
