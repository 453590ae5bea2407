//! `occupancy`: throughput and latency over the number of rules and groups.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod tables;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Table};

use super::{Axes, BuiltIn, CARDS, Experiment, built_in};
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;

/// What the lab knows of it.
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
        tables::tables(results)
    }
}
