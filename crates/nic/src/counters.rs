//! Counters of rules: one set for each worker, summed when they are read.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::Segments;
use serde::{Deserialize, Serialize};

use crate::limits::RULES_MAX;

/// Length of the frame check sequence, which counters include and frames in memory lack.
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

/// One worker's counters, by rule. Only the worker adds. The control side zeroes a counter before
/// its rule appears, when no worker can match the rule.
pub(crate) struct Counters {
    rules: Segments<2>,
    /// Packets that were dropped for lack of headroom.
    headroom_drops: AtomicU64,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters { rules: Segments::new(RULES_MAX), headroom_drops: AtomicU64::new(0) }
    }

    /// Makes room for a rule that may count from now on. Control side only.
    pub(crate) fn ensure(&self, rule: u32) {
        self.rules.ensure(rule);
    }

    /// Zeroes the counters of a rule that has room for them. Control side only.
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

    /// Counts a packet that had no headroom. Worker only, as [`Counters::add`].
    pub(crate) fn add_headroom_drop(&self) {
        self.headroom_drops
            .store(self.headroom_drops.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn headroom_drops(&self) -> u64 {
        self.headroom_drops.load(Ordering::Relaxed)
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
