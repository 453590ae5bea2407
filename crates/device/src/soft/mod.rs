//! `soft`: the software NIC under a memory wire.
//!
//! The calling thread generates and counts. With placement `inline` the NIC and the network
//! function share a core of their own (the core that polls the queue runs the pipeline); with
//! `engine` each has one, and queues lie between them.

#[cfg(test)]
mod engine_tests;
mod lanes;
mod stages;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use niclab_load::{Load, LoadError, Observation, Rate};
use niclab_nic::limits::BURST;
use niclab_nic::rule::session::Session;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::flow::{FiveTuple, FlowSet, Transport};
use niclab_packet::size::FCS_LEN;
use niclab_port::queues::queues;
use niclab_port::wire::wire;

use crate::cores;
use crate::face::{
    self, About, DeviceError, Fact, Place, Placement, Plan, RuleBlock, Setup, SetupReport, Testbed,
};
use crate::pair::{Stage, Trial};
use lanes::lanes;
use stages::{Engine, Function, Inline};

/// Frames each ring of the wire holds, as a usual receive ring.
const WIRE_DEPTH: u32 = 1_024;

/// Frames the ring of a queue holds where the NIC has a core of its own: as the wire, but less
/// where many queues would take up the memory.
const QUEUE_DEPTH_MAX: usize = 1_024;

/// Frames that all queues hold together, unless a burst for each takes more.
const QUEUES_DEPTH_MAX: usize = 8_192;

/// Steps of a transaction that are settled at a time.
const SETTLE_STEPS: usize = 1 << 16;

/// How long the traffic is offered that shows which rules it meets.
const MEETING_NS: u64 = 200_000_000;

/// The software NIC with its generator and sink.
pub struct Soft {
    about: About,
    /// Threads keep to cores of their own. Without it figures mean nothing, but frames are counted
    /// as ever.
    pinned: bool,
    state: Option<State>,
}

/// Where the threads of a trial run; none: wherever there is room.
#[derive(Clone, Copy, Default)]
struct Seats {
    tester: Option<u32>,
    function: Option<u32>,
    /// The NIC's own, with placement `engine`.
    engine: Option<u32>,
}

impl Seats {
    /// The first cores this process may use, as many as a placement takes.
    fn choose(placement: Placement) -> Result<Seats, DeviceError> {
        let engine = placement == Placement::Engine;
        let (name, needed) = if engine { ("soft, placement engine,", 3) } else { ("soft", 2) };
        let cores = cores::take(name, needed)?;
        let seat = |i: usize| cores.get(i).copied();
        Ok(Seats { tester: seat(0), function: seat(1), engine: seat(2) })
    }
}

/// What a set-up made.
struct State {
    nic: Nic,
    worker: Worker,
    placement: Placement,
    seats: Seats,
    /// Longest frame, without FCS.
    frame_len_max: u16,
}

impl Soft {
    /// A NIC without rules on the first two cores this process may use.
    pub fn open() -> Result<Soft, DeviceError> {
        let about = about(Placement::Inline, Seats::choose(Placement::Inline)?);
        Ok(Soft { about, pinned: true, state: None })
    }
}

fn about(placement: Placement, seats: Seats) -> About {
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let place = |role: &str, label: &str, core| Place {
        role: role.to_owned(),
        label: label.to_owned(),
        core,
    };
    let wire = format!("memory wire, {WIRE_DEPTH} descriptors");
    let (device, core, placed) = match placement {
        Placement::Inline => (
            "software NIC, inline",
            seats.function,
            "inline: the core that polls the queue runs the NIC",
        ),
        Placement::Engine => {
            ("software NIC, engine", seats.engine, "engine: the NIC has a core of its own")
        }
    };
    About {
        name: "soft".to_owned(),
        facts: vec![
            fact("driver", format!("niclab {}", env!("CARGO_PKG_VERSION"))),
            fact("placement", placed.to_owned()),
            fact("rules of group 0", niclab_nic::limits::ROOT_RULES_MAX.to_string()),
            fact("rules in all", niclab_nic::limits::RULES_MAX.to_string()),
            fact("clock", niclab_load::clock::Clock::new().source().to_owned()),
        ],
        places: vec![
            place("generator", "generator", seats.tester),
            place("wire", &wire, None),
            place("device", device, core),
            place("function", face::Function::Forward.label(), seats.function),
            place("wire", &wire, None),
            place("sink", "sink", seats.tester),
        ],
        not_supported: Vec::new(),
    }
}

