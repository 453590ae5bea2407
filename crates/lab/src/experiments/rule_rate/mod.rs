//! `rule-rate`: how fast rules are created and destroyed, and when they take effect.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::put_effects;
use super::{Axes, BuiltIn, Experiment, LINUX, MODEL, Offered, built_in, set_all};
use crate::metrics::TrialMetrics;
use crate::run::Resolver;
use crate::spec::{Grid, SpecError};
use crate::summary::Results;
use crate::values::Values;

/// See the module.
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

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        vec![("insertion", grid.insertion.len()), ("effect", grid.effect.len())]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(grid.insertion.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        set_all(grid.effect.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if offered.trial == "effect" {
            put_effects(&mut sample.metrics, offered.observation);
        }
    }

    fn takes_rules(&self) -> bool {
        true
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_insertions()
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
