//! How `ids` can fail.

use std::path::PathBuf;

use niclab_ids::ConfigError;
use niclab_ids::partition::PartitionError;
use niclab_ids::rule::RuleError;

use crate::output::one_line;

/// Why rules cannot be divided.
#[derive(Debug, thiserror::Error)]
pub enum IdsFailure {
    /// A configuration that cannot be read.
    #[error("{}: {}", path.display(), one_line(&error.to_string()))]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ConfigError,
    },
    /// A rule that cannot be read.
    #[error("{}: {error}", path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: RuleError,
    },
    /// Two files with the same rule.
    #[error(
        "{}: line {at}: the rule {sid} is in {} (line {line}), too: give each rule its own sid, or \
         leave one file out",
        path.display(),
        other.display()
    )]
    Duplicate {
        /// The second file.
        path: PathBuf,
        /// The line in it.
        at: u64,
        /// The number of the rule.
        sid: u32,
        /// The first file.
        other: PathBuf,
        /// The line in it.
        line: u64,
    },
    /// The rules cannot be divided.
    #[error("{}", of_partition(.0))]
    Partition(PartitionError),
}

/// The library names a field, the command line a flag.
fn of_partition(error: &PartitionError) -> String {
    match error {
        PartitionError::Cores(cores) => format!("--cores {cores}: give 1 to 64"),
        PartitionError::NoRules => "--rules: the files have no rule; give others".to_owned(),
        error => error.to_string(),
    }
}

impl IdsFailure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            IdsFailure::Partition(PartitionError::Cores(_)) => 2,
            _ => 3,
        }
    }
}
