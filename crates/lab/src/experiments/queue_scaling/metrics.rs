//! The metrics of `queue-scaling` and `queue-overhead`.

use niclab_device::LoadObservation;

use crate::measure::{Metrics, UnsentBasis, put, put_ratio};
use crate::metrics::{LOAD, Metric, TrialMetrics, higher, lower, neither};
use crate::spec::TrialKind;

/// As much as the device takes, by so many cores.
pub(crate) const SCALING: TrialKind = TrialKind::new("scaling");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: SCALING.name(),
    points: Some("scaling"),
    judged_by: &["throughput_pps"],
    headlines: &["throughput_pps", "device_ns_per_frame"],
    metrics: &[LOAD, CORES],
    is_throughput: true,
    judged: UnsentBasis::Whole,
}];

/// What each core does.
const CORES: &[Metric] = &[
    higher(PER_CORE, "pps", "frames a second of each core, on average"),
    lower(CORE_NS, "ns", "time of a core for a frame, those that it waits in included"),
    neither(CROSSED, "1", "share of the frames that one core received and another forwarded"),
    neither("staged_passes", "passes", "over frames in memory"),
];

/// Frames a second of each core, on average.
pub(crate) const PER_CORE: &str = "core_pps";

/// Time of a core for a frame, those that it waits in included.
pub(crate) const CORE_NS: &str = "core_ns_per_frame";

/// Share of the frames that one core received and another forwarded.
pub(crate) const CROSSED: &str = "crossed_ratio";

/// Adds what so many cores did, each for itself.
pub(crate) fn put_scaling(metrics: &mut Metrics, o: &LoadObservation, cores: u16) {
    let Some(pps) = metrics.get("throughput_pps").map(|pps| pps.value) else { return };
    let cores = f64::from(cores.max(1));
    put(metrics, PER_CORE, pps / cores, "pps");
    if pps > 0.0 {
        put(metrics, CORE_NS, cores * 1e9 / pps, "ns");
    }
    if let Some(crossed) = o.crossed {
        let received = o.device.as_ref().map_or(0, |device| device.total().rx_frames);
        put_ratio(metrics, CROSSED, crossed, received);
    }
}
