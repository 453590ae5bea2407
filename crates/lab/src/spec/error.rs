//! Why an experiment cannot be read or resolved.

use std::path::PathBuf;

use crate::values::ValuesError;
use crate::variants::VariantError;

/// Why an experiment cannot be read or resolved.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// No experiment has this name, and no file either.
    #[error("no experiment `{name}`: there are {known}; or give the path of a TOML file")]
    Unknown {
        /// The requested value.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: {source}; give the path of an experiment's TOML file", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: niclab_files::FileError,
    },
    /// The file is not an experiment.
    #[error("{origin}: {source}")]
    Syntax {
        /// The file or the name of the experiment.
        origin: String,
        /// Line, column and what may stand there.
        source: Box<toml::de::Error>,
    },
    /// `--set` without `=`.
    #[error("--set {text}: write NAME=VALUES, such as --set rules=0,1k,64k")]
    NoAssignment {
        /// The typed text.
        text: String,
    },
    /// The values of an axis cannot be read.
    #[error("--set {name}: {source}")]
    BadValues {
        /// The axis.
        name: String,
        /// Their defect.
        source: ValuesError,
    },
    /// `--set` of something that is no axis.
    #[error("--set {name}: no such axis; there are {known}")]
    UnknownAxis {
        /// The typed text.
        name: String,
        /// The axes there are.
        known: String,
    },
    /// `--set` of something that a file of rules brings.
    #[error(
        "--set {name}: the rules of --rules stand where the file says; leave out one of the two"
    )]
    OfRules {
        /// The axis.
        name: String,
    },
    /// Rules of a file where no rule is to decide.
    #[error("--rules: {experiment} measures frames that no rule matches; leave out one of the two")]
    NoRules {
        /// Its name.
        experiment: String,
    },
    /// The short grid of an experiment that has none.
    #[error("{experiment} has no grid `short`: it is no part of the default run; use `reduced`")]
    NotShort {
        /// Its name.
        experiment: String,
    },
    /// `--set` of something that a trace brings.
    #[error("--set {name}: the frames of --trace bring their own {name}; leave out one of the two")]
    OfTrace {
        /// The axis.
        name: String,
    },
    /// A number of an experiment's file that cannot be.
    #[error("{origin}: {field} = {value}: {remedy}")]
    Field {
        /// The file or the name of the experiment.
        origin: String,
        /// The field.
        field: String,
        /// The value.
        value: String,
        /// A valid value.
        remedy: String,
    },
    /// A value outside the range of its axis.
    #[error("{axis} = {value}: {remedy}")]
    OutOfRange {
        /// The axis.
        axis: &'static str,
        /// The requested value.
        value: String,
        /// A valid value.
        remedy: String,
    },
    /// An error in the values of one experiment of a run.
    #[error("{experiment}: {source}")]
    Of {
        /// Its name.
        experiment: String,
        /// The defect.
        source: Box<SpecError>,
    },
    /// A run without devices.
    #[error("no device to measure: give one with --device soft")]
    NoDevice,
    /// Variants that cannot be compared.
    #[error("--variant: {0}")]
    Variants(#[from] VariantError),
    /// An experiment of which nothing can be measured under variants.
    #[error(
        "not supported: searches with --variant, and {experiment} has nothing else here; choose \
         another grid, or run it once for each setting and compare the directories"
    )]
    SearchesOnly {
        /// Its name.
        experiment: String,
    },
    /// `run.toml` cannot be written or read again.
    #[error("run.toml: {reason}; start a new run with -o")]
    BadRun {
        /// The defect.
        reason: String,
    },
    /// `run.toml` was written by a later version.
    #[error("run.toml has schema {found}: use {program} or newer")]
    NewerRun {
        /// Its schema.
        found: u32,
        /// The program that wrote it.
        program: String,
    },
}

impl SpecError {
    /// A value that cannot be stands in a file or is of `--set`, which goes to several experiments:
    /// which one has it is said.
    pub(crate) fn of(self, experiment: &str) -> SpecError {
        match self {
            SpecError::OutOfRange { .. } => {
                SpecError::Of { experiment: experiment.to_owned(), source: Box::new(self) }
            }
            other => other,
        }
    }
}
