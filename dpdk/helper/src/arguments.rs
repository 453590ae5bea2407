//! What DPDK is started with: the arguments that were given, and what they leave open.

use std::path::{Path, PathBuf};

use niclab_device::DeviceError;
use niclab_device::dpdk::protocol::{Open, names_memory};
use niclab_device::two_hosts::Role;

/// How the ports stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wiring {
    /// Two ports made of two crossed rings in memory.
    Rings,
    /// One port that makes frames out of nothing.
    Null,
    /// Two cards with a cable between them.
    Cards,
    /// A TAP port, and the kernel's end of it as the tester's.
    Tap,
    /// niclab's own card as a port, and another one at the other end of its memory as the tester's.
    Niclab,
    /// One port; the other end of its cable is at another host.
    Half,
}

/// Arguments for the environment abstraction layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The program's name first.
    pub list: Vec<String>,
    /// What they ask for.
    pub wiring: Wiring,
    /// The interface at the kernel's end of a TAP.
    pub tap: Option<String>,
    /// A driver that is loaded before DPDK starts.
    pub driver: Option<PathBuf>,
    /// Names of the devices whose ports are used, the tester's first; DPDK numbers ports in an
    /// order of its own. Empty where DPDK's order is right: one port, or rings.
    pub devices: Vec<String>,
    /// Names of the virtual devices that send and receive by calls of the kernel.
    by_kernel: Vec<String>,
}

/// Drivers that send and receive by calls of the kernel.
const KERNEL_DRIVERS: &[&str] = &["net_af_packet", "net_af_xdp", "net_pcap", "net_tap"];

/// Memory for the frame pools, MiB, where nobody says how much.
const MEMORY_MIB: &str = "512";

/// Length of the frames net_null makes where nobody says how long, without FCS: 64 bytes with it.
const NULL_SIZE: &str = "60";

/// The port at the other end of [`Wiring::Niclab`].
const TESTER: &str = "net_niclab_tester";

/// The port at the kernel's end of [`Wiring::Tap`].
pub const TAP_TESTER: &str = "net_af_packet0";

/// The driver of niclab's own card.
const DRIVER: &str = "librte_net_niclab.so";

/// Arguments that say where the program runs.
const CORES: &[&str] = &["-l", "-c", "-s", "-S", "--lcores"];

/// Arguments that name cards, for DPDK to use no others.
const CARDS: &[&str] = &["-a", "--allow"];

/// Arguments that leave cards out: DPDK uses all others.
const LEFT_OUT: &[&str] = &["-b", "--block"];

impl Arguments {
    /// Completes those of a device that is opened.
    ///
    /// # Errors
    /// [`DeviceError::BadName`].
    pub fn of(open: &Open) -> Result<Arguments, DeviceError> {
        Arguments::complete(&open.arguments, &open.cores, open.role)
            .map_err(|reason| DeviceError::BadName { text: open.name.clone(), reason })
    }

