//! `memcached`, `redis`, `function` and `core-scaling`: throughput and latency of real servers.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod trials;

use niclab_device::linux::stamped_requests;
use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::analysis::{is_back_to_back, published_name};
use self::metrics::{LATENCY, counters, marks, put_application};
use super::{Experiment, PEER, TaskResult, VETH, in_its_files, named};
use crate::breakdown::PROBES_S;
use crate::cells::Cell;
use crate::estimate::SERVER_S;
use crate::measure::Metrics;
use crate::runner::json;

/// The experiment.
pub(crate) struct Application;

impl Experiment for Application {
    named!(
        "application",
        ("memcached", "applications", &[VETH, PEER]),
        ("redis", "applications", &[VETH, PEER]),
        ("function", "applications", &[VETH, PEER]),
        ("core-scaling", "applications", &[VETH]),
    );

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Requests(application) = task else { return None };
        Some(application_s(application))
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Requests(application), Observation::Requests(observation)) = (task, observation)
        else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_application(&mut metrics, &observation);
        Some(TaskResult {
            question: json(application),
            metrics,
            marks: marks(&observation),
            counters: counters(&observation),
            ended: observation.requested.ended,
            latency: Some(observation.requested.latency),
        })
    }

    fn has_messages(&self) -> bool {
        true
    }

    fn published_round_trip(&self, cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
        match is_back_to_back(cell) && cell.word("family") == "ipv4" {
            true => Some((published_name(cell)?, LATENCY)),
            false => None,
        }
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.hosts
    }
}

/// Seconds that clients ask, and that a breakdown of their requests takes.
fn application_s(application: &niclab_device::Application) -> f64 {
    let asked = &application.requests;
    let slice_s = stamped_requests::slice_ns(asked) as f64 / 1e9;
    let pair_s = 2.0 * slice_s + PROBES_S;
    let breakdown_s = match application.stamps {
        true => f64::from(stamped_requests::PAIRS) * pair_s,
        false => 0.0,
    };
    SERVER_S + (asked.duration_ns + asked.warmup_ns) as f64 / 1e9 + breakdown_s
}
