//! The axes of `kvs-steering`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::{SpecError, axes, parts, set_all};
use crate::values::Values;

/// A product of axes of requests for a key-value store, and of who serves them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingSweep {
    /// What the card does: `rss`, `steer`, `dma`.
    pub mode: Values,
    /// How often each key is asked for: `uniform`, `zipf`.
    pub keys: Values,
    /// Keys.
    pub count: Values,
    /// Percent of the requests that are gets.
    pub gets: Values,
    /// Cores that serve.
    pub cores: Values,
    /// Requests that are served together.
    pub burst: Values,
}

axes!(ServingSweep: mode, keys, count, gets, cores, burst);

/// Axes of `kvs-steering`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("mode", "mode of the card: rss, steer, dma"),
    ("keys", "distribution of the requested keys: uniform, zipf"),
    ("count", "keys"),
    ("gets", "percent of the requests that are gets"),
    ("cores", "cores that serve"),
    ("burst", "requests that are served together"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which requests a key-value store is to serve.
        serving: ServingSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.serving.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_servings(&self.serving)
    }
}
