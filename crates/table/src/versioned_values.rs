//! Versioned values: any number of values change at one instant (MVCC).
//!
//! Readers keep values in places of their own choice: entries of a table, elements of an array. A
//! transaction replaces the value in each place that it changes by a reference to a *cell*. A cell
//! has the value before, the value after, and the generation from which on the latter holds.
//! Readers read the generation once per burst and resolve references with it. To commit is to
//! increase the generation by one: one store, whatever the number of changes. When every reader has
//! passed a quiescent state since, the references are replaced by their values, so that look-ups
//! cost what they did before.
//!
//! A value is any 64-bit word whose highest bit is not set; zero is "nothing there".
//!
//! # Why no reader sees half of a transaction
//!
//! - *A reader with a generation below `born`* takes `before` in every cell of the transaction. In
//!   a place that it read before the reference was stored, it found the same value.
//! - *A reader with `born` or more* read the generation (Acquire) after the writer had stored every
//!   reference (and then the generation, Release): it sees a reference in every place, and takes
//!   `after` in each.
//! - *No reader sees old after new*: the generation of a thread never decreases.
//! - *A reference is replaced* (folded) once the stamp that was taken after the commit has passed:
//!   each reader that passed it reads a generation of `born` or more from then on, so all take
//!   `after` already.
//! - *A cell is reused* after another grace period, because a burst may still hold the reference.
//! - *Later changes*: a single operation on a place with a reference stores into the cell's `after`
//!   (Release), so that it applies to readers that see the commit, and to no others. A later
//!   transaction makes a cell whose `before` is the older reference. A reader that takes it has not
//!   passed a quiescent state since that commit, so the older cell is not reused before.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::limits::CELLS_MAX;
use crate::qsbr::{QsbrDomain, Stamp};
use crate::retired::Retired;
use crate::segments::Segments;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Set in a word that is a reference to a cell.
const REFERENCE: u64 = 1 << 63;

/// Resolves references, for readers.
#[derive(Debug)]
pub struct VersionedValues {
    generation: CachePadded<AtomicU64>,
    cells: Segments<3>,
}

/// A cell, of three words.
struct Cell<'a> {
    /// The first generation that takes `after`.
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

/// A generation: the number of transactions that a burst sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Generation(u64);

/// A cell, for its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellId(u32);

impl CellId {
    /// A small number that identifies the cell, to index the writer's own data.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    fn reference(self) -> u64 {
        REFERENCE | u64::from(self.0)
    }
}

/// Whether a word is a reference. For several words, pass the bitwise or of them.
#[inline(always)]
#[must_use]
pub const fn is_reference(word: u64) -> bool {
    word & REFERENCE != 0
}

fn cell_of(word: u64) -> Option<CellId> {
    is_reference(word).then_some(CellId(word as u32))
}

impl VersionedValues {
    /// The generation for a burst: read it after the burst's quiescent state, and use it for the
    /// whole burst.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation(self.generation.load(Acquire))
    }

    /// The value of a word that was read in this burst; zero is no value.
    #[inline]
    #[must_use]
    pub fn resolve(&self, mut word: u64, generation: Generation) -> u64 {
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
        self.cells.ensure(id.0).into()
    }
}

/// How to store a change into its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordUpdate {
    /// Store this word; for zero the place itself may be removed.
    Store(u64),
    /// Store this reference to a new cell, and remember the place by the cell.
    StoreReference(CellId, u64),
    /// Store nothing: the change went into the cell of the place.
    InCell,
}

/// The writing end of [`VersionedValues`]: transactions, one at a time.
#[derive(Debug)]
pub struct Transactions {
    versions: Arc<VersionedValues>,
    domain: QsbrDomain,
    /// The generation of the open transaction.
    open: Option<u64>,
    /// The first cell that was never used.
    fresh: u32,
    /// Cells that no place refers to any more.
    free: Retired<CellId>,
    /// A cell that was cancelled.
    cancelled: Option<CellId>,
}

impl Transactions {
    /// For values that participants of `domain` read.
    #[must_use]
    pub fn new(domain: &QsbrDomain) -> Self {
        let generation = CachePadded::new(AtomicU64::new(0));
        let versions = Arc::new(VersionedValues { generation, cells: Segments::new(CELLS_MAX) });
        let (free, cancelled) = (Retired::default(), None);
        Self { versions, domain: domain.clone(), open: None, fresh: 0, free, cancelled }
    }

