//! Why an intrusion detection does not run.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use niclab_card::CardError;

use crate::steering::SteeringError;

/// Why an intrusion detection does not run, or does not take other rules.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The card cannot route as the rules need it.
    #[error("{0}")]
    Steering(SteeringError),
    /// The card.
    #[error("{0}")]
    Card(CardError),
    /// A file or directory of the run.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// An engine.
    #[error("engine {engine}: {error}")]
    Engine {
        /// Which, from 0.
        engine: usize,
        /// What is wrong.
        error: EngineError,
    },
    /// Other rules are on their way.
    #[error("the rules before are still being replaced; try again later")]
    Reloading,
    /// The engines do not load the rules.
    #[error(
        "the engines have not loaded the rules in {} s; give fewer rules or more cores",
        .0.as_secs()
    )]
    Slow(Duration),
    /// An engine died while it loaded rules.
    #[error("engine {engine} died while it loaded the rules")]
    DiedLoading {
        /// Which, from 0.
        engine: usize,
    },
    /// A directory whose path is too long for an engine's socket.
    #[error(
        "{}: the path is too long for the socket of an engine, which has 107 bytes at most; choose \
         a shorter directory", .0.display()
    )]
    LongPath(PathBuf),
    /// It was stopped while it started.
    #[error("stopped before the engines were ready")]
    Stopped,
}

/// What is wrong with an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such program.
    #[error("{} cannot be started: {source}", program.display())]
    Program {
        /// Which.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The configuration of the user cannot be read.
    #[error("its configuration cannot be read: {0}")]
    Config(String),
    /// It ended, with the last lines of its log.
    #[error("it ended: {0}")]
    Ended(String),
    /// It does not take these rules.
    #[error("it refuses rules ({count}); leave this one out or change it: {rule}: {reason}")]
    Rules {
        /// How many.
        count: usize,
        /// The text of the first.
        rule: String,
        /// What is wrong with one of them, as the log of the engine has it.
        reason: String,
    },
    /// It did not carry out a command.
    #[error("{command}: {source}")]
    Command {
        /// Which.
        command: &'static str,
        /// What it says, or the system.
        source: io::Error,
    },
}
