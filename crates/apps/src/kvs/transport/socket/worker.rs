//! A thread of the server: it waits on its connections and serves whichever has something.

use std::mem;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{Errno, read, write};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::connection::{Connection, Scratch, Wait};
use super::{READ_LEN, TURN, datagrams, timespec};
use crate::kvs::codec::context::Context;
use crate::kvs::protocol::limits::ANSWERS_LEN_MAX;
use crate::kvs::transport::shared::error::ServerError;
use crate::kvs::transport::shared::tally::add;
use crate::kvs::transport::shared::{ServerShared, moment};

/// Events that are taken from the kernel by one call.
const EVENTS_MAX: usize = 256;

/// The event data of the inbox, which is no connection's number.
const INBOX: u64 = u64::MAX;
const UDP: u64 = u64::MAX - 1;

/// Time in which a client that is being closed may read its answers, seconds.
const FAREWELL_S: u64 = 10;

/// Connections that a worker is to take over.
#[derive(Debug)]
pub struct Inbox {
    streams: Mutex<Vec<TcpStream>>,
    doorbell: OwnedFd,
}

impl Inbox {
    /// An empty one.
    pub fn new() -> Result<Inbox, ServerError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbell = eventfd(0, flags).map_err(ServerError::of("eventfd"))?;
        Ok(Inbox { streams: Mutex::default(), doorbell })
    }

    /// Hands a connection over; `false` where the worker cannot be told.
    pub fn put(&self, stream: TcpStream) -> bool {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        // A counter that is full has rung already.
        matches!(write(&self.doorbell, &1u64.to_ne_bytes()), Ok(_) | Err(Errno::AGAIN))
    }

    fn take(&self) -> Vec<TcpStream> {
        let _ = read(&self.doorbell, &mut [0u8; 8]);
        mem::take(&mut self.streams.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One of the threads.
pub struct Worker<'a> {
    shared: &'a ServerShared,
    inbox: &'a Inbox,
    udp: Option<UdpSocket>,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    /// Numbers without a connection.
    free: Vec<usize>,
    /// Numbers of those that have more to do and gave way to others.
    waiting: Vec<usize>,
    scratch: Scratch,
    swept_s: u64,
}

impl<'a> Worker<'a> {
    /// A worker that waits on its inbox and its UDP socket.
    pub fn new(
        shared: &'a ServerShared,
        inbox: &'a Inbox,
        udp: Option<UdpSocket>,
    ) -> Result<Worker<'a>, ServerError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(ServerError::of("epoll"))?;
        let data = epoll::EventData::new_u64(INBOX);
        epoll::add(&epoll, &inbox.doorbell, data, epoll::EventFlags::IN)
            .map_err(ServerError::of("epoll"))?;
        if let Some(udp) = &udp {
            let data = epoll::EventData::new_u64(UDP);
            epoll::add(&epoll, udp, data, epoll::EventFlags::IN)
                .map_err(ServerError::of("epoll"))?;
        }
        let read = vec![0; READ_LEN].into_boxed_slice();
        let scratch = Scratch { read, out: Vec::with_capacity(ANSWERS_LEN_MAX) };
        let (connections, free, waiting) = Default::default();
        Ok(Worker { shared, inbox, udp, epoll, connections, free, waiting, scratch, swept_s: 0 })
    }

    /// Serves on a core until `stop` is set.
    pub fn run(&mut self, core: u32, stop: &AtomicBool) -> Result<(), ServerError> {
        let mut only = CpuSet::new();
        only.set(core as usize);
        sched_setaffinity(None, &only)
            .map_err(|errno| ServerError::Core { core, source: errno.into() })?;
        let empty =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [empty; EVENTS_MAX];
        while !stop.load(Ordering::Relaxed) {
            let time = if self.waiting.is_empty() { TURN } else { Duration::ZERO };
            let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timespec(time))) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(errno) => return Err(ServerError::of("epoll")(errno)),
            };
            let shared = self.shared;
            let context = Context { store: &shared.store, now: moment(), host: shared };
            for number in mem::take(&mut self.waiting) {
                self.turn(number, &context);
            }
            for event in &events[..count] {
                match event.data.u64() {
                    INBOX => self.welcome(),
                    UDP => {
                        if let Some(udp) = &self.udp {
                            datagrams::turn(udp, &mut self.scratch, &context, shared);
                        }
                    }
                    number => self.turn(number as usize, &context),
                }
            }
            self.sweep();
        }
        for connection in self.connections.drain(..).flatten() {
            connection.leave(self.shared);
        }
        Ok(())
    }

    fn now_s(&self) -> u64 {
        self.shared.start.elapsed().as_secs()
    }

    /// Takes new connections over.
    fn welcome(&mut self) {
        for stream in self.inbox.take() {
            let number = self.free.pop().unwrap_or(self.connections.len());
            let data = epoll::EventData::new_u64(number as u64);
            let connection = Connection::new(stream, self.now_s());
            if number == self.connections.len() {
                self.connections.push(None);
            }
            match epoll::add(&self.epoll, connection.stream(), data, epoll::EventFlags::IN) {
                Ok(()) => self.connections[number] = Some(connection),
                Err(_) => {
                    connection.leave(self.shared);
                    self.free.push(number);
                }
            }
        }
    }

    /// A connection has its turn.
    fn turn(&mut self, number: usize, context: &Context<'_>) {
        let now_s = self.now_s();
        let Some(Some(connection)) = self.connections.get_mut(number) else { return };
        let before = connection.wait;
        connection.active_s = now_s;
        let wait = connection.turn(&mut self.scratch, context, self.shared).unwrap_or(Wait::End);
        connection.wait = wait;
        if !connection.is_within(self.shared) {
            add(&self.shared.tally.overrun_kicks, 1);
            return self.close(number);
        }
        let is_for_room = |wait| wait == Wait::Room;
        if is_for_room(before) != is_for_room(wait) && wait != Wait::End {
            let flags =
                if is_for_room(wait) { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let data = epoll::EventData::new_u64(number as u64);
            if epoll::modify(&self.epoll, connection.stream().as_fd(), data, flags).is_err() {
                return self.close(number);
            }
        }
        match wait {
            Wait::End => self.close(number),
            Wait::Turn => {
                add(&self.shared.tally.conn_yields, 1);
                self.waiting.push(number);
            }
            Wait::Input | Wait::Room => {}
        }
    }

    fn close(&mut self, number: usize) {
        if let Some(connection) = self.connections[number].take() {
            connection.leave(self.shared);
            self.free.push(number);
        }
    }

    /// Once a second: ends those that said nothing for too long.
    fn sweep(&mut self) {
        let now_s = self.now_s();
        if now_s == self.swept_s {
            return;
        }
        self.swept_s = now_s;
        let limit_s = self.shared.options.idle_timeout.map_or(u64::MAX, |time| time.as_secs());
        for number in 0..self.connections.len() {
            let Some(connection) = &self.connections[number] else { continue };
            let idle_s = now_s.saturating_sub(connection.active_s);
            if idle_s >= limit_s || connection.is_ending() && idle_s >= FAREWELL_S {
                add(&self.shared.tally.idle_kicks, 1);
                self.close(number);
            }
        }
    }
}
