//! A connection through a ring.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

use io_uring::opcode;

use super::super::stream::ReceiveBuffer;
use super::super::{EchoError, now_ns};
use super::Operations;

/// Marks the completion of a receive.
const RECEIVED: u64 = 0;
/// Marks the completion of a send.
const SENT: u64 = 1;

/// A connection, its memory, and the ring between them and the kernel. At most one receive and one
/// send are the kernel's at a time: the order of a stream is theirs.
pub struct StreamRing {
    operations: Operations,
    /// Received bytes. The kernel owns the part behind their end while it receives.
    inflow: ManuallyDrop<ReceiveBuffer>,
    is_receiving: bool,
    /// The result of a receive that is not handled yet.
    received: Option<i32>,
    /// The kernel's while it sends.
    sending: ManuallyDrop<Vec<u8>>,
    /// Bytes of `sending` that are sent.
    sent: usize,
    is_sending: bool,
    /// The error of a failed send.
    failed: Option<i32>,
    /// Bytes to send behind `sending`.
    pending: Vec<u8>,
    /// Nothing is received while so many bytes are pending.
    pending_max: usize,
}

impl StreamRing {
    /// A ring for a connection, of which it has a descriptor of its own, and which must not be
    /// marked as never blocking. A server that cannot get rid of its answers takes no requests: it
    /// gives what may be pending. A client takes all that comes, or both would wait for ever.
    ///
    /// # Errors
    /// [`EchoError::NoRing`].
    pub fn new(socket: impl AsFd, pending_max: usize) -> Result<StreamRing, EchoError> {
        Ok(StreamRing {
            operations: Operations::new(socket, 2)?,
            inflow: ManuallyDrop::new(ReceiveBuffer::new()),
            is_receiving: false,
            received: None,
            sending: ManuallyDrop::default(),
            sent: 0,
            is_sending: false,
            failed: None,
            pending: Vec::new(),
            pending_max,
        })
    }

    /// Adds the bytes that were received before the ring existed. Call it first.
    pub fn with(mut self, inflow: ReceiveBuffer) -> StreamRing {
        *self.inflow = inflow;
        self
    }

    /// Takes everything back from the kernel: what has come and was not used, and what did not go.
    /// `None` where the kernel keeps some of it.
    pub fn end(mut self) -> Option<(ReceiveBuffer, Vec<u8>)> {
        if let Some(count @ 1..) = self.received.take() {
            self.inflow.filled(count as usize);
        }
        let (mut arrived, mut went) = (0, 0);
        let is_back = self.operations.take_back(|number, result| match (number, result) {
            (RECEIVED, 1..) => arrived = result as usize,
            (SENT, 1..) => went = result as usize,
            _ => {}
        });
        if !is_back {
            return None;
        }
        let mut inflow = std::mem::take(&mut *self.inflow);
        inflow.filled(arrived);
        let mut rest = self.sending.split_off(self.sent + went);
        rest.append(&mut self.pending);
        Some((inflow, rest))
    }

    /// The whole messages that have come since the last call, and behind what to write what is to
    /// be sent. They are ours until the next [`StreamRing::receive`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] where something else than messages stands there.
    pub fn messages(&mut self) -> io::Result<(&mut [u8], &mut Vec<u8>)> {
        // The kernel has the part behind the end alone, which no message reaches.
        Ok((self.inflow.messages()?, &mut self.pending))
    }

    /// Behind what to write what is to be sent. It goes with the next [`StreamRing::receive`].
    pub fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// The kernel has not taken all that was to be sent.
    pub fn is_behind(&self) -> bool {
        self.sent < self.sending.len() || !self.pending.is_empty()
    }

    /// Sends what is pending, and receives, by one call that waits for something to come until
    /// `until_ns` at most; `true` where something has.
    ///
    /// # Errors
    /// What the kernel says; [`io::ErrorKind::UnexpectedEof`] where the other side has closed the
    /// connection.
    pub fn receive(&mut self, until_ns: u64) -> io::Result<bool> {
        loop {
            self.arm()?;
            self.operations.wait(until_ns)?;
            self.reap();
            if let Some(error) = self.failed.take() {
                return Err(io::Error::from_raw_os_error(error));
            }
            match self.received.take() {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(count) if count > 0 => {
                    self.inflow.filled(count as usize);
                    return Ok(true);
                }
                Some(result) if !is_again(result) => {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                _ if now_ns() >= until_ns => return Ok(false),
                // What has completed is a send: the receive is still to come.
                _ => {}
            }
        }
    }

    /// Gives the kernel what there is to do.
    fn arm(&mut self) -> io::Result<()> {
        if !self.is_sending && self.sent == self.sending.len() && !self.pending.is_empty() {
            self.sending.clear();
            self.sent = 0;
            std::mem::swap(&mut *self.sending, &mut self.pending);
        }
        if !self.is_sending && self.sent < self.sending.len() {
            let rest = &self.sending[self.sent..];
            let entry = opcode::Send::new(self.operations.fd(), rest.as_ptr(), rest.len() as u32)
                .flags(libc::MSG_NOSIGNAL)
                .build();
            // SAFETY: `sending` is not touched until `reap` has seen this operation's completion;
            // `drop` takes it back or leaves the memory where it is.
            unsafe { self.operations.push(&entry.user_data(SENT))? };
            self.is_sending = true;
        }
        if !self.is_receiving && self.pending.len() < self.pending_max {
            let room = self.inflow.room();
            let (start, len) = (room.as_mut_ptr(), room.len() as u32);
            let entry = opcode::Recv::new(self.operations.fd(), start, len).build();
            // SAFETY: the part of `inflow` behind its end is neither moved nor touched until
            // `filled`, which follows this operation's completion; `drop` as above.
            unsafe { self.operations.push(&entry.user_data(RECEIVED))? };
            self.is_receiving = true;
        }
        Ok(())
    }

    /// Sorts what has completed.
    fn reap(&mut self) {
        let StreamRing { operations, is_receiving, received, is_sending, sent, failed, .. } = self;
        operations.reap(|number, result| {
            if number == RECEIVED {
                *is_receiving = false;
                *received = Some(result);
                return;
            }
            *is_sending = false;
            match result {
                0.. => *sent += result as usize,
                // The rest of it is handed over again.
                again if is_again(again) => {}
                error => *failed = Some(-error),
            }
        });
    }
}

/// The kernel could not do it just now.
fn is_again(result: i32) -> bool {
    [libc::EAGAIN, libc::EINTR, libc::ECANCELED].contains(&-result)
}

impl Drop for StreamRing {
    fn drop(&mut self) {
        if self.operations.take_back(|_, _| ()) {
            // SAFETY: no operation refers to the memory any more, and nobody uses it behind this.
            unsafe {
                ManuallyDrop::drop(&mut self.inflow);
                ManuallyDrop::drop(&mut self.sending);
            }
        }
    }
}
