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
    /// The feature in their path.
    #[serde(default, skip_serializing_if = "Feature::is_none")]
    pub feature: Feature,
    /// A breakdown stamps inside the stacks too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deep: bool,
    /// A breakdown has the stamps of sockets, and not those of probes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sockets: bool,
    /// The messages of the client, and how both wait.
    pub echo: Echo,
}

/// The observation of [`Task::RoundTrips`](crate::Task::RoundTrips).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTripsObservation {
    /// The observation of the client.
    pub echoed: Echoed,
    /// The counters of the server, warm-up included; `None` for a server of others.
    pub served: Option<Served>,
}

/// Bulk data from one host to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streaming {
    /// The host that sends.
    pub client: Host,
    /// The stream. Each side has as many cores as threads, a thread on each.
    pub stream: Stream,
}

/// The observation of [`Task::Stream`](crate::Task::Stream).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamObservation {
    /// The counts of the sender.
    pub sent: Sent,
    /// The counts of the receiver: the carried data.
    pub received: Received,
    /// The use of the sender's cores in the measured part, by all programs. It is counted in ticks:
    /// see [`usage`](crate::usage).
    pub sender_cores: Vec<CoreUse>,
    /// And the receiver's.
    pub receiver_cores: Vec<CoreUse>,
}
