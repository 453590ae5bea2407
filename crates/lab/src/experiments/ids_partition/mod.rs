//! `ids-partition`: how much faster is an intrusion detection whose rules are divided over cores?

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::{DeviceInfo, InspectionEngine, Observation, PathNode, Task};

use self::metrics::{failure, marks, put_detected};
use super::{Experiment, TaskResult, in_its_files, named};
use crate::measure::Metrics;
use crate::runner::json;

/// Making packets, seconds.
const PACKETS_S: f64 = 0.15;
/// Rules that are made and read for an engine of niclab, and for Suricata, a second.
const RULES_PER_S: f64 = 150_000.0;
const SURICATA_RULES_PER_S: f64 = 6_000.0;
/// Starting and ending Suricata without rules, seconds.
const SURICATA_S: f64 = 0.5;
/// The shortest trace for Suricata, seconds at a packet for each microsecond.
const TRACE_S: f64 = 0.26;

/// The experiment.
pub(crate) struct IdsPartition;

impl Experiment for IdsPartition {
    named!("ids_partition", ("ids-partition", "ids-partition", &["soft"]));

    in_its_files!();

    fn terms(&self) -> &'static str {
        "With copies every core has all rules, and a hash assigns flows to cores, as RSS does. \
         With partitions each core has a part of the rules, and the card gives it the packets \
         that they can match. Services: most rules name a port. Servers: most rules name an \
         address, and all servers are guarded against the same attacks. The engine of niclab \
         inspects packets that lie in memory before the clock starts. For Suricata, time on CPUs \
         counts. There is no wire, no latency and no loss."
    }

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::Detection(of) = task else { return None };
        let (rules, cores) = (f64::from(of.workload.rules), f64::from(of.cores));
        let passes_s = (of.duration_ns + of.warmup_ns) as f64 / 1e9;
        Some(match of.engine {
            InspectionEngine::Niclab => PACKETS_S + passes_s + (1.0 + cores) * rules / RULES_PER_S,
            InspectionEngine::Suricata | InspectionEngine::SuricataAhoCorasick => {
                let trace_s = 2.0 * passes_s.max(TRACE_S);
                PACKETS_S + SURICATA_S + trace_s + rules / SURICATA_RULES_PER_S
            }
        })
    }

    fn task_result(&self, task: &Task, observation: Observation) -> Option<TaskResult> {
        let (Task::Detection(of), Observation::Detection(observation)) = (task, observation) else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_detected(&mut metrics, &observation);
        Some(TaskResult {
            question: json(of),
            metrics,
            marks: marks(&observation),
            counters: json(&observation),
            ended: failure(&observation),
            latency: None,
        })
    }

    /// Suricata may be missing where the engine of niclab is not.
    fn lacks_by_point(&self) -> bool {
        true
    }

    fn disturbed_words(&self) -> &'static str {
        "the machine took a core away in every pass of at least half of the repeats. Do not trust \
         the packets per second and the time per packet. Measure again on a calmer machine"
    }

    fn places<'a>(&self, about: &'a DeviceInfo) -> &'a [PathNode] {
        &about.detecting
    }
}
