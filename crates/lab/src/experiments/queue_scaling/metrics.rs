//! What the trials of `queue-scaling` and `queue-overhead` measure.

use niclab_device::Observation;

use crate::measure::{Metrics, put, put_ratio};

/// Frames a second of each core, on average.
pub(crate) const PER_CORE: &str = "core_pps";

/// Time of a core for a frame, those that it waits in included.
pub(crate) const CORE_NS: &str = "core_ns_per_frame";

/// Share of the frames that one core received and another forwarded.
pub(crate) const CROSSED: &str = "crossed_ratio";

/// Adds what so many cores did, each for itself.
pub(crate) fn put_scaling(metrics: &mut Metrics, o: &Observation, cores: u16) {
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
