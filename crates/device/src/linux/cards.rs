//! The network cards of this machine: PCI functions of class 2, by sysfs and ethtool.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::ethtool::Card;

/// Class of a network controller, in the highest byte of `class` (PCI Code and ID Assignment).
const CLASS_NETWORK: &str = "0x02";

/// Kernel drivers that hand a card to a program, as DPDK wants it.
const FOR_PROGRAMS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// A network card. What the system does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkCard {
    /// Its PCI address, such as `0000:3b:00.0`.
    pub pci: String,
    /// The interface of its port; none where a program has it, or nobody.
    pub interface: Option<String>,
    /// The driver that has it.
    pub driver: Option<String>,
    /// Version of its firmware.
    pub firmware: Option<String>,
    /// Rate of its link, Mbit/s; none while that is down.
    pub speed_mbps: Option<u32>,
    /// The NUMA node that it is on.
    pub numa_node: Option<u32>,
    /// Receive queues that it has at most.
    pub queues: Option<u32>,
    /// Places for n-tuple rules; none where its driver has no such rules.
    pub ntuple_places: Option<u32>,
}

impl NetworkCard {
    /// The device of a run that measures it; `None` where first a driver is to be bound.
    pub fn device(&self) -> Option<String> {
        match (&self.interface, &self.driver) {
            (Some(interface), _) => Some(format!("linux:TESTER,{interface}")),
            (None, Some(driver)) if FOR_PROGRAMS.contains(&driver.as_str()) => {
                Some(format!("dpdk:-a,{}", self.pci))
            }
            _ => None,
        }
    }
}

/// The facts that ethtool has about an interface.
#[derive(Default)]
struct EthtoolFacts {
    firmware: Option<String>,
    queues: Option<u32>,
    ntuple_places: Option<u32>,
}

/// The cards of this machine, by PCI address.
pub fn cards() -> Vec<NetworkCard> {
    cards_below(Path::new("/sys"), ask)
}

fn ask(interface: &str) -> EthtoolFacts {
    let Ok(mut card) = Card::open(interface) else { return EthtoolFacts::default() };
    let firmware = card.driver().ok().map(|driver| driver.firmware);
    let queues = card.channels().ok().flatten().map(|channels| channels.most.receiving());
    let rules = card.rules().ok().flatten();
    EthtoolFacts {
        firmware: firmware.filter(|text| !text.is_empty() && text != "N/A"),
        queues: queues.filter(|count| *count > 0),
        ntuple_places: rules.map(|table| table.places).filter(|places| *places > 0),
    }
}

fn cards_below(sysfs: &Path, ask: impl Fn(&str) -> EthtoolFacts) -> Vec<NetworkCard> {
    let interfaces = interfaces(sysfs);
    let Ok(entries) = fs::read_dir(sysfs.join("bus/pci/devices")) else { return Vec::new() };
    let is_card = |path: &Path| text(&path.join("class")).starts_with(CLASS_NETWORK);
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| is_card(path));
    let mut cards: Vec<NetworkCard> = paths
        .map(|path| {
            let pci = name(&path);
            let interface = interfaces.iter().find(|(of, _)| *of == pci).map(|(_, name)| name);
            let asked = interface.map(|name| ask(name)).unwrap_or_default();
            let of_interface = |file: &str| {
                text(&sysfs.join("class/net").join(interface?).join(file)).parse().ok()
            };
            NetworkCard {
                driver: fs::read_link(path.join("driver")).ok().map(|driver| name(&driver)),
                firmware: asked.firmware,
                // -1 while the link is down, and on one node.
                speed_mbps: of_interface("speed"),
                numa_node: text(&path.join("numa_node")).parse().ok(),
                queues: asked.queues,
                ntuple_places: asked.ntuple_places,
                interface: interface.cloned(),
                pci,
            }
        })
        .collect();
    cards.sort_by(|a, b| a.pci.cmp(&b.pci));
    cards
}

/// Interfaces, each with the PCI address of its card.
fn interfaces(sysfs: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(sysfs.join("class/net")) else { return Vec::new() };
    let of = |path: &Path| Some((address_of(path)?, name(path)));
    entries.flatten().filter_map(|entry| of(&entry.path())).collect()
}

/// The PCI address of an interface's card: the last one in the path of its device.
fn address_of(interface: &Path) -> Option<String> {
    let device = fs::canonicalize(interface.join("device")).ok()?;
    device.iter().rev().find_map(|part| {
        let part = part.to_str()?;
        is_address(part).then(|| part.to_owned())
    })
}

/// The PCI id of an interface's card, as [`pci_id`] has it; `None` if it has no PCI card.
pub(super) fn pci_id_of_interface(interface: &str) -> Option<String> {
    pci_id(&address_of(&Path::new("/sys/class/net").join(interface))?)
}

/// The PCI id of the card at a PCI address, such as `15b3:1017 (subsystem 15b3:0020)`: vendor and
/// device, and those of the subsystem, in the hexadecimal digits that `lspci -nn` shows. `None` if
/// no card has the address.
pub fn pci_id(address: &str) -> Option<String> {
    pci_id_below(Path::new("/sys"), address)
}

fn pci_id_below(sysfs: &Path, address: &str) -> Option<String> {
    let card = sysfs.join("bus/pci/devices").join(address);
    let number = |file: &str| text(&card.join(file)).strip_prefix("0x").map(str::to_owned);
    let (vendor, device) = (number("vendor")?, number("device")?);
    let subsystem = number("subsystem_vendor").zip(number("subsystem_device"));
    let subsystem = subsystem.map(|(vendor, device)| format!(" (subsystem {vendor}:{device})"));
    Some(format!("{vendor}:{device}{}", subsystem.unwrap_or_default()))
}

