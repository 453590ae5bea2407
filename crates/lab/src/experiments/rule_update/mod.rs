//! `rule-update`: how fast rules are changed in place, and which rules packets match meanwhile.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_result::Sample;

use self::metrics::CHANGE;
use super::{BuiltIn, Experiment, MODEL, Offered, built_in, in_its_files};
use crate::matched::put_met;
use crate::published::PublishedCard;
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;
use crate::windows;

/// What the lab knows of it.
pub(crate) struct RuleUpdate;

impl Experiment for RuleUpdate {
    fn name(&self) -> &'static str {
        "rule_update"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("rule-update", "rule-update", &["soft", MODEL])];
        ALL
    }

    in_its_files!();

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if offered.trial == CHANGE.name() {
            windows::put_windows(&mut sample.metrics, offered.observation);
            if offered.is_generated {
                put_met(&mut sample.metrics, offered.observation);
            }
        }
    }

    fn terms(&self) -> &'static str {
        super::GROUPS_AND_CALLS
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("single calls in group 1, at other numbers of rules")
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
