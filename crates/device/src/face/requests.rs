//! Requests of clients to a server of others, and the resources that both hosts used.

use niclab_load::requests::{Requested, Requests};
use serde::{Deserialize, Serialize};

use super::{BreakdownObservation, Family, Host};
use crate::usage::CoreUse;

/// Requests of clients to a server on the other of two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Application {
    /// The host of the clients; the server is on the other.
    pub client: Host,
    /// The network protocol.
    pub family: Family,
    /// Cores of the server, from 1; the clients have the others, one client a core, or share one
    /// where none is left.
    pub cores: u16,
    /// A breakdown of the requests is asked for, too: some are made again behind the measured part,
    /// with probes and without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stamps: bool,
    /// The requests of all clients. Their protocol selects the server: memcached, redis-server, or
    /// a function over HTTP that echoes its request.
    pub requests: Requests,
}

/// The observation of [`Task::Requests`](crate::Task::Requests).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestsObservation {
    /// The observation of the clients.
    pub requested: Requested,
    /// The use of the clients' cores in the measured part.
    pub client: Vec<CoreUse>,
    /// The use of the server's cores; empty for a server of others.
    pub server: Vec<CoreUse>,
    /// The traffic of the clients' interface in the measured part.
    pub link: Option<LinkUse>,
    /// The energy that the machine consumed meanwhile.
    pub energy: Energy,
    /// How long cores, interface and meters were watched, nanoseconds: the measured part, and
    /// longer where the machine stalled.
    pub watched_ns: u64,
    /// Where the time of a request goes, or why nobody knows; `None` where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<Result<BreakdownObservation, String>>,
}

/// The traffic of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    /// Bytes of frames without FCS that it sent.
    pub tx_bytes: u64,
    /// Bytes of frames without FCS that it received.
    pub rx_bytes: u64,
    /// Its speed, bits a second; `None` where it has none, as a veth pair.
    pub bits_per_s: Option<u64>,
}

/// Energy of a whole machine over a measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Energy {
    /// So much.
    Measured {
        /// Joules.
        joules: f64,
        /// Which meters: `package-0`, …
        meters: Vec<String>,
    },
    /// Nobody knows.
    Unknown {
        /// Why.
        why: String,
    },
}

impl Default for Energy {
    fn default() -> Energy {
        Energy::Unknown { why: "it was not asked for".to_owned() }
    }
}
