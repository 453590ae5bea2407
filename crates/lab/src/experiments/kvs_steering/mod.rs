//! `kvs-steering`: how much faster is a key-value store when the card steers requests?

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::metrics::{failure, marks, put_answered};
use super::{Experiment, TaskResult, in_its_files, named};
use crate::measure::Metrics;
use crate::runner::json;

/// Making the requests that lie in memory in front of a store, seconds.
const REQUESTS_S: f64 = 0.1;
/// Items that are put into a store, a second.
const ITEMS_PER_S: f64 = 1_500_000.0;

/// The experiment.
pub(crate) struct KvsSteering;

impl Experiment for KvsSteering {
    named!("kvs_steering", ("kvs-steering", "kvs-steering", &["soft"]));

    in_its_files!();

    fn terms(&self) -> &'static str {
        "With rss the card spreads requests over the cores by their flow. With steer it sends each \
         request to the core that owns the key. With dma it also writes the items and answers for \
         them. Passes are staged: all requests lie in memory before the clock starts, so there is \
         no wire, no latency and no loss."
    }

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Store(serving) = task else { return None };
        // Passes that are watched take a part of the measured time again.
        let passes_s = 1.5 * (serving.duration_ns + serving.warmup_ns) as f64 / 1e9;
        Some(passes_s + REQUESTS_S + f64::from(serving.asked.count) / ITEMS_PER_S)
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Store(serving), Observation::Store(observation)) = (task, observation) else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_answered(&mut metrics, &observation);
        Some(TaskResult {
            question: json(serving),
            metrics,
            marks: marks(&observation),
            counters: json(&observation),
            ended: failure(&observation),
            latency: None,
        })
    }

    fn disturbed_words(&self) -> &'static str {
        "the machine took a core away in every pass of at least half of the repeats. Do not trust \
         the answered requests and the time per request. Measure again on a calmer machine"
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.serving
    }
}
