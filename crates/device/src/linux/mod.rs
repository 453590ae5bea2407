//! `linux:…`, `linux-xdp:…`, `linux-tc:…`: a network interface of this machine under test.
//!
//! The tester has one interface, the function under test another; between them lies a cable, or the
//! veth pair that niclab makes in two network namespaces of its own. The function gets its frames
//! by AF_PACKET, or by AF_XDP, from one queue or several. Interfaces given by name keep their
//! settings, or get them back when the device is closed (`settings`); they must be up. AF_PACKET
//! sockets ask for promiscuous reception while they are open, and frames of others on the wire are
//! forwarded, too: they show as an imbalance of the counters.
//!
//! Rules are those of the card (`ntuple`). Messages over the stack of the kernel go between two
//! hosts of their own (`hosts`), with probes where a breakdown is asked for (`stamped`).

pub(crate) mod applications;
#[cfg(test)]
mod card_stamps_tests;
pub mod cards;
mod coalescing;
pub mod ethtool;
mod facts;
mod features;
pub mod flower;
mod forward;
mod forward_xdp;
#[cfg(test)]
mod guest_tests;
pub(crate) mod hosts;
#[cfg(test)]
mod hosts_tests;
pub mod link;
mod name;
pub mod netns;
mod note;
mod ntuple;
mod port_stamps;
mod proving;
mod ring;
mod rings;
mod rules;
mod servers;
pub mod settings;
mod stamp_setting;
pub(crate) mod stamped;
pub mod stamped_requests;
mod stamped_sockets;
mod streams;
#[cfg(test)]
mod streams_tests;
#[cfg(test)]
mod tc_tests;
mod tester;
mod tester_xdp;
mod trial;
pub mod tune;
#[cfg(test)]
mod veth_tests;
mod wire_counters;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use niclab_nic::rule::Action;
use niclab_probe::{Leftover, ProbeError};

use self::ethtool::Card;
use self::flower::{FilterPlace, Filters};
pub use self::hosts::{Hosts, Wire};
use self::link::{Link, LinkCounters};
use self::name::{Ends, Name, Path};
use self::netns::NetNs;
use self::proving::{Proofs, TablePort};
use self::rings::{RingShape, Rings};
use self::rules::RuleTable;
use self::servers::Servers;
use self::settings::HeldCard;
use self::stamp_setting::Stamping;
pub use self::stamped::stamps_at;
use self::tester::LinuxTester;
use self::trial::TrialWire;
use niclab_load::clock::Clock;

use crate::capability;
use crate::control::InstalledBlock;
use crate::cores::{Cores, Pinned};
use crate::face::{
    DeviceError, DeviceInfo, Function, Observation, PathNode, RuleBlock, RuleProof, Setup,
    SetupReport, Task, Testbed,
};
use crate::feature::Feature;
use crate::pair::TrialPlan;
use crate::plan::{Plan, RuleChangeKind, RuleWork, RulesPlan, no_rss_changes};
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::rule_port::carry_out;
use crate::two_hosts::{DeviceObservation, FarLink, HalfObservation, HalfTask, Role};
use crate::{Control, Load, LoadObservation};

/// Ethernet header and frame check sequence, which the MTU leaves out, bytes.
const HEADER_AND_FCS_LEN: u32 = 18;

/// MTU of the veth pair: frames of 9000 bytes pass, but for AF_XDP, which has a page for each.
const VETH_MTU: u32 = 9000;
const VETH_XDP_MTU: u32 = 1500;

/// Queues that the veth pair can be given, each way.
const VETH_QUEUES_MAX: u32 = 16;

/// Longest frame before the first setup says otherwise, bytes with FCS.
const FRAME_LEN_DEFAULT: u16 = 1518;

/// How long a carrier may take to come: the port at the other end may be a card of DPDK, which has
/// its link when DPDK has started it.
const CARRIER_MAX: Duration = Duration::from_secs(20);

/// How often the carrier is looked for.
const CARRIER_PAUSE: Duration = Duration::from_millis(10);

