//! `hash-skew`: how evenly RSS spreads flows over queues.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_device::Load;
use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::{HASH_SHARES, hash_shares, put_queues};
use super::{Axes, BuiltIn, Experiment, LINUX, MODEL, Offered, built_in};
use crate::metrics::TrialMetrics;
use crate::runner::json;
use crate::spec::{Spec, read};
use crate::summary::Results;

/// Flows whose hashes are computed a second, once by the lab and once by a model.
const SHARES_PER_S: f64 = 2_000_000.0;

/// What the lab knows of it.
pub(crate) struct HashSkew;

impl Experiment for HashSkew {
    fn name(&self) -> &'static str {
        "hash_skew"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("hash-skew", "hash-skew", &["soft", MODEL, LINUX])];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn reckoned_s(&self, load: &Load) -> f64 {
        f64::from(load.flows.count) / SHARES_PER_S
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        let Offered { load, observation, .. } = *offered;
        let told = offered.rss.zip(offered.setup);
        let shares = told.and_then(|(rss, setup)| hash_shares(rss, setup, load));
        let shares = shares.unwrap_or_default();
        put_queues(&mut sample.metrics, observation, load, &shares);
        sample.counters[HASH_SHARES] = json(&shares);
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
