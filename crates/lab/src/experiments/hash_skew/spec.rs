//! The axes of `hash-skew`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::frame_default;
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of queues, and of flows that the hash spreads over them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RssSweep {
    /// Receive queues.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    pub flows: Values,
    /// Exponent of their popularity by Zipf's law; 0: all equally often.
    pub zipf: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
}

axes!(RssSweep: queues, cores, flows, zipf, frame);

/// Axes of `hash-skew`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("queues", "receive queues"),
    ("cores", "cores that poll them, never more than queues; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("zipf", "exponent of their popularity by Zipf's law, 0: all equally often"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Over how many queues flows are spread.
        rss: RssSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.rss.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_rss(&self.rss)
    }
}
