//! The reference trial: one short trial that never changes. Made again and again through a run, it
//! shows how far the machine drifts.
//!
//! It belongs to no experiment, and no finding uses it. Its samples have a name of their own in
//! place of an experiment, a device and a trial.

use std::borrow::Cow;

use niclab_device::{Arrivals, Function, Load, LoadObservation, Rate, Receive, Setup};
use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use niclab_result::{
    Mark, Outcome, Point, ReferenceSummary, ReferenceTrial, ResultError, SCHEMA, Sample,
};

use crate::measure::{self, UnsentBasis};
use crate::run::Run;
use crate::runner::{Host, Store, json};
use crate::statistics;

/// Experiment, device and trial of the samples of reference trials.
pub const REFERENCE: &str = "reference";

/// Shorter runs, by their estimate in seconds, have no reference trials: these would take more than
/// 1 % of the run.
pub const RUN_S_MIN: f64 = 20.0;

/// From one reference trial to the next, nanoseconds.
const INTERVAL_NS: u64 = 20_000_000_000;

/// How far a trial may be from the median of all before the points beside it are marked.
const LIMIT: f64 = 0.1;

/// The metric of a reference trial.
const METRIC: &str = "throughput_pps";

/// The measured part of a trial, and the part before it, nanoseconds.
const DURATION_NS: u64 = 20_000_000;
const WARMUP_NS: u64 = 5_000_000;

/// Flows of the load.
const FLOWS: u32 = 1_000;

/// Longest frame that is set up for, bytes with FCS.
const FRAME_LEN_MAX: u16 = 1_518;

/// The state of the device: one core, one queue, no rules.
pub fn setup() -> Setup {
    Setup {
        rules: Vec::new(),
        queues: 1,
        cores: 1,
        ports: 1,
        receive: Receive::Queues,
        function: Function::Forward,
        frame_len_max: FRAME_LEN_MAX,
    }
}

/// The load: as many frames of 64 B as the device takes.
pub fn load() -> Load {
    Load {
        flows: FlowSpec { count: FLOWS, ..FlowSpec::default() },
        sizes: FrameSizes::Fixed(64),
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: DURATION_NS,
        warmup_ns: WARMUP_NS,
        seed: 1,
        trace: None,
    }
}

/// Whether reference trials are useful: the run is long enough, its devices are measured, and it
/// compares no pairs, in which drift cancels out.
pub fn is_worth(run: &Run) -> bool {
    let is_measured = run.devices.iter().any(|device| !device.about.in_virtual_time);
    is_measured && run.variants.is_none() && run.estimate_s() >= RUN_S_MIN
}

/// When the next reference trial of a run is due.
pub(crate) struct ReferenceSchedule {
    /// `None` where the host has none.
    due_ns: Option<u64>,
    repeat: u32,
    /// Trials of this part of the run.
    made: u32,
}

impl ReferenceSchedule {
    /// The schedule of a run that resumes after the samples `done`.
    pub fn new(done: &[Sample]) -> ReferenceSchedule {
        let repeats = done.iter().filter(|sample| is_reference(sample)).map(|sample| sample.repeat);
        ReferenceSchedule { due_ns: Some(0), repeat: repeats.max().map_or(0, |at| at + 1), made: 0 }
    }

    /// Makes a trial if one is due. The next sample has the place `order` in the order of
    /// measurement.
    pub fn step(
        &mut self,
        order: &mut u64,
        store: &mut dyn Store,
        host: &mut dyn Host,
    ) -> Result<(), ResultError> {
        match self.due_ns {
            None => return Ok(()),
            Some(due_ns) if self.made > 0 && host.time_unix_ns() < due_ns => return Ok(()),
            Some(_) => {}
        }
        self.make(order, store, host)
    }

    /// Makes the trial at the end of the run, if there was one before.
    pub fn end(
        &mut self,
        order: &mut u64,
        store: &mut dyn Store,
        host: &mut dyn Host,
    ) -> Result<(), ResultError> {
        if self.made > 0 { self.make(order, store, host) } else { Ok(()) }
    }