    /// Completes what was given. No file is shared or stays behind (niclab takes DPDK's run-time
    /// directory away, which is empty then), no huge pages are needed and no cards are touched
    /// beside those that the arguments name.
    ///
    /// # Errors
    /// Arguments that name no device: DPDK would take every card of the machine that it can.
    fn complete(given: &[String], cores: &[u32], role: Role) -> Result<Arguments, String> {
        let given = joined(given);
        let devices = devices(&given)?;
        let vdevs: Vec<&str> = given.iter().filter_map(|a| a.strip_prefix("--vdev=")).collect();
        let wiring = match role {
            Role::Whole => wiring(&vdevs, devices.len())?,
            Role::Tester | Role::Device => half(&vdevs)?,
        };
        let names = |known: &[&str]| given.iter().any(|argument| is_one_of(argument, known));
        let mut list = vec!["niclab-dpdk".to_owned()];
        let mut add = |arguments: &[&str]| list.extend(arguments.iter().map(|&a| a.to_owned()));
        if !names(CORES) {
            let list: Vec<String> = cores.iter().map(u32::to_string).collect();
            add(&["-l", &list.join(",")]);
        }
        if !names_memory(&given) {
            add(&["--no-huge", "--no-shconf"]);
        }
        if !names_memory(&given) && !names(&["-m"]) {
            add(&["-m", MEMORY_MIB]);
        }
        if !names(&["--telemetry", "--no-telemetry"]) {
            add(&["--no-telemetry"]);
        }
        if !devices.iter().any(|device| is_pci_address(device)) && !names(&["--no-pci"]) {
            add(&["--no-pci"]);
        }
        let mut tap = None;
        let is_ours = |vdev: &&str| vdev.starts_with("net_niclab");
        let driver = match vdevs.iter().any(is_ours) && !names(&["-d"]) {
            true => Some(driver()?),
            false => None,
        };
        for argument in &given {
            match argument.strip_prefix("--vdev=") {
                // They would be two loops; the crossed pair is made afterwards.
                Some(vdev) if vdev.starts_with("net_ring") => {}
                Some(vdev) if vdev.starts_with("net_null") && !vdev.contains("size=") => {
                    add(&[&format!("{argument},size={NULL_SIZE}")]);
                }
                Some(vdev) if wiring == Wiring::Tap && vdev.starts_with("net_tap") => {
                    let name = format!("nltap{}", std::process::id());
                    match parameter(vdev, "iface") {
                        Some(_) => add(&[argument]),
                        None => add(&[&format!("{argument},iface={name}")]),
                    }
                    tap = Some(parameter(vdev, "iface").unwrap_or(&name).to_owned());
                }
                Some(_) if wiring == Wiring::Niclab => {
                    // The tester's, at the other end of the same memory.
                    add(&[&format!("--vdev={TESTER}"), argument]);
                }
                _ => add(&[argument]),
            }
        }
        let devices = match wiring {
            Wiring::Rings | Wiring::Null => Vec::new(),
            Wiring::Tap => [TAP_TESTER.to_owned()].into_iter().chain(devices).collect(),
            Wiring::Niclab => [TESTER.to_owned()].into_iter().chain(devices).collect(),
            Wiring::Cards | Wiring::Half => devices,
        };
        let by_kernel = vdevs.iter().filter(|vdev| is_by_kernel(vdev));
        let mut by_kernel: Vec<String> = by_kernel.map(|vdev| device_name(vdev)).collect();
        by_kernel.extend(tap.is_some().then(|| TAP_TESTER.to_owned()));
        Ok(Arguments { list, wiring, tap, driver, devices, by_kernel })
    }

    /// Whether a port sends and receives by calls of the kernel.
    pub fn is_by_kernel(&self, port: &str) -> bool {
        self.by_kernel.iter().any(|name| name == port)
    }
}

/// The path of niclab's driver: beside this program, or where `dpdk/driver/build` puts it.
fn driver() -> Result<PathBuf, String> {
    let program = std::env::current_exe().ok();
    let directory = program.as_deref().and_then(Path::parent);
    let places = directory.into_iter().flat_map(|directory| {
        [directory.join(DRIVER), directory.join("../dpdk-driver").join(DRIVER)]
    });
    let found = places.into_iter().find(|path| path.is_file());
    let found = found.and_then(|path| path.canonicalize().ok());
    found.ok_or_else(|| {
        format!("{DRIVER} is not there: dpdk/driver/build builds it; or name it by -d PATH")
    })
}

/// `--vdev X` as `--vdev=X`.
fn joined(given: &[String]) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for argument in given {
        match joined.last_mut() {
            Some(last) if last == "--vdev" => *last = format!("--vdev={argument}"),
            _ => joined.push(argument.clone()),
        }
    }
    joined
}

