//! The axes of `queue-change`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, frame_default, none, one, zero};
use crate::spec::{DURATION_MS_MAX, InvalidValue, SpecError, axes, parts, set_all, whole};
use crate::values::Values;

/// A product of axes of RSS changes while frames flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RssChangeSweep {
    /// What is changed: `none`, `entries`, `queues`, `key`, `function`, `fields`, `any`.
    #[serde(default = "none")]
    pub change: Values,
    /// Changes a second.
    #[serde(default = "changes_per_s")]
    pub per_s: Values,
    /// What the device does about a queue that fills: `none`, `moves`, `save-cores`, `keys`.
    #[serde(default = "none")]
    pub answer: Values,
    /// Frames a second.
    pub pps: Values,
    /// So many times as many in the middle third of the measured part.
    #[serde(default = "one")]
    pub step: Values,
    /// Time that the function takes for each frame beside forwarding it, nanoseconds.
    #[serde(default = "zero")]
    pub work_ns: Values,
    /// Receive queues.
    pub queues: Values,
    /// Cores that poll them, never more than queues; `each`: one a queue.
    pub cores: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Exponent of their popularity by Zipf's law; 0: all equally often.
    #[serde(default = "zero")]
    pub zipf: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part of its trials, where that is another one than of others.
    #[serde(default)]
    pub duration_ms: Option<u64>,
}

axes!(
    RssChangeSweep: change, per_s, answer, pps, step, work_ns,
    queues, cores, flows, zipf, frame
);

fn changes_per_s() -> Values {
    Values::number(100)
}

/// Axes of `queue-change`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("change", "changed part of RSS: none, entries, queues, key, function, fields, any"),
    ("per_s", "changes a second"),
    ("answer", "reaction of the device to a full queue: none, moves, save-cores, keys"),
    ("pps", "frames a second"),
    ("step", "factor of the rate in the middle third of the trial"),
    ("work_ns", "time the function takes for a frame beside forwarding it, nanoseconds"),
    ("queues", "receive queues"),
    ("cores", "cores that poll the queues, at most one a queue; each: one a queue"),
    ("flows", "flows of the traffic"),
    ("zipf", "exponent of their popularity by Zipf's law, 0: all equally often"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// What of RSS changes while frames flow.
        rss_change: RssChangeSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        for sweep in &mut self.rss_change {
            match axis {
                // What is typed holds for all sweeps.
                "duration_ms" => sweep.duration_ms = None,
                _ => set_all(sweep.axis(axis), values),
            }
        }
        Ok(())
    }

    fn check(&self, grid: &str) -> Result<(), InvalidValue> {
        let own = self.rss_change.iter().filter_map(|sweep| sweep.duration_ms);
        own.into_iter().try_for_each(|duration_ms| {
            whole(format!("{grid}.rss_change.duration_ms"), duration_ms, 1, DURATION_MS_MAX)
        })
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_rss_changes(&self.rss_change)
    }
}
