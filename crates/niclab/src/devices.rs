//! Opening devices by name.

use niclab_device::remote::{self, AgentStart};
use niclab_device::{DeviceError, DeviceInfo, Testbed, model};
use niclab_lab::run::RunDevice;

use crate::failure::Failure;
use crate::files;
use crate::output::{one_line, say};

/// The devices of a run without `--device`: our NIC, and devices of others.
pub const DEFAULT: [&str; 5] =
    ["soft", "linux:veth", "model:connectx-5", "dpdk:--vdev=net_ring0", "swx"];

/// The first of [`DEFAULT`], which a run of the short grids measures.
pub const SHORT_COUNT: usize = 3;

/// The names of devices, each with its tester where that is on another host.
pub fn names(tester: Option<&str>, devices: &[String]) -> Vec<String> {
    match tester {
        None => devices.to_vec(),
        Some(tester) => devices.iter().map(|device| remote::of_halves(tester, device)).collect(),
    }
}

/// Refuses a list that names a device twice: their samples could not be told apart.
pub fn check(names: &[String]) -> Result<(), Failure> {
    let twice = |at: &usize| names[..*at].contains(&names[*at]);
    match (0..names.len()).find(twice) {
        Some(at) => Err(Failure::Twice { name: names[at].clone() }),
        None => Ok(()),
    }
}

/// A testbed, or why it could not be opened.
pub type OpenBed = Result<Box<dyn Testbed>, String>;

/// A device of the run: what is known of it, and its testbed.
pub type Opened = (RunDevice, OpenBed);

/// Opens each device; one that cannot be opened is left out with a word on the screen, as long as
/// another can. A name that is no device's is a slip of the keyboard: nothing is opened then.
///
/// `start` says how devices of other hosts are reached.
pub fn open(names: &[String], start: &AgentStart) -> Result<Vec<Opened>, Failure> {
    let opened = names.iter().map(|name| open_one(name, start));
    let opened: Vec<Opened> = opened.collect::<Result<_, _>>()?;
    if opened.iter().all(|(_, bed)| bed.is_err()) {
        let reasons = opened.into_iter().filter_map(|(_, bed)| bed.err()).collect();
        return Err(Failure::NoDevice { reasons });
    }
    for (device, bed) in &opened {
        if let Err(reason) = bed {
            say(&format!("left out: {}: {reason}", one_line(&device.name)));
        }
    }
    Ok(opened)
}

/// How the agents of other hosts are started: with a copy of this program, where `deploy` is given.
pub fn agents(deploy: bool) -> Result<AgentStart, Failure> {
    Ok(AgentStart { program: std::env::current_exe()?, deploy })
}

fn open_one(name: &str, start: &AgentStart) -> Result<Opened, Failure> {
    let name = name.to_owned();
    let opened = match remote::is_remote(&name) {
        true => remote::open(&name, start),
        false => niclab_device::open(&name),
    };
    match opened {
        Ok(bed) => {
            let about = bed.about().clone();
            Ok((RunDevice { name, variant: None, absent: None, about }, Ok(bed)))
        }
        Err(DeviceError::BadName { text, reason }) => {
            let profile = text.strip_prefix("model:").filter(|profile| !profile.is_empty());
            let absent = profile.and_then(|profile| model::text(profile).err());
            let reason = absent.map_or(reason, |absent| files::reason_of_profile(&absent));
            let text = one_line(&text);
            Err(Failure::UnknownDevice(DeviceError::BadName { text, reason }))
        }
        Err(error) => {
            let about = DeviceInfo { name: name.clone(), ..DeviceInfo::default() };
            let reason = error.to_string();
            let absent = Some(reason.clone());
            Ok((RunDevice { name, variant: None, absent, about }, Err(reason)))
        }
    }
}