    /// The reading end.
    #[must_use]
    pub fn versions(&self) -> Arc<VersionedValues> {
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

    /// Commits the transaction: readers see all of it from their next burst on. Returns the stamp
    /// after which its cells can be folded.
    pub fn commit(&mut self) -> Stamp {
        if let Some(born) = self.open.take() {
            self.versions.generation.store(born, Release);
        }
        self.domain.stamp()
    }

    /// Aborts the transaction. Before the call, every place has to hold what
    /// [`Transactions::before`] returns for its cell.
    pub fn abort(&mut self) {
        self.open = None;
    }

    /// Whether there is room for `count` more changes.
    #[must_use]
    pub fn has_room(&mut self, count: usize) -> bool {
        let fresh = (CELLS_MAX - self.fresh) as usize + usize::from(self.cancelled.is_some());
        fresh >= count || {
            self.free.close(&self.domain);
            fresh + self.free.ready(&self.domain) >= count
        }
    }

    /// Changes the value of a place that holds `current` to `next`, at once or with the open
    /// transaction; returns how to store the change.
    ///
    /// # Panics
    /// If there is no room for another cell; see [`Transactions::has_room`].
    #[inline]
    pub fn update(&mut self, current: u64, next: u64) -> WordUpdate {
        debug_assert!(!is_reference(next));
        if let Some(id) = cell_of(current) {
            let cell = self.versions.cell(id);
            if self.open.is_none_or(|born| cell.born.load(Relaxed) == born) {
                cell.after.store(next, Release);
                return WordUpdate::InCell;
            }
        }
        let Some(born) = self.open else {
            return WordUpdate::Store(next);
        };
        let id = self.take();
        let cell = self.versions.cell(id);
        cell.born.store(born, Relaxed);
        cell.before.store(current, Relaxed);
        cell.after.store(next, Relaxed);
        WordUpdate::StoreReference(id, id.reference())
    }

    /// The newest value of a word, including the open transaction.
    #[inline]
    #[must_use]
    pub fn newest(&self, word: u64) -> u64 {
        cell_of(word).map_or(word, |id| self.versions.cell(id).after.load(Relaxed))
    }

    /// The least result of `of` for all values that a reader may resolve this word to, with any
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

    /// The word of a place before its cell was made.
    #[must_use]
    pub fn before(&self, id: CellId) -> u64 {
        self.versions.cell(id).before.load(Relaxed)
    }

    /// Folds the oldest cell of a place, after the stamp of its commit has passed. Returns the new
    /// word for the place, which holds `current`. `None` if newer cells exist: the value then
    /// becomes the `before` of the next cell, so that nothing refers to this cell when it is
    /// reused, even for the same place.
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

    /// Returns a cell that no place ever referred to.
    pub fn cancel(&mut self, id: CellId) {
        debug_assert!(self.cancelled.is_none(), "it is the next to be taken");
        self.cancelled = Some(id);
    }

    /// Frees a cell that no place refers to any more.
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

    /// Three transactions change one place before a reader passes; the oldest cell is reused for
    /// the same place while the others wait.
    #[test]
    fn a_cell_that_is_used_again_for_its_place_is_in_its_chain_once() {
        let domain = QsbrDomain::new();
        let mut transactions = Transactions::new(&domain);
        let versions = transactions.versions();
        let change = |transactions: &mut Transactions, current: u64, next: u64| {
            transactions.open();
            let WordUpdate::StoreReference(id, word) = transactions.update(current, next) else {
                panic!("a transaction makes a cell");
            };
            transactions.commit();
            (id, word)
        };
        let (first, word) = change(&mut transactions, 5, 6);
        let before = versions.generation();
        let (_, word) = change(&mut transactions, word, 7);
        let (_, word) = change(&mut transactions, word, 8);
        assert_eq!(transactions.fold(word, first), None);
        transactions.release(first);
        // Enough to close a batch of cells that are free.
        let others: Vec<CellId> =
            (0..40).map(|n| change(&mut transactions, n + 100, 1).0).collect();
        others.into_iter().for_each(|id| transactions.release(id));
        let (again, word) = change(&mut transactions, word, 9);
        assert_eq!(again, first, "the oldest free cell");
        assert_eq!(transactions.least(word, |word| word), 6, "5 was folded");
        assert_eq!((versions.resolve(word, before), transactions.newest(word)), (6, 9));
    }
}
