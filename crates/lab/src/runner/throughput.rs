//! Searches for throughput on a device: the trials that a search asks for, one sample a search.

use niclab_device::{Load, Observation, Plan, Rate, Task};
use niclab_result::{Mark, ResultError, Sample};
use serde::{Deserialize, Serialize};

use super::record::{failed, nothing_due};
use super::{MeasuredPoint, OpenedDevice, RunEnd, Runner};
use crate::device_samples::DeviceSamples;
use crate::estimate;
use crate::loss::Loss;
use crate::measure::{self, Metrics, put};
use crate::mlr::{self, ControllerInput, ControllerOutput, GoalResult, TrialInput, TrialOutput};
use crate::run::{ExperimentRun, Trial};
use crate::throughput::{Search, metric_name};

/// Most times a trial is made until one has enough undisturbed slices.
const TRIES_MAX: u32 = 3;

/// A search as its sample keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The goals of the search, and its bounds.
    pub input: ControllerInput,
    /// The results, in the order of the goals.
    pub results: Vec<GoalResult>,
    /// Whether the generator set the upper bound of each: the trials there lost too much by what
    /// was not sent in time alone.
    pub generator_limited: Vec<bool>,
    /// The trials, in the order they were made; those that were made again are not among them.
    pub trials: Trials,
}

/// Trials of a search, a list for each of their figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trials {
    /// Load, frames a second.
    pub load_pps: Vec<u64>,
    /// Duration, nanoseconds.
    pub duration_ns: Vec<u64>,
    /// Loss of the undisturbed slices, what was not sent included: what the search went by.
    pub loss_ratio: Vec<f64>,
    /// The part of it that was not sent in time.
    pub unsent_ratio: Vec<f64>,
    /// Loss of the whole trial, stalls included.
    pub loss_all_ratio: Vec<f64>,
    /// Places in these lists of the trials with hardly an undisturbed slice, each the best of
    /// three: their losses are of the whole trial.
    pub disturbed: Vec<usize>,
}

impl Trials {
    fn push(&mut self, of: TrialInput, loss: Loss) {
        self.load_pps.push(of.load_pps);
        self.duration_ns.push(of.duration_ns);
        self.loss_ratio.push(loss.ratio);
        self.unsent_ratio.push(loss.unsent_ratio);
        self.loss_all_ratio.push(loss.all_ratio);
        if loss.is_disturbed {
            self.disturbed.push(self.load_pps.len() - 1);
        }
    }
}

/// Further figures of the trials of a search.
#[derive(Default)]
struct SearchTrials {
    trials: Trials,
    spoilt: u32,
    is_unbalanced: bool,
}

/// Why a search was not brought to its end.
enum SearchStop {
    /// It is time to end the run, or the device went away: `--resume` searches anew.
    Ended,
    /// No frame was due in the trials, which had this duration in nanoseconds.
    NothingDue(u64),
}

/// The sample of this search.
pub(crate) fn record(sample: &Sample) -> Option<SearchRecord> {
    SearchRecord::deserialize(&sample.search).ok()
}

/// `true` where the device could be searched and was not.
pub(crate) fn is_missing(known: &DeviceSamples<'_>, search: &Search) -> bool {
    let trial = &known.experiment.trials[search.of];
    known.is_able(trial) && known.latest(search.mode.name(), 0, &trial.point).is_none()
}

