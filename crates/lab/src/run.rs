//! The plan of a run, with every default explicit and in the order of execution, kept as
//! `run.toml`.
//!
//! A [`Run`] that is read back measures the very same trials in the very same order; `--resume`
//! leaves out those that are finished.

mod budget;
mod order;
mod resolver;
mod supported;
mod trial;

use std::path::PathBuf;

use niclab_device::{
    Application, Counting, Detecting, DeviceInfo, Load, Plan, Processing, RoundTrips, Serving,
    Setup, Streaming, Task,
};
use niclab_result::SCHEMA;
use serde::{Deserialize, Serialize};

use self::order::order;
pub use self::resolver::resolve;
pub(crate) use self::resolver::{Resolver, index_of, no_trial, number};
pub(crate) use self::supported::{can_make, is_able, lacks, lacks_named, lacks_rules};
pub(crate) use self::trial::step;
pub use self::trial::{Knee, PlannedRate, TaskIndex, Trial, Visit};
use crate::estimate;
use crate::merge::RunPart;
use crate::placement::Placement;
use crate::published::PublishedCard;
use crate::spec::{ExperimentKind, GridName, RulesFile, SpecError, Trace, TrialKind};
use crate::throughput::Search;
use crate::variants::{DeviceVariant, Variants};

/// Everything that will be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name and version of the program that resolved it.
    pub program: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The card whose published figures are drawn beside ours.
    pub card: PublishedCard,
    /// The capture that is sent in place of generated frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The file whose rules are installed in place of generated ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesFile>,
    /// The placement of its programs, as far as it is known.
    #[serde(default, skip_serializing_if = "Placement::is_unsaid")]
    pub placement: Placement,
    /// Interrupt coalescing of the interfaces measured is off meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune: bool,
    /// The result directory of an earlier run, which the report compares this one with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
    /// Commands that run before trials, compared pair by pair.
    #[serde(default, skip_serializing_if = "Variants::is_none")]
    pub variants: Variants,
    /// The results that it was merged of; none where it was measured itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RunPart>,
    /// The measured devices.
    pub devices: Vec<RunDevice>,
    /// The experiments, in their order.
    pub experiments: Vec<ExperimentRun>,
}

/// A device of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDevice {
    /// As it was asked for; under a variant with the name of this behind it.
    pub name: String,
    /// The variant that it is measured under; none in a run without variants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<DeviceVariant>,
    /// Why it could not be opened; such a device has one failed sample and no other, until it joins
    /// a part that is resumed ([`Run::rejoin`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Its description.
    pub about: DeviceInfo,
}

impl RunDevice {
    /// The device as it was asked for, whatever the variant.
    pub fn asked(&self) -> &str {
        self.variant.as_ref().map_or(&self.name, |variant| &variant.device)
    }
}

/// One experiment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRun {
    /// Its name.
    pub name: String,
    /// The question it asks.
    pub question: String,
    /// Its kind.
    pub kind: ExperimentKind,
    /// Which of its grids.
    pub grid: GridName,
    /// How often each trial is repeated.
    pub repeats: u32,
    /// How long it will take, seconds.
    pub estimate_s: f64,
    /// How long it should take at most, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<u64>,
    /// The reductions of the grid to fit its budget, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<String>,
    /// Requested values that combine with no other one, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Each entry: repeat, device, then trials of one set-up; indices into the lists.
    pub order: Vec<Visit>,
    /// The trials.
    pub trials: Vec<Trial>,
    /// The searches after the trials.
    pub knees: Vec<Knee>,
    /// Throughputs that are searched after that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<Search>,
    /// The loads; a trial may have its own rate.
    pub loads: Vec<Load>,
    /// States of a device.
    pub setups: Vec<Setup>,
    /// The plans of the control side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<Plan>,
    /// Messages between two hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTrips>,
    /// The requests of clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
    /// Bulk data from one host to another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<Streaming>,
    /// Programs that packets go through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processings: Vec<Processing>,
    /// Requests that a key-value store serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servings: Vec<Serving>,
    /// Rules and packets that engines of an intrusion detection have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detections: Vec<Detecting>,
    /// Tuples that workers count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub countings: Vec<Counting>,
}

impl ExperimentRun {
    /// An experiment without trials.
    pub(crate) fn new(
        name: &str,
        question: &str,
        kind: ExperimentKind,
        grid: GridName,
    ) -> ExperimentRun {
        ExperimentRun {
            name: name.to_owned(),
            question: question.to_owned(),
            kind,
            grid,
            repeats: 0,
            estimate_s: 0.0,
            budget_s: None,
            taken_back: Vec::new(),
            left_out: Vec::new(),
            order: Vec::new(),
            trials: Vec::new(),
            knees: Vec::new(),
            searches: Vec::new(),
            loads: Vec::new(),
            setups: Vec::new(),
            plans: Vec::new(),
            round_trips: Vec::new(),
            applications: Vec::new(),
            streams: Vec::new(),
            processings: Vec::new(),
            servings: Vec::new(),
            detections: Vec::new(),
            countings: Vec::new(),
        }
    }

