//! Messages over TCP: one behind the other on a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use niclab_packet::echo::{HEAD_LEN, MESSAGE_LEN_MAX, MessageHeader, MessageKind};

use super::datagrams::is_empty;
use super::poll::{Waiter, wait_for_either};
use super::uring::StreamRing;
use super::{Echo, EchoError, Receive, SILENCE_NS, socket};

/// Bytes that are read in one call: two of the longest messages.
pub const READ_LEN: usize = 2 * (MESSAGE_LEN_MAX + 1);

/// Received bytes of a stream that are not used yet. It allocates at the first call for room.
#[derive(Debug, Default)]
pub struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    /// Nothing has come.
    pub fn new() -> ReceiveBuffer {
        ReceiveBuffer { bytes: vec![0; READ_LEN], start: 0, end: 0 }
    }

    /// Room for bytes to receive, behind the received ones. Never empty.
    pub fn room(&mut self) -> &mut [u8] {
        if self.bytes.len() < READ_LEN {
            let mut bytes = vec![0; READ_LEN];
            bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
            self.bytes = bytes;
        }
        if self.bytes.len() - self.end < MESSAGE_LEN_MAX {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// Gives the memory back in which nothing waits.
    pub fn shrink(&mut self) {
        if self.bytes.len() > self.end - self.start {
            let bytes = self.bytes[self.start..self.end].to_vec();
            *self = ReceiveBuffer { start: 0, end: bytes.len(), bytes };
        }
    }

    /// How many bytes of memory it has.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// So many bytes of the room hold what has come.
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Reads what is there, by one call.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the other side has closed the connection.
    pub fn read(&mut self, stream: &mut impl Read) -> io::Result<()> {
        match stream.read(self.room()) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.filled(count);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The whole messages that are there, one behind the other.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] where something else stands there: the rest of the stream
    /// cannot be read then.
    pub fn messages(&mut self) -> io::Result<&mut [u8]> {
        let first = self.start;
        while self.end - self.start >= HEAD_LEN {
            let head = MessageHeader::read(&self.bytes[self.start..self.end]);
            let head = head.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            if self.end - self.start < usize::from(head.len) {
                break;
            }
            self.start += usize::from(head.len);
        }
        Ok(&mut self.bytes[first..self.start])
    }
}

/// Calls `each` with every one of whole messages; how many there are.
pub fn each_of(mut messages: &mut [u8], each: &mut dyn FnMut(&mut [u8])) -> usize {
    let mut count = 0;
    while let Ok(head) = MessageHeader::read(messages) {
        let Some((message, rest)) = messages.split_at_mut_checked(head.len.into()) else { break };
        each(message);
        messages = rest;
        count += 1;
    }
    count
}

/// The client's end. It never sleeps while it sends: a server that cannot get rid of its answers
/// reads no more, and both would wait for ever.
pub struct Stream {
    stream: TcpStream,
    size: usize,
    batch: usize,
    path: StreamPath,
}

/// How messages come to the kernel and from it.
enum StreamPath {
    Calls(Box<Calls>),
    Ring(Box<StreamRing>),
}

/// A call that sends, one that waits, and one that receives.
struct Calls {
    waiter: Waiter,
    out: Vec<u8>,
    /// Bytes of `out` that the kernel has.
    sent: usize,
    inflow: ReceiveBuffer,
}

impl Stream {
    /// A connection over which the messages of `echo` go to `server`.
    pub fn new(echo: &Echo, server: SocketAddr) -> Result<Stream, EchoError> {
        let stream = socket::tcp_client(server, Duration::from_nanos(SILENCE_NS))?;
        socket::set_receive_mode(&stream, echo.receive);
        let (size, batch) = (usize::from(echo.size), usize::from(echo.batch));
        let path = match echo.receive {
            Receive::IoUring => StreamPath::Ring(Box::new(StreamRing::new(&stream, usize::MAX)?)),
            _ => {
                stream.set_nonblocking(true).map_err(EchoError::of("O_NONBLOCK"))?;
                let waiter = Waiter::new(echo.receive, &stream)?;
                let (out, inflow) = (Vec::with_capacity(size * batch), ReceiveBuffer::new());
                StreamPath::Calls(Box::new(Calls { waiter, out, sent: 0, inflow }))
            }
        };
        Ok(Stream { stream, size, batch, path })
    }

    /// The address that it sends from.
    pub fn address(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Writes the next batch: messages of the run `run`, numbered from `first` on.
    pub fn write(&mut self, run: u32, first: u32) {
        let out = match &mut self.path {
            StreamPath::Calls(calls) => calls.out(),
            StreamPath::Ring(ring) => ring.pending(),
        };
        let start = out.len();
        out.resize(start + self.size * self.batch, 0);
        for (at, message) in out[start..].chunks_exact_mut(self.size).enumerate() {
            let (len, number) = (message.len() as u16, first.wrapping_add(at as u32));
            MessageHeader { kind: MessageKind::Request, len, run, number }.write(message);
        }
    }

    /// Sends what was written. What the kernel has no room for goes while answers are received, as
    /// all does through a ring.
    pub fn send(&mut self) -> io::Result<()> {
        match &mut self.path {
            StreamPath::Calls(calls) => calls.send(&mut self.stream),
            StreamPath::Ring(_) => Ok(()),
        }
    }

    /// Calls `each` with every message that is there, after having waited for something to read
    /// until `until_ns` at most; how many there were.
    pub fn receive(&mut self, until_ns: u64, each: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        match &mut self.path {
            StreamPath::Calls(calls) => calls.receive(&mut self.stream, until_ns, each),
            StreamPath::Ring(ring) => match ring.receive(until_ns)? {
                true => Ok(each_of(ring.messages()?.0, each)),
                false => Ok(0),
            },
        }
    }
}

impl Calls {
    /// `true` where the kernel has not taken all that was to be sent.
    fn is_behind(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Behind what to write what is to be sent.
    fn out(&mut self) -> &mut Vec<u8> {
        if !self.is_behind() {
            self.out.clear();
            self.sent = 0;
        }
        &mut self.out
    }

    fn send(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.is_behind() {
            match stream.write(&self.out[self.sent..]) {
                Ok(more) => self.sent += more,
                Err(e) if is_empty(&e) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        stream: &mut TcpStream,
        until_ns: u64,
        each: &mut dyn FnMut(&mut [u8]),
    ) -> io::Result<usize> {
        self.send(stream)?;
        match self.is_behind() {
            true => wait_for_either(&*stream, until_ns)?,
            false => self.waiter.wait(&*stream, until_ns)?,
        }
        match self.inflow.read(stream) {
            Ok(()) => Ok(each_of(self.inflow.messages()?, each)),
            Err(e) if is_empty(&e) => Ok(0),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32, len: u16) -> Vec<u8> {
        let mut bytes = vec![0; len.into()];
        MessageHeader { kind: MessageKind::Request, len, run: 1, number }.write(&mut bytes);
        bytes
    }

    #[test]
    fn messages_come_whole_however_the_stream_is_cut() {
        let lens = [16, 300, 65_507, 65_507, 17, 65_507];
        let sent: Vec<u8> =
            lens.iter().enumerate().flat_map(|(at, len)| message(at as u32, *len)).collect();
        for cut in [1, 15, 16, 1000, 70_000] {
            let (mut inflow, mut observed) = (ReceiveBuffer::new(), Vec::new());
            for mut piece in sent.chunks(cut) {
                while !piece.is_empty() {
                    inflow.read(&mut piece).unwrap();
                    each_of(inflow.messages().unwrap(), &mut |message| {
                        let head = MessageHeader::of_datagram(message).unwrap();
                        observed.push((head.number, head.len));
                    });
                }
            }
            let all: Vec<(u32, u16)> = (0..).zip(lens).collect();
            assert_eq!(observed, all, "cut into {cut}");
        }
    }

    #[test]
    fn a_malformed_message_ends_the_stream() {
        let mut bytes = [message(0, 20), message(1, 20)].concat();
        bytes[20] ^= 1;
        let mut inflow = ReceiveBuffer::new();
        inflow.read(&mut bytes.as_slice()).unwrap();
        let error = inflow.messages().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let closed = inflow.read(&mut [].as_slice()).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
    }
}
