//! A lane that a receiving side of this process fills.

use std::collections::VecDeque;

use super::{Entry, LaneState};

/// The entries of a lane that are not counted yet.
#[derive(Debug, Default)]
pub struct QueueLane {
    entries: VecDeque<Entry>,
    /// The position of the first of `entries`.
    first: u64,
    /// The position that the worker reads next.
    taken: u64,
    /// Positions, and the pane below which no entry from there on is, both ascending. They stay as
    /// long as the entries before them: a worker that reads those again has not passed them.
    marks: VecDeque<(u64, u64)>,
    /// The pane of the last mark that is gone.
    pane: u64,
    is_closed: bool,
}

impl QueueLane {
    /// An empty lane with room for `capacity` entries.
    pub fn new(capacity: usize) -> QueueLane {
        QueueLane { entries: VecDeque::with_capacity(capacity), ..QueueLane::default() }
    }

    /// Entries.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Takes entries over, and the pane below which none follows; whether the worker has something
    /// to do.
    pub fn hand_over(&mut self, entries: &mut Vec<Entry>, pane: u64) -> bool {
        let has_entries = !entries.is_empty();
        self.entries.extend(entries.drain(..));
        let last = self.marks.back().map_or(self.pane, |(_, pane)| *pane);
        let has_mark = pane > last;
        if has_mark {
            self.marks.push_back((self.end(), pane));
        }
        has_entries || has_mark
    }

    /// Says that nothing follows.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Has the entries read again from a position on.
    pub fn attach(&mut self, counted: u64) {
        self.taken = counted.max(self.first);
    }

    /// Appends at most `most` entries, with their positions.
    pub fn take(&mut self, most: usize, entries: &mut Vec<(u64, Entry)>) -> LaneState {
        let (start, end) = ((self.taken - self.first) as usize, self.entries.len());
        let read = start..end.min(start.saturating_add(most));
        entries.extend((self.taken..).zip(self.entries.range(read.clone()).copied()));
        let begin = self.taken;
        self.taken += read.len() as u64;
        while self.marks.front().is_some_and(|(from, _)| *from <= self.first) {
            self.pane = self.marks.pop_front().map_or(self.pane, |(_, pane)| pane);
        }
        let passed = self.marks.iter().take_while(|(from, _)| *from <= self.taken).last();
        let pane = passed.map_or(self.pane, |(_, pane)| *pane);
        let is_end = self.is_closed && self.taken == self.end();
        LaneState { begin, end: self.taken, pane, is_end }
    }

    /// Lets the entries below a position go.
    pub fn release(&mut self, counted: u64) {
        self.entries.drain(..(counted - self.first) as usize);
        self.first = counted;
    }
}
