//! The server over sockets of the kernel: a thread for each core, any of which serves any key.
//!
//! The calling thread accepts connections and hands them to the workers in turn. Each worker waits
//! with epoll on its connections and on a UDP socket of its own, among which the kernel spreads
//! clients.

mod connection;
mod cpu;
mod datagrams;
mod queues;
mod sockets;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::kvs::codec::context::{CpuTime, Host, Standing};
use crate::kvs::frames::{Counted, Identity};
use crate::kvs::protocol::limits::DATAGRAM_LEN_MAX;
use crate::kvs::protocol::time::Moment;
use crate::kvs::store::{Loan, Spread, Statistics, Store, StoreError};
use crate::service::Service;
use cpu::Cpu;
use queues::Queues;
use tally::Tally;
use worker::{Inbox, Worker};

/// How long a thread sleeps at most before it looks whether it is to end.
const TURN: Duration = Duration::from_millis(200);

/// Most connections that may be asked for: beyond a million, ports of one address are used up.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// What is to be served, where and by whom.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of both protocols; port 0 stands for any that is free.
    pub listen: SocketAddr,
    /// UDP, too.
    pub udp: Udp,
    /// A thread on each of these cores.
    pub cores: Vec<u32>,
    /// Partitions, where no core has one of its own ([`Spread::Steered`]).
    pub partitions: usize,
    /// By what keys are spread over these.
    pub spread: Spread,
    /// Memory of items and index, bytes.
    pub memory_bytes: usize,
    /// Connections that are served at once.
    pub connections_max: usize,
    /// A connection without a word for so long is ended; `None`: never.
    pub idle_timeout: Option<Duration>,
    /// Memory for requests that are not whole and answers that are not sent, bytes, of all
    /// connections together.
    pub buffers_bytes_max: usize,
}

/// Whether UDP is served. An answer may be a thousand times as long as its request, and who asks
/// can name somebody else as sender: so it is not offered to a network unless somebody wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Udp {
    /// Where only this machine can ask.
    OnLoopback,
    /// Yes.
    On,
    /// No.
    Off,
}

impl Udp {
    /// Whether it is served at this address.
    pub fn is_on(self, address: IpAddr) -> bool {
        match self {
            Udp::OnLoopback => address.is_loopback(),
            Udp::On => true,
            Udp::Off => false,
        }
    }
}

