//! The metrics of `queue-change`.

use niclab_device::LoadObservation;
use niclab_load::{QueueReaction, RssChanges};

use crate::measure::{Metrics, UnsentBasis, put};
use crate::metrics::{LOAD, Metric, TrialMetrics, lower, neither};
use crate::run::step;
use crate::spec::TrialKind;

/// Frames flow while RSS changes.
pub(crate) const RSS_CHANGE: TrialKind = TrialKind::new("rss-change");

/// Its trials, and what each is made for.
pub(crate) const TRIALS: &[TrialMetrics] = &[TrialMetrics {
    trial: RSS_CHANGE.name(),
    points: Some("rss-change"),
    // Not every point has changes that settle.
    judged_by: &["loss_ratio"],
    headlines: &["loss_ratio", "reordered_frames", SETTLED, REACTION],
    metrics: &[CHANGED, LOAD],
    is_throughput: true,
    judged: UnsentBasis::Whole,
}];

/// What changes of RSS do.
const CHANGED: &[Metric] = &[
    lower("reordered_frames", "frames", "came back behind a later one of their flow"),
    neither("rss_changes", "changes", "that were carried out"),
    neither("held_drop_frames", "frames", "dropped while they waited, in the whole trial"),
    neither("answers", "changes", "that the device made by itself"),
    lower("settled_ns_…", "ns", "from a call until the change was seen to hold"),
    lower(LOOK, "ns", "time between two looks at that, on average"),
    lower(REACTION, "ns", "from the step of the load to the device's first action"),
    lower(REACTION_LAST, "ns", "from there to its last action within the step"),
    neither("cpu_cores_…", "cores", "processor time of all cores, divided by time, in each third"),
    neither("used_cores_…", "cores", "cores in use in each third, on average"),
];

/// From a change until it was seen to hold for every frame, median.
pub(crate) const SETTLED: &str = "settled_ns_p50";

/// Time between two looks at whether it does.
pub(crate) const LOOK: &str = "look_ns";

/// From the step up until the first thing that the device did then.
pub(crate) const REACTION: &str = "reaction_ns";

/// From the step up until the last thing that it did before the step down.
pub(crate) const REACTION_LAST: &str = "reaction_ns_last";

/// The thirds of a trial in which load steps.
pub(crate) const THIRDS: [&str; 3] = ["before", "step", "behind"];

/// A core that deals with a smaller share of the frames is not in use: some come by rings that
/// others emptied late.
const IN_USE_MIN: f64 = 0.01;

/// Adds the RSS changes and their effect.
pub(crate) fn put_rss_change(metrics: &mut Metrics, o: &LoadObservation, observed: &RssChanges) {
    put(metrics, "rss_changes", observed.changes as f64, "changes");
    put(metrics, "held_drop_frames", observed.held_drops as f64, "frames");
    put(metrics, "answers", observed.answers.len() as f64, "changes");
    if let Some(settled) = observed.settled.as_ref().filter(|settled| !settled.0.is_empty()) {
        for (name, quantile) in [(SETTLED, 0.5), ("settled_ns_p99", 0.99)] {
            put(metrics, name, settled.0.value_at_quantile(quantile) as f64, "ns");
        }
        put(metrics, "settled_ns_max", settled.0.max() as f64, "ns");
        put(metrics, LOOK, observed.look_ns as f64, "ns");
    }
    let (from_ns, until_ns) = step(o.duration_ns);
    let is_in_step = |answer: &&QueueReaction| (from_ns..until_ns).contains(&answer.at_ns);
    let ends = [
        (REACTION, observed.answers.iter().find(is_in_step)),
        (REACTION_LAST, observed.answers.iter().rfind(is_in_step)),
    ];
    for (name, answer) in ends {
        answer.iter().for_each(|of| put(metrics, name, (of.at_ns - from_ns) as f64, "ns"));
    }
    let stretches = observed.cpu_ns.first().map_or(0, Vec::len);
    let third = |at: usize| at * stretches / THIRDS.len()..(at + 1) * stretches / THIRDS.len();
    for (at, name) in THIRDS.iter().enumerate().filter(|_| stretches >= THIRDS.len()) {
        let all = third(at);
        let count = all.len() as f64;
        let cpu_ns: u64 = observed.cpu_ns.iter().flat_map(|of| &of[all.clone()]).sum();
        let used: usize = all.map(|stretch| used_cores(observed, stretch)).sum();
        let busy = cpu_ns as f64 / (count * observed.stretch_ns as f64);
        put(metrics, &format!("cpu_cores_{name}"), busy, "cores");
        put(metrics, &format!("used_cores_{name}"), used as f64 / count, "cores");
    }
}

/// Cores that dealt with frames in a stretch.
pub(crate) fn used_cores(observed: &RssChanges, stretch: usize) -> usize {
    let of = |frames: &Vec<u64>| frames.get(stretch).copied().unwrap_or(0) as f64;
    let all: f64 = observed.frames.iter().map(of).sum();
    observed.frames.iter().filter(|frames| of(frames) > IN_USE_MIN * all).count()
}
