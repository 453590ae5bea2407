//! Load clients for real servers: memcached, Redis and HTTP, over sockets of the kernel.
//!
//! A client has connections, and on each of them requests that wait for their answers. A closed
//! loop sends one whenever another was answered; an open loop sends each when it is due, or as soon
//! after that as a place is free, and counts from when it was due: a server that stalls delays all
//! that is due meanwhile, and the latencies say so (coordinated omission: Tene, *How NOT to Measure
//! Latency*, 2013). What is asked comes from a seed, and what is stored can be told from any other
//! answer.
//!
//! One thread runs one client: a loop over `epoll`, sockets that never block, and buffers that
//! have their size after the first turns.

mod client;
mod connect;
mod datagrams;
mod dialect;
mod etc;
mod http;
mod memcached;
mod parts;
mod redis;
mod streams;
mod tally;
#[cfg(test)]
mod tests;
mod workload;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use niclab_packet::echo::Stamp;
use serde::{Deserialize, Serialize};

pub use crate::echo::Pace;
pub use client::{fill, run};

use crate::histogram::Latency;

/// Most connections of a client.
pub const CONNECTIONS_MAX: u16 = 10_000;
/// Most requests that wait on a connection.
pub const DEPTH_MAX: u16 = 1024;
/// Most keys: nine digits.
pub const KEYS_MAX: u32 = 1_000_000_000;
/// Longest key, bytes: memcached's own limit (its `protocol.txt`, "Keys").
pub const KEY_LEN_MAX: u16 = 250;
/// Longest value, bytes: what memcached stores at most unless an option says otherwise, its own
/// head included.
pub const VALUE_LEN_MAX: u32 = 1 << 20;
/// Longest value that is stored over UDP, bytes: a request is one datagram (memcached's
/// `protocol.txt`, "UDP protocol") of at most 65,507 bytes, with a frame header, a command and a
/// key.
pub const VALUE_LEN_UDP_MAX: u32 = 65_000;

/// How long a client waits for an answer over UDP before its request counts as lost, nanoseconds.
/// Far longer than a queue of a thousand, and shorter than a trial: what is lost in the beginning
/// keeps its place no longer than this, and is missed in the part that is measured.
pub const PATIENCE_NS: u64 = 250_000_000;
/// How long nobody may answer while requests wait before the client takes the server for gone,
/// nanoseconds. Functions may take seconds to start.
pub const SILENCE_NS: u64 = 5_000_000_000;

/// The requests of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// The protocol of the server.
    pub protocol: Protocol,
    /// Share of gets, 0 to 1; the others are sets. HTTP has neither: its method follows from
    /// `values`.
    pub get_ratio: f64,
    /// Which keys.
    pub keys: KeySelection,
    /// How long values are: that of a key is the same at all times and for all seeds.
    pub values: Values,
    /// Path and query of an HTTP request, from `/` on. It is a GET where `values` are
    /// `Fixed(0)`, else a POST with a body of that size.
    pub path: String,
    /// TCP connections or UDP sockets: 1 to [`CONNECTIONS_MAX`].
    pub connections: u16,
    /// Requests that wait on each of them at most: 1 to [`DEPTH_MAX`].
    pub depth: u16,
    /// Closed: each connection has `depth` requests waiting. Open: so many requests a second over
    /// all connections.
    pub pace: Pace,
    /// Measured part, nanoseconds.
    pub duration_ns: u64,
    /// Part before it that is never counted, nanoseconds.
    pub warmup_ns: u64,
    /// The same seed gives the same sequence of requests.
    pub seed: u64,
}

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// memcached's text protocol over TCP.
    MemcachedTcp,
    /// memcached's text protocol over UDP, behind its frame header.
    MemcachedUdp,
    /// RESP2 over TCP.
    Redis,
    /// HTTP/1.1 over TCP (RFC 9112), without TLS.
    Http,
}

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeySelection {
    /// How many there are: 1 to [`KEYS_MAX`].
    pub count: u32,
    /// Which of them comes next.
    pub order: Order,
    /// How long they are.
    pub length: KeyLength,
}

/// Which key comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each is as likely as any other.
    #[default]
    Uniform,
    /// The k-th key is asked for with a probability that goes with k to the power of -exponent.
    Zipf {
        /// 0 to 10; measured ones are near 1.
        exponent: f64,
    },
}

/// How long keys are. A key is its number in decimal digits behind zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyLength {
    /// All of so many bytes: enough for the digits of all keys, at most [`KEY_LEN_MAX`].
    Fixed(u16),
    /// As in the pool ETC of Atikoglu et al., *Workload Analysis of a Large-Scale Key-Value Store*,
    /// SIGMETRICS 2012, §5: generalized extreme values with μ = 30.7984, σ = 8.20449,
    /// k = 0.078688, never less than the key's digits nor more than [`KEY_LEN_MAX`].
    Etc,
}

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// All of so many bytes, at most [`VALUE_LEN_MAX`].
    Fixed(u32),
    /// As in the pool ETC of Atikoglu et al., SIGMETRICS 2012, §5: up to 14 bytes by the paper's
    /// table of shares, above them a generalized Pareto distribution with σ = 214.476,
    /// k = 0.348238. Its longest here are some 30 KB: the quantiles of 65,536 values.
    Etc,
}

