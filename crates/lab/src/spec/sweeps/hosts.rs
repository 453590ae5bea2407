//! Sweeps over what two hosts say to each other over the stack of the kernel.

use serde::Deserialize;

use super::{none, one, word, zero};
use crate::values::Values;

/// A product of axes of messages that go to an echo server and back.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EchoSweep {
    /// `udp`, `tcp`.
    #[serde(default = "udp")]
    pub transport: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the client: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// How both wait: `blocking`, `busy-poll`, `epoll`, `io-uring`.
    #[serde(default = "blocking")]
    pub receive: Values,
    /// Messages a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Bytes of a message.
    pub size: Values,
    /// Messages sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// What else stands in the path: `none`, `nft-100`, `vxlan`, `fq_codel`.
    #[serde(default = "none")]
    pub feature: Values,
    /// Of a ledger: whether it stamps inside the stacks too, `no` or `yes`.
    #[serde(default = "no")]
    pub deep: Values,
    /// Of a ledger: whose stamps it has, those of `probes` or of `sockets`.
    #[serde(default = "probes")]
    pub stamps: Values,
}

impl EchoSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "transport" => Some(&mut self.transport),
            "family" => Some(&mut self.family),
            "client" => Some(&mut self.client),
            "receive" => Some(&mut self.receive),
            "rate" => Some(&mut self.rate),
            "size" => Some(&mut self.size),
            "batch" => Some(&mut self.batch),
            "feature" => Some(&mut self.feature),
            "deep" => Some(&mut self.deep),
            "stamps" => Some(&mut self.stamps),
            _ => None,
        }
    }
}

fn udp() -> Values {
    word("udp")
}

fn blocking() -> Values {
    word("blocking")
}

fn probes() -> Values {
    word("probes")
}

/// Axes of `echo`.
pub(crate) const ECHO_AXES: &[(&str, &str)] = &[
    ("transport", "udp or tcp"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the client: here or there"),
    ("receive", "how both wait: blocking, busy-poll, epoll or io-uring"),
    ("rate", "messages a second whatever comes back, or closed: a batch when the last is back"),
    ("size", "bytes of a message, 16 to 65507"),
    ("batch", "messages sent by one call, 1 to 1024"),
    ("deep", "a ledger stamps inside the stacks too, over UDP: no, yes"),
    ("stamps", "whose a ledger has: of probes, or where there are none of sockets; sockets"),
    ("feature", "in the path: none, nft-RULES, vxlan, or a queueing discipline such as fq_codel"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of what clients ask of a server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationSweep {
    /// `memcached-tcp`, `memcached-udp`, `redis`, `http`.
    pub protocol: Values,
    /// `ipv4`, `ipv6`.
    #[serde(default = "ipv4")]
    pub family: Values,
    /// The host of the clients: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// What is asked for over HTTP.
    #[serde(default = "root")]
    pub path: Values,
    /// Percent of the requests that are gets.
    #[serde(default = "zero")]
    pub gets: Values,
    /// Bytes of a value, or `etc`.
    pub size: Values,
    /// How many keys there are.
    #[serde(default = "keys_default")]
    pub keys: Values,
    /// Requests a second whatever comes back, or `closed`.
    #[serde(default = "closed")]
    pub rate: Values,
    /// Connections, or so many for each core of the server: `100/core`.
    #[serde(default = "one")]
    pub connections: Values,
    /// Requests that wait on each connection.
    #[serde(default = "one")]
    pub depth: Values,
    /// Cores of the server, or `to-all`.
    #[serde(default = "one")]
    pub cores: Values,
    /// Whether there is a ledger of the requests, too: `no` or `yes`.
    #[serde(default = "no")]
    pub stamps: Values,
}

impl ApplicationSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "protocol" => Some(&mut self.protocol),
            "family" => Some(&mut self.family),
            "client" => Some(&mut self.client),
            "path" => Some(&mut self.path),
            "gets" => Some(&mut self.gets),
            "size" => Some(&mut self.size),
            "keys" => Some(&mut self.keys),
            "rate" => Some(&mut self.rate),
            "connections" => Some(&mut self.connections),
            "depth" => Some(&mut self.depth),
            "cores" => Some(&mut self.cores),
            "stamps" => Some(&mut self.stamps),
            _ => None,
        }
    }
}

fn root() -> Values {
    word("/")
}

fn keys_default() -> Values {
    Values(vec![niclab_result::Coordinate::Number(10_000.0)])
}

/// Axes of `application`.
pub(crate) const APPLICATION_AXES: &[(&str, &str)] = &[
    ("protocol", "memcached-tcp, memcached-udp, redis or http"),
    ("family", "ipv4 or ipv6"),
    ("client", "the host of the clients: here or there"),
    ("path", "what is asked for over http: /"),
    ("gets", "percent of the requests that are gets; the others are sets"),
    ("size", "bytes of a value, or etc: lengths and order of keys as measured at Facebook"),
    ("keys", "how many there are"),
    ("rate", "requests a second whatever comes back, or closed: one when another is answered"),
    ("connections", "1 to 10000, or so many for each core of the server: 100/core"),
    ("depth", "requests that wait on each connection"),
    ("cores", "of the server; to-all: 1, 2, 4 and so on, and all there are"),
    ("stamps", "where the time of a request goes, too, over TCP: no, yes"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

/// A product of axes of bulk data from one host to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSweep {
    /// `udp`, `tcp`.
    pub transport: Values,
    /// The host that sends: `here`, `there`.
    #[serde(default = "here")]
    pub client: Values,
    /// Bytes given to the kernel at once.
    pub size: Values,
    /// Datagrams sent by one call.
    #[serde(default = "one")]
    pub batch: Values,
    /// Connections, or pairs of sockets.
    #[serde(default = "one")]
    pub connections: Values,
    /// Cores of each side, a thread on each.
    #[serde(default = "one")]
    pub cores: Values,
    /// Datagrams a second, or `full`.
    #[serde(default = "full")]
    pub rate: Values,
}

impl StreamSweep {
    pub(crate) fn axis(&mut self, name: &str) -> Option<&mut Values> {
        match name {
            "transport" => Some(&mut self.transport),
            "client" => Some(&mut self.client),
            "size" => Some(&mut self.size),
            "batch" => Some(&mut self.batch),
            "connections" => Some(&mut self.connections),
            "cores" => Some(&mut self.cores),
            "rate" => Some(&mut self.rate),
            _ => None,
        }
    }
}

fn full() -> Values {
    word("full")
}

/// Axes of `stream`.
pub(crate) const STREAM_AXES: &[(&str, &str)] = &[
    ("transport", "tcp or udp"),
    ("client", "the host that sends: here or there"),
    ("size", "bytes given to the kernel at once: 1 to 1048576 of a write, 16 to 65507 over UDP"),
    ("batch", "datagrams sent by one call, 1 to 1024 (UDP alone)"),
    ("connections", "connections, or pairs of sockets, 1 to 256"),
    ("cores", "cores of each side, a thread on each"),
    ("rate", "datagrams a second (UDP alone), or full: as fast as they go"),
    ("duration_ms", "measured part of a trial, one value"),
    ("warmup_ms", "part before it that is never counted, one value"),
];

fn ipv4() -> Values {
    word("ipv4")
}

fn here() -> Values {
    word("here")
}

fn closed() -> Values {
    word(crate::exchange::CLOSED)
}

fn no() -> Values {
    word("no")
}
