//! Where a worker's tuples and counts are: outside of the worker, so that they outlive it.
//!
//! # Why a tuple may be acknowledged once it is here
//! A worker owns nothing but its place in the inbox. The receiving side hands tuples over, and
//! acknowledges them afterwards. A worker takes a tuple by reading it: it stays in the inbox. The
//! worker adds it to the counts, which are in the inbox, too, and moves the position up to which
//! tuples are counted; both happen under one lock, tuple by tuple, and nothing between them can
//! fail. Only tuples below that position leave the inbox.
//!
//! So at any moment every tuple that was handed over is in exactly one of two places: in the queue
//! at or above the position, or in the counts. A worker may die between any two steps. Whoever
//! follows it begins at the position, and reads again what the dead worker had read and not
//! counted: these tuples are replayed, and no other. The counts of a pane stay until every window
//! that covers the pane was emitted, so results that the dead worker had under way are made again
//! from the same counts.
//!
//! The inbox is memory of one process: it outlives workers, not the process.
//!
//! # Back-pressure
//! An inbox has a fixed number of entries. While it is full nothing is handed over, so nothing is
//! acknowledged, so the sources wait. A worker that stalls therefore loses nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// A tuple as a worker has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: u64,
    /// The pane of its event time.
    pub pane: u64,
    /// Its stream.
    pub stream: u16,
}

/// WorkerCounts of keys by pane.
pub type PaneCounts = BTreeMap<u64, HashMap<u64, u64>>;

/// The counts of a worker, and the position up to which it has counted.
#[derive(Debug, Default)]
pub struct WorkerCounts {
    /// The counts.
    panes: PaneCounts,
    /// Entries below this position are in the counts, or were not kept.
    counted: u64,
    /// Pairs of pane and key.
    pairs: usize,
}

impl WorkerCounts {
    /// WorkerCounts an entry if it is the next one. An entry that was counted before is not counted
    /// again.
    #[inline]
    pub fn count(&mut self, position: u64, entry: &Entry) {
        if position < self.counted {
            return;
        }
        let count = self.panes.entry(entry.pane).or_default().entry(entry.key).or_default();
        self.pairs += usize::from(*count == 0);
        *count += 1;
        self.counted = position + 1;
    }

    /// Takes note that all entries below a position are counted, or are not to be.
    pub fn passed(&mut self, position: u64) {
        self.counted = self.counted.max(position);
    }

    /// The position below which all entries are counted, or are not to be.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// The counts by pane.
    pub fn panes(&self) -> &PaneCounts {
        &self.panes
    }

    /// Pairs of pane and key.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Forgets all panes below one.
    pub fn forget(&mut self, pane: u64) {
        let kept = self.panes.split_off(&pane);
        let gone = std::mem::replace(&mut self.panes, kept);
        self.pairs -= gone.values().map(HashMap::len).sum::<usize>();
    }
}

#[derive(Debug, Default)]
struct EntryQueue {
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
    worker: Option<Thread>,
}

impl EntryQueue {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }
}

/// The entries that a worker has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenEntries {
    /// The position of the first one.
    pub position: u64,
    /// No entry that follows has a pane below this one.
    pub pane: u64,
    /// Nothing follows.
    pub is_end: bool,
}

/// The tuples and counts of one worker.
#[derive(Debug)]
pub struct Inbox {
    capacity: usize,
    queue: Mutex<EntryQueue>,
    counts: Mutex<WorkerCounts>,
}

impl Inbox {
    /// Makes an empty inbox that holds at most `capacity` entries.
    pub fn new(capacity: usize) -> Inbox {
        let entries = VecDeque::with_capacity(capacity);
        let queue = EntryQueue { entries, ..EntryQueue::default() };
        Inbox { capacity, queue: Mutex::new(queue), counts: Mutex::default() }
    }

    /// A worker that panics leaves no step half done, so the lock of a dead one is taken over.
    fn queue(&self) -> MutexGuard<'_, EntryQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts, for the worker that adds to them.
    pub fn counts(&self) -> MutexGuard<'_, WorkerCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries there is room for.
    pub fn room(&self) -> usize {
        self.capacity - self.queue().entries.len()
    }

    /// Entries that were handed over and are not counted yet.
    pub fn waiting(&self) -> usize {
        self.queue().entries.len()
    }

    /// Hands entries over, which then are gone from `entries`, and says that no later one has a
    /// pane below `pane`. The caller is the only one that hands over, and has looked for room.
    ///
    /// # Panics
    /// If there is no room for all of them.
    pub fn hand_over(&self, entries: &mut Vec<Entry>, pane: u64) {
        let mut queue = self.queue();
        assert!(entries.len() <= self.capacity - queue.entries.len(), "an inbox without room");
        let has_entries = !entries.is_empty();
        queue.entries.extend(entries.drain(..));
        let end = queue.end();
        let last = queue.marks.back().map_or(queue.pane, |(_, pane)| *pane);
        let has_mark = pane > last;
        if has_mark {
            queue.marks.push_back((end, pane));
        }
        if has_entries || has_mark {
            queue.worker.iter().for_each(Thread::unpark);
        }
    }

