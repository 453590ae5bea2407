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

use crate::capture::CoreCapture;
use crate::counters::{PortTally, PublishedPort, add_queue_pair};
use crate::flow_migration::FlowMigration;
use crate::transmit_queue::{OWN, TransmitQueue};

/// One port as a core has it.
pub(crate) struct PortContext {
    /// `None` where it is gone.
    pub(crate) queue_pair: Option<Box<dyn QueuePair>>,
    pub(crate) worker: Worker,
    /// Frames that are to leave by it.
    pub(crate) transmit: TransmitQueue,
    /// The owner of the frames that are transmitted now.
    pub(crate) owner: usize,
    /// Flows that come by it and change their core.
    pub(crate) migration: FlowMigration,
    pub(crate) tally: PortTally,
    pub(crate) published: Arc<PublishedPort>,
    /// New queue pairs.
    pub(crate) queue_pairs: Consumer<Box<dyn QueuePair>>,
    /// Gets a copy of what comes and leaves.
    pub(crate) capture: Option<CoreCapture>,
    /// New ones.
    pub(crate) captures: Consumer<CoreCapture>,
}

impl PortContext {
    pub(crate) fn new(
        queue_pair: Box<dyn QueuePair>,
        worker: Worker,
        (shown, queues): (Arc<PublishedPort>, u16),
        (queue_pairs, taps): (Consumer<Box<dyn QueuePair>>, Consumer<CoreCapture>),
        (moving, transmit): (FlowMigration, TransmitQueue),
    ) -> PortContext {
        let observed = PortTally::new(queues);
        let (queue_pair, tap, whose) = (Some(queue_pair), None, OWN);
        PortContext {
            queue_pair,
            worker,
            transmit,
            owner: whose,
            migration: moving,
            tally: observed,
            published: shown,
            queue_pairs,
            capture: tap,
            captures: taps,
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
        if self.published.closes.load(Ordering::Acquire) {
            self.close_failed(pool);
        }
        if self.capture.as_ref().is_none_or(CoreCapture::is_over) {
            self.capture = self.captures.pop().ok();
            self.capture.iter().for_each(CoreCapture::begin);
        }
        self.worker.classify(pool.region(), &mut []);
        self.update_rss()
    }

    /// Takes notice of the state of RSS that the last burst was spread by; whether frames have to
    /// wait for others from now on.
    #[inline]
    pub(crate) fn update_rss(&mut self) -> bool {
        if let Some((stamp, table)) = self.worker.rss()
            && self.migration.update(stamp, table)
        {
            self.publish_rss_state();
            return !self.migration.is_idle();
        }
        false
    }

    /// Puts a frame behind those that are to leave.
    #[inline]
    pub(crate) fn transmit(&mut self, desc: Desc, pool: &mut FramePool) {
        match self.queue_pair.is_some() && self.transmit.room(self.owner) > 0 {
            true => {
                if let Some(tap) = &mut self.capture {
                    tap.take(pool.region().frame(&desc));
                }
                self.transmit.push(self.owner, desc);
            }
            false => {
                self.tally.tx_dropped += 1;
                pool.give(desc);
            }
        }
    }

    /// Puts the frames of a burst behind those that are to leave.
    #[inline]
    pub(crate) fn transmit_burst(&mut self, burst: &mut Burst, pool: &mut FramePool) {
        let is_plain = self.queue_pair.is_some() && self.capture.is_none();
        match is_plain && self.transmit.room(self.owner) >= burst.len() {
            true => self.transmit.push_all(self.owner, burst),
            false => burst.drain(..).for_each(|desc| self.transmit(desc, pool)),
        }
    }

    /// Sends what there is room for; whether anything left.
    pub(crate) fn send(&mut self, burst: &mut Burst, pool: &mut FramePool) -> bool {
        let Some(queue_pair) = &mut self.queue_pair else { return false };
        let (is_busy, result) = self.transmit.send(&mut **queue_pair, pool, burst);
        self.handle_result(result, pool);
        is_busy
    }

    /// A queue pair that is gone gives back its frames.
    pub(crate) fn handle_result(&mut self, result: io::Result<()>, pool: &mut FramePool) {
        if let Err(error) = result {
            self.publish_error(&error);
            self.close_failed(pool);
        }
    }

    /// Closes the queue pair, if there is one: frames that were to leave by it are dropped.
    #[cold]
    pub(crate) fn close_failed(&mut self, pool: &mut FramePool) {
        if let Some(queue_pair) = self.queue_pair.take() {
            // Why it is gone is known already.
            let _ = self.close(queue_pair, pool);
            self.drop_queued(pool);
            self.published.is_gone.store(true, Ordering::Release);
        }
    }

    /// Drops what is to leave.
    pub(crate) fn drop_queued(&mut self, pool: &mut FramePool) {
        for desc in self.transmit.drain() {
            self.tally.tx_dropped += 1;
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
        add_queue_pair(&mut self.tally.before, closed.as_ref().unwrap_or(&so_far));
        self.tally.queue_pair = QueuePairCounters::default();
        closed.map(drop)
    }

    /// Keeps what went wrong for the control side; no frame is under way meanwhile.
    #[cold]
    pub(crate) fn publish_error(&self, error: &io::Error) {
        let mut trouble = self.published.error.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(error.to_string());
    }

    pub(crate) fn publish(&mut self) {
        if let Some(queue_pair) = &self.queue_pair {
            self.tally.queue_pair = queue_pair.counters();
        }
        self.published.publish(&self.tally);
        let is_ended = self.queue_pair.as_ref().is_none_or(|queue_pair| queue_pair.is_ended());
        let has_all_left = self.transmit.is_empty() && self.migration.is_idle();
        self.published.is_ended.store(is_ended && has_all_left, Ordering::Release);
        self.publish_rss_state();
    }

    pub(crate) fn publish_rss_state(&self) {
        if let Some(state) = self.migration.settled_state() {
            self.published.rss_state.store(state, Ordering::Release);
        }
    }
}