impl Testbed for Soft {
    fn about(&self) -> &About {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let placement = setup.placement;
        let seats = if self.pinned { Seats::choose(placement)? } else { Seats::default() };
        self.state = None;
        let config = NicConfig { queues: setup.queues, ..NicConfig::default() };
        let mut nic = Nic::new(&config).map_err(broken)?;
        let mut report = SetupReport::default();
        let before = nic.rule_bytes();
        for block in &setup.rules {
            install(&mut nic, block, &mut report)?;
        }
        report.rules_installed = u64::from(nic.len());
        report.rule_bytes = Some((nic.rule_bytes() - before) as u64);
        let worker = nic.worker();
        let frame_len_max = setup.frame_len_max.saturating_sub(FCS_LEN);
        self.about = about(placement, seats);
        self.state = Some(State { nic, worker, placement, seats, frame_len_max });
        Ok(report)
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let Plan::Rest = plan;
        let state = self.state.as_mut().ok_or_else(|| broken("run before set-up"))?;
        let mut observation = match state.placement {
            Placement::Inline => state.run_inline(load),
            Placement::Engine => state.run_engine(load),
        }?;
        observation.balance(0);
        Ok(observation)
    }
}

/// Which of the rules of a set-up's files a load meets: how many decide about at least one of the
/// frames that are sent in a fifth of a second.
pub fn rules_met(setup: &Setup, load: &Load) -> Result<u32, DeviceError> {
    let config = NicConfig { queues: setup.queues, ..NicConfig::default() };
    let mut nic = Nic::new(&config).map_err(broken)?;
    let mut session = Session::counting(0);
    for block in &setup.rules {
        if let RuleBlock::File { path, .. } = block {
            let (file, bad) = (open(path)?, |error| broken(format!("{}: {error}", path.display())));
            session.apply(&mut nic, BufReader::new(file)).map_err(bad)?;
        }
    }
    while !nic.settle(SETTLE_STEPS) {}
    let worker = nic.worker();
    let (placement, seats) = (Placement::Inline, Seats::default());
    let frame_len_max = setup.frame_len_max.saturating_sub(FCS_LEN);
    let mut state = State { nic, worker, placement, seats, frame_len_max };
    let load = Load { rate: Rate::Saturate, duration_ns: MEETING_NS, warmup_ns: 0, ..load.clone() };
    state.run_inline(&load)?;
    let is_met = |id: &RuleId| state.nic.query(*id).is_ok_and(|counts| counts.packets > 0);
    Ok(session.ids().filter(is_met).count() as u32)
}

impl State {
    fn trial<'a>(&self, load: &'a Load) -> Trial<'a> {
        Trial { device: "soft", load, depth: WIRE_DEPTH, core: self.seats.tester }
    }

    fn run_inline(&mut self, load: &Load) -> Result<Observation, DeviceError> {
        let frame_len = usize::from(self.frame_len_max);
        let (far, near) = wire(WIRE_DEPTH as usize, 0, frame_len).map_err(broken)?;
        let (mut out, mut back) = lanes(far, self.frame_len_max);
        let trial = self.trial(load);
        let inline = Inline(stages::Nic::new(&mut self.worker, near, self.nic.queues()));
        let stage = Stage::new("function", self.seats.function, inline);
        trial.run((&mut out, &mut back), vec![stage])
    }

    fn run_engine(&mut self, load: &Load) -> Result<Observation, DeviceError> {
        let count = self.nic.queues();
        let depth = (QUEUES_DEPTH_MAX / usize::from(count)).clamp(BURST, QUEUE_DEPTH_MAX);
        // All queues full, the transmit ring as full as one of them, a burst in each hand.
        let behind = (usize::from(count) + 1) * depth + 2 * BURST;
        let frame_len = usize::from(self.frame_len_max);
        let (far, near) = wire(WIRE_DEPTH as usize, behind, frame_len).map_err(broken)?;
        let (mut out, mut back) = lanes(far, self.frame_len_max);
        let (nic_side, function_side) = queues(count, depth, near.frames());
        let trial = self.trial(load);
        let function = Function::new(Arc::clone(near.region()), function_side, count);
        let engine = Engine::new(stages::Nic::new(&mut self.worker, near, count), nic_side);
        let stages = vec![
            Stage::new("engine", self.seats.engine, engine),
            Stage::new("function", self.seats.function, function),
        ];
        trial.run((&mut out, &mut back), stages)
    }
}

