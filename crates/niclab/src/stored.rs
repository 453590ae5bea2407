//! Reading result directories, and saying what of them is left out.

use std::path::Path;

use niclab_result::Stored;

use crate::failure::Failure;
use crate::output::say;

/// Reads the samples of a directory, which stays as it is.
pub fn open(path: &Path) -> Result<Stored, Failure> {
    let stored = Stored::open(path)?;
    stored.torn.iter().for_each(|torn| say(&torn.to_string()));
    Ok(stored)
}
