//! `echo-size`, `echo-batch` and `echo-features`: round trips through the stack of the kernel.

pub(crate) mod analysis;
pub(crate) mod feature_figures;
pub(crate) mod feature_findings;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;

use niclab_device::echo::Echo as Messages;
use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::analysis::{faster_though_longer, is_plain};
use self::metrics::{ended, marks, put_round_trips};
use super::{Experiment, MODEL, PEER, TaskResult, VETH, in_its_files, named};
use crate::cells::Cell;
use crate::estimate::SERVER_S;
use crate::hosts::RTT;
use crate::measure::Metrics;
use crate::runner::json;
use crate::summary::Results;

/// The experiment.
pub(crate) struct Echo;

impl Experiment for Echo {
    named!(
        "echo",
        ("echo-size", "echo", &[MODEL, VETH, PEER]),
        ("echo-batch", "echo", &[MODEL, VETH, PEER]),
        ("echo-features", "echo", &[VETH]),
    );

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::RoundTrips(trips) = task else { return None };
        let Messages { duration_ns, warmup_ns, .. } = trips.echo;
        Some(SERVER_S + (duration_ns + warmup_ns) as f64 / 1e9)
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::RoundTrips(trips), Observation::RoundTrips(observation)) = (task, observation)
        else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_round_trips(&mut metrics, &observation, &trips.echo);
        Some(TaskResult {
            question: json(trips),
            metrics,
            marks: marks(&observation.echoed),
            counters: serde_json::json!({ "server": json(&observation.served) }),
            ended: ended(&observation.echoed),
            latency: Some(observation.echoed.rtt),
        })
    }

    fn has_messages(&self) -> bool {
        true
    }

    fn published_round_trip(&self, cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
        is_plain(cell).then_some(("udp_echo", RTT))
    }

    fn warnings(&self, results: &Results<'_>) -> Vec<String> {
        results.devices().filter_map(|device| faster_though_longer(results, device)).collect()
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.hosts
    }
}
