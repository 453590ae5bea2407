//! What rules have counted: one set of counters a worker, summed when somebody asks.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::Segments;
use serde::{Deserialize, Serialize};

use crate::limits::RULES_MAX;

/// Bytes of the frame check sequence, which counters include and frames in memory do not have.
pub(crate) const FCS_LEN: u64 = 4;

/// Packets and bytes (with FCS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Bytes, with FCS.
    pub bytes: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |a, b| Counts {
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
        })
    }
}

/// One worker's counters, by rule. Only the worker adds; the control side zeroes a counter before
/// its rule appears, when no worker can reach it.
pub(crate) struct Counters {
    rules: Segments<2>,
    /// Packets dropped for want of room in front of them.
    unfit: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters { rules: Segments::new(RULES_MAX), unfit: AtomicU64::new(0) }
    }

    /// Makes room for a rule, which may count from now on. Control side only.
    pub(crate) fn reach(&self, rule: u32) {
        self.rules.reach(rule);
    }

    /// Sets the counters of a rule to zero, where there is room for them. Control side only.
    pub(crate) fn clear(&self, rule: u32) {
        let counters = self.rules.get(rule).into_iter().flatten();
        counters.for_each(|counter| counter.store(0, Ordering::Relaxed));
    }

    /// Adds a packet. Worker only: nobody else writes, so this needs no read-modify-write.
    #[inline]
    pub(crate) fn add(&self, rule: u32, bytes: u64) {
        if let Some([packets, total]) = self.rules.get(rule) {
            packets.store(packets.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            total.store(total.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        }
    }

    /// Counts a packet that had no room for a header. Worker only, as [`Counters::add`].
    pub(crate) fn add_unfit(&self) {
        self.unfit.store(self.unfit.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn unfit(&self) -> u64 {
        self.unfit.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self, rule: u32) -> Counts {
        let read = |c: &AtomicU64| c.load(Ordering::Relaxed);
        self.rules.get(rule).map_or(Counts::default(), |[packets, bytes]| Counts {
            packets: read(packets),
            bytes: read(bytes),
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rules.bytes()
    }
}
