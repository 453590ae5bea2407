//! One request at a time to the kernel's table of interfaces, qdiscs and filters.
//!
//! A socket stays in the network namespace of the thread that opened it, wherever it is used.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A socket to the kernel.
pub struct Netlink(Socket);

impl Netlink {
    /// Opens one in the calling thread's network namespace.
    pub fn open() -> io::Result<Netlink> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink(socket))
    }

    /// Has something done and waits until it is; what the kernel tells meanwhile.
    pub fn request(
        &self,
        payload: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(payload, NLM_F_ACK | flags)
    }

    /// All that the kernel has of a kind.
    pub fn dump(&self, payload: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.ask(payload, NLM_F_DUMP)
    }

    fn ask(
        &self,
        payload: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload.into());
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;

        let mut told = Vec::new();
        loop {
            let (bytes, _) = self.0.recv_from_full()?;
            if collect(&bytes, &mut told)? {
                return Ok(told);
            }
        }
    }
}

/// Takes the messages out of what came at once; `true` where the last one is among them.
fn collect(mut bytes: &[u8], told: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
    let bad = |e| io::Error::new(io::ErrorKind::InvalidData, e);
    while !bytes.is_empty() {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes).map_err(bad)?;
        match message.payload {
            NetlinkPayload::InnerMessage(inner) => told.push(inner),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.raw_code() == 0 => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
        // Each begins at a multiple of four.
        let len = (message.header.length as usize).next_multiple_of(4).max(4);
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(false)
}
