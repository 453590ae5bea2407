//! Time stamps of frames (the kernel's `Documentation/networking/timestamping.rst`).
//!
//! A received frame has its time stamp in its slot of the ring. A frame that is to be stamped when
//! it is sent goes by a socket of its own: a driver may keep it for milliseconds until the card has
//! told its time, and a slot of a transmit ring would be busy for as long. The kernel reports the
//! time, with the number of the frame, in the error queue of that socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use niclab_packet::timestamp::TimestampClock;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::Timestamping;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, recvmsg, setsockopt,
};
use rustix::net::{SendFlags, send};

use super::ring;
use crate::link::Link;

/// The flag that reports time stamps of a clock.
fn reported(clock: TimestampClock) -> TimestampingFlag {
    match clock {
        TimestampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE,
        TimestampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE,
    }
}

/// The same as a number.
pub(super) fn flags(clock: TimestampClock) -> i32 {
    reported(clock).bits() as i32
}

/// The bit of a ring's slot that says that its time stamp is of this clock.
pub(super) fn status(clock: TimestampClock) -> u32 {
    match clock {
        TimestampClock::Card => libc::TP_STATUS_TS_RAW_HARDWARE,
        TimestampClock::Kernel => libc::TP_STATUS_TS_SOFTWARE,
    }
}

fn sent(clock: TimestampClock) -> TimestampingFlag {
    match clock {
        TimestampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE,
        TimestampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE,
    }
}

fn received(clock: TimestampClock) -> TimestampingFlag {
    match clock {
        TimestampClock::Card => TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE,
        TimestampClock::Kernel => TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE,
    }
}

/// When a frame was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTime {
    /// The number of the frame among those of its socket.
    pub number: u32,
    /// When, nanoseconds.
    pub ns: u64,
}

/// Has received frames stamped.
pub(super) fn report_received(socket: BorrowedFd<'_>, clock: TimestampClock) -> io::Result<()> {
    Ok(setsockopt(&socket, Timestamping, &(reported(clock) | received(clock)))?)
}

/// A socket whose frames are all stamped when they leave.
pub struct StampingSocket {
    socket: OwnedFd,
    clock: TimestampClock,
    control: Vec<u8>,
    /// The number of the next frame.
    next: u32,
}

impl StampingSocket {
    /// Opens one on an interface: `bypasses` the queueing disciplines, or the kernel chooses the
    /// queue of each flow.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(link: &Link, clock: TimestampClock, bypasses: bool) -> io::Result<StampingSocket> {
        let socket = ring::sending_socket(link, bypasses)?;
        let number = TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        setsockopt(&socket, Timestamping, &(reported(clock) | sent(clock) | number))?;
        let control = cmsg_space!(Timestamps, libc::sock_extended_err, libc::sockaddr_ll);
        Ok(StampingSocket { socket, clock, control, next: 0 })
    }

    /// Sends a frame; its number. `None` where the interface has no room for it now, or never takes
    /// such a frame.
    pub fn send(&mut self, frame: &[u8]) -> Option<u32> {
        let sent = send(self.socket.as_fd(), frame, SendFlags::DONTWAIT);
        let number = self.next;
        // The kernel numbers a frame before it hands it to the driver, which refuses it by this.
        if matches!(sent, Ok(_) | Err(rustix::io::Errno::NOBUFS)) {
            self.next = number.wrapping_add(1);
        }
        sent.is_ok().then_some(number)
    }

    /// The next time of a sent frame; `None` if there is none yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&mut self) -> io::Result<Option<SentTime>> {
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        loop {
            let socket = self.socket.as_raw_fd();
            let got = match recvmsg::<()>(socket, &mut [], Some(&mut self.control), flags) {
                Err(Errno::EAGAIN) => return Ok(None),
                got => got?,
            };
            let (mut number, mut ns) = (None, None);
            for message in got.cmsgs()? {
                match message {
                    ControlMessageOwned::ScmTimestampsns(times) => ns = ns_of(times, self.clock),
                    ControlMessageOwned::Unknown(other)
                        if other.cmsg_header.cmsg_level == libc::SOL_PACKET =>
                    {
                        number = number_of(&other.data_bytes);
                    }
                    _ => {}
                }
            }
            // What has none of both is an error of another kind, which sending shows by itself.
            if let (Some(number), Some(ns)) = (number, ns) {
                return Ok(Some(SentTime { number, ns }));
            }
        }
    }
}

/// The number of a frame in a report (`struct sock_extended_err` in linux/errqueue.h).
fn number_of(report: &[u8]) -> Option<u32> {
    let origin = *report.get(4)?;
    let data = report.get(12..16)?.first_chunk()?;
    (origin == libc::SO_EE_ORIGIN_TIMESTAMPING).then(|| u32::from_ne_bytes(*data))
}

fn ns_of(times: Timestamps, clock: TimestampClock) -> Option<u64> {
    let of = match clock {
        TimestampClock::Card => times.hw_raw,
        TimestampClock::Kernel => times.system,
    };
    let ns = of.tv_sec() * 1_000_000_000 + of.tv_nsec();
    u64::try_from(ns).ok().filter(|ns| *ns > 0)
}
