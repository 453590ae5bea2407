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
use super::{CARDS, Experiment, LoadTrialResult, in_its_files, named};
use crate::rule_matches::put_matched;
use crate::windows;

/// The experiment.
pub(crate) struct RuleUpdate;

impl Experiment for RuleUpdate {
    named!("rule_update", ("rule-update", "rule-update", CARDS));

    in_its_files!(published);

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        if offered.trial == CHANGE.name() {
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
        Some("single calls in group 1, at other numbers of rules")
    }

    fn takes_rules(&self) -> bool {
        true
    }
}
