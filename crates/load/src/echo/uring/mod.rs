//! Messages through a ring of the kernel (io_uring). Messages to send and buffers to receive into
//! are written into a queue. One call submits all of them and waits for completions.
//!
//! An operation that the kernel has may read or write its memory at any time until it has
//! completed. So each ring here owns the memory, never touches what is the kernel's, and takes
//! every operation back before the memory goes; where that fails the memory stays for ever.
#![allow(unsafe_code)]

mod datagrams;
mod stream;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, squeue};

use super::{EchoError, now_ns};

pub use datagrams::DatagramRing;
pub use stream::StreamRing;

/// How long the kernel may take to give operations back.
const TAKE_BACK: Timespec = Timespec::new().sec(5);

/// Finds out whether this process may have rings.
///
/// # Errors
/// [`EchoError::NoRing`].
pub fn probe() -> Result<(), EchoError> {
    IoUring::new(1).map(drop).map_err(|source| EchoError::NoRing { source })
}

/// The operations on one socket that the kernel has been handed.
struct Operations {
    ring: IoUring,
    socket: OwnedFd,
    /// Operations that the kernel has, or will have with the next call.
    outstanding: usize,
}

impl Operations {
    /// A ring with room for so many operations at once, on a descriptor of its own of `socket`.
    ///
    /// # Errors
    /// [`EchoError::NoRing`].
    fn new(socket: impl AsFd, entries: usize) -> Result<Operations, EchoError> {
        let refused = |source| EchoError::NoRing { source };
        let ring = IoUring::new(entries.next_power_of_two() as u32).map_err(refused)?;
        let socket = socket.as_fd().try_clone_to_owned().map_err(refused)?;
        Ok(Operations { ring, socket, outstanding: 0 })
    }

    fn fd(&self) -> Fd {
        Fd(self.socket.as_raw_fd())
    }

    /// Hands an operation over with the next call.
    ///
    /// # Safety
    /// What the operation refers to must stay where it is, and must not be touched, until it has
    /// completed or [`Operations::take_back`] has said `true`.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the caller's promise.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.outstanding += 1;
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Calls `each` with the number and the result of every operation that has completed.
    fn reap(&mut self, mut each: impl FnMut(u64, i32)) {
        for done in self.ring.completion() {
            self.outstanding -= 1;
            each(done.user_data(), done.result());
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

    /// Hands over what is to be handed over, and waits for something to complete.
    fn submit_and_wait(&mut self) -> io::Result<()> {
        self.ring.submit_and_wait(1).map(drop)
    }

    /// Cancels what the kernel still has, and calls `each` as [`Operations::reap`] does; `true`
    /// where it has nothing any more.
    #[must_use]
    fn take_back(&mut self, mut each: impl FnMut(u64, i32)) -> bool {
        self.reap(&mut each);
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
                self.reap(&mut each);
            }
        }
        self.outstanding == 0
    }
}
