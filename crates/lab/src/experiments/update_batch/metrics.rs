//! The metrics of `update-batch`.

use crate::measure::UnsentBasis;
use crate::metrics::{CONTROL, LOAD, MATCHED, SATURATE_BASE, TrialMetrics, WINDOWS};
use crate::spec::TrialKind;

/// Throughput over time while a batch of rules is created.
pub(crate) const BATCH: TrialKind = TrialKind::new("batch");

/// The same while nothing changes.
pub(crate) const REST: TrialKind = TrialKind::new("rest");

/// What says whether the repeats of a batch can be trusted.
pub(crate) const JUDGED: &str = "throughput_all_pps";

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[SATURATE_BASE, BATCH_TRIAL, REST_TRIAL];

/// Frames that flow while a batch is carried out.
const BATCH_TRIAL: TrialMetrics = TrialMetrics {
    trial: BATCH.name(),
    points: Some("batch"),
    judged_by: &[JUDGED],
    headlines: &["batch_ns", "operations_per_s", "operations_done", "blocked_ns"],
    metrics: &[LOAD, CONTROL, WINDOWS, MATCHED],
    is_throughput: true,
    judged: UnsentBasis::Undisturbed,
};

/// The same without a batch: there to compare it with, beside it in each repeat.
const REST_TRIAL: TrialMetrics = TrialMetrics {
    trial: REST.name(),
    headlines: &[],
    metrics: &[LOAD, WINDOWS, MATCHED],
    ..BATCH_TRIAL
};
