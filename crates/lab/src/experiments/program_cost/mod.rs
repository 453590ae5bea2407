//! `program-cost`: what match+action programs cost a core, packet by packet.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_device::cases::Loaded;
use niclab_device::{About, DeviceError, Place, Testbed};
use niclab_result::{Figure, Finding, Table};

use self::metrics::{failure, put_processed};
use super::{Answer, Axes, BuiltIn, Experiment, built_in, set_all, strange};
use crate::estimate::RULES_PER_S;
use crate::measure::Metrics;
use crate::metrics::TrialMetrics;
use crate::run::{ExperimentRun, Resolver, Task, Trial};
use crate::runner::json;
use crate::spec::{Grid, SpecError};
use crate::summary::Results;
use crate::values::Values;

/// See the module.
pub(crate) struct ProgramCost;

impl Experiment for ProgramCost {
    fn name(&self) -> &'static str {
        "program_cost"
    }

    fn built_in(&self) -> &'static [BuiltIn] {
        const ALL: &[BuiltIn] = &[built_in!("program-cost", "program-cost", &["soft", "swx"])];
        ALL
    }

    fn axes(&self) -> Axes {
        spec::AXES
    }

    fn parts(&self, grid: &Grid) -> Vec<(&'static str, usize)> {
        vec![("program", grid.program.len())]
    }

    fn set(&self, grid: &mut Grid, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(grid.program.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn asked_s(&self, run: &ExperimentRun, trial: &Trial) -> Option<f64> {
        let Task::Process { processing } = trial.task else { return None };
        let of = run.processings.get(processing)?;
        let Loaded { count, entries, .. } = of.program;
        // Packets are put back before each pass, which takes as long as a short program.
        let passes_s = 2.0 * (of.duration_ns + of.warmup_ns) as f64 / 1e9;
        Some(passes_s + f64::from(count) * f64::from(entries) / RULES_PER_S)
    }

    fn ask(
        &self,
        bed: &mut dyn Testbed,
        run: &ExperimentRun,
        trial: &Trial,
    ) -> Result<Answer, DeviceError> {
        let Task::Process { processing } = trial.task else { return Err(strange(trial)) };
        let processing = &run.processings[processing];
        let seen = bed.process(processing)?;
        let mut metrics = Metrics::new();
        put_processed(&mut metrics, &seen);
        let (question, counters, ended) = (json(processing), json(&seen), failure(&seen));
        Ok(Answer { question, metrics, counters, ended, ..Answer::default() })
    }

    fn places<'a>(&self, about: &'a About) -> &'a [Place] {
        &about.programmed
    }

    fn warnings(&self, results: &Results<'_>) -> Vec<String> {
        analysis::unlike(results)
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        let sweeps = &resolver.grid.program;
        resolver.add_programs(sweeps)
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
