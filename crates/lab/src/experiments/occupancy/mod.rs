//! `occupancy`: throughput and latency over the number of rules and groups.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod tables;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Table};

use super::{Axes, BuiltIn, CARDS, Experiment, Wrong, built_in, set_all};
use crate::metrics::TrialMetrics;
use crate::run::Resolver;
use crate::spec::{Assignment, Grid, Overrides, SpecError, in_knee};
use crate::summary::Results;
use crate::values::Values;

/// See the module.
pub(crate) struct Occupancy;

impl Experiment for Occupancy {
    fn name(&self) -> &'static str {
        "occupancy"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("occupancy", "occupancy", CARDS)];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        let (sweeps, knees, searches) = (grid.sweep.len(), grid.knee.len(), grid.search.len());
        vec![("sweep", sweeps), ("knee", knees), ("search", searches)]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(grid.sweep.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        set_all(grid.search.iter_mut().filter_map(|search| search.axis(axis)), values);
        Ok(())
    }

    fn check(&self, name: &str, grid: &Grid) -> Result<(), Wrong> {
        grid.knee.iter().try_for_each(|knee| in_knee(name, knee))
    }

    /// Who chose the places to measure did not ask for knees elsewhere.
    fn overridden(&self, grid: &mut Grid, overrides: &Overrides) -> Result<(), SpecError> {
        let is_place = |set: &Assignment| matches!(set.name.as_str(), "groups" | "rules");
        if overrides.set.iter().any(is_place) || overrides.rules.is_some() {
            grid.knee.clear();
        }
        Ok(())
    }

    fn takes_rules(&self) -> bool {
        true
    }

    /// The rules of the other experiments stand beside those of the file.
    fn axes_of_rules(&self) -> &'static [&'static str] {
        &["groups", "rules", "match_percent"]
    }

    /// Points stand at more rules than there are.
    fn asks_for_refusals(&self) -> bool {
        true
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_sweeps()?;
        resolver.add_knees()?;
        resolver.add_searches()
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
        tables::tables(results)
    }
}
