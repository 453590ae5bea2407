//! The context of a request, and the progress of a codec.

use std::net::IpAddr;

use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::{Statistics, Store};

/// The context of a request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The items.
    pub store: &'a Store,
    /// Time of the request.
    pub now: UnixTime,
    /// The server, for its statistics.
    pub host: &'a dyn ServerView,
}

/// How far a codec came with some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodecProgress {
    /// So many bytes are done with.
    Done(usize),
    /// The codec needs this many bytes in all before it can go on.
    More(usize),
    /// The connection is to end after what was answered.
    Close,
}

/// The server, as `stats` shows it.
pub trait ServerView {
    /// Statistics of the server with such a store.
    fn statistics(&self, store: &Statistics) -> ServerStatistics;

    /// Time that the process took; zero where nobody measures it.
    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }
}

/// Nobody serves: there are no connections to count.
impl ServerView for () {
    fn statistics(&self, _: &Statistics) -> ServerStatistics {
        ServerStatistics::default()
    }
}

/// Time of a process on its cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In its own code, microseconds.
    pub user_us: u64,
    /// In the kernel, microseconds.
    pub system_us: u64,
}

/// Statistics of a server beside those of its store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStatistics {
    /// Connections that it serves at once.
    pub max_connections: u64,
    /// Connections that there are.
    pub curr_connections: u64,
    /// Connections that there were.
    pub total_connections: u64,
    /// New connections are taken.
    pub is_accepting: bool,
    /// Times that none could be taken, for the system had no descriptor for it.
    pub listen_disabled: u64,
    /// How long that was in all, microseconds.
    pub listen_disabled_us: u64,
    /// Times that a connection with more to do gave way to others.
    pub conn_yields: u64,
    /// Connections that were refused: there were too many.
    pub rejected_connections: u64,
    /// Connections that were ended: they said nothing for too long.
    pub idle_kicks: u64,
    /// Connections that were ended: too much waited to be sent or to become whole.
    pub overrun_kicks: u64,
    /// Bytes that came.
    pub bytes_read: u64,
    /// Bytes that went.
    pub bytes_written: u64,
    /// Datagrams that came.
    pub datagrams: u64,
    /// Threads.
    pub threads: u64,
    /// Seconds since it began.
    pub uptime_s: u64,
    /// Address that it listens at, where it does.
    pub address: Option<IpAddr>,
    /// Connections that may wait to be accepted.
    pub backlog: u64,
    /// Port that it listens at.
    pub port: u16,
    /// Port of UDP; 0 where it serves none.
    pub udp_port: u16,
    /// After so many seconds without a word a connection is ended; 0: never.
    pub idle_timeout_s: u64,
}