fn broken(reason: impl ToString) -> DeviceError {
    DeviceError::Broken { device: "soft".to_owned(), reason: reason.to_string() }
}

/// What a load error is to a device.
pub(crate) fn bad_load(error: LoadError) -> DeviceError {
    DeviceError::BadLoad { reason: error.to_string() }
}

/// Creates the rules of a block. The first refusal ends it: the rest counts as refused too.
fn install(nic: &mut Nic, block: &RuleBlock, report: &mut SetupReport) -> Result<(), DeviceError> {
    match block {
        RuleBlock::Any { group, priority, actions } => {
            let rule = (*group, *priority, actions.as_slice());
            create(nic, rule, std::iter::once(Pattern::any()), report);
        }
        RuleBlock::File { path, rules_count } => apply(nic, path, *rules_count, report)?,
        RuleBlock::FiveTuples { group, priority, flows, first, count, actions } => {
            let set = FlowSet::new(flows).map_err(|error| bad_load(error.into()))?;
            let patterns = (*first..first + count).map(|flow| five_tuple(&set.tuple(flow)));
            create(nic, (*group, *priority, actions.as_slice()), patterns, report);
        }
    }
    Ok(())
}

/// Applies a file of rules: all of it, or nothing, which is then refused as a whole. Reading it is
/// timed as well.
fn apply(
    nic: &mut Nic,
    path: &Path,
    rules_count: u32,
    report: &mut SetupReport,
) -> Result<(), DeviceError> {
    let file = open(path)?;
    let start = Instant::now();
    let applied = Session::new(0).apply(nic, BufReader::new(file));
    report.install += start.elapsed();
    if let Err(error) = applied {
        report.rules_refused += u64::from(rules_count);
        report.refusal.get_or_insert_with(|| format!("{}: {error}", path.display()));
    }
    // Packets meet no transaction that is still to be settled: there is no worker yet.
    while !nic.settle(SETTLE_STEPS) {}
    Ok(())
}

/// Opens a file of rules.
fn open(path: &Path) -> Result<File, DeviceError> {
    let absent = |error: std::io::Error| DeviceError::Absent {
        what: path.display().to_string(),
        remedy: format!("{error}; the rules of the experiment stand there"),
    };
    File::open(path).map_err(absent)
}

/// The pattern of a flow.
fn five_tuple(tuple: &FiveTuple) -> Pattern {
    let pattern = Pattern::any().src(tuple.src).dst(tuple.dst);
    let pattern = match tuple.proto {
        Transport::Udp => pattern.udp(),
        Transport::Tcp => pattern.tcp(),
    };
    pattern.sport(tuple.sport).dport(tuple.dport)
}

/// Creates one rule a pattern; `rule` is group, priority, actions. Only the creations are timed.
fn create(
    nic: &mut Nic,
    rule: (u32, u32, &[Action]),
    patterns: impl ExactSizeIterator<Item = Pattern>,
    report: &mut SetupReport,
) {
    let (group, priority, actions) = rule;
    let total = patterns.len() as u64;
    let mut created = 0;
    let mut patterns = patterns.peekable();
    while patterns.peek().is_some() {
        let chunk: Vec<Pattern> = patterns.by_ref().take(1_024).collect();
        let start = Instant::now();
        let one = |pattern: Pattern| nic.create(&Rule { group, priority, pattern, actions });
        let refused: Option<RuleError> = chunk.into_iter().map(one).find_map(|made| {
            created += u64::from(made.is_ok());
            made.err()
        });
        report.install += start.elapsed();
        if let Some(error) = refused {
            report.rules_refused += total - created;
            report.refusal.get_or_insert_with(|| error.to_string());
            return;
        }
    }
}
