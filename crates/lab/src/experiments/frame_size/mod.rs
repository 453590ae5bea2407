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
use super::{CARDS, Experiment, LoadTrialResult, in_its_files, named};

/// The experiment.
pub(crate) struct FrameSize;

impl Experiment for FrameSize {
    named!("frame_size", ("frame-size", "frame-size", CARDS));

    in_its_files!();

    fn load_metrics(&self, offered: &LoadTrialResult<'_>, sample: &mut Sample) {
        put_limits(&mut sample.metrics, offered.observation);
    }
}
