//! Batches of datagrams through a ring of the kernel (io_uring): what is to be sent and where to
//! put what comes is written into a queue, and one call hands all of it over and waits for what
//! has come.
//!
//! A receive that the kernel has may write its message at any time until it has completed. So the
//! ring owns the memory, never touches a slot that is the kernel's, and takes every operation back
//! before the memory goes; where that fails the memory stays for ever.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::{EchoError, now_ns};
use crate::mmsg::{Incoming, Outgoing};

/// Marks the completion of something that was sent; the rest of the number is its place.
const SENT: u64 = 1 << 32;

/// How long the kernel may take to give operations back.
const TAKE_BACK: Timespec = Timespec::new().sec(5);

/// Whose a slot for what comes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Ours.
    Idle,
    /// The kernel's.
    Armed,
    /// Ours again, with a completion that nobody has looked at.
    Ready,
}

/// A socket of datagrams, its memory, and the ring between them and the kernel.
pub struct Ring {
    ring: IoUring,
    socket: OwnedFd,
    incoming: ManuallyDrop<Incoming>,
    outgoing: ManuallyDrop<Outgoing>,
    slots: Vec<Slot>,
    /// Slots with a completion, and what it says, in the order in which they were filled.
    ready: VecDeque<(usize, i32)>,
    /// What became of things sent: place and result.
    sent: Vec<(usize, i32)>,
    /// Operations that the kernel has.
    outstanding: usize,
    /// Slots of the last call that received.
    came: Vec<usize>,
}

impl Ring {
    /// A ring for a socket, of which it has a descriptor of its own; nothing is sent by a server
    /// but what came.
    ///
    /// # Errors
    /// [`EchoError::NoRing`].
    pub fn new(
        socket: impl AsFd,
        incoming: Incoming,
        outgoing: Outgoing,
    ) -> Result<Ring, EchoError> {
        let refused = |source| EchoError::NoRing { source };
        let slots = vec![Slot::Idle; incoming.room()];
        // Room for a batch each way; the completions of all of it have twice as much.
        let entries = (2 * incoming.room()).next_power_of_two() as u32;
        let ring = IoUring::new(entries).map_err(refused)?;
        let socket = socket.as_fd().try_clone_to_owned().map_err(refused)?;
        Ok(Ring {
            ring,
            socket,
            ready: VecDeque::with_capacity(slots.len()),
            came: Vec::with_capacity(slots.len()),
            sent: Vec::with_capacity(slots.len()),
            slots,
            incoming: ManuallyDrop::new(incoming),
            outgoing: ManuallyDrop::new(outgoing),
            outstanding: 0,
        })
    }

    /// The messages to be sent: none is the kernel's between two calls.
    pub fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// Places of the messages that came with the last [`Ring::receive`], in the order in which they
    /// came; they are ours until the next one.
    pub fn came(&self) -> &[usize] {
        &self.came
    }

    /// The bytes of a message that came.
    pub fn message(&mut self, at: usize) -> &mut [u8] {
        self.incoming.message(at)
    }

    fn fd(&self) -> Fd {
        Fd(self.socket.as_raw_fd())
    }

    /// Hands an operation over with the next call.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: what the operation refers to (headers, vectors, bytes and addresses of
            // `incoming` and `outgoing`) lives as long as this value, does not move, and is not
            // touched until it has completed; `drop` waits for that or leaves it where it is.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.outstanding += 1;
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Sorts what has completed.
    fn reap(&mut self) {
        for done in self.ring.completion() {
            self.outstanding -= 1;
            let (number, result) = (done.user_data(), done.result());
            if number & SENT != 0 {
                self.sent.push(((number & !SENT) as usize, result));
            } else if let Some(slot) = self.slots.get_mut(number as usize) {
                *slot = Slot::Ready;
                self.ready.push_back((number as usize, result));
            }
        }
    }

    /// Hands over what is to be handed over, and waits for something to complete until `until_ns`
    /// at most.
    fn wait(&mut self, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(now_ns());
        let left =
            Timespec::new().sec(left_ns / 1_000_000_000).nsec((left_ns % 1_000_000_000) as u32);
        let args = SubmitArgs::new().timespec(&left);
        match self.ring.submitter().submit_with_args(1, &args) {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EBUSY)) => {
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Receives what is there, having waited for the first message until `until_ns` at most; how
    /// many there are.
    pub fn receive(&mut self, until_ns: u64) -> io::Result<usize> {
        for at in 0..self.slots.len() {
            if self.slots[at] == Slot::Idle {
                let entry = opcode::RecvMsg::new(self.fd(), self.incoming.arm(at)).build();
                self.push(&entry.user_data(at as u64))?;
                self.slots[at] = Slot::Armed;
            }
        }
        self.came.clear();
        self.reap();
        if self.ready.is_empty() {
            self.wait(until_ns)?;
            self.reap();
        }
        while let Some((at, result)) = self.ready.pop_front() {
            self.slots[at] = Slot::Idle;
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
        self.incoming.turn(kept);
        let went = self.send_all(kept.len(), |ring, place| ring.incoming.turned(place));
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
        header: impl Fn(&mut Ring, usize) -> *const libc::msghdr,
    ) -> io::Result<u64> {
        let push = |ring: &mut Ring, at: usize| {
            let entry = opcode::SendMsg::new(ring.fd(), header(ring, at)).build();
            ring.push(&entry.user_data(SENT | at as u64))
        };
        (0..count).try_for_each(|at| push(self, at))?;
        let (mut under_way, mut went, mut failed) = (count, 0, Ok(()));
        while under_way > 0 {
            self.ring.submit_and_wait(1)?;
            self.reap();
            while let Some((at, result)) = self.sent.pop() {
                match -result {
                    libc::EAGAIN | libc::ENOBUFS | libc::EINTR => push(self, at)?,
                    error if error > 0 => {
                        failed = Err(io::Error::from_raw_os_error(error));
                        under_way -= 1;
                    }
                    _ => {
                        went += 1;
                        under_way -= 1;
                    }
                }
            }
        }
        failed.map(|()| went)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.reap();
        if self.outstanding > 0 {
            // What was pushed and never handed over is handed over now, to be cancelled with the
            // rest.
            let handed = self.ring.submit();
            let any = CancelBuilder::any();
            let cancelled = self.ring.submitter().register_sync_cancel(Some(TAKE_BACK), any);
            let end_ns = now_ns() + 5_000_000_000;
            while handed.is_ok() && cancelled.is_ok() && self.outstanding > 0 && now_ns() < end_ns {
                if self.wait(now_ns() + 10_000_000).is_err() {
                    break;
                }
                self.reap();
            }
        }
        if self.outstanding == 0 {
            // SAFETY: no operation refers to the memory any more, and nobody uses it behind this.
            unsafe {
                ManuallyDrop::drop(&mut self.incoming);
                ManuallyDrop::drop(&mut self.outgoing);
            }
        }
    }
}
