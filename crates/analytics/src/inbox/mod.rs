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
//! # Lanes
//! Each receiving side has a lane of its own into each inbox: a queue, or a ring that a card
//! fills ([`RingLane`]). The argument above holds lane by lane. Panes pass when they
//! have passed in all lanes.
//!
//! # Back-pressure
//! A lane has a fixed number of entries. While it is full nothing is handed over, so nothing is
//! acknowledged, so the sources wait. A worker that stalls therefore loses nothing.

mod counts;
mod queue;
mod ring;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

pub use self::counts::{KeyMap, PaneCounts, WorkerCounts};
use self::queue::QueueLane;
pub use self::ring::{CardSources, RingLane};

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

/// The entries that a worker has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenEntries {
    /// The lane of the entries.
    pub lane: usize,
    /// The position of the first entry that was read.
    pub begin: u64,
    /// The position behind the last one.
    pub end: u64,
    /// No entry that follows in any lane has a pane below this one.
    pub pane: u64,
    /// Nothing follows in any lane.
    pub is_end: bool,
}

/// The state of a lane after entries were read.
#[derive(Clone, Copy, Debug)]
struct LaneState {
    /// The position of the first entry that was read.
    begin: u64,
    /// The position behind the last one.
    end: u64,
    /// No entry that is read later has a pane below this one.
    pane: u64,
    /// Nothing follows.
    is_end: bool,
}

/// The lanes of an inbox.
#[derive(Debug)]
enum Lanes {
    Queues(Box<[Mutex<QueueLane>]>),
    Ring(Mutex<RingLane>),
}

/// The tuples and counts of one worker.
#[derive(Debug)]
pub struct Inbox {
    /// Entries of a lane at most.
    capacity: usize,
    lanes: Lanes,
    counts: Mutex<WorkerCounts>,
    worker: Mutex<Option<Thread>>,
    /// The lane that the worker looks at first.
    first: AtomicUsize,
}

/// A worker that panics leaves no step half done, so the lock of a dead one is taken over.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    /// Makes an empty inbox with a number of queues, at least 1. Each holds at most `capacity`
    /// entries.
    pub fn new(lanes: usize, capacity: usize) -> Inbox {
        let queue = |_| Mutex::new(QueueLane::new(capacity));
        Inbox::of(Lanes::Queues((0..lanes.max(1)).map(queue).collect()), lanes.max(1), capacity)
    }

    /// Makes an inbox whose entries a card writes into a ring.
    pub fn of_ring(ring: RingLane) -> Inbox {
        let capacity = ring.capacity();
        Inbox::of(Lanes::Ring(Mutex::new(ring)), 1, capacity)
    }

    fn of(lanes: Lanes, count: usize, capacity: usize) -> Inbox {
        let counts = Mutex::new(WorkerCounts::new(count));
        Inbox { capacity, lanes, counts, worker: Mutex::default(), first: AtomicUsize::new(0) }
    }

    /// The counts, for the worker that adds to them.
    pub fn counts(&self) -> MutexGuard<'_, WorkerCounts> {
        locked(&self.counts)
    }

    fn queue(&self, lane: usize) -> Option<MutexGuard<'_, QueueLane>> {
        match &self.lanes {
            Lanes::Queues(queues) => queues.get(lane).map(locked),
            Lanes::Ring(_) => None,
        }
    }

    /// How many entries there is room for in a lane; 0 if it is no queue.
    pub fn room(&self, lane: usize) -> usize {
        self.queue(lane).map_or(0, |queue| self.capacity - queue.waiting())
    }

    /// Entries that were handed over and are not counted yet; of a ring, those that were read.
    pub fn waiting(&self) -> usize {
        match &self.lanes {
            Lanes::Queues(queues) => queues.iter().map(|queue| locked(queue).waiting()).sum(),
            Lanes::Ring(ring) => locked(ring).waiting(),
        }
    }

    /// Tuples whose windows were complete when the worker found them in its ring: not counted.
    pub fn late(&self) -> u64 {
        match &self.lanes {
            Lanes::Queues(_) => 0,
            Lanes::Ring(ring) => locked(ring).late(),
        }
    }

    /// Hands entries over to a queue, which then are gone from `entries`, and says that no later
    /// one has a pane below `pane`. The caller is the only one that hands over by this lane, and
    /// has looked for room.
    ///
    /// # Panics
    /// If there is no room for all of them, or no such queue.
    pub fn hand_over(&self, lane: usize, entries: &mut Vec<Entry>, pane: u64) {
        let has_news = self.queue(lane).map(|mut queue| {
            assert!(entries.len() <= self.capacity - queue.waiting(), "an inbox without room");
            queue.hand_over(entries, pane)
        });
        assert!(has_news.is_some(), "an inbox without queue {lane}");
        if has_news == Some(true) {
            self.wake();
        }
    }

    /// Says that nothing follows.
    pub fn close(&self) {
        match &self.lanes {
            Lanes::Queues(queues) => queues.iter().for_each(|queue| locked(queue).close()),
            Lanes::Ring(ring) => locked(ring).close(),
        }
        self.wake();
    }

    /// Makes the calling thread the worker, from the first entry of each lane on that is not
    /// counted.
    pub fn attach(&self) {
        let counts = self.counts();
        match &self.lanes {
            Lanes::Queues(queues) => {
                let lanes = queues.iter().enumerate();
                lanes.for_each(|(lane, queue)| locked(queue).attach(counts.counted(lane)));
            }
            Lanes::Ring(ring) => locked(ring).attach(counts.counted(0)),
        }
        *locked(&self.worker) = Some(std::thread::current());
    }

    /// Replaces the content of `entries` with at most `most` entries of a lane, with their
    /// positions, ascending. The inbox keeps them until they are counted. Lanes have their turns.
    pub fn take(&self, most: usize, entries: &mut Vec<(u64, Entry)>) -> TakenEntries {
        entries.clear();
        match &self.lanes {
            Lanes::Ring(ring) => {
                let LaneState { begin, end, pane, is_end } = locked(ring).take(most, entries);
                TakenEntries { lane: 0, begin, end, pane, is_end }
            }
            Lanes::Queues(queues) => self.take_of(queues, most, entries),
        }
    }

    fn take_of(
        &self,
        queues: &[Mutex<QueueLane>],
        most: usize,
        entries: &mut Vec<(u64, Entry)>,
    ) -> TakenEntries {
        let first = self.first.load(Ordering::Relaxed);
        let mut taken =
            TakenEntries { lane: first, begin: 0, end: 0, pane: u64::MAX, is_end: true };
        for lane in (first..queues.len()).chain(0..first) {
            let had_entries = !entries.is_empty();
            let most = if had_entries { 0 } else { most };
            let state = locked(&queues[lane]).take(most, entries);
            if !had_entries {
                (taken.lane, taken.begin, taken.end) = (lane, state.begin, state.end);
            }
            taken.pane = taken.pane.min(state.pane);
            taken.is_end &= state.is_end;
        }
        self.first.store((taken.lane + 1) % queues.len(), Ordering::Relaxed);
        taken
    }

    /// Lets counted entries go, which makes room.
    pub fn release(&self) {
        let counts = self.counts();
        match &self.lanes {
            Lanes::Queues(queues) => {
                let lanes = queues.iter().enumerate();
                lanes.for_each(|(lane, queue)| locked(queue).release(counts.counted(lane)));
            }
            Lanes::Ring(ring) => locked(ring).release(counts.counted(0)),
        }
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        locked(&self.worker).iter().for_each(Thread::unpark);
    }
}