    fn make(
        &mut self,
        order: &mut u64,
        store: &mut dyn Store,
        host: &mut dyn Host,
    ) -> Result<(), ResultError> {
        let time_unix_ns = host.time_unix_ns();
        let Some(observation) = host.reference() else {
            self.due_ns = None;
            return Ok(());
        };
        let trial = sample(&observation, (*order, self.repeat, time_unix_ns));
        store.append(&trial, None)?;
        (*order, self.repeat, self.made) = (*order + 1, self.repeat + 1, self.made + 1);
        self.due_ns = Some(time_unix_ns + INTERVAL_NS);
        Ok(())
    }
}

fn sample(observation: &LoadObservation, (order, repeat, time_unix_ns): (u64, u32, u64)) -> Sample {
    Sample {
        schema: SCHEMA,
        order,
        time_unix_ns,
        experiment: REFERENCE.to_owned(),
        device: REFERENCE.to_owned(),
        variant: None,
        point: Point::new(),
        trial: REFERENCE.to_owned(),
        repeat,
        outcome: Outcome::Measured,
        metrics: measure::metrics(observation),
        marks: measure::marks(observation, UnsentBasis::Whole),
        load: json(&load()),
        counters: serde_json::Value::Null,
        honesty: json(&observation.honesty),
        slices: serde_json::Value::Null,
        control: serde_json::Value::Null,
        search: serde_json::Value::Null,
        latency_tag: None,
    }
}

fn is_reference(sample: &Sample) -> bool {
    sample.experiment == REFERENCE
}

/// The summary of the reference trials; `None` if fewer than two were undisturbed.
pub(crate) fn summary(samples: &[Sample]) -> Option<ReferenceSummary> {
    let all = || samples.iter().filter(|sample| is_reference(sample));
    let is_calm = |sample: &&Sample| !sample.marks.contains(&Mark::Disturbed);
    let trials = all().filter(is_calm).filter_map(|sample| {
        let value = sample.metrics.get(METRIC)?.value;
        Some(ReferenceTrial { time_unix_ns: sample.time_unix_ns, value })
    });
    let trials: Vec<ReferenceTrial> = trials.collect();
    let values: Vec<f64> = trials.iter().map(|trial| trial.value).collect();
    let median = statistics::median(&values).filter(|median| trials.len() > 1 && *median > 0.0)?;
    Some(ReferenceSummary {
        metric: METRIC.to_owned(),
        unit: "pps".to_owned(),
        median,
        smallest: values.iter().copied().fold(f64::INFINITY, f64::min),
        largest: values.iter().copied().fold(0.0, f64::max),
        limit: LIMIT,
        disturbed: all().count() - trials.len(),
        trials,
    })
}

/// The samples, with [`Mark::MachineDrift`] on those of measured devices that lie beside a
/// reference trial beyond the limit.
pub(crate) fn marked<'a>(
    run: &Run,
    samples: &'a [Sample],
    reference: Option<&ReferenceSummary>,
) -> Cow<'a, [Sample]> {
    let Some(reference) = reference else { return Cow::Borrowed(samples) };
    let is_beyond =
        |trial: &ReferenceTrial| (trial.value / reference.median - 1.0).abs() > reference.limit;
    if !reference.trials.iter().any(is_beyond) {
        return Cow::Borrowed(samples);
    }
    let computed = run.devices.iter().filter(|device| device.about.in_virtual_time);
    let computed: Vec<&str> = computed.map(|device| device.name.as_str()).collect();
    let mut all = samples.to_vec();
    for sample in &mut all {
        let next = reference.trials.partition_point(|of| of.time_unix_ns <= sample.time_unix_ns);
        let beside = reference.trials[next.saturating_sub(1)..].iter().take(1 + next.min(1));
        let is_measured = !is_reference(sample) && !computed.contains(&sample.device.as_str());
        if is_measured && beside.into_iter().any(is_beyond) {
            sample.marks.push(Mark::MachineDrift);
        }
    }
    Cow::Owned(all)
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
