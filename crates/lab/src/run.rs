//! What will run: everything explicit, in the order in which it will run, kept as `run.toml`.
//!
//! A [`Run`] that is read back measures the very same trials in the very same order; `--resume`
//! leaves out those that are finished.

mod throughput;

use std::collections::BTreeMap;

use niclab_device::{
    About, Application, Arrivals, Exchange, Load, Plan, Processing, Rate, RuleBlock, Serving,
    Setup, Streaming,
};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_result::{Coordinate, Point, SCHEMA};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::application::APPLICATIONS;
use crate::estimate;
use crate::exchange::ECHO;
use crate::kvs::STORE;
use crate::merge::RunPart;
use crate::occupancy::{self, Place};
use crate::placement::Placement;
use crate::program::PROGRAMS;
use crate::published::Card;
use crate::spec::{
    Assignment, Grid, GridName, Hits, Kind, KneeSpec, Overrides, RulesFile, Spec, SpecError, Sweep,
    Trace, TrialKind,
};
use crate::stream::STREAM;
use crate::throughput::Search;
use crate::values::Values;

/// Seed where none is given.
const SEED_DEFAULT: u64 = 1;
/// TOML has signed integers of 64 bits.
const SEED_MASK: u64 = i64::MAX as u64;
/// Flows of the trials of a knee.
const FLOWS_DEFAULT: u32 = 10_000;

/// Everything that will be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Name and version of the program that resolved it.
    pub program: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Whose published figures are drawn beside ours.
    pub card: Card,
    /// The capture that is sent in place of generated frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// The file whose rules are installed in place of generated ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesFile>,
    /// Where its programs ran, as far as it was said.
    #[serde(default, skip_serializing_if = "Placement::is_unsaid")]
    pub placement: Placement,
    /// Interrupt coalescing of the interfaces measured is off meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tune: bool,
    /// The results that it was merged of; none where it was measured itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RunPart>,
    /// What is measured.
    pub devices: Vec<RunDevice>,
    /// The experiments, in their order.
    pub experiments: Vec<ExperimentRun>,
}

/// A device of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDevice {
    /// As it was asked for.
    pub name: String,
    /// Why it could not be opened; such a device has one failed sample and no other, until it joins
    /// a part that is resumed ([`Run::rejoin`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// What it said of itself.
    pub about: About,
}

/// One experiment of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentRun {
    /// Its name.
    pub name: String,
    /// The question it asks.
    pub question: String,
    /// What kind of experiment it is.
    pub kind: Kind,
    /// Which of its grids.
    pub grid: GridName,
    /// How often each trial is repeated.
    pub repeats: u32,
    /// How long it will take, seconds.
    pub estimate_s: f64,
    /// How long it should take at most, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<u64>,
    /// What was taken back of the grid to fit its budget, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<String>,
    /// What was asked for and goes with nothing else that was, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Each entry: repeat, device, then trials of one set-up; indices into the lists.
    pub order: Vec<Visit>,
    /// What is measured, where.
    pub trials: Vec<Trial>,
    /// What is searched when the order is done.
    pub knees: Vec<Knee>,
    /// Throughputs that are searched after that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub searches: Vec<Search>,
    /// What is offered; a trial may put its own rate in.
    pub loads: Vec<Load>,
    /// States of a device.
    pub setups: Vec<Setup>,
    /// What the control side does while a load runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<Plan>,
    /// Messages between two hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Exchange>,
    /// What clients ask of servers.
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
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What is asked.
    pub kind: TrialKind,
    /// Index of the set-up.
    pub setup: usize,
    /// What is done.
    #[serde(flatten)]
    pub task: Task,
    /// Its rate.
    pub rate: PlannedRate,
    /// Where in the sweep.
    pub point: Point,
}

impl Trial {
    /// What it needs lies in memory: it has nothing set up.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.task, Task::Process { .. } | Task::Serve { .. })
    }

    /// Index of its load, where frames are sent.
    pub fn load(&self) -> Option<usize> {
        match self.task {
            Task::Offer { load, .. } => Some(load),
            _ => None,
        }
    }

    /// Index of its plan, where the control side has one.
    pub fn plan(&self) -> Option<usize> {
        match self.task {
            Task::Offer { plan, .. } => plan,
            Task::Operate { plan } => Some(plan),
            _ => None,
        }
    }
}

