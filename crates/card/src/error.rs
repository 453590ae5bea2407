//! Why there is no card, and why one was not changed.

use std::io;
use std::path::PathBuf;

use niclab_nic::memory::MemoryError;
use niclab_nic::rule::text::ReadError;
use niclab_nic::toeplitz::ToeplitzError;
use niclab_nic::{NicError, RuleError};
use niclab_port::error::PortError;

use crate::applications::ApplicationError;

/// Why there is no card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// Nothing that frames could come by.
    #[error("no port: give at least one")]
    Ports,
    /// Nothing to run on.
    #[error("no core: give at least one")]
    Cores,
    /// Rules of another number of queues than the card's.
    #[error("rules of port {port} for {has} queues on a card with {queues}: make them for as many")]
    Control {
        /// The port.
        port: u16,
        /// Queues that they are for.
        has: u16,
        /// Queues of the card.
        queues: u16,
    },
    /// A program that comes with the card.
    #[error("the program of the card: {reason}")]
    Program {
        /// The defect.
        reason: String,
    },
    /// A store's items on a card that has not as many cores.
    #[error("items for {items} cores on a card of {cores}: make them for as many")]
    ItemsCores {
        /// Cores that they are for.
        items: usize,
        /// Cores of the card.
        cores: usize,
    },
    /// Services that cannot be had so.
    #[error(
        "{services} services on {cores} cores beside {external_queues} external queues: give one \
         service for each core, and no external queues"
    )]
    Services {
        /// Services.
        services: usize,
        /// Cores.
        cores: usize,
        /// Queues that other processes are to serve.
        external_queues: usize,
    },
    /// A queue that another process is to serve, and that there is not, or twice.
    #[error(
        "external queue {queue} of port {port}: the card has ports 0 to {}, with queues 0 to {}, \
         and each queue has one client at most",
        ports - 1,
        queues - 1
    )]
    ExternalQueueNumber {
        /// The port.
        port: u16,
        /// The queue.
        queue: u16,
        /// How many ports there are.
        ports: usize,
        /// Queues of each.
        queues: u16,
    },
    /// The socket of an external queue cannot be opened.
    #[error("external queue {queue} of port {port}: {source}")]
    ExternalQueue {
        /// The port.
        port: u16,
        /// The queue.
        queue: u16,
        /// The defect.
        source: PortError,
    },
    /// An application.
    #[error("{0}")]
    Application(#[from] ApplicationError),
    /// Queues.
    #[error("{0}")]
    Nic(#[from] NicError),
    /// Rules.
    #[error("{0}")]
    Rules(#[from] ReadError),
    /// A key to balance by.
    #[error("{0}")]
    Key(ToeplitzError),
    /// Frame memory.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// A port.
    #[error("{name}: {source}")]
    Port {
        /// Its name.
        name: String,
        /// The defect.
        source: PortError,
    },
    /// A thread could not be made, or had nothing to be woken by.
    #[error("a thread for core {core}: {source}")]
    Thread {
        /// For which core.
        core: u32,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Why a card was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no such port.
    #[error("no port {port}; the card has ports 0 to {}", ports - 1)]
    Port {
        /// Asked for.
        port: u16,
        /// How many there are.
        ports: usize,
    },
    /// Frames of the port go into a trace already.
    #[error("port {port}: a capture is under way; end it first")]
    Capturing {
        /// The port.
        port: u16,
    },
    /// The trace cannot be written.
    #[error("{}: {source}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The last change is not over.
    #[error(
        "port {port}: the last change is not over: frames wait for core {core}; ask again once it \
         has sent what it has"
    )]
    UnderWay {
        /// The port.
        port: u16,
        /// A core that has not followed it yet, by its number.
        core: u32,
    },
    /// The last program has not come to all cores.
    #[error("core {core} has not taken the last program yet: ask again")]
    ProgramUnderWay {
        /// The core, by its number.
        core: u32,
    },
    /// An invalid RSS state.
    #[error("port {port}: {source}")]
    Unfit {
        /// The port.
        port: u16,
        /// Why.
        source: RuleError,
    },
}
