//! Connections of the echo server: those that ask have a thread each, the others share event loops.
//!
//! A thread that sleeps in the call that receives answers sooner than one that asks epoll first.
//! So a new connection, and one on which requests come, has a thread of its own, as long as there
//! are some, and waits there as [`Receive`] says. A connection that asks nothing, and one whose
//! client reads no answers, waits in an event loop, where it has neither a thread nor time.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use super::datagrams::is_empty;
use super::event_loop::EventLoop;
use super::poll::{Waiter, wait_for_room};
use super::server::Server;
use super::stream::{READ_LEN, ReceiveBuffer};
use super::uring::StreamRing;
use super::{EchoError, Receive, now_ns, socket};

/// Connections that have a thread of their own at once.
const THREADS_MAX: usize = 16;

/// Connections that all loops hold at once. A new one takes the place of the longest quiet one of
/// the first loop that has one.
const CONNECTIONS_MAX: usize = 1_024;

/// Event loops at most, however many cores there are.
const LOOPS_MAX: usize = 16;

/// A connection on which nothing has moved for so long is quiet: it has no thread of its own.
pub(super) const QUIET_NS: u64 = 1_000_000_000;

/// How long no further thread is tried for where the system allowed none.
const NO_THREAD_NS: u64 = 1_000_000_000;

/// Reads that find nothing between two looks at the clock, of a thread that never sleeps.
const READS: u32 = 1_024;

/// One connection, wherever it is served.
#[derive(Debug)]
pub(super) struct Connection {
    pub stream: TcpStream,
    inflow: ReceiveBuffer,
    /// Answers that the kernel has no room for yet.
    unsent: Vec<u8>,
    /// Answers that count as soon as the kernel has all of them.
    unanswered: u64,
    /// When bytes last came or went.
    pub moved_ns: u64,
    /// A request has come.
    pub has_asked: bool,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(socket::TURN))?;
        stream.set_write_timeout(Some(socket::TURN))?;
        Ok(Connection {
            stream,
            inflow: ReceiveBuffer::default(),
            unsent: Vec::new(),
            unanswered: 0,
            moved_ns: now_ns(),
            has_asked: false,
        })
    }

    /// The kernel has not taken all answers yet.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Quiet for so long that a new connection may have its place; at once where it never asked.
    pub fn may_go(&self, now_ns: u64) -> bool {
        !self.has_asked || now_ns.saturating_sub(self.moved_ns) >= QUIET_NS
    }

    /// Reads what is there by one call and answers it; how many requests there were.
    pub fn serve_once(&mut self, server: &Server) -> io::Result<u64> {
        self.inflow.read(&mut self.stream)?;
        self.answer(server)
    }

    /// Answers the whole requests that it holds, and keeps the answers that the kernel does not
    /// take; how many requests there were.
    fn answer(&mut self, server: &Server) -> io::Result<u64> {
        let Connection { stream, inflow, unsent, .. } = self;
        let received = server.stamp_now();
        let messages = inflow.messages()?;
        let count = server.turn_all(messages, received)?;
        let mut sent = 0;
        // Answers that wait for room go first.
        while unsent.is_empty() && sent < messages.len() {
            match stream.write(&messages[sent..]) {
                Ok(more) => sent += more,
                Err(e) if is_empty(&e) => break,
                Err(e) => return Err(e),
            }
        }
        unsent.extend_from_slice(&messages[sent..]);
        match unsent.is_empty() {
            true => server.count(count, count, 0),
            false => {
                server.count(count, 0, 0);
                self.unanswered += count;
            }
        }
        Ok(count)
    }

    /// Sends what the kernel did not take, as far as it does now; `true` where bytes went.
    pub fn catch_up(&mut self, server: &Server) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(more) => sent += more,
                Err(e) if is_empty(&e) => break,
                Err(e) => return Err(e),
            }
        }
        self.unsent.drain(..sent);
        if !self.has_unsent() {
            self.unsent = Vec::new();
            self.count_answered(server);
        }
        Ok(sent > 0)
    }

    /// Counts the answers that the kernel has taken.
    fn count_answered(&mut self, server: &Server) {
        server.count(0, std::mem::take(&mut self.unanswered), 0);
    }

    /// Makes it fit for an event loop. The loop waits for further bytes, so whole requests that a
    /// ring had received are answered here.
    fn rest(mut self, server: &Server) -> io::Result<Connection> {
        self.stream.set_nonblocking(true)?;
        self.catch_up(server)?;
        self.has_asked |= self.answer(server)? > 0;
        self.shrink();
        Ok(self)
    }

    /// Gives memory back that holds nothing.
    pub fn shrink(&mut self) {
        self.inflow.shrink();
    }

    /// How many bytes of memory it has for requests.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.inflow.memory()
    }
}

