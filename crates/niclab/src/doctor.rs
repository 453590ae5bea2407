//! `niclab doctor`: the devices that can be opened, and the noise of the machine.

use std::io::Write;

use niclab_device::linux::cards::{NetworkCard, cards};
use niclab_result::Environment;
use serde::Serialize;

mod testbed;

pub use self::testbed::run as testbeds;
use crate::devices;
use crate::environment;
use crate::failure::Failure;
use crate::output::{json, stdout};
use crate::preflight;
use crate::rules::plural;

/// The facts about a machine.
#[derive(Serialize)]
struct Machine {
    environment: Environment,
    cards: Vec<NetworkCard>,
    devices: Vec<DefaultDevice>,
}

/// A device of the default run; `reason` says why it cannot be measured here.
#[derive(Serialize)]
struct DefaultDevice {
    name: &'static str,
    reason: Option<String>,
}

/// Prints the machine, the gaps of each core, its noise, its network cards, and which devices can
/// be opened; as JSON where that is asked for.
pub fn run(is_json: bool) -> Result<(), Failure> {
    let mut out = stdout();
    let mut environment = environment::read();
    preflight::watch_cores(&mut environment);
    let devices = devices::DEFAULT.into_iter().map(|name| {
        let reason = niclab_device::open(name).err().map(|error| error.to_string());
        DefaultDevice { name, reason }
    });
    let (devices, cards) = (devices.collect(), cards());
    if is_json {
        return json(&Machine { environment, cards, devices });
    }
    for (name, value) in &environment.facts {
        writeln!(out, "{name}: {value}")?;
    }
    for noise in &environment.noise {
        writeln!(out, "noise: {noise}")?;
    }
    if environment.noise.is_empty() {
        writeln!(out, "noise: none was found")?;
    }
    for card in &cards {
        writeln!(out, "{}", words(card))?;
    }
    let devices: Vec<DefaultDevice> = devices;
    for DefaultDevice { name, reason } in devices {
        match reason {
            None => writeln!(out, "device {name}: can be measured")?,
            Some(reason) => writeln!(out, "device {name}: not here: {reason}")?,
        }
    }
    Ok(())
}

/// A card, and how it is measured.
fn words(card: &NetworkCard) -> String {
    let NetworkCard { pci, interface, driver, firmware, .. } = card;
    let facts = [
        interface.clone(),
        driver.as_ref().map(|driver| format!("driver {driver}")),
        firmware.as_ref().map(|firmware| format!("firmware {firmware}")),
        card.speed_mbps.map(|mbps| format!("{} Gbps", f64::from(mbps) / 1e3)),
        card.queues.map(|count| plural(count as usize, "queue", "queues")),
        card.numa_node.map(|node| format!("NUMA node {node}")),
        card.ntuple_places.map(|places| format!("{places} n-tuple rules")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let way = match card.device() {
        Some(device) if interface.is_some() => format!(
            "--device {device}, where TESTER is an interface that a cable joins to it; as root"
        ),
        Some(device) => format!("--device {device}"),
        None => "not without a driver: bind vfio-pci for dpdk:…, or the kernel's own".to_owned(),
    };
    format!("card {pci}: {}; measured by {way}", facts.join(", "))
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