/// The remedy for missing rights.
pub(crate) const RIGHTS: &str = "run it as root (sudo); or let one group alone run the program \
    (chgrp GROUP niclab; chmod 750 niclab), because whoever may run it has its rights, and give it \
    the capabilities: setcap cap_net_raw,cap_net_admin,cap_sys_admin+ep niclab";

/// One end of the wire.
struct End {
    netns: NetNs,
    link: Link,
}

/// Two interfaces, a generator and a sink on the one, the function under test on the other.
struct LinuxBed {
    about: DeviceInfo,
    cores: Cores,
    /// Dropped before what the interfaces had is set back.
    rings: Option<Rings>,
    /// Time stamps at the tester's interface.
    stamping: Stamping,
    shape: RingShape,
    /// Settings of the interface under test, and of the tester's where that is niclab's own.
    held: Vec<HeldCard>,
    /// Rules of a card that has no n-tuple rules, or of the kernel.
    filters: Option<Filters>,
    /// The rules of the set-up.
    blocks: Vec<InstalledBlock<u32>>,
    /// The last.
    setup: Option<Setup>,
    proofs: Proofs,
    /// `None`: it is on another host.
    tester: Option<End>,
    device: End,
    ends: Ends,
    /// The host with the tester, where that is another one.
    far: Option<FarLink>,
    /// The hosts of round trips, made with the first task that has this in its path.
    hosts: BTreeMap<Feature, Hosts>,
    /// The servers of applications.
    servers: Servers,
    /// Tasks of round trips so far.
    runs: u32,
}

/// Opens the interfaces that a name such as `linux:veth` or `linux-xdp:eth0,eth1` stands for.
pub fn open(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    Ok(Box::new(LinuxBed::open(name, None)?))
}

/// Opens the interface that is the device's half of a testbed.
pub(crate) fn open_device(name: &str, far: FarLink) -> Result<Box<dyn Testbed>, DeviceError> {
    Ok(Box::new(LinuxBed::open(name, Some(far))?))
}

/// Opens the interface that is the tester's half of a testbed.
pub(crate) fn open_tester(name: &str) -> Result<Box<dyn Testbed>, DeviceError> {
    Ok(Box::new(LinuxTester::open(name)?))
}

impl LinuxBed {
    fn open(name: &str, far: Option<FarLink>) -> Result<LinuxBed, DeviceError> {
        let role = if far.is_some() { Role::Device } else { Role::Whole };
        let Name { path, ends, stamps } = Name::parse(name, role)?;
        let cores = match role {
            Role::Whole => Cores::choose(name)?,
            Role::Tester | Role::Device => Cores::alone(name)?,
        };
        let (tester, device) = match &ends {
            Ends::Veth => {
                let made = make_veth(path).map_err(|e| refused("making a veth pair", &e))?;
                (Some(made.0), made.1)
            }
            Ends::Named { tester, device } => {
                let (tester, device) = two_named(tester, device)?;
                (Some(tester), device)
            }
            Ends::Alone(device) => (None, End::named(device)?),
        };
        let stamping = match &tester {
            Some(tester) => Stamping::take(tester, stamps)?,
            None => Stamping::default(),
        };
        let mut bed = LinuxBed {
            about: about(name, (path, &ends), cores, (tester.as_ref(), &stamping, &device)),
            cores,
            rings: None,
            stamping,
            shape: RingShape { path, queues: 1, frame_len_max: FRAME_LEN_DEFAULT },
            held: Vec::new(),
            filters: None,
            blocks: Vec::new(),
            setup: None,
            proofs: Proofs::default(),
            tester,
            device,
            ends,
            far,
            hosts: BTreeMap::new(),
            servers: Servers::default(),
            runs: 0,
        };
        bed.arrange(bed.shape)?;
        Ok(bed)
    }
}

