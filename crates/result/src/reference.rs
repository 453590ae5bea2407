//! The reference trials of a run, as `summary.json` has it.

use serde::{Deserialize, Serialize};

/// The reference trials of a run: one short trial that never changes, made again and again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReferenceSummary {
    /// What is measured, such as `throughput_pps`.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Median of the trials.
    pub median: f64,
    /// The smallest of them.
    pub smallest: f64,
    /// The largest of them.
    pub largest: f64,
    /// Points beside a trial that is further from the median are marked: 0.1 is 10 %.
    pub limit: f64,
    /// The trials, in the order of measurement.
    pub trials: Vec<ReferenceTrial>,
    /// Trials that stalls of the machine disturbed, which are not among them.
    pub disturbed: usize,
}

/// One reference trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReferenceTrial {
    /// Its start, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// What was measured.
    pub value: f64,
}
