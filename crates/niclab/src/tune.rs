//! `--tune`: interrupt coalescing off while something is measured, and as it was behind it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use niclab_device::DeviceError;
use niclab_device::linux::tune::{self, Tuned};
use niclab_lab::run::RunDevice;

use crate::failure::Failure;
use crate::progress::say;

/// Turns it off at each interface that packets of these devices pass, and says so; dropped, it is
/// as it was. An interface that is not there is left to the opening of its device to tell.
pub fn devices(names: &[String]) -> Result<Vec<Tuned>, Failure> {
    let of_all = names.iter().flat_map(|name| tune::interfaces(name).unwrap_or_default());
    let interfaces: BTreeSet<String> = of_all.collect();
    if interfaces.is_empty() {
        say("--tune: no interface of this host is measured, there is nothing to turn off");
    }
    let mut tuned = Vec::new();
    for interface in interfaces {
        match one(&interface) {
            Err(Failure::Device(DeviceError::Absent { .. })) => {}
            done => tuned.extend(done?),
        }
    }
    Ok(tuned)
}

/// Turns it off at the interface that has an address.
pub fn address(address: SocketAddr) -> Result<Option<Tuned>, Failure> {
    let interface = tune::interface_of(address)?.ok_or_else(|| {
        let reason = format!(
            "no single interface has {}, and --tune must know one; give the address that messages \
             come to",
            address.ip()
        );
        Failure::Address { reason }
    })?;
    one(&interface)
}

fn one(interface: &str) -> Result<Option<Tuned>, Failure> {
    let tuned = tune::tune(interface)?;
    match &tuned {
        None => say(&format!("{interface} has no coalescing that could be turned off")),
        Some(tuned) => {
            let before = tuned.fact().value;
            say(&format!("interrupt coalescing of {interface} is off; it was: {before}"));
        }
    }
    Ok(tuned)
}

/// Notes with each device what its interfaces did before.
pub fn note(tuned: &[Tuned], devices: &mut [RunDevice]) {
    for device in devices {
        let interfaces = tune::interfaces(&device.name).unwrap_or_default();
        let of_it = tuned.iter().filter(|tuned| interfaces.iter().any(|i| i == tuned.interface()));
        device.about.facts.extend(of_it.map(Tuned::fact));
    }
}

/// Sets all back, and says where that failed.
pub fn end(tuned: impl IntoIterator<Item = Tuned>) {
    for tuned in tuned {
        if let Err(error) = tuned.end() {
            say(&format!("{error}; `niclab doctor --clean` tries again"));
        }
    }
}
