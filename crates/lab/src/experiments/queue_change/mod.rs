//! `queue-change`: does changing RSS lose or reorder frames?

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::Plan;
use niclab_result::Sample;

use self::metrics::put_rss_change;
use self::trials::of_repeat;
use super::{DPDK, Experiment, LoadTrialResult, in_its_files, named};
use crate::runner::json;

/// The experiment.
pub(crate) struct QueueChange;

impl Experiment for QueueChange {
    named!("queue_change", ("queue-change", "queue-change", &["soft", DPDK]));

    in_its_files!();

    fn plan_of_repeat(&self, plan: &Plan, repeat: u32) -> Option<Plan> {
        of_repeat(plan, repeat)
    }

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        if let Some(observed) = &offered.observation.rss_changes {
            put_rss_change(&mut sample.metrics, offered.observation, observed);
            sample.control = json(observed);
        }
    }
}
