//! The metrics of `program-cost`.

use niclab_device::ProgramObservation;

use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;
use crate::statistics;

/// Packets in memory go through a program.
pub(crate) const PROCESS: TrialKind = TrialKind::new("process");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: PROCESS.name(),
    points: Some("program"),
    judged_by: &[PACKET],
    headlines: &[PACKET],
    metrics: &[COSTS],
    is_throughput: true,
    judged: UnsentBasis::Whole,
}];

/// What a packet costs.
const COSTS: &[Metric] = &[
    lower(PACKET, "ns", "time of a core for a packet: the median of the stretches"),
    higher("throughput_pps", "pps", "packets a second of a core that does nothing else"),
    neither("stretches", "stretches", "of packets that were timed"),
    neither("worst_instructions", "instructions", "at worst, by the program's text"),
    neither("worst_lookups", "look-ups", "at worst, by the program's text"),
    neither("worst_key_bits", "bit", "at worst, by the program's text"),
    neither("worst_array_accesses", "accesses", "at worst, by the program's text"),
    neither("worst_header_bytes", "B", "at worst, by the program's text"),
];

/// Time of a core for a packet.
pub(crate) const PACKET: &str = "packet_ns";

/// The metrics of a program.
pub(crate) fn put_processed(metrics: &mut Metrics, observation: &ProgramObservation) {
    let stretches: Vec<f64> = observation.stretches_ns.iter().map(|ns| *ns as f64).collect();
    let packets = observation.stretch.max(1) as f64;
    if let Some(stretch_ns) = statistics::median(&stretches).filter(|ns| *ns > 0.0) {
        put(metrics, PACKET, stretch_ns / packets, "ns");
        put(metrics, "throughput_pps", packets * 1e9 / stretch_ns, "pps");
    }
    put(metrics, "stretches", stretches.len() as f64, "stretches");
    for (name, count, unit) in [
        ("worst_instructions", observation.worst.instructions, "instructions"),
        ("worst_lookups", observation.worst.lookups, "look-ups"),
        ("worst_key_bits", observation.worst.key_bits, "bit"),
        ("worst_array_accesses", observation.worst.array_accesses, "accesses"),
        ("worst_header_bytes", observation.worst.header_bytes, "B"),
    ] {
        put(metrics, name, count as f64, unit);
    }
}

/// Why a trial speaks for nothing: packets that are lost on the way cost less than others.
pub(crate) fn failure(observation: &ProgramObservation) -> Option<String> {
    (observation.lost > 0).then(|| {
        format!(
            "{} of {} packets did not come through the program",
            observation.lost, observation.packets
        )
    })
}