/// The interfaces at both ends of a cable.
///
/// # Errors
/// As [`End::named`]; of both, where both have one.
fn two_named(tester: &str, device: &str) -> Result<(End, End), DeviceError> {
    let ends = both([tester, device].map(End::found))?;
    let begun = Instant::now();
    let left = || CARRIER_MAX.saturating_sub(begun.elapsed());
    let [tester, device] = both(ends.map(|end| end.with_carrier(left())))?;
    Ok((tester, device))
}

/// Both results, or the errors of both in one.
fn both<T>(results: [Result<T, DeviceError>; 2]) -> Result<[T; 2], DeviceError> {
    match results {
        [Ok(first), Ok(second)] => Ok([first, second]),
        [Err(first), Err(second)] => Err(first.with(second)),
        [Err(error), Ok(_)] | [Ok(_), Err(error)] => Err(error),
    }
}

/// Makes the pair and switches it on.
fn make_veth(path: Path) -> io::Result<(End, End)> {
    let (near, far) = ("niclab-a", "niclab-b");
    let (near_ns, far_ns) = (NetNs::anonymous()?, NetNs::anonymous()?);
    let far_fd = far_ns.fd().ok_or(io::ErrorKind::Unsupported)?;
    let mtu = if path == Path::Xdp { VETH_XDP_MTU } else { VETH_MTU };
    near_ns.within(|| link::make_pair(near, far, far_fd, (mtu, VETH_QUEUES_MAX)))??;
    far_ns.within(|| link::switch_on(far))??;
    let look = |netns: NetNs, name: &str| -> io::Result<End> {
        let link = netns.within(|| link::find(name))??.ok_or(io::ErrorKind::NotFound)?;
        Ok(End { netns, link })
    };
    Ok((look(near_ns, near)?, look(far_ns, far)?))
}

/// The name of an interface that is named by itself, or by an address that it has.
fn interface_of(name: &str) -> Result<String, DeviceError> {
    let Ok(address) = name.parse() else { return Ok(name.to_owned()) };
    let found = link::of_address(address);
    let found = found.map_err(|e| refused(&format!("looking up the address {name}"), &e))?;
    found.ok_or_else(|| DeviceError::Absent {
        what: format!("an interface with the address {name}"),
        remedy: "`ip address` lists those that are here".into(),
    })
}

impl End {
    /// An interface of this process's namespace, as it is; an address of it names it, too. Its
    /// carrier may take [`CARRIER_MAX`].
    fn named(name: &str) -> Result<End, DeviceError> {
        End::found(name)?.with_carrier(CARRIER_MAX)
    }

    /// The same, whether it has a carrier or not.
    fn found(name: &str) -> Result<End, DeviceError> {
        let name = &interface_of(name)?;
        let link = link::find(name).map_err(|e| refused(&format!("looking up {name}"), &e))?;
        let link = link.ok_or_else(|| DeviceError::Absent {
            what: format!("interface {name}"),
            remedy: "`ip link` lists those that are here; `linux:veth` needs none".into(),
        })?;
        Ok(End { netns: NetNs::current(), link })
    }

    /// The end, when it has a carrier, which may take so long.
    fn with_carrier(self, most: Duration) -> Result<End, DeviceError> {
        let link = self.wait_for_carrier(most)?;
        Ok(End { link, ..self })
    }

