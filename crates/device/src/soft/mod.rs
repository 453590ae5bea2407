//! `soft`: the software NIC under a memory wire.
//!
//! The calling thread generates and counts. With placement `inline` the NIC and the network
//! function share a core of their own (the core that polls the queue runs the pipeline); with
//! `engine` each has one, and queues lie between them; with `card` it runs as `niclab nic` does, on
//! several cores: under a clocked wire, or, where its RSS changes, under a generator.

mod asking;
mod carded;
pub mod clocked;
mod control;
#[cfg(test)]
mod engine_tests;
pub mod kvs;
mod lanes;
mod programs;
mod stages;
mod steps;
mod threads;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use niclab_load::{Control, Load, LoadError, Observation, Rate};
use niclab_nic::limits::BURST;
use niclab_nic::rule::session::Session;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_packet::size::FCS_LEN;
use niclab_port::queues::queues;
use niclab_port::wire::wire;

use crate::cores::{self, Pinned};
use crate::face::{
    self, About, DeviceError, Fact, Place, Placement, Processed, Processing, RuleBlock, Setup,
    SetupReport, Testbed,
};
use crate::pair::{Beside, Stage, Trial};
use crate::patterns::Patterns;
use crate::plan::{ControlCore, Plan, RulesPlan, Work, no_spread};
use crate::serving::{Answered, Serving};
use control::Carrier;
use lanes::lanes;
use stages::{Engine, Function, Inline};

/// Frames each ring of the wire holds, as a usual receive ring.
const WIRE_DEPTH: u32 = 1_024;

/// Frames the ring of a queue holds where the NIC has a core of its own: as the wire, but less
/// where many queues would take up the memory.
const QUEUE_DEPTH_MAX: usize = 1_024;

/// Frames that all queues hold together, unless a burst for each takes more.
const QUEUES_DEPTH_MAX: usize = 8_192;

/// Longest frame that the card as a program has room for, bytes with FCS: it would cut others.
const CARD_FRAME_LEN_MAX: u16 = 1_536 + FCS_LEN;

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
        if placement == Placement::Card {
            return Ok(Seats::default());
        }
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
    /// What was asked for.
    setup: Setup,
    /// The rules of each block of the set-up that were created one by one, and their actions.
    blocks: Vec<Installed>,
}

/// The rules of a block.
#[derive(Default)]
struct Installed {
    group: u32,
    priority: u32,
    /// None of a file.
    patterns: Option<Patterns>,
    ids: Vec<RuleId>,
    actions: Vec<Action>,
}

impl Installed {
    /// Gives a block its rules back; `ids` are those that stand in their places now.
    fn restore(&mut self, nic: &mut Nic, ids: &[Option<RuleId>]) -> Result<(), RuleError> {
        let Some(patterns) = &self.patterns else { return Ok(()) };
        let (group, priority, actions) = (self.group, self.priority, &self.actions[..]);
        let others = ids.iter().zip(&self.ids).filter(|(now, then)| **now != Some(**then));
        others.filter_map(|(now, _)| *now).try_for_each(|id| nic.destroy(id))?;
        for (at, (now, id)) in ids.iter().zip(&mut self.ids).enumerate() {
            let rule = Rule { group, priority, pattern: patterns.get(at), actions };
            match *now == Some(*id) {
                true => nic.modify(*id, &rule)?,
                false => *id = nic.create(&rule)?,
            }
        }
        Ok(())
    }
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
        Placement::Card => {
            ("software NIC as a program", None, "card: the NIC runs as `niclab nic` does")
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
        clocked: clocked_places(),
        carded: carded_places(&wire),
        programmed: programs::places(),
        serving: kvs::places(),
        program_load_ms: 0,
        hosts: Vec::new(),
        not_supported: Vec::new(),
        lacking: "niclab's software NIC has none".into(),
        in_virtual_time: false,
        port_gbps: None,
    }
}

