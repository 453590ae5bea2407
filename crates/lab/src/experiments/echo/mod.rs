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
use niclab_device::{About, Observation, Station, Task};

use self::analysis::{faster_though_longer, is_plain};
use self::metrics::{ended, marks, put_round_trips};
use super::{BuiltIn, DeviceAnswer, Experiment, MODEL, PEER, VETH, built_in, in_its_files};
use crate::cells::Cell;
use crate::estimate::SERVER_S;
use crate::hosts::RTT;
use crate::measure::Metrics;
use crate::runner::json;
use crate::summary::Results;

/// What the lab knows of it.
pub(crate) struct Echo;

impl Experiment for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[
            built_in!("echo-size", "echo", &[MODEL, VETH, PEER]),
            built_in!("echo-batch", "echo", &[MODEL, VETH, PEER]),
            built_in!("echo-features", "echo", &[VETH]),
        ];
        ALL
    }

    in_its_files!();

    fn task_s(&self, task: &Task) -> Option<f64> {
        let Task::RoundTrips(trips) = task else { return None };
        let Messages { duration_ns, warmup_ns, .. } = trips.echo;
        Some(SERVER_S + (duration_ns + warmup_ns) as f64 / 1e9)
    }

    fn answer(&self, task: &Task, seen: Observation) -> Option<DeviceAnswer> {
        let (Task::RoundTrips(trips), Observation::RoundTrips(seen)) = (task, seen) else {
            return None;
        };
        let mut metrics = Metrics::new();
        put_round_trips(&mut metrics, &seen, &trips.echo);
        Some(DeviceAnswer {
            question: json(trips),
            metrics,
            marks: marks(&seen.echoed),
            counters: serde_json::json!({ "server": json(&seen.served) }),
            ended: ended(&seen.echoed),
            latency: Some(seen.echoed.rtt),
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

    fn places<'a>(&self, about: &'a About) -> &'a [Station] {
        &about.hosts
    }
}
