//! Requests of clients to a server of others, and the resources that both hosts used.

use niclab_load::requests::{Requested, Requests};
use serde::{Deserialize, Serialize};

use super::{BreakdownObservation, Family, Host};
use crate::usage::CoreUse;

/// What clients ask of a server's program on the other of two hosts.
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
    /// What all clients together ask. Its protocol says which program serves: memcached,
    /// redis-server, or a function over HTTP that sends back what it is sent.
    pub requests: Requests,
}

/// The observation of [`Task::Requests`](crate::Task::Requests).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestsObservation {
    /// What the clients saw.
    pub requested: Requested,
    /// What the clients' cores were busy with in the measured part.
    pub client: Vec<CoreUse>,
    /// What the server's were; empty where they are not ours to ask.
    pub server: Vec<CoreUse>,
    /// What went over the clients' interface in the measured part.
    pub link: Option<LinkUse>,
    /// What the machine consumed meanwhile.
    pub energy: Energy,
    /// How long cores, interface and meters were watched, nanoseconds: the measured part, and
    /// longer where the machine stalled.
    pub watched_ns: u64,
    /// Where the time of a request goes, or why nobody knows; `None` where it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakdown: Option<Result<BreakdownObservation, String>>,
}

/// What went over an interface.
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