/// `0000:3b:00.0`.
fn is_address(text: &str) -> bool {
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = text.split([':', '.']).collect();
    matches!(parts[..], [domain, bus, device, function]
        if is_hex(domain, 4) && is_hex(bus, 2) && is_hex(device, 2) && is_hex(function, 1))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A PCI function below `/sys`, with its driver.
    fn function(sysfs: &Path, pci: &str, class: &str, driver: &str) -> std::path::PathBuf {
        let real = sysfs.join("devices/pci0000:00").join(pci);
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("class"), class).unwrap();
        fs::write(real.join("numa_node"), "1\n").unwrap();
        symlink(Path::new("../../../bus/pci/drivers").join(driver), real.join("driver")).unwrap();
        let listed = sysfs.join("bus/pci/devices");
        fs::create_dir_all(&listed).unwrap();
        symlink(&real, listed.join(pci)).unwrap();
        real
    }

    fn interface(sysfs: &Path, device: &Path, name: &str, speed: &str) {
        let real = device.join("net").join(name);
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("speed"), speed).unwrap();
        symlink(device, real.join("device")).unwrap();
        let listed = sysfs.join("class/net");
        fs::create_dir_all(&listed).unwrap();
        symlink(&real, listed.join(name)).unwrap();
    }

    #[test]
    fn cards_are_listed_with_their_interface_or_the_way_that_a_program_has_them() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = root.path().canonicalize().unwrap();
        let first = function(&sysfs, "0000:3b:00.0", "0x020000\n", "mlx5_core");
        interface(&sysfs, &first, "eth7", "100000\n");
        // The device of a virtio card is below its PCI function.
        let parent = function(&sysfs, "0000:01:00.0", "0x020000\n", "virtio-pci");
        let virtio = parent.join("virtio2");
        fs::create_dir_all(&virtio).unwrap();
        interface(&sysfs, &virtio, "eth0", "-1\n");
        function(&sysfs, "0000:5e:00.1", "0x020000\n", "vfio-pci");
        function(&sysfs, "0000:00:01.0", "0x010802\n", "nvme");
        fs::create_dir_all(sysfs.join("class/net/lo")).unwrap();
        let asked = |name: &str| match name {
            "eth7" => EthtoolFacts {
                firmware: Some("16.35".into()),
                queues: Some(63),
                ntuple_places: Some(1_024),
            },
            _ => EthtoolFacts::default(),
        };
        let cards = cards_below(&sysfs, asked);
        let card = |pci: &str, driver: &str| NetworkCard {
            pci: pci.into(),
            driver: Some(driver.into()),
            numa_node: Some(1),
            ..NetworkCard::default()
        };
        let expected = [
            NetworkCard { interface: Some("eth0".into()), ..card("0000:01:00.0", "virtio-pci") },
            NetworkCard {
                interface: Some("eth7".into()),
                firmware: Some("16.35".into()),
                speed_mbps: Some(100_000),
                queues: Some(63),
                ntuple_places: Some(1_024),
                ..card("0000:3b:00.0", "mlx5_core")
            },
            card("0000:5e:00.1", "vfio-pci"),
        ];
        assert_eq!(cards, expected);
        let devices: Vec<Option<String>> = cards.iter().map(NetworkCard::device).collect();
        let expected = ["linux:TESTER,eth0", "linux:TESTER,eth7", "dpdk:-a,0000:5e:00.1"];
        assert_eq!(devices, expected.map(|name| Some(name.to_owned())));
    }

    #[test]
    fn the_id_of_a_card_has_that_of_its_subsystem() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = root.path().canonicalize().unwrap();
        let card = function(&sysfs, "0000:3b:00.0", "0x020000\n", "mlx5_core");
        assert_eq!(pci_id_below(&sysfs, "0000:3b:00.0"), None, "no file has it");
        for (file, number) in [("vendor", "0x15b3\n"), ("device", "0x1017\n")] {
            fs::write(card.join(file), number).unwrap();
        }
        assert_eq!(pci_id_below(&sysfs, "0000:3b:00.0").unwrap(), "15b3:1017");
        for (file, number) in [("subsystem_vendor", "0x15b3\n"), ("subsystem_device", "0x0020\n")] {
            fs::write(card.join(file), number).unwrap();
        }
        let id = pci_id_below(&sysfs, "0000:3b:00.0").unwrap();
        assert_eq!(id, "15b3:1017 (subsystem 15b3:0020)");
        assert_eq!(pci_id_below(&sysfs, "0000:3b:00.1"), None);
    }

    #[test]
    fn interfaces_of_this_machine_have_the_id_of_their_card() {
        assert_eq!(pci_id_of_interface("lo"), None);
        let cards = cards();
        let mut of_interfaces = cards.iter().filter_map(|card| card.interface.as_ref());
        let Some(interface) = of_interfaces.next() else {
            println!(
                "SKIP interfaces_of_this_machine_have_the_id_of_their_card: no interface of a card"
            );
            return;
        };
        let id = pci_id_of_interface(interface).unwrap();
        assert_eq!(id.find(':'), Some(4), "{interface}: {id}");
    }

    #[test]
    fn a_machine_without_pci_has_none() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(cards_below(root.path(), |_| EthtoolFacts::default()), []);
    }
}
