//! Keeps the frames of a flow in order while flows move from core to core.
//!
//! A change of a port's RSS gives some flows another queue, and some of these queues belong to
//! another core. Frames of such a flow that were given to the old core may still wait there, in its
//! ring or behind a queue pair that is full, when the next ones come: given to the new core at
//! once, they would pass the others. So the core that receives them holds them, until every core
//! that lost flows has completed what it was given before; then it gives them on in the order they
//! came in.
//!
//! - Each core counts the frames that it gives to each other one (and to itself), by port: `given`.
//! - While somebody waits (`Progress::waiting`), each core says how many of those it has completed:
//!   they left by a queue pair, or were dropped. What was completed is stored (Release) after the
//!   queue pair took it, and read (Acquire) before a held frame is given on: so whatever the new
//!   core does with a held frame comes after what the old core did with those before it.
//! - Frames of one port that one core receives wait for one change at a time: the control side
//!   makes no other one until each core has said that it follows the last (`Shown::followed`).
//!
//! Flows that keep their core are not held, nor frames that a rule gave to a queue. Of two states
//! with the same hash the entries of the indirection table say which flows move; where the hash
//! itself changes, all of them may.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_utils::CachePadded;
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::Desc;
use niclab_nic::rss::{Indirection, RssStamp};

use crate::sync::{AtomicU64, AtomicUsize};

/// Frames that a core holds of a port, at most; more are dropped, and counted.
pub(crate) const HELD_MAX: usize = 4_096;

/// How far the cores are with what they were given, while somebody waits for it.
pub(crate) struct Progress {
    waiting: CachePadded<AtomicUsize>,
    /// By core: of each core that gives, by port, how many frames of it were completed.
    done: Vec<CachePadded<Box<[AtomicU64]>>>,
    ports: usize,
}

impl Progress {
    pub(crate) fn new(cores: usize, ports: usize) -> Arc<Progress> {
        let zeros = || std::iter::repeat_with(AtomicU64::default).take(cores * ports).collect();
        let done = (0..cores).map(|_| CachePadded::new(zeros())).collect();
        Arc::new(Progress { waiting: CachePadded::default(), done, ports })
    }

    /// Whether somebody waits for frames that were given before.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// Frames of `port` given by core `from` that core `at` has completed.
    fn of(&self, at: usize, from: usize, port: usize) -> &AtomicU64 {
        &self.done[at][from * self.ports + port]
    }
}

/// Frames that one core has completed.
pub(crate) struct Completed {
    place: usize,
    /// By giver and port: frames that it took.
    taken: Box<[u64]>,
    /// The same when the mark of the port was set.
    marked: Box<[u64]>,
    /// By port, where a mark is set: frames that must have left by the queue pair that its frames
    /// leave by for the mark to be reached.
    marks: Box<[Option<u64>]>,
}

impl Completed {
    pub(crate) fn new(place: usize, cores: usize, ports: usize) -> Completed {
        let zeros = || vec![0; cores * ports].into_boxed_slice();
        Completed { place, taken: zeros(), marked: zeros(), marks: vec![None; ports].into() }
    }

    /// Frames of `port` were taken that core `from` gave.
    #[inline]
    pub(crate) fn take(&mut self, from: usize, port: usize, frames: usize) {
        self.taken[from * self.marks.len() + port] += frames as u64;
    }

    /// Says what is completed. `queue_pair` has, by port, for the queue pair that frames of that
    /// port leave by: how many have left so far, and how many are to leave. A frame that was taken
    /// is completed once all have left that were to leave then.
    #[cold]
    pub(crate) fn publish(
        &mut self,
        progress: &Progress,
        queue_pair: impl Fn(usize) -> (u64, u64),
    ) {
        let ports = self.marks.len();
        for port in 0..ports {
            let (left, waiting) = queue_pair(port);
            // The mark that was set earlier, and one for what came since.
            for _ in 0..2 {
                let own = || (port..self.taken.len()).step_by(ports);
                let tail = *self.marks[port].get_or_insert_with(|| {
                    own().for_each(|at| self.marked[at] = self.taken[at]);
                    left + waiting
                });
                if left < tail {
                    break;
                }
                let done = &progress.done[self.place];
                own().for_each(|at| done[at].store(self.marked[at], Ordering::Release));
                self.marks[port] = None;
            }
        }
    }
}

/// The treatment of frames of moving flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing moves.
    Idle,
    /// Frames that moved are held for others to be completed.
    Waiting,
    /// Held frames are given on; those that come now go behind them.
    Releasing,
}

