//! `update-batch`: throughput over time while a batch of rules is created.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use super::{Axes, BuiltIn, Experiment, MODEL, Offered, built_in, set_all};
use crate::matched::put_met;
use crate::metrics::TrialMetrics;
use crate::run::Resolver;
use crate::spec::{DURATION_MS_MAX, Grid, Overrides, SpecError, in_range, single};
use crate::summary::Results;
use crate::values::Values;
use crate::windows;

/// See the module.
pub(crate) struct UpdateBatch;

impl Experiment for UpdateBatch {
    fn name(&self) -> &'static str {
        "update_batch"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("update-batch", "update-batch", &["soft", MODEL])];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        vec![("batch", grid.batch.len())]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        for sweep in &mut grid.batch {
            match axis {
                "before_ms" => sweep.before_ms = single("before_ms", values)?,
                "after_ms" => sweep.after_ms = single("after_ms", values)?,
                _ => set_all(sweep.axis(axis), values),
            }
        }
        Ok(())
    }

    fn overridden(&self, grid: &mut Grid, _: &Overrides) -> Result<(), SpecError> {
        for sweep in &grid.batch {
            in_range("before_ms", sweep.before_ms, 20..=DURATION_MS_MAX)?;
            in_range("after_ms", sweep.after_ms, 20..=DURATION_MS_MAX)?;
        }
        Ok(())
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        if ["rest", "batch"].contains(&offered.trial) {
            windows::put_windows(&mut sample.metrics, offered.observation);
            if offered.is_generated {
                put_met(&mut sample.metrics, offered.observation);
            }
        }
    }

    fn takes_rules(&self) -> bool {
        true
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_batches()
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
