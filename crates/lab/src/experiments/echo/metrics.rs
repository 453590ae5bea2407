//! The metrics of the echo experiments.

use niclab_device::RoundTripsObservation;
use niclab_device::echo::{Echo, Echoed};
use niclab_result::Mark;

use crate::hosts::{RTT, RTT_TAIL};
use crate::measure::{Metrics, UnsentBasis, put, put_ratio, quantiles};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;

/// Messages go to a server and back.
pub(crate) const ECHO: TrialKind = TrialKind::new("echo");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: ECHO.name(),
    points: Some("echo"),
    judged_by: &[RTT],
    headlines: &[RTT, RTT_TAIL, ANSWERED],
    metrics: &[MESSAGES],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// Counts and times of messages.
const MESSAGES: &[Metric] = &[
    neither("planned_messages", "messages", "were due"),
    neither("sent_messages", "messages", "were sent"),
    neither("unsent_messages", "messages", "were due and never sent"),
    neither("answered_messages", "messages", "came back"),
    neither("lost_messages", "messages", "did not come back"),
    neither("late_messages", "messages", "of these, came back after the wait was over"),
    neither("reordered_messages", "messages", "came back behind a later one"),
    neither("duplicated_messages", "messages", "came back again"),
    neither("foreign_messages", "messages", "are none of ours"),
    lower("loss_ratio", "1", "lost divided by sent"),
    higher(ANSWERED, "messages/s", "came back, a second"),
    neither("payload_gbps", "Gbps", "their bytes, in one direction"),
    lower(
        "rtt_ns_…",
        "ns",
        "from when a message was due to its answer; closed loop: from the call",
    ),
    lower("service_ns_…", "ns", "of an open loop: from the call that sent it"),
    lower("lateness_ns_…", "ns", "of an open loop: how late it left"),
];

/// Share of the messages due that a client may leave unsent before a trial is marked.
const UNSENT_MAX: f64 = 0.005;

/// Messages answered a second.
pub(crate) const ANSWERED: &str = "answered_per_s";

/// The metrics of round trips.
pub(crate) fn put_round_trips(
    metrics: &mut Metrics,
    observation: &RoundTripsObservation,
    echo: &Echo,
) {
    let e = &observation.echoed;
    for (name, count) in [
        ("planned_messages", e.planned),
        ("sent_messages", e.sent),
        ("unsent_messages", e.unsent),
        ("answered_messages", e.answered),
        ("lost_messages", e.lost),
        ("late_messages", e.late),
        ("reordered_messages", e.reordered),
        ("duplicated_messages", e.duplicated),
        ("foreign_messages", e.foreign),
    ] {
        put(metrics, name, count as f64, "messages");
    }
    put_ratio(metrics, "loss_ratio", e.lost, e.sent);
    let duration_s = e.duration_ns as f64 / 1e9;
    let per_s = e.answered as f64 / duration_s;
    put(metrics, ANSWERED, per_s, "messages/s");
    put(metrics, "payload_gbps", per_s * f64::from(echo.size) * 8.0 / 1e9, "Gbps");
    quantiles(metrics, "rtt_ns", &e.rtt);
    if let Some(service) = &e.service {
        quantiles(metrics, "service_ns", service);
    }
    if let Some(lateness) = &e.lateness {
        quantiles(metrics, "lateness_ns", lateness);
    }
}

/// Why round trips speak for nothing: they ended before their time, or no message left.
pub(crate) fn ended(echoed: &Echoed) -> Option<String> {
    let nothing = "no message was sent in the measured part: measure longer with \
                   --set duration_ms=1000";
    echoed.ended.clone().or_else(|| (echoed.sent == 0).then(|| nothing.to_owned()))
}

/// The warnings that belong to round trips.
pub(crate) fn marks(echoed: &Echoed) -> Vec<Mark> {
    let mut marks = Vec::new();
    if echoed.unsent as f64 > UNSENT_MAX * echoed.planned as f64 {
        marks.push(Mark::GeneratorLimited);
    }
    if echoed.sent != echoed.answered + echoed.lost || echoed.planned != echoed.sent + echoed.unsent
    {
        marks.push(Mark::Unbalanced);
    }
    marks
}
