//! `niclab export`: samples in other formats.

use std::io::{BufWriter, Write, stdout};

use niclab_result::write_csv;

use crate::arguments::ExportArguments;
use crate::failure::Failure;

/// Writes one line a sample to standard output.
pub fn run(arguments: &ExportArguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(stdout().lock());
    write_csv(&arguments.directory, &mut out)?;
    out.flush()?;
    Ok(())
}
