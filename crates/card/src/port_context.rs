//! The state of one port on one core: queue pair, rules and transmit queue.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use niclab_nic::Worker;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::queue_pair::{QueuePair, QueuePairCounters};
use rtrb::Consumer;

use crate::capture::Tap;
use crate::counters::{PortTally, Shown, add_queue_pair};
use crate::moving::Moving;
use crate::transmit_queue::{OWN, TransmitQueue};

/// One port as a core has it.
pub(crate) struct PortContext {
    /// `None` where it is gone.
    pub(crate) queue_pair: Option<Box<dyn QueuePair>>,
    pub(crate) worker: Worker,
    /// Frames that are to leave by it.
    pub(crate) transmit: TransmitQueue,
    /// Whose frames are worked on: what is to leave is theirs.
    pub(crate) whose: usize,
    /// Flows that come by it and change their core.
    pub(crate) moving: Moving,
    pub(crate) seen: PortTally,
    pub(crate) shown: Arc<Shown>,
    /// New queue pairs.
    pub(crate) queue_pairs: Consumer<Box<dyn QueuePair>>,
    /// Gets a copy of what comes and leaves.
    pub(crate) tap: Option<Tap>,
    /// New ones.
    pub(crate) taps: Consumer<Tap>,
}

impl PortContext {
    pub(crate) fn new(
        queue_pair: Box<dyn QueuePair>,
        worker: Worker,
        (shown, queues): (Arc<Shown>, u16),
        (queue_pairs, taps): (Consumer<Box<dyn QueuePair>>, Consumer<Tap>),
        (moving, transmit): (Moving, TransmitQueue),
    ) -> PortContext {
        let seen = PortTally::new(queues);
        let (queue_pair, tap, whose) = (Some(queue_pair), None, OWN);
        PortContext {
            queue_pair,
            worker,
            transmit,
            whose,
            moving,
            seen,
            shown,
            queue_pairs,
            tap,
            taps,
        }
    }

    /// Whether a frame of the card's own that is to leave by it would be dropped for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.queue_pair.is_some() && self.transmit.room(OWN) == 0
    }

    /// Takes the newest rules and RSS where no frame comes that would have it do so, and lets what
    /// was in memory before be used again: nobody is looking at it. Whether as
    /// [`PortContext::follow`].
    pub(crate) fn refresh(&mut self, pool: &mut FramePool) -> bool {
        if self.shown.closes.load(Ordering::Acquire) {
            self.lose(pool);
        }
        if self.tap.as_ref().is_none_or(Tap::is_over) {
            self.tap = self.taps.pop().ok();
            self.tap.iter().for_each(Tap::begin);
        }
        self.worker.classify(pool.region(), &mut []);
        self.follow()
    }

    /// Takes notice of the state of RSS that the last burst was spread by; whether frames have to
    /// wait for others from now on.
    #[inline]
    pub(crate) fn follow(&mut self) -> bool {
        if let Some((stamp, table)) = self.worker.rss()
            && self.moving.follow(stamp, table)
        {
            self.show_followed();
            return !self.moving.is_calm();
        }
        false
    }

    /// Puts a frame behind those that are to leave.
    #[inline]
    pub(crate) fn leave(&mut self, desc: Desc, pool: &mut FramePool) {
        match self.queue_pair.is_some() && self.transmit.room(self.whose) > 0 {
            true => {
                if let Some(tap) = &mut self.tap {
                    tap.take(pool.region().frame(&desc));
                }
                self.transmit.push(self.whose, desc);
            }
            false => {
                self.seen.tx_dropped += 1;
                pool.give(desc);
            }
        }
    }

    /// Puts the frames of a burst behind those that are to leave.
    #[inline]
    pub(crate) fn leave_all(&mut self, burst: &mut Burst, pool: &mut FramePool) {
        let is_plain = self.queue_pair.is_some() && self.tap.is_none();
        match is_plain && self.transmit.room(self.whose) >= burst.len() {
            true => self.transmit.push_all(self.whose, burst),
            false => burst.drain(..).for_each(|desc| self.leave(desc, pool)),
        }
    }

    /// Sends what there is room for; whether anything left.
    pub(crate) fn send(&mut self, burst: &mut Burst, pool: &mut FramePool) -> bool {
        let Some(queue_pair) = &mut self.queue_pair else { return false };
        let (is_busy, result) = self.transmit.send(&mut **queue_pair, pool, burst);
        self.met(result, pool);
        is_busy
    }

    /// A queue pair that is gone gives back its frames.
    pub(crate) fn met(&mut self, result: io::Result<()>, pool: &mut FramePool) {
        if let Err(error) = result {
            self.note(&error);
            self.lose(pool);
        }
    }

    /// Closes the queue pair, if there is one: frames that were to leave by it are dropped.
    #[cold]
    pub(crate) fn lose(&mut self, pool: &mut FramePool) {
        if let Some(queue_pair) = self.queue_pair.take() {
            // Why it is gone is known already.
            let _ = self.close(queue_pair, pool);
            self.drop_leaving(pool);
            self.shown.is_gone.store(true, Ordering::Release);
        }
    }

    /// Drops what is to leave.
    pub(crate) fn drop_leaving(&mut self, pool: &mut FramePool) {
        for desc in self.transmit.drain() {
            self.seen.tx_dropped += 1;
            pool.give(desc);
        }
    }

    /// Closes a queue pair: its frames come back, and what it counted is kept.
    pub(crate) fn close(
        &mut self,
        queue_pair: Box<dyn QueuePair>,
        pool: &mut FramePool,
    ) -> io::Result<()> {
        let so_far = queue_pair.counters();
        let closed = queue_pair.close(pool);
        add_queue_pair(&mut self.seen.before, closed.as_ref().unwrap_or(&so_far));
        self.seen.queue_pair = QueuePairCounters::default();
        closed.map(drop)
    }

    /// Keeps what went wrong for the control side; no frame is under way meanwhile.
    #[cold]
    pub(crate) fn note(&self, error: &io::Error) {
        let mut trouble = self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(error.to_string());
    }

    pub(crate) fn show(&mut self) {
        if let Some(queue_pair) = &self.queue_pair {
            self.seen.queue_pair = queue_pair.counters();
        }
        self.shown.show(&self.seen);
        let is_ended = self.queue_pair.as_ref().is_none_or(|queue_pair| queue_pair.is_ended());
        let has_all_left = self.transmit.is_empty() && self.moving.is_calm();
        self.shown.is_ended.store(is_ended && has_all_left, Ordering::Release);
        self.show_followed();
    }

    pub(crate) fn show_followed(&self) {
        if let Some(state) = self.moving.followed() {
            self.shown.followed.store(state, Ordering::Release);
        }
    }
}
