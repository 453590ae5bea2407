//! `frame-size`: throughput over the length of frames, and which part of a device limits it.

pub(crate) mod analysis;
pub(crate) mod figures;
pub(crate) mod findings;
pub(crate) mod metrics;
pub(crate) mod spec;
#[cfg(test)]
mod tests;
pub(crate) mod trials;

use niclab_result::Sample;

use self::metrics::put_limits;
use super::{BuiltIn, CARDS, Experiment, LoadTrialResult, built_in, in_its_files};

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

    in_its_files!();

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        put_limits(&mut sample.metrics, offered.observation);
    }
}
