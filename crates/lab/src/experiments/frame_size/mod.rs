//! `frame-size`: throughput over the length of frames, and which part of a device limits it.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::put_limits;
use super::{Axes, BuiltIn, CARDS, Experiment, Offered, built_in, set_all};
use crate::metrics::TrialMetrics;
use crate::run::Resolver;
use crate::spec::{Grid, SpecError};
use crate::summary::Results;
use crate::values::Values;

/// See the module.
pub(crate) struct FrameSize;

impl Experiment for FrameSize {
    fn name(&self) -> &'static str {
        "frame_size"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("frame-size", "frame-size", CARDS)];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        vec![("size", grid.size.len())]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(grid.size.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        put_limits(&mut sample.metrics, offered.observation);
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_sizes()
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
