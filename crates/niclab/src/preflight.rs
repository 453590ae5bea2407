//! Measures the noise of this machine before a run: how often and how long its cores are taken
//! away.

use std::time::Duration;

use niclab_device::cores::{Pinned, allowed};
use niclab_load::clock::Clock;
use niclab_load::{StallWatch, Stalls};
use niclab_result::Environment;

use crate::rules::counted;

/// How long each core is watched.
const WATCH: Duration = Duration::from_millis(500);

/// Cores that are watched, at most: a run has begun after two seconds.
const CORES_MAX: usize = 4;

/// Share of the time that a core may be away before a reader must know.
const AWAY_MAX: f64 = 0.002;

/// Watches the first cores of this process and adds what was seen to the environment: a fact a
/// core, and a line where it bears on what is measured.
pub fn watch_cores(environment: &mut Environment) {
    let mut worst = 0.0_f64;
    for core in allowed().into_iter().take(CORES_MAX) {
        let watched = watch(core);
        worst = worst.max(watched.away());
        environment.facts.push((format!("gaps of core {core}"), words(watched)));
    }
    if worst > AWAY_MAX {
        environment.noise.push(format!(
            "cores are away for up to {:.1} % of the time: losses and tails of latency beyond that \
             share may be the machine's",
            worst * 100.0
        ));
    }
}

/// The activity of a core during the observation.
#[derive(Clone, Copy, Debug)]
struct ObservedCore {
    stalls: Stalls,
    /// How long that was: longer than asked for where a stall came at its end.
    passed_ns: u64,
}

impl ObservedCore {
    /// Share of the time in which the core was away.
    fn away(self) -> f64 {
        self.stalls.total_ns as f64 / self.passed_ns.max(1) as f64
    }
}

/// `3 gaps over 10 us in 500 ms, …`.
fn words(watched: ObservedCore) -> String {
    let ObservedCore { stalls, passed_ns } = watched;
    format!(
        "{} over 10 us in {} ms, {:.2} % of the time, the longest {} us",
        counted(stalls.count, "gap", "gaps"),
        passed_ns / 1_000_000,
        watched.away() * 100.0,
        stalls.longest_ns / 1_000
    )
}

/// The stalls of a core that does nothing but read the clock.
fn watch(core: u32) -> ObservedCore {
    let _pinned = Pinned::to(core);
    let clock = Clock::new();
    let mut stalls = StallWatch::new();
    let begin_ns = clock.now_ns();
    stalls.turn(begin_ns, 0);
    loop {
        let now_ns = clock.now_ns();
        stalls.turn(now_ns, 0);
        let passed_ns = now_ns - begin_ns;
        if passed_ns >= WATCH.as_nanos() as u64 {
            return ObservedCore { stalls: stalls.sum(), passed_ns };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_gaps_is_of_the_time_that_has_passed() {
        // Stopped for 2 s after 0.3 s of the half second.
        let stalls = Stalls { count: 1, total_ns: 2_000_000_000, longest_ns: 2_000_000_000 };
        let message = words(ObservedCore { stalls, passed_ns: 2_300_000_000 });
        let right = "1 gap over 10 us in 2300 ms, 86.96 % of the time, the longest 2000000 us";
        assert_eq!(message, right);
    }
}
