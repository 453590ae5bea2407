//! `rule-update`: how fast rules are changed in place, and which rules packets match meanwhile.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::CHANGE;
use super::{Axes, BuiltIn, Experiment, MODEL, Offered, built_in};
use crate::matched::put_met;
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;
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

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if offered.trial == CHANGE.name() {
            windows::put_windows(&mut sample.metrics, offered.observation);
            if offered.is_generated {
                put_met(&mut sample.metrics, offered.observation);
            }
        }
    }

    fn takes_rules(&self) -> bool {
        true
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
