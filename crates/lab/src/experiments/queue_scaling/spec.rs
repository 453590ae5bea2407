//! The axes of `queue-scaling` and `queue-overhead`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, frame_default, one, word};
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of cores, and of queues and ports that bring them frames.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingSweep {
    /// Which cores receive: `multi-queue`, `serial`.
    #[serde(default = "multi_queue")]
    pub receive: Values,
    /// Ports; a number of queues that they cannot share evenly is left out.
    #[serde(default = "one")]
    pub ports: Values,
    /// Receive queues of all ports.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

axes!(ScalingSweep: receive, ports, queues, cores, flows, frame);

fn multi_queue() -> Values {
    word("multi-queue")
}

/// Axes of `queue-scaling`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("receive", "which cores receive: multi-queue, all of them; serial, one for all"),
    ("ports", "ports that share the queues evenly"),
    ("queues", "receive queues of all ports"),
    ("cores", "cores that poll the queues, at most one a queue; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which cores, queues and ports to measure.
        scaling: ScalingSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.scaling.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_scalings(&self.scaling)
    }
}