impl Runner<'_> {
    /// Makes search `at` on `device`. Says so where it was cut short: nothing of it is kept then.
    pub(super) fn search_throughput(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        at: usize,
        device: usize,
    ) -> Result<Option<RunEnd>, ResultError> {
        let experiment: &ExperimentRun = self.experiment;
        let search = &experiment.searches[at];
        let trial = &experiment.trials[search.of];
        let (kind, point) = (search.mode.name(), &trial.point);
        let place = MeasuredPoint { device, trial: kind, repeat: 0, point };
        let estimate_s = self.pace(device) * estimate::search_s(experiment, search);
        self.past_s += estimate_s;
        if self.is_done(&place) || !self.states[device].known.is_able(trial) {
            return Ok(None);
        }
        self.worked_s += estimate_s;
        let set_up_point = super::setup_point(point);
        let set_up = MeasuredPoint { trial: super::SETUP, point: &set_up_point, ..place };
        if !self.set_up(beds, &experiment.setups[trial.setup], &set_up, &place)? {
            return Ok(None);
        }
        let Some(maximum_pps) = self.maximum_pps(device, search.of) else {
            let why = self.no_maximum(device, search.of);
            let reason = format!("no throughput to search below: {why}");
            let sample = self.sample(&place, failed(reason));
            return self.keep(device, sample, None).map(|()| None);
        };
        let (input, mut seen, mut cut) =
            (search.input(maximum_pps), SearchTrials::default(), Ok(None));
        let output = mlr::search(&input, |of| {
            match self.measure(beds, (trial, of), &place, &mut seen) {
                Ok(Ok(output)) => return Some(output),
                Ok(Err(why)) => cut = Ok(Some(why)),
                Err(error) => cut = Err(error),
            }
            None
        });
        let sample = match cut? {
            Some(SearchStop::Ended) => return Ok(self.end()),
            Some(SearchStop::NothingDue(ns)) => self.sample(&place, failed(nothing_due(ns))),
            None => self.search_sample(&place, input, output, seen),
        };
        self.keep(device, sample, None).map(|()| None)
    }

    /// Makes a trial, again where stalls spoil it; of spoilt ones that of least loss counts.
    fn measure(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        (trial, of): (&Trial, TrialInput),
        place: &MeasuredPoint<'_>,
        seen: &mut SearchTrials,
    ) -> Result<Result<TrialOutput, SearchStop>, ResultError> {
        let rate = Rate::Pps(of.load_pps as f64);
        let load = trial.load().and_then(|at| self.experiment.loads.get(at));
        let Some(load) = load else { return Ok(Err(SearchStop::Ended)) };
        let load = Load { rate, duration_ns: of.duration_ns, ..load.clone() };
        let task = Task::Load { load, plan: Plan::Rest };
        let mut spoilt: Option<Loss> = None;
        for _ in 0..TRIES_MAX {
            let Some(Ok(bed)) = beds.get_mut(self.beds[place.device]) else {
                return Ok(Err(SearchStop::Ended));
            };
            if self.end().is_some() {
                return Ok(Err(SearchStop::Ended));
            }
            let observation = match bed.measure(&task).and_then(Observation::into_load) {
                Ok(observation) => observation,
                Err(error) => {
                    return self.record_error(place, error).map(|()| Err(SearchStop::Ended));
                }
            };
            seen.is_unbalanced |= measure::is_unbalanced(&observation);
            let Some(loss) = Loss::of(&observation) else { continue };
            if !loss.is_disturbed {
                return Ok(Ok(seen.take(of, loss)));
            }
            seen.spoilt += 1;
            if spoilt.is_none_or(|least| loss.ratio < least.ratio) {
                spoilt = Some(loss);
            }
        }
        Ok(spoilt.map(|loss| seen.take(of, loss)).ok_or(SearchStop::NothingDue(of.duration_ns)))
    }

    fn search_sample(
        &mut self,
        place: &MeasuredPoint<'_>,
        input: ControllerInput,
        output: ControllerOutput,
        trials: SearchTrials,
    ) -> Sample {
        let outcome = super::outcome(&self.states[place.device].refusal);
        let mut sample = self.sample(place, outcome);
        let goals = input.goals.iter().zip(&output.results);
        let generator_limited: Vec<bool> =
            goals.map(|(goal, found)| is_limited(goal.loss_ratio, found, &trials.trials)).collect();
        if generator_limited.contains(&true) {
            sample.marks.push(Mark::GeneratorLimited);
        }
        // Where the generator was too slow its turns look like stalls: that has a mark of its own.
        let is_bound = |at: &usize| {
            let load = Some(trials.trials.load_pps[*at]);
            let mut found = output.results.iter().zip(&generator_limited);
            found.any(|(of, limited)| of.lower_pps == load || of.upper_pps == load && !limited)
        };
        if trials.trials.disturbed.iter().any(is_bound) {
            sample.marks.push(Mark::Disturbed);
        }
        if trials.is_unbalanced {
            sample.marks.push(Mark::Unbalanced);
        }
        sample.metrics = metrics(&input, &output, trials.spoilt);
        let results = output.results;
        sample.search =
            super::json(&SearchRecord { input, results, generator_limited, trials: trials.trials });
        sample
    }
}

impl SearchTrials {
    fn take(&mut self, of: TrialInput, loss: Loss) -> TrialOutput {
        self.trials.push(of, loss);
        // A trial counts by its whole duration, whatever part of it was undisturbed.
        TrialOutput { loss_ratio: loss.ratio, effective_duration_ns: of.duration_ns }
    }
}

/// `true` where most of the trials at the upper bound that lost too much did so by what was not
/// sent alone.
fn is_limited(loss_ratio: f64, found: &GoalResult, trials: &Trials) -> bool {
    let losses = trials.loss_ratio.iter().zip(&trials.unsent_ratio);
    let at_bound = trials.load_pps.iter().zip(losses);
    let high = at_bound
        .filter(|(load, (loss, _))| Some(**load) == found.upper_pps && **loss > loss_ratio)
        .map(|(_, (_, unsent))| *unsent > loss_ratio);
    let (limited, others): (Vec<bool>, Vec<bool>) = high.partition(|is_limited| *is_limited);
    limited.len() > others.len()
}

/// The figures of a search, those of each goal under its name in small letters.
fn metrics(input: &ControllerInput, output: &ControllerOutput, spoilt: u32) -> Metrics {
    let mut metrics = Metrics::new();
    put(&mut metrics, "max_load_pps", input.max_load_pps as f64, "pps");
    put(&mut metrics, "trials", output.trials.len() as f64, "trials");
    put(&mut metrics, "spoilt_trials", f64::from(spoilt), "trials");
    for (goal, found) in input.goals.iter().zip(&output.results) {
        let name = metric_name(goal);
        let figures = [
            ("conditional_pps", found.conditional_pps),
            ("lower_pps", found.lower_pps.map(|pps| pps as f64)),
            ("upper_pps", found.upper_pps.map(|pps| pps as f64)),
        ];
        for (figure, pps) in figures {
            pps.into_iter()
                .for_each(|pps| put(&mut metrics, &format!("{name}_{figure}"), pps, "pps"));
        }
    }
    metrics
}
