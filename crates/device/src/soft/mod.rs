//! `soft`: the software NIC under a clocked wire.
//!
//! It runs the card that `niclab nic` runs ([`niclab_card::Card`]), on as many cores as the set-up
//! says (`driven`). Rules and RSS (`rss_change`) may change while frames come.
//! Frames come by the clock (`clocked`), so that no core generates them, or from memory (`replay`).

pub mod analytics;
mod at_once;
mod clocked;
mod driven;
pub mod ids;
mod kept_frames;
pub mod kvs;
mod nic_rules;
mod one_by_one;
mod programs;
mod replay;
mod rss_change;
mod staged;
mod threads;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Instant;

use niclab_load::{Control, Load, LoadError, LoadObservation, Rate};
use niclab_nic::rule::session::Session;
use niclab_nic::{Nic, RuleError, RuleId};

use crate::control::{Carrier, InstalledBlock, Patterns};
use crate::cores::{self, Pinned};
use crate::face::{
    self, DeviceError, DeviceInfo, Fact, Observation, PathNode, RuleBlock, Setup, SetupReport,
    Task, Testbed,
};
use crate::plan::{ControlCore, Plan, RuleWork, RulesPlan};
use crate::rule_case::{RuleCases, RuleCasesObservation};
use crate::rule_port::carry_out;
use driven::TrialSetup;
use nic_rules::NicRules;
pub use one_by_one::NicPort;

/// Frames each ring of the wire holds, as a usual receive ring.
const WIRE_DEPTH: u32 = 1_024;

/// Steps of a transaction that are settled at a time.
const HOUSEKEEPING_STEPS: usize = 1 << 16;

/// How long the traffic is offered that shows which rules it meets.
const MEETING_NS: u64 = 200_000_000;

/// The software NIC under a clocked wire.
pub struct Soft {
    about: DeviceInfo,
    /// Threads keep to cores of their own. Without it figures mean nothing, but frames are counted
    /// as ever.
    pinned: bool,
    state: Option<SoftState>,
    /// Frames that cards took in all its tasks.
    card_frames: u64,
}

/// Where the threads of a trial run; none: wherever there is room.
#[derive(Clone, Default)]
struct TrialCores {
    /// The core of the control side. `None` if threads are not pinned, or the card has all cores.
    control: Option<u32>,
    /// By core of the card.
    card: Vec<Option<u32>>,
}

impl TrialCores {
    /// The first cores this process may use, as many as a card is to have and one before them where
    /// there are more. Where threads keep to none the machine only has to have so many.
    fn choose(count: u16, is_pinned: bool) -> Result<TrialCores, DeviceError> {
        let (mut cores, count) = (cores::allowed(), usize::from(count.max(1)));
        let there = cores.len();
        if count > there {
            return Err(DeviceError::lacks(format!("{count} cores: there are {there}")));
        }
        if !is_pinned {
            return Ok(TrialCores { control: None, card: vec![None; count] });
        }
        let control = (count < there).then(|| cores.remove(0));
        Ok(TrialCores { control, card: cores.into_iter().take(count).map(Some).collect() })
    }

    /// Refuses a plan for another core than the card's where all cores are the card's.
    fn check(&self, plan: &RulesPlan) -> Result<(), DeviceError> {
        let count = self.card.len();
        let has_all = self.control.is_none() && self.card.iter().all(Option::is_some);
        match plan.core {
            ControlCore::Distinct if has_all => Err(DeviceError::lacks(format!(
                "a core beside the {count} of the card: there is none"
            ))),
            ControlCore::Distinct | ControlCore::Same => Ok(()),
        }
    }
}

/// What a set-up made.
struct SoftState {
    /// Rules and RSS by port; rules are for cards of one port.
    nics: Vec<Nic>,
    trial_cores: TrialCores,
    /// The requested value.
    setup: Setup,
    /// The rules of each block of the set-up that were created one by one, and their actions.
    blocks: Vec<InstalledBlock<RuleId>>,
}

