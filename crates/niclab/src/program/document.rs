//! Checked programs, as JSON.

use std::path::Path;

use niclab_program::{Cost, Program, Warning};
use serde::Serialize;

use super::{arrays, entries};
use crate::failure::Failure;

/// The document of `program check --json`.
#[derive(Serialize)]
pub struct CheckedPrograms {
    /// In the order of the arguments.
    pub programs: Vec<CheckedProgram>,
}

/// A file of a program.
#[derive(Serialize)]
pub struct CheckedProgram {
    path: String,
    /// Why it is refused.
    error: Option<String>,
    program: Option<ProgramDocument>,
}

/// A program that can be carried out.
#[derive(Serialize)]
struct ProgramDocument {
    headers: usize,
    tables: usize,
    table_entries: usize,
    actions: usize,
    arrays: usize,
    /// A packet at worst.
    #[serde(with = "CostDocument")]
    cost: Cost,
    windows: Vec<WindowDocument>,
    rings: Vec<RingsDocument>,
    warnings: Vec<WarningDocument>,
}

/// [`Cost`], field by field.
#[derive(Serialize)]
#[serde(remote = "Cost")]
struct CostDocument {
    instructions: u64,
    work: u64,
    lookups: u64,
    key_bits: u64,
    entry_bits: u64,
    array_accesses: u64,
    hashed_bytes: u64,
    extracted_bytes: u64,
    emitted_headers: u64,
    emitted_bytes: u64,
    dma_transactions: u64,
    dma_bytes: u64,
}

/// Memory of an application.
#[derive(Serialize)]
struct WindowDocument {
    name: String,
    bytes: usize,
}

/// Rings of an application.
#[derive(Serialize)]
struct RingsDocument {
    name: String,
    count: usize,
    bytes: usize,
}

/// Something that is surely not meant.
#[derive(Serialize)]
struct WarningDocument {
    line: usize,
    column: usize,
    reason: String,
}

impl CheckedProgram {
    /// A program that was read.
    pub fn of(path: &Path, program: &Program, warnings: &[Warning]) -> CheckedProgram {
        let windows = program.windows.iter();
        let windows = windows
            .map(|window| WindowDocument { name: window.name.clone(), bytes: window.len })
            .collect();
        let rings = program.rings.iter();
        let rings = rings.map(|rings| RingsDocument {
            name: rings.name.clone(),
            count: rings.count,
            bytes: rings.count * rings.shape.bytes(),
        });
        let program = ProgramDocument {
            headers: program.headers.len(),
            tables: program.tables.len(),
            table_entries: entries(program),
            actions: program.actions.len(),
            arrays: arrays(program),
            cost: program.cost(),
            windows,
            rings: rings.collect(),
            warnings: warnings.iter().map(WarningDocument::of).collect(),
        };
        CheckedProgram { path: path.display().to_string(), error: None, program: Some(program) }
    }

    /// A file that is refused.
    pub fn refused(path: &Path, failure: &Failure) -> CheckedProgram {
        let error = Some(failure.to_string().trim_end().to_owned());
        CheckedProgram { path: path.display().to_string(), error, program: None }
    }
}

impl WarningDocument {
    fn of(warning: &Warning) -> WarningDocument {
        let Warning { line, column, reason } = warning;
        WarningDocument { line: *line, column: *column, reason: reason.clone() }
    }
}
