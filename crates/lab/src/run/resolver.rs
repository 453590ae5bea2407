//! Resolves a specification into a run: every default explicit, each set-up, load and plan once.

use niclab_device::{Arrivals, Load, Rate, RuleBlock, Setup, Task};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_result::{Coordinate, Point, SCHEMA};

use super::{ExperimentRun, PlannedRate, Run, RunDevice, Trial};
use crate::place::{self, SweepPoint};
use crate::spec::{Assignment, Grid, Overrides, RulesFile, Spec, SpecError, TrialKind};
use crate::values::Values;
use crate::variants::REPEATS_DEFAULT;

/// Seed where none is given.
const SEED_DEFAULT: u64 = 1;

/// TOML has signed integers of 64 bits.
const SEED_MASK: u64 = i64::MAX as u64;

/// Resolves a specification into a run. `program` is the name and version of the caller.
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
    overrides.variants.check()?;
    let devices = overrides.variants.under_each(devices);
    let overrides = &with_pairs(overrides);
    let experiments = specs.iter().map(|spec| {
        let found = experiment(spec, overrides, seed, &devices);
        found.map_err(|error| error.of(&spec.name))
    });
    let experiments = experiments.collect::<Result<_, SpecError>>()?;
    let program = program.to_string();
    let (card, trace) = (overrides.card, overrides.trace.clone());
    let (rules, placement, tune) = (overrides.rules.clone(), overrides.placement, overrides.tune);
    let (schema, parts, variants) = (SCHEMA, Vec::new(), overrides.variants.clone());
    Ok(Run {
        schema,
        program,
        seed,
        card,
        trace,
        rules,
        placement,
        tune,
        baseline: None,
        variants,
        parts,
        devices,
        experiments,
    })
}

/// With variants, as many repeats as a comparison needs where none are asked for.
fn with_pairs(overrides: &Overrides) -> Overrides {
    let repeats = (!overrides.variants.is_none()).then_some(REPEATS_DEFAULT);
    Overrides { repeats: overrides.repeats.or(repeats), ..overrides.clone() }
}

/// Plans one experiment.
fn experiment(
    spec: &Spec,
    overrides: &Overrides,
    seed: u64,
    devices: &[RunDevice],
) -> Result<ExperimentRun, SpecError> {
    if !spec.kind.of().takes_rules() && overrides.rules.is_some() {
        return Err(SpecError::NoRules { experiment: spec.name.clone() });
    }
    let grid = overrides.applied(spec.kind, spec.grid(overrides.grid)?)?;
    let mut resolver = Resolver::new(spec, overrides, &grid, seed);
    grid.sweeps.plan(&mut resolver)?;
    if !overrides.variants.is_none() {
        leave_out_searches(&mut resolver.run)?;
    }
    let mut run = resolver.finish(devices);
    run.left_out.extend(left_out(&run, &overrides.set));
    Ok(run)
}

/// Takes out of an experiment what asks each variant something else: its trials would be no pairs.
fn leave_out_searches(run: &mut ExperimentRun) -> Result<(), SpecError> {
    let count = run.knees.len() + run.searches.len();
    if run.trials.is_empty() && count > 0 {
        return Err(SpecError::SearchesOnly { experiment: run.name.clone() });
    }
    if count > 0 {
        let searches = if count == 1 { "1 search".into() } else { format!("{count} searches") };
        run.left_out.push(format!("not supported: {searches} with --variant"));
    }
    run.knees.clear();
    run.searches.clear();
    Ok(())
}

/// Axes of `--set` whose values need not go with those of others: a queue has no transactions.
const CHOICES: [&str; 8] =
    ["actions", "calls", "change", "core", "group", "slice", "stack", "threads"];

/// The values of `set` that no trial has.
fn left_out(run: &ExperimentRun, set: &[Assignment]) -> Vec<String> {
    let is_axis = |name: &str| {
        CHOICES.contains(&name) && run.kind.of().axes().iter().any(|(axis, _)| *axis == name)
    };
    let of = set.iter().filter(|set| is_axis(&set.name));
    let values = of.flat_map(|set| set.values.0.iter().map(|value| (&set.name, value)));
    let is_there = |name: &str, value: &Coordinate| {
        run.trials.iter().any(|trial| trial.point.get(name) == Some(value))
    };
    values
        .filter(|(name, value)| !is_there(name, value))
        .map(|(name, value)| {
            format!(
                "no trial uses {name}={value}: it cannot be combined with the other values given"
            )
        })
        .collect()
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
        let mut run = ExperimentRun::new(&spec.name, &spec.question, spec.kind, overrides.grid);
        run.repeats = grid.repeats.max(1);
        run.budget_s = grid.budget_s.filter(|_| overrides.repeats.is_none());
        Resolver { spec, overrides, grid, seed, run }
    }

    /// The frame sizes to measure; a trace has its own.
    pub fn frames(&self, frame: &Values) -> Vec<Coordinate> {
        match &self.overrides.trace {
            Some(_) => vec![Coordinate::Word("trace".into())],
            None => frame.0.clone(),
        }
    }

    /// The index of a saturating load at a place: each trial has its rate.
    pub fn load(&mut self, place: &SweepPoint, frame: &Coordinate) -> Result<usize, SpecError> {
        self.load_of(place.traffic(self.seed), frame)
    }

    /// The index of a saturating load of these flows; a trace has its own.
    pub fn load_of(&mut self, flows: FlowSpec, frame: &Coordinate) -> Result<usize, SpecError> {
        let trace = self.overrides.trace.as_ref().map(|trace| trace.path.clone());
        let (flows, sizes) = match trace {
            Some(_) => (FlowSpec::default(), FrameSizes::default()),
            None => (flows, place::frame(frame)?),
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

    /// The index of the set-up of a place.
    pub fn setup(&mut self, place: &SweepPoint, frame: &Coordinate) -> usize {
        let setup = self.state(place, frame);
        index_of(&mut self.run.setups, setup)
    }

    /// A set-up with one more block of rules; the index of the block.
    pub fn setup_with(
        &mut self,
        place: &SweepPoint,
        frame: &Coordinate,
        block: RuleBlock,
    ) -> (usize, usize) {
        let mut setup = self.state(place, frame);
        setup.rules.push(block);
        let block = setup.rules.len() - 1;
        (index_of(&mut self.run.setups, setup), block)
    }

    /// The state of the device at a place, with the rules of a file where there is one.
    fn state(&self, place: &SweepPoint, frame: &Coordinate) -> Setup {
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

    /// Adds a trial of a task that needs no set-up, where it is new.
    pub fn task(&mut self, kind: TrialKind, point: Point, task: Task) {
        let nothing = SweepPoint::without_rules(1).setup(self.seed, 64);
        let setup = index_of(&mut self.run.setups, nothing);
        let (task, rate) = (self.run.keep(task), PlannedRate::Saturate);
        self.trial(Trial { kind, setup, task, rate, point });
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
}

/// A kind of trial that a sweep does not know, and those that it does.
pub(crate) fn no_trial(kind: TrialKind, known: &str) -> SpecError {
    let remedy = format!("use {known}");
    SpecError::OutOfRange { axis: "trials", value: kind.name().to_owned(), remedy }
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
