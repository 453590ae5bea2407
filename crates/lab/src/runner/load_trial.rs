//! Trials with a load, with a plan or with both: their rate, and their samples.

use niclab_device::{
    Control, DeviceError, Load, LoadObservation, Observation, Plan, Rate, RulesPlan, Task,
};
use niclab_load::AlignmentBy;
use niclab_result::{Outcome, ResultError};

use super::record::{failed, json, nothing_due, outcome};
use super::{MeasuredPoint, OpenedDevice, Runner};
use crate::control::put_control;
use crate::device_samples::SampleFacts;
use crate::experiments::LoadTrialResult;
use crate::measure::{self, UnsentBasis};
use crate::run::{PlannedRate, Trial, step};
use crate::statistics;

/// The message of a trial between two hosts whose ports have no way to each other.
const CUT_OFF: &str = "no frame came to the device's port, and none came back: the ports are not \
    cabled to each other, or a link went down; `niclab doctor` with the same --tester and several \
    --device finds the port at the other end";

/// Whether no frame went from one host to the other.
fn is_cut_off(observation: &LoadObservation) -> bool {
    let alignment = observation.honesty.alignment;
    let no_marker = alignment.is_some_and(|of| of.by == AlignmentBy::Connections);
    let at_device = observation.device.as_ref().map(|device| device.total().rx_frames);
    no_marker && observation.offered > 0 && at_device == Some(0)
}

