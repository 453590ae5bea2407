//! Batches of messages that cross into the kernel by one call: `sendmmsg` and `recvmmsg`.
//!
//! The headers that the kernel reads lie beside the bytes they point at and are made once: a call
//! costs a store or two a message beside the kernel's own work.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

use libc::{iovec, mmsghdr, sockaddr_storage};

/// Bytes between the starts of two messages are an odd number of these, so that the heads of many
/// messages do not fall into one set of the first-level cache.
const LINE: usize = 64;

/// How a call that receives treats an empty socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// It sleeps until one message is there, as long as the socket's timeout says.
    One,
    /// It comes back at once.
    None,
}

/// Memory for messages, which never moves.
struct Slots {
    bytes: Vec<u8>,
    /// Bytes of a message, at most.
    len: usize,
    stride: usize,
    vectors: Vec<iovec>,
}

impl Slots {
    fn new(count: usize, len: usize) -> Slots {
        let stride = len.div_ceil(LINE).next_multiple_of(2) * LINE + LINE;
        let mut bytes = vec![0; count * stride];
        let vector =
            |message: &mut [u8]| iovec { iov_base: message.as_mut_ptr().cast(), iov_len: len };
        let vectors = bytes.chunks_exact_mut(stride).map(vector).collect();
        Slots { bytes, len, stride, vectors }
    }

    #[inline]
    fn message(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = at * self.stride;
        &mut self.bytes[start..start + len.min(self.stride)]
    }
}