    /// The first number that is to say which of a list is meant, and says none; of so many devices.
    fn astray(&self, devices: usize) -> Option<String> {
        let trial = |(at, trial): (usize, &Trial)| {
            let what = match trial.setup < self.setups.len() {
                true if self.task(trial).is_some() => return None,
                true => format!("{:?}", trial.task),
                false => format!("set-up {}", trial.setup),
            };
            Some(format!("{}: trial {at} has {what}, which is not there", self.name))
        };
        let visit = |visit: &Visit| {
            let is_there = visit.device < devices
                && visit.trials.iter().all(|trial| *trial < self.trials.len());
            let reason = format!("{}: its order has {visit:?}, which is not there", self.name);
            (!is_there).then_some(reason)
        };
        let mut trials = self.trials.iter().enumerate();
        trials.find_map(trial).or_else(|| self.order.iter().find_map(visit))
    }

    /// Puts the parts of a task into the lists, where they are new.
    pub(crate) fn keep(&mut self, task: Task) -> TaskIndex {
        match task {
            Task::Load { load, plan } => TaskIndex::Offer {
                load: index_of(&mut self.loads, load),
                plan: (plan != Plan::Rest).then(|| index_of(&mut self.plans, plan)),
            },
            Task::Plan(plan) => {
                let plan = index_of(&mut self.plans, Plan::Rules(Box::new(plan)));
                TaskIndex::Operate { plan }
            }
            Task::RoundTrips(trips) | Task::Breakdown { trips, .. } => {
                TaskIndex::RoundTrips { round_trips: index_of(&mut self.round_trips, trips) }
            }
            Task::Requests(of) => {
                TaskIndex::Apply { application: index_of(&mut self.applications, of) }
            }
            Task::Stream(of) => TaskIndex::Stream { stream: index_of(&mut self.streams, of) },
            Task::Program(of) => {
                TaskIndex::Process { processing: index_of(&mut self.processings, of) }
            }
            Task::Store(of) => TaskIndex::Serve { serving: index_of(&mut self.servings, of) },
            Task::Detection(of) => {
                TaskIndex::Detect { detection: index_of(&mut self.detections, of) }
            }
            Task::Analytics(of) => TaskIndex::Count { counting: index_of(&mut self.countings, of) },
        }
    }

    /// The task of a trial; `None` where a number names nothing.
    pub(crate) fn task(&self, trial: &Trial) -> Option<Task> {
        let plan = |at: usize| self.plans.get(at).cloned();
        Some(match trial.task {
            TaskIndex::Offer { load, plan: at } => Task::Load {
                load: self.loads.get(load)?.clone(),
                plan: at.map_or(Some(Plan::Rest), plan)?,
            },
            TaskIndex::Operate { plan: at } => match plan(at)? {
                Plan::Rules(plan) => Task::Plan(*plan),
                Plan::Rest | Plan::Rss(_) => return None,
            },
            TaskIndex::RoundTrips { round_trips: at } => {
                Task::RoundTrips(self.round_trips.get(at)?.clone())
            }
            TaskIndex::Apply { application: at } => {
                Task::Requests(self.applications.get(at)?.clone())
            }
            TaskIndex::Stream { stream: at } => Task::Stream(self.streams.get(at)?.clone()),
            TaskIndex::Process { processing: at } => {
                Task::Program(self.processings.get(at)?.clone())
            }
            TaskIndex::Serve { serving: at } => Task::Store(self.servings.get(at)?.clone()),
            TaskIndex::Detect { detection: at } => {
                Task::Detection(self.detections.get(at)?.clone())
            }
            TaskIndex::Count { counting: at } => Task::Analytics(self.countings.get(at)?.clone()),
        })
    }
}

