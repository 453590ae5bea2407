//! `niclab doctor`: which devices can be opened, and what would disturb a measurement.

use std::io::Write;
use std::time::Duration;

use niclab_device::cores::{Pinned, allowed};
use niclab_load::clock::Clock;
use niclab_load::{StallWatch, Stalls};

use crate::devices;
use crate::environment;
use crate::failure::Failure;
use crate::output::stdout;

/// How long each core is watched.
const WATCH: Duration = Duration::from_millis(500);

/// Prints the machine, the gaps of each core, its noise, and which devices can be opened.
pub fn run() -> Result<(), Failure> {
    let mut out = stdout();
    let environment = environment::read();
    for (name, value) in &environment.facts {
        writeln!(out, "{name}: {value}")?;
    }
    for core in allowed() {
        writeln!(out, "{}", words(core, watch(core)))?;
    }
    for noise in &environment.noise {
        writeln!(out, "noise: {noise}")?;
    }
    if environment.noise.is_empty() {
        writeln!(out, "noise: none was found beside the gaps")?;
    }
    for name in devices::DEFAULT {
        match niclab_device::open(name) {
            Ok(_) => writeln!(out, "device {name}: can be measured")?,
            Err(error) => writeln!(out, "device {name}: not here: {error}")?,
        }
    }
    Ok(())
}

/// Takes away what measurements left that were killed, and says what it was.
///
/// What lives in namespaces of a measurement's own, and probes from Linux 6.6 on, go with the
/// process; of older kernels filters on interfaces stay.
pub fn clean() -> Result<(), Failure> {
    let mut out = stdout();
    let cleaned = niclab_device::linux::clean()?;
    for left in &cleaned {
        writeln!(out, "put in order: {left}")?;
    }
    if cleaned.is_empty() {
        writeln!(out, "nothing was left over")?;
    }
    Ok(())
}

/// What a core did while it was watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    stalls: Stalls,
    /// How long that was: longer than asked for where a stall came at its end.
    passed_ns: u64,
}

fn words(core: u32, Watched { stalls, passed_ns }: Watched) -> String {
    format!(
        "core {core}: {} gaps over 10 us in {} ms, {:.2} % of the time, the longest {} us",
        stalls.count,
        passed_ns / 1_000_000,
        stalls.total_ns as f64 / passed_ns.max(1) as f64 * 100.0,
        stalls.longest_ns / 1_000
    )
}

/// The stalls of a core that does nothing but read the clock.
fn watch(core: u32) -> Watched {
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
            return Watched { stalls: stalls.sum(), passed_ns };
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
        let said = words(3, Watched { stalls, passed_ns: 2_300_000_000 });
        let right = "core 3: 1 gaps over 10 us in 2300 ms, 86.96 % of the time, the longest \
                     2000000 us";
        assert_eq!(said, right);
    }
}
