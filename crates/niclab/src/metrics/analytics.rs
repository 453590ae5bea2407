//! Metric families of `niclab analytics`.

use niclab_analytics::job::EngineStatus;
use niclab_analytics::receiver::ReceiverCounters;

use super::families::{Families, Family, MetricKind, MetricValue};
use crate::analytics::InputCounters;

use MetricKind::{Counter, Gauge};

/// Adds the families of an engine and its input.
pub fn push(engine: &EngineStatus, counters: &InputCounters, families: &mut Families) {
    let tuples = counters.tuples();
    let ReceiverCounters { taken, duplicates, no_room, beyond, late, .. } = tuples;
    let help = "Tuples that arrived, by what was done with them.";
    let mut family = Family::new(Counter, "niclab_analytics_tuples", "", help);
    for (outcome, count) in [
        ("taken", taken),
        ("duplicate", duplicates),
        ("late", late),
        ("beyond", beyond),
        ("no_room", no_room),
    ] {
        family.push(vec![("outcome", outcome.to_owned())], MetricValue::Whole(count));
    }
    families.push(family);
    let help = "Datagrams that arrived, by what was done with them.";
    let mut family = Family::new(Counter, "niclab_analytics_frames", "", help);
    let accepted = tuples.frames - tuples.refused - tuples.foreign;
    for (outcome, count) in [
        ("accepted", accepted),
        ("malformed", tuples.malformed),
        ("refused", tuples.refused),
        ("foreign", tuples.foreign),
    ] {
        family.push(vec![("outcome", outcome.to_owned())], MetricValue::Whole(count));
    }
    families.push(family);
    let windows = counters.windows();
    let single = [
        (Gauge, "niclab_analytics_sources", "Live sources.", counters.live_sources() as u64),
        (Counter, "niclab_analytics_windows", "Windows whose result was written.", windows),
        (
            Counter,
            "niclab_analytics_restarts",
            "Times that the workers were started again because one died.",
            engine.restarts,
        ),
    ];
    for (kind, name, help, count) in single {
        let mut family = Family::new(kind, name, "", help);
        family.push(Vec::new(), MetricValue::Whole(count));
        families.push(family);
    }
    let of_workers = [
        ("niclab_analytics_waiting", "Tuples that wait, by worker.", &engine.waiting),
        ("niclab_analytics_pairs", "Counts that are kept, by worker.", &engine.pairs),
    ];
    for (name, help, counts) in of_workers {
        let mut family = Family::new(Gauge, name, "", help);
        for (worker, count) in counts.iter().enumerate() {
            family.push(vec![("worker", worker.to_string())], MetricValue::Whole(*count as u64));
        }
        families.push(family);
    }
}
