//! `niclab list`: experiments and devices.

use std::io::Write;

use niclab_lab::experiments::{self, Listing};
use niclab_lab::spec::SpecError;
use serde::Serialize;

use crate::devices;
use crate::failure::Failure;
use crate::output::{json, stdout};

/// Everything, as JSON has it.
#[derive(Serialize)]
struct Lists {
    experiments: Vec<Listing>,
    /// Name and meaning.
    devices: Vec<(&'static str, &'static str)>,
}

/// Prints experiments with their axes, and the devices; as JSON where that is asked for.
pub fn run(is_json: bool) -> Result<(), Failure> {
    if is_json {
        let devices = DEVICES.map(|(name, meaning)| (name.trim_end(), meaning)).to_vec();
        return json(&Lists { experiments: experiments::list()?, devices });
    }
    let mut out = stdout();
    writeln!(out, "Experiments (niclab run NAME); without a name, those with a star:")?;
    for listing in experiments::list()? {
        let star = if listing.is_short { "*" } else { " " };
        writeln!(out, "{star} {}: {}", listing.name, listing.question)?;
        writeln!(out, "    on {}", listing.devices.join(", "))?;
        for (axis, meaning) in &listing.axes {
            writeln!(out, "    --set {:<18}{meaning}", format!("{axis}=..."))?;
        }
    }
    writeln!(
        out,
        "\nDevices (--device NAME); without the option: {}",
        devices::DEFAULT.join(", ")
    )?;
    for (name, meaning) in DEVICES {
        writeln!(out, "  {name}  {meaning}")?;
    }
    writeln!(out, "\nniclab doctor says which of the default devices can be opened here;")?;
    writeln!(out, "niclab list NAME prints an experiment's TOML, to copy, change and run.")?;
    Ok(())
}

/// Prints the TOML of a built-in experiment.
pub fn toml(name: &str) -> Result<(), Failure> {
    let Some(text) = experiments::text(name) else {
        let known = experiments::names().collect::<Vec<_>>().join(", ");
        let name = name.to_owned();
        return Err(Failure::Spec(SpecError::Unknown { name, known }));
    };
    stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The kinds of devices.
const DEVICES: [(&str, &str); 11] = [
    ("soft               ", "our software NIC, under a clocked wire"),
    (
        "model:PROFILE      ",
        "a card computed from a profile: connectx-5, …, or a file (niclab profile)",
    ),
    ("linux:veth         ", "a veth pair between namespaces that niclab makes (needs root)"),
    ("linux:IFACE,IFACE  ", "two interfaces: the tester's and the one under test (needs root)"),
    ("linux-xdp:…        ", "the same, by AF_XDP: linux-xdp:veth, linux-xdp:IFACE,IFACE"),
    ("linux-tc:…         ", "the same, behind tc's filters in the kernel: linux-tc:veth, …"),
    ("dpdk:EAL-ARGUMENTS ", "a DPDK port, such as dpdk:--vdev=net_ring0 (needs libdpdk)"),
    ("peer:ADDRESS       ", "another host, where `niclab serve echo` or a server of requests runs"),
    ("swx                ", "DPDK's SWX pipeline, for programs alone (benches/peers/build)"),
    (
        "ssh://HOST=DEVICE  ",
        "a device of another host, where niclab is installed or --deploy puts it",
    ),
    ("exec:COMMAND=DEVICE", "the same by another way than ssh: exec:ip netns exec b=linux:a,b"),
];
