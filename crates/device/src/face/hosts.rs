//! Two hosts on a wire: round trips of messages, and bulk data from one to the other.

use niclab_load::echo::{Echo, Echoed, Served};
use niclab_load::stream::{Received, Sent, Stream};
use serde::{Deserialize, Serialize};

use crate::feature::Feature;
use crate::usage::CoreUse;

/// One of two hosts on a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// The one that niclab runs on; of a testbed in one machine, the first.
    #[default]
    Here,
    /// The other one.
    There,
}

/// Network protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// IPv4 (RFC 791).
    #[default]
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

/// Round trips of messages between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// The host that the client is on; the server is on the other.
    pub client: Host,
    /// The network protocol.
    pub family: Family,
    /// Real-time priority of both, as far as they are ours to set: 1 to 99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fifo: Option<u8>,
    /// What else stands in their path.
    #[serde(default, skip_serializing_if = "Feature::is_none")]
    pub feature: Feature,
    /// A breakdown stamps inside the stacks too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
    /// A breakdown has the stamps of sockets, and not those of probes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sockets: bool,
    /// What the client sends, and how both wait.
    pub echo: Echo,
}

/// The observation of [`Task::RoundTrips`](crate::Task::RoundTrips).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTripsObservation {
    /// What the client saw.
    pub echoed: Echoed,
    /// What the server counted, warm-up included; `None` where it is not ours to ask.
    pub served: Option<Served>,
}

/// Bulk data from one host to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streaming {
    /// The host that sends.
    pub client: Host,
    /// What is sent. Each side has as many cores as it has threads, a thread on each.
    pub stream: Stream,
}

/// The observation of [`Task::Stream`](crate::Task::Stream).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamObservation {
    /// What the sender did.
    pub sent: Sent,
    /// What the receiver got: this is what was carried.
    pub received: Received,
    /// What the sender's cores were busy with in the measured part, whoever's work it was. It is
    /// counted in ticks: see [`usage`](crate::usage).
    pub sender_cores: Vec<CoreUse>,
    /// And the receiver's.
    pub receiver_cores: Vec<CoreUse>,
}
