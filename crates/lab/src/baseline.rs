//! Sentences and figures say what changed since an earlier run, the baseline.
//!
//! `compare` decides what changed. This module words its verdicts, and adds the curves of the
//! baseline to the figures of a summary.

mod curves;
mod sentences;

use niclab_result::{
    BASELINE_SCHEMA, BaselineSummary, Environment, Latencies, Outcome, Sample, Summary,
    VerdictCounts,
};

use crate::compare::conditions::{self, MeasuredSide};
use crate::compare::{
    CompareOptions, ComparedDevice, Comparison, Verdict, compare, measured, pairs, started,
};
use crate::run::{ExperimentRun, Run};
use crate::runner::SETUP;

/// How far a ratio may be from 1 where nothing changed, as `niclab compare` has it by default.
const TOLERANCE: f64 = 0.05;

/// Differences between two runs that the caution names, at most.
const CAUTIONS_MAX: usize = 4;

/// A run that was read from its directory.
#[derive(Clone, Copy, Debug)]
pub struct ReadRun<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its samples.
    pub samples: &'a [Sample],
    /// The machine, where the directory has it.
    pub machine: Option<&'a Environment>,
    /// The text of its rules, where it has a file of them.
    pub rules: Option<&'a [u8]>,
}

impl<'a> ReadRun<'a> {
    fn made(&self, device: &'a str) -> MeasuredSide<'a> {
        let side = ComparedDevice { run: self.run, samples: self.samples, device };
        MeasuredSide { side, machine: self.machine, rules: self.rules }
    }
}

/// The run that another one is compared with.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    /// The directory, as it was given.
    pub directory: &'a str,
    /// Its run, samples and machine.
    pub read: ReadRun<'a>,
    /// The latencies of its samples.
    pub latencies: &'a Latencies,
}

/// A device of the baseline with the one that is compared with it.
struct DevicePair<'a> {
    base: MeasuredSide<'a>,
    now: MeasuredSide<'a>,
    found: Comparison,
}

/// `true` where a run that is planned will measure something that the baseline has measured: the
/// same trial at the same point, or the same search, on a device that is compared.
pub fn shares_trials(base: &ReadRun<'_>, planned: &Run) -> bool {
    let devices: Vec<&str> = planned.devices.iter().map(|device| device.name.as_str()).collect();
    let compared = pairs(&measured(base.run, base.samples), &devices);
    let is_compared = |sample: &Sample| compared.iter().any(|(name, _)| *name == sample.device);
    let is_measured = |sample: &&Sample| {
        let has_figures = matches!(sample.outcome, Outcome::Measured | Outcome::Refused { .. });
        has_figures && sample.trial != SETUP && is_compared(sample)
    };
    planned.experiments.iter().any(|experiment| {
        let of = base.samples.iter().filter(|sample| sample.experiment == experiment.name);
        let has_searches = |run: &ExperimentRun| !run.knees.is_empty() || !run.searches.is_empty();
        let earlier = base.run.experiments.iter().find(|run| run.name == experiment.name);
        let searches = has_searches(experiment) && earlier.is_some_and(has_searches);
        of.filter(is_measured).any(|sample| {
            let is_same = |trial: &crate::run::Trial| {
                trial.kind.name() == sample.trial && trial.point == sample.point
            };
            searches || experiment.trials.iter().any(is_same)
        })
    })
}

/// Compares a finished run with the baseline, and adds what changed and the curves of the baseline
/// to its summary.
pub fn add(summary: &mut Summary, now: &ReadRun<'_>, baseline: &Baseline<'_>) {
    let base = &baseline.read;
    let compared = compare_devices(base, now);
    let since = started(base.samples).unwrap_or_default();
    curves::add(summary, &compared, baseline.latencies, &since);
    let counts = counts(&compared);
    let differences = differences(&compared);
    let is_alone = |name: &&str| compared.iter().all(|pair| pair.base.side.device != *name);
    let alone: Vec<&str> = measured(base.run, base.samples).into_iter().filter(is_alone).collect();
    summary.baseline = Some(BaselineSummary {
        schema: BASELINE_SCHEMA,
        directory: baseline.directory.to_owned(),
        program: base.run.program.clone(),
        started: since,
        tolerance: TOLERANCE,
        counts,
        sentences: sentences::of(&compared, counts, &alone),
        caution: caution(&differences),
        differences,
    });
}

/// The devices of two runs that are compared, each pair with its comparison.
fn compare_devices<'a>(base: &ReadRun<'a>, now: &ReadRun<'a>) -> Vec<DevicePair<'a>> {
    let [theirs, ours] = [base, now].map(|of| measured(of.run, of.samples));
    let terms = CompareOptions { tolerance: TOLERANCE, metrics: Vec::new() };
    let pair = |(base_device, device)| {
        let (base, now) = (base.made(base_device), now.made(device));
        DevicePair { found: compare(&base.side, &now.side, &terms), base, now }
    };
    pairs(&theirs, &ours).into_iter().map(pair).collect()
}

/// How many points of all devices have which verdict.
fn counts(compared: &[DevicePair<'_>]) -> VerdictCounts {
    let count = |is: fn(&Verdict) -> bool| compared.iter().map(|pair| pair.found.count(is)).sum();
    VerdictCounts {
        worse: count(|verdict| *verdict == Verdict::Worse),
        better: count(|verdict| *verdict == Verdict::Better),
        same: count(|verdict| *verdict == Verdict::Same),
        open: count(|verdict| matches!(verdict, Verdict::Undecided(_))),
    }
}

/// The differences in how the runs were made, each once.
fn differences(compared: &[DevicePair<'_>]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in compared.iter().flat_map(|pair| conditions::differences(&pair.base, &pair.now)) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// The first differences in one line; empty without any.
fn caution(differences: &[String]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let named = differences[..differences.len().min(CAUTIONS_MAX)].join("; ");
    let more = match differences.len().saturating_sub(CAUTIONS_MAX) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("The two runs differ (earlier against now): {named}{more}.")
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod tests;
