//! Time that the process took, read from /proc at most ten times a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;

use crate::kvs::codec::context::CpuTime;

/// A reading is kept so long: any client may ask, and a reading opens and parses a file.
const KEPT: Duration = Duration::from_millis(100);

/// The last reading, and when it was made.
#[derive(Debug, Default)]
pub struct CpuClock(Mutex<Option<(Instant, CpuTime)>>);

impl CpuClock {
    /// Time of the process; `now` is the time of the call.
    pub fn time(&self, now: Instant) -> CpuTime {
        self.time_by(now, read)
    }

    fn time_by(&self, now: Instant, read: impl FnOnce() -> CpuTime) -> CpuTime {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, time)) if now.saturating_duration_since(at) < KEPT => time,
            _ => last.insert((now, read())).1,
        }
    }
}

/// Time of the process, as /proc has it.
fn read() -> CpuTime {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may have anything in it; behind it, from the third field on (proc_pid_stat(5)).
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| {
        let field = fields.split_whitespace().nth(at - 3);
        field.and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0)
    };
    let us = |ticks: u64| ticks * 1_000_000 / clock_ticks_per_second().max(1);
    CpuTime { user_us: us(ticks(14)), system_us: us(ticks(15)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_kept_for_a_tenth_of_a_second() {
        let (cpu, start) = (CpuClock::default(), Instant::now());
        let mut readings = 0;
        let mut ask = |ms| {
            let time = cpu.time_by(start + Duration::from_millis(ms), || {
                readings += 1;
                CpuTime { user_us: readings, system_us: 0 }
            });
            time.user_us
        };
        assert_eq!([0, 1, 99, 100, 150, 199, 200].map(&mut ask), [1, 1, 1, 2, 2, 2, 3]);
        // A core whose clock was read before the last reading.
        assert_eq!(ask(150), 3);
    }

    #[test]
    fn the_time_of_a_busy_process_is_not_zero() {
        let start = Instant::now();
        while read() == CpuTime::default() {
            assert!(start.elapsed() < Duration::from_secs(20), "no time was counted");
        }
    }
}
