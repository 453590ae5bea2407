//! `echo-ledger`: where the time of a round trip goes.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod parts;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::echo::Echo as Messages;
use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::analysis::{is_deep, is_published_place, software_and_hardware};
use self::trials::PAIRS;
use super::{Experiment, MODEL, PEER, TaskResult, VETH, in_its_files, named};
use crate::breakdown::{PROBES_S, put_breakdown};
use crate::cells::Cell;
use crate::estimate::SERVER_S;
use crate::measure::Metrics;
use crate::run::{ExperimentRun, Trial};
use crate::runner::json;

/// The experiment.
pub(crate) struct EchoLedger;

impl Experiment for EchoLedger {
    named!("ledger", ("echo-ledger", "echo-ledger", &[MODEL, VETH, PEER]));

    in_its_files!();

    fn task(&self, run: &ExperimentRun, trial: &Trial) -> Option<Task> {
        match run.task(trial)? {
            Task::RoundTrips(trips) => Some(Task::Breakdown { trips, pairs: PAIRS }),
            _ => None,
        }
    }

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Breakdown { trips, pairs } = task else { return None };
        let Messages { duration_ns, warmup_ns, .. } = trips.echo;
        let each_s = (duration_ns + warmup_ns) as f64 / 1e9;
        Some(SERVER_S + f64::from(*pairs) * (2.0 * each_s + PROBES_S))
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Breakdown { trips, .. }, Observation::Breakdown(observation)) =
            (task, observation)
        else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_breakdown(&mut metrics, &observation);
        let counters = serde_json::json!({
            "terms": json(&observation.terms),
            "pairs": json(&observation.pairs),
            "stamps": observation.stamps,
            "in_payload": observation.in_payload,
            "by_sockets": observation.by_sockets,
        });
        let (question, latency) = (json(trips), Some(observation.with));
        Some(TaskResult { question, metrics, counters, latency, ..TaskResult::default() })
    }

    fn has_messages(&self) -> bool {
        true
    }

    fn published_split(&self, cell: &Cell<'_>) -> Option<[f64; 3]> {
        // Stamps inside the stacks take time of their own.
        if !is_published_place(cell) || is_deep(&cell) {
            return None;
        }
        let [client, server, hardware] = software_and_hardware(cell);
        Some([client?, server?, hardware?])
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.hosts
    }
}
