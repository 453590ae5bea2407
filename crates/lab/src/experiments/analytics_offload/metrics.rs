//! The metrics of `analytics-offload`.

use niclab_device::AnalyticsObservation;

use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;
use crate::statistics;

/// Tuples in memory are counted by workers.
pub(crate) const COUNT: TrialKind = TrialKind::new("count");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: COUNT.name(),
    points: Some("analytics"),
    judged_by: &[TUPLE, CORE_RATE],
    headlines: &[CORE_RATE, TUPLE, CARD],
    metrics: &[COUNTED],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// The metrics of a tuple.
const COUNTED: &[Metric] = &[
    higher(CORE_RATE, "1/s", "tuples that a worker's core takes in a second of its work: the mean"),
    higher(ALL_RATE, "1/s", "tuples a second of all workers: as fast as the busiest core allows"),
    lower(TUPLE, "ns", "time of the workers' cores for a tuple"),
    lower(CARD, "ns", "time of a core for the card's work on a tuple, before the workers begin"),
    lower(WHOLE, "ns", "time of all cores for a tuple: the workers' and the card's"),
    lower(RESULT, "ns", "from the first frame that ends a pane to the result: the median"),
    neither("busiest_ratio", "1", "work of the busiest core, divided by the mean"),
    neither("frames", "frames", "of a pane"),
    neither("panes", "panes", "that were measured"),
    neither("windows", "windows", "whose results were compared with a plain count"),
    lower("…_ns", "ns", "a step of a tuple on the workers' cores"),
];

/// Tuples a second of a worker's core.
pub(crate) const CORE_RATE: &str = "core_tuples_per_s";
/// Tuples a second of all workers together.
pub(crate) const ALL_RATE: &str = "tuples_per_s";
/// Time of the workers' cores for a tuple.
pub(crate) const TUPLE: &str = "tuple_ns";
/// The card's own work.
pub(crate) const CARD: &str = "card_ns";
/// Time of the workers' cores and of the card.
pub(crate) const WHOLE: &str = "tuple_and_card_ns";
/// Time to the result of a window.
pub(crate) const RESULT: &str = "result_ns";

/// The steps of a tuple, and what they are called in a column.
pub(crate) const STEPS: [(&str, &str); 6] = [
    ("receive", "receive"),
    ("demultiplex", "demultiplex"),
    ("hand_over", "hand over"),
    ("acknowledge", "acknowledge"),
    ("operator", "operator"),
    ("rest", "rest"),
];

/// The metric of a step.
pub(crate) fn step_metric(name: &str) -> String {
    format!("{name}_ns")
}

/// The metrics of workers.
pub(crate) fn put_counted(metrics: &mut Metrics, observation: &AnalyticsObservation, cores: f64) {
    let tuples = observation.tuples.max(1) as f64;
    let median = |all: &[u64]| {
        let all: Vec<f64> = all.iter().map(|ns| *ns as f64).collect();
        statistics::median(&all).filter(|ns| *ns > 0.0)
    };
    let (busiest_ns, worked_ns) = (median(&observation.panes_ns), median(&observation.worked_ns));
    if let Some((busiest_ns, worked_ns)) = busiest_ns.zip(worked_ns) {
        put(metrics, CORE_RATE, tuples * 1e9 / worked_ns, "1/s");
        put(metrics, ALL_RATE, tuples * 1e9 / busiest_ns, "1/s");
        put(metrics, TUPLE, worked_ns / tuples, "ns");
        put(metrics, WHOLE, worked_ns / tuples + observation.card_ns, "ns");
        put(metrics, "busiest_ratio", busiest_ns * cores / worked_ns, "1");
    }
    for step in &observation.steps {
        put(metrics, &step_metric(&step.name), step.tuple_ns, "ns");
    }
    put(metrics, CARD, observation.card_ns, "ns");
    if let Some(result_ns) = median(&observation.results_ns) {
        put(metrics, RESULT, result_ns, "ns");
    }
    put(metrics, "frames", observation.frames as f64, "frames");
    put(metrics, "panes", observation.panes_ns.len() as f64, "panes");
    put(metrics, "windows", observation.windows as f64, "windows");
}

/// Why a trial is invalid: workers that count wrong may be faster.
pub(crate) fn failure(observation: &AnalyticsObservation) -> Option<String> {
    let AnalyticsObservation { wrong, windows, .. } = observation;
    (*wrong > 0).then(|| format!("{wrong} of {windows} windows differ from a plain count"))
}
