//! `linux:…`: a network interface of this machine under test, driven through AF_PACKET.
//!
//! The tester has one interface, the function under test another; between them lies a cable, or the
//! veth pair that niclab makes in two network namespaces of its own. Rules and more than one queue
//! need a card's own interface and are "not supported" here. Interfaces given by name keep their
//! settings; they must be up. Their sockets ask for promiscuous reception while they are open, and
//! frames of others on the wire are forwarded, too: they show as an imbalance of the counters.
//!
//! Messages over the stack of the kernel go between two hosts of their own (`hosts`), with probes
//! where a ledger is asked for (`stamped`).

pub(crate) mod applications;
mod coalescing;
pub mod ethtool;
mod features;
mod forward;
pub(crate) mod hosts;
#[cfg(test)]
mod hosts_tests;
pub mod link;
mod name;
pub mod netns;
mod ring;
mod servers;
pub(crate) mod stamped;
pub mod stamped_requests;
mod stamped_sockets;
mod streams;
#[cfg(test)]
mod streams_tests;
pub mod tune;
#[cfg(test)]
mod veth_tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;

use niclab_packet::size::FCS_LEN;
use niclab_probe::{Leftover, ProbeError};

use self::forward::Forward;
pub use self::hosts::{Hosts, Wire};
use self::link::{Link, LinkCounters};
use self::name::Ends;
use self::netns::NetNs;
use self::ring::{RX_SLOTS, RxRing, SINK_SLOTS, TX_SLOTS, TxRing};
use self::servers::Servers;
pub use self::stamped::stamps_at;
use crate::cores::Cores;
use crate::face::{
    About, Application, Applied, DeviceError, Exchange, Exchanged, Fact, Function, Ledgered, Place,
    RuleBlock, Setup, SetupReport, Streamed, Streaming, Testbed,
};
use crate::feature::Feature;
use crate::pair::{Stage, Trial, judge_refused};
use crate::plan::Plan;
use crate::{Load, Observation};

/// Ethernet header and frame check sequence, which the MTU leaves out, bytes.
const HEADER_AND_FCS_LEN: u32 = 18;

/// MTU of the veth pair: frames of 9000 bytes pass.
const VETH_MTU: u32 = 9000;

/// Longest frame before the first setup says otherwise, bytes with FCS.
const FRAME_LEN_DEFAULT: u16 = 1518;

/// The remedy for missing rights.
pub(crate) const RIGHTS: &str = "run it as root (sudo), or give the program the capabilities: \
    setcap cap_net_raw,cap_net_admin,cap_sys_admin+ep";

/// One end of the wire.
struct End {
    netns: NetNs,
    link: Link,
}

/// Two interfaces, a generator and a sink on the one, the function under test on the other.
struct LinuxBed {
    about: About,
    cores: Cores,
    tester: End,
    device: End,
    frame_len_max: u16,
    outlet: TxRing,
    inlet: RxRing,
    function: Forward,
    is_veth: bool,
    /// The hosts of exchanges, made with the first of them that has this in its path.
    hosts: BTreeMap<Feature, Hosts>,
    /// The servers of applications.
    servers: Servers,
    /// Exchanges that there were.
    exchanges: u32,
}

/// Opens the interfaces that a name such as `linux:veth` or `linux:eth0,eth1` stands for.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    let ends = Ends::parse(name)?;
    let cores = Cores::choose(name)?;
    let (tester, device) = match &ends {
        Ends::Veth => make_veth().map_err(|e| refused("making a veth pair", &e))?,
        Ends::Named { tester, device } => (End::named(tester)?, End::named(device)?),
    };
    let rings = Rings::open(&tester, &device, FRAME_LEN_DEFAULT)?;
    let about = about(name, &ends, cores, &tester, &device);
    let Rings { outlet, inlet, function } = rings;
    let frame_len_max = FRAME_LEN_DEFAULT;
    Ok(Box::new(LinuxBed {
        about,
        cores,
        tester,
        device,
        frame_len_max,
        outlet,
        inlet,
        function,
        is_veth: ends == Ends::Veth,
        hosts: BTreeMap::new(),
        servers: Servers::default(),
        exchanges: 0,
    }))
}