/// What a trial has a device do. Each number is an index into the list of the [`ExperimentRun`]
/// that is named like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a trial has one of: load, alone or with a plan; plan; exchange; application; \
                 stream; processing; serving"
)]
pub enum Task {
    /// Take a load while the control side carries out a plan.
    Offer {
        /// The load.
        load: usize,
        /// The plan; none: the control side rests.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<usize>,
    },
    /// Carry out a plan; no packet is sent.
    Operate {
        /// The plan.
        plan: usize,
    },
    /// Let messages go to and fro; in a ledger, stamped.
    Exchange {
        /// The messages.
        exchange: usize,
    },
    /// Let clients ask a server.
    Apply {
        /// What they ask.
        application: usize,
    },
    /// Carry bulk data.
    Stream {
        /// The data.
        stream: usize,
    },
    /// Let packets in memory through a program.
    Process {
        /// The program.
        processing: usize,
    },
    /// Let a key-value store serve requests in memory.
    Serve {
        /// The requests.
        serving: usize,
    },
}

impl Task {
    /// A load beside which the control side rests.
    pub fn offer(load: usize) -> Task {
        Task::Offer { load, plan: None }
    }
}

/// A rate that may hang on another trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannedRate {
    /// As much as the device takes.
    Saturate,
    /// So many frames a second.
    Pps(f64),
    /// So many frames a second, and others in the middle third of the measured part.
    Step {
        /// In the first and last third.
        low_pps: f64,
        /// In the middle one.
        high_pps: f64,
    },
    /// `share` of the median throughput that the `saturate` trial `of` has shown when this trial is
    /// first measured; its other repeats keep that rate.
    ShareOf {
        /// Index of the trial.
        of: usize,
        /// The share, above 0.
        share: f64,
    },
}

/// A search for a knee.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// What is searched.
    pub spec: KneeSpec,
    /// Index of the load of its trials; where they hit rules, that of the largest number of these.
    pub load: usize,
    /// Where, with the number of rules left open.
    pub place: Place,
    /// Seed of its flows.
    pub seed: u64,
    /// Longest frame of its load, bytes with FCS.
    #[serde(default)]
    pub frame_len_max: u16,
}

/// Trials of one set-up, made one after the other on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<usize>", into = "Vec<usize>")]
pub struct Visit {
    /// Repeat, from 0.
    pub repeat: usize,
    /// Index of the device.
    pub device: usize,
    /// Indices of the trials.
    pub trials: Vec<usize>,
}

impl From<Vec<usize>> for Visit {
    fn from(numbers: Vec<usize>) -> Visit {
        let number = |i: usize| numbers.get(i).copied().unwrap_or(0);
        let trials = numbers.get(2..).unwrap_or_default().to_vec();
        Visit { repeat: number(0), device: number(1), trials }
    }
}

impl From<Visit> for Vec<usize> {
    fn from(visit: Visit) -> Vec<usize> {
        let head = [visit.repeat, visit.device];
        head.into_iter().chain(visit.trials).collect()
    }
}

/// What will be done, of what was typed. `program` is the name and version of the caller.
pub fn resolve(
    program: &str,
    specs: &[Spec],
    overrides: &Overrides,
    devices: Vec<RunDevice>,
) -> Result<Run, SpecError> {
    if devices.is_empty() {
        return Err(SpecError::NoDevice);
    }
    let seed = overrides.seed.unwrap_or(SEED_DEFAULT) & SEED_MASK;
    overrides.check_axes(specs)?;
    let experiments = specs.iter().map(|spec| {
        let found = experiment(spec, overrides, seed, &devices);
        found.map_err(|error| error.of(&spec.name))
    });
    let experiments = experiments.collect::<Result<_, SpecError>>()?;
    let program = program.to_string();
    let (card, trace) = (overrides.card, overrides.trace.clone());
    let (rules, placement, tune) = (overrides.rules.clone(), overrides.placement, overrides.tune);
    let (schema, parts) = (SCHEMA, Vec::new());
    Ok(Run {
        schema,
        program,
        seed,
        card,
        trace,
        rules,
        placement,
        tune,
        parts,
        devices,
        experiments,
    })
}

