//! `rule-rate`: how fast rules are created and destroyed, and when they take effect.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::{EFFECT, put_effects};
use super::{Axes, BuiltIn, Experiment, LINUX, MODEL, Offered, built_in};
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;

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

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if offered.trial == EFFECT.name() {
            put_effects(&mut sample.metrics, offered.observation);
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
