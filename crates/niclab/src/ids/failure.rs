//! How `ids` can fail.

use std::path::PathBuf;

use niclab_ids::ConfigError;
use niclab_ids::partition::PartitionError;
use niclab_ids::rule::RuleError;
use niclab_ids::run::{EngineError, RunError};

use crate::failure::STOPPED;
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
    /// A trace on a card of several cores.
    #[error("--card-cores: give one core: a trace is read by one")]
    TraceCores,
    /// A port that packets do not come from.
    #[error(
        "--port {port}: packets come from xdp:INTERFACE, packet:INTERFACE or \
         pcap:in=FILE,speed=N: give one of these"
    )]
    Port {
        /// As it was given.
        port: String,
    },
    /// No configuration of Suricata.
    #[error(
        "Suricata needs a configuration: give --config FILE; its package brings \
         /etc/suricata/suricata.yaml"
    )]
    NoConfig,
    /// No Suricata.
    #[error(
        "not supported: Suricata is not on the path: install it (apt install suricata; on Debian \
         12 from backports: apt install -t bookworm-backports suricata), or give --suricata PROGRAM"
    )]
    NoSuricata,
    /// It was stopped before any packet came.
    #[error("stopped before the engines were ready; nothing was written")]
    Stopped,
    /// The engines or their card.
    #[error("{}", of_run(.0))]
    Run(RunError),
}

/// The library names a field, the command line a flag.
fn of_partition(error: &PartitionError) -> String {
    match error {
        PartitionError::Cores(cores) => format!("--cores {cores}: give 1 to 64"),
        PartitionError::NoRules => "--rules: the files have no rule; give others".to_owned(),
        error => error.to_string(),
    }
}

/// The same of a run.
fn of_run(error: &RunError) -> String {
    match error {
        RunError::Engine { error: EngineError::Program { program, source }, .. } => {
            let program = one_line(&program.display().to_string());
            format!("--suricata {program}: it cannot be started: {source}")
        }
        RunError::Engine { error: EngineError::Config(reason), .. } => {
            format!("--config: {}", one_line(reason))
        }
        error => one_line(&error.to_string()),
    }
}

impl IdsFailure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            IdsFailure::Partition(PartitionError::Cores(_))
            | IdsFailure::Port { .. }
            | IdsFailure::TraceCores => 2,
            IdsFailure::NoSuricata => 5,
            IdsFailure::Stopped => STOPPED as u8,
            IdsFailure::Run(RunError::File { .. }) => 4,
            IdsFailure::Run(RunError::Engine { error, .. }) => match error {
                EngineError::Program { .. } => 5,
                EngineError::Ended(_) | EngineError::Command { .. } => 9,
                _ => 3,
            },
            _ => 3,
        }
    }
}
