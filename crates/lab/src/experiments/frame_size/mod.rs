//! `frame-size`: throughput over the length of frames, and which part of a device limits it.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
pub(crate) mod trials;

use niclab_result::{Figure, Finding, Sample, Table};

use self::metrics::put_limits;
use super::{Axes, BuiltIn, CARDS, Experiment, Offered, built_in};
use crate::metrics::TrialMetrics;
use crate::spec::{Spec, read};
use crate::summary::Results;

/// What the lab knows of it.
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

    fn offered(&self, offered: &Offered<'_>, sample: &mut Sample) {
        put_limits(&mut sample.metrics, offered.observation);
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