/// Tells when nothing has moved for too long. It reads the clock only while nothing moves.
#[derive(Default)]
struct IdleTimer {
    since_ns: Option<u64>,
}

impl IdleTimer {
    /// Nothing moved just now; `true` where that has been so for [`QUIET_NS`].
    fn is_over(&mut self) -> bool {
        let now_ns = now_ns();
        now_ns.saturating_sub(*self.since_ns.get_or_insert(now_ns)) >= QUIET_NS
    }
}

/// The state that the threads of a server's connections share.
pub(super) struct Pool<'a> {
    pub server: &'a Server,
    pub stop: &'a AtomicBool,
    /// Connections that all loops hold at once.
    connections_max: usize,
    loops: &'a [EventLoop],
    /// Number of loops that have a thread; they come first.
    running: AtomicUsize,
    /// Connections that have a thread of their own.
    threads: AtomicUsize,
    /// Until then no thread is tried for.
    no_thread_until_ns: AtomicU64,
}

impl Server {
    /// Accepts connections and serves them until `stop` is set, or accepting fails.
    pub(super) fn connections(
        &self,
        tcp: &TcpListener,
        stop: &AtomicBool,
    ) -> Result<(), EchoError> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(LOOPS_MAX);
        let mut loops = vec![EventLoop::new().map_err(EchoError::of("epoll"))?];
        // Where descriptors are scarce there are fewer.
        loops.extend((1..cores).map_while(|_| EventLoop::new().ok()));
        self.run_loops(&loops, tcp, stop)
    }

    /// Serves by these event loops, until `stop` is set or one of them ends.
    fn run_loops(
        &self,
        loops: &[EventLoop],
        tcp: &TcpListener,
        stop: &AtomicBool,
    ) -> Result<(), EchoError> {
        let pool = Pool::new(self, loops, stop);
        thread::scope(|scope| {
            let mut others = Vec::new();
            for own in &loops[1..] {
                let serve = || pool.run_loop(scope, own, None);
                let started = thread::Builder::new().name("echo-loop".into());
                let Ok(other) = started.spawn_scoped(scope, serve) else { break };
                others.push(other);
                pool.running.fetch_add(1, Ordering::Relaxed);
            }
            let served = pool.run_loop(scope, &loops[0], Some(tcp));
            others.into_iter().map(ended).fold(served, Result::and)
        })
    }
}

/// The result of a thread of the server.
pub(super) fn ended(thread: ScopedJoinHandle<'_, Result<(), EchoError>>) -> Result<(), EchoError> {
    let panicked = |_| Err(EchoError::of("thread")(io::Error::other("it panicked")));
    thread.join().unwrap_or_else(panicked)
}

