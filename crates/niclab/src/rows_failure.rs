//! How `export --rows` and `fleet` can fail.

use std::path::PathBuf;

use niclab_lab::fleet::FleetError;
#[cfg(feature = "parquet")]
use niclab_result::rows::parquet::RowsFileError;

#[cfg(feature = "parquet")]
use crate::failure::Failure;
use crate::output::one_line;

/// Why rows cannot be written or read, or what a fleet has shown.
#[derive(Debug, thiserror::Error)]
pub enum RowsFailure {
    /// Several directories for a format of one.
    #[error(
        "{count} directories: --csv, --textfile and --bencher take one; use --rows, or call niclab \
         for each directory"
    )]
    OneDirectory {
        /// How many there are.
        count: usize,
    },
    /// A run without a median for Bencher.
    #[error(
        "{}: a mark puts every median in doubt ({marks}): measure again while the machine does \
         nothing else",
        directory.display()
    )]
    AllMarked {
        /// Its directory.
        directory: PathBuf,
        /// The marks, each with the number of medians.
        marks: String,
    },
    /// A directory that files for Prometheus cannot go to.
    #[error("--textfile {}: {reason}", path.display())]
    Textfile {
        /// The requested value.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// More directories than a fleet has.
    #[error(
        "{}: more than {limit} result directories: export them to Parquet files in parts (niclab \
         export --rows), and give the files",
        path.display()
    )]
    Directories {
        /// The directory that has them.
        path: PathBuf,
        /// The most.
        limit: usize,
    },
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
    /// A result that does not fit in a Parquet file.
    #[cfg(feature = "parquet")]
    #[error("{}: {}", directory.display(), one_line(&error.to_string()))]
    Unfit {
        /// Its directory.
        directory: PathBuf,
        /// Why not.
        error: RowsFileError,
    },
    /// Results that cannot be compared, or are too many.
    #[error("{}: {}", path.display(), one_line(&error.to_string()))]
    Fleet {
        /// The source that was being read.
        path: PathBuf,
        /// Why not.
        error: FleetError,
    },
    /// Cards that are unlike the others.
    #[error("outliers: {}", few(cards, ", "))]
    Outliers {
        /// Their hosts and devices, the farthest first.
        cards: Vec<String>,
    },
    /// No card was compared with others.
    #[error("nothing was compared: {}", few(reasons, "; "))]
    Uncompared {
        /// Each group, and why.
        reasons: Vec<String>,
    },
    /// No outlier was found, but not all results could be used.
    #[error(
        "no outlier among the rest, but {count} {} left out, see above: mend {}, or do not name {}",
        if *count == 1 { "source was" } else { "sources were" },
        if *count == 1 { "it" } else { "them" },
        if *count == 1 { "it" } else { "them" }
    )]
    LeftOut {
        /// How many.
        count: usize,
    },
}

impl RowsFailure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            RowsFailure::OneDirectory { .. } | RowsFailure::Ending { .. } => 2,
            #[cfg(not(feature = "parquet"))]
            RowsFailure::NoParquet { .. } => 2,
            #[cfg(feature = "parquet")]
            RowsFailure::File(_) | RowsFailure::Unfit { .. } => 4,
            RowsFailure::AllMarked { .. }
            | RowsFailure::Fleet { .. }
            | RowsFailure::Directories { .. }
            | RowsFailure::Textfile { .. } => 4,
            RowsFailure::Outliers { .. } => 12,
            RowsFailure::Uncompared { .. } | RowsFailure::LeftOut { .. } => 13,
        }
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

/// The first names, and how many more there are.
fn few(names: &[String], between: &str) -> String {
    let listed: Vec<String> = names.iter().take(NAMES_MAX).map(|name| one_line(name)).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    listed.join(between) + &more
}
