//! `update-rate`: throughput and latency while rules are created and destroyed at a rate.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use super::{CARDS, Experiment, in_its_files, named};

/// The experiment.
pub(crate) struct UpdateRate;

impl Experiment for UpdateRate {
    named!("update_rate", ("update-rate", "update-rate", CARDS));

    in_its_files!(published);

    fn terms(&self) -> &'static str {
        super::GROUPS_AND_CALLS
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("1500 B frames, with rules replaced by single calls, a tick at a time")
    }

    fn takes_rules(&self) -> bool {
        true
    }
}
