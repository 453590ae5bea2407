//! Waits for those of several sockets that can go on.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// How many are told of at once.
const EVENTS: usize = 64;

/// Longest sleep, nanoseconds: who waits looks then whether it is to end.
const TURN_NS: u64 = 50_000_000;

/// An event of the first socket.
const NOTHING: epoll::Event =
    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive, or the other side's end.
    Data,
    /// Room to send.
    Room,
}

/// Sockets that are waited for, by their places.
pub struct ReadySockets {
    /// None where there is one socket alone, whose calls sleep themselves.
    epoll: Option<OwnedFd>,
    events: Vec<epoll::Event>,
    count: usize,
}

impl ReadySockets {
    /// Waits for these, once it is asked to.
    pub fn new<S: AsFd>(sockets: &[S], what: Interest) -> io::Result<ReadySockets> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = match what {
            Interest::Data => epoll::EventFlags::IN,
            Interest::Room => epoll::EventFlags::OUT,
        };
        for (at, socket) in sockets.iter().enumerate() {
            epoll::add(&epoll, socket, epoll::EventData::new_u64(at as u64), flags)?;
        }
        Ok(ReadySockets { epoll: Some(epoll), events: vec![NOTHING; EVENTS], count: 0 })
    }

    /// Waits for nothing: the one socket there is sleeps in its own calls.
    pub fn alone() -> ReadySockets {
        ReadySockets { epoll: None, events: vec![NOTHING], count: 1 }
    }

    /// Sleeps until one can go on, until `until_ns` has come, or a while has passed.
    pub fn wait(&mut self, now_ns: u64, until_ns: u64) -> io::Result<()> {
        let Some(epoll) = &self.epoll else { return Ok(()) };
        let left_ns = until_ns.saturating_sub(now_ns).min(TURN_NS);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left_ns as _ };
        self.count = match epoll::wait(epoll, &mut self.events[..], Some(&timeout)) {
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