impl Run {
    /// The text of `run.toml`.
    pub fn to_toml(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|e| SpecError::BadRun { reason: e.to_string() })
    }

    /// Reads `run.toml`; refuses that of a later version, and numbers that nothing has.
    pub fn from_toml(text: &str) -> Result<Run, SpecError> {
        let bad = |e: toml::de::Error| SpecError::BadRun { reason: e.to_string() };
        let table: toml::Table = text.parse().map_err(bad)?;
        let found = table.get("schema").and_then(toml::Value::as_integer).unwrap_or(0);
        if found > i64::from(SCHEMA) {
            let program = table.get("program").and_then(toml::Value::as_str);
            let program = program.unwrap_or("a newer niclab").to_string();
            return Err(SpecError::NewerRun { found: found as u32, program });
        }
        let run: Run = toml::from_str(text).map_err(bad)?;
        // A merged run has the variants of its parts.
        let of_run = run.variants.check();
        let checked = of_run.and_then(|()| match run.parts.is_empty() {
            true => run.variants.check_devices(&run.devices),
            false => Ok(()),
        });
        checked.map_err(|error| SpecError::BadRun { reason: error.to_string() })?;
        let devices = run.devices.len();
        let astray = run.experiments.iter().find_map(|experiment| experiment.astray(devices));
        match astray {
            None => Ok(run),
            Some(reason) => Err(SpecError::BadRun { reason }),
        }
    }

    /// Takes in the devices that were absent when the run was resolved and are there now: they are
    /// measured whole. `opened` describes the devices of [`Run::asked`], in their order, as they
    /// are now. `true` where there was one; the order of all trials is drawn anew then.
    pub fn rejoin(&mut self, opened: &[RunDevice]) -> bool {
        let (mut has_joined, places) = (false, self.beds());
        for (device, at) in self.devices.iter_mut().zip(places) {
            let Some(now) = opened.get(at).filter(|now| now.absent.is_none()) else { continue };
            if device.absent.take().is_some() {
                device.about = now.about.clone();
                has_joined = true;
            }
        }
        for experiment in self.experiments.iter_mut().filter(|_| has_joined) {
            experiment.order = order(experiment, &self.devices, self.seed);
            experiment.estimate_s = estimate::seconds(experiment, &self.devices);
        }
        has_joined
    }

    /// The devices that are opened, each once, in the order in which they were asked for.
    pub fn asked(&self) -> Vec<&str> {
        asked(&self.devices)
    }

    /// The index of each device's testbed in [`Run::asked`]: variants share one.
    pub fn beds(&self) -> Vec<usize> {
        beds(&self.devices)
    }

    /// The placement of a device's measurements.
    pub fn placement_of(&self, device: &str) -> Placement {
        self.part_of(device).map_or(self.placement, |at| self.parts[at].placement)
    }

    /// The part of a merged run that a device was measured in.
    pub fn part_of(&self, device: &str) -> Option<usize> {
        self.parts.iter().position(|part| part.devices.iter().any(|name| name == device))
    }

    /// How long it will take, seconds.
    pub fn estimate_s(&self) -> f64 {
        self.experiments.iter().map(|experiment| experiment.estimate_s).sum()
    }
}

/// The names under which devices are opened, each once.
fn asked(devices: &[RunDevice]) -> Vec<&str> {
    let mut asked: Vec<&str> = Vec::new();
    for device in devices {
        if !asked.contains(&device.asked()) {
            asked.push(device.asked());
        }
    }
    asked
}

fn beds(devices: &[RunDevice]) -> Vec<usize> {
    let asked = asked(devices);
    let place = |device: &RunDevice| asked.iter().position(|name| *name == device.asked());
    devices.iter().map(|device| place(device).unwrap_or(0)).collect()
}

impl ExperimentRun {
    /// When it is cut short, seconds: at its budget. What does not fit that whatever was taken back
    /// is cut where its estimate ends.
    pub fn end_s(&self) -> Option<f64> {
        self.budget_s.map(|budget_s| (budget_s as f64).max(self.estimate_s.ceil()))
    }

    /// What was taken back of the grid to fit its budget, whether that did, and what was left out,
    /// in words.
    pub fn plan_words(&self) -> Vec<String> {
        let mut words = [&self.left_out[..], &self.taken_back].concat();
        if let Some(budget_s) = self.budget_s.filter(|b| self.estimate_s > *b as f64) {
            let estimate_s = self.estimate_s.ceil();
            words.push(format!("will take {estimate_s} s, longer than its budget of {budget_s} s"));
        }
        words
    }

    /// Rate of the trials of this kind, as a share of the maximum of their point, 0 to 1; `None`
    /// where there are none, and for those that have no rate.
    pub fn share(&self, kind: TrialKind) -> Option<f64> {
        self.trials.iter().filter(|trial| trial.kind == kind).find_map(|trial| match trial.rate {
            PlannedRate::ShareOf { share, .. } => Some(share),
            PlannedRate::Saturate | PlannedRate::Pps(_) | PlannedRate::Step { .. } => None,
        })
    }

    /// The set-up of the trials of `visit`.
    pub fn setup_of(&self, visit: &Visit) -> Option<&Setup> {
        let trial = self.trials.get(*visit.trials.first()?)?;
        self.setups.get(trial.setup)
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
