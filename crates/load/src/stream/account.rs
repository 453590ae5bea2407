//! Kernel counters: the time of a thread, and TCP retransmissions.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

use serde::{Deserialize, Serialize};

/// Time of threads on a core, nanoseconds, in steps of a microsecond.
///
/// The sum of both is exact but for interrupts, which count as what they interrupt; how it is
/// divided the kernel estimates from where its ticks found the thread (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// In the program.
    pub user_ns: u64,
    /// In the kernel, for the program.
    pub system_ns: u64,
}

impl ThreadTime {
    /// The time of the calling thread since it began; zero if the kernel does not report it.
    pub fn now() -> ThreadTime {
        // SAFETY: a value of zeros is one without any time.
        let mut usage: libc::rusage = unsafe { zeroed() };
        // SAFETY: the kernel writes a value of this type, which lives for the call.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) } != 0 {
            return ThreadTime::default();
        }
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        ThreadTime { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
    }

    /// The time since `before`. The kernel may have corrected the division meanwhile; neither part
    /// falls below zero.
    pub fn since(self, before: ThreadTime) -> ThreadTime {
        ThreadTime {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
        }
    }

    /// The sum of two threads.
    pub fn plus(self, other: ThreadTime) -> ThreadTime {
        ThreadTime {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
        }
    }

    /// Both.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// Segments that a TCP connection has sent again since it began (tcp(7), `TCP_INFO`).
pub fn retransmits(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: a value of zeros is one of a connection that has done nothing.
    let mut info: libc::tcp_info = unsafe { zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (fd, at): (_, *mut libc::tcp_info) = (socket.as_fd().as_raw_fd(), &mut info);
    // SAFETY: the kernel writes at most `len` bytes, the length of the value, which lives for the
    // call; all fields are numbers, for which any bits are good.
    let done =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at.cast(), &mut len) };
    if done == 0 { Ok(info.tcpi_total_retrans.into()) } else { Err(io::Error::last_os_error()) }
}