/// Plans one experiment.
fn experiment(
    spec: &Spec,
    overrides: &Overrides,
    seed: u64,
    devices: &[RunDevice],
) -> Result<ExperimentRun, SpecError> {
    let has_rules = !matches!(
        spec.kind,
        Kind::HashSkew
            | Kind::FrameSize
            | Kind::QueueScaling
            | Kind::QueueChange
            | Kind::Echo
            | Kind::Ledger
            | Kind::Application
            | Kind::Stream
            | Kind::ProgramCost
            | Kind::KvsSteering
    );
    if !has_rules && overrides.rules.is_some() {
        return Err(SpecError::NoRules { experiment: spec.name.clone() });
    }
    let grid = overrides.applied(spec.kind, spec.grid(overrides.grid))?;
    let mut resolver = Resolver::new(spec, overrides, &grid, seed);
    match spec.kind {
        Kind::Occupancy => {
            resolver.add_sweeps()?;
            resolver.add_knees()?;
            resolver.add_searches()?;
        }
        Kind::UpdateBatch => resolver.add_batches()?,
        Kind::UpdateRate => resolver.add_renewals()?,
        Kind::RuleRate => resolver.add_insertions()?,
        Kind::RuleUpdate => resolver.add_changes()?,
        Kind::HashSkew => resolver.add_spreads()?,
        Kind::FrameSize => resolver.add_sizes()?,
        Kind::QueueScaling => resolver.add_scalings()?,
        Kind::QueueChange => resolver.add_respreads()?,
        Kind::Echo => resolver.add_exchanges(&grid.echo, TrialKind::Echo)?,
        Kind::Ledger => resolver.add_exchanges(&grid.ledger, TrialKind::Ledger)?,
        Kind::Application => resolver.add_applications(&grid.application)?,
        Kind::Stream => resolver.add_streams(&grid.stream)?,
        Kind::ProgramCost => resolver.add_programs(&grid.program)?,
        Kind::KvsSteering => resolver.add_servings(&grid.serving)?,
    }
    let run = resolver.finish(devices);
    Ok(ExperimentRun { left_out: left_out(&run, &overrides.set), ..run })
}

/// Axes of `--set` whose values need not go with those of others: a queue has no transactions.
const CHOICES: [&str; 8] =
    ["actions", "calls", "change", "core", "group", "slice", "stack", "threads"];

/// What of `set` no trial has.
fn left_out(run: &ExperimentRun, set: &[Assignment]) -> Vec<String> {
    let is_axis = |name: &str| {
        CHOICES.contains(&name) && run.kind.axes().iter().any(|(axis, _)| *axis == name)
    };
    let of = set.iter().filter(|set| is_axis(&set.name));
    let values = of.flat_map(|set| set.values.0.iter().map(|value| (&set.name, value)));
    let is_there = |name: &str, value: &Coordinate| {
        run.trials.iter().any(|trial| trial.point.get(name) == Some(value))
    };
    values
        .filter(|(name, value)| !is_there(name, value))
        .map(|(name, value)| format!("nothing is asked at {name}={value}: it goes with no other"))
        .collect()
}

impl Run {
    /// The text of `run.toml`.
    pub fn to_toml(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|e| SpecError::BadRun { reason: e.to_string() })
    }

    /// Reads `run.toml`; refuses that of a later version.
    pub fn from_toml(text: &str) -> Result<Run, SpecError> {
        let bad = |e: toml::de::Error| SpecError::BadRun { reason: e.to_string() };
        let table: toml::Table = text.parse().map_err(bad)?;
        let found = table.get("schema").and_then(toml::Value::as_integer).unwrap_or(0);
        if found > i64::from(SCHEMA) {
            let program = table.get("program").and_then(toml::Value::as_str);
            let program = program.unwrap_or("a newer niclab").to_string();
            return Err(SpecError::NewerRun { found: found as u32, program });
        }
        toml::from_str(text).map_err(bad)
    }

    /// Takes in the devices that were absent when the run was resolved and are there now: they are
    /// measured whole. `opened` describes the run's devices, in their order, as they are now.
    /// `true` where there was one; the order of all trials is drawn anew then.
    pub fn rejoin(&mut self, opened: &[RunDevice]) -> bool {
        let mut has_joined = false;
        for (device, now) in self.devices.iter_mut().zip(opened) {
            if device.absent.is_some() && now.absent.is_none() {
                *device = now.clone();
                has_joined = true;
            }
        }
        for experiment in self.experiments.iter_mut().filter(|_| has_joined) {
            experiment.order = order(experiment, &self.devices, self.seed);
            experiment.estimate_s = estimate::seconds(experiment, &self.devices);
        }
        has_joined
    }

    /// Where the programs of a device's measurements ran.
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