/// Makes the pair and switches it on.
fn make_veth() -> io::Result<(End, End)> {
    let (near, far) = ("niclab-a", "niclab-b");
    let (near_ns, far_ns) = (NetNs::anonymous()?, NetNs::anonymous()?);
    let far_fd = far_ns.fd().ok_or(io::ErrorKind::Unsupported)?;
    near_ns.within(|| link::make_pair(near, far, far_fd, VETH_MTU))??;
    far_ns.within(|| link::switch_on(far))??;
    let look = |netns: NetNs, name: &str| -> io::Result<End> {
        let link = netns.within(|| link::look(name))??.ok_or(io::ErrorKind::NotFound)?;
        Ok(End { netns, link })
    };
    Ok((look(near_ns, near)?, look(far_ns, far)?))
}

impl End {
    /// An interface of this process's namespace, as it is.
    fn named(name: &str) -> Result<End, DeviceError> {
        let link = link::look(name).map_err(|e| refused(&format!("looking up {name}"), &e))?;
        let link = link.ok_or_else(|| DeviceError::Absent {
            what: format!("interface {name}"),
            remedy: "`ip link` lists those that are here; `linux:veth` needs none".into(),
        })?;
        if !link.up {
            return Err(DeviceError::Broken {
                device: format!("interface {name}"),
                reason: format!(
                    "it is down or has no carrier; `ip link set {name} up`, check the \
                    cable"
                ),
            });
        }
        Ok(End { netns: NetNs::current(), link })
    }

    /// Carries out `work` in the end's namespace.
    fn within<T: Send>(
        &self,
        what: &str,
        work: impl FnOnce(&Link) -> io::Result<T> + Send,
    ) -> Result<T, DeviceError> {
        let done = self.netns.within(|| work(&self.link)).and_then(|result| result);
        done.map_err(|e| refused(&format!("{what} {}", self.link.name), &e))
    }

    /// The interface's counters now.
    fn counters(&self) -> Result<LinkCounters, DeviceError> {
        let link = self.within("reading the counters of", |link| link::look(&link.name))?;
        let gone = || DeviceError::Broken {
            device: format!("interface {}", self.link.name),
            reason: "it is gone".into(),
        };
        link.map(|link| link.counters).ok_or_else(gone)
    }
}

/// The rings of both ends.
struct Rings {
    outlet: TxRing,
    inlet: RxRing,
    function: Forward,
}

impl Rings {
    fn open(tester: &End, device: &End, frame_len_max: u16) -> Result<Rings, DeviceError> {
        let len = usize::from(frame_len_max.saturating_sub(FCS_LEN));
        let open = |end: &End, slots: usize| {
            end.within("opening AF_PACKET rings on", |link| {
                Ok((RxRing::open(link, len, slots)?, TxRing::open(link, len)?))
            })
        };
        let (inlet, outlet) = open(tester, SINK_SLOTS)?;
        let (rx, tx) = open(device, RX_SLOTS)?;
        Ok(Rings { outlet, inlet, function: Forward { rx, tx } })
    }
}

impl Testbed for LinuxBed {
    fn about(&self) -> &About {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let lacks = |capability: &str| DeviceError::NotSupported { capability: capability.into() };
        let empty = |block: &RuleBlock| matches!(block, RuleBlock::FiveTuples { count: 0, .. });
        if !setup.rules.iter().all(empty) {
            return Err(lacks("rules"));
        }
        if setup.queues > 1 {
            return Err(lacks("queues"));
        }
        let mtu = self.tester.link.mtu.min(self.device.link.mtu);
        if u32::from(setup.frame_len_max) > mtu + HEADER_AND_FCS_LEN {
            let (longest, asked) = (mtu + HEADER_AND_FCS_LEN, setup.frame_len_max);
            return Err(DeviceError::BadLoad {
                reason: format!(
                    "frames of {asked} bytes do not fit the MTU {mtu}; use at most \
                    {longest}, or set a greater MTU on both interfaces"
                ),
            });
        }
        if setup.frame_len_max != self.frame_len_max {
            let rings = Rings::open(&self.tester, &self.device, setup.frame_len_max)?;
            (self.outlet, self.inlet, self.function) = (rings.outlet, rings.inlet, rings.function);
            self.frame_len_max = setup.frame_len_max;
        }
        Ok(SetupReport::default())
    }

