//! Frames that wait for a queue pair to take them: the card's own, and apart from them those of
//! each application.
//!
//! Each has room of its own, and the queue pair is given a burst of each in turn. So who sends more
//! than the queue pair takes loses frames of its own, and has others wait for a burst and no more.

use std::collections::VecDeque;
use std::io;

use niclab_nic::limits::BURST;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::QueuePair;

/// Frames of the card's own that wait for room in a queue pair, at most; more are dropped.
pub(crate) const BACKLOG_MAX: usize = 1_024;

/// Most frames of an application that wait for room in the queue pairs of a core. The ports share
/// it evenly; each has room for a burst at least.
const SENDING_MAX: usize = 512;

/// The owner of frames that belong to no application. Frames of application n have the owner `n +
/// 1`.
pub(crate) const OWN: usize = 0;

/// Frames that an application may have waiting at one of so many ports.
fn room(ports: usize) -> usize {
    (SENDING_MAX / ports).max(BURST)
}

/// Frames that wait for the queue pairs of a core at so many ports, at most.
pub(crate) fn frames_max(applications: usize, ports: usize) -> usize {
    ports * (BACKLOG_MAX + applications * room(ports))
}

/// The frames that are to leave by a queue pair.
pub(crate) struct TransmitQueue {
    /// By whose they are.
    queues: Box<[VecDeque<Desc>]>,
    /// Room of each application.
    room: usize,
    /// The owner whose turn is next.
    next: usize,
    count: usize,
    /// Frames of the card's own that were among these, and are not any more.
    left: u64,
}

impl TransmitQueue {
    pub(crate) fn new(applications: usize, ports: usize) -> TransmitQueue {
        let room = room(ports);
        let len = |whose| if whose == OWN { BACKLOG_MAX } else { room };
        let queues = (0..=applications).map(|whose| VecDeque::with_capacity(len(whose)));
        TransmitQueue { queues: queues.collect(), room, next: OWN, count: 0, left: 0 }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many more of these frames there is room for.
    #[inline]
    pub(crate) fn room(&self, whose: usize) -> usize {
        let most = if whose == OWN { BACKLOG_MAX } else { self.room };
        most.saturating_sub(self.queues[whose].len())
    }

    /// Puts the frames of a burst behind the others, for which there is room.
    #[inline]
    pub(crate) fn push_all(&mut self, whose: usize, burst: &mut Burst) {
        self.count += burst.len();
        self.queues[whose].extend(burst.drain(..));
    }

    /// Puts a frame behind the others, for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, whose: usize, desc: Desc) {
        self.queues[whose].push_back(desc);
        self.count += 1;
    }

    /// Frames of the card's own that have left so far, and that wait.
    pub(crate) fn own_frames(&self) -> (u64, u64) {
        (self.left, self.queues[OWN].len() as u64)
    }

    /// Gives the queue pair what it takes; whether it took any, and what it says.
    pub(crate) fn send(
        &mut self,
        queue_pair: &mut dyn QueuePair,
        pool: &mut FramePool,
        burst: &mut Burst,
    ) -> (bool, io::Result<()>) {
        let before = self.count;
        // Once at least: what was sent before comes back.
        loop {
            let all = self.queues.len();
            let waits = |whose: &usize| !self.queues[*whose].is_empty();
            let turn = (self.next..self.next + all).map(|whose| whose % all).find(waits);
            let whose = turn.unwrap_or(OWN);
            let queue = &mut self.queues[whose];
            let count = queue.len().min(burst.capacity());
            burst.extend(queue.drain(..count));
            let result = queue_pair.send(pool, burst);
            let (is_taken, sent) = (burst.is_empty(), count - burst.len());
            // What is not taken keeps its place.
            burst.drain(..).rev().for_each(|desc| queue.push_front(desc));
            self.count -= sent;
            self.left += if whose == OWN { sent as u64 } else { 0 };
            // Who got nothing is the next one again.
            self.next = if sent > 0 { (whose + 1) % all } else { whose };
            if result.is_err() || !is_taken || self.count == 0 {
                return (self.count < before, result);
            }
        }
    }

    /// All that waits, which goes elsewhere.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Desc> + '_ {
        self.left += self.queues[OWN].len() as u64;
        self.count = 0;
        self.queues.iter_mut().flat_map(|queue| queue.drain(..))
    }
}