/// The names of the devices that joined arguments name, in their order.
fn devices(given: &[String]) -> Result<Vec<String>, String> {
    let example = "such as `--vdev=net_niclab0`, or two cards, `-a 0000:01:00.0 -a 0000:01:00.1`";
    let mut devices = Vec::new();
    let mut arguments = given.iter();
    while let Some(argument) = arguments.next() {
        if let Some(option) = CARDS.iter().find(|&&option| is_one_of(argument, &[option])) {
            let attached = argument[option.len()..].trim_start_matches('=');
            let value = if attached.is_empty() { arguments.next() } else { None };
            let value = value.map_or(attached, String::as_str);
            if value.is_empty() || value.starts_with('-') {
                return Err(format!("{option} names no card; give the address of one, {example}"));
            }
            devices.push(device_name(value));
        } else if argument == "--vdev" {
            return Err(format!("--vdev names no device; give one, {example}"));
        } else if let Some(vdev) = argument.strip_prefix("--vdev=") {
            devices.push(device_name(vdev));
        }
    }
    if !devices.is_empty() {
        return Ok(devices);
    }
    Err(match given.iter().find(|argument| is_one_of(argument, LEFT_OUT)) {
        Some(option) => format!(
            "{option} leaves a card out, so DPDK would take all others of this machine; name the \
             devices instead, {example}"
        ),
        None => format!(
            "`{}` names no device, so DPDK would take all cards of this machine; name the devices, \
             {example}",
            given.join(" ")
        ),
    })
}

/// The name of the device that a value of `-a` or `--vdev` begins with, as DPDK writes it:
/// `0000:01:00.0` of `1:00.0,dv_flow_en=2`.
fn device_name(value: &str) -> String {
    let name = value.split(',').next().unwrap_or_default();
    let address = name.strip_prefix("pci:").unwrap_or(name);
    pci_address(address).unwrap_or_else(|| name.to_owned())
}

/// A PCI address with its domain and all digits; `None` if it is something else.
fn pci_address(text: &str) -> Option<String> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, slot) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
    let (domain, bus, slot) = (number(domain)?, number(bus)?, number(slot)?);
    Some(format!("{domain:04x}:{bus:02x}:{slot:02x}.{:x}", number(function)?))
}

/// Whether a device's name is a PCI address.
pub fn is_pci_address(name: &str) -> bool {
    pci_address(name).is_some()
}

/// The wiring of these virtual devices. `devices` counts all devices, cards included.
fn wiring(vdevs: &[&str], devices: usize) -> Result<Wiring, String> {
    let count = |driver| vdevs.iter().filter(|vdev| vdev.starts_with(driver)).count();
    match (count("net_ring"), count("net_null")) {
        (0, 0) if devices == 1 && count("net_tap") == 1 => Ok(Wiring::Tap),
        (0, 0) if devices == 1 && count("net_niclab") == 1 => Ok(Wiring::Niclab),
        (0, 0) => Ok(Wiring::Cards),
        (1 | 2, 0) => Ok(Wiring::Rings),
        (0, 1) => Ok(Wiring::Null),
        _ => Err("give either net_ring0, or one net_null0, or two cards".into()),
    }
}

/// The wiring of half a testbed with these virtual devices.
fn half(vdevs: &[&str]) -> Result<Wiring, String> {
    let inside = |vdev: &&&str| {
        let is_memory = parameter(vdev, "port").is_none_or(|port| port.starts_with("memory"));
        vdev.starts_with("net_ring")
            || vdev.starts_with("net_null")
            || (vdev.starts_with("net_niclab") && is_memory)
    };
    match vdevs.iter().find(inside) {
        None => Ok(Wiring::Half),
        Some(vdev) => Err(format!(
            "{vdev} has no cable to another host; name a card, or an interface, such as \
             `--vdev=net_af_xdp0,iface=eth0` or `--vdev=net_niclab0,port=xdp:eth0`"
        )),
    }
}

/// Whether a virtual device sends and receives by calls of the kernel.
fn is_by_kernel(vdev: &str) -> bool {
    let is_memory = |port: &str| port.starts_with("memory");
    match vdev.starts_with("net_niclab") {
        true => parameter(vdev, "port").is_some_and(|port| !is_memory(port)),
        false => KERNEL_DRIVERS.iter().any(|driver| vdev.starts_with(driver)),
    }
}

