//! Messages over UDP: each a datagram, many a call.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use niclab_packet::echo::{MessageHeader, MessageKind, clear_stamps};

use super::poll::Waiter;
use super::uring::DatagramRing;
use super::{Echo, EchoError, Pace, Receive, socket};
use crate::mmsg::{Incoming, Outgoing, WaitMode};

/// The client's end.
pub struct Datagrams {
    socket: UdpSocket,
    waiter: Waiter,
    /// It sleeps in the call that receives.
    sleeps: bool,
    path: DatagramPath,
}

/// How messages come to the kernel and from it.
enum DatagramPath {
    Calls { out: Box<Outgoing>, back: Box<Incoming> },
    Ring(Box<DatagramRing>),
}

impl Datagrams {
    /// A socket that sends the messages of `echo` to `server`.
    pub fn new(echo: &Echo, server: SocketAddr) -> Result<Datagrams, EchoError> {
        let socket = socket::udp_client(server)?;
        let (batch, size) = (usize::from(echo.batch), usize::from(echo.size));
        socket::widen(&socket, batch, size);
        socket::set_receive_mode(&socket, echo.receive);
        let waiter = Waiter::new(echo.receive, &socket)?;
        // An open loop may not sleep longer than until the next batch is due.
        let sleeps = echo.receive == Receive::Blocking && echo.pace == Pace::Closed;
        socket.set_read_timeout(Some(socket::TURN)).map_err(EchoError::of("SO_RCVTIMEO"))?;
        let out = Outgoing::new(batch, size);
        // One byte more shows a message that is too long.
        let back = Incoming::new(batch, size + 1);
        let path = match echo.receive {
            Receive::IoUring => {
                DatagramPath::Ring(Box::new(DatagramRing::new(&socket, back, out)?))
            }
            _ => DatagramPath::Calls { out: Box::new(out), back: Box::new(back) },
        };
        Ok(Datagrams { socket, waiter, sleeps, path })
    }

    /// The address that it sends from.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Writes the next batch: messages of the run `run`, numbered from `first` on.
    pub fn write(&mut self, run: u32, first: u32) {
        let out = match &mut self.path {
            DatagramPath::Calls { out, .. } => out,
            DatagramPath::Ring(ring) => ring.outgoing(),
        };
        for at in 0..out.count() {
            let message = out.message(at);
            let (len, number) = (message.len() as u16, first.wrapping_add(at as u32));
            MessageHeader { kind: MessageKind::Request, len, run, number }.write(message);
            clear_stamps(message);
        }
    }

    /// Sends the batch that was written.
    pub fn send(&mut self) -> io::Result<()> {
        let out = match &mut self.path {
            DatagramPath::Calls { out, .. } => out,
            DatagramPath::Ring(ring) => return ring.send(),
        };
        let (count, mut sent) = (out.count(), 0);
        while sent < count {
            match out.send(&self.socket, sent) {
                Ok(more) => sent += more,
                // The path's buffers are full: the rest is sent when there is room.
                Err(e) if is_full(&e) => std::thread::yield_now(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Calls `each` with every message that is there, after having waited for the first one until
    /// `until_ns` at most; how many there were.
    pub fn receive(&mut self, until_ns: u64, each: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let back = match &mut self.path {
            DatagramPath::Calls { back, .. } => back,
            DatagramPath::Ring(ring) => {
                let count = ring.receive(until_ns)?;
                for place in 0..count {
                    let at = ring.received()[place];
                    each(ring.message(at));
                }
                return Ok(count);
            }
        };
        let patience = match self.sleeps {
            true => WaitMode::One,
            false => {
                self.waiter.wait(&self.socket, until_ns)?;
                WaitMode::None
            }
        };
        let count = match back.receive(&self.socket, patience) {
            Ok(count) => count,
            Err(e) if is_empty(&e) => 0,
            Err(e) => return Err(e),
        };
        for at in 0..count {
            each(back.message(at));
        }
        Ok(count)
    }
}

/// The kernel has no room for more just now.
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// Nothing is there just now.
pub fn is_empty(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
