//! The metrics of `rule-rate`.

use niclab_device::LoadObservation;
use niclab_result::Quantity;

use crate::measure::{Metrics, UnsentBasis, put, quantiles};
use crate::metrics::{
    CONTROL, DESTROY_RATE, DESTROYED, LOAD, Metric, SATURATE_BASE, TrialMetrics, higher, lower,
    neither,
};
use crate::spec::TrialKind;

/// Rules are created and destroyed without packets.
pub(crate) const INSERT: TrialKind = TrialKind::new("insert");

/// Rules are created one by one while frames of their flows probe whether they are there.
pub(crate) const EFFECT: TrialKind = TrialKind::new("effect");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[SATURATE_BASE, INSERT_TRIAL, EFFECT_TRIAL];

/// Rules that are created and destroyed without packets.
const INSERT_TRIAL: TrialMetrics = TrialMetrics {
    trial: INSERT.name(),
    points: Some("insertion"),
    judged_by: &["operations_per_s"],
    headlines: &["operations_per_s", "operations_done", "destroy_operations_per_s", "call_ns_p99"],
    metrics: &[CONTROL, DESTROY_RATE, DESTROYED],
    is_throughput: true,
    judged: UnsentBasis::Whole,
};

/// Rules that are created one by one while packets probe whether they are there.
const EFFECT_TRIAL: TrialMetrics = TrialMetrics {
    trial: EFFECT.name(),
    points: Some("effect"),
    judged_by: &["effect_ns_p50"],
    headlines: &["effect_ns_p50", "effect_ns_p99", "effects"],
    metrics: &[LOAD, CONTROL, EFFECTS],
    ..INSERT_TRIAL
};

/// When rules take effect.
const EFFECTS: &[Metric] = &[
    lower("effect_ns_…", "ns", "from the call for a rule until the last frame left without it"),
    lower("effect_resolution_ns", "ns", "time between two frames of a flow: nothing finer is seen"),
    higher("effects", "rules", "of which it was seen when they took effect"),
    neither("effects_missing", "rules", "that did not take effect"),
];

/// A flow whose last frame left so many frames of its own before the end of the load, or fewer, met
/// no rule to the end.
const LAST_FRAMES: f64 = 4.0;

/// Adds when the rules of a trial took effect: how long after the call for each began the last
/// frame left that did not meet it, 0 where none did. Where the last frames of a flow before the
/// end of the load did not meet its rule, it never took effect as far as was seen.
pub fn put_effects(metrics: &mut Metrics, o: &LoadObservation) {
    let Some(control) = &o.control else { return };
    let gap_ns = o.duration_ns as f64 * o.latest_ns.len() as f64 / o.offered.max(1) as f64;
    let last_ns = o.duration_ns.saturating_sub((LAST_FRAMES * gap_ns) as u64);
    let (mut times, mut missing) = (niclab_device::Latency::new(), 0);
    for (begun_ns, latest_ns) in control.each_begun_ns.iter().zip(&o.latest_ns) {
        match latest_ns {
            Some(latest_ns) if *latest_ns >= last_ns => missing += 1,
            Some(latest_ns) => times.record(latest_ns.saturating_sub(*begun_ns)),
            None => {}
        }
    }
    put(metrics, "effects_missing", f64::from(missing), "rules");
    put(metrics, "effects", times.0.len() as f64, "rules");
    quantiles(metrics, "effect_ns", &times);
    // The shortest time that a histogram has stands for none.
    let none = |(name, metric): &(&String, &mut Quantity)| {
        name.starts_with("effect_ns") && metric.value <= 1.0
    };
    metrics.iter_mut().filter(none).for_each(|(_, metric)| metric.value = 0.0);
    if o.offered > 0 {
        put(metrics, "effect_resolution_ns", gap_ns, "ns");
    }
}
