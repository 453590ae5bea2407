//! `rule-rate`: how fast rules are created and destroyed, and when they take effect.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_result::Sample;

use self::metrics::{EFFECT, put_effects};
use super::{BuiltIn, Experiment, LINUX, MODEL, Offered, built_in, in_its_files};
use crate::published::PublishedCard;
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;

/// What the lab knows of it.
pub(crate) struct RuleRate;

impl Experiment for RuleRate {
    fn name(&self) -> &'static str {
        "rule_rate"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("rule-rate", "rule-rate", &["soft", MODEL, LINUX])];
        ALL
    }

    in_its_files!();

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if offered.trial == EFFECT.name() {
            put_effects(&mut sample.metrics, offered.observation);
        }
    }

    fn terms(&self) -> &'static str {
        super::GROUPS_AND_CALLS
    }

    fn published_load(&self) -> Option<&'static str> {
        Some("single calls, at other numbers of rules")
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
