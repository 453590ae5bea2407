//! An event loop of the echo server: connections that ask nothing, or read no answers, wait here.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;

use super::connections::{Connection, Pool, QUIET_NS};
use super::datagrams::is_empty;
use super::{now_ns, socket};

/// Events of one call.
const EVENTS: usize = 64;

/// Connections that are accepted before the others have their turn.
const ACCEPTS: usize = 64;

/// How long nothing is accepted where the system has no room for a connection, nanoseconds.
const BACK_OFF_NS: u64 = 50_000_000;

/// How often idle connections are looked for, at most, nanoseconds.
const SWEEP_NS: u64 = 250_000_000;

/// Marks the listener's events and those of the wakeup; connections have their places.
const LISTENER: u64 = u64::MAX;
const WAKEUP: u64 = u64::MAX - 1;

const NOTHING: epoll::Event =
    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// The part of a loop that other threads see.
#[derive(Debug)]
pub(super) struct EventLoop {
    epoll: OwnedFd,
    /// Wakes the loop when another thread has given it something, or asks for room.
    wakeup: OwnedFd,
    /// Connections, each with the number of loops that have made no room for it.
    given: Mutex<Vec<(Connection, usize)>>,
    /// It is to close a connection that may go.
    is_asked_for_room: AtomicBool,
    /// Connections that it has or was given.
    load: AtomicUsize,
}

/// Serves a connection elsewhere, or gives it back.
type HandOff<'a> = dyn FnMut(Connection) -> Option<Connection> + 'a;

impl EventLoop {
    pub fn new() -> io::Result<EventLoop> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wakeup, epoll::EventData::new_u64(WAKEUP), epoll::EventFlags::IN)?;
        Ok(EventLoop {
            epoll,
            wakeup,
            given: Mutex::default(),
            is_asked_for_room: AtomicBool::new(false),
            load: AtomicUsize::new(0),
        })
    }

    /// One that cannot wait.
    #[cfg(test)]
    pub fn broken() -> EventLoop {
        let epoll = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        EventLoop { epoll, ..EventLoop::new().unwrap() }
    }

    /// How many connections it has.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Gives it a connection for which `tries` loops have made no room. Any thread may call it.
    pub fn give(&self, connection: Connection, tries: usize) {
        self.load.fetch_add(1, Ordering::Relaxed);
        self.given.lock().unwrap_or_else(PoisonError::into_inner).push((connection, tries));
        self.wake();
    }

    /// Has it close a connection that may go. May be called by any thread.
    pub fn ask_for_room(&self) {
        self.is_asked_for_room.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        // The call fails only where so many wakeups wait already that no more can be counted.
        let _ = rustix::io::write(&self.wakeup, &1_u64.to_ne_bytes());
    }

    /// Serves what it is given until the pool stops. The loop with the listener accepts for all.
    pub fn run(
        &self,
        pool: &Pool<'_>,
        tcp: Option<&TcpListener>,
        elsewhere: &mut HandOff<'_>,
    ) -> io::Result<()> {
        let mut held = LoopState::new(self, pool);
        let mut events = [NOTHING; EVENTS];
        let (turn, mut swept_ns) = (socket::TURN.as_nanos() as u64, now_ns());
        while !pool.stop.load(Ordering::Relaxed) {
            if let Some(tcp) = tcp {
                held.listen_again(tcp)?;
            }
            let timeout = Timespec { tv_sec: 0, tv_nsec: turn as _ };
            let count = match epoll::wait(&self.epoll, &mut events[..], Some(&timeout)) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                match (event.data.u64(), tcp) {
                    (LISTENER, Some(tcp)) => held.accept(tcp, elsewhere)?,
                    (WAKEUP, _) => held.take_given(),
                    (place, _) => held.serve(place as usize, elsewhere),
                }
            }
            if now_ns() >= swept_ns + SWEEP_NS {
                swept_ns = now_ns();
                held.close_idle(swept_ns);
            }
        }
        Ok(())
    }
}

/// The part of a loop that its thread alone sees.
struct LoopState<'a> {
    own: &'a EventLoop,
    pool: &'a Pool<'a>,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// When the listener is to be waited for again, where it is not.
    accept_at_ns: Option<u64>,
}

