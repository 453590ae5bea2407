//! Requests that come by UDP.

use std::io::ErrorKind;
use std::net::UdpSocket;

use super::connection::Scratch;
use crate::kvs::codec::context::Context;
use crate::kvs::codec::datagram::serve;
use crate::kvs::protocol::datagram::{FRAME_LEN, parts};
use crate::kvs::transport::shared::ServerShared;
use crate::kvs::transport::shared::tally::add;

/// Datagrams that are served in one turn, before connections have theirs.
const BATCH: usize = 64;

/// Serves what has come.
pub fn turn(udp: &UdpSocket, scratch: &mut Scratch, context: &Context<'_>, shared: &ServerShared) {
    let (mut read, mut written, mut count) = (0, 0, 0);
    for _ in 0..BATCH {
        let (len, from) = match udp.recv_from(&mut scratch.read) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // What a client that is gone leaves behind says nothing of the others.
            Err(_) => continue,
        };
        count += 1;
        read += len as u64;
        let Some(id) = serve(&scratch.read[..len], &mut scratch.out, context) else { continue };
        for (frame, part) in parts(id, &scratch.out) {
            let datagram = &mut scratch.read[..FRAME_LEN + part.len()];
            datagram[..FRAME_LEN].copy_from_slice(&frame);
            datagram[FRAME_LEN..].copy_from_slice(part);
            // What the kernel has no room for is lost, as datagrams may be.
            if udp.send_to(datagram, from).is_ok() {
                written += datagram.len() as u64;
            }
        }
    }
    add(&shared.tally.datagrams, count);
    add(&shared.tally.bytes_read, read);
    add(&shared.tally.bytes_written, written);
}
