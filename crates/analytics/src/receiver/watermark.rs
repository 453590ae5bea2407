//! The event time that all receivers of a job have passed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::window::Windows;

/// Event time of a receiver without a live source.
const NO_SOURCE: u64 = u64::MAX;

/// The progress of a receiver.
#[derive(Debug)]
struct ReceiverProgress {
    /// Its live sources send nothing earlier, nanoseconds; [`NO_SOURCE`].
    live_ns: AtomicU64,
    /// Behind the latest event time that it has taken, nanoseconds; 0 if it has taken none.
    behind_latest_ns: AtomicU64,
    /// All sources that it knows have ended or are silent.
    is_ended: AtomicBool,
}

/// The watermark of a job, which its receivers share.
///
/// Each receiver says how far its own sources are, and takes the watermark from what all of them
/// have said. It is enough that a receiver hands over with the watermark of that moment: every
/// tuple that it takes later has been compared with this watermark or a later one.
#[derive(Debug)]
pub struct Watermark {
    windows: Windows,
    /// Sources that are waited for, and those that were ever there.
    awaited: usize,
    seen: AtomicUsize,
    receivers: Box<[ReceiverProgress]>,
    /// It never falls, nanoseconds.
    watermark_ns: AtomicU64,
}

impl Watermark {
    /// The watermark of `receivers` receivers, at least 1. It is 0 until `awaited` sources were
    /// there.
    pub fn new(windows: Windows, awaited: usize, receivers: usize) -> Watermark {
        let progress = |_| ReceiverProgress {
            live_ns: AtomicU64::new(NO_SOURCE),
            behind_latest_ns: AtomicU64::new(0),
            is_ended: AtomicBool::new(true),
        };
        Watermark {
            windows,
            awaited,
            seen: AtomicUsize::new(0),
            receivers: (0..receivers.max(1)).map(progress).collect(),
            watermark_ns: AtomicU64::new(0),
        }
    }

    /// The windows of the results.
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// Sources that were ever there.
    pub fn seen(&self) -> usize {
        self.seen.load(Ordering::Acquire)
    }

    /// A receiver has another source, which has sent nothing yet.
    pub fn count_source(&self, at: usize) {
        if let Some(progress) = self.receivers.get(at) {
            // A thread that sees the source sees that results wait for it.
            progress.live_ns.store(0, Ordering::Release);
            progress.is_ended.store(false, Ordering::Release);
        }
        self.seen.fetch_add(1, Ordering::AcqRel);
    }

    /// A receiver says of its live sources that they send nothing earlier, and of itself the latest
    /// event time that it has taken and whether all of its sources have ended.
    pub fn say(&self, at: usize, live_ns: Option<u64>, latest_ns: Option<u64>, is_ended: bool) {
        let Some(progress) = self.receivers.get(at) else { return };
        progress.live_ns.store(live_ns.unwrap_or(NO_SOURCE), Ordering::Release);
        let behind_ns = latest_ns.map_or(0, |ns| ns.saturating_add(1));
        progress.behind_latest_ns.store(behind_ns, Ordering::Release);
        progress.is_ended.store(is_ended, Ordering::Release);
    }

    /// Moves the watermark to what all receivers have said, and gives it. Where no source of any
    /// receiver is live, it is behind all windows of the tuples that were taken.
    pub fn advance(&self) -> u64 {
        if self.seen.load(Ordering::Acquire) < self.awaited {
            return self.now_ns();
        }
        let least = self.receivers.iter().map(|of| of.live_ns.load(Ordering::Acquire)).min();
        let passed_ns = match least {
            Some(NO_SOURCE) | None => {
                let behind = |of: &ReceiverProgress| of.behind_latest_ns.load(Ordering::Acquire);
                let behind_ns = self.receivers.iter().map(behind).max().unwrap_or(0);
                behind_ns.checked_sub(1).map_or(0, |ns| self.windows.end_of_all_ns(ns))
            }
            Some(least_ns) => least_ns,
        };
        self.watermark_ns.fetch_max(passed_ns, Ordering::AcqRel).max(passed_ns)
    }

    /// The event time from which on tuples may still be taken.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.watermark_ns.load(Ordering::Acquire)
    }

    /// Whether all awaited sources were there, and all sources of all receivers have ended or
    /// are silent.
    pub fn is_finished(&self) -> bool {
        self.seen.load(Ordering::Acquire) >= self.awaited
            && self.receivers.iter().all(|of| of.is_ended.load(Ordering::Acquire))
    }
}