impl Soft {
    /// A card without a set-up.
    pub fn open() -> Result<Soft, DeviceError> {
        let about = about(&TrialCores::choose(1, true)?);
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
            Some(threads) => threads::operate(&mut state.nics[0], plan, threads, self.pinned),
        };
        if matches!(done, Err(DeviceError::Broken { .. })) {
            self.state = None;
        }
        done
    }

    fn offer(&mut self, load: &Load, plan: &Plan) -> Result<LoadObservation, DeviceError> {
        let state = self.state.take().ok_or_else(|| broken("run before set-up"))?;
        // Where the card broke, whatever rules there were are gone.
        let (state, observed) = state.run(load, plan);
        self.state = state;
        self.card_frames +=
            observed.as_ref().ok().and_then(|observed| observed.card_frames).unwrap_or(0);
        observed
    }
}

fn about(trial_cores: &TrialCores) -> DeviceInfo {
    let fact = |name: &str, value: String| Fact { name: name.to_owned(), value };
    let place = |role: &str, label: String| PathNode { role: role.to_owned(), label, core: None };
    let first = trial_cores.card.first().copied().flatten();
    let first = first.map(|core| fact("first core of the card", core.to_string()));
    let kind = "niclab's network card in software; its frames come from memory, without a wire";
    let facts = [
        fact("kind", kind.to_owned()),
        fact("driver", format!("niclab {}", env!("CARGO_PKG_VERSION"))),
        fact("rules of group 0", niclab_nic::limits::ROOT_RULES_MAX.to_string()),
        fact("rules in all", niclab_nic::limits::RULES_MAX.to_string()),
        fact("clock", niclab_load::clock::Clock::new().source().to_owned()),
    ];
    DeviceInfo {
        name: "soft".to_owned(),
        facts: facts.into_iter().chain(first).collect(),
        places: vec![
            place("wire", format!("clocked wire, {WIRE_DEPTH} descriptors for each core")),
            place("device", "software NIC, on the cores of the set-up".to_owned()),
            place("function", face::Function::Forward.label().to_owned()),
        ],
        programmed: programs::places(),
        serving: kvs::places(),
        detecting: ids::places(),
        counting: analytics::places(),
        lacking: "niclab's software NIC has none".into(),
        ..DeviceInfo::default()
    }
}

impl Testbed for Soft {
    fn about(&self) -> &DeviceInfo {
        &self.about
    }

    fn setup(&mut self, setup: &Setup) -> Result<SetupReport, DeviceError> {
        check(setup)?;
        let trial_cores = TrialCores::choose(setup.cores, self.pinned)?;
        self.state = None;
        let mut nics = clocked::nics(setup, trial_cores.card.len())?;
        let nic = &mut nics[0];
        let mut report = SetupReport::default();
        let before = nic.rule_bytes();
        let blocks = setup.rules.iter().map(|block| install(nic, block, &mut report));
        let blocks = blocks.collect::<Result<Vec<InstalledBlock<RuleId>>, DeviceError>>()?;
        // Idle time that a trial does not have: tables come to rest.
        while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
        report.rules_installed = u64::from(nic.len());
        report.rule_bytes = Some((nic.rule_bytes() - before) as u64);
        report.rss = Some(nic.rss().clone());
        self.about = about(&trial_cores);
        self.state = Some(SoftState { nics, trial_cores, setup: setup.clone(), blocks });
        Ok(report)
    }

