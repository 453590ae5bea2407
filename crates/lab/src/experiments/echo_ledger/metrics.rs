//! The metrics of `echo-ledger`.

use crate::breakdown::{BREAKDOWN, PLAIN_RTT};
use crate::hosts::RTT;
use crate::measure::UnsentBasis;
use crate::metrics::TrialMetrics;
use crate::round_trips::LEDGER;

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: LEDGER.name(),
    points: Some("echo"),
    judged_by: &[RTT],
    headlines: &[PLAIN_RTT, "client_receive_ns", "server_receive_ns"],
    metrics: &[BREAKDOWN],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];
