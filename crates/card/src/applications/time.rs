//! The time that a core really had: the system may run something else there.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Time that a core has had of the system, beside time that has passed.
pub(super) struct Clock {
    passed: Instant,
    had_ns: u64,
}

/// A burst that takes longer may have been interrupted; and how old what was read of the clock may
/// be when one begins, for asking the system takes some 200 ns.
const SUSPECT_NS: u64 = 50_000;

impl Clock {
    pub(super) fn now() -> Clock {
        let had = clock_gettime(ClockId::ThreadCPUTime);
        let had_ns = had.tv_sec as u64 * 1_000_000_000 + had.tv_nsec as u64;
        Clock { passed: Instant::now(), had_ns }
    }

    /// Work begins: when that is.
    pub(super) fn begin(&mut self) -> Instant {
        let begun = Instant::now();
        match begun.duration_since(self.passed).as_nanos() as u64 > SUSPECT_NS {
            false => begun,
            true => {
                *self = Clock::now();
                self.passed
            }
        }
    }

    /// What of the time since work began was the core's own. Of the time just before it, what the
    /// system took is forgiven as well: no more than what was read may be old.
    pub(super) fn own(&mut self, begun: Instant) -> u64 {
        let took_ns = begun.elapsed().as_nanos() as u64;
        if took_ns < SUSPECT_NS {
            return took_ns;
        }
        let now = Clock::now();
        let passed_ns = now.passed.duration_since(self.passed).as_nanos() as u64;
        let lost_ns = passed_ns.saturating_sub(now.had_ns - self.had_ns);
        *self = now;
        took_ns.saturating_sub(lost_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stolen_time_is_forgiven_once_and_only_for_the_current_work() {
        // It has the core while this sleeps.
        let pause = Duration::from_millis(20);
        let mut clock = Clock::now();
        std::thread::sleep(pause);
        let (begun, before_ns) = (clock.begin(), Clock::now().had_ns);
        while Clock::now().had_ns - before_ns < 4 * SUSPECT_NS {}
        let own_ns = clock.own(begun);
        assert!(own_ns >= 3 * SUSPECT_NS, "{own_ns} ns of work");
        let begun = clock.begin();
        std::thread::sleep(pause);
        let own_ns = clock.own(begun);
        assert!(own_ns < pause.as_nanos() as u64 / 2, "{own_ns} ns of a pause");
    }
}