    fn measure(&mut self, task: &Task) -> Result<Observation, DeviceError> {
        match task {
            Task::Load { load, plan } => self.offer(load, plan).map(Observation::Load),
            Task::Plan(plan) => self.operate(plan).map(Observation::Plan),
            Task::Program(processing) => {
                let (observed, frames) = programs::process(processing, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Program(observed))
            }
            Task::Store(serving) => {
                let (observed, frames) = kvs::serve(serving, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Store(observed))
            }
            Task::Detection(detecting) => {
                let (observed, frames) = ids::detect(detecting, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Detection(observed))
            }
            Task::Analytics(counting) => {
                let (observed, frames) = analytics::count(counting, self.pinned)?;
                self.card_frames += frames;
                Ok(Observation::Analytics(observed))
            }
            _ => Err(task.not_supported()),
        }
    }

    fn try_rules(&mut self, cases: &RuleCases) -> Result<RuleCasesObservation, DeviceError> {
        let state = self.state.take().ok_or_else(|| broken("rules before set-up"))?;
        let nic = state.nics.into_iter().next().ok_or_else(|| broken("there is no card"))?;
        let (mut port, mut next) = (NicPort::new(nic)?, 0);
        let tried = cases.cases.iter().map(|case| carry_out(&mut port, case, &mut next));
        Ok(RuleCasesObservation { cases: tried.collect::<Result<_, _>>()? })
    }
}

/// Refuses what makes no card, and rules where a card has several ports or one core receives.
fn check(setup: &Setup) -> Result<(), DeviceError> {
    let ports = setup.ports;
    if ports == 0 || ports > 1 && !ports.is_multiple_of(2) {
        return Err(DeviceError::lacks(format!(
            "{ports} ports: a card has one, or an even number"
        )));
    }
    if setup.rules.is_empty() { Ok(()) } else { setup.check_plain() }
}

/// Offers a load to a card without rules that runs on these cores, whatever those of the calling
/// thread are.
///
/// # Errors
/// [`DeviceError`].
pub fn run_on(load: &Load, setup: &Setup, cores: Vec<u32>) -> Result<LoadObservation, DeviceError> {
    let trial_cores = TrialCores { control: None, card: cores.into_iter().map(Some).collect() };
    let (nics, blocks) = (clocked::nics(setup, trial_cores.card.len())?, Vec::new());
    SoftState { nics, trial_cores, setup: setup.clone(), blocks }.run(load, &Plan::Rest).1
}

/// Which of the rules of a set-up's files a load meets: how many decide about at least one of the
/// frames that are sent in a fifth of a second.
pub fn rules_hit(setup: &Setup, load: &Load) -> Result<u32, DeviceError> {
    let trial_cores = TrialCores { control: None, card: vec![None] };
    let mut nics = clocked::nics(setup, trial_cores.card.len())?;
    let nic = &mut nics[0];
    let mut session = Session::counting(0);
    for block in &setup.rules {
        if let RuleBlock::File { path, .. } = block {
            let (file, bad) = (open(path)?, |error| broken(format!("{}: {error}", path.display())));
            session.apply(nic, BufReader::new(file)).map_err(bad)?;
        }
    }
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
    let load = Load { rate: Rate::Saturate, duration_ns: MEETING_NS, warmup_ns: 0, ..load.clone() };
    let state = SoftState { nics, trial_cores, setup: setup.clone(), blocks: Vec::new() };
    let (state, observed) = state.run(&load, &Plan::Rest);
    observed?;
    let state = state.ok_or_else(|| broken("the card is gone"))?;
    let is_met = |id: &RuleId| state.nics[0].query(*id).is_ok_and(|counts| counts.packets > 0);
    Ok(session.ids().filter(is_met).count() as u32)
}