impl Runner<'_> {
    /// Offers a load at the rate of its trial.
    pub(super) fn offer_at_rate(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        trial: &Trial,
        (load, plan): (Load, Plan),
        place: &MeasuredPoint<'_>,
    ) -> Result<(), ResultError> {
        let of_repeat = self.experiment.kind.of().plan_of_repeat(&plan, place.repeat);
        let Some(rate) = self.rate(place.device, trial, &load) else {
            let of = self.states[place.device].known.base(trial);
            let why = of.map_or_else(String::new, |of| self.no_maximum(place.device, of));
            let reason = format!("no throughput to take a share of: {why}");
            let sample = self.sample(place, failed(reason));
            return self.keep(place.device, sample, None);
        };
        self.offer(beds, (Load { rate, ..load }, of_repeat.unwrap_or(plan)), place).map(drop)
    }

    /// Carries a plan out alone and stores what came of it.
    pub(super) fn operate(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        plan: RulesPlan,
        place: &MeasuredPoint<'_>,
    ) -> Result<(), ResultError> {
        let Some(Ok(bed)) = beds.get_mut(self.beds[place.device]) else {
            return Ok(());
        };
        let outcome = outcome(&self.states[place.device].refusal);
        let mut sample = self.sample(place, outcome);
        match bed.measure(&Task::Plan(plan)).and_then(Observation::into_plan) {
            Err(error) => self.record_error(place, error),
            Ok(control) => {
                put_control(&mut sample.metrics, &control, 0);
                sample.control = json(&control);
                self.keep(place.device, sample, None)
            }
        }
    }

    /// The rate of a trial; `None` where the maximum is not known that it is a share of. All its
    /// repeats have one, so that they are repeats of one thing: the first that is measured sets it.
    /// Variants share it, so that they are compared at one rate: a share of the least maximum.
    fn rate(&self, device: usize, trial: &Trial, load: &Load) -> Option<Rate> {
        let share = match trial.rate {
            PlannedRate::Saturate => return Some(Rate::Saturate),
            PlannedRate::Pps(pps) => return Some(Rate::Pps(pps)),
            PlannedRate::Step { low_pps, high_pps } => {
                let (from_ns, until_ns) = step(load.duration_ns);
                return Some(Rate::Step { low_pps, high_pps, from_ns, until_ns });
            }
            PlannedRate::ShareOf { share, .. } => share,
        };
        let of = self.states[device].known.base(trial)?;
        let siblings = self.siblings(device);
        let first_pps = siblings.iter().find_map(|&at| self.states[at].known.rate_pps(trial));
        let maxima = siblings.iter().filter_map(|&at| self.maximum_pps(at, of));
        first_pps.or_else(|| Some(maxima.min_by(f64::total_cmp)? * share)).map(Rate::Pps)
    }

    /// Median throughput that trial `of` has shown so far, above 0; of its undisturbed repeats
    /// where there is one.
    pub(super) fn maximum_pps(&self, device: usize, of: usize) -> Option<f64> {
        let trial = &self.experiment.trials[of];
        let known = &self.states[device].known;
        let repeats = 0..self.experiment.repeats;
        let observed = repeats.filter_map(|r| known.latest(trial.kind.name(), r, &trial.point));
        let observed: Vec<&SampleFacts> = observed.collect();
        let calm = observed.iter().any(|observed| !observed.disturbed);
        let kept = observed.iter().filter(|observed| !(calm && observed.disturbed));
        let values: Vec<f64> = kept.filter_map(|observed| observed.throughput_pps).collect();
        statistics::median(&values).filter(|maximum| *maximum > 0.0)
    }

    /// Why [`maximum_pps`](Runner::maximum_pps) knows none: what became of each repeat so far.
    pub(super) fn no_maximum(&self, device: usize, of: usize) -> String {
        let trial = &self.experiment.trials[of];
        let (name, repeats) = (trial.kind.name(), self.experiment.repeats);
        let known = &self.states[device].known;
        let end_of = |repeat| {
            let latest = known.latest(name, repeat, &trial.point)?;
            let words = match &latest.outcome {
                Outcome::Failed { reason, .. } => format!("failed: {reason}"),
                Outcome::NotSupported { capability } => format!("is not supported: {capability}"),
                _ if latest.throughput_pps.is_some_and(|pps| pps > 0.0) => return None,
                Outcome::Measured | Outcome::Refused { .. } => "processed no frame".to_owned(),
            };
            Some(format!("repeat {} of {repeats} {words}", repeat + 1))
        };
        let ends: Vec<String> = (0..repeats).filter_map(end_of).collect();
        match ends.is_empty() {
            true => format!("no `{name}` trial of this point was made before it"),
            false => format!("of the `{name}` trial of this point, {}", ends.join("; ")),
        }
    }

    /// Whether the set-up of a device may have rules: a card may drop all frames by them, and need
    /// not count those.
    fn has_rules(&self, device: usize) -> bool {
        self.states[device].setup.as_ref().is_none_or(|setup| !setup.rules.is_empty())
    }

    /// Offers a load and stores what was seen; the throughput, where it was measured.
    pub(super) fn offer(
        &mut self,
        beds: &mut [OpenedDevice<'_>],
        (load, plan): (Load, Plan),
        place: &MeasuredPoint<'_>,
    ) -> Result<Option<f64>, ResultError> {
        let Some(Ok(bed)) = beds.get_mut(self.beds[place.device]) else {
            return Ok(None);
        };
        let outcome = outcome(&self.states[place.device].refusal);
        let mut sample = self.sample(place, outcome);
        let task = Task::Load { load: load.clone(), plan };
        match bed.measure(&task).and_then(Observation::into_load) {
            Err(error) => self.record_error(place, error).map(|()| None),
            Ok(observation) if !self.has_rules(place.device) && is_cut_off(&observation) => {
                let device = self.run.devices[place.device].name.clone();
                let error = DeviceError::Interrupted { device, reason: CUT_OFF.to_owned() };
                self.record_error(place, error).map(|()| None)
            }
            Ok(observation) if observation.planned == 0 => {
                sample.outcome = failed(nothing_due(load.duration_ns));
                sample.load = json(&load);
                self.keep(place.device, sample, None).map(|()| None)
            }
            Ok(observation) => {
                sample.metrics = measure::metrics(&observation);
                if let Some(control) = &observation.control {
                    put_control(&mut sample.metrics, control, observation.duration_ns);
                }
                // What it takes to see effects is in the metrics, and is long.
                let control = observation
                    .control
                    .as_ref()
                    .map(|control| Control { each_begun_ns: Vec::new(), ..control.clone() });
                sample.control = json(&control);
                let of = self.experiment.kind.of().trial(place.trial);
                let judged = of.map_or(UnsentBasis::Whole, |of| of.judged);
                sample.marks = measure::marks(&observation, judged);
                sample.load = json(&load);
                sample.counters = serde_json::json!({
                    "generator": json(&observation.generator),
                    "device": json(&observation.device),
                    "sink": json(&observation.sink),
                });
                let state = &self.states[place.device];
                let offered = LoadTrialResult {
                    trial: place.trial,
                    load: &load,
                    observation: &observation,
                    setup: state.setup.as_ref(),
                    rss: state.rss.as_ref(),
                    is_generated: self.run.rules.is_none() && load.trace.is_none(),
                };
                self.experiment.kind.of().load_metrics(&offered, &mut sample);
                sample.honesty = json(&observation.honesty);
                sample.slices = measure::slices(&observation);
                let latency = observation.latency.as_ref().filter(|latency| !latency.0.is_empty());
                sample.latency_tag = latency.map(|_| format!("s{}", sample.order));
                let throughput_pps = sample.metrics.get("throughput_pps").map(|q| q.value);
                self.keep(place.device, sample, latency).map(|()| throughput_pps)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use niclab_device::{Honesty, PortCounters, QueueCounters};
    use niclab_load::Alignment;

    use super::*;

    #[test]
    fn ports_without_a_cable_are_told_from_a_device_that_loses_all() {
        let of = |by, rx_frames| {
            let queues = vec![QueueCounters { rx_frames, ..QueueCounters::default() }];
            let alignment = Some(Alignment { by, offset_ns: 0, error_ns: 1 });
            LoadObservation {
                offered: 10,
                device: Some(PortCounters { queues, ..PortCounters::default() }),
                honesty: Honesty { alignment, ..Honesty::default() },
                ..LoadObservation::default()
            }
        };
        assert!(is_cut_off(&of(AlignmentBy::Connections, 0)));
        assert!(!is_cut_off(&of(AlignmentBy::Connections, 3)), "frames came to the device");
        assert!(!is_cut_off(&of(AlignmentBy::Markers, 0)), "markers came back");
        let one_host = LoadObservation { offered: 10, ..LoadObservation::default() };
        assert!(!is_cut_off(&one_host));
    }
}
