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
use super::{BuiltIn, Experiment, LoadTrialResult, MODEL, built_in, in_its_files};

/// What the lab knows of it.
pub(crate) struct QueueScaling;

impl Experiment for QueueScaling {
    fn name(&self) -> &'static str {
        "queue_scaling"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[
            built_in!("queue-scaling", "queue-scaling", &["soft", MODEL]),
            built_in!("queue-overhead", "queue-scaling", &["soft", MODEL]),
        ];
        ALL
    }

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
