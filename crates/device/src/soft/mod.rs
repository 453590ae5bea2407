//! `soft`: the software NIC under a clocked wire.
//!
//! It runs the card that `niclab nic` runs ([`niclab_card::Card`]): on one core (`driven`), whose
//! rules may change while frames come, or on several (`clocked`), whose RSS may change
//! (`rss_change`).
//! Frames come by the clock, so that no core generates them, or from memory (`replay`).

mod asking;
pub mod clocked;
mod control;
mod driven;
pub mod kvs;
mod programs;
mod replay;
mod rss_change;
mod steps;
mod threads;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use niclab_load::{Control, Load, LoadError, LoadObservation, Rate};
use niclab_nic::rule::session::Session;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId};
use niclab_packet::size::FCS_LEN;

use crate::cores::{self, Pinned};
use crate::face::{
    self, About, DeviceError, Fact, Observation, Place, Placement, RuleBlock, Setup, SetupReport,
    Task, Testbed,
};
use crate::patterns::Patterns;
use crate::plan::{ControlCore, Plan, RulesPlan, Work, no_spread};
use control::Carrier;
use driven::{Done, Offer};

/// Frames each ring of the wire holds, as a usual receive ring.
const WIRE_DEPTH: u32 = 1_024;

/// Longest frame that the card as a program has room for, bytes with FCS: it would cut others.
const CARD_FRAME_LEN_MAX: u16 = 1_536 + FCS_LEN;

/// Steps of a transaction that are settled at a time.
const SETTLE_STEPS: usize = 1 << 16;

/// How long the traffic is offered that shows which rules it meets.
const MEETING_NS: u64 = 200_000_000;

/// The software NIC under a clocked wire.
pub struct Soft {
    about: About,
    /// Threads keep to cores of their own. Without it figures mean nothing, but frames are counted
    /// as ever.
    pinned: bool,
    state: Option<State>,
    /// Frames that cards took in all its tasks.
    card_frames: u64,
}

/// Where the threads of a trial run; none: wherever there is room.
#[derive(Clone, Copy, Default)]
struct Seats {
    tester: Option<u32>,
    function: Option<u32>,
}

impl Seats {
    /// The first cores this process may use, as many as a placement takes.
    fn choose(placement: Placement) -> Result<Seats, DeviceError> {
        if placement == Placement::Card {
            return Ok(Seats::default());
        }
        let cores = cores::take("soft", 2)?;
        Ok(Seats { tester: cores.first().copied(), function: cores.get(1).copied() })
    }
}

/// What a set-up made.
struct State {
    nic: Nic,
    seats: Seats,
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
        Ok(Soft { about, pinned: true, state: None, card_frames: 0 })
    }

    /// Frames that the engine of the card has taken in all tasks so far: the sum of what each
    /// card counted by its end.
    pub fn card_frames(&self) -> u64 {
        self.card_frames
    }

    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        let state = self.state.as_mut().ok_or_else(|| broken("operate before set-up"))?;
        let done = match plan.threads {
            None => state.operate(plan),
            Some(threads) => threads::operate(&mut state.nic, plan, threads, self.pinned),
        };
        if matches!(done, Err(DeviceError::Broken { .. })) {
            self.state = None;
        }
        done
    }

    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        let state = self.state.take().ok_or_else(|| broken("run before set-up"))?;
        let seen = if state.setup.placement == Placement::Card {
            let seen = state.run_carded(load, plan);
            self.state = Some(state);
            seen
        } else {
            // Where the card broke, whatever rules there were are gone.
            let (state, seen) = state.run_driven(load, plan);
            self.state = state;
            seen
        };
        self.card_frames += seen.as_ref().ok().and_then(|seen| seen.card_frames).unwrap_or(0);
        seen
    }
}

