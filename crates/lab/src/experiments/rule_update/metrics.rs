//! The metrics of `rule-update`.

use crate::measure::UnsentBasis;
use crate::metrics::{
    CONTROL, DESTROY_RATE, DESTROYED, LOAD, MATCHED, SATURATE_BASE, TrialMetrics, WINDOWS,
};
use crate::spec::TrialKind;

/// Rules are changed, without packets or while these match them.
pub(crate) const CHANGE: TrialKind = TrialKind::new("change");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[SATURATE_BASE, CHANGE_TRIAL];

/// Rules that are changed, without packets or while these match them.
const CHANGE_TRIAL: TrialMetrics = TrialMetrics {
    trial: CHANGE.name(),
    points: Some("change"),
    judged_by: &["operations_per_s"],
    headlines: &["operations_per_s", "operations_done", "call_ns_p99", "blocked_ns"],
    metrics: &[LOAD, CONTROL, DESTROY_RATE, DESTROYED, WINDOWS, MATCHED],
    is_throughput: true,
    judged: UnsentBasis::Undisturbed,
};