/// Builds one experiment of a run.
pub(crate) struct Resolver<'a> {
    pub spec: &'a Spec,
    pub overrides: &'a Overrides,
    pub grid: &'a Grid,
    pub seed: u64,
    pub run: ExperimentRun,
}

impl<'a> Resolver<'a> {
    fn new(spec: &'a Spec, overrides: &'a Overrides, grid: &'a Grid, seed: u64) -> Resolver<'a> {
        let run = ExperimentRun {
            name: spec.name.clone(),
            question: spec.question.clone(),
            kind: spec.kind,
            grid: overrides.grid,
            repeats: grid.repeats.max(1),
            estimate_s: 0.0,
            budget_s: grid.budget_s.filter(|_| overrides.repeats.is_none()),
            taken_back: Vec::new(),
            left_out: Vec::new(),
            order: Vec::new(),
            trials: Vec::new(),
            knees: Vec::new(),
            searches: Vec::new(),
            loads: Vec::new(),
            setups: Vec::new(),
            plans: Vec::new(),
            exchanges: Vec::new(),
            applications: Vec::new(),
            streams: Vec::new(),
            processings: Vec::new(),
            servings: Vec::new(),
        };
        Resolver { spec, overrides, grid, seed, run }
    }

    fn add_sweeps(&mut self) -> Result<(), SpecError> {
        for sweep in &self.grid.sweep {
            for place in places(&self.narrowed(sweep))? {
                place.check()?;
                for frame in self.frames(&sweep.frame) {
                    self.add_trials(&place, &frame, &sweep.trials)?;
                    self.add_fixed(&place, &frame, &sweep.rate)?;
                }
            }
        }
        Ok(())
    }

    /// A trace brings its own flows and frames, a file of rules its own groups and rules: these
    /// axes have no meaning then. Which traffic a file's rules match is not known.
    fn narrowed(&self, sweep: &Sweep) -> Sweep {
        let mut sweep = sweep.clone();
        if let Some(trace) = &self.overrides.trace {
            sweep.flows = Values::number(trace.frames.flows.into());
            sweep.match_percent = Values::number(0);
        }
        if let Some(rules) = &self.overrides.rules {
            sweep.groups = Values::number(0);
            sweep.rules = Values::number(rules.rules_count.into());
            sweep.match_percent = Values::number(0);
        }
        sweep
    }

    pub fn frames(&self, frame: &Values) -> Vec<Coordinate> {
        match &self.overrides.trace {
            Some(_) => vec![Coordinate::Word("trace".into())],
            None => frame.0.clone(),
        }
    }

    fn add_trials(
        &mut self,
        place: &Place,
        frame: &Coordinate,
        kinds: &[TrialKind],
    ) -> Result<usize, SpecError> {
        let task = Task::offer(self.load(place, frame)?);
        let mut point = place.point();
        point.insert("frame".into(), frame.clone());
        let setup = self.setup(place, frame);
        let trial = |kind, rate| {
            let point = point.clone();
            Trial { kind, setup, task, rate, point }
        };
        let of = self.trial(trial(TrialKind::Saturate, PlannedRate::Saturate));
        for kind in kinds {
            let share = match kind {
                TrialKind::Saturate => continue,
                TrialKind::Latency => self.spec.latency_share,
                TrialKind::Light => self.spec.light_share,
                _ => return Err(no_trial(*kind, "saturate, latency, light")),
            };
            self.trial(trial(*kind, PlannedRate::ShareOf { of, share }));
        }
        Ok(of)
    }

    pub fn load(&mut self, place: &Place, frame: &Coordinate) -> Result<usize, SpecError> {
        self.load_of(place.traffic(self.seed), frame)
    }

    /// A load of these flows; a trace has its own.
    pub fn load_of(&mut self, flows: FlowSpec, frame: &Coordinate) -> Result<usize, SpecError> {
        let trace = self.overrides.trace.as_ref().map(|trace| trace.path.clone());
        let (flows, sizes) = match trace {
            Some(_) => (FlowSpec::default(), FrameSizes::default()),
            None => (flows, occupancy::frame(frame)?),
        };
        let load = Load {
            flows,
            sizes,
            rate: Rate::Saturate,
            arrivals: Arrivals::Constant,
            duration_ns: self.grid.duration_ms * 1_000_000,
            warmup_ns: self.grid.warmup_ms * 1_000_000,
            seed: self.seed,
            trace,
        };
        Ok(index_of(&mut self.run.loads, load))
    }

    pub fn setup(&mut self, place: &Place, frame: &Coordinate) -> usize {
        let setup = self.state(place, frame);
        index_of(&mut self.run.setups, setup)
    }

    /// A set-up with one more block of rules; the index of the block.
    pub fn setup_with(
        &mut self,
        place: &Place,
        frame: &Coordinate,
        block: RuleBlock,
    ) -> (usize, usize) {
        let mut setup = self.state(place, frame);
        setup.rules.push(block);
        let block = setup.rules.len() - 1;
        (index_of(&mut self.run.setups, setup), block)
    }

    /// The state of the device at a place, with the rules of a file where there is one.
    fn state(&self, place: &Place, frame: &Coordinate) -> Setup {
        let mut setup = place.setup(self.seed, self.frame_len_max(frame));
        if let Some(RulesFile { path, rules_count, queues, .. }) = self.overrides.rules.clone() {
            (setup.rules, setup.queues) = (vec![RuleBlock::File { path, rules_count }], queues);
        }
        setup
    }

    /// Longest frame of a load, bytes with FCS.
    pub fn frame_len_max(&self, frame: &Coordinate) -> u16 {
        match (&self.overrides.trace, frame) {
            (Some(trace), _) => trace.frames.frame_len_max,
            (None, Coordinate::Number(bytes)) => *bytes as u16,
            (None, Coordinate::Word(_)) => FrameSizes::Imix.max(),
        }
    }

    /// The index of this trial, which is added where it is new.
    pub fn trial(&mut self, trial: Trial) -> usize {
        let same = |t: &Trial| t.kind == trial.kind && t.point == trial.point;
        match self.run.trials.iter().position(same) {
            Some(at) => at,
            None => {
                self.run.trials.push(trial);
                self.run.trials.len() - 1
            }
        }
    }

    fn add_knees(&mut self) -> Result<(), SpecError> {
        let of_trace = self.overrides.trace.as_ref().map(|trace| trace.frames.flows);
        let flows = of_trace.unwrap_or(FLOWS_DEFAULT);
        // The frames of a trace are no hits.
        let can_hit = of_trace.is_none();
        for spec in self.grid.knee.iter().filter(|spec| can_hit || spec.match_percent == 0) {
            let place = Place {
                groups: spec.groups,
                rules: 0,
                match_percent: spec.match_percent,
                hits: if spec.match_percent > 0 { Hits::Rules } else { Hits::Flows },
                flows,
            };
            let frame = Coordinate::Number(64.0);
            let longest = place.with_rules(spec.rules_max);
            longest.check()?;
            let load = self.load(&longest, &frame)?;
            let (seed, frame_len_max) = (self.seed, self.frame_len_max(&frame));
            self.run.knees.push(Knee { spec: spec.clone(), load, place, seed, frame_len_max });
        }
        Ok(())
    }

    /// Puts the trials in order; where they do not fit the budget, takes repeats back down to the
    /// floor of the grid, then time, and says so.
    fn finish(mut self, devices: &[RunDevice]) -> ExperimentRun {
        let planned = self.run.clone();
        loop {
            self.run.order = order(&self.run, devices, self.seed);
            self.run.estimate_s = estimate::seconds(&self.run, devices);
            let fits = self.run.budget_s.is_none_or(|b| self.run.estimate_s <= b as f64);
            if fits || !take_back(&mut self.run, self.grid.repeats_min) {
                break;
            }
        }
        self.run.taken_back = taken_back(&planned, &self.run);
        self.run
    }
}

/// A kind of trial that a sweep does not know, and those that it does.
pub(crate) fn no_trial(kind: TrialKind, known: &str) -> SpecError {
    let remedy = format!("use {known}");
    SpecError::OutOfRange { axis: "trials", value: kind.name().to_owned(), remedy }
}

/// Makes a run shorter: one repeat less, then half the duration; `false` at the end.
fn take_back(run: &mut ExperimentRun, repeats_min: u32) -> bool {
    const DURATION_NS_MIN: u64 = 10_000_000;
    if run.repeats > repeats_min.max(1) {
        run.repeats -= 1;
        return true;
    }
    let long = |load: &&mut Load| load.duration_ns > DURATION_NS_MIN;
    let mut taken = false;
    for load in run.loads.iter_mut().filter(long) {
        load.duration_ns /= 2;
        taken = true;
    }
    let long = |exchange: &&mut Exchange| exchange.echo.duration_ns > DURATION_NS_MIN;
    for exchange in run.exchanges.iter_mut().filter(long) {
        exchange.echo.duration_ns /= 2;
        taken = true;
    }
    let long = |application: &&mut Application| application.requests.duration_ns > DURATION_NS_MIN;
    for application in run.applications.iter_mut().filter(long) {
        application.requests.duration_ns /= 2;
        taken = true;
    }
    let long = |streaming: &&mut Streaming| streaming.stream.duration_ns > DURATION_NS_MIN;
    for streaming in run.streams.iter_mut().filter(long) {
        streaming.stream.duration_ns /= 2;
        taken = true;
    }
    let long = |processing: &&mut Processing| processing.duration_ns > DURATION_NS_MIN;
    for processing in run.processings.iter_mut().filter(long) {
        processing.duration_ns /= 2;
        taken = true;
    }
    let long = |serving: &&mut Serving| serving.duration_ns > DURATION_NS_MIN;
    for serving in run.servings.iter_mut().filter(long) {
        serving.duration_ns /= 2;
        taken = true;
    }
    for plan in run.plans.iter_mut().filter(|_| taken) {
        if let Plan::Rules(plan) = plan {
            plan.start_ns /= 2;
        }
    }
    taken
}

/// What `run` has less than was `planned`, in words.
fn taken_back(planned: &ExperimentRun, run: &ExperimentRun) -> Vec<String> {
    let Some(budget_s) = run.budget_s else {
        return Vec::new();
    };
    let mut words = Vec::new();
    if run.repeats < planned.repeats {
        words.push(format!(
            "{} of {} repeats, to fit the budget of {budget_s} s",
            run.repeats, planned.repeats
        ));
    }
    // All loads are halved together, and so are all exchanges, applications, streams and so on.
    let duration_ms = |run: &ExperimentRun| {
        let of_load = run.loads.last().map(|load| load.duration_ns);
        let of_exchange = run.exchanges.last().map(|exchange| exchange.echo.duration_ns);
        let of_application = run.applications.last().map(|asked| asked.requests.duration_ns);
        let of_stream = run.streams.last().map(|streaming| streaming.stream.duration_ns);
        let of_program = run.processings.last().map(|processing| processing.duration_ns);
        let of_store = run.servings.last().map(|serving| serving.duration_ns);
        let of_memory = of_program.or(of_store);
        let duration_ns = of_load.or(of_exchange).or(of_application).or(of_stream).or(of_memory);
        duration_ns.map(|ns| ns as f64 / 1e6)
    };
    let durations = duration_ms(planned).zip(duration_ms(run)).filter(|(before, now)| now < before);
    if let Some((before, now)) = durations {
        words.push(format!("{now} of {before} ms a trial, to fit the budget of {budget_s} s"));
    }
    words
}

pub(crate) fn index_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    match list.iter().position(|known| *known == item) {
        Some(at) => at,
        None => {
            list.push(item);
            list.len() - 1
        }
    }
}