/// A parameter of a virtual device: `iface` of `net_tap0,iface=tap1`.
fn parameter<'a>(vdev: &'a str, name: &str) -> Option<&'a str> {
    let parameters = vdev.split(',').skip(1).filter_map(|parameter| parameter.split_once('='));
    parameters.filter(|(found, _)| *found == name).map(|(_, value)| value).next()
}

/// Whether an argument is one of these options, its value attached or not.
fn is_one_of(argument: &str, known: &[&str]) -> bool {
    known.iter().any(|&option| match argument.strip_prefix(option) {
        None => false,
        Some(rest) if option.starts_with("--") => rest.is_empty() || rest.starts_with('='),
        Some(_) => !argument.starts_with("--"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(given: &str) -> Result<(Wiring, String), String> {
        let given: Vec<String> = given.split_whitespace().map(String::from).collect();
        let arguments = Arguments::complete(&given, &[0, 1], Role::Whole)?;
        Ok((arguments.wiring, arguments.list[1..].join(" ")))
    }

    const DEFAULTS: &str = "-l 0,1 --no-huge --no-shconf -m 512 --no-telemetry";

    #[test]
    fn rings_are_made_afterwards_and_null_frames_are_64_bytes() {
        let rings = (Wiring::Rings, format!("{DEFAULTS} --no-pci"));
        assert_eq!(complete("--vdev=net_ring0").as_ref(), Ok(&rings));
        assert_eq!(complete("--vdev net_ring0").as_ref(), Ok(&rings));
        let null = |vdev| (Wiring::Null, format!("{DEFAULTS} --no-pci --vdev={vdev}"));
        assert_eq!(complete("--vdev=net_null0"), Ok(null("net_null0,size=60")));
        assert_eq!(complete("--vdev=net_null0,size=1514"), Ok(null("net_null0,size=1514")));
    }

    #[test]
    fn what_was_given_is_not_overruled() {
        assert_eq!(
            complete("-l2,3 --socket-mem=1024 --telemetry -a 0000:01:00.0 -a 0000:01:00.1"),
            Ok((
                Wiring::Cards,
                "-l2,3 --socket-mem=1024 --telemetry -a 0000:01:00.0 -a 0000:01:00.1".into()
            ))
        );
        let own_memory = "-l 0,1 --no-huge --no-shconf --no-telemetry --no-pci -m 64".to_owned();
        assert_eq!(complete("-m 64 --vdev=net_ring0"), Ok((Wiring::Rings, own_memory)));
    }

    #[test]
    fn a_tap_comes_with_the_kernels_end_of_it() {
        let tap = |given: &str| {
            let given = [given.to_owned()];
            let arguments = Arguments::complete(&given, &[0, 1], Role::Whole).unwrap();
            assert_eq!(arguments.wiring, Wiring::Tap);
            (arguments.tap.unwrap(), arguments.list.last().unwrap().clone())
        };
        let named = "--vdev=net_tap0,iface=tap7".to_owned();
        assert_eq!(tap(&named), ("tap7".to_owned(), named.clone()));
        let (interface, argument) = tap("--vdev=net_tap0");
        assert_eq!(argument, format!("--vdev=net_tap0,iface={interface}"));
        let two = complete("--vdev=net_tap0 --vdev=net_af_packet0,iface=tap0").unwrap();
        assert_eq!(two.0, Wiring::Cards, "both were given");
    }

    #[test]
    fn arguments_that_name_no_device_are_refused() {
        let refused = |given: &str| complete(given).unwrap_err();
        for given in ["foo", "--no-such-option", "--no-pci", "-l 0,1", "-A 0000:01:00.0"] {
            let names_none = format!("`{given}` names no device, so DPDK would take all cards");
            assert!(refused(given).starts_with(&names_none), "{}", refused(given));
        }
        assert!(refused("-b 0000:01:00.0").starts_with("-b leaves a card out"));
        assert!(refused("--block=01:00.0").contains("name the devices instead, such as"));
        for (given, option) in [("-a", "-a"), ("--allow=", "--allow"), ("-a -l 0", "-a")] {
            assert!(refused(given).starts_with(&format!("{option} names no card")), "{given}");
        }
        assert!(refused("-l 0 --vdev").starts_with("--vdev names no device"));
    }

    #[test]
    fn no_card_is_touched_that_was_not_named() {
        for given in ["--vdev=net_tap0", "-b 0000:01:00.0 --vdev=net_ring0"] {
            assert!(complete(given).unwrap().1.contains("--no-pci"), "{given}");
        }
        let other_bus = complete("-a auxiliary:mlx5_core.sf.4 --vdev=net_tap0").unwrap().1;
        assert!(other_bus.contains("--no-pci"), "each bus has a list of its own: {other_bus}");
        for given in ["-a 0000:01:00.0 --vdev=net_tap0", "--allow=pci:01:00.0,a=1 -a1:00.1"] {
            assert!(!complete(given).unwrap().1.contains("--no-pci"), "{given}");
        }
    }

    #[test]
    fn the_testers_device_is_the_first_that_was_named() {
        let devices = |given: &str| {
            let given: Vec<String> = given.split_whitespace().map(String::from).collect();
            Arguments::complete(&given, &[0, 1], Role::Whole).unwrap().devices.join(" ")
        };
        let cards = "-a 0000:0A:00.1 -a 0000:0a:00.0,dv_flow_en=2";
        assert_eq!(devices(cards), "0000:0a:00.1 0000:0a:00.0");
        assert_eq!(devices("--allow=pci:a:0.1,x=1 -aa:00.0"), "0000:0a:00.1 0000:0a:00.0");
        assert_eq!(devices("--vdev=net_tap0,iface=x -a 1:00.0"), "net_tap0 0000:01:00.0");
        assert_eq!(devices("--vdev=net_tap0"), "net_af_packet0 net_tap0");
        assert_eq!(devices("-d x.so --vdev=net_niclab0"), "net_niclab_tester net_niclab0");
        assert_eq!(devices("--vdev=net_ring0"), "");
    }

    #[test]
    fn ports_of_the_kernel_are_known() {
        let is = |given: &str, port: &str| {
            let given: Vec<String> = given.split_whitespace().map(String::from).collect();
            Arguments::complete(&given, &[0, 1], Role::Whole).unwrap().is_by_kernel(port)
        };
        assert!(is("--vdev=net_tap0", "net_tap0") && is("--vdev=net_tap0", TAP_TESTER));
        let pair = "--vdev=net_af_xdp0,iface=a --vdev=net_niclab0,port=xdp:b -d x";
        assert!(is(pair, "net_af_xdp0") && is(pair, "net_niclab0"));
        assert!(!is("--vdev=net_niclab0 -d x", "net_niclab0"));
        assert!(!is("-a 0000:3b:00.0 --vdev=net_niclab0,port=memory:x -d x", "net_niclab0"));
    }

    #[test]
    fn half_a_testbed_is_one_port_with_a_cable() {
        let half = |given: &str| {
            let given: Vec<String> = given.split_whitespace().map(String::from).collect();
            Arguments::complete(&given, &[0], Role::Device)
        };
        for given in ["-a 0000:3b:00.0", "--vdev=net_tap0", "--vdev=net_niclab0,port=xdp:eth0 -d x"]
        {
            let arguments = half(given).unwrap();
            assert_eq!((arguments.wiring, arguments.devices.len()), (Wiring::Half, 1), "{given}");
        }
        for given in ["--vdev=net_ring0", "--vdev=net_null0", "--vdev=net_niclab0 -d x"] {
            assert!(half(given).unwrap_err().contains("has no cable to another host"), "{given}");
        }
    }

    #[test]
    fn mixed_ports_are_refused() {
        assert!(complete("--vdev=net_ring0 --vdev=net_null0").is_err());
        assert!(complete("--vdev=net_null0 --vdev=net_null1").is_err());
    }
}
