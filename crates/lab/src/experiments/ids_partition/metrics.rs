//! The metrics of `ids-partition`.

use niclab_device::{DetectionCore, DetectionObservation};
use niclab_result::Mark;

use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;
use crate::statistics;

/// Packets in memory are inspected by engines.
pub(crate) const DETECT: TrialKind = TrialKind::new("detect");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: DETECT.name(),
    points: Some("detection"),
    judged_by: &[INSPECTED, INSPECTION],
    headlines: &[INSPECTED, INSPECTION, MEMORY],
    metrics: &[DETECTED],
    is_throughput: false,
    judged: UnsentBasis::Whole,
}];

/// What an inspection costs.
const DETECTED: &[Metric] = &[
    higher(INSPECTED, "pps", "packets a second of all cores: as fast as the busiest allows"),
    lower(INSPECTION, "ns", "time of all cores for a packet of the load"),
    lower(MEMORY, "B", "memory of an engine: the one with most"),
    higher(CORE_RATE, "pps", "packets that a core inspects in a second of its work: the mean"),
    higher(CORE_BYTES, "B/s", "bytes that a core inspects in a second of its work: the mean"),
    lower(IMBALANCE, "1", "work of the busiest core, divided by the mean"),
    neither(GIVEN, "1", "packets that all cores get, divided by the packets of the load"),
    neither(RULES, "rules", "rules of the core with most"),
    lower(MISSES, "misses", "cache misses of all cores for a packet, if the machine counts them"),
    lower(CARD, "ns", "time of a core for the card's work on a packet, in none of the others"),
    neither("alerts", "alerts", "of one engine with all rules, and of all cores together"),
    neither("passes", "passes", "over the packets"),
];

/// Packets a second of all cores together.
pub(crate) const INSPECTED: &str = "inspected_pps";
/// Time of all cores for a packet.
pub(crate) const INSPECTION: &str = "inspection_ns";
/// Memory of an engine.
pub(crate) const MEMORY: &str = "engine_memory_bytes";
/// Packets a second of a core.
pub(crate) const CORE_RATE: &str = "core_pps";
/// Bytes a second of a core.
pub(crate) const CORE_BYTES: &str = "core_bytes_per_s";
/// How unequal the work of the cores is.
pub(crate) const IMBALANCE: &str = "imbalance_ratio";
/// Packets for cores, by packets that came.
pub(crate) const GIVEN: &str = "given_ratio";
/// Rules of a core.
pub(crate) const RULES: &str = "core_rules";
/// Cache misses.
pub(crate) const MISSES: &str = "cache_misses";
/// The card's own work.
pub(crate) const CARD: &str = "card_ns";

/// The metrics of a detection.
pub(crate) fn put_detected(metrics: &mut Metrics, observation: &DetectionObservation) {
    let packets = observation.packets.max(1) as f64;
    let median = |all: &[u64]| {
        let all: Vec<f64> = all.iter().map(|ns| *ns as f64).collect();
        statistics::median(&all).filter(|ns| *ns > 0.0)
    };
    if let Some(pass_ns) = median(&observation.passes_ns) {
        put(metrics, INSPECTED, packets * 1e9 / pass_ns, "pps");
    }
    if let Some(worked_ns) = median(&observation.worked_ns) {
        put(metrics, INSPECTION, worked_ns / packets, "ns");
    }
    let cores = &observation.cores;
    let most = |of: fn(&DetectionCore) -> u64| cores.iter().map(of).max().unwrap_or(0) as f64;
    let sum = |of: fn(&DetectionCore) -> u64| cores.iter().map(of).sum::<u64>() as f64;
    put(metrics, MEMORY, most(|core| core.memory_bytes), "B");
    let worked_ns = sum(|core| core.worked_ns);
    if worked_ns > 0.0 {
        put(metrics, CORE_RATE, sum(|core| core.packets) * 1e9 / worked_ns, "pps");
        put(metrics, CORE_BYTES, sum(|core| core.bytes) * 1e9 / worked_ns, "B/s");
        let mean_ns = worked_ns / cores.len() as f64;
        put(metrics, IMBALANCE, most(|core| core.worked_ns) / mean_ns, "1");
    }
    put(metrics, GIVEN, sum(|core| core.packets) / packets, "1");
    put(metrics, RULES, most(|core| core.rules), "rules");
    if let Some(misses) = observation.cache_misses {
        put(metrics, MISSES, misses, "misses");
    }
    if let Some(card_ns) = observation.card_ns {
        put(metrics, CARD, card_ns, "ns");
    }
    put(metrics, "alerts", observation.alerts as f64, "alerts");
    put(metrics, "passes", observation.passes_ns.len() as f64, "passes");
}

/// Why a trial speaks for nothing: engines that report something else may be faster.
pub(crate) fn failure(observation: &DetectionObservation) -> Option<String> {
    let DetectionObservation { wrong, lost, given_up, alerts, .. } = observation;
    match (wrong, lost, given_up) {
        (0, 0, 0) => None,
        (0, 0, given_up) => Some(format!("{given_up} inspections reached a limit of the engine")),
        (0, lost, _) => Some(format!("{lost} packets did not reach the engines")),
        (wrong, ..) => Some(format!(
            "{wrong} alerts are missing or wrong; one engine with all rules has {alerts}"
        )),
    }
}

/// Whether the machine took a core away in the passes that count.
pub(crate) fn marks(observation: &DetectionObservation) -> Vec<Mark> {
    observation.is_disturbed.then_some(Mark::Disturbed).into_iter().collect()
}
