//! How `analytics` can fail.

use std::io;
use std::path::PathBuf;

use niclab_analytics::input::{GeneratorError, JsonError};
use niclab_analytics::job::{ClusterError, EngineError};
use niclab_analytics::window::WindowError;

use crate::output::one_line;

/// Why tuples cannot be counted or sent.
#[derive(Debug, thiserror::Error)]
pub enum AnalyticsFailure {
    /// The workers ended.
    #[error("{}", one_line(&.0.to_string()))]
    Engine(#[from] EngineError),
    /// Windows that cannot be.
    #[error("--length-ms, --slide-ms: {0}")]
    Window(#[from] WindowError),
    /// A generator that makes nothing.
    #[error("--tuples, --keys, --zipf, --interval-ns: {0}")]
    Generator(#[from] GeneratorError),
    /// A line that is no tuple.
    #[error("{input}: {}", one_line(&error.to_string()))]
    Json {
        /// The file or address.
        input: String,
        /// What is wrong, and where.
        error: JsonError,
    },
    /// An input that cannot be opened.
    #[error("--input {input}: {}", one_line(&error.to_string()))]
    Input {
        /// The file or address.
        input: String,
        /// The system's error, with the remedy.
        error: String,
        /// It is an address, and nobody is there.
        is_address: bool,
    },
    /// The address of UDP cannot be had.
    #[error("--input udp:{address}: {error}; choose another address, or end who has this one")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// A file of processes that cannot be used.
    #[error("{}: {reason}", path.display())]
    Hostfile {
        /// The file.
        path: PathBuf,
        /// Line and defect, with the remedy.
        reason: String,
    },
    /// The other end does not acknowledge anything.
    #[error("{to}: no acknowledgement for {silent_s} s; start niclab analytics there")]
    NoAnswer {
        /// The address.
        to: String,
        /// For how long, seconds.
        silent_s: u64,
    },
    /// The other end has too many sources.
    #[error("{to}: it has too many sources; wait until one has ended")]
    TooManySources {
        /// The address.
        to: String,
    },
}

impl AnalyticsFailure {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        use AnalyticsFailure as Of;
        match self {
            Of::Engine(
                EngineError::Workers(_) | EngineError::Cluster(ClusterError::Process { .. }),
            )
            | Of::Window(_)
            | Of::Generator(_) => 2,
            Of::Engine(EngineError::Core { .. })
            | Of::Json { .. }
            | Of::Input { is_address: false, .. }
            | Of::Hostfile { .. } => 3,
            Of::Engine(EngineError::Cluster(_) | EngineError::Disconnected)
            | Of::Input { .. }
            | Of::Listen { .. }
            | Of::NoAnswer { .. }
            | Of::TooManySources { .. } => 9,
            Of::Engine(_) => 1,
        }
    }
}
