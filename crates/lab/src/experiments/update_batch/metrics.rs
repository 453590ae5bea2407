//! What the trials of `update-batch` measure.

use crate::measure::Judged;
use crate::metrics::{CONTROL, LOAD, MATCHED, SATURATE_BASE, TrialMetrics, WINDOWS};

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[SATURATE_BASE, BATCH, REST];

/// Frames that flow while a batch is carried out.
const BATCH: TrialMetrics = TrialMetrics {
    trial: "batch",
    points: Some("batch"),
    judged_by: &["throughput_all_pps"],
    headlines: &["batch_ns", "operations_per_s", "operations_done", "blocked_ns"],
    metrics: &[LOAD, CONTROL, WINDOWS, MATCHED],
    is_throughput: true,
    judged: Judged::Undisturbed,
};

/// The same without a batch: there to compare it with, beside it in each repeat.
const REST: TrialMetrics =
    TrialMetrics { trial: "rest", headlines: &[], metrics: &[LOAD, WINDOWS, MATCHED], ..BATCH };