    /// Waits for the carrier of the interface, at most so long. An interface that is switched off
    /// gets none.
    fn wait_for_carrier(&self, most: Duration) -> Result<Link, DeviceError> {
        let begun = Instant::now();
        loop {
            let link = self.now()?;
            if link.up {
                return Ok(link);
            }
            if !link.is_on || begun.elapsed() >= most {
                let name = &link.name;
                let (why, remedy) = match link.is_on {
                    false => ("is down", format!("`ip link set {name} up`")),
                    true => ("has no carrier", "check the cable and the other end".to_owned()),
                };
                return Err(DeviceError::Broken {
                    device: format!("interface {name}"),
                    reason: format!("it {why}; {remedy}"),
                });
            }
            thread::sleep(CARRIER_PAUSE);
        }
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

    /// The interface as the kernel describes it now.
    fn now(&self) -> Result<Link, DeviceError> {
        let link = self.within("looking up", |link| link::find(&link.name))?;
        link.ok_or_else(|| DeviceError::Broken {
            device: format!("interface {}", self.link.name),
            reason: "it is gone".into(),
        })
    }

    /// The interface's counters now.
    fn counters(&self) -> Result<LinkCounters, DeviceError> {
        Ok(self.now()?.counters)
    }
}

impl Testbed for LinuxBed {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        setup.check_plain()?;
        if setup.cores > 1 {
            return Err(DeviceError::lacks("several cores for queues"));
        }
        let near = self.tester.as_ref().map_or(self.device.link.mtu, |tester| tester.link.mtu);
        let mtu = near.min(self.device.link.mtu);
        if u32::from(setup.frame_len_max) > mtu + HEADER_AND_FCS_LEN {
            let (longest, asked) = (mtu + HEADER_AND_FCS_LEN, setup.frame_len_max);
            return Err(DeviceError::BadLoad {
                reason: format!(
                    "frames of {asked} bytes do not fit the MTU {mtu}; use at most \
                    {longest}, or set a greater MTU on both interfaces"
                ),
            });
        }
        let has_rules = setup.rules.iter().any(|block| block.count() > 0);
        if has_rules {
            self.take_rules()?;
        }
        let Setup { queues, frame_len_max, .. } = *setup;
        let shape = RingShape { queues: queues.max(1), frame_len_max, ..self.shape };
        if shape.path == Path::Tc && queues > 1 && !self.device.link.is_veth() {
            let what = "several queues behind tc's filters, but of a veth pair";
            return Err(DeviceError::lacks(what));
        }
        if shape != self.shape || self.rings.is_none() {
            let before = std::mem::replace(&mut self.shape, shape);
            self.arrange(before)?;
            let tester = (self.tester.as_ref(), &self.stamping);
            self.about.facts = facts::of_wire(&self.ends, shape.path, tester, &self.device);
        }
        let mut report = SetupReport::default();
        self.clear_rules()?;
        report.rss = self.held.first_mut().and_then(HeldCard::rss);
        let proven = setup.rules.iter().filter(|block| block.count() > 0);
        for (block, (_, _, actions)) in proven.filter_map(|block| Some((block, block.place()?))) {
            report.proofs.push(self.prove(block, actions)?);
        }
        self.blocks = match (&mut self.filters, self.held.first_mut()) {
            _ if !has_rules => Vec::new(),
            (Some(filters), _) => rules::install(filters, &setup.rules, &mut report)?,
            (None, Some(held)) => rules::install(held.card(), &setup.rules, &mut report)?,
            (None, None) => Vec::new(),
        };
        self.setup = Some(setup.clone());
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => self.offer(load, plan).map(Observation::Load),
            Task::Plan(plan) => self.operate(plan).map(Observation::Plan),
            Task::RoundTrips(trips) => {
                let run = self.next_run();
                let found = self.hosts(&trips.feature)?.round_trips(trips, run);
                found.map(Observation::RoundTrips)
            }
            Task::Breakdown { trips, pairs } => {
                let mut run = self.runs;
                let found = self.hosts(&trips.feature)?.breakdown(trips, *pairs, &mut run);
                self.runs = run;
                found.map(Observation::Breakdown)
            }
            Task::Requests(application) => {
                let mut servers = std::mem::take(&mut self.servers);
                let hosts = self.hosts(&Feature::None);
                let found = hosts.and_then(|hosts| hosts.apply(application, &mut servers));
                self.servers = servers;
                found.map(Observation::Requests)
            }
            Task::Stream(streaming) => {
                let run = self.next_run();
                self.hosts(&Feature::None)?.stream(streaming, run).map(Observation::Stream)
            }
            Task::Program(_) | Task::Store(_) | Task::Detection(_) | Task::Analytics(_) => {
                Err(task.not_supported())
            }
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        if self.shape.path == Path::Xdp {
            return Err(DeviceError::lacks("frames of AF_XDP one by one"));
        }
        self.take_rules()?;
        self.clear_rules()?;
        let LinuxBed { about, rings, filters, held, proofs, far, .. } = self;
        let none = || no_settings(&about.name);
        let rings = (rings.as_mut().ok_or_else(none)?, far.clone());
        match (filters, held.first_mut()) {
            (Some(filters), _) => carry_out_all(filters, rings, cases, &mut proofs.next),
            (None, Some(held)) => carry_out_all(held.card(), rings, cases, &mut proofs.next),
            (None, None) => Err(none()),
        }
    }