/// What stands where frames come to the card by the clock.
fn clocked_places() -> Vec<Place> {
    let place = |role: &str, label: String| Place { role: role.to_owned(), label, core: None };
    vec![
        place("wire", format!("clocked wire, {WIRE_DEPTH} descriptors, for each core")),
        place("device", "software NIC as a program, on all cores of the set-up".to_owned()),
        place("function", face::Function::Forward.label().to_owned()),
    ]
}

/// What stands where a generator sends frames to the card.
fn carded_places(wire: &str) -> Vec<Place> {
    let place = |role: &str, label: &str| Place {
        role: role.to_owned(),
        label: label.to_owned(),
        core: None,
    };
    vec![
        place("generator", "generator"),
        place("wire", &format!("{wire}, for each core")),
        place("device", "software NIC as a program, rings from core to core"),
        place("function", face::Function::Forward.label()),
        place("wire", "memory wires"),
        place("sink", "sink"),
    ]
}

impl Testbed for Soft {
    fn about(&self) -> &About {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        let placement = setup.placement;
        check_cores(setup)?;
        let seats = if self.pinned { Seats::choose(placement)? } else { Seats::default() };
        self.state = None;
        let config = NicConfig { queues: setup.queues, ..NicConfig::default() };
        let mut nic = Nic::new(&config).map_err(broken)?;
        let mut report = SetupReport::default();
        let before = nic.rule_bytes();
        let blocks = setup.rules.iter().map(|block| install(&mut nic, block, &mut report));
        let blocks = blocks.collect::<Result<Vec<Installed>, DeviceError>>()?;
        // Idle time that a trial does not have: tables come to rest.
        while !nic.settle(SETTLE_STEPS) {}
        report.rules_installed = u64::from(nic.len());
        report.rule_bytes = Some((nic.rule_bytes() - before) as u64);
        report.rss = Some(nic.rss().clone());
        let worker = nic.worker();
        let frame_len_max = setup.frame_len_max.saturating_sub(FCS_LEN);
        self.about = about(placement, seats);
        let setup = setup.clone();
        self.state = Some(State { nic, worker, placement, seats, frame_len_max, setup, blocks });
        Ok(report)
    }

    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        let state = self.state.as_mut().ok_or_else(|| broken("operate before set-up"))?;
        let done = match plan.threads {
            None => state.operate(plan),
            Some(threads) => {
                // No packets: there is no burst to wait for before memory is used again.
                state.worker.offline();
                threads::operate(&mut state.nic, plan, threads, self.pinned)
            }
        };
        if matches!(done, Err(DeviceError::Broken { .. })) {
            self.state = None;
        }
        done
    }

    fn process(&mut self, processing: &Processing) -> Result<Processed, DeviceError> {
        programs::process(processing, self.pinned)
    }

    fn serve(&mut self, serving: &Serving) -> Result<Answered, DeviceError> {
        kvs::serve(serving, self.pinned)
    }

    fn run(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let pinned = self.pinned;
        let state = self.state.as_mut().ok_or_else(|| broken("run before set-up"))?;
        let seen = match state.placement {
            Placement::Card => return state.run_carded(load, plan, pinned),
            Placement::Inline => state.run_inline(load, plan),
            Placement::Engine => state.run_engine(load, plan),
        };
        if matches!(seen, Err(DeviceError::Broken { .. })) {
            // Whatever rules it has now are not those of the set-up.
            self.state = None;
        }
        let mut observation = seen?;
        observation.balance(0);
        Ok(observation)
    }
}