impl<'a> LoopState<'a> {
    fn new(own: &'a EventLoop, pool: &'a Pool<'a>) -> LoopState<'a> {
        LoopState { own, pool, places: Vec::new(), free: Vec::new(), accept_at_ns: Some(0) }
    }

    /// Waits for the listener again once the time has come.
    fn listen_again(&mut self, tcp: &TcpListener) -> io::Result<()> {
        if self.accept_at_ns.is_some_and(|at_ns| now_ns() >= at_ns) {
            let data = epoll::EventData::new_u64(LISTENER);
            epoll::add(&self.own.epoll, tcp, data, epoll::EventFlags::IN)?;
            self.accept_at_ns = None;
        }
        Ok(())
    }

    /// Accepts what waits, each for a thread of its own where there is one. Where the system has no
    /// room for it, the connection that has been quiet for longest makes some. Where this loop has
    /// none that may go, the others are asked, and nothing is accepted for a while.
    fn accept(&mut self, tcp: &TcpListener, elsewhere: &mut HandOff<'_>) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            match tcp.accept() {
                Ok((stream, _)) => {
                    self.pool.server.count_connection();
                    // One that broke meanwhile is gone.
                    if let Ok(connection) = Connection::new(stream)
                        && connection.stream.set_nonblocking(true).is_ok()
                    {
                        let left = match self.pool.may_have_thread() {
                            true => elsewhere(connection),
                            false => Some(connection),
                        };
                        left.into_iter().for_each(|one| self.pool.dispatch_to_loop(one));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if is_of_the_network(&e) => {}
                Err(e) if !is_lack_of_room(&e) => return Err(e),
                Err(_) if self.make_room() => {}
                Err(_) => {
                    self.pool.ask_for_room(self.own);
                    epoll::delete(&self.own.epoll, tcp)?;
                    self.accept_at_ns = Some(now_ns() + BACK_OFF_NS);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Closes one that may go, if need be one of those that were accepted just now.
    fn make_room(&mut self) -> bool {
        self.displace() || {
            self.take_given();
            self.displace()
        }
    }

    /// Takes in what other threads have given, and makes room where one has asked for it.
    fn take_given(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.own.wakeup, &mut count);
        let given =
            std::mem::take(&mut *self.own.given.lock().unwrap_or_else(PoisonError::into_inner));
        for (connection, tries) in given {
            if !self.pool.is_full() || self.displace() {
                self.put(connection);
                continue;
            }
            self.own.load.fetch_sub(1, Ordering::Relaxed);
            if self.pool.pass_on(self.own, connection, tries + 1).is_some() {
                self.pool.server.count_closed();
            }
        }
        if self.own.is_asked_for_room.swap(false, Ordering::Relaxed) {
            self.displace();
        }
    }

    /// Waits for a connection: for room while answers wait for it, and otherwise for requests.
    fn put(&mut self, connection: Connection) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let data = epoll::EventData::new_u64(place as u64);
        match epoll::add(&self.own.epoll, &connection.stream, data, flags(&connection)) {
            Ok(()) => self.places[place] = Some(connection),
            Err(_) => {
                self.free.push(place);
                self.own.load.fetch_sub(1, Ordering::Relaxed);
                self.pool.server.count_closed();
            }
        }
    }

    /// Takes a connection out, which is waited for no longer.
    fn take(&mut self, place: usize) -> Option<Connection> {
        let connection = self.places.get_mut(place)?.take()?;
        let _ = epoll::delete(&self.own.epoll, &connection.stream);
        self.free.push(place);
        self.own.load.fetch_sub(1, Ordering::Relaxed);
        Some(connection)
    }

    /// Serves a connection that can go on.
    fn serve(&mut self, place: usize, elsewhere: &mut HandOff<'_>) {
        // An event of a connection that has gone, whose place may be another's by now.
        let Some(Some(connection)) = self.places.get_mut(place) else { return };
        let was_behind = connection.has_unsent();
        let served = match was_behind {
            true => connection.catch_up(self.pool.server).map(u64::from),
            false => connection.serve_once(self.pool.server),
        };
        match served {
            Ok(moved) => {
                if moved > 0 || !was_behind {
                    connection.moved_ns = now_ns();
                }
                connection.has_asked |= moved > 0;
                if connection.has_unsent() != was_behind {
                    let data = epoll::EventData::new_u64(place as u64);
                    let flags = flags(connection);
                    if epoll::modify(&self.own.epoll, &connection.stream, data, flags).is_err() {
                        drop(self.take(place));
                    }
                } else if !was_behind
                    && moved > 0
                    && self.pool.may_have_thread()
                    && let Some(connection) = self.take(place)
                    && let Some(left) = elsewhere(connection)
                {
                    self.own.load.fetch_add(1, Ordering::Relaxed);
                    self.put(left);
                }
            }
            Err(e) if is_empty(&e) => {}
            Err(e) => drop(self.take(place).and_then(|_| self.pool.keep(Err(e)))),
        }
    }

    /// Closes the connection that has been quiet for longest, if one may go; `true` where it did.
    fn displace(&mut self) -> bool {
        let now_ns = now_ns();
        let held = self.places.iter().enumerate();
        let may_go = held.filter_map(|(place, held)| Some((held.as_ref()?, place)));
        let longest = may_go
            .filter(|(connection, _)| connection.may_go(now_ns))
            .min_by_key(|(connection, _)| connection.moved_ns);
        let Some((_, place)) = longest else { return false };
        drop(self.take(place));
        self.pool.server.count_closed();
        true
    }

    /// Closes those on which nothing has moved for too long, and keeps no memory for those that are
    /// quiet.
    fn close_idle(&mut self, now_ns: u64) {
        let idle_ns = self.pool.server.idle_ns();
        for place in 0..self.places.len() {
            let Some(held) = self.places[place].as_mut() else { continue };
            let quiet_ns = now_ns.saturating_sub(held.moved_ns);
            if quiet_ns >= QUIET_NS {
                held.shrink();
            }
            if quiet_ns >= idle_ns {
                drop(self.take(place));
                self.pool.server.count_closed();
            }
        }
    }
}

fn flags(connection: &Connection) -> epoll::EventFlags {
    match connection.has_unsent() {
        true => epoll::EventFlags::OUT,
        false => epoll::EventFlags::IN,
    }
}

/// Errors of a new connection before it was accepted. The next one can be accepted at once
/// (accept(2)).
fn is_of_the_network(error: &io::Error) -> bool {
    const OF_NETWORK: [Errno; 11] = [
        Errno::CONNABORTED,
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
        Errno::PERM,
        Errno::INTR,
    ];
    Errno::from_io_error(error).is_some_and(|number| OF_NETWORK.contains(&number))
}

/// The process or the system has no descriptor or no memory for a new connection.
fn is_lack_of_room(error: &io::Error) -> bool {
    const LACKS: [Errno; 4] = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|number| LACKS.contains(&number))
}

#[cfg(test)]
#[path = "event_loop_tests.rs"]
mod tests;