    fn measure_half(&mut self, task: &HalfTask) -> Result<HalfObservation, DeviceError> {
        match (task, self.far.clone()) {
            (HalfTask::Serve { load, plan }, Some(far)) => {
                let served = self.serve(load, plan, &far)?;
                Ok(HalfObservation::Served(Box::new(served)))
            }
            (HalfTask::Clock, _) => Ok(HalfObservation::Clock(Clock::new().now_ns())),
            _ => Err(DeviceError::lacks(capability::TWO_HOSTS)),
        }
    }
}

/// Carries out cases on a table of rules.
fn carry_out_all<P: RuleTable>(
    table: &mut P,
    (rings, far): (&mut Rings, Option<FarLink>),
    cases: &RuleCases,
    next: &mut u64,
) -> Result<RuleCasesObservation, DeviceError> {
    let mut port = TablePort::new(table, rings, far);
    let tried = cases.cases.iter().map(|case| carry_out(&mut port, case, next));
    let cases = tried.collect::<Result<_, DeviceError>>()?;
    Ok(RuleCasesObservation { cases })
}

/// Takes away what killed measurements left on the interfaces of this network namespace, and says
/// what: queues, RSS and rules of a card, flower filters, coalescing that is off, time stamps that
/// are on, filters of probes, and the queueing disciplines that were added for filters.
///
/// # Errors
/// [`DeviceError::Rights`]; [`DeviceError::Broken`].
pub fn clean() -> Result<Vec<String>, DeviceError> {
    let cards = settings::clean()?.into_iter().chain(flower::clean()?);
    let set_back = cards.chain(tune::clean()?).chain(stamp_setting::clean()?);
    let cleaned = niclab_probe::clean().map_err(|error| match error {
        ProbeError::NotAllowed { what } => {
            DeviceError::Rights { what: what.to_owned(), remedy: RIGHTS.to_owned() }
        }
        error => DeviceError::Broken { device: "linux".into(), reason: error.to_string() },
    })?;
    Ok(set_back.chain(cleaned.iter().map(Leftover::to_string)).collect())
}

impl LinuxBed {
    fn is_veth(&self) -> bool {
        self.ends == Ends::Veth
    }

