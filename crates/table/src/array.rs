//! One array of a table: its memory, and how far the move from its predecessor has come.

use crate::grid::{GROUPS_LIMIT, Grid};
use crate::memory::{Memory, OutOfMemory, Pages};
use crate::sync::{AtomicPtr, AtomicUsize};

/// A fixed number of groups with the entries of `W`-word keys.
#[derive(Debug)]
pub(crate) struct Array<const W: usize> {
    pub(crate) memory: Memory,
    groups: usize,
    /// The array whose entries are being moved here; null when there is none.
    pub(crate) predecessor: AtomicPtr<Array<W>>,
    /// Home groups of the predecessor, from the first, whose entries are all here.
    pub(crate) moved: AtomicUsize,
}

impl<const W: usize> Array<W> {
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

    /// What is in it.
    #[inline(always)]
    pub(crate) fn grid(&self) -> Grid<'_, W> {
        Grid::new(&self.memory, self.groups)
    }
}
