//! `update-rate`: throughput and latency while rules are created and destroyed at a rate.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Table};

use super::{Axes, BuiltIn, Experiment, MODEL, built_in};
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;

/// What the lab knows of it.
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
