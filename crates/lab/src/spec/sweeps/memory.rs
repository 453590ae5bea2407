//! Sweeps over what needs no port: programs and a key-value store, with packets in memory.

use serde::Deserialize;

use super::{one, zero};
use crate::values::Values;

/// A product of axes of programs with their tables filled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSweep {
    /// Which: names of [`Case`](niclab_device::cases::Case).
    pub program: Values,
    /// Headers, tables in a row or instructions; of what does not grow there is one.
    #[serde(default = "one")]
    pub count: Values,
    /// Entries of a table, where there is one to be filled.
    #[serde(default = "zero")]
    pub entries: Values,
}

impl ProgramSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "program" => Some(&mut self.program),
            "count" => Some(&mut self.count),
            "entries" => Some(&mut self.entries),
            _ => None,
        }
    }
}

/// Axes of `program-cost`.
pub(crate) const PROGRAM_AXES: &[(&str, &str)] = &[
    ("program", "which: l2-switch, l3-router, …, router; headers, exact, lpm, wildcard; moves, …"),
    ("count", "headers, tables in a row, or instructions"),
    ("entries", "entries of a table, where there is one to be filled"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

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

impl ServingSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "mode" => Some(&mut self.mode),
            "keys" => Some(&mut self.keys),
            "count" => Some(&mut self.count),
            "gets" => Some(&mut self.gets),
            "cores" => Some(&mut self.cores),
            "burst" => Some(&mut self.burst),
            _ => None,
        }
    }
}

/// Axes of `kvs-steering`.
pub(crate) const SERVING_AXES: &[(&str, &str)] = &[
    ("mode", "what the card does: rss, steer, dma"),
    ("keys", "how often each is asked for: uniform, zipf"),
    ("count", "keys"),
    ("gets", "percent of the requests that are gets"),
    ("cores", "cores that serve"),
    ("burst", "requests that are served together"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];