/// The outcome of the requests of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    /// Length of the measured part, nanoseconds; shorter than asked for where the server went.
    pub duration_ns: u64,
    /// Requests that were due in it; in a closed loop, those that were sent.
    pub planned: u64,
    /// Requests that were sent. `planned = sent + unsent`.
    pub sent: u64,
    /// Requests that were due and found no free place until the end.
    pub unsent: u64,
    /// Requests whose answer came in time. `sent = answered + lost`.
    pub answered: u64,
    /// Requests without an answer: over UDP in time; over TCP where the server went.
    pub lost: u64,
    /// Lost messages whose answer came too late.
    pub late: u64,
    /// Answered requests with an error: `ERROR`, `SERVER_ERROR`, `-ERR`, an HTTP status from 400
    /// on.
    pub refused: u64,
    /// Gets that found the value stored.
    pub hits: u64,
    /// Gets that found nothing.
    pub misses: u64,
    /// Datagrams that came again.
    pub duplicated: u64,
    /// Unexpected answers: with another value or for another key, and datagrams that answer no
    /// request.
    pub foreign: u64,
    /// Connections that were made anew because the server closes them (HTTP alone).
    #[serde(default)]
    pub reconnected: u64,
    /// Bytes of the requests sent, with all of the protocol that is the application's.
    pub sent_bytes: u64,
    /// Bytes of the answers, likewise.
    pub received_bytes: u64,
    /// From when a request was due to when its answer was there; in a closed loop it is due when
    /// the call begins that sends it.
    pub latency: Latency,
    /// From the call that sent a request to its answer; of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Latency>,
    /// How late requests left; of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Latency>,
    /// Why it ended before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Requests of one client that are kept at most, each with what is known of it: enough for the
/// quantiles of a breakdown.
pub const PASSED_MAX: usize = 1 << 14;

/// A request that was answered over TCP, and where on its connection it and its answer are: what it
/// takes to find the segments that carried them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The client's end of the connection.
    pub client: Option<SocketAddr>,
    /// Bytes of the connection up to the end of the request.
    pub request_end: u64,
    /// Bytes of the other direction up to the end of the answer.
    pub answer_end: u64,
    /// Before the call that sent it.
    pub sent: Stamp,
    /// After the call that received the last of its answer.
    pub received: Stamp,
}

/// Why no requests could be made.
#[derive(Debug, thiserror::Error)]
pub enum RequestsError {
    /// Something of the [`Requests`] is out of its range.
    #[error("{field} = {value}: use {range}")]
    Range {
        /// Which.
        field: &'static str,
        /// The requested value.
        value: String,
        /// A valid value.
        range: String,
    },
    /// Nobody answers there.
    #[error(
        "nobody answers {protocol} requests at {server}: start a server there, and let its address \
         and port through the firewall"
    )]
    Nobody {
        /// Where.
        server: SocketAddr,
        /// The protocol.
        protocol: Protocol,
    },
    /// The server takes fewer connections.
    #[error(
        "{server} took {made} of {asked} connections: let it take more (memcached -c, Redis \
         maxclients, net.core.somaxconn), or ask for fewer"
    )]
    Connections {
        /// Where.
        server: SocketAddr,
        /// Connections that were made.
        made: usize,
        /// Requested connections.
        asked: usize,
    },
    /// This process may not have so many open files.
    #[error("{connections} connections need more open files: raise the limit (ulimit -Hn)")]
    Files {
        /// So many were asked for.
        connections: u16,
    },
    /// Something answers that speaks another protocol.
    #[error("{server} does not speak {protocol}: {message}")]
    Foreign {
        /// Where.
        server: SocketAddr,
        /// The expected protocol.
        protocol: Protocol,
        /// Its message.
        message: String,
    },
    /// Keys could not be stored.
    #[error("{server} stored {stored} of {keys} keys: {why}")]
    NotFilled {
        /// Where.
        server: SocketAddr,
        /// Keys that are stored.
        stored: u64,
        /// All keys.
        keys: u32,
        /// The reason.
        why: String,
    },
    /// The kernel refused a call.
    #[error("{call}: {source}")]
    Socket {
        /// The operation.
        call: &'static str,
        /// Its message.
        source: std::io::Error,
    },
}

impl RequestsError {
    /// Converts the kernel's error of a call.
    fn of<E: Into<std::io::Error>>(call: &'static str) -> impl Fn(E) -> RequestsError {
        move |source| RequestsError::Socket { call, source: source.into() }
    }
}

