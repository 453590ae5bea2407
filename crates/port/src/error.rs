//! Errors of opening a port, and their remedies.

use std::io;
use std::path::PathBuf;

use niclab_packet::trace::TraceError;

use crate::link::Link;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// No such interface.
    #[error("no interface {name} in this network namespace: see `ip link`")]
    Absent {
        /// Its name.
        name: String,
    },
    /// A right is missing.
    #[error("not allowed to {what} {name}: run as root, or with {}", kind.rights())]
    NotAllowed {
        /// Kind of the port.
        kind: PortKind,
        /// The operation.
        what: &'static str,
        /// To which interface.
        name: String,
    },
    /// Its frames are longer than one slot of frame memory.
    #[error(
        "{name} has an MTU of {mtu}: {} takes frames of an MTU up to {longest} here; say \
         `ip link set {name} mtu {}`",
        kind.name(),
        longest.min(&1500)
    )]
    Mtu {
        /// Kind of the port.
        kind: PortKind,
        /// Of this interface.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// The greatest that would do.
        longest: u32,
    },
    /// More queue pairs than there can be.
    #[error("{name}: {count} queue pairs: use 1 to {most}")]
    QueuePairs {
        /// Of this interface.
        name: String,
        /// Asked for.
        count: u32,
        /// Possible.
        most: u32,
    },
    /// Another program has its frames.
    #[error("{name} has an XDP program already: see `ip link show {name}`, end what attached it")]
    Taken {
        /// The interface.
        name: String,
    },
    /// Another program is behind the TAP interface.
    #[error(
        "{name} is the TAP interface of another program, such as a card that runs, or of another \
         port here: end that, or take another name (`grep -ls 'iff:.*{name}$' \
         /proc/[0-9]*/fdinfo/*` says which process has it)"
    )]
    TapTaken {
        /// The interface.
        name: String,
    },
    /// Another socket has the queue.
    #[error("queue {queue} of {name} has an AF_XDP socket already: end the program that opened it")]
    QueueTaken {
        /// The interface.
        name: String,
        /// The queue, from 0.
        queue: u32,
    },
    /// It has fewer queues.
    #[error(
        "{name} has no queue {queue}: use fewer cores, or give it more queues (ethtool -L {name} \
         combined N; of a veth pair: ip link add … numrxqueues N numtxqueues N)"
    )]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue, from 0.
        queue: u32,
    },
    /// It has more queues, whose frames would not come.
    #[error(
        "{name} receives by {queues} queues, and frames of {} of them would go to the kernel: use \
         {queues} cores, or say `ethtool -L {name} {word} {count}`",
        queues - count
    )]
    QueuesLeft {
        /// The interface.
        name: String,
        /// How many it has.
        queues: u32,
        /// How many were to be opened.
        count: u32,
        /// Their name in ethtool.
        word: &'static str,
    },
    /// No name that an interface can have.
    #[error("`{name}` is no name of an interface: use 1 to 15 letters and digits")]
    Name {
        /// As it was given.
        name: String,
    },
    /// An interface of another kind, or with another number of queues.
    #[error(
        "{name} is there and cannot be opened as a TAP interface of {}: take another name (one \
         that is not there is made), or make it anew: `{}`",
        if *count > 1 { "several queues" } else { "one queue" },
        tap_anew(name, *count)
    )]
    NoTap {
        /// Its name.
        name: String,
        /// Queues that were to be opened.
        count: u32,
    },
    /// There are no TAP interfaces.
    #[error("/dev/net/tun: {source}: {remedy}")]
    NoTun {
        /// The system's error.
        source: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// A file that could not be gone on with.
    #[error("{reason}; frames for it are dropped from here on")]
    Ended {
        /// The error.
        reason: String,
    },
    /// A file that cannot be opened or made.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file that would be written while it is read, or by two.
    #[error(
        "{} is the same file as {}, which is open here: give another one to write to",
        path.display(),
        taken.display()
    )]
    FileTaken {
        /// Which.
        path: PathBuf,
        /// As it was named before.
        taken: PathBuf,
    },
    /// Another card is at the socket of an external queue.
    #[error("{}: another card listens there: end it, or take another path", path.display())]
    ExternalQueueTaken {
        /// The socket.
        path: PathBuf,
    },
    /// The path of an external queue's socket is another kind of file.
    #[error("{} is there and is no socket: take another path", path.display())]
    ExternalQueuePath {
        /// The place.
        path: PathBuf,
    },
    /// A packet trace that cannot be read.
    #[error("{}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// Place and defect.
        error: Box<TraceError>,
    },
    /// The kernel refused.
    #[error("{what} {name}: {source}")]
    System {
        /// The operation.
        what: &'static str,
        /// To which interface.
        name: String,
        /// Its message.
        source: io::Error,
    },
}

/// Commands that make a TAP interface for so many queues of one of the other kind: the kernel opens
/// none as what it was not made.
fn tap_anew(name: &str, count: u32) -> String {
    let (old, new) = if count > 1 { ("", " multi_queue") } else { (" multi_queue", "") };
    format!("ip tuntap del {name} mode tap{old} && ip tuntap add {name} mode tap{new}")
}

/// A kind of port of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// `packet:`
    Packet,
    /// `tap:`
    Tap,
    /// `xdp:`
    Xdp,
}

impl PortKind {
    /// Its name in the kernel.
    fn name(self) -> &'static str {
        match self {
            PortKind::Packet => "AF_PACKET",
            PortKind::Tap => "TAP",
            PortKind::Xdp => "AF_XDP",
        }
    }

    /// The rights that it needs.
    fn rights(self) -> &'static str {
        match self {
            PortKind::Packet => "CAP_NET_RAW",
            PortKind::Tap => "CAP_NET_ADMIN",
            PortKind::Xdp => "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
        }
    }
}

impl PortError {
    /// The error that an interface's MTU is too long for the frames.
    pub(crate) fn mtu(kind: PortKind, link: &Link, longest: u32) -> PortError {
        PortError::Mtu { kind, name: link.name.clone(), mtu: link.mtu, longest }
    }

    /// Converts an error of the kernel.
    pub(crate) fn of(
        kind: PortKind,
        what: &'static str,
        name: &str,
        source: io::Error,
    ) -> PortError {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => PortError::NotAllowed { kind, what, name },
            _ => PortError::System { what, name, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_kind_of_port_and_its_rights() {
        let name = "va".to_owned();
        for (kind, has, has_not) in [
            (PortKind::Packet, "AF_PACKET", "XDP"),
            (PortKind::Tap, "TAP", "XDP"),
            (PortKind::Xdp, "AF_XDP", "TAP"),
        ] {
            let message = PortError::Mtu { kind, name: name.clone(), mtu: 9_000, longest: 1_774 };
            let message = message.to_string();
            assert!(message.contains(has) && !message.contains(has_not), "{message}");
            assert!(message.ends_with("say `ip link set va mtu 1500`"), "{message}");
        }
        let denied = |kind| {
            let source = io::ErrorKind::PermissionDenied.into();
            PortError::of(kind, "open a socket on", "va", source).to_string()
        };
        assert!(denied(PortKind::Packet).ends_with("or with CAP_NET_RAW"));
        assert!(denied(PortKind::Tap).ends_with("or with CAP_NET_ADMIN"));
        assert!(denied(PortKind::Xdp).contains("CAP_BPF"));
    }
}
