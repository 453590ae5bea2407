//! The axes of `analytics-offload`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of tuples, of what the card does, and of workers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountingSweep {
    /// What the card does: `rss`, `steer`, `dma`.
    pub mode: Values,
    /// Workers, a core each.
    pub workers: Values,
    /// Keys.
    pub keys: Values,
    /// Exponent of their popularity.
    pub zipf: Values,
    /// Bytes of a tuple's payload.
    pub payload: Values,
    /// Tuples of a frame at most.
    pub batch: Values,
}

axes!(CountingSweep: mode, workers, keys, zipf, payload, batch);

/// Axes of `analytics-offload`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("mode", "mode of the card: rss, steer, dma"),
    ("workers", "workers that count, a core each"),
    ("keys", "keys"),
    ("zipf", "exponent of their popularity by Zipf's law, 0: all equally often"),
    ("payload", "bytes of a tuple's payload"),
    ("batch", "tuples of a frame at most"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which tuples workers are to count.
        counting: CountingSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.counting.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_countings(&self.counting)
    }
}
