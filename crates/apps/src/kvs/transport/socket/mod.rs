//! Sockets of the kernel: a thread for each core serves connections over TCP, and a UDP socket.

pub mod accept;
mod connection;
mod datagrams;
pub mod sockets;
pub mod worker;

use std::time::Duration;

use rustix::event::Timespec;

use crate::kvs::protocol::limits::DATAGRAM_LEN_MAX;

/// How long a thread sleeps at most before it looks whether it is to end.
const TURN: Duration = Duration::from_millis(200);

/// Bytes that are read in one call, and the room for a datagram.
const READ_LEN: usize = 64 << 10;

const _: () = assert!(READ_LEN > DATAGRAM_LEN_MAX, "any request that fits a frame is read whole");

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
