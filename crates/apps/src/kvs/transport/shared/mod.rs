//! The state that the threads of a server share: items, options and counters.

mod cpu;
pub mod error;
pub mod tally;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kvs::codec::context::{CpuTime, ServerStatistics, ServerView};
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::{Spread, Statistics, Store};
use cpu::CpuClock;
use tally::ServerCounters;

/// Most connections that may be asked for: beyond a million, ports of one address are used up.
pub const CONNECTIONS_MAX: usize = 1 << 20;

/// Connections that may wait to be accepted: a burst of clients is not turned away.
pub const BACKLOG: i32 = 4096;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address of both protocols, and port of TCP; port 0 stands for any that is free.
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
    /// At loopback addresses only.
    OnLoopback,
    /// Yes, at the port of TCP.
    On,
    /// Yes, at this port.
    At(u16),
    /// No.
    Off,
}

impl Udp {
    /// Whether it is served at this address.
    pub fn is_on(self, address: IpAddr) -> bool {
        match self {
            Udp::OnLoopback => address.is_loopback(),
            Udp::On | Udp::At(_) => true,
            Udp::Off => false,
        }
    }
}

/// The state that all threads share.
#[derive(Debug)]
pub struct ServerShared {
    pub(super) store: Store,
    pub(super) tally: ServerCounters,
    cpu: CpuClock,
    pub(super) options: ServerOptions,
    pub(super) start: Instant,
    port: u16,
    /// Port of UDP, where it is served.
    pub(super) udp_port: Option<u16>,
}

impl ServerShared {
    /// The initial state of a server.
    pub fn new(
        store: Store,
        options: ServerOptions,
        port: u16,
        udp_port: Option<u16>,
    ) -> ServerShared {
        let (tally, cpu) = Default::default();
        ServerShared { store, tally, cpu, options, start: Instant::now(), port, udp_port }
    }
}

impl ServerView for ServerShared {
    fn statistics(&self, store: &Statistics) -> ServerStatistics {
        ServerStatistics {
            address: Some(self.options.listen.ip()),
            backlog: BACKLOG as u64,
            max_connections: self.options.connections_max as u64,
            threads: self.options.cores.len() as u64,
            uptime_s: self.start.elapsed().as_secs(),
            port: self.port,
            udp_port: self.udp_port.unwrap_or(0),
            idle_timeout_s: self.options.idle_timeout.map_or(0, |time| time.as_secs()),
            ..self.tally.statistics(&store.stored)
        }
    }

    fn cpu_time(&self) -> CpuTime {
        self.cpu.time(Instant::now())
    }
}

/// The time of day for the store.
pub fn moment() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixTime(u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}
