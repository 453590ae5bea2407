//! `hash-skew`: how evenly RSS spreads flows over queues.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_device::Load;
use niclab_result::Sample;

use self::metrics::{HASH_SHARES, hash_shares, put_queues};
use super::{CARDS, Experiment, LoadTrialResult, in_its_files, named};
use crate::runner::json;

/// Flows whose hashes are computed a second, once by the lab and once by a model.
const SHARES_PER_S: f64 = 2_000_000.0;

/// The experiment.
pub(crate) struct HashSkew;

impl Experiment for HashSkew {
    named!("hash_skew", ("hash-skew", "hash-skew", CARDS));

    in_its_files!();

    fn reckoned_s(&self, load: &Load) -> f64 {
        f64::from(load.flows.count) / SHARES_PER_S
    }

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        let LoadTrialResult { load, observation, .. } = *offered;
        let reported = offered.rss.zip(offered.setup);
        let shares = reported.and_then(|(rss, setup)| hash_shares(rss, setup, load));
        let shares = shares.unwrap_or_default();
        let cores = offered.setup.map_or(1, |setup| setup.cores);
        put_queues(&mut sample.metrics, observation, (load, cores), &shares);
        sample.counters[HASH_SHARES] = json(&shares);
    }
}