/// A header of one vector, without an address.
fn header(vector: &mut iovec) -> mmsghdr {
    // SAFETY: a header of zeros has no address, no bytes and no control data.
    let mut header: mmsghdr = unsafe { zeroed() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Sends what `headers` point at; how many the kernel took, from the first on.
fn send(socket: impl AsFd, headers: &mut [mmsghdr]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `Outgoing` and `Incoming`, which alone have headers, keep what these point at; it is
    // only read. There are as many headers as is said.
    let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), headers.len() as u32, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Messages of one length that go to where a socket is connected.
pub struct Outgoing {
    slots: Slots,
    len: usize,
    headers: Vec<mmsghdr>,
}

// SAFETY: the pointers point into vectors of the same value, which own their memory and are neither
// grown nor replaced; whoever has the value has them alone.
unsafe impl Send for Outgoing {}

impl Outgoing {
    /// Room for `count` messages of `len` bytes.
    pub fn new(count: usize, len: usize) -> Outgoing {
        let mut slots = Slots::new(count, len);
        let headers = slots.vectors.iter_mut().map(header).collect();
        Outgoing { slots, len, headers }
    }

    /// Messages that there are.
    pub fn count(&self) -> usize {
        self.headers.len()
    }

    /// The bytes of a message.
    #[inline]
    pub fn message(&mut self, at: usize) -> &mut [u8] {
        self.slots.message(at, self.len)
    }

    /// Writes a message of its own length, cut where there is no room for it.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let len = bytes.len().min(self.len);
        self.slots.message(at, len).copy_from_slice(&bytes[..len]);
        self.slots.vectors[at].iov_len = len;
    }

    /// The header by which the kernel sends a message; valid as long as this value.
    pub fn header(&mut self, at: usize) -> *const libc::msghdr {
        &self.headers[at].msg_hdr
    }

    /// Sends the messages from `first` on; how many of them the kernel took.
    pub fn send(&mut self, socket: impl AsFd, first: usize) -> io::Result<usize> {
        send(socket, &mut self.headers[first..])
    }

    /// Sends the first `count` messages; how many of them the kernel took.
    pub fn send_first(&mut self, socket: impl AsFd, count: usize) -> io::Result<usize> {
        send(socket, &mut self.headers[..count])
    }
}

/// Messages that come, and that may go back to where they came from.
pub struct Incoming {
    slots: Slots,
    lens: Vec<usize>,
    addresses: Vec<sockaddr_storage>,
    headers: Vec<mmsghdr>,
    /// Headers of the last call whose address the kernel has written.
    written: usize,
    back_vectors: Vec<iovec>,
    back: Vec<mmsghdr>,
}

// SAFETY: as for `Outgoing`.
unsafe impl Send for Incoming {}

impl Incoming {
    /// Room for `count` messages of up to `len` bytes; what is longer is cut.
    pub fn new(count: usize, len: usize) -> Incoming {
        let mut slots = Slots::new(count, len);
        // SAFETY: an address of zeros is an unspecified one.
        let address: sockaddr_storage = unsafe { zeroed() };
        let mut addresses = vec![address; count];
        let mut headers: Vec<mmsghdr> = slots.vectors.iter_mut().map(header).collect();
        for (header, address) in headers.iter_mut().zip(&mut addresses) {
            let address: *mut sockaddr_storage = address;
            header.msg_hdr.msg_name = address.cast();
        }
        let mut back_vectors = slots.vectors.clone();
        let back = back_vectors.iter_mut().map(header).collect();
        let lens = vec![0; count];
        Incoming { slots, lens, addresses, headers, written: count, back_vectors, back }
    }

    /// The bytes of a message that has come.
    #[inline]
    pub fn message(&mut self, at: usize) -> &mut [u8] {
        self.slots.message(at, self.lens[at])
    }

    /// Receives up to as many messages as there is room for; how many there are.
    pub fn receive(&mut self, socket: impl AsFd, patience: WaitMode) -> io::Result<usize> {
        let flags = match patience {
            WaitMode::One => libc::MSG_WAITFORONE,
            WaitMode::None => libc::MSG_DONTWAIT,
        };
        for header in &mut self.headers[..self.written] {
            header.msg_hdr.msg_namelen = size_of::<sockaddr_storage>() as u32;
        }
        self.written = 0;
        let (fd, room) = (socket.as_fd().as_raw_fd(), self.headers.len() as u32);
        let (headers, no_timeout) = (self.headers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: each header has one vector and one address of this value, which the kernel may
        // write and nobody else looks at meanwhile; their lengths are those of the memory.
        let count = unsafe { libc::recvmmsg(fd, headers, room, flags as _, no_timeout) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        self.written = count;
        for (len, header) in self.lens.iter_mut().zip(&self.headers[..count]) {
            *len = header.msg_len as usize;
        }
        Ok(count)
    }

    /// The header by which the kernel receives a message and its sender's address; valid as long as
    /// this value. The kernel owns the message until it reports completion.
    pub fn arm(&mut self, at: usize) -> *mut libc::msghdr {
        self.headers[at].msg_hdr.msg_namelen = size_of::<sockaddr_storage>() as u32;
        &mut self.headers[at].msg_hdr
    }

    /// A message is there, so long; no longer than there is room for.
    pub fn set_len(&mut self, at: usize, len: usize) {
        self.lens[at] = len.min(self.slots.len);
    }

    /// The header by which the kernel sends a message of [`Incoming::prepare_replies`] back.
    pub fn reply_header(&mut self, place: usize) -> *const libc::msghdr {
        &self.back[place].msg_hdr
    }

    /// Makes the received messages whose places are in `kept`, each once, ready to go back to where
    /// they came from; how many.
    pub fn prepare_replies(&mut self, kept: &[usize]) -> usize {
        let count = kept.len().min(self.back.len());
        for (place, &at) in kept[..count].iter().enumerate() {
            let received = &self.headers[at].msg_hdr;
            let (name, len) = (received.msg_name, received.msg_namelen);
            self.back_vectors[place].iov_base = self.slots.vectors[at].iov_base;
            self.back_vectors[place].iov_len = self.lens[at];
            let back = &mut self.back[place].msg_hdr;
            (back.msg_name, back.msg_namelen) = (name, len);
        }
        count
    }

    /// Sends the received messages whose places are in `kept`, each once, back to where they came
    /// from; how many the kernel took, from the first on.
    pub fn send_back(&mut self, socket: impl AsFd, kept: &[usize]) -> io::Result<usize> {
        let count = self.prepare_replies(kept);
        send(socket, &mut self.back[..count])
    }

    /// Addresses that there is room for.
    pub fn room(&self) -> usize {
        self.addresses.len()
    }
}

/// Lets the kernel poll the card for this socket, for so many microseconds a call
/// (`SO_BUSY_POLL`). More than the system's own setting needs `CAP_NET_ADMIN`.
pub fn set_busy_poll(socket: impl AsFd, microseconds: i32) -> io::Result<()> {
    let value: *const i32 = &microseconds;
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of::<i32>() as u32);
    // SAFETY: the value lives for the call, and has the length that is said.
    let done =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BUSY_POLL, value.cast(), len) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