/// All places of a sweep: the product of its axes.
fn places(sweep: &Sweep) -> Result<Vec<Place>, SpecError> {
    let numbers = |axis: &'static str, values: &Values| {
        values.0.iter().map(|value| number(axis, value)).collect::<Result<Vec<u32>, _>>()
    };
    let groups = numbers("groups", &sweep.groups)?;
    let rules = numbers("rules", &sweep.rules)?;
    let percents = numbers("match_percent", &sweep.match_percent)?;
    let flows = numbers("flows", &sweep.flows)?;
    let mut places = Vec::new();
    for &groups in &groups {
        for &rules in &rules {
            for &match_percent in &percents {
                let hits = sweep.hits;
                let place =
                    |flows: &u32| Place { groups, rules, match_percent, hits, flows: *flows };
                places.extend(flows.iter().map(place));
            }
        }
    }
    Ok(places)
}

pub(crate) fn number(axis: &'static str, value: &Coordinate) -> Result<u32, SpecError> {
    let refuse = |remedy: &str| SpecError::OutOfRange {
        axis,
        value: value.to_string(),
        remedy: remedy.to_string(),
    };
    match value {
        Coordinate::Number(number) if *number <= f64::from(u32::MAX) => Ok(*number as u32),
        Coordinate::Number(_) => Err(refuse("use at most 4294967295")),
        Coordinate::Word(_) => Err(refuse("give numbers, such as 0,1k,64k")),
    }
}

