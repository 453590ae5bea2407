//! How `analytics` can fail.

use std::io;
use std::path::PathBuf;

use niclab_analytics::card::CardSetupError;
use niclab_analytics::input::{GeneratorError, JsonError};
use niclab_analytics::job::{ClusterError, EngineError};
use niclab_analytics::window::WindowError;

use crate::output::one_line;

/// Why tuples cannot be counted or sent.
#[derive(Debug, thiserror::Error)]
pub enum AnalyticsFailure {
    /// The workers ended.
    #[error("{}", engine_text(.0))]
    Engine(#[from] EngineError),
    /// Windows that cannot be.
    #[error("--length-ms, --slide-ms: {0}")]
    Window(#[from] WindowError),
    /// A card that cannot be set up.
    #[error("--mode: {0}")]
    Card(#[from] CardSetupError),
    /// A generator that makes nothing.
    #[error("--tuples, --keys, --zipf, --interval-ns: {0}")]
    Generator(#[from] GeneratorError),
    /// A line that is no tuple.
    #[error("{input}: {}", one_line(&error.to_string()))]
    Json {
        /// The file or address.
        input: String,
        /// The defect, and its place.
        error: JsonError,
    },
    /// A tuple that is earlier than the one before it.
    #[error(
        "{input}: line {line}: time_ns is {time_ns} after {least_ns}; sort the lines by time_ns"
    )]
    Order {
        /// The file or address.
        input: String,
        /// The number of the line.
        line: u64,
        /// Its event time, nanoseconds.
        time_ns: u64,
        /// The event time of the tuple before it, nanoseconds.
        least_ns: u64,
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
    #[error(
        "--input udp:{address}: {error}; choose another address, or end the program that has this \
         one"
    )]
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
    #[error(
        "{to}: no acknowledgement for {silent_s} s; start niclab analytics there, and see that its \
         address and port are these"
    )]
    NoAnswer {
        /// The address.
        to: String,
        /// For how long, seconds.
        silent_s: u64,
    },
    /// The other end has lost what it had acknowledged.
    #[error(
        "{to}: the receiver has lost its state (was it started again?); send everything again to \
         the new one"
    )]
    Forgotten {
        /// The address.
        to: String,
    },
    /// The other end knows tuples of another source with this id.
    #[error("{to}: a source with the id {id} has sent tuples there before; give another --source")]
    IdUsed {
        /// The address.
        to: String,
        /// The id.
        id: u64,
    },
    /// The other end steers by key, and the source has keys of several of its cores.
    #[error(
        "{to}: its card steers by key; divide the tuples with --split N, where N is the number of \
         its workers"
    )]
    Foreign {
        /// The address.
        to: String,
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
                EngineError::Workers(_)
                | EngineError::Cluster(ClusterError::Process { .. })
                | EngineError::Cluster(ClusterError::Different { .. }),
            )
            | Of::Window(_)
            | Of::Card(CardSetupError::Workers(_))
            | Of::Generator(_) => 2,
            Of::Engine(EngineError::Core { .. })
            | Of::Json { .. }
            | Of::Order { .. }
            | Of::Input { is_address: false, .. }
            | Of::Hostfile { .. } => 3,
            Of::Engine(EngineError::Cluster(_) | EngineError::Disconnected)
            | Of::Input { .. }
            | Of::Listen { .. }
            | Of::Forgotten { .. }
            | Of::IdUsed { .. }
            | Of::NoAnswer { .. }
            | Of::Foreign { .. }
            | Of::TooManySources { .. } => 9,
            Of::Engine(_) | Of::Card(_) => 1,
        }
    }
}

/// Why an engine ended, with the options as they are typed.
fn engine_text(error: &EngineError) -> String {
    let EngineError::Cluster(ClusterError::Different { process, name, theirs, own }) = error else {
        return one_line(&error.to_string());
    };
    let ms = |ns: u64| ns / 1_000_000;
    let (option, theirs, own) = match *name {
        "processes" => ("lines of --hostfile", *theirs, *own),
        "cores" => ("cores in --cores", *theirs, *own),
        "length_ns" => ("--length-ms", ms(*theirs), ms(*own)),
        "slide_ns" => ("--slide-ms", ms(*theirs), ms(*own)),
        "stream" => ("--stream", *theirs, *own),
        _ => ("--top", *theirs, *own),
    };
    format!("{option}: {own} here, {theirs} in process {process}; start all processes alike")
}
