//! `queue-scaling` and `queue-overhead`: throughput over cores, queues and ports.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_device::{About, Place};
use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::put_scaling;
use super::{Axes, BuiltIn, Experiment, MODEL, Offered, built_in};
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;

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

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        let cores = offered.setup.map_or(1, |setup| setup.cores);
        put_scaling(&mut sample.metrics, offered.observation, cores);
    }

    /// A device may have fewer cores or queues than some points ask for.
    fn lacks_by_point(&self) -> bool {
        true
    }

    fn places<'a>(&self, about: &'a About) -> &'a [Place] {
        if about.clocked.is_empty() { &about.places } else { &about.clocked }
    }

    fn read(&self, text: &str) -> Result<Spec, toml::de::Error> {
        read::<spec::Parts>(text)
    }

    fn trials(&self) -> &'static [TrialMetrics] {
        metrics::TRIALS
    }

    fn findings(&self, results: &Results<'_>) -> Vec<Finding> {
        findings::findings(results)
    }

    fn figures(&self, results: &Results<'_>) -> Vec<Figure> {
        figures::figures(results)
    }

    fn tables(&self, results: &Results<'_>) -> Vec<Table> {
        figures::tables(results)
    }
}