    /// Carries a plan out without packets.
    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        self.take_rules()?;
        self.prove_plan(plan)?;
        let outcome = match &mut self.filters {
            Some(filters) => operate(filters, plan, &mut self.blocks, (&self.device, self.cores)),
            None => {
                self.hold()?;
                let held = self.held.first_mut().ok_or_else(|| no_settings(&self.about.name))?;
                operate(held.card(), plan, &mut self.blocks, (&self.device, self.cores))
            }
        };
        self.forget_broken(&outcome);
        outcome
    }

    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        let (mut observation, control) =
            self.with_frames(load, plan, |wire, load, plan| wire.run(load, plan))?;
        observation.control = control;
        Ok(observation)
    }

    /// The device's part of a load.
    fn serve(
        &mut self,
        load: &Load,
        plan: &Plan,
        far: &FarLink,
    ) -> Result<DeviceObservation, DeviceError> {
        self.device.wait_for_carrier(CARRIER_MAX)?;
        let (mut observation, control) =
            self.with_frames(load, plan, |wire, load, plan| wire.serve(load, plan, far))?;
        observation.control = control;
        Ok(observation)
    }

    /// Carries a plan out while `run` deals with frames.
    fn with_frames<O, F>(
        &mut self,
        load: &Load,
        plan: &Plan,
        run: F,
    ) -> Result<(O, Option<Control>), DeviceError>
    where
        F: FnOnce(&mut TrialWire<'_>, &Load, Option<TrialPlan<'_>>) -> Result<O, DeviceError>,
    {
        let plan = match plan {
            Plan::Rest => None,
            Plan::Rules(plan) => Some(plan),
            Plan::Rss(_) => return no_rss_changes(),
        };
        if let Some(plan) = plan {
            self.take_rules()?;
            self.prove_plan(plan)?;
        }
        let LinuxBed { about, cores, rings, held, filters, blocks, tester, device, .. } = self;
        let name = &about.name[..];
        let rings = rings.as_mut().ok_or_else(|| DeviceError::Broken {
            device: name.into(),
            reason: "run before set-up".into(),
        })?;
        let (path, tester) = (self.shape.path, tester.as_ref());
        let mut wire = TrialWire { name, path, rings, cores: *cores, tester, device };
        let Some(plan) = plan else { return Ok((run(&mut wire, load, None)?, None)) };
        let run = |wire: &mut TrialWire<'_>, plan: TrialPlan<'_>| run(wire, load, Some(plan));
        let outcome = match (filters, held.first_mut()) {
            (Some(filters), _) => wire.run_planned((load, plan), filters, blocks, run),
            (None, Some(held)) => wire.run_planned((load, plan), held.card(), blocks, run),
            (None, None) => Err(no_settings(name)),
        };
        self.forget_broken(&outcome);
        outcome.map(|(observation, control)| (observation, Some(control)))
    }

    /// Takes the rules out that are niclab's.
    fn clear_rules(&mut self) -> Result<(), DeviceError> {
        self.blocks.clear();
        if let Some(filters) = &mut self.filters {
            let cleared = filters.remove_all();
            cleared.map_err(|e| refused("removing flower filters", &e.error))?;
        }
        self.held.first_mut().map_or(Ok(()), HeldCard::clear_rules)
    }

    /// Tries the kind of a block's rules with these actions, unless it is known, where there are no
    /// rules of niclab.
    ///
    /// # Errors
    /// [`DeviceError::NotSupported`] where the rule is accepted and something else is done.
    fn prove(&mut self, block: &RuleBlock, actions: &[Action]) -> Result<RuleProof, DeviceError> {
        let LinuxBed { about, rings, filters, held, proofs, far, .. } = self;
        let none = || no_settings(&about.name);
        let rings = (rings.as_mut().ok_or_else(none)?, far.clone());
        let rule = (block, actions);
        let proof = match (filters, held.first_mut()) {
            (Some(filters), _) => proofs.prove(filters, rings, rule),
            (None, Some(held)) => proofs.prove(held.card(), rings, rule),
            (None, None) => Err(none()),
        }?;
        proving::fault(&proof).map_or(Ok(proof), Err)
    }

    /// Tries the rules of a plan, unless they are known; the set-up is made anew then.
    ///
    /// # Errors
    /// As [`LinuxBed::prove`].
    fn prove_plan(&mut self, plan: &RulesPlan) -> Result<(), DeviceError> {
        let Some(setup) = self.setup.clone() else { return Ok(()) };
        let (block, other) = match &plan.work {
            RuleWork::Create(block) => (Some(block), None),
            RuleWork::Renew { block } => (setup.rules.get(*block), None),
            RuleWork::Change { block, change } => match change {
                RuleChangeKind::Actions(actions) | RuleChangeKind::Anew(actions) => {
                    (setup.rules.get(*block), Some(&actions[..]))
                }
                _ => (None, None),
            },
        };
        let block = block.filter(|block| block.count() > 0);
        let Some((block, (_, _, own))) = block.and_then(|block| Some((block, block.place()?)))
        else {
            return Ok(());
        };
        let actions = other.unwrap_or(own);
        if self.proofs.has(block, actions)? {
            return self.prove(block, actions).map(drop);
        }
        self.clear_rules()?;
        let proven = self.prove(block, actions);
        self.setup(&setup)?;
        proven.map(drop)
    }

    /// An interface that broke has not the rules that it is to have.
    fn forget_broken<T>(&mut self, outcome: &Result<T, DeviceError>) {
        if let Err(DeviceError::Broken { .. }) = outcome {
            self.blocks.clear();
        }
    }

    /// The settings of the interface under test, which are this process's from now on.
    fn hold(&mut self) -> Result<&mut HeldCard, DeviceError> {
        if self.held.is_empty() {
            let is_own = self.is_veth();
            let tester = self.tester.as_ref().filter(|_| is_own);
            let ends = [&self.device].into_iter().chain(tester);
            let held = ends.map(|end| {
                let held = end.netns.within(|| HeldCard::hold(&end.link, is_own));
                held.map_err(|e| refused("entering a namespace", &e))?
            });
            self.held = held.collect::<Result<_, _>>()?;
        }
        self.held.first_mut().ok_or_else(|| no_settings(&self.about.name))
    }

    /// Makes ready for rules: n-tuple rules of the card, else flower filters in the card; behind
    /// tc's filters, flower filters in the kernel.
    fn take_rules(&mut self) -> Result<(), DeviceError> {
        if self.filters.is_some() {
            return Ok(());
        }
        let (place, without) = match self.shape.path {
            Path::Tc => (FilterPlace::Kernel, None),
            Path::Packet | Path::Xdp => match self.hold()?.take_rules() {
                Err(DeviceError::NotSupported { capability }) => {
                    (FilterPlace::Card, Some(capability))
                }
                taken => return taken,
            },
        };
        self.filters = Some(filters(&self.device, self.is_veth(), place, without.as_deref())?);
        Ok(())
    }

    /// Gives both ends their queues and their rings; where that fails they get those that they had
    /// before.
    fn arrange(&mut self, before: RingShape) -> Result<(), DeviceError> {
        let had_rings = self.rings.is_some();
        let arranged = self.open_rings();
        if arranged.is_err() {
            self.shape = before;
            if had_rings && self.open_rings().is_err() {
                self.rings = None;
            }
        }
        arranged
    }

    fn open_rings(&mut self) -> Result<(), DeviceError> {
        // Sockets of AF_XDP keep the queues of an interface from being changed.
        self.rings = None;
        let RingShape { path, queues, .. } = self.shape;
        if self.is_veth() || !self.held.is_empty() || queues > 1 || path == Path::Xdp {
            self.hold()?;
            self.held.iter_mut().try_for_each(|held| held.receive_by(queues.into()))?;
        }
        self.rings = Some(Rings::open(
            self.tester.as_ref(),
            &self.device,
            self.shape,
            self.stamping.clock(),
        )?);
        Ok(())
    }

    /// The number of the next messages between the hosts.
    fn next_run(&mut self) -> u32 {
        self.runs = self.runs.wrapping_add(1);
        self.runs
    }

    /// The hosts with this in their path. They have a pair and namespaces of their own: the kernel
    /// would take the short way past a cable between two cards of one host.
    fn hosts(&mut self, feature: &Feature) -> Result<&Hosts, DeviceError> {
        if !self.is_veth() || self.shape.path != Path::Packet {
            return Err(DeviceError::lacks("echo"));
        }
        match self.hosts.entry(feature.clone()) {
            Entry::Occupied(hosts) => Ok(hosts.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Hosts::with(self.cores, feature)?)),
        }
    }
}

