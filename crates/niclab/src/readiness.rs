//! Readiness of a service, as systemd asks for it (`sd_notify(3)`): a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent.

use std::env;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::output;

/// The variable with the socket: a path, or an abstract name behind `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies systemd. The drop of this reports the end, if readiness was reported.
#[derive(Debug)]
pub struct Readiness {
    manager: Option<SocketAddr>,
    is_ready: bool,
}

impl Readiness {
    /// Reads the variable; a socket that cannot be one is reported on standard error.
    pub fn new() -> Readiness {
        let name = env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let manager = name.and_then(|name| {
            let bytes = name.as_bytes();
            let address = match bytes.split_first() {
                Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
                Some((b'/', _)) => SocketAddr::from_pathname(&name),
                _ => Err(ErrorKind::Unsupported.into()),
            };
            address.map_err(failed).ok()
        });
        Readiness { manager, is_ready: false }
    }

    /// Reports that the service works: every socket listens.
    pub fn ready(&mut self) {
        self.is_ready = true;
        self.send(b"READY=1");
    }

    fn send(&self, state: &[u8]) {
        let Some(manager) = &self.manager else { return };
        let sent = UnixDatagram::unbound().and_then(|from| from.send_to_addr(state, manager));
        // A service that works does not end because nobody listens.
        let _ = sent.map_err(failed);
    }
}

impl Drop for Readiness {
    fn drop(&mut self) {
        if self.is_ready {
            self.send(b"STOPPING=1");
        }
    }
}

fn failed(error: io::Error) {
    output::say(&format!("niclab: the socket of {VARIABLE} cannot be notified: {error}"));
}
