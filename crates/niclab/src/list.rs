//! `niclab list`: what can be measured, on what.

use std::io::{Write, stdout};

use niclab_lab::experiment;

use crate::devices;
use crate::failure::Failure;

/// Prints experiments with their axes, and the devices.
pub fn run() -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "Experiments (niclab run NAME):")?;
    for listing in experiment::list()? {
        let default = experiment::DEFAULT.contains(&listing.name.as_str());
        let default = if default { " (default)" } else { "" };
        writeln!(out, "  {}{default}: {}", listing.name, listing.question)?;
        for (axis, meaning) in &listing.axes {
            writeln!(out, "    --set {axis}=...  {meaning}")?;
        }
    }
    writeln!(out, "\nDevices (--device NAME); without the option: {}", devices::DEFAULT.join(", "))?;
    for (name, meaning) in DEVICES {
        writeln!(out, "  {name}  {meaning}")?;
    }
    Ok(())
}

/// The kinds of devices.
const DEVICES: [(&str, &str); 4] = [
    ("soft               ", "our software NIC, under a memory wire"),
    ("linux:veth         ", "a veth pair between namespaces that niclab makes (needs root)"),
    ("linux:IFACE,IFACE  ", "two interfaces: the tester's and the one under test (needs root)"),
    ("dpdk:EAL-ARGUMENTS ", "a DPDK port, such as dpdk:--vdev=net_ring0 (needs libdpdk)"),
];
