//! Opening devices by name.

use std::env;

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

/// The device that variables of the environment describe: those of the kernel's driver tests
/// (tools/testing/selftests/drivers/net/README.rst).
const SELFTESTS: &str = "selftests";

/// The names of devices, each with its tester where that is on another host.
pub fn names(tester: Option<&str>, devices: &[String]) -> Result<Vec<String>, Failure> {
    let name = |device: &String| match tester {
        Some(tester) => Ok(remote::of_halves(tester, device)),
        None if device == SELFTESTS => of_selftests(|name| env::var(name).ok()).map_err(|reason| {
            let text = device.clone();
            Failure::UnknownDevice(DeviceError::BadName { text, reason })
        }),
        None => Ok(device.clone()),
    };
    devices.iter().map(name).collect()
}

/// The testbed of two hosts that the kernel's variables describe: `NETIF`, or the interface with
/// the address `LOCAL_V4`, is the device, and the other host's interface with `REMOTE_V4` the
/// tester.
fn of_selftests(variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let needed = |name: &str, what: &str| set(name).ok_or_else(|| format!("set {name} to {what}"));
    let remote = needed("REMOTE_V4", "the IPv4 address of the other host's interface")?;
    let to = needed("REMOTE_ARGS", "the other host, as ssh or `ip netns` names it")?;
    let place = match needed("REMOTE_TYPE", "ssh or netns")?.as_str() {
        "ssh" => format!("ssh://{to}"),
        "netns" => format!("exec:ip netns exec {to}"),
        other => return Err(format!("REMOTE_TYPE is `{other}`: niclab knows ssh and netns")),
    };
    let local = set("NETIF").or_else(|| set("LOCAL_V4"));
    let local = local.ok_or("set NETIF to the interface under test, or LOCAL_V4 to its address")?;
    Ok(remote::of_halves(&format!("{place}=linux:{remote}"), &format!("local=linux:{local}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_kernels_driver_tests_are_a_testbed_of_two_hosts() {
        let of = |set: &[(&str, &str)]| {
            of_selftests(|name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let ssh = [
            ("NETIF", "eth1"),
            ("LOCAL_V4", "192.0.2.1"),
            ("REMOTE_V4", "192.0.2.2"),
            ("REMOTE_TYPE", "ssh"),
            ("REMOTE_ARGS", "root@peer"),
        ];
        assert_eq!(of(&ssh).unwrap(), "ssh://root@peer=linux:192.0.2.2 -> local=linux:eth1");
        let netns = [ssh[1], ssh[2], ("REMOTE_TYPE", "netns"), ("REMOTE_ARGS", "red")];
        let name = "exec:ip netns exec red=linux:192.0.2.2 -> local=linux:192.0.2.1";
        assert_eq!(of(&netns).unwrap(), name);
        assert_eq!(
            of(&ssh[2..]).unwrap_err(),
            "set NETIF to the interface under test, or \
            LOCAL_V4 to its address"
        );
        let other = [ssh[2], ("REMOTE_TYPE", "bmc"), ssh[4]];
        assert_eq!(of(&other).unwrap_err(), "REMOTE_TYPE is `bmc`: niclab knows ssh and netns");
        for missing in 2..5 {
            let set: Vec<_> = (0..5).filter(|at| *at != missing).map(|at| ssh[at]).collect();
            assert!(of(&set).unwrap_err().starts_with(&format!("set {} to", ssh[missing].0)));
        }
    }
}
