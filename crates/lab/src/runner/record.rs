//! The record of a trial: its sample, or the reason for its absence.

use niclab_device::{DeviceError, Latency, SetupReport};
use niclab_result::{Outcome, Point, ResultError, SCHEMA, Sample};

use super::{Event, MeasuredPoint, OpenedDevice, Runner, SETUP, setup_point};
use crate::run::lacks;
use crate::variants::FAILURES_MAX;
use crate::words;

/// The message of a trial in which no frame was due. It names a duration longer than the trial's,
/// `duration_ns` nanoseconds.
pub(super) fn nothing_due(duration_ns: u64) -> String {
    format!(
        "no frame was due in the measured part: the machine took the generator's core away for all \
         of it; measure longer with --set duration_ms={}",
        (4 * duration_ns / 1_000_000).max(50)
    )
}

impl Runner<'_> {
    /// One failed sample for each device that could not be opened, if none says so yet.
    pub(super) fn record_absent(&mut self, beds: &[OpenedDevice<'_>]) -> Result<(), ResultError> {
        for device in 0..self.run.devices.len() {
            let Some(Err(reason)) = beds.get(self.beds[device]) else {
                continue;
            };
            if self.states[device].is_gone {
                self.states[device].known.gone = true;
                continue;
            }
            self.drop_device(device, reason.clone(), SETUP, 0, &Point::new())?;
        }
        Ok(())
    }

    /// One result for each device that said beforehand that it lacks what a trial needs.
    pub(super) fn record_lacks(&mut self) -> Result<(), ResultError> {
        let experiment = self.experiment;
        for (device, described) in self.run.devices.iter().enumerate() {
            let mut lacking = (0..experiment.trials.len())
                .filter_map(|at| Some((at, lacks(described, experiment, at)?)));
            let Some((at, capability)) = lacking.next() else {
                continue;
            };
            let trial = &experiment.trials[at];
            let point = setup_point(&trial.point);
            let place = MeasuredPoint { device, trial: SETUP, repeat: 0, point: &point };
            if self.states[device].known.gone || self.is_done(&place) {
                continue;
            }
            let error = DeviceError::lacks(capability);
            self.record_error(&place, error)?;
        }
        Ok(())
    }

    /// Notes what a device cannot do, or that it is gone.
    pub(super) fn record_error(
        &mut self,
        place: &MeasuredPoint<'_>,
        error: DeviceError,
    ) -> Result<(), ResultError> {
        let outcome = match error {
            DeviceError::NotSupported { capability } => Outcome::NotSupported { capability },
            DeviceError::BadLoad { .. }
            | DeviceError::BadPlan { .. }
            | DeviceError::Silent { .. } => failed(error.to_string()),
            DeviceError::Interrupted { .. } => return self.record_interruption(place, error),
            _ => {
                let MeasuredPoint { device, trial, repeat, point } = place;
                return self.drop_device(*device, error.to_string(), trial, *repeat, point);
            }
        };
        let sample = self.sample(place, outcome);
        self.keep(place.device, sample, None)
    }

    /// Notes a trial in which the way to the device broke: the next one begins with a set-up. After
    /// some in a row the device is left out.
    fn record_interruption(
        &mut self,
        place: &MeasuredPoint<'_>,
        error: DeviceError,
    ) -> Result<(), ResultError> {
        for at in self.siblings(place.device) {
            self.states[at].setup = None;
        }
        self.states[place.device].failures += 1;
        let MeasuredPoint { device, trial, repeat, point } = *place;
        if self.states[device].failures >= FAILURES_MAX {
            let reason = format!("{error} ({FAILURES_MAX} times in a row)");
            return self.drop_device(device, reason, trial, repeat, point);
        }
        let sample = self.sample(place, failed(error.to_string()));
        self.keep(device, sample, None)
    }

    pub(super) fn drop_device(
        &mut self,
        device: usize,
        reason: String,
        trial: &str,
        repeat: u32,
        point: &Point,
    ) -> Result<(), ResultError> {
        let place = MeasuredPoint { device, trial, repeat, point };
        let outcome = Outcome::Failed { reason: reason.clone(), dropped: true };
        let sample = self.sample(&place, outcome);
        self.keep(device, sample, None)?;
        let device = &self.run.devices[device].name;
        self.host.progress(Event::Dropped { device, reason: &reason });
        Ok(())
    }

    pub(super) fn sample(&mut self, place: &MeasuredPoint<'_>, outcome: Outcome) -> Sample {
        Sample {
            schema: SCHEMA,
            order: self.order,
            time_unix_ns: self.host.time_unix_ns(),
            experiment: self.experiment.name.clone(),
            device: self.run.devices[place.device].name.clone(),
            variant: self.variant_run.clone(),
            point: place.point.clone(),
            trial: place.trial.to_string(),
            repeat: place.repeat,
            outcome,
            metrics: Default::default(),
            marks: Vec::new(),
            load: serde_json::Value::Null,
            counters: serde_json::Value::Null,
            honesty: serde_json::Value::Null,
            slices: serde_json::Value::Null,
            control: serde_json::Value::Null,
            search: serde_json::Value::Null,
            latency_tag: None,
        }
    }

    pub(super) fn keep(
        &mut self,
        device: usize,
        sample: Sample,
        latency: Option<&Latency>,
    ) -> Result<(), ResultError> {
        #[cfg(test)]
        crate::metrics::check(self.experiment.kind.of(), &sample);
        self.store.append(&sample, latency)?;
        self.order += 1;
        if measures(&sample) {
            self.measured.insert(device);
            self.states[device].failures = 0;
        }
        let (done_ratio, remaining_s) = self.outlook();
        self.host.progress(Event::Stored { sample: &sample, done_ratio, remaining_s });
        self.states[device].known.add(&sample);
        Ok(())
    }

    /// Share done, and seconds still to come at the pace so far.
    fn outlook(&mut self) -> (f64, f64) {
        let estimate_s = self.experiment.estimate_s.max(f64::MIN_POSITIVE);
        let done_ratio = (self.past_s / estimate_s).clamp(0.0, 1.0);
        let pace = if self.worked_s > 0.0 { self.elapsed_s() / self.worked_s } else { 1.0 };
        (done_ratio, (estimate_s - self.past_s).max(0.0) * pace)
    }
}

/// `true` for a sample that answers what an experiment asks; rules that went in are no answer yet.
pub(super) fn measures(sample: &Sample) -> bool {
    let has_figures = matches!(sample.outcome, Outcome::Measured | Outcome::Refused { .. });
    has_figures && sample.trial != SETUP
}

pub(super) fn refusal(report: &SetupReport) -> Option<String> {
    let (refused, asked) = (report.rules_refused, report.rules_refused + report.rules_installed);
    let message = report.refusal.as_deref().unwrap_or("no reason given");
    let asked = words::rules(asked as f64);
    (refused > 0).then(|| format!("{} of {asked} refused: {message}", words::whole(refused as f64)))
}

pub(super) fn outcome(refusal: &Option<String>) -> Outcome {
    match refusal {
        None => Outcome::Measured,
        Some(reason) => Outcome::Refused { reason: reason.clone() },
    }
}

/// A trial failed, and the device goes on.
pub(super) fn failed(reason: String) -> Outcome {
    Outcome::Failed { reason, dropped: false }
}

/// A document of the device as it stands in a sample; one that is no JSON is left out.
pub(crate) fn json<T: serde::Serialize>(document: &T) -> serde_json::Value {
    serde_json::to_value(document).unwrap_or_default()
}
