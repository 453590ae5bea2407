//! `update-batch`: throughput over time while a batch of rules is created.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_result::Sample;

use self::metrics::{BATCH, REST};
use super::{CARDS, Experiment, LoadTrialResult, in_its_files, named};
use crate::rule_matches::put_matched;
use crate::spec::TrialKind;
use crate::windows;

/// The experiment.
pub(crate) struct UpdateBatch;

impl Experiment for UpdateBatch {
    named!("update_batch", ("update-batch", "update-batch", CARDS));

    in_its_files!();

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        if [BATCH, REST].map(TrialKind::name).contains(&offered.trial) {
            windows::put_windows(&mut sample.metrics, offered.observation);
            if offered.is_generated {
                put_matched(&mut sample.metrics, offered.observation);
            }
        }
    }

    fn terms(&self) -> &'static str {
        super::GROUPS_AND_CALLS
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("a full link of 100 Gbps with 1500 B frames, in samples of 0.1 s")
    }

    fn takes_rules(&self) -> bool {
        true
    }
}
