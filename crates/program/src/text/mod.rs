//! A program's text: the `.spec` assembly of DPDK's SWX pipeline, which P4's compiler emits.
//!
//! Read as `rte_swx_pipeline_spec` reads it (DPDK 24.11), but for what `docs/programs.md` names.

mod blocks;
mod code;
mod command;
mod defaults;
mod error;
mod file;
mod nearest;
mod resolve;
mod stf;
mod switch;
mod warning;
mod words;
mod written;

pub use command::Command;
pub use file::{FileError, TablesFile, read_tables};
pub use stf::Stf;
pub(crate) use stf::{Checked, Expected, Index, StfStep};
pub use warning::Warning;
pub use written::TablesText;

use niclab_nic::text::TextError;

use crate::form::Program;
use crate::limits::TEXT_LEN_MAX;
use error::{At, Wrong};

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// With line and column of the first thing that is wrong, and what was expected there.
    pub fn read(source: &str) -> Result<Program, TextError> {
        let (program, _) = Program::resolved(source)?;
        Ok(program)
    }

    /// Reads a program, and says what in it is surely not meant, by line.
    ///
    /// # Errors
    /// As of [`Program::read`].
    pub fn read_with_warnings(source: &str) -> Result<(Program, Vec<Warning>), TextError> {
        let (program, blocks) = Program::resolved(source)?;
        let warnings = warning::all(&blocks, &program);
        Ok((program, warnings))
    }

    /// A program, and the blocks that it was made of.
    fn resolved(source: &str) -> Result<(Program, blocks::Blocks<'_>), TextError> {
        let read = || {
            if source.len() > TEXT_LEN_MAX {
                let at = At { line: 1, column: 1, width: 1 };
                return Err(Wrong::unfit(at, "the text of a program has at most 4 MiB"));
            }
            error::check_mark(source)?;
            let blocks = blocks::read(&mut words::lines(source))?;
            Ok((resolve::resolve(&blocks)?, blocks))
        };
        read().map_err(|wrong| error::show(source, wrong))
    }
}
