//! The axes of `frame-size`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, one};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::throughput::GoalSpec;
use crate::values::Values;

/// A product of axes of frame sizes, with what is searched at each.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSweep {
    /// Receive queues.
    #[serde(default = "one")]
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    #[serde(default = "one")]
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    pub frame: Values,
    /// The goals.
    pub goal: Vec<GoalSpec>,
}

axes!(SizeSweep: queues, cores, flows, frame);

/// Axes of `frame-size`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("queues", "receive queues"),
    ("cores", "cores that poll the queues, at most one a queue; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which frame sizes to measure.
        size: SizeSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.size.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_sizes(&self.size)
    }
}