impl SoftState {
    /// Offers a load. The state is gone where the card broke.
    fn run(
        mut self,
        load: &Load,
        plan: &Plan,
    ) -> (Option<SoftState>, Result<LoadObservation, DeviceError>) {
        let checked = match plan {
            Plan::Rest => Ok(()),
            Plan::Rules(rules) => {
                self.setup.check_plain().and_then(|()| self.trial_cores.check(rules))
            }
            Plan::Rss(_) => self.setup.check_plain(),
        };
        if let Err(error) = checked {
            return (Some(self), Err(error));
        }
        let SoftState { nics, trial_cores, setup, blocks } = self;
        let rss = nics[0].rss().clone();
        let patterns = match plan {
            Plan::Rules(plan) => Patterns::of_plan(plan),
            Plan::Rest | Plan::Rss(_) => Ok(None),
        };
        let patterns = match patterns {
            Ok(patterns) => patterns,
            Err(error) => {
                return (Some(SoftState { nics, trial_cores, setup, blocks }), Err(error));
            }
        };
        let rules = (patterns.as_ref(), &blocks[..]);
        let offer = TrialSetup { load, setup: &setup, trial_cores: &trial_cores, plan, rules };
        let (nics, observed) = offer.run(nics);
        let Some(nics) = nics else { return (None, observed.map(|(observed, _)| observed)) };
        self = SoftState { nics, trial_cores, setup, blocks };
        let observed = observed.and_then(|(observed, ids)| {
            let undone = match plan {
                Plan::Rest => Ok(()),
                Plan::Rules(plan) => self.undo(plan, ids),
                Plan::Rss(_) => self.nics[0].set_rss(&rss),
            };
            undone.map_err(broken).map(|()| observed)
        });
        let is_broken = matches!(observed, Err(DeviceError::Broken { .. }));
        (Some(self).filter(|_| !is_broken), observed)
    }

    /// Leaves the rules of the set-up, as they were; `ids` are those that stand where the plan
    /// worked.
    fn undo(&mut self, plan: &RulesPlan, ids: Vec<Option<RuleId>>) -> Result<(), RuleError> {
        match &plan.work {
            RuleWork::Create(_) => {
                ids.into_iter().flatten().try_for_each(|id| self.nics[0].destroy(id))?;
            }
            RuleWork::Change { block, .. } | RuleWork::Renew { block, .. } => {
                if let Some(block) = self.blocks.get_mut(*block) {
                    block.restore(&mut NicRules::Single(&mut self.nics[0]), &ids)?;
                }
            }
        }
        while !self.nics[0].run_housekeeping(HOUSEKEEPING_STEPS) {}
        Ok(())
    }

    /// Carries a plan out without packets, and takes back what it did: what it created goes in the
    /// same way.
    fn operate(&mut self, plan: &RulesPlan) -> Result<Control, DeviceError> {
        let _pinned = match plan.core {
            ControlCore::Same => self.trial_cores.card[0].map(Pinned::to),
            ControlCore::Distinct => self.trial_cores.control.map(Pinned::to),
        };
        let plan = &RulesPlan { start_ns: 0, per_s: None, ..plan.clone() };
        if let RuleWork::Renew { .. } = plan.work {
            let reason = "rules are renewed as long as a load lasts, and there is none".to_owned();
            return Err(DeviceError::BadPlan { reason });
        }
        let patterns = Patterns::of_plan(plan)?;
        let (nic, rules) = (&mut self.nics[0], (patterns.as_ref(), &self.blocks[..]));
        let mut control =
            Carrier::new(plan, rules, u64::MAX, |steps| NicRules::of(plan, nic, steps))?;
        control.alone();
        let (mut record, mut ids) = control.end();
        while !self.nics[0].run_housekeeping(HOUSEKEEPING_STEPS) {}
        if let RuleWork::Create(_) = plan.work {
            let nic = &mut self.nics[0];
            let ids = std::mem::take(&mut ids);
            let mut control =
                Carrier::destroying(plan, ids, |steps| NicRules::of(plan, nic, steps))?;
            control.alone();
            record.destroyed = Some(Box::new(control.end().0));
        }
        self.undo(plan, ids).map_err(broken)?;
        Ok(record)
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
) -> Result<InstalledBlock<RuleId>, DeviceError> {
    if let RuleBlock::File { path, .. } = block {
        apply(nic, path, report)?;
    }
    InstalledBlock::install(block, NicRules::Single(nic), report)
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
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
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
