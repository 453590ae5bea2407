//! Carries a run out: sets devices up, offers loads, stores samples.
//!
//! The runner reads no clock and never sleeps: the time and the wish to stop come from its
//! [`Host`]. What is finished is stored before the next trial begins; what a store holds already is
//! not measured again. A device that breaks is recorded and left out, the others go on.

mod load_trial;
mod prepare;
mod record;
pub(crate) mod search;
mod task_trial;
pub(crate) mod throughput;

use std::collections::BTreeSet;
use std::fmt::Debug;

use niclab_device::{DeviceError, Latency, LoadObservation, Rss, Setup, Task, Testbed};
use niclab_result::{Directory, Outcome, Point, ResultError, Sample, VariantRun};

pub use self::prepare::{CommandEnd, CommandOutcome, VariantCommand};
pub(crate) use self::record::json;
use self::record::{measures, outcome, refusal};
use crate::device_samples::DeviceSamples;
use crate::estimate;
use crate::measure;
use crate::reference::ReferenceSchedule;
use crate::run::{ExperimentRun, Run, Trial, Visit};
use crate::variants::groups;

/// Name of the sample that says how the rules went in.
pub const SETUP: &str = "setup";

/// The environment of the runner: time, and messages.
pub trait Host {
    /// Nanoseconds since the Unix epoch. It never steps: it says how long a run takes.
    fn time_unix_ns(&mut self) -> u64;
    /// `true` when the user wants to stop: what is finished is kept.
    fn is_stopped(&mut self) -> bool;
    /// Something happened.
    fn progress(&mut self, event: Event<'_>);

    /// Makes the reference trial; `None` if this host makes none.
    fn reference(&mut self) -> Option<LoadObservation> {
        None
    }

    /// Runs the command of a variant and waits for its end.
    fn prepare(&mut self, _command: &VariantCommand<'_>) -> CommandOutcome {
        let end = CommandEnd::NotStarted("no command is run here".to_owned());
        CommandOutcome { end, stdout: String::new(), stderr: String::new() }
    }
}

/// A message to a [`Host`].
#[derive(Debug)]
pub enum Event<'a> {
    /// An experiment begins.
    Started {
        /// Its name.
        experiment: &'a str,
        /// How long it will take, seconds.
        estimate_s: f64,
    },
    /// A sample is stored.
    Stored {
        /// The sample.
        sample: &'a Sample,
        /// How much is done of what was estimated, 0 to 1.
        done_ratio: f64,
        /// How long it will still take, seconds, at the pace so far.
        remaining_s: f64,
    },
    /// A device is left out from here on.
    Dropped {
        /// The device.
        device: &'a str,
        /// Why, with the remedy.
        reason: &'a str,
    },
}

/// The store of samples.
pub trait Store {
    /// Keeps a sample; it is safe when this returns.
    fn append(&mut self, sample: &Sample, latency: Option<&Latency>) -> Result<(), ResultError>;
}

impl Store for Directory {
    fn append(&mut self, sample: &Sample, latency: Option<&Latency>) -> Result<(), ResultError> {
        Directory::append(self, sample, latency.map(|latency| &latency.0))
    }
}

/// A device of the run with its testbed, in the order of [`Run::asked`]; or why it is not there.
pub type OpenedDevice<'a> = Result<&'a mut dyn Testbed, String>;

/// How a run ended, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunEnd {
    /// Everything is measured.
    Complete,
    /// The budget was used up: later repeats are missing.
    OutOfTime,
    /// It came to its end, and no device has measured anything, in this part or in an earlier one;
    /// with variants: no device under two of them.
    Nothing,
    /// The user stopped it.
    Stopped,
}

/// Carries out what is missing of `run`: everything but `done`, the samples of an earlier part.
///
/// `beds` are the testbeds in the order of [`Run::asked`].
pub fn execute(
    run: &Run,
    beds: &mut [OpenedDevice<'_>],
    done: &[Sample],
    store: &mut dyn Store,
    host: &mut dyn Host,
) -> Result<RunEnd, ResultError> {
    let mut ended = RunEnd::Complete;
    let place = |sample: &Sample| run.devices.iter().position(|of| of.name == sample.device);
    let mut measured: BTreeSet<usize> =
        done.iter().filter(|sample| measures(sample)).filter_map(place).collect();
    let mut order = done.iter().map(|sample| sample.order + 1).max().unwrap_or(0);
    let mut reference = ReferenceSchedule::new(done);
    for experiment in &run.experiments {
        let mut runner = Runner::new(run, experiment, done, (store, host), &mut reference, order);
        let this = runner.execute(beds)?;
        order = runner.order;
        measured.append(&mut runner.measured);
        ended = ended.max(this);
        if this == RunEnd::Stopped {
            break;
        }
    }
    reference.end(&mut order, store, host)?;
    let least = if run.variants.is_none() { 1 } else { 2 };
    let is_something = |group: &Vec<usize>| {
        group.iter().filter(|device| measured.contains(device)).count() >= least
    };
    Ok(if groups(&run.devices).iter().any(is_something) {
        ended
    } else {
        ended.max(RunEnd::Nothing)
    })
}

/// A device as the runner has it.
struct DeviceState<'a> {
    /// What its samples say, those of this part and those of earlier ones that did not fail: what
    /// failed then is tried again.
    known: DeviceSamples<'a>,
    /// Its samples end with the word that it is gone.
    is_gone: bool,
    /// The set-up it is in.
    setup: Option<Setup>,
    /// What it said of that set-up, as far as it bears on the samples.
    refusal: Option<String>,
    /// How it says that it spreads frames over its queues then.
    rss: Option<Rss>,
    /// How often in a row the command of its variant failed.
    failures: u32,
}