fn no_settings(name: &str) -> DeviceError {
    DeviceError::Broken { device: name.into(), reason: "no settings".into() }
}

/// Carries a plan out without packets, on the core of the function or with several threads.
fn operate<P: RuleTable>(
    table: &mut P,
    plan: &RulesPlan,
    blocks: &mut [InstalledBlock<u32>],
    (device, cores): (&End, Cores),
) -> Result<Control, DeviceError> {
    if let Some(threads) = plan.threads {
        return rules::operate_by_threads(table, plan, blocks, (threads, device));
    }
    let _pinned = Pinned::to(cores.device);
    rules::operate(table, plan, blocks)
}

/// Filters of an interface, in the card or in the kernel. `without` says why it lacks other rules.
fn filters(
    end: &End,
    is_own: bool,
    place: FilterPlace,
    without: Option<&str>,
) -> Result<Filters, DeviceError> {
    let offered = end.netns.within(|| flower::offered(&end.link, place, is_own));
    match (offered.map_err(|e| refused("entering a namespace", &e))?, without) {
        (Err(DeviceError::NotSupported { capability }), Some(without)) => {
            Err(DeviceError::lacks(format!("rules ({without}; {capability})")))
        }
        (Err(DeviceError::NotSupported { capability }), None) => {
            Err(DeviceError::lacks(format!("rules ({capability})")))
        }
        (offered, _) => offered,
    }
}

