//! Why a server cannot begin or go on.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use crate::kvs::store::StoreError;

/// Why a server cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Somebody else has the address.
    #[error(
        "{address} is in use: choose another port with --listen, -p or --udp, or end the program \
         that uses it (`ss -lntup` shows it)"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// No interface has the address.
    #[error("{address} is not an address of this machine: choose one with --listen (`ip address`)")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// A port for which one has to be root.
    #[error(
        "{address}: ports below 1024 need root; choose a higher one with --listen, -p or --udp"
    )]
    Rights {
        /// The address.
        address: SocketAddr,
    },
    /// A process may not have so many descriptors.
    #[error(
        "--connections {wanted}: this process may open {limit} files: raise `ulimit -n`, or ask \
         for fewer"
    )]
    Descriptors {
        /// Connections that were asked for.
        wanted: usize,
        /// Files that may be open.
        limit: u64,
    },
    /// No cores, or a core that may not be used.
    #[error("--cores: core {core} cannot be used here ({source}); `taskset -p $$` shows which can")]
    Core {
        /// The core.
        core: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The store cannot be made.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The kernel refused something else.
    #[error("{call}: {source}")]
    System {
        /// The requested value.
        call: &'static str,
        /// Its message.
        source: io::Error,
    },
}

impl ServerError {
    pub(in crate::kvs::transport) fn of(call: &'static str) -> impl Fn(Errno) -> ServerError {
        move |errno| ServerError::System { call, source: errno.into() }
    }
}
