//! Which of several sockets can go on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// How many are told of at once.
const EVENTS: usize = 64;

/// Longest sleep, nanoseconds: who waits looks then whether it is to end.
const TURN_NS: u64 = 50_000_000;

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Something to receive, or the other side's end.
    Data,
    /// Room to send.
    Room,
}

/// Sockets that are waited for, by their places.
pub struct Ready {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    count: usize,
}

impl Ready {
    /// Waits for these, once it is asked to.
    pub fn new<S: AsFd>(sockets: &[S], what: For) -> io::Result<Ready> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = match what {
            For::Data => epoll::EventFlags::IN,
            For::Room => epoll::EventFlags::OUT,
        };
        for (at, socket) in sockets.iter().enumerate() {
            epoll::add(&epoll, socket, epoll::EventData::new_u64(at as u64), flags)?;
        }
        let none = epoll::EventData::new_u64(0);
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: none };
        Ok(Ready { epoll, events: vec![none; EVENTS], count: 0 })
    }

    /// Sleeps until one can go on, until `until_ns` has come, or a while has passed.
    pub fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<()> {
        let left_ns = until_ns.saturating_sub(now_ns).min(TURN_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left_ns as _ };
        self.count = match epoll::wait(&self.epoll, &mut self.events[..], Some(&timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(())
    }

    /// The places of those that can.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.events[..self.count].iter().map(|event| event.data.u64() as usize)
    }
}
