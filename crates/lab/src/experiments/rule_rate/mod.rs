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
use super::{CARDS, Experiment, LoadTrialResult, in_its_files, named};

/// The experiment.
pub(crate) struct RuleRate;

impl Experiment for RuleRate {
    named!("rule_rate", ("rule-rate", "rule-rate", CARDS));

    in_its_files!(published);

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
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

    fn takes_rules(&self) -> bool {
        true
    }
}
