//! The axes of `update-batch`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{flows_default, frame_default, word};
use crate::spec::{DURATION_MS_MAX, Overrides, SpecError, axes, in_range, parts, set_all, single};
use crate::values::Values;

/// A product of axes of batches: rules that are created while packets flow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSweep {
    /// What a batch is: names of [`WORKS`](super::trials::WORKS).
    #[serde(default = "create")]
    pub work: Values,
    /// The group of the rules, 0 or 1; packets meet its default rule, or the rules that are
    /// changed.
    pub group: Values,
    /// Rules of the batch.
    pub batch: Values,
    /// The core that creates or changes them: `same` or `distinct`.
    pub core: Values,
    /// How: `single` calls, through an operation `queue`, or in one `transaction`.
    pub calls: Values,
    /// Operations between two bursts of packets; `all`: the batch is one call, and packets wait.
    pub slice: Values,
    /// Flows of the traffic.
    #[serde(default = "flows_default")]
    pub flows: Values,
    /// Frame size in bytes with FCS, or `imix`.
    #[serde(default = "frame_default")]
    pub frame: Values,
    /// Measured part in front of the batch, milliseconds.
    pub before_ms: u64,
    /// Measured part from the start of the batch on, milliseconds.
    pub after_ms: u64,
}

axes!(BatchSweep: work, group, batch, core, calls, slice, flows, frame);

fn create() -> Values {
    word("create")
}

/// Axes of `update-batch`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("work", "create: create rules; failover: re-point as many IPv4 prefixes"),
    ("group", "the group of the rules: 0 or 1"),
    ("batch", "rules that are created, or prefixes that are re-pointed"),
    ("core", "the core that carries out the operations: same or distinct"),
    ("calls", "kind of call: single, queue or transaction"),
    ("slice", "operations between two bursts of packets, or all"),
    ("flows", "flows of the traffic"),
    ("frame", "frame size in bytes with FCS, or imix"),
    ("before_ms", "measured part in front of the batch, one value"),
    ("after_ms", "measured part from the start of the batch on, one value"),
    ("duration_ms", "measured part of a saturating trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which batches to measure.
        batch: BatchSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        for sweep in &mut self.batch {
            match axis {
                "before_ms" => sweep.before_ms = single("before_ms", values)?,
                "after_ms" => sweep.after_ms = single("after_ms", values)?,
                _ => set_all(sweep.axis(axis), values),
            }
        }
        Ok(())
    }

    fn overridden(&mut self, _: &Overrides) -> Result<(), SpecError> {
        for sweep in &self.batch {
            in_range("before_ms", sweep.before_ms, 20..=DURATION_MS_MAX)?;
            in_range("after_ms", sweep.after_ms, 20..=DURATION_MS_MAX)?;
        }
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_batches(&self.batch)
    }
}