/// The description of the two interfaces.
fn about(
    name: &str,
    (path, ends): (Path, &Ends),
    cores: Cores,
    (tester, stamping, device): (Option<&End>, &Stamping, &End),
) -> DeviceInfo {
    let place =
        |role: &str, label: &str, core| PathNode { role: role.into(), label: label.into(), core };
    let wire = match ends {
        Ends::Veth => "veth pair",
        Ends::Named { .. } | Ends::Alone(_) => "cable",
    };
    let far = &device.link;
    let hosts = match (ends, path) {
        (Ends::Veth, Path::Packet) => vec![
            place("client", "program, kernel", Some(cores.tester)),
            place("wire", "veth pair", None),
            place("server", "kernel, program", Some(cores.device)),
        ],
        _ => Vec::new(),
    };
    let place_of_filters = match path {
        Path::Tc => FilterPlace::Kernel,
        Path::Packet | Path::Xdp => FilterPlace::Card,
    };
    let has_table = device.within("asking for rules of", |link| Card::open(&link.name)?.rules());
    // To try whether a card takes filters changes the interface: of those of others it is seen when
    // rules are asked for.
    let may_have_rules = !matches!(ends, Ends::Veth)
        || matches!(has_table, Ok(Some(_)))
        || filters(device, true, place_of_filters, None).is_ok();
    DeviceInfo {
        name: name.into(),
        facts: facts::of_wire(ends, path, (tester, stamping), device),
        places: match tester {
            Some(tester) => vec![
                place("generator", &tester.link.name, Some(cores.tester)),
                place("wire", wire, None),
                place("device", &far.name, None),
                place("function", Function::Forward.label(), Some(cores.device)),
                place("sink", &tester.link.name, Some(cores.tester)),
            ],
            None => vec![
                place("device", &far.name, None),
                place("function", Function::Forward.label(), Some(cores.device)),
            ],
        },
        hosts,
        is_one_machine: matches!(ends, Ends::Veth),
        not_supported: if may_have_rules { Vec::new() } else { vec!["rules".into()] },
        lacking: "niclab does not do it between Linux interfaces of this kind".into(),
        port_gbps: match tester {
            Some(tester) => {
                let near = port_gbps(&tester.link);
                port_gbps(far).zip(near).map(|(far, near)| far.min(near))
            }
            None => port_gbps(far),
        },
        ..DeviceInfo::default()
    }
}

/// The speed of an interface's wire, Gbps; `None` of a virtual one, which has none, whatever it
/// says.
fn port_gbps(link: &Link) -> Option<f64> {
    let path = format!("/sys/class/net/{}/speed", link.name);
    let read = || fs::read_to_string(path).ok()?.trim().parse::<f64>().ok();
    // Without a cable it is -1.
    let mbps = link.kind.is_none().then(read)?.filter(|mbps| *mbps > 0.0)?;
    Some(mbps / 1e3)
}

/// Converts an error of the kernel: [`DeviceError::Rights`] or [`DeviceError::Broken`].
pub fn refused(what: &str, error: &io::Error) -> DeviceError {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            DeviceError::Rights { what: what.into(), remedy: RIGHTS.into() }
        }
        _ => DeviceError::Broken { device: "linux".into(), reason: format!("{what}: {error}") },
    }
}
