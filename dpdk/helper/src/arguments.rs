//! What DPDK is started with: the arguments that were given, and what they leave open.

use std::path::{Path, PathBuf};

use niclab_device::dpdk::protocol::names_memory;

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
}

/// Memory for the frame pools, MiB, where nobody says how much.
const MEMORY_MIB: &str = "512";

/// Length of the frames net_null makes where nobody says how long, without FCS: 64 bytes with it.
const NULL_SIZE: &str = "60";

/// The port at the other end of [`Wiring::Niclab`].
const TESTER: &str = "net_niclab_tester";

/// The driver of niclab's own card.
const DRIVER: &str = "librte_net_niclab.so";

/// Arguments that say where the program runs.
const CORES: &[&str] = &["-l", "-c", "-s", "-S", "--lcores"];

/// Arguments that name cards.
const CARDS: &[&str] = &["-a", "--allow", "-b", "--block"];

impl Arguments {
    /// Completes what was given. No file is shared or stays behind (niclab takes DPDK's run-time
    /// directory away, which is empty then), no huge pages are needed and no cards are touched
    /// beside virtual ones, unless the arguments say so.
    pub fn complete(given: &[String], cores: &[u32]) -> Result<Arguments, String> {
        let given = joined(given);
        let vdevs: Vec<&str> = given.iter().filter_map(|a| a.strip_prefix("--vdev=")).collect();
        let wiring = wiring(&vdevs)?;
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
        if !vdevs.is_empty() && !names(CARDS) && !names(&["--no-pci"]) {
            add(&["--no-pci"]);
        }
        let mut tap = None;
        let driver = match wiring {
            Wiring::Niclab if !names(&["-d"]) => Some(driver()?),
            _ => None,
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
        Ok(Arguments { list, wiring, tap, driver })
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

/// What the virtual devices ask for.
fn wiring(vdevs: &[&str]) -> Result<Wiring, String> {
    let count = |driver| vdevs.iter().filter(|vdev| vdev.starts_with(driver)).count();
    match (count("net_ring"), count("net_null")) {
        (0, 0) if vdevs.len() == 1 && count("net_tap") == 1 => Ok(Wiring::Tap),
        (0, 0) if vdevs.len() == 1 && count("net_niclab") == 1 => Ok(Wiring::Niclab),
        (0, 0) => Ok(Wiring::Cards),
        (1 | 2, 0) => Ok(Wiring::Rings),
        (0, 1) => Ok(Wiring::Null),
        _ => Err("give either net_ring0, or one net_null0, or two cards".into()),
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
        let arguments = Arguments::complete(&given, &[0, 1])?;
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
            let arguments = Arguments::complete(&given, &[0, 1]).unwrap();
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
    fn mixed_ports_are_refused() {
        assert!(complete("--vdev=net_ring0 --vdev=net_null0").is_err());
        assert!(complete("--vdev=net_null0 --vdev=net_null1").is_err());
    }
}
