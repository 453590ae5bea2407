//! `analytics-offload`: how much more does a worker count if the card receives for it?

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::soft::analytics::{PANES_MIN, RESULT_PANES, WARM_PANES};
use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::metrics::{failure, put_counted};
use super::{Experiment, TaskResult, in_its_files, named};
use crate::measure::Metrics;
use crate::runner::json;

/// Making, taking, counting and checking a pane, seconds, and what single tuples add.
const PANE_S: f64 = 0.025;
const SINGLES_S: f64 = 0.05;

/// The experiment.
pub(crate) struct AnalyticsOffload;

impl Experiment for AnalyticsOffload {
    named!("analytics_offload", ("analytics-offload", "analytics-offload", &["soft"]));

    in_its_files!();

    fn terms(&self) -> &'static str {
        "With rss the card assigns sources to the workers' cores. These check frames, divide \
         batches, hand tuples over and acknowledge. With steer each core does so for its own keys. \
         With dma the card does it, and writes tuples into the workers' rings. Tuples lie in \
         memory before the clock starts, and the card's work is timed apart. The time of threads \
         on CPUs counts. There is no wire and no loss."
    }

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Analytics(of) = task else { return None };
        let measured_s = (of.duration_ns + of.warmup_ns) as f64 / 1e9;
        let pane_s = PANE_S + SINGLES_S / f64::from(of.workload.batch.max(1));
        let others_s = (WARM_PANES + RESULT_PANES) as f64 * pane_s;
        Some(others_s + measured_s.max(PANES_MIN as f64 * pane_s))
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Analytics(of), Observation::Analytics(observation)) = (task, observation) else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_counted(&mut metrics, &observation, of.workers.into());
        Some(TaskResult {
            question: json(of),
            metrics,
            marks: Vec::new(),
            counters: json(&observation),
            ended: failure(&observation),
            latency: None,
        })
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.counting
    }
}
