//! Time stamps of frames (the kernel's `Documentation/networking/timestamping.rst`).
//!
//! A received frame has its stamp in its slot of the ring. Of a frame that was sent, the kernel
//! puts a copy with the stamp into the error queue of the socket. A ring that stamps each frame it
//! sends would have as many copies to take; so stamps are asked for frame by frame.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt,
};
use nix::sys::time::TimeSpec;

use super::TxRing;

/// What stamps frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampClock {
    /// The card, by its own clock.
    Card,
    /// The kernel, by `CLOCK_REALTIME`: a sent frame in the driver, a received one when the driver
    /// hands it to the stack.
    Kernel,
}

impl StampClock {
    /// The flag that reports such stamps.
    fn reported(self) -> TimestampingFlag {
        match self {
            StampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE,
            StampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE,
        }
    }

    /// The same as a number.
    pub(super) fn flags(self) -> i32 {
        self.reported().bits() as i32
    }

    fn sent(self) -> TimestampingFlag {
        match self {
            StampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE,
            StampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE,
        }
    }

    fn received(self) -> TimestampingFlag {
        match self {
            StampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE,
            StampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE,
        }
    }
}

/// A frame that was sent, and its time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// Bytes of the frame that were copied.
    pub len: usize,
    /// When it was sent, nanoseconds.
    pub ns: u64,
}

/// Has received frames stamped.
pub(super) fn report_received(socket: BorrowedFd<'_>, clock: StampClock) -> io::Result<()> {
    Ok(setsockopt(&socket, Timestamping, &(clock.reported() | clock.received()))?)
}

impl TxRing {
    /// Sends the first reserved slot with this length in bytes, and has it stamped; whether it
    /// left. As with [`TxRing::commit`] nothing is reserved behind it.
    ///
    /// # Errors
    /// Of the socket.
    pub fn commit_stamped(&mut self, len: u16, clock: StampClock) -> io::Result<bool> {
        let reports = clock.reported();
        setsockopt(&self.socket(), Timestamping, &(reports | clock.sent()))?;
        let left = self.commit(&[len]);
        setsockopt(&self.socket(), Timestamping, &reports)?;
        Ok(left == 1)
    }

    /// The next stamp of a sent frame, whose first bytes are copied into `frame`; `None` if there
    /// is none yet.
    ///
    /// # Errors
    /// Of the socket.
    pub fn take_stamp(
        &mut self,
        frame: &mut [u8],
        clock: StampClock,
    ) -> io::Result<Option<SentStamp>> {
        let mut control = cmsg_space!(Timestamps, libc::sock_extended_err, libc::sockaddr_ll);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        loop {
            let mut vectors = [IoSliceMut::new(frame)];
            let socket = self.socket().as_raw_fd();
            let got = match recvmsg::<()>(socket, &mut vectors, Some(&mut control), flags) {
                Err(Errno::EAGAIN) => return Ok(None),
                got => got?,
            };
            let stamped = got.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampsns(stamps) => ns_of(stamps, clock),
                _ => None,
            });
            if let Some(ns) = stamped {
                return Ok(Some(SentStamp { len: got.bytes, ns }));
            }
            // An error of another kind, which the ring shows by itself.
        }
    }
}

fn ns_of(stamps: Timestamps, clock: StampClock) -> Option<u64> {
    let of: TimeSpec = match clock {
        StampClock::Card => stamps.hw_raw,
        StampClock::Kernel => stamps.system,
    };
    let ns = of.tv_sec() * 1_000_000_000 + of.tv_nsec();
    u64::try_from(ns).ok().filter(|ns| *ns > 0)
}
