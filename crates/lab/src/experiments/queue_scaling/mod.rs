//! `queue-scaling` and `queue-overhead`: throughput over cores, queues and ports.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_result::Sample;

use self::metrics::put_scaling;
use super::{DPDK, Experiment, LoadTrialResult, MODEL, in_its_files, named};

/// The experiment.
pub(crate) struct QueueScaling;

impl Experiment for QueueScaling {
    named!(
        "queue_scaling",
        ("queue-scaling", "queue-scaling", &["soft", MODEL, DPDK]),
        ("queue-overhead", "queue-scaling", &["soft", MODEL, DPDK]),
    );

    in_its_files!();

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        let cores = offered.setup.map_or(1, |setup| setup.cores);
        put_scaling(&mut sample.metrics, offered.observation, cores);
    }

    /// A device may have fewer cores or queues than some points ask for.
    fn lacks_by_point(&self) -> bool {
        true
    }
}
