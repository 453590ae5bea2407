//! `kvs-steering`: how much faster is a key-value store when the card steers requests?

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::{About, Observation, Station, Task};

use self::metrics::{failure, marks, put_answered};
use super::{BuiltIn, DeviceAnswer, Experiment, built_in, in_its_files};
use crate::measure::Metrics;
use crate::runner::json;

/// Making the requests that lie in memory in front of a store, seconds.
const REQUESTS_S: f64 = 0.1;
/// Items that are put into a store, a second.
const ITEMS_PER_S: f64 = 1_500_000.0;

/// What the lab knows of it.
pub(crate) struct KvsSteering;

impl Experiment for KvsSteering {
    fn name(&self) -> &'static str {
        "kvs_steering"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("kvs-steering", "kvs-steering", &["soft"])];
        ALL
    }

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Store(serving) = task else { return None };
        // Passes that are watched take a part of the measured time again.
        let passes_s = 1.5 * (serving.duration_ns + serving.warmup_ns) as f64 / 1e9;
        Some(passes_s + REQUESTS_S + f64::from(serving.asked.count) / ITEMS_PER_S)
    }

    fn answer(&self, task: &Task, seen: Observation) -> Option<DeviceAnswer> {
        let (Task::Store(serving), Observation::Store(seen)) = (task, seen) else { return None };
        let mut metrics = Metrics::new();
        put_answered(&mut metrics, &seen);
        Some(DeviceAnswer {
            question: json(serving),
            metrics,
            marks: marks(&seen),
            counters: json(&seen),
            ended: failure(&seen),
            latency: None,
        })
    }

    fn disturbed_words(&self) -> &'static str {
        "the machine took a core away in every pass of at least half of the repeats. Do not trust \
         the answered requests and the time per request. Measure again on a calmer machine"
    }

    fn places<'a>(&self, about: &'a About) -> &'a [Station] {
        &about.serving
    }
}
