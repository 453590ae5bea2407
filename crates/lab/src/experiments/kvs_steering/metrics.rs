//! The metrics of `kvs-steering`.

use niclab_device::StoreObservation;
use niclab_result::Mark;

use crate::bus::ways;
use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;
use crate::statistics;

/// Requests in memory are served by a key-value store.
pub(crate) const SERVE: TrialKind = TrialKind::new("serve");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: SERVE.name(),
    points: Some("store"),
    judged_by: &[REQUEST, ANSWERED],
    headlines: &[ANSWERED, REQUEST, CARD],
    metrics: &[SERVED],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// What a request costs.
const SERVED: &[Metric] = &[
    higher(ANSWERED, "1/s", "requests a second of all cores: the median of the passes"),
    lower(REQUEST, "ns", "time of a core for a request, waiting for locks included"),
    lower(CARD, "ns", "time of a core for the card's work on a request, in none of the others"),
    neither("busiest_ratio", "1", "requests of the busiest core, divided by the mean"),
    neither("passes", "passes", "over the requests"),
    neither("…_host_transactions", "transactions", "over the bus for a request, computed"),
    neither("…_host_bytes", "B", "over the bus for a request, computed"),
    lower("…_ns", "ns", "a step of a request, watched in passes of their own"),
];

/// Requests a second of all cores together.
pub(crate) const ANSWERED: &str = "answered_per_s";

/// Time of a core for a request, those that it waits in included.
pub(crate) const REQUEST: &str = "request_ns";

/// Time of a core for the card's work on a request.
pub(crate) const CARD: &str = "card_ns";

/// What goes over the bus for a request.
pub(crate) const BUS: [[&str; 2]; 2] =
    [["to_host_transactions", "to_host_bytes"], ["from_host_transactions", "from_host_bytes"]];

/// The steps of a request, and what they are called in a column.
pub(crate) const STEPS: [(&str, &str); 7] = [
    ("receive", "receive, check"),
    ("parse", "parse"),
    ("hash", "hash"),
    ("lock", "lock"),
    ("look_up", "look-up"),
    ("carry_out", "carry out, copy"),
    ("reply", "reply"),
];

/// The metric of a step.
pub(crate) fn step_metric(name: &str) -> String {
    format!("{name}_ns")
}

/// The metrics of a store.
pub(crate) fn put_answered(metrics: &mut Metrics, observation: &StoreObservation) {
    let (requests, timed) = (observation.requests.max(1) as f64, observation.timed.max(1) as f64);
    let median = |all: &[u64]| {
        let all: Vec<f64> = all.iter().map(|ns| *ns as f64).collect();
        statistics::median(&all).filter(|ns| *ns > 0.0)
    };
    if let Some(pass_ns) = median(&observation.passes_ns) {
        put(metrics, ANSWERED, timed * 1e9 / pass_ns, "1/s");
    }
    if let Some(worked_ns) = median(&observation.worked_ns) {
        put(metrics, REQUEST, worked_ns / timed, "ns");
    }
    for step in &observation.steps {
        put(metrics, &step_metric(&step.name), step.request_ns, "ns");
    }
    put(metrics, CARD, observation.card_ns, "ns");
    let busiest = observation.cores.iter().max().map_or(0.0, |most| *most as f64);
    put(metrics, "busiest_ratio", busiest * observation.cores.len() as f64 / requests, "1");
    put(metrics, "passes", observation.passes_ns.len() as f64, "passes");
    for (way, [transactions, bytes]) in ways(&observation.crossed).iter().zip(BUS) {
        put(metrics, transactions, way.transactions, "transactions");
        put(metrics, bytes, way.bytes, "B");
    }
}

/// Why a trial speaks for nothing: what is answered wrong may be answered sooner.
pub(crate) fn failure(observation: &StoreObservation) -> Option<String> {
    (observation.wrong > 0).then(|| {
        format!(
            "{} of {} requests were not answered right",
            observation.wrong, observation.requests
        )
    })
}

/// Whether the machine took a core away in the passes that count.
pub(crate) fn marks(observation: &StoreObservation) -> Vec<Mark> {
    observation.is_disturbed.then_some(Mark::Disturbed).into_iter().collect()
}
