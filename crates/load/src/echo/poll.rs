//! Waiting until a socket has something, at most until a given time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;

use super::{EchoError, Receive, now_ns};

/// One way to wait for what comes on one socket.
#[derive(Debug)]
pub struct Waiter {
    way: Receive,
    epoll: Option<OwnedFd>,
}

impl Waiter {
    /// A way to wait on this socket.
    pub fn new(way: Receive, socket: impl AsFd) -> Result<Waiter, EchoError> {
        let refused = EchoError::of("epoll");
        let epoll = match way {
            Receive::Epoll => {
                let made = epoll::create(epoll::CreateFlags::CLOEXEC);
                let made = made.map_err(|e| refused(e.into()))?;
                let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
                epoll::add(&made, socket, data, flags).map_err(|e| refused(e.into()))?;
                Some(made)
            }
            Receive::Blocking | Receive::BusyPoll | Receive::IoUring => None,
        };
        Ok(Waiter { way, epoll })
    }

    /// Sleeps until something is there to be received, or `until_ns` has come; not at all where it
    /// is never slept.
    pub fn wait(&self, socket: impl AsFd, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(now_ns());
        if self.way == Receive::BusyPoll || left_ns == 0 {
            return Ok(());
        }
        let timeout = Timespec {
            tv_sec: (left_ns / 1_000_000_000) as i64,
            tv_nsec: (left_ns % 1_000_000_000) as i64,
        };
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: EMPTY }];
        let waited = match &self.epoll {
            Some(epoll) => epoll::wait(epoll, &mut events[..], Some(&timeout)),
            None => poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)),
        };
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

const EMPTY: epoll::EventData = epoll::EventData::new_u64(0);

/// Sleeps until the socket has room or something to be received, or `until_ns` has come.
pub fn wait_for_either(socket: impl AsFd, until_ns: u64) -> io::Result<()> {
    sleep_until(socket, PollFlags::IN | PollFlags::OUT, until_ns)
}

/// Sleeps until the socket has room, or `until_ns` has come.
pub fn wait_for_room(socket: impl AsFd, until_ns: u64) -> io::Result<()> {
    sleep_until(socket, PollFlags::OUT, until_ns)
}

fn sleep_until(socket: impl AsFd, flags: PollFlags, until_ns: u64) -> io::Result<()> {
    let left_ns = until_ns.saturating_sub(now_ns());
    let timeout = Timespec {
        tv_sec: (left_ns / 1_000_000_000) as i64,
        tv_nsec: (left_ns % 1_000_000_000) as i64,
    };
    match poll(&mut [PollFd::new(&socket, flags)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
