//! What the trials of `echo-ledger` measure.

use crate::breakdown::{BREAKDOWN, PLAIN_RTT};
use crate::hosts::RTT;
use crate::measure::Judged;
use crate::metrics::TrialMetrics;
use crate::spec::TrialKind;

/// The same with stamps and without, in turn.
pub(crate) const LEDGER: TrialKind = TrialKind::new("ledger");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: LEDGER.name(),
    points: Some("echo"),
    judged_by: &[RTT],
    headlines: &[PLAIN_RTT, "client_receive_ns", "server_receive_ns"],
    metrics: &[BREAKDOWN],
    is_throughput: false,
    judged: Judged::Whole,
}];
