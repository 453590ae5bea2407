//! The state of a device in an experiment: its samples, and the trials that it cannot make.
//!
//! The runner asks before each trial, the summary when it looks for what is missing: both go by the
//! same answers.

use std::collections::{BTreeMap, BTreeSet};

use niclab_device::Plan;
use niclab_device::capability::{ECHO, FRAMES, RULES, STAMPS, STREAM};
use niclab_result::{Mark, Outcome, Point, Sample};

use crate::run::{
    ExperimentRun, PlannedRate, RunDevice, TaskIndex, Trial, lacks_named, lacks_rules,
};
use crate::runner::SETUP;
use crate::spec::TrialKind;

/// What is kept of a sample.
#[derive(Clone, Debug)]
pub(crate) struct SampleFacts {
    /// What became of it.
    pub outcome: Outcome,
    /// Where it was measured.
    pub throughput_pps: Option<f64>,
    /// Stalls of the machine stand in it.
    pub disturbed: bool,
}

/// Tells one measurement of a device from its others: trial, repeat, and the words of the point,
/// which are unique, for its map is ordered.
type MeasurementKey = (String, u32, String);

fn key(trial: &str, repeat: u32, point: &Point) -> MeasurementKey {
    let place = point.iter().map(|(axis, at)| format!("{axis}={at} ")).collect();
    (trial.to_string(), repeat, place)
}

/// One device in one experiment.
pub(crate) struct DeviceSamples<'a> {
    /// The experiment.
    pub experiment: &'a ExperimentRun,
    /// It was absent or broke, and has done nothing since.
    pub gone: bool,
    /// It has no rules.
    pub no_rules: bool,
    /// It takes no frames of a generator.
    no_frames: bool,
    /// Its latest sample of each measurement, but those with which it went away.
    seen: BTreeMap<MeasurementKey, SampleFacts>,
    /// The rate at which a trial was first measured, in place of a repeat 0.
    rates: BTreeMap<MeasurementKey, f64>,
    /// Set-ups it could not be brought into.
    setups: BTreeSet<usize>,
    /// Trials it cannot make, such as `latency`: at one frame size or, without one, at all.
    trials: BTreeSet<(String, Option<String>)>,
    /// Trials it cannot make at one point, in place of a repeat 0.
    points: BTreeSet<MeasurementKey>,
}

