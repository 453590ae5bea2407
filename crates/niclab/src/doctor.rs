//! `niclab doctor`: which devices can be opened, and what would disturb a measurement.

use std::io::Write;

use crate::devices;
use crate::environment;
use crate::failure::Failure;
use crate::output::stdout;
use crate::preflight;

/// Prints the machine, the gaps of each core, its noise, and which devices can be opened.
pub fn run() -> Result<(), Failure> {
    let mut out = stdout();
    let mut environment = environment::read();
    preflight::watch_cores(&mut environment);
    for (name, value) in &environment.facts {
        writeln!(out, "{name}: {value}")?;
    }
    for noise in &environment.noise {
        writeln!(out, "noise: {noise}")?;
    }
    if environment.noise.is_empty() {
        writeln!(out, "noise: none was found")?;
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
