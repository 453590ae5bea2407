//! `program-cost`: the time that a core needs for a packet in a match+action program.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::cases::Loaded;
use niclab_device::{DeviceInfo, Observation, PathNode, Task};

use self::metrics::{failure, put_processed};
use super::{Experiment, TaskResult, in_its_files, named};
use crate::estimate::RULES_PER_S;
use crate::measure::Metrics;
use crate::runner::json;
use crate::summary::Results;

/// The experiment.
pub(crate) struct ProgramCost;

impl Experiment for ProgramCost {
    named!("program_cost", ("program-cost", "program-cost", &["soft", "swx"]));

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Program(processing) = task else { return None };
        let Loaded { count, entries, .. } = processing.program;
        // Packets are put back before each pass, which takes as long as a short program.
        let passes_s = 2.0 * (processing.duration_ns + processing.warmup_ns) as f64 / 1e9;
        Some(passes_s + f64::from(count) * f64::from(entries) / RULES_PER_S)
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Program(processing), Observation::Program(observation)) = (task, observation)
        else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_processed(&mut metrics, &observation);
        let (question, counters, ended) =
            (json(processing), json(&observation), failure(&observation));
        Some(TaskResult { question, metrics, counters, ended, ..TaskResult::default() })
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.programmed
    }

    fn warnings(&self, results: &Results<'_>) -> Vec<String> {
        analysis::unlike(results)
    }
}