fn about(placement: Placement, seats: Seats) -> About {
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let place = |role: &str, label: &str, core| Place {
        role: role.to_owned(),
        label: label.to_owned(),
        core,
    };
    let (device, core, placed) = match placement {
        Placement::Inline => (
            "software NIC, on one core",
            seats.function,
            "inline: the core that polls the queue runs the NIC",
        ),
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
            place("wire", &clocked_wire(), None),
            place("device", device, core),
            place("function", face::Function::Forward.label(), seats.function),
        ],
        clocked: clocked_places(),
        carded: clocked_places(),
        programmed: programs::places(),
        serving: kvs::places(),
        lacking: "niclab's software NIC has none".into(),
        ..About::default()
    }
}

fn clocked_wire() -> String {
    format!("clocked wire, {WIRE_DEPTH} descriptors")
}

/// What stands where frames come to the card by the clock.
fn clocked_places() -> Vec<Place> {
    let place = |role: &str, label: String| Place { role: role.to_owned(), label, core: None };
    vec![
        place("wire", format!("{}, for each core", clocked_wire())),
        place("device", "software NIC as a program, on all cores of the set-up".to_owned()),
        place("function", face::Function::Forward.label().to_owned()),
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
        self.about = about(placement, seats);
        self.state = Some(State { nic, seats, setup: setup.clone(), blocks });
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => self.offer(load, plan).map(Observation::Load),
            Task::Plan(plan) => self.operate(plan).map(Observation::Plan),
            Task::Program(processing) => {
                let (seen, frames) = programs::process(processing, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Program(seen))
            }
            Task::Store(serving) => {
                let (seen, frames) = kvs::serve(serving, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Store(seen))
            }
            _ => Err(task.not_supported()),
        }
    }
}

/// Refuses more cores than there are, and several where one does all the work.
fn check_cores(setup: &Setup) -> Result<(), DeviceError> {
    let lacks = |capability: String| Err(DeviceError::lacks(capability));
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
        Placement::Inline if setup.cores > 1 => lacks("several cores for queues".to_owned()),
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
    let load = Load { rate: Rate::Saturate, duration_ns: MEETING_NS, warmup_ns: 0, ..load.clone() };
    let (blocks, seats) = (Vec::new(), Seats::default());
    let state = State { nic, seats, setup: setup.clone(), blocks };
    let (state, seen) = state.run_driven(&load, &Plan::Rest);
    seen?;
    let state = state.ok_or_else(|| broken("the card is gone"))?;
    let is_met = |id: &RuleId| state.nic.query(*id).is_ok_and(|counts| counts.packets > 0);
    Ok(session.ids().filter(is_met).count() as u32)
}

impl State {
    /// Offers a load to a card of one core. The state is gone where the card broke.
    fn run_driven(
        mut self,
        load: &Load,
        plan: &Plan,
    ) -> (Option<State>, Result<LoadObservation, DeviceError>) {
        let rules = match plan {
            Plan::Rest => None,
            Plan::Rules(plan) => Some(&**plan),
            Plan::Spread(_) => return (Some(self), no_spread()),
        };
        let State { nic, seats, setup, blocks } = self;
        let of_rules = rules.map(|plan| (plan, &blocks[..]));
        let offer = Offer { load, setup: &setup, seats, plan: of_rules };
        let (nic, seen) = offer.run(nic);
        let Some(nic) = nic else { return (None, seen.map(|(seen, _)| seen)) };
        self = State { nic, seats, setup, blocks };
        let seen = seen.and_then(|(seen, done)| self.enter(rules, seen, done));
        let is_broken = matches!(seen, Err(DeviceError::Broken { .. }));
        (Some(self).filter(|_| !is_broken), seen)
    }

    /// Takes back what a plan did, and enters it into what was seen.
    fn enter(
        &mut self,
        plan: Option<&RulesPlan>,
        seen: LoadObservation,
        done: Option<Done>,
    ) -> Result<LoadObservation, DeviceError> {
        let Some((plan, (record, ids))) = plan.zip(done) else { return Ok(seen) };
        self.undo(plan, ids).map_err(broken)?;
        Ok(LoadObservation { control: Some(record), ..seen })
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

    /// The card on as many cores as the set-up says.
    fn run_carded(&self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        let lacks = |what: &str| Err(DeviceError::lacks(format!("{what} with placement card")));
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
        cores.truncate(count);
        rss_change::run((load, *plan), &self.setup, cores)
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