/// Every trial of every repeat, set-ups and devices in random order within a repeat. What is
/// compared comes one behind the other: of a program the devices, of requests in memory the modes,
/// too.
fn order(run: &ExperimentRun, devices: &[RunDevice], seed: u64) -> Vec<Visit> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut by_setup: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, trial) in run.trials.iter().enumerate().filter(|(_, of)| !of.is_in_memory()) {
        by_setup.entry(trial.setup).or_default().push(at);
    }
    let mut compared = compared(run);
    let mut order = Vec::new();
    for repeat in 0..run.repeats as usize {
        compared.shuffle(&mut random);
        for trials in &compared {
            let mut visits = Vec::new();
            for &at in trials {
                let able = |(_, of): &(usize, &RunDevice)| can_make(of, run, at);
                let able = devices.iter().enumerate().filter(able).map(|(device, _)| device);
                visits.extend(able.map(|device| Visit { repeat, device, trials: vec![at] }));
            }
            visits.shuffle(&mut random);
            order.extend(visits);
        }
        let mut visits = Vec::new();
        for (device, about) in devices.iter().enumerate() {
            for trials in by_setup.values() {
                let able = trials.iter().copied().filter(|&at| can_make(about, run, at));
                let able: Vec<usize> = able.collect();
                if !able.is_empty() {
                    let trials = shuffled(run, &able, &mut random);
                    visits.push(Visit { repeat, device, trials });
                }
            }
        }
        visits.shuffle(&mut random);
        order.extend(visits);
    }
    order
}