impl Requests {
    /// Refuses what cannot be asked.
    ///
    /// # Errors
    /// [`RequestsError::Range`].
    pub fn check(&self) -> Result<(), RequestsError> {
        let within = |ok: bool, field, value: String, range: String| match ok {
            true => Ok(()),
            false => Err(RequestsError::Range { field, value, range }),
        };
        let ratio = self.get_ratio;
        within((0.0..=1.0).contains(&ratio), "get_ratio", ratio.to_string(), "0 to 1".to_owned())?;
        let count = self.keys.count;
        let range = format!("1 to {KEYS_MAX}");
        within((1..=KEYS_MAX).contains(&count), "keys", count.to_string(), range)?;
        if let Order::Zipf { exponent } = self.keys.order {
            let ok = (0.0..=10.0).contains(&exponent);
            within(ok, "exponent", exponent.to_string(), "0 to 10".to_owned())?;
        }
        if let KeyLength::Fixed(len) = self.keys.length {
            let least = workload::digits(count - 1);
            let range = format!("{least} to {KEY_LEN_MAX} bytes for {count} keys");
            let ok = (least as u16..=KEY_LEN_MAX).contains(&len);
            within(ok, "key length", len.to_string(), range)?;
        }
        if let Values::Fixed(len) = self.values {
            let range = format!("0 to {VALUE_LEN_MAX} bytes");
            within(len <= VALUE_LEN_MAX, "value length", len.to_string(), range)?;
            let stores_by_udp = self.protocol == Protocol::MemcachedUdp && ratio < 1.0;
            let range = format!("0 to {VALUE_LEN_UDP_MAX} bytes over UDP: a set is one datagram");
            let ok = !stores_by_udp || len <= VALUE_LEN_UDP_MAX;
            within(ok, "value length", len.to_string(), range)?;
        }
        let is_path = self.path.starts_with('/') && self.path.bytes().all(|b| b.is_ascii_graphic());
        let ok = self.protocol != Protocol::Http || is_path;
        let range = "one that begins with / and has no spaces (%20)".to_owned();
        within(ok, "path", format!("{:?}", self.path), range)?;
        let (connections, depth) = (self.connections, self.depth);
        let range = format!("1 to {CONNECTIONS_MAX}");
        let ok = (1..=CONNECTIONS_MAX).contains(&connections);
        within(ok, "connections", connections.to_string(), range)?;
        let range = format!("1 to {DEPTH_MAX}");
        within((1..=DEPTH_MAX).contains(&depth), "depth", depth.to_string(), range)?;
        if let Pace::Open { per_s } = self.pace {
            let range = "more than 0 to 1e9 requests a second".to_owned();
            within(per_s > 0.0 && per_s <= 1e9, "rate", per_s.to_string(), range)?;
        }
        within(self.duration_ns > 0, "duration", "0".to_owned(), "more than nothing".to_owned())
    }
}

impl Requested {
    /// Adds what another thread's client has done in the same time: counts add up, latencies are
    /// put together, the longer duration counts.
    pub fn merge(&mut self, other: Requested) {
        self.duration_ns = self.duration_ns.max(other.duration_ns);
        let theirs = other.counts();
        for (ours, theirs) in self.counts_mut().into_iter().zip(theirs) {
            *ours += theirs;
        }
        add(&mut self.latency, &other.latency);
        join(&mut self.service, other.service);
        join(&mut self.lateness, other.lateness);
        self.ended = match (self.ended.take(), other.ended) {
            (Some(ours), Some(theirs)) if ours != theirs => Some(format!("{ours}; {theirs}")),
            (ours, theirs) => ours.or(theirs),
        };
    }

    fn counts_mut(&mut self) -> [&mut u64; 14] {
        [
            &mut self.planned,
            &mut self.sent,
            &mut self.unsent,
            &mut self.answered,
            &mut self.lost,
            &mut self.late,
            &mut self.refused,
            &mut self.hits,
            &mut self.misses,
            &mut self.duplicated,
            &mut self.foreign,
            &mut self.reconnected,
            &mut self.sent_bytes,
            &mut self.received_bytes,
        ]
    }

    fn counts(&self) -> [u64; 14] {
        self.clone().counts_mut().map(|count| *count)
    }
}

/// Adds latencies. Both histograms have one range, so that none is refused.
fn add(ours: &mut Latency, theirs: &Latency) {
    for step in theirs.0.iter_recorded() {
        ours.record_n(step.value_iterated_to(), step.count_at_value());
    }
}

fn join(ours: &mut Option<Latency>, theirs: Option<Latency>) {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) => add(ours, &theirs),
        (ours @ None, theirs) => *ours = theirs,
        (Some(_), None) => {}
    }
}

/// The protocols, by the names they are asked for with.
const PROTOCOLS: [(Protocol, &str); 4] = [
    (Protocol::MemcachedTcp, "memcached-tcp"),
    (Protocol::MemcachedUdp, "memcached-udp"),
    (Protocol::Redis, "redis"),
    (Protocol::Http, "http"),
];

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PROTOCOLS.iter().find(|(protocol, _)| protocol == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        let found = PROTOCOLS.iter().find(|(_, name)| *name == text);
        found
            .map(|(protocol, _)| *protocol)
            .ok_or_else(|| format!("{text}: use memcached-tcp, memcached-udp, redis or http"))
    }
}
