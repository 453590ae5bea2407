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
        let stalls = watch(core);
        let share = stalls.total_ns as f64 / WATCH.as_nanos() as f64 * 100.0;
        let longest_us = stalls.longest_ns / 1_000;
        writeln!(
            out,
            "core {core}: {} gaps over 10 us in {} ms, {share:.2} % of the time, the longest \
             {longest_us} us",
            stalls.count,
            WATCH.as_millis()
        )?;
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

/// The stalls of a core that does nothing but read the clock.
fn watch(core: u32) -> Stalls {
    let _pinned = Pinned::to(core);
    let clock = Clock::new();
    let mut stalls = StallWatch::new();
    let end_ns = clock.now_ns() + WATCH.as_nanos() as u64;
    loop {
        let now_ns = clock.now_ns();
        stalls.turn(now_ns, 0);
        if now_ns >= end_ns {
            return stalls.sum();
        }
    }
}