/// Refuses more cores than there are, and several where one does all the work.
fn check_cores(setup: &Setup) -> Result<(), DeviceError> {
    let lacks = |capability: String| Err(DeviceError::NotSupported { capability });
    let there = cores::allowed().len();
    match setup.placement {
        Placement::Card if usize::from(setup.cores) > there => {
            lacks(format!("{} cores: there are {there}", setup.cores))
        }
        Placement::Card if setup.frame_len_max > CARD_FRAME_LEN_MAX => lacks(format!(
            "frames of {} B with placement card: it has room for {CARD_FRAME_LEN_MAX} B",
            setup.frame_len_max
        )),
        Placement::Card if !setup.rules.is_empty() => lacks("rules with placement card".to_owned()),
        Placement::Card if setup.ports > 1 && !setup.ports.is_multiple_of(2) => {
            lacks(format!("{} ports: a card has one, or an even number", setup.ports))
        }
        Placement::Card => Ok(()),
        Placement::Inline | Placement::Engine if setup.cores > 1 => {
            lacks("several cores for queues".to_owned())
        }
        _ => setup.check_plain(),
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
    let blocks = Vec::new();
    let setup = setup.clone();
    let mut state = State { nic, worker, placement, seats, frame_len_max, setup, blocks };
    let load = Load { rate: Rate::Saturate, duration_ns: MEETING_NS, warmup_ns: 0, ..load.clone() };
    state.run_inline(&load, &Plan::Rest)?;
    let is_met = |id: &RuleId| state.nic.query(*id).is_ok_and(|counts| counts.packets > 0);
    Ok(session.ids().filter(is_met).count() as u32)
}

impl State {
    fn trial<'a>(&self, load: &'a Load) -> Trial<'a> {
        Trial { device: "soft", load, depth: WIRE_DEPTH, core: self.seats.tester }
    }

    fn run_inline(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        let frame_len = usize::from(self.frame_len_max);
        let (far, near) = wire(WIRE_DEPTH as usize, 0, frame_len).map_err(broken)?;
        let (mut out, mut back) = lanes(far, self.frame_len_max);
        let trial = self.trial(load);
        let queues = self.nic.queues();
        let mut control = match plan {
            Plan::Rest => None,
            Plan::Spread(_) => return no_spread(),
            Plan::Rules(plan) => {
                let control = Carrier::new(plan, &mut self.nic, &self.blocks, load.duration_ns)?;
                Some((plan, control))
            }
        };
        let (same, asker, beside) = match &mut control {
            None => (None, None, None),
            Some((plan, control)) => match plan.core {
                ControlCore::Same => (Some(control), None, None),
                ControlCore::Distinct => {
                    let asker = control.asked_by();
                    (None, asker, Some(control as &mut dyn Beside))
                }
            },
        };
        let inline = Inline::new(stages::Nic::new(&mut self.worker, near, queues), same, asker);
        let stage = Stage::new("function", self.seats.function, inline);
        let seen = trial.run_beside((&mut out, &mut back), vec![stage], beside);
        let ended = control.map(|(plan, control)| (plan, control.end()));
        let Some((plan, (record, ids))) = ended else { return seen };
        let undone = self.undo(plan, ids).map_err(broken);
        let observation = seen?;
        undone.map(|()| Observation { control: Some(record), ..observation })
    }

    /// Leaves the rules of the set-up, as they were; `ids` are those that stand where the plan
    /// worked.
    fn undo(&mut self, plan: &RulesPlan, ids: Vec<Option<RuleId>>) -> Result<(), RuleError> {
        match &plan.work {
            Work::Create(_) => {
                ids.into_iter().flatten().try_for_each(|id| self.nic.destroy(id))?;
            }
            Work::Change { block, .. } | Work::Renew { block, .. } => {
                if let Some(block) = self.blocks.get_mut(*block) {
                    block.restore(&mut self.nic, &ids)?;
                }
            }
        }
        while !self.nic.settle(SETTLE_STEPS) {}
        Ok(())
    }

    /// Carries a plan out without packets, and takes back what it did: what it created goes in the
    /// same way.
    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        let _pinned = match plan.core {
            ControlCore::Same => self.seats.function.map(Pinned::to),
            ControlCore::Distinct => self.seats.tester.map(Pinned::to),
        };
        // No packets: there is no burst to wait for before memory is used again.
        self.worker.offline();
        let plan = &RulesPlan { start_ns: 0, per_s: None, ..plan.clone() };
        if let Work::Renew { .. } = plan.work {
            let reason = "rules are renewed as long as a load lasts, and there is none".to_owned();
            return Err(DeviceError::BadPlan { reason });
        }
        let mut control = Carrier::new(plan, &mut self.nic, &self.blocks, u64::MAX)?;
        control.alone();
        let (mut record, mut ids) = control.end();
        while !self.nic.settle(SETTLE_STEPS) {}
        if let Work::Create(_) = plan.work {
            let mut control = Carrier::destroying(plan, &mut self.nic, std::mem::take(&mut ids))?;
            control.alone();
            record.destroyed = Some(Box::new(control.end().0));
        }
        self.undo(plan, ids).map_err(broken)?;
        Ok(record)
    }

    /// The card on as many cores as the set-up says: behind the tester's, where there are enough.
    fn run_carded(
        &mut self,
        load: &Load,
        plan: &Plan,
        pinned: bool,
    ) -> Result<Observation, DeviceError> {
        let lacks = |what: &str| {
            let capability = format!("{what} with placement card");
            Err(DeviceError::NotSupported { capability })
        };
        let (mut cores, count) = (cores::allowed(), usize::from(self.setup.cores.max(1)));
        let plan = match plan {
            Plan::Spread(plan) => {
                self.setup.check_plain()?;
                plan
            }
            Plan::Rules(_) => return lacks("operations on rules"),
            Plan::Rest => {
                cores.truncate(count);
                return clocked::run(load, &self.setup, cores);
            }
        };
        // The tester may share a core, and would be what sets the rate.
        if load.rate == Rate::Saturate {
            return lacks("changes of RSS under a saturating load");
        }
        let tester = (cores.len() > count).then(|| cores.remove(0)).filter(|_| pinned);
        cores.truncate(count);
        let shape = (self.nic.queues(), self.frame_len_max);
        carded::run((load, *plan), shape, (cores, tester))
    }

    fn run_engine(&mut self, load: &Load, plan: &Plan) -> Result<Observation, DeviceError> {
        if *plan != Plan::Rest {
            let capability = "plans with placement engine".to_owned();
            return Err(DeviceError::NotSupported { capability });
        }
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
fn install(
    nic: &mut Nic,
    block: &RuleBlock,
    report: &mut SetupReport,
) -> Result<Installed, DeviceError> {
    if let RuleBlock::File { path, .. } = block {
        apply(nic, path, report)?;
    }
    let Some(rule) = block.place() else { return Ok(Installed::default()) };
    let patterns = Patterns::of(block)?;
    let ids = create(nic, rule, &patterns, report);
    let (group, priority, actions) = (rule.0, rule.1, rule.2.to_vec());
    Ok(Installed { group, priority, patterns: Some(patterns), ids, actions })
}

/// Applies a file of rules, all of it: a card with a part of them, or none, is not what was asked
/// for. Reading it is timed as well.
fn apply(nic: &mut Nic, path: &Path, report: &mut SetupReport) -> Result<(), DeviceError> {
    let file = open(path)?;
    let start = Instant::now();
    let applied = Session::new(0).apply(nic, BufReader::new(file));
    report.install += start.elapsed();
    if let Err(error) = applied {
        return Err(broken(format!("{}: {error}", path.display())));
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

/// Creates one rule a pattern; `rule` is group, priority, actions. Only the creations are timed.
fn create(
    nic: &mut Nic,
    rule: (u32, u32, &[Action]),
    patterns: &Patterns,
    report: &mut SetupReport,
) -> Vec<RuleId> {
    let (group, priority, actions) = rule;
    let total = patterns.len();
    let mut ids = Vec::with_capacity(total);
    while ids.len() < total {
        let end = total.min(ids.len() + 1_024);
        let chunk: Vec<Pattern> = (ids.len()..end).map(|at| patterns.get(at)).collect();
        let start = Instant::now();
        let refused = chunk.into_iter().find_map(|pattern| {
            let made = nic.create(&Rule { group, priority, pattern, actions });
            made.map(|id| ids.push(id)).err()
        });
        report.install += start.elapsed();
        if let Some(error) = refused {
            report.rules_refused += (total - ids.len()) as u64;
            report.refusal.get_or_insert_with(|| error.to_string());
            break;
        }
    }
    ids
}