    /// Over a pair and in namespaces of its own: a cable between two cards of one host would be
    /// left out, for the kernel takes the short way.
    fn exchange(&mut self, exchange: &Exchange) -> Result<Exchanged, DeviceError> {
        self.exchanges = self.exchanges.wrapping_add(1);
        let run = self.exchanges;
        self.hosts(&exchange.feature)?.exchange(exchange, run)
    }

    fn ledger(&mut self, exchange: &Exchange, pairs: u32) -> Result<Ledgered, DeviceError> {
        let mut run = self.exchanges;
        let ledgered = self.hosts(&exchange.feature)?.ledger(exchange, pairs, &mut run);
        self.exchanges = run;
        ledgered
    }

    fn apply(&mut self, application: &Application) -> Result<Applied, DeviceError> {
        let mut servers = std::mem::take(&mut self.servers);
        let applied =
            self.hosts(&Feature::None).and_then(|hosts| hosts.apply(application, &mut servers));
        self.servers = servers;
        applied
    }

    fn stream(&mut self, streaming: &Streaming) -> Result<Streamed, DeviceError> {
        self.exchanges = self.exchanges.wrapping_add(1);
        let run = self.exchanges;
        self.hosts(&Feature::None)?.stream(streaming, run)
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        plan.rest()?;
        let drained = self.inlet.drain().and_then(|()| self.function.rx.drain());
        drained.map_err(|e| refused("emptying the rings", &e))?;
        let before = self.device.counters()?;
        let lanes = (&mut self.outlet, &mut self.inlet);
        let depth = self.function.rx.slots() as u32;
        let core = Some(self.cores.tester);
        let trial = Trial { device: &self.about.name, load, depth, core };
        let function = Stage::new("function", Some(self.cores.device), &mut self.function);
        let mut observation = trial.run(lanes, vec![function])?;
        let counted = self.device.counters()?.since(&before);
        let sink_missed =
            self.inlet.counters().map_err(|e| refused("reading the sink's counters", &e))?.dropped;
        account(&mut observation, counted, sink_missed);
        Ok(observation)
    }
}

/// Takes away what killed measurements left on the interfaces of this network namespace, and says
/// what: coalescing that is off, filters of probes, and the queueing disciplines that were added
/// for them.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub fn clean() -> Result<Vec<String>, DeviceError> {
    let set_back = tune::clean()?;
    let cleaned = niclab_probe::clean().map_err(|error| match error {
        ProbeError::NotAllowed { what } => {
            DeviceError::Rights { what: what.to_owned(), remedy: RIGHTS.to_owned() }
        }
        error => DeviceError::Broken { device: "linux".into(), reason: error.to_string() },
    })?;
    Ok(set_back.into_iter().chain(cleaned.iter().map(Leftover::to_string)).collect())
}

impl LinuxBed {
    /// The hosts with this in their path.
    fn hosts(&mut self, feature: &Feature) -> Result<&Hosts, DeviceError> {
        if !self.is_veth {
            return Err(DeviceError::NotSupported { capability: "echo".into() });
        }
        match self.hosts.entry(feature.clone()) {
            Entry::Occupied(hosts) => Ok(hosts.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Hosts::with(self.cores, feature)?)),
        }
    }
}

