//! One port as a core has it: its lane, its rules, and what is to leave by it.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use niclab_nic::Worker;
use niclab_nic::memory::Desc;
use niclab_port::Burst;
use niclab_port::frame_pool::FramePool;
use niclab_port::lane::{Lane, LaneCounters};
use rtrb::Consumer;

use crate::capture::Tap;
use crate::counters::{Seen, Shown, add_lane};
use crate::leaving::{Leaving, OWN};
use crate::moving::Moving;

/// One port as a core has it.
pub(crate) struct Side {
    /// `None` where it is gone.
    pub(crate) lane: Option<Box<dyn Lane>>,
    pub(crate) worker: Worker,
    /// Frames that are to leave by it.
    pub(crate) leaving: Leaving,
    /// Whose frames are worked on: what is to leave is theirs.
    pub(crate) whose: usize,
    /// Flows that come by it and change their core.
    pub(crate) moving: Moving,
    pub(crate) seen: Seen,
    pub(crate) shown: Arc<Shown>,
    /// New lanes.
    pub(crate) lanes: Consumer<Box<dyn Lane>>,
    /// Gets a copy of what comes and leaves.
    pub(crate) tap: Option<Tap>,
    /// New ones.
    pub(crate) taps: Consumer<Tap>,
}

impl Side {
    pub(crate) fn new(
        lane: Box<dyn Lane>,
        worker: Worker,
        (shown, queues): (Arc<Shown>, u16),
        (lanes, taps): (Consumer<Box<dyn Lane>>, Consumer<Tap>),
        (moving, leaving): (Moving, Leaving),
    ) -> Side {
        let seen = Seen::new(queues);
        let (lane, tap, whose) = (Some(lane), None, OWN);
        Side { lane, worker, leaving, whose, moving, seen, shown, lanes, tap, taps }
    }

    /// Whether a frame of the card's own that is to leave by it would be dropped for want of room.
    pub(crate) fn is_full(&self) -> bool {
        self.lane.is_some() && self.leaving.room(OWN) == 0
    }

    /// Takes the newest rules and RSS where no frame comes that would have it do so, and lets what
    /// was in memory before be used again: nobody is looking at it. Whether as [`Side::follow`].
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
        match self.lane.is_some() && self.leaving.room(self.whose) > 0 {
            true => {
                if let Some(tap) = &mut self.tap {
                    tap.take(pool.region().frame(&desc));
                }
                self.leaving.push(self.whose, desc);
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
        let is_plain = self.lane.is_some() && self.tap.is_none();
        match is_plain && self.leaving.room(self.whose) >= burst.len() {
            true => self.leaving.push_all(self.whose, burst),
            false => burst.drain(..).for_each(|desc| self.leave(desc, pool)),
        }
    }

    /// Sends what there is room for; whether anything left.
    pub(crate) fn send(&mut self, burst: &mut Burst, pool: &mut FramePool) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        let (is_busy, result) = self.leaving.send(&mut **lane, pool, burst);
        self.met(result, pool);
        is_busy
    }

    /// A lane that is gone gives back its frames.
    pub(crate) fn met(&mut self, result: io::Result<()>, pool: &mut FramePool) {
        if let Err(error) = result {
            self.note(&error);
            self.lose(pool);
        }
    }

    /// Closes the lane, if there is one: frames that were to leave by it are dropped.
    #[cold]
    pub(crate) fn lose(&mut self, pool: &mut FramePool) {
        if let Some(lane) = self.lane.take() {
            // Why it is gone is known already.
            let _ = self.close(lane, pool);
            self.drop_leaving(pool);
            self.shown.is_gone.store(true, Ordering::Release);
        }
    }

    /// Drops what is to leave.
    pub(crate) fn drop_leaving(&mut self, pool: &mut FramePool) {
        for desc in self.leaving.drain() {
            self.seen.tx_dropped += 1;
            pool.give(desc);
        }
    }

    /// Closes a lane: its frames come back, and what it counted is kept.
    pub(crate) fn close(&mut self, lane: Box<dyn Lane>, pool: &mut FramePool) -> io::Result<()> {
        let so_far = lane.counters();
        let closed = lane.close(pool);
        add_lane(&mut self.seen.before, closed.as_ref().unwrap_or(&so_far));
        self.seen.lane = LaneCounters::default();
        closed.map(drop)
    }

    /// Keeps what went wrong for the control side; no frame is under way meanwhile.
    #[cold]
    pub(crate) fn note(&self, error: &io::Error) {
        let mut trouble = self.shown.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = Some(error.to_string());
    }

    pub(crate) fn show(&mut self) {
        if let Some(lane) = &self.lane {
            self.seen.lane = lane.counters();
        }
        self.shown.show(&self.seen);
        let is_ended = self.lane.as_ref().is_none_or(|lane| lane.is_ended());
        let has_all_left = self.leaving.is_empty() && self.moving.is_calm();
        self.shown.is_ended.store(is_ended && has_all_left, Ordering::Release);
        self.show_followed();
    }

    pub(crate) fn show_followed(&self) {
        if let Some(state) = self.moving.followed() {
            self.shown.followed.store(state, Ordering::Release);
        }
    }
}
