//! How `export --rows` and `fleet` can fail.

use std::path::PathBuf;

use niclab_lab::fleet::FleetError;
#[cfg(feature = "parquet")]
use niclab_result::rows::parquet::RowsFileError;

use crate::failure::Failure;
use crate::output::one_line;

/// Why rows cannot be written or read, or what a fleet has shown.
#[derive(Debug, thiserror::Error)]
pub enum RowsFailure {
    /// Several directories for a format of one.
    #[error("only --rows has a format for several directories: give one")]
    OneDirectory,
    /// A file of rows with an ending that says no format.
    #[error("--output {}: give a name that ends in .csv or .parquet", path.display())]
    Ending {
        /// The requested value.
        path: PathBuf,
    },
    /// A Parquet file, and a niclab that has been built without them.
    #[cfg(not(feature = "parquet"))]
    #[error(
        "{}: this niclab was built without Parquet; build it with the feature `parquet`",
        path.display()
    )]
    NoParquet {
        /// The file.
        path: PathBuf,
    },
    /// A Parquet file that cannot be read or written.
    #[cfg(feature = "parquet")]
    #[error("{}", one_line(&.0.to_string()))]
    File(RowsFileError),
    /// The results of a fleet are too many.
    #[error("{0}")]
    Fleet(FleetError),
    /// Hosts that are unlike the others.
    #[error("unlike the others: {}", few(hosts))]
    Odd {
        /// Their names, the farthest first.
        hosts: Vec<String>,
    },
}

impl RowsFailure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            RowsFailure::OneDirectory | RowsFailure::Ending { .. } => 2,
            #[cfg(not(feature = "parquet"))]
            RowsFailure::NoParquet { .. } => 2,
            #[cfg(feature = "parquet")]
            RowsFailure::File(_) => 4,
            RowsFailure::Fleet(_) => 4,
            RowsFailure::Odd { .. } => 12,
        }
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Failure {
        RowsFailure::Fleet(error).into()
    }
}

#[cfg(feature = "parquet")]
impl From<RowsFileError> for Failure {
    fn from(error: RowsFileError) -> Failure {
        RowsFailure::File(error).into()
    }
}

/// Names that are listed of many.
const NAMES_MAX: usize = 20;

/// The first names between commas, and how many more there are.
fn few(names: &[String]) -> String {
    let listed: Vec<String> = names.iter().take(NAMES_MAX).map(|name| one_line(name)).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    listed.join(", ") + &more
}
