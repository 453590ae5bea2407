//! A read-only view of a program.

use niclab_program::{Change, Invocation, Pipeline, Program};

/// A read-only view of a program. It is also given for the program of a store, which relies on
/// exclusive access to its memory and registers.
#[derive(Clone, Copy, Debug)]
pub struct ProgramView<'a>(&'a Pipeline);

impl<'a> ProgramView<'a> {
    /// At the program of somebody who may have it whole.
    pub fn new(pipeline: &'a Pipeline) -> ProgramView<'a> {
        ProgramView(pipeline)
    }

    /// The program itself.
    pub fn program(&self) -> &'a Program {
        self.0.program()
    }

    /// Entries of the table of a number.
    ///
    /// # Panics
    /// If the program has none of this number.
    pub fn entries(&self, table: usize) -> usize {
        self.0.entries(table)
    }

    /// The content of a table, as the changes that recreate it from an empty one
    /// ([`Pipeline::content`]).
    pub fn content(&self, table: usize) -> Vec<Change> {
        self.0.content(table)
    }

    /// Groups of the selector of a number that have members.
    pub fn groups(&self, table: usize) -> usize {
        self.0.groups(table).len()
    }

    /// The default action of a table; `None` for a selector.
    pub fn default_of(&self, table: usize) -> Option<Invocation> {
        self.0.default_of(table)
    }

    /// The register at a place of the array of a number; `None` where there is no such array.
    pub fn register(&self, array: usize, index: u64) -> Option<u64> {
        self.0.register(array, index)
    }

    /// Packets and bytes that a counter of the array of a number has seen; `None` where there is no
    /// such array.
    pub fn counter(&self, array: usize, index: u64) -> Option<(u64, u64)> {
        self.0.counter(array, index)
    }

    /// Copies bytes out of the window of a number, from an offset on; whether there is one.
    ///
    /// # Panics
    /// If they reach beyond its end.
    pub fn copy_window(&self, window: usize, offset: usize, into: &mut [u8]) -> bool {
        self.0.window(window).map(|shared| shared.copy_out(offset, into)).is_some()
    }
}