impl<'a> DeviceSamples<'a> {
    /// What those of `samples` say that are of this device and experiment, the earliest first.
    pub fn of<'s>(
        experiment: &'a ExperimentRun,
        device: &RunDevice,
        samples: impl IntoIterator<Item = &'s Sample>,
    ) -> DeviceSamples<'a> {
        let mut known = DeviceSamples {
            experiment,
            gone: false,
            no_rules: lacks_rules(device),
            no_frames: lacks_named(device, FRAMES),
            seen: BTreeMap::new(),
            rates: BTreeMap::new(),
            setups: BTreeSet::new(),
            trials: BTreeSet::new(),
            points: BTreeSet::new(),
        };
        let is_of = |s: &&Sample| s.device == device.name && s.experiment == experiment.name;
        samples.into_iter().filter(is_of).for_each(|sample| known.add(sample));
        known
    }

    /// Takes in one more sample of the device.
    pub fn add(&mut self, sample: &Sample) {
        self.gone = matches!(sample.outcome, Outcome::Failed { dropped: true, .. });
        if self.gone {
            return;
        }
        match &sample.outcome {
            Outcome::NotSupported { capability } => self.learn_lack(sample, capability),
            Outcome::Failed { .. } if sample.trial == SETUP => self.bar_setup(&sample.point),
            Outcome::Failed { .. } => {}
            Outcome::Measured | Outcome::Refused { .. } if self.setups.is_empty() => {}
            Outcome::Measured | Outcome::Refused { .. } => {
                let setup = self.setup_at(&sample.point);
                setup.map(|setup| self.setups.remove(&setup));
            }
        }
        let throughput_pps = sample.metrics.get("throughput_pps").map(|quantity| quantity.value);
        let rate_pps = sample.load.pointer("/rate/pps").and_then(serde_json::Value::as_f64);
        if let Some(rate_pps) = rate_pps.filter(|_| throughput_pps.is_some()) {
            self.rates.entry(key(&sample.trial, 0, &sample.point)).or_insert(rate_pps);
        }
        let disturbed = sample.marks.contains(&Mark::Disturbed);
        let seen = SampleFacts { outcome: sample.outcome.clone(), throughput_pps, disturbed };
        self.seen.insert(key(&sample.trial, sample.repeat, &sample.point), seen);
    }

    /// A capability bars no more than what it was asked for.
    fn learn_lack(&mut self, sample: &Sample, capability: &str) {
        let frame = || sample.point.get("frame").map(ToString::to_string);
        match (sample.trial.as_str(), capability) {
            (_, RULES) => self.no_rules = true,
            (SETUP, _) => self.bar_setup(&sample.point),
            (trial, "frame_size") => drop(self.trials.insert((trial.into(), frame()))),
            (trial, lack) if [ECHO, STREAM, STAMPS].contains(&lack) => {
                self.trials.insert((trial.into(), None));
            }
            (trial, _) if self.is_particular(sample) => {
                self.points.insert(key(trial, 0, &sample.point));
            }
            (trial, _) => drop(self.trials.insert((trial.into(), None))),
        }
    }

    /// A trial with a plan or of one question, or one of an experiment that says so: where a device
    /// cannot make it, it may be able to make another one.
    fn is_particular(&self, sample: &Sample) -> bool {
        let is_of =
            |trial: &&Trial| trial.kind.name() == sample.trial && trial.point == sample.point;
        let found = self.experiment.trials.iter().find(is_of);
        found.is_some_and(|trial| {
            let is_plain = matches!(trial.task, TaskIndex::Offer { plan: None, .. });
            !is_plain || self.experiment.kind.of().lacks_by_point()
        })
    }

    fn bar_setup(&mut self, point: &Point) {
        self.setups.extend(self.setup_at(point));
    }

    /// The set-up of the trials at this point.
    fn setup_at(&self, point: &Point) -> Option<usize> {
        self.experiment.trials.iter().find(|trial| trial.point == *point).map(|trial| trial.setup)
    }

    /// The latest sample of a measurement.
    pub fn latest(&self, trial: &str, repeat: u32, point: &Point) -> Option<&SampleFacts> {
        self.seen.get(&key(trial, repeat, point))
    }

    /// The rate at which a trial was first measured, where it has one: that of all its repeats.
    pub fn rate_pps(&self, trial: &Trial) -> Option<f64> {
        self.rates.get(&key(trial.kind.name(), 0, &trial.point)).copied()
    }

    /// The trial whose maximum the rate of this one is a share of. Where the device cannot make the
    /// planned one, the saturating trial of the same point stands in for it.
    pub fn base(&self, trial: &Trial) -> Option<usize> {
        let PlannedRate::ShareOf { of, .. } = trial.rate else { return None };
        let trials = &self.experiment.trials;
        let is_own =
            |other: &Trial| other.kind == TrialKind::SATURATE && other.point == trial.point;
        let own = || trials.iter().position(is_own);
        let is_barred = trials.get(of).is_some_and(|base| self.is_barred(base));
        if is_barred { own().or(Some(of)) } else { Some(of) }
    }

    /// `false` where something is known that prevents the trial, or the one its rate hangs on.
    pub fn is_able(&self, trial: &Trial) -> bool {
        let base = self.base(trial).and_then(|at| self.experiment.trials.get(at));
        !self.gone && !self.is_barred(trial) && !base.is_some_and(|base| self.is_barred(base))
    }

    fn is_barred(&self, trial: &Trial) -> bool {
        let frame = trial.point.get("frame").map(ToString::to_string);
        let lacks = |frame| self.trials.contains(&(trial.kind.name().to_string(), frame));
        let plan = trial.plan().and_then(|at| self.experiment.plans.get(at));
        let needs_rules = matches!(plan, Some(Plan::Rules(_)))
            || !self.experiment.setups[trial.setup].rules.is_empty();
        self.no_rules && needs_rules
            || self.no_frames && trial.load().is_some()
            || self.setups.contains(&trial.setup)
            || self.points.contains(&key(trial.kind.name(), 0, &trial.point))
            || lacks(None)
            || lacks(frame)
    }

    /// `true` where a planned trial has no sample, and nothing prevents it.
    pub fn is_missing(&self, trial: &Trial, repeat: u32) -> bool {
        self.latest(trial.kind.name(), repeat, &trial.point).is_none() && self.is_able(trial)
    }
}
