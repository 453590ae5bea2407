//! `update-rate`: throughput and latency while rules are created and destroyed at a rate.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Table};

use super::{Axes, BuiltIn, Experiment, MODEL, built_in, set_all};
use crate::metrics::TrialMetrics;
use crate::run::Resolver;
use crate::spec::{Grid, SpecError};
use crate::summary::Results;
use crate::values::Values;

/// See the module.
pub(crate) struct UpdateRate;

impl Experiment for UpdateRate {
    fn name(&self) -> &'static str {
        "update_rate"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("update-rate", "update-rate", &["soft", MODEL])];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        vec![("renewal", grid.renewal.len())]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(grid.renewal.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn takes_rules(&self) -> bool {
        true
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_renewals()
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