    /// Says that nothing follows.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.is_closed = true;
        queue.worker.iter().for_each(Thread::unpark);
    }

    /// Makes the calling thread the worker, from the first entry on that is not counted.
    pub fn attach(&self) {
        let counted = self.counts().counted;
        let mut queue = self.queue();
        queue.taken = counted.max(queue.first);
        queue.worker = Some(std::thread::current());
    }

    /// Replaces the content of `entries` with at most `most` entries of the inbox. The inbox keeps
    /// them until they are counted.
    pub fn take(&self, most: usize, entries: &mut Vec<Entry>) -> TakenEntries {
        entries.clear();
        let mut queue = self.queue();
        let position = queue.taken;
        let (start, end) = ((position - queue.first) as usize, queue.entries.len());
        entries.extend(queue.entries.range(start..end.min(start + most)));
        queue.taken = position + entries.len() as u64;
        while queue.marks.front().is_some_and(|(from, _)| *from <= queue.first) {
            queue.pane = queue.marks.pop_front().map_or(queue.pane, |(_, pane)| pane);
        }
        let passed = queue.marks.iter().take_while(|(from, _)| *from <= queue.taken).last();
        let pane = passed.map_or(queue.pane, |(_, pane)| *pane);
        let is_end = queue.is_closed && queue.taken == queue.end();
        TakenEntries { position, pane, is_end }
    }

    /// Lets counted entries go, which makes room.
    pub fn release(&self) {
        let counted = self.counts().counted;
        let mut queue = self.queue();
        let gone = (counted - queue.first) as usize;
        queue.entries.drain(..gone);
        queue.first = counted;
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        self.queue().worker.iter().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(key: u64, pane: u64) -> Entry {
        Entry { key, pane, stream: 0 }
    }

    /// Counts the entries as a worker does, which dies after `dies_after` tuples.
    fn work(inbox: &Inbox, dies_after: usize) {
        inbox.attach();
        let (mut entries, mut left) = (Vec::new(), dies_after);
        loop {
            let taken = inbox.take(3, &mut entries);
            if entries.is_empty() || left == 0 {
                return;
            }
            for (position, entry) in (taken.position..).zip(&entries) {
                if left == 0 {
                    return;
                }
                left -= 1;
                inbox.counts().count(position, entry);
            }
            inbox.release();
        }
    }

    proptest! {
        #[test]
        fn each_tuple_is_counted_once_however_often_workers_die(
            keys in prop::collection::vec(0_u64..5, 0..60),
            deaths in prop::collection::vec(0_usize..7, 0..30),
        ) {
            let (inbox, mut deaths) = (Inbox::new(8), deaths.into_iter());
            for keys in keys.chunks(4) {
                while inbox.room() < keys.len() {
                    work(&inbox, deaths.next().unwrap_or(usize::MAX));
                }
                let mut entries = keys.iter().map(|key| entry(*key, 0)).collect();
                inbox.hand_over(&mut entries, 0);
                work(&inbox, deaths.next().unwrap_or(usize::MAX));
            }
            work(&inbox, usize::MAX);
            let counts = inbox.counts();
            for key in 0..5 {
                let expected = keys.iter().filter(|of| **of == key).count() as u64;
                let counted = counts.panes().get(&0).and_then(|of| of.get(&key)).copied();
                prop_assert_eq!(counted.unwrap_or(0), expected);
            }
            prop_assert!(inbox.waiting() == 0);
        }
    }

    #[test]
    fn a_mark_is_passed_behind_the_entries_before_it() {
        let (inbox, mut entries) = (Inbox::new(8), Vec::new());
        inbox.attach();
        inbox.hand_over(&mut vec![entry(1, 3), entry(2, 4)], 3);
        inbox.hand_over(&mut vec![entry(3, 7)], 5);
        inbox.hand_over(&mut Vec::new(), 4);
        assert_eq!(inbox.take(1, &mut entries).pane, 0);
        assert_eq!(inbox.take(1, &mut entries).pane, 3);
        assert_eq!(inbox.take(9, &mut entries).pane, 5);
        inbox.close();
        let last = inbox.take(9, &mut entries);
        assert_eq!((last.pane, last.is_end, entries.len()), (5, true, 0));
        assert_eq!(inbox.room(), 5, "what was read is not counted yet");
    }

    #[test]
    fn a_worker_that_reads_entries_again_has_not_passed_the_marks_behind_them() {
        let (inbox, mut entries) = (Inbox::new(8), Vec::new());
        inbox.attach();
        inbox.hand_over(&mut vec![entry(1, 3), entry(2, 4)], 3);
        inbox.hand_over(&mut Vec::new(), 9);
        assert_eq!(inbox.take(9, &mut entries).pane, 9);
        inbox.counts().count(0, &entry(1, 3));
        inbox.release();
        inbox.attach();
        assert_eq!(inbox.take(0, &mut entries).pane, 0, "entry 1 is of pane 4");
        let again = inbox.take(9, &mut entries);
        assert_eq!((again.position, again.pane, &entries[..]), (1, 9, &[entry(2, 4)][..]));
    }

    #[test]
    fn forgotten_panes_are_gone() {
        let mut counts = WorkerCounts::default();
        (0..6).for_each(|at| counts.count(at, &entry(at % 2, at / 2)));
        counts.count(2, &entry(0, 1));
        assert_eq!((counts.pairs(), counts.panes()[&1][&0]), (6, 1));
        counts.forget(2);
        assert_eq!((counts.pairs(), counts.panes().len()), (2, 1));
    }
}
