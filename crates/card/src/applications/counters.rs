//! Counters of applications. Each core publishes its own; a reader adds them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_control::ApplicationCounters;
use niclab_program::{Fate, Lost};

/// The numbers of [`ApplicationCounters`], in their order.
pub(super) type Numbers = [u64; 10];

pub(super) const FRAMES: usize = 0;
pub(super) const MISSED: usize = 1;
pub(super) const DROPS: usize = 2;
pub(super) const REPORTED: usize = 3;
pub(super) const FAULTS: usize = 4;
pub(super) const OUTSIDE: usize = 5;
pub(super) const RING_FULL: usize = 6;
pub(super) const QUEUE_MISSED: usize = 7;
pub(super) const TX_DROPPED: usize = 8;
pub(super) const BUSY_NS: usize = 9;

/// Counters that a core publishes.
#[derive(Debug, Default)]
pub(super) struct PublishedCounters([AtomicU64; 10]);

impl PublishedCounters {
    /// Shows what a core has seen.
    pub(super) fn publish(&self, observed: &Numbers) {
        for (slot, value) in self.0.iter().zip(observed) {
            slot.store(*value, Ordering::Relaxed);
        }
    }
}

/// The counters of an application on all cores.
pub(super) fn sum(name: &str, shown: &[Arc<PublishedCounters>]) -> ApplicationCounters {
    let sum = |at: usize| shown.iter().map(|shown| shown.0[at].load(Ordering::Relaxed)).sum();
    ApplicationCounters {
        name: name.to_owned(),
        frames: sum(FRAMES),
        missed: sum(MISSED),
        drops: sum(DROPS),
        reported: sum(REPORTED),
        faults: sum(FAULTS),
        outside: sum(OUTSIDE),
        ring_full: sum(RING_FULL),
        queue_missed: sum(QUEUE_MISSED),
        tx_dropped: sum(TX_DROPPED),
        busy_ns: sum(BUSY_NS),
    }
}

/// Frames that a program did not let through: as it says, unfit for it, that would have reached
/// outside of its memory, that found a ring full, for which there is no way out, and those that it
/// told of in a ring.
#[derive(Debug, Default)]
pub(crate) struct LossCounters([u64; 6]);

impl LossCounters {
    /// One more that goes nowhere.
    #[inline]
    pub(crate) fn add(&mut self, fate: Fate) {
        let at = match fate {
            Fate::Dropped(Lost::Told | Lost::Empty) => 0,
            Fate::Dropped(Lost::Short | Lost::Rounds | Lost::NoRoom | Lost::Hindered) => 1,
            Fate::Dropped(Lost::Outside) => 2,
            Fate::Dropped(Lost::RingFull) => 3,
            Fate::Port(_) | Fate::Queue(_) | Fate::Back => 4,
            Fate::Dropped(Lost::Handed) => 5,
        };
        self.0[at] += 1;
    }

    /// The numbers, which begin anew.
    pub(crate) fn take(&mut self) -> [u64; 6] {
        std::mem::take(&mut self.0)
    }
}