/// Balances the counters, and holds those of the interface against those of the function.
fn account(observation: &mut Observation, interface: LinkCounters, sink_missed: u64) {
    let Some(device) = &mut observation.device else {
        return;
    };
    // Of the whole trial: those of the warm-up are no loss of the measured part.
    let rx_missed = observation.rx_missed + interface.rx_missed;
    observation.rx_missed = rx_missed.min(observation.lost);
    device.rx_missed += interface.rx_missed;
    // The interface also counts what its socket had no room for; what the wire refused it does not.
    let socket_missed = device.rx_missed - interface.rx_missed - observation.generator.rx_missed;
    let (taken, sent) = device.queues.first().map_or((0, 0), |q| (q.rx_frames, q.tx_frames));
    observation.balance(sink_missed);
    judge_refused(observation);
    let pairs = [
        ("received", interface.rx_frames, taken + socket_missed),
        ("sent", interface.tx_frames, sent),
    ];
    for (what, by_interface, by_function) in pairs {
        if by_interface != by_function {
            observation.honesty.balanced = false;
            observation.honesty.reasons.push(format!(
                "the interface {what} {by_interface} frames, its socket {by_function}"
            ));
        }
    }
    if socket_missed > 0 {
        let reason = format!(
            "{socket_missed} frames were lost at the socket of the device's \
            interface, {} in the interface",
            interface.rx_missed
        );
        observation.honesty.reasons.push(reason);
    }
}

/// What can be told of the two interfaces.
fn about(name: &str, ends: &Ends, cores: Cores, tester: &End, device: &End) -> About {
    let fact = |name: &str, value: String| Fact { name: name.into(), value };
    let place =
        |role: &str, label: &str, core| Place { role: role.into(), label: label.into(), core };
    let wire = match ends {
        Ends::Veth => "veth pair",
        Ends::Named { .. } => "cable",
    };
    let (near, far) = (&tester.link, &device.link);
    let coalescing = match ends {
        Ends::Veth => vec![fact("coalescing", "none: a veth pair has no interrupts".into())],
        Ends::Named { .. } => {
            [far, near].into_iter().filter_map(|of| tune::fact(&of.name)).collect()
        }
    };
    About {
        name: name.into(),
        facts: vec![
            fact("interface under test", far.name.clone()),
            fact("driver", driver(far)),
            fact("interface of the tester", near.name.clone()),
            fact("driver of the tester", driver(near)),
            fact("MTU", far.mtu.min(near.mtu).to_string()),
            fact(
                "kernel",
                fs::read_to_string("/proc/sys/kernel/osrelease")
                    .map_or_else(|_| "unknown".into(), |release| release.trim().into()),
            ),
            fact(
                "packet path",
                "AF_PACKET, TPACKET_V2 rings, queueing disciplines bypassed".into(),
            ),
            fact("receive ring", format!("{RX_SLOTS} frames, fewer of long ones")),
            fact("transmit ring", format!("{TX_SLOTS} frames")),
            fact("queues", "1".into()),
        ]
        .into_iter()
        .chain(coalescing)
        .collect(),
        places: vec![
            place("generator", &near.name, Some(cores.tester)),
            place("wire", wire, None),
            place("device", &far.name, None),
            place("function", Function::Forward.label(), Some(cores.device)),
            place("sink", &near.name, Some(cores.tester)),
        ],
        hosts: match ends {
            Ends::Veth => vec![
                place("client", "program, kernel", Some(cores.tester)),
                place("wire", "veth pair", None),
                place("server", "kernel, program", Some(cores.device)),
            ],
            Ends::Named { .. } => Vec::new(),
        },
        not_supported: vec!["rules".into(), "queues".into()],
        in_virtual_time: false,
    }
}

/// The driver of an interface: the kind of a virtual one, else what the device tree says.
fn driver(link: &Link) -> String {
    let path = format!("/sys/class/net/{}/device/driver", link.name);
    let of_device = || fs::read_link(path).ok()?.file_name()?.to_str().map(String::from);
    link.kind.clone().or_else(of_device).unwrap_or_else(|| "unknown".into())
}

/// What an error of the kernel means to the user: [`DeviceError::Rights`] or
/// [`DeviceError::Broken`].
pub fn refused(what: &str, error: &io::Error) -> DeviceError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            DeviceError::Rights { what: what.into(), remedy: RIGHTS.into() }
        }
        _ => DeviceError::Broken { device: "linux".into(), reason: format!("{what}: {error}") },
    }
}
