//! Batches of datagrams through a ring.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

use io_uring::{opcode, squeue};

use super::super::EchoError;
use super::Operations;
use crate::mmsg::{Incoming, Outgoing};

/// Marks the completion of something that was sent; the rest of the number is its place.
const SENT: u64 = 1 << 32;

/// The owner of a receive slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveSlot {
    /// Ours.
    Idle,
    /// The kernel's.
    Armed,
    /// Ours again, with a completion that nobody has looked at.
    Ready,
}

/// A socket of datagrams, its memory, and the ring between them and the kernel.
pub struct DatagramRing {
    operations: Operations,
    incoming: ManuallyDrop<Incoming>,
    outgoing: ManuallyDrop<Outgoing>,
    slots: Vec<ReceiveSlot>,
    /// Slots with a completion, and what it says, in the order in which they were filled.
    ready: VecDeque<(usize, i32)>,
    /// Completed sends: place and result.
    sent: Vec<(usize, i32)>,
    /// Slots of the last call that received.
    came: Vec<usize>,
    /// Messages that the kernel was given to send and has not reported: none between two calls, but
    /// where the ring itself has failed.
    sending: usize,
}

impl DatagramRing {
    /// A ring for a socket, of which it has a descriptor of its own; nothing is sent by a server
    /// but what came.
    ///
    /// # Errors
    /// [`EchoError::NoRing`].
    pub fn new(
        socket: impl AsFd,
        incoming: Incoming,
        outgoing: Outgoing,
    ) -> Result<DatagramRing, EchoError> {
        let slots = vec![ReceiveSlot::Idle; incoming.room()];
        // Room for a batch each way; the completions of all of it have twice as much.
        Ok(DatagramRing {
            operations: Operations::new(socket, 2 * incoming.room())?,
            ready: VecDeque::with_capacity(slots.len()),
            came: Vec::with_capacity(slots.len()),
            sent: Vec::with_capacity(slots.len()),
            sending: 0,
            slots,
            incoming: ManuallyDrop::new(incoming),
            outgoing: ManuallyDrop::new(outgoing),
        })
    }

    /// The messages to be sent: none is the kernel's between two calls.
    ///
    /// # Panics
    /// If a call that sends has failed before all were sent.
    pub fn outgoing(&mut self) -> &mut Outgoing {
        assert_eq!(self.sending, 0, "the kernel still reads what was to be sent");
        &mut self.outgoing
    }

    /// Places of the messages that came with the last [`DatagramRing::receive`], in the order in
    /// which they came; they are ours until the next one.
    pub fn received(&self) -> &[usize] {
        &self.came
    }

    /// The bytes of a message that came.
    ///
    /// # Panics
    /// If the kernel has the place, or has not sent all that went before.
    pub fn message(&mut self, at: usize) -> &mut [u8] {
        assert!(
            self.slots[at] != ReceiveSlot::Armed && self.sending == 0,
            "message {at} is the kernel's"
        );
        self.incoming.message(at)
    }

    /// Hands an operation over with the next call.
    ///
    /// # Safety
    /// It refers to memory of `incoming` or `outgoing` alone (headers, vectors, bytes, addresses),
    /// which is not touched until the operation has completed.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: not touched, as the caller promises; both live as long as this value and do not
        // move; `drop` waits for the operation or leaves them where they are.
        unsafe { self.operations.push(entry) }
    }

    /// Sorts what has completed.
    fn reap(&mut self) {
        let DatagramRing { operations, slots, ready, sent, .. } = self;
        operations.reap(|number, result| {
            if number & SENT != 0 {
                sent.push(((number & !SENT) as usize, result));
            } else if let Some(slot) = slots.get_mut(number as usize) {
                *slot = ReceiveSlot::Ready;
                ready.push_back((number as usize, result));
            }
        });
    }

    /// Receives what is there, having waited for the first message until `until_ns` at most; how
    /// many there are.
    pub fn receive(&mut self, until_ns: u64) -> io::Result<usize> {
        for at in 0..self.slots.len() {
            if self.slots[at] == ReceiveSlot::Idle {
                let fd = self.operations.fd();
                let entry = opcode::RecvMsg::new(fd, self.incoming.arm(at)).build();
                // SAFETY: of `incoming`; `message` asks whether the place is armed, and `arm` is
                // called for places that are not.
                unsafe { self.push(&entry.user_data(at as u64)) }?;
                self.slots[at] = ReceiveSlot::Armed;
            }
        }
        self.came.clear();
        self.reap();
        if self.ready.is_empty() {
            self.operations.wait(until_ns)?;
            self.reap();
        }
        while let Some((at, result)) = self.ready.pop_front() {
            self.slots[at] = ReceiveSlot::Idle;
            match usize::try_from(result) {
                Ok(len) => {
                    self.incoming.set_len(at, len);
                    self.came.push(at);
                }
                Err(_) if [libc::EAGAIN, libc::EINTR, libc::ECANCELED].contains(&-result) => {}
                Err(_) => return Err(io::Error::from_raw_os_error(-result)),
            }
        }
        Ok(self.came.len())
    }

    /// Sends all of `outgoing`.
    pub fn send(&mut self) -> io::Result<()> {
        let count = self.outgoing.count();
        self.send_all(count, |ring, at| ring.outgoing.header(at)).map(drop)
    }

    /// Sends the messages whose places are in `kept` back to where they came from; how many went.
    /// Those that the kernel will not take are left out.
    pub fn send_back(&mut self, kept: &[usize]) -> io::Result<u64> {
        self.incoming.prepare_replies(kept);
        let went = self.send_all(kept.len(), |ring, place| ring.incoming.reply_header(place));
        match went {
            // Nothing leads to one of them any more: the others went all the same.
            Err(e) if e.raw_os_error().is_some() => Ok(kept.len() as u64 - 1),
            went => went,
        }
    }

    /// Sends so many messages, all by one call where the path has room, and waits until the kernel
    /// has them; how many it took.
    fn send_all(
        &mut self,
        count: usize,
        header: impl Fn(&mut DatagramRing, usize) -> *const libc::msghdr,
    ) -> io::Result<u64> {
        let push = |ring: &mut DatagramRing, at: usize| {
            let entry = opcode::SendMsg::new(ring.operations.fd(), header(ring, at)).build();
            // SAFETY: `header` has it of `incoming` or `outgoing`; `sending` keeps both from being
            // touched until all have completed.
            unsafe { ring.push(&entry.user_data(SENT | at as u64)) }?;
            ring.sending += 1;
            Ok::<_, io::Error>(())
        };
        (0..count).try_for_each(|at| push(self, at))?;
        let (mut went, mut failed) = (0, Ok(()));
        while self.sending > 0 {
            self.operations.submit_and_wait()?;
            self.reap();
            while let Some((at, result)) = self.sent.pop() {
                self.sending -= 1;
                match -result {
                    libc::EAGAIN | libc::ENOBUFS | libc::EINTR => push(self, at)?,
                    error if error > 0 => {
                        failed = Err(io::Error::from_raw_os_error(error));
                    }
                    _ => went += 1,
                }
            }
        }
        failed.map(|()| went)
    }
}

impl Drop for DatagramRing {
    fn drop(&mut self) {
        if self.operations.take_back(|_, _| ()) {
            // SAFETY: no operation refers to the memory any more, and nobody uses it behind this.
            unsafe {
                ManuallyDrop::drop(&mut self.incoming);
                ManuallyDrop::drop(&mut self.outgoing);
            }
        }
    }
}
