//! `update-rate`: throughput and latency while rules are created and destroyed at a rate.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use super::{BuiltIn, Experiment, MODEL, built_in, in_its_files};
use crate::published::PublishedCard;
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;

/// What the lab knows of it.
pub(crate) struct UpdateRate;

impl Experiment for UpdateRate {
    fn name(&self) -> &'static str {
        "update_rate"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("update-rate", "update-rate", &["soft", MODEL])];
        ALL
    }

    in_its_files!();

    fn terms(&self) -> &'static str {
        super::GROUPS_AND_CALLS
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("1500 B frames, with rules replaced by single calls, a tick at a time")
    }

    fn published(
        &self,
        results: &Results<'_>,
        device: &str,
        card: PublishedCard,
    ) -> Vec<PublishedPoint> {
        analysis::published(results, device, card)
    }

    fn takes_rules(&self) -> bool {
        true
    }
}