/// One port's flows on the move, as one core that receives them sees it.
pub(crate) struct FlowMigration {
    place: usize,
    port: usize,
    state: State,
    /// The state of RSS that is followed, and its table.
    stamp: RssStamp,
    table: Box<Indirection>,
    /// Frames given so far, by core.
    given: Box<[u64]>,
    /// Frames that must be completed, by core.
    until: Box<[u64]>,
    /// Entries of the table whose flows have another core now.
    moved: Box<[bool; INDIRECTION_LEN]>,
    held: VecDeque<Desc>,
    progress: Arc<Progress>,
}

impl FlowMigration {
    pub(crate) fn new(place: usize, port: usize, progress: Arc<Progress>) -> FlowMigration {
        let cores = progress.done.len();
        FlowMigration {
            place,
            port,
            state: State::Idle,
            stamp: RssStamp::default(),
            table: Box::new([0; INDIRECTION_LEN]),
            given: vec![0; cores].into(),
            until: vec![0; cores].into(),
            moved: Box::new([false; INDIRECTION_LEN]),
            held: VecDeque::with_capacity(HELD_MAX),
            progress,
        }
    }

    /// Whether nothing moves.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// The state of RSS that frames are spread by, once the change to it is over.
    pub(crate) fn settled_state(&self) -> Option<u64> {
        self.is_idle().then_some(self.stamp.state)
    }

    /// Frames were given to a core.
    #[inline]
    pub(crate) fn count_dispatched(&mut self, core: usize, frames: usize) {
        self.given[core] += frames as u64;
    }

    /// Takes notice of the state of RSS that the next frames were spread by; whether it is another
    /// one.
    #[inline]
    pub(crate) fn update(&mut self, stamp: RssStamp, table: &Indirection) -> bool {
        let is_other = stamp != self.stamp;
        if is_other {
            self.begin(stamp, table);
        }
        is_other
    }

    /// Another state of RSS: finds out what moves, and for whom it has to wait.
    #[cold]
    fn begin(&mut self, stamp: RssStamp, table: &Indirection) {
        let cores = self.given.len();
        let core = |queue: u16| usize::from(queue) % cores;
        let is_same_hash = stamp.hash == self.stamp.hash;
        let is_first = self.stamp == RssStamp::default();
        debug_assert!(self.is_idle(), "one change at a time");
        self.until.fill(0);
        for (entry, moved) in self.moved.iter_mut().enumerate() {
            let old = core(self.table[entry]);
            *moved = !is_same_hash || old != core(table[entry]);
            if *moved && is_same_hash {
                self.until[old] = self.given[old];
            }
        }
        if !is_same_hash {
            self.until.copy_from_slice(&self.given);
        }
        (self.stamp, *self.table) = (stamp, *table);
        let nothing = is_first || cores == 1 || self.until.iter().all(|until| *until == 0);
        if !nothing {
            self.progress.waiting.fetch_add(1, Ordering::Release);
            self.state = State::Waiting;
        }
    }

    /// Whether a frame that the port's RSS spread has to wait.
    #[inline]
    pub(crate) fn must_wait(&self, desc: &Desc) -> bool {
        self.moved[desc.hash as usize % INDIRECTION_LEN]
    }

    /// Holds a frame; back where there is no room.
    #[inline]
    pub(crate) fn hold(&mut self, desc: Desc) -> Option<Desc> {
        if self.held.len() == HELD_MAX {
            return Some(desc);
        }
        self.held.push_back(desc);
        None
    }

    /// Looks whether the wait is over.
    pub(crate) fn poll(&mut self) {
        if self.state == State::Waiting {
            let done = |core| self.progress.of(core, self.place, self.port).load(Ordering::Acquire);
            if (0..self.until.len()).all(|core| done(core) >= self.until[core]) {
                self.progress.waiting.fetch_sub(1, Ordering::Release);
                self.state = State::Releasing;
            }
        }
    }

    /// Whether held frames may be given on now.
    pub(crate) fn is_releasing(&self) -> bool {
        self.state == State::Releasing
    }

    /// The next held frame, and all is over with the last.
    pub(crate) fn next(&mut self) -> Option<Desc> {
        let next = self.held.pop_front();
        if next.is_none() {
            self.state = State::Idle;
        }
        next
    }

    /// Puts a frame back that could not be given on yet.
    pub(crate) fn put_back(&mut self, desc: Desc) {
        self.held.push_front(desc);
    }

    /// Ends, with the frames that are still held.
    pub(crate) fn end(&mut self) -> impl Iterator<Item = Desc> + '_ {
        if self.state == State::Waiting {
            self.progress.waiting.fetch_sub(1, Ordering::Release);
        }
        self.state = State::Idle;
        self.held.drain(..)
    }
}
