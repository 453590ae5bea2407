//! The axes of `program-cost`.

use serde::Deserialize;

use crate::run::Resolver;
use crate::spec::defaults::{one, zero};
use crate::spec::{SpecError, axes, parts, set_all};
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

axes!(ProgramSweep: program, count, entries);

/// Axes of `program-cost`.
pub(crate) const AXES: &[(&str, &str)] = &[
    ("program", "l2-switch, l3-router, …, router; headers, exact, lpm, wildcard; moves, …"),
    ("count", "headers, tables in a row, or instructions"),
    ("entries", "entries of a table, where there is one to be filled"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

parts! {
    /// What its grids have.
    pub(crate) struct Parts {
        /// Which programs to measure.
        program: ProgramSweep,
    }

    fn set(&mut self, axis: &str, values: &Values) -> Result<(), SpecError> {
        set_all(self.program.iter_mut().filter_map(|sweep| sweep.axis(axis)), values);
        Ok(())
    }

    fn plan(&self, resolver: &mut Resolver<'_>) -> Result<(), SpecError> {
        resolver.add_programs(&self.program)
    }
}