/// Ends the server when it goes: when a thread of it ends, by a panic too.
pub(super) struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> Pool<'a> {
    /// One thread serves, and no connection has its own.
    pub fn new(server: &'a Server, loops: &'a [EventLoop], stop: &'a AtomicBool) -> Pool<'a> {
        Pool {
            server,
            stop,
            connections_max: CONNECTIONS_MAX,
            loops,
            running: AtomicUsize::new(1),
            threads: AtomicUsize::new(0),
            no_thread_until_ns: AtomicU64::new(0),
        }
    }

    /// A pool for tests: each of its loops counts as one with a thread.
    #[cfg(test)]
    pub fn of(
        server: &'a Server,
        loops: &'a [EventLoop],
        stop: &'a AtomicBool,
        connections_max: usize,
    ) -> Pool<'a> {
        let pool = Pool { connections_max, ..Pool::new(server, loops, stop) };
        pool.running.store(loops.len(), Ordering::Relaxed);
        pool
    }

    fn run_loop<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        own: &EventLoop,
        tcp: Option<&TcpListener>,
    ) -> Result<(), EchoError> {
        let _ending = StopOnDrop(self.stop);
        own.run(self, tcp, &mut |connection| self.dispatch_to_thread(scope, connection))
            .map_err(EchoError::of("epoll"))
    }

    /// Gives a connection to the event loop that has the fewest.
    pub fn dispatch_to_loop(&self, connection: Connection) {
        if let Some(least) = self.running().iter().min_by_key(|one| one.load()) {
            least.give(connection, 0);
        }
    }

    /// The event loops that have a thread.
    fn running(&self) -> &'a [EventLoop] {
        &self.loops[..self.running.load(Ordering::Relaxed)]
    }

    /// The event loops hold more connections than they may.
    pub fn is_full(&self) -> bool {
        self.running().iter().map(EventLoop::load).sum::<usize>() > self.connections_max
    }

    /// Gives a connection, for which `tries` event loops have made no room, to the loop behind
    /// `own`; gives it back where each has been tried.
    pub fn pass_on(
        &self,
        own: &EventLoop,
        connection: Connection,
        tries: usize,
    ) -> Option<Connection> {
        let running = self.running();
        if tries >= running.len() {
            return Some(connection);
        }
        let place = running.iter().position(|one| ptr::eq(one, own)).unwrap_or(0);
        running[(place + 1) % running.len()].give(connection, tries);
        None
    }

    /// Has each other event loop close a connection that may go.
    pub fn ask_for_room(&self, own: &EventLoop) {
        self.running().iter().filter(|one| !ptr::eq(*one, own)).for_each(EventLoop::ask_for_room);
    }

    /// The system has no room for one more thread, or for what it waits by: for a while none is
    /// tried for.
    fn try_no_thread(&self) {
        self.no_thread_until_ns.store(now_ns() + NO_THREAD_NS, Ordering::Relaxed);
    }

    /// A thread may be tried for.
    pub fn may_have_thread(&self) -> bool {
        self.threads.load(Ordering::Relaxed) < THREADS_MAX
            && now_ns() >= self.no_thread_until_ns.load(Ordering::Relaxed)
    }

    /// Serves a connection on a thread of its own; gives it back where there is none.
    fn dispatch_to_thread<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        connection: Connection,
    ) -> Option<Connection> {
        if self.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_max).is_err() {
            return Some(connection);
        }
        // A thread that cannot be started drops its closure, but not this.
        let place = Arc::new(Mutex::new(Some(connection)));
        let theirs = Arc::clone(&place);
        let work = move || {
            let taken = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            let left = taken.and_then(|connection| self.converse(connection));
            self.threads.fetch_sub(1, Ordering::Relaxed);
            if let Some(connection) = left {
                self.dispatch_to_loop(connection);
            }
        };
        let started = thread::Builder::new().name("echo-one".into()).spawn_scoped(scope, work);
        if started.is_ok() {
            return None;
        }
        self.threads.fetch_sub(1, Ordering::Relaxed);
        self.try_no_thread();
        place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Serves a connection on the calling thread until it is quiet: it goes back to a loop then.
    /// `None` where it was closed, broke, or something else than requests came.
    fn converse(&self, connection: Connection) -> Option<Connection> {
        let served = match self.server.receive() {
            Receive::IoUring => self.converse_by_ring(connection),
            _ => self.converse_by_calls(connection),
        };
        self.keep(served)
    }

    /// Keeps a served connection if it goes on; counts malformed requests.
    pub fn keep(&self, served: io::Result<Connection>) -> Option<Connection> {
        if served.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidData) {
            self.server.count(0, 0, 1);
        }
        served.ok()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn converse_by_calls(&self, mut connection: Connection) -> io::Result<Connection> {
        let receive = self.server.receive();
        socket::set_receive_mode(&connection.stream, receive);
        // Without a descriptor to wait by, the loop that has one serves it.
        let Ok(waiter) = Waiter::new(receive, &connection.stream) else {
            self.try_no_thread();
            return connection.rest(self.server);
        };
        connection.stream.set_nonblocking(receive != Receive::Blocking)?;
        let (mut quiet, mut reads) = (IdleTimer::default(), 0_u32);
        while !self.is_stopped() {
            if receive == Receive::Epoll {
                waiter.wait(&connection.stream, now_ns() + socket::TURN.as_nanos() as u64)?;
            }
            match connection.serve_once(self.server) {
                Ok(1..) => {
                    connection.has_asked = true;
                    quiet = IdleTimer::default();
                }
                // A part of a message: whoever sends so little is as good as quiet.
                Ok(0) if quiet.is_over() => break,
                Ok(0) => {}
                Err(e) if is_empty(&e) => {
                    reads = reads.wrapping_add(1);
                    let is_time = receive != Receive::BusyPoll || reads.is_multiple_of(READS);
                    if is_time && quiet.is_over() {
                        break;
                    }
                }
                Err(e) => return Err(e),
            }
            if connection.has_unsent() && !self.catch_up(&mut connection)? {
                break;
            }
        }
        connection.moved_ns = now_ns();
        connection.rest(self.server)
    }

    /// Waits for the client to read its answers; `false` where it is quiet before it has.
    fn catch_up(&self, connection: &mut Connection) -> io::Result<bool> {
        let mut quiet = IdleTimer::default();
        while connection.has_unsent() {
            wait_for_room(&connection.stream, now_ns() + socket::TURN.as_nanos() as u64)?;
            match connection.catch_up(self.server)? {
                true => quiet = IdleTimer::default(),
                false if quiet.is_over() || self.is_stopped() => return Ok(false),
                false => {}
            }
        }
        Ok(true)
    }

    /// The same through a ring: answers go with the call that waits for the next requests.
    fn converse_by_ring(&self, mut connection: Connection) -> io::Result<Connection> {
        let Ok(ring) = StreamRing::new(&connection.stream, READ_LEN) else {
            self.try_no_thread();
            return connection.rest(self.server);
        };
        connection.stream.set_nonblocking(false)?;
        let mut ring = ring.with(std::mem::take(&mut connection.inflow));
        let mut quiet = IdleTimer::default();
        while !self.is_stopped() {
            let arrived = ring.receive(now_ns() + socket::TURN.as_nanos() as u64);
            if !ring.is_behind() {
                connection.count_answered(self.server);
            }
            if !arrived? {
                if quiet.is_over() {
                    break;
                }
                continue;
            }
            quiet = IdleTimer::default();
            connection.has_asked = true;
            let received = self.server.stamp_now();
            let (messages, pending) = ring.messages()?;
            let count = self.server.turn_all(messages, received)?;
            pending.extend_from_slice(messages);
            self.server.count(count, 0, 0);
            connection.unanswered += count;
        }
        let (inflow, unsent) = ring.end().ok_or(io::ErrorKind::BrokenPipe)?;
        (connection.inflow, connection.unsent) = (inflow, unsent);
        connection.moved_ns = now_ns();
        connection.rest(self.server)
    }
}

/// One more, unless there are as many as there may be.
fn below_max(count: usize) -> Option<usize> {
    (count < THREADS_MAX).then_some(count + 1)
}

#[cfg(test)]
#[path = "connections_tests.rs"]
pub(super) mod tests;