/// Trials in memory by what is compared: those that differ in their mode alone.
fn compared(run: &ExperimentRun) -> Vec<Vec<usize>> {
    let place = |at: usize| {
        let mut point = run.trials[at].point.clone();
        point.remove("mode");
        point
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in (0..run.trials.len()).filter(|&at| run.trials[at].is_in_memory()) {
        match groups.iter_mut().find(|group| place(group[0]) == place(at)) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

/// `false` where a device said beforehand that it cannot be brought into this state.
pub(crate) fn is_able(device: &RunDevice, setup: &Setup) -> bool {
    device.absent.is_none() && (setup.rules.is_empty() || !lacks_rules(device))
}

/// `false` where a device said beforehand that it cannot make this trial.
pub(crate) fn can_make(device: &RunDevice, run: &ExperimentRun, trial: usize) -> bool {
    lacks(device, run, trial).is_none() && device.absent.is_none()
}

/// What a device said beforehand that it lacks for this trial.
pub(crate) fn lacks(device: &RunDevice, run: &ExperimentRun, trial: usize) -> Option<&'static str> {
    let trial = &run.trials[trial];
    let needs_rules = trial.plan().is_some() || !run.setups[trial.setup].rules.is_empty();
    if needs_rules && lacks_rules(device) {
        return Some("rules");
    }
    let about = &device.about;
    let has_hosts = !about.hosts.is_empty();
    match trial.task {
        Task::Offer { .. } if lacks_named(device, FRAMES) => Some(FRAMES),
        Task::Exchange { .. } if !has_hosts => Some(ECHO),
        Task::Apply { .. } if !has_hosts => Some(APPLICATIONS),
        Task::Stream { .. } if !has_hosts => Some(STREAM),
        Task::Process { .. } if about.programmed.is_empty() => Some(PROGRAMS),
        Task::Serve { .. } if about.serving.is_empty() => Some(STORE),
        _ => None,
    }
}

/// What a device that takes no frames of a generator says that it lacks.
pub(crate) const FRAMES: &str = "frames";

/// `true` where a device said beforehand that it has no rules.
pub(crate) fn lacks_rules(device: &RunDevice) -> bool {
    lacks_named(device, "rules")
}

/// `true` where a device said beforehand that it lacks this.
pub(crate) fn lacks_named(device: &RunDevice, capability: &str) -> bool {
    device.about.not_supported.iter().any(|lacking| lacking == capability)
}

/// Trials in random order, but those whose rate hangs on others after them.
fn shuffled(run: &ExperimentRun, trials: &[usize], random: &mut impl RngExt) -> Vec<usize> {
    let mut trials = trials.to_vec();
    trials.shuffle(random);
    trials.sort_by_key(|&at| run.trials[at].rate != PlannedRate::Saturate);
    trials
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