struct Runner<'a> {
    run: &'a Run,
    experiment: &'a ExperimentRun,
    store: &'a mut dyn Store,
    host: &'a mut dyn Host,
    states: Vec<DeviceState<'a>>,
    /// The index of each device's testbed.
    beds: Vec<usize>,
    reference: &'a mut ReferenceSchedule,
    /// Devices that are one under its variants.
    groups: Vec<Vec<usize>>,
    /// The result of the variant's command before the current trial.
    variant_run: Option<VariantRun>,
    order: u64,
    /// Devices that have measured something.
    measured: BTreeSet<usize>,
    start_ns: u64,
    /// Estimated seconds that are behind us, and those of them that were measured just now.
    past_s: f64,
    worked_s: f64,
}

/// A point to be measured.
struct MeasuredPoint<'a> {
    device: usize,
    trial: &'a str,
    repeat: u32,
    point: &'a Point,
}

impl<'a> Runner<'a> {
    fn new(
        run: &'a Run,
        experiment: &'a ExperimentRun,
        done: &[Sample],
        (store, host): (&'a mut dyn Store, &'a mut dyn Host),
        reference: &'a mut ReferenceSchedule,
        order: u64,
    ) -> Runner<'a> {
        let start_ns = host.time_unix_ns();
        let states = run.devices.iter().map(|device| {
            let whole = done.iter().filter(|s| !matches!(s.outcome, Outcome::Failed { .. }));
            DeviceState {
                known: DeviceSamples::of(experiment, device, whole),
                is_gone: DeviceSamples::of(experiment, device, done).gone,
                setup: None,
                refusal: None,
                rss: None,
                failures: 0,
            }
        });
        Runner {
            run,
            experiment,
            states: states.collect(),
            beds: run.beds(),
            reference,
            groups: groups(&run.devices),
            variant_run: None,
            store,
            host,
            order,
            measured: BTreeSet::new(),
            start_ns,
            past_s: 0.0,
            worked_s: 0.0,
        }
    }

    fn execute(&mut self, beds: &mut [OpenedDevice<'_>]) -> Result<RunEnd, ResultError> {
        let estimate_s = self.experiment.estimate_s;
        self.host.progress(Event::Started { experiment: &self.experiment.name, estimate_s });
        self.record_absent(beds)?;
        self.record_lacks()?;
        for visit in &self.experiment.order {
            if let Some(ended) = self.end() {
                return Ok(ended);
            }
            self.visit(beds, visit)?;
            self.variant_run = None;
        }
        for at in 0..self.experiment.knees.len() {
            for device in 0..self.run.devices.len() {
                if let Some(ended) = self.end() {
                    return Ok(ended);
                }
                if let Some(ended) = self.search(beds, at, device)? {
                    return Ok(ended);
                }
            }
        }
        for at in 0..self.experiment.searches.len() {
            for device in 0..self.run.devices.len() {
                if let Some(ended) = self.end() {
                    return Ok(ended);
                }
                if let Some(ended) = self.search_throughput(beds, at, device)? {
                    return Ok(ended);
                }
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Whether it is time to end, and how.
    fn end(&mut self) -> Option<RunEnd> {
        if self.host.is_stopped() {
            return Some(RunEnd::Stopped);
        }
        let end_s = self.experiment.end_s()?;
        (self.elapsed_s() > end_s).then_some(RunEnd::OutOfTime)
    }

    /// Makes a reference trial, if one is due.
    fn refer(&mut self) -> Result<(), ResultError> {
        self.reference.step(&mut self.order, self.store, self.host)
    }

    fn elapsed_s(&mut self) -> f64 {
        self.host.time_unix_ns().saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// Seconds that a device takes for a second of a trial.
    fn pace(&self, device: usize) -> f64 {
        self.run.devices.get(device).map_or(1.0, estimate::pace)
    }

    fn visit(&mut self, beds: &mut [OpenedDevice<'_>], visit: &Visit) -> Result<(), ResultError> {
        let experiment = self.experiment;
        let Some(setup) = experiment.setup_of(visit) else {
            return Ok(());
        };
        let pace = self.pace(visit.device);
        let estimate_s = pace * estimate::visit_setup_s(experiment, visit);
        self.past_s += estimate_s;
        let repeat = visit.repeat as u32;
        let mut is_set_up = None;
        for &at in &visit.trials {
            let trial = &experiment.trials[at];
            let place = MeasuredPoint {
                device: visit.device,
                trial: trial.kind.name(),
                repeat,
                point: &trial.point,
            };
            let reckoned_s = estimate::reckoned_s(experiment, trial);
            let of_device = self.run.devices.get(visit.device);
            let load_s =
                of_device.map_or(0.0, |device| estimate::load_s(experiment, trial, device));
            let command_s = of_device.map_or(0.0, estimate::command_s);
            let lab_s = reckoned_s + load_s + command_s;
            let trial_s = pace * estimate::trial_s(experiment, trial) + lab_s;
            if !self.is_to_make(trial, &place) {
                self.past_s += trial_s;
                continue;
            }
            if !self.prepare(&place)? {
                self.past_s += trial_s;
                self.worked_s += command_s;
                continue;
            }
            if is_set_up.is_none() {
                self.refer()?;
                self.worked_s += estimate_s;
            }
            // A trial that was interrupted leaves no set-up to the next.
            let has_setup = self.states[visit.device].setup.is_some();
            if is_set_up.is_none_or(|is_set_up| is_set_up && !has_setup) {
                let point = setup_point(&trial.point);
                let at = MeasuredPoint { trial: SETUP, point: &point, ..place };
                // Where it fails the frame size may be why: the whole point is named.
                let failed = MeasuredPoint { trial: SETUP, ..place };
                is_set_up = Some(self.set_up(beds, setup, &at, &failed)?);
            }
            self.past_s += trial_s;
            self.worked_s += trial_s;
            if self.host.is_stopped() {
                break;
            }
            if is_set_up == Some(true) {
                self.trial(beds, trial, &place)?;
            }
        }
        Ok(())
    }

    /// `false` for a trial that was made, that its device cannot make, or that would have no pair.
    fn is_to_make(&self, trial: &Trial, place: &MeasuredPoint<'_>) -> bool {
        let is_able = self.states[place.device].known.is_able(trial);
        is_able && self.has_pair(place.device) && !self.is_done(place)
    }

    fn is_done(&self, place: &MeasuredPoint<'_>) -> bool {
        let known = &self.states[place.device].known;
        known.latest(place.trial, place.repeat, place.point).is_some()
    }

    /// Brings the device into the state; `false` where that is not to be had. What came of it is
    /// stored at `place`, why it could not be at `failed`.
    fn set_up(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        setup: &Setup,
        place: &MeasuredPoint<'_>,
        failed: &MeasuredPoint<'_>,
    ) -> Result<bool, ResultError> {
        let state = &self.states[place.device];
        if state.known.gone || (state.known.no_rules && !setup.rules.is_empty()) {
            return Ok(false);
        }
        if state.setup.as_ref() == Some(setup) {
            return Ok(true);
        }
        let Some(Ok(bed)) = beds.get_mut(self.beds[place.device]) else {
            return Ok(false);
        };
        self.states[place.device].setup = None;
        match bed.setup(setup) {
            Err(error) => self.record_error(failed, error).map(|()| false),
            Ok(report) => {
                let state = &mut self.states[place.device];
                state.setup = Some(setup.clone());
                state.refusal = refusal(&report);
                state.rss = report.rss.clone();
                if setup.rules.is_empty() || self.is_done(place) {
                    return Ok(true);
                }
                let mut sample = self.sample(place, outcome(&refusal(&report)));
                sample.metrics = measure::setup_metrics(&report);
                if !report.proofs.is_empty() {
                    sample.counters = serde_json::json!({ "proofs": report.proofs });
                }
                self.keep(place.device, sample, None).map(|()| true)
            }
        }
    }

    /// Makes one trial of the sweep.
    fn trial(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        trial: &Trial,
        place: &MeasuredPoint<'_>,
    ) -> Result<(), ResultError> {
        match self.experiment.kind.of().task(self.experiment, trial) {
            Some(Task::Load { load, plan }) => self.offer_at_rate(beds, trial, (load, plan), place),
            Some(Task::Plan(plan)) => self.operate(beds, plan, place),
            Some(task) => self.ask(beds, &task, place),
            None => self.record_error(place, strange(trial)),
        }
    }
}

/// A trial or a task that is none of the experiment that was to make it.
fn strange(of: &impl Debug) -> DeviceError {
    DeviceError::BadPlan { reason: format!("no trial of this experiment: {of:?}") }
}

/// The coordinates of a set-up: what the traffic is plays no part in it.
fn setup_point(point: &Point) -> Point {
    let of_setup =
        |axis: &str| matches!(axis, "groups" | "rules" | "match_percent" | "hits" | "group");
    point.iter().filter(|(axis, _)| of_setup(axis)).map(|(a, c)| (a.clone(), c.clone())).collect()
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
