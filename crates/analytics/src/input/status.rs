//! The counters of a receiving side for other threads, and its clock.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Reception;
use crate::receiver::ReceiverCounters;

/// The counters and sources of a receiving side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSnapshot {
    /// The counters of its receiver.
    pub counters: ReceiverCounters,
    /// Sources that were ever there.
    pub seen_sources: usize,
    /// Sources that were heard of lately, and have not ended.
    pub live_sources: usize,
    /// Sources that have fallen silent before their end.
    pub silent_sources: usize,
    /// It takes nothing more.
    pub is_closed: bool,
}

impl InputSnapshot {
    /// The sum of two receiving sides of an engine, which have seen their sources together.
    #[must_use]
    pub fn with(&self, other: &InputSnapshot) -> InputSnapshot {
        InputSnapshot {
            counters: self.counters.with(&other.counters),
            seen_sources: self.seen_sources.max(other.seen_sources),
            live_sources: self.live_sources + other.live_sources,
            silent_sources: self.silent_sources + other.silent_sources,
            is_closed: self.is_closed && other.is_closed,
        }
    }
}

/// The counters of a receiving side, which another thread may read.
#[derive(Debug, Default)]
pub struct InputStatus(Mutex<InputSnapshot>);

impl InputStatus {
    /// The latest counters and sources.
    pub fn read(&self) -> InputSnapshot {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of it.
    pub fn publish(&self, reception: &Reception) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = InputSnapshot {
            counters: reception.counters(),
            seen_sources: reception.seen_sources(),
            live_sources: reception.live_sources(),
            silent_sources: reception.silent_sources(),
            is_closed: reception.is_closed(),
        };
    }
}

/// The time in which a receiving side has looked for datagrams. Time in which it did not run does
/// not pass: its sources were not silent then.
#[derive(Debug, Default)]
pub struct PolledClock {
    now_ns: u64,
    read_at: Option<Instant>,
}

impl PolledClock {
    /// The longest time between two looks that passes whole.
    const LOOK_MAX: Duration = Duration::from_millis(200);

    /// The time, nanoseconds; it is to be read at every look.
    pub fn now_ns(&mut self) -> u64 {
        self.passed(Instant::now())
    }

    fn passed(&mut self, now: Instant) -> u64 {
        let since = self.read_at.replace(now).map_or(Duration::ZERO, |before| now - before);
        self.now_ns += since.min(PolledClock::LOOK_MAX).as_nanos() as u64;
        self.now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_look_does_not_pass() {
        let (mut clock, begun) = (PolledClock::default(), Instant::now());
        assert_eq!(clock.passed(begun), 0);
        assert_eq!(clock.passed(begun + Duration::from_millis(10)), 10_000_000);
        assert_eq!(clock.passed(begun + Duration::from_secs(60)), 210_000_000);
    }
}
