//! `stream`: how much data the kernel's stack carries from one host to another.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::metrics::{ended, marks, put_stream};
use super::{Experiment, TaskResult, VETH, in_its_files, named};
use crate::estimate::SERVER_S;
use crate::measure::Metrics;
use crate::runner::json;

/// The experiment.
pub(crate) struct Stream;

impl Experiment for Stream {
    named!("stream", ("stream", "stream", &[VETH]));

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Stream(streaming) = task else { return None };
        let stream = &streaming.stream;
        Some(SERVER_S + (stream.duration_ns + stream.warmup_ns) as f64 / 1e9)
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Stream(streaming), Observation::Stream(observation)) = (task, observation)
        else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_stream(&mut metrics, &observation, &streaming.stream);
        Some(TaskResult {
            question: json(streaming),
            metrics,
            marks: marks(&observation),
            counters: json(&observation),
            ended: ended(&observation),
            latency: None,
        })
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.hosts
    }
}
