//! The metrics of `frame-size`.

use niclab_device::{LoadObservation, PortCounters};

use crate::measure::{Metrics, put, put_ratio};
use crate::metrics::{LOAD, Metric, SATURATE, TrialMetrics, neither, search};
use crate::throughput::Mode;

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] =
    &[TrialMetrics { metrics: &[LOAD, LIMITS], ..SATURATE }, search(Mode::Mlrsearch)];

/// Where frames are lost.
const LIMITS: &[Metric] = &[
    neither(IDLE, "1", "share of its time in which the device's core was idle"),
    neither(
        RING_MISSED,
        "1",
        "share of the frames offered that found the ring of their queue full",
    ),
    neither(EARLY_MISSED, "1", "share of them that was lost before the queues"),
];

/// Share of the frames offered that found the ring of their queue full.
pub(crate) const RING_MISSED: &str = "ring_missed_ratio";

/// Share of the frames offered that the device lost before they came to a queue.
pub(crate) const EARLY_MISSED: &str = "early_missed_ratio";

/// Share of its time in which the device's core had nothing to do.
pub(crate) const IDLE: &str = "device_idle_ratio";

/// Adds where frames were lost, and how idle the device's core was; of the whole trial.
pub(crate) fn put_limits(metrics: &mut Metrics, o: &LoadObservation) {
    if let Some(idle) = o.honesty.device_idle_ratio {
        put(metrics, IDLE, idle, "1");
    }
    let Some(device) = &o.device else { return };
    let of_rings = PortCounters::total(device).rx_missed;
    let offered = o.generator.total().tx_frames;
    put_ratio(metrics, RING_MISSED, of_rings, offered);
    put_ratio(metrics, EARLY_MISSED, device.rx_missed.saturating_sub(of_rings), offered);
}
