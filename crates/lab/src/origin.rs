//! Where the results of each device of a run come from: host, driver, firmware and PCI id.

use std::collections::BTreeMap;

use niclab_device::Fact;
use niclab_result::Environment;
use niclab_result::rows::DeviceOrigin;

use crate::reference::REFERENCE;
use crate::run::{Run, RunDevice};

/// The fact that names a machine.
pub const HOST: &str = "host";

/// The origin of each device of a run, by the device's name in samples.
///
/// The host of a device is the one that its agent runs on, or else the machine of the run. Driver,
/// firmware and PCI id are those of the interface under test, as far as the device reported them.
/// Reference trials are made by the machine of the run.
pub fn origins(run: &Run, environment: Option<&Environment>) -> BTreeMap<String, DeviceOrigin> {
    let of_run = environment.and_then(|machine| {
        let fact = machine.facts.iter().find(|(name, _)| name == HOST);
        fact.map(|(_, value)| value.clone())
    });
    let of_run = of_run.unwrap_or_default();
    let of_device = |device: &RunDevice| (device.name.clone(), origin(device, &of_run));
    let mut origins: BTreeMap<_, _> = run.devices.iter().map(of_device).collect();
    let reference = DeviceOrigin { host: of_run.clone(), ..DeviceOrigin::default() };
    origins.insert(REFERENCE.to_owned(), reference);
    origins
}

fn origin(device: &RunDevice, of_run: &str) -> DeviceOrigin {
    let fact = |facts: &[Fact], name: &str| {
        facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.clone())
    };
    let about = &device.about;
    // That of a tester is there, too.
    let place = fact(&about.facts, HOST);
    let others = &about.environments;
    let host = match others.iter().find(|other| place.as_ref() == Some(&other.place)) {
        Some(other) => fact(&other.facts, HOST).unwrap_or_else(|| other.place.clone()),
        None => of_run.to_owned(),
    };
    DeviceOrigin {
        host,
        firmware: fact(&about.facts, "firmware").unwrap_or_default(),
        driver: fact(&about.facts, "driver").unwrap_or_default(),
        pci_id: fact(&about.facts, "PCI id").unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use niclab_device::{DeviceInfo, HostEnvironment};

    use super::*;

    fn device(facts: &[(&str, &str)], hosts: Vec<HostEnvironment>) -> RunDevice {
        let fact =
            |(name, value): &(&str, &str)| Fact { name: (*name).into(), value: (*value).into() };
        let about = DeviceInfo {
            facts: facts.iter().map(fact).collect(),
            environments: hosts,
            ..DeviceInfo::default()
        };
        RunDevice { name: "linux:eth0,eth1".into(), variant: None, absent: None, about }
    }

    #[test]
    fn the_host_is_that_of_the_agent_or_of_the_run() {
        let facts = [
            ("driver", "mlx5_core"),
            ("PCI id", "15b3:1017"),
            ("firmware", "16.35"),
            ("firmware of the tester", "1"),
            ("PCI id of the tester", "8086:1592"),
        ];
        let local = origin(&device(&facts, Vec::new()), "here");
        let expected = DeviceOrigin {
            host: "here".into(),
            firmware: "16.35".into(),
            driver: "mlx5_core".into(),
            pci_id: "15b3:1017".into(),
        };
        assert_eq!(local, expected);
        let fact = Fact { name: HOST.into(), value: "dut-7".into() };
        let there = HostEnvironment {
            place: "ssh://dut".into(),
            facts: vec![fact],
            ..HostEnvironment::default()
        };
        let tester = HostEnvironment { place: "ssh://tester".into(), ..HostEnvironment::default() };
        let both = vec![tester, there.clone()];
        let of = |place, hosts| origin(&device(&[(HOST, place)], hosts), "here").host;
        assert_eq!(of("ssh://dut", both.clone()), "dut-7");
        assert_eq!(of("local", both), "here", "the device is on this host, the tester is not");
        let silent = HostEnvironment { facts: vec![], ..there };
        assert_eq!(of("ssh://dut", vec![silent]), "ssh://dut");
    }
}
