//! Opening devices by name.

use niclab_device::{About, Testbed};
use niclab_lab::run::RunDevice;

use crate::failure::Failure;

/// What a run without `--device` measures: our NIC and two devices that are not ours.
pub const DEFAULT: [&str; 3] = ["soft", "linux:veth", "dpdk:--vdev=net_ring0"];

/// A device of the run: what is known of it, and its testbed where it could be opened.
pub type Opened = (RunDevice, Option<Box<dyn Testbed>>);

/// Opens each device; one that cannot be opened is left out with a word on the screen, as long as
/// another can.
pub fn open(names: &[String]) -> Result<Vec<Opened>, Failure> {
    let opened: Vec<Opened> = names.iter().map(|name| open_one(name)).collect();
    if opened.iter().all(|(_, bed)| bed.is_none()) {
        let reasons = opened.into_iter().filter_map(|(device, _)| device.absent).collect();
        return Err(Failure::NoDevice { reasons });
    }
    for (device, _) in &opened {
        if let Some(reason) = &device.absent {
            eprintln!("left out: {}: {reason}", device.name);
        }
    }
    Ok(opened)
}

fn open_one(name: &str) -> Opened {
    let name = name.to_owned();
    match niclab_device::open(&name) {
        Ok(bed) => {
            let about = bed.about().clone();
            (RunDevice { name, absent: None, about }, Some(bed))
        }
        Err(error) => {
            let about = About { name: name.clone(), ..About::default() };
            (RunDevice { name, absent: Some(error.to_string()), about }, None)
        }
    }
}