/// Why a server cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Somebody else has the address.
    #[error("{address} is in use: choose another port with --listen, or end who has it")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// No interface has the address.
    #[error("{address} is not an address of this machine: choose one with --listen (`ip address`)")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// A port for which one has to be root.
    #[error("{address}: ports below 1024 need root; choose a higher one with --listen")]
    Rights {
        /// The address.
        address: SocketAddr,
    },
    /// A process may not have so many descriptors.
    #[error(
        "--connections {wanted}: this process may open {limit} files: raise `ulimit -n`, or ask \
         for fewer"
    )]
    Descriptors {
        /// Connections that were asked for.
        wanted: usize,
        /// Files that may be open.
        limit: u64,
    },
    /// No cores, or a core that may not be used.
    #[error("--cores: core {core} cannot be used here ({source}); `taskset -p $$` shows which can")]
    Core {
        /// The core.
        core: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The store cannot be made.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The kernel refused something else.
    #[error("{call}: {source}")]
    System {
        /// What was asked for.
        call: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl ServerError {
    fn of(call: &'static str) -> impl Fn(Errno) -> ServerError {
        move |errno| ServerError::System { call, source: errno.into() }
    }
}

/// Sockets and items, ready to be served.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    udp: Vec<UdpSocket>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What all threads have in common.
#[derive(Debug)]
pub struct Shared {
    store: Store,
    tally: Tally,
    cpu: Cpu,
    options: Options,
    start: Instant,
    port: u16,
    is_udp: bool,
}

impl Host for Shared {
    fn standing(&self, store: &Statistics) -> Standing {
        Standing {
            address: Some(self.options.listen.ip()),
            backlog: sockets::BACKLOG as u64,
            max_connections: self.options.connections_max as u64,
            threads: self.options.cores.len() as u64,
            uptime_s: self.start.elapsed().as_secs(),
            port: self.port,
            is_udp: self.is_udp,
            idle_timeout_s: self.options.idle_timeout.map_or(0, |time| time.as_secs()),
            ..self.tally.standing(&store.stored)
        }
    }

    fn cpu_time(&self) -> CpuTime {
        self.cpu.time(Instant::now())
    }
}

/// What a server has done, when it is over.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Of its connections.
    pub standing: Standing,
    /// Of its frames, where a card brought any.
    pub frames: Counted,
    /// Of its items.
    pub statistics: Statistics,
}

/// A server that has finished. Where a card brings frames this goes on until the card has ended.
#[derive(Debug)]
pub struct Finished(Arc<Shared>);

impl Finished {
    /// What it has done.
    pub fn ended(&self) -> Ended {
        let statistics = self.0.store.statistics();
        let standing = self.0.standing(&statistics);
        Ended { standing, frames: self.0.tally.frames.all(), statistics }
    }
}

impl Server {
    /// Takes address and descriptors; items take memory when they come.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn bind(options: Options) -> Result<Server, ServerError> {
        sockets::allow_descriptors(options.connections_max, options.cores.len())?;
        let partitions = match options.spread {
            Spread::Secret => options.partitions,
            // Each core has one.
            Spread::Steered => options.cores.len(),
        };
        let store = Store::new(options.memory_bytes, partitions, random())?;
        let store = store.spread_by(options.spread);
        let is_udp = options.udp.is_on(options.listen.ip());
        let udp_count = if is_udp { options.cores.len() } else { 0 };
        let (tcp, udp) = sockets::listen(options.listen, udp_count)?;
        let address = tcp
            .local_addr()
            .map_err(|source| ServerError::System { call: "getsockname", source })?;
        let (port, start) = (address.port(), Instant::now());
        let (tally, cpu) = Default::default();
        let shared = Arc::new(Shared { store, tally, cpu, options, start, port, is_udp });
        Ok(Server { tcp, udp, address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It serves UDP at the same port.
    pub fn is_udp(&self) -> bool {
        self.shared.is_udp
    }

    /// What serves the same items to frames, for each core's queues of a card. Where keys are
    /// spread as cards tell them apart ([`Spread::Steered`]), the queue of a core's number has
    /// requests of its own partition alone, of which the card has looked at all headers
    /// ([`Station::serve`](crate::kvs::frames::Station::serve)); other queues have anything.
    ///
    /// Where the card lends segments for items and tells events, a loan for each core, in their
    /// order, nothing of that kind comes by queues.
    ///
    /// # Panics
    /// If there are loans, and not one for each core ([`Store::lend`]).
    pub fn services(&self, identity: Identity, loans: Vec<Loan>) -> Vec<Box<dyn Service>> {
        let is_told = !loans.is_empty();
        if is_told {
            self.shared.store.lend(loans.into_iter());
        }
        let of = |place| -> Box<dyn Service> {
            Box::new(Queues::new(Arc::clone(&self.shared), identity, place, is_told))
        };
        (0..self.shared.options.cores.len()).map(of).collect()
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// [`ServerError`]: what breaks one thread ends all.
    pub fn run(self, stop: &AtomicBool) -> Result<Finished, ServerError> {
        let Server { tcp, udp, shared, .. } = self;
        let mut udp: Vec<Option<UdpSocket>> = udp.into_iter().map(Some).collect();
        udp.resize_with(shared.options.cores.len(), || None);
        let inboxes: Vec<Inbox> =
            udp.iter().map(|_| Inbox::new()).collect::<Result<_, ServerError>>()?;
        thread::scope(|scope| {
            let workers: Vec<_> = (shared.options.cores.iter().zip(&inboxes).zip(udp))
                .map(|((&core, inbox), udp)| {
                    let shared = &*shared;
                    scope.spawn(move || {
                        let served = Worker::new(shared, inbox, udp)
                            .and_then(|mut worker| worker.run(core, stop));
                        // One that breaks must not leave the others waiting.
                        stop.store(true, Ordering::Relaxed);
                        served
                    })
                })
                .collect();
            let accepted = accept(&tcp, &inboxes, &shared, stop);
            stop.store(true, Ordering::Relaxed);
            let joined = workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(())));
            joined.fold(accepted, |all, served| all.and(served))
        })?;
        Ok(Finished(shared))
    }
}

/// Takes connections and hands them to the workers in turn.
fn accept(
    tcp: &TcpListener,
    inboxes: &[Inbox],
    shared: &Shared,
    stop: &AtomicBool,
) -> Result<(), ServerError> {
    let mut turn = inboxes.iter().cycle();
    shared.tally.is_accepting.store(true, Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        let timeout = timespec(TURN);
        match poll(&mut [PollFd::from_borrowed_fd(tcp.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(ServerError::of("poll")(errno)),
        }
        loop {
            match tcp.accept() {
                Ok((stream, _)) => {
                    let Some(inbox) = turn.next() else { return Ok(()) };
                    welcome(stream, inbox, shared);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    pause(&error, shared);
                    break;
                }
            }
        }
    }
    shared.tally.is_accepting.store(false, Ordering::Relaxed);
    Ok(())
}

/// A connection could not be taken: it was gone before, or the system has no descriptor for it at
/// the moment.
fn pause(error: &io::Error, shared: &Shared) {
    let (tally, start) = (&shared.tally, Instant::now());
    let is_full = Errno::from_io_error(error).is_some_and(|errno| {
        [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno)
    });
    tally.is_accepting.store(!is_full, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(1));
    if is_full {
        tally::add(&tally.listen_disabled, 1);
        tally::add(&tally.listen_disabled_us, start.elapsed().as_micros() as u64);
        tally.is_accepting.store(true, Ordering::Relaxed);
    }
}

fn welcome(mut stream: TcpStream, inbox: &Inbox, shared: &Shared) {
    if !shared.tally.enter(shared.options.connections_max) {
        // As memcached says it; who is gone already does not hear it.
        let _ = stream.write_all(b"ERROR Too many open connections\r\n");
        return;
    }
    let is_ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok();
    if !is_ready || !inbox.put(stream) {
        shared.tally.leave();
    }
}

/// The time of day, as the store is told it.
pub fn moment() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

/// A number that nobody outside can guess.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Bytes that are read in one call, and the room for a datagram.
const READ_LEN: usize = 64 << 10;

const _: () = assert!(READ_LEN > DATAGRAM_LEN_MAX, "any request that fits a frame is read whole");
