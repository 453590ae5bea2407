//! The breakdown of a round trip's time.

use niclab_load::Latency;
use serde::{Deserialize, Serialize};

/// The observation of [`Task::Breakdown`](crate::Task::Breakdown): where the time of a round trip
/// goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakdownObservation {
    /// Messages with all stamps, and those that lack one and are left out.
    pub messages: u64,
    /// As said.
    pub incomplete: u64,
    /// Median round trip of those with all stamps, nanoseconds.
    pub rtt_ns: f64,
    /// The residue that no term has, as a share; negative if the terms have more.
    pub residue_ratio: f64,
    /// The terms.
    pub terms: Vec<BreakdownTerm>,
    /// The parts of the stacks, where they were stamped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<BreakdownParts>,
    /// Round trips of the slices with probes.
    pub with: Latency,
    /// Those of the slices without.
    pub without: Latency,
    /// Median round trip of each pair of slices, with probes and without, nanoseconds.
    pub pairs: Vec<[u64; 2]>,
    /// Stamps that a message gets on its way there and back in slices with probes alone.
    pub stamps: u32,
    /// They travel in the message; else in tables of the kernel.
    pub in_payload: bool,
    /// The kernel took its stamps for the sockets (`SO_TIMESTAMPING`), and why probes did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_sockets: Option<String>,
}

/// The parts of a round trip inside the stacks: those of the request, the server's program, and
/// those of the reply. They add up to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakdownParts {
    /// Messages with all stamps, and those that lack one and are left out.
    pub messages: u64,
    /// As said.
    pub incomplete: u64,
    /// The parts: `request_stack_send` … `request_socket_receive`, `reply_…`
    /// ([`niclab_probe::parts::NAMES`]).
    pub parts: Vec<BreakdownTerm>,
    /// The residue of the median round trip that no part has, the server's program excluded, as a
    /// share.
    pub residue_ratio: f64,
}

/// One term of a round trip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakdownTerm {
    /// `client_transmit`, `server_receive`, `application`, `server_transmit`, `client_receive` or
    /// `hardware`; where nothing else is known, `client_software` and `server_software` in place of
    /// what they are the sums of.
    pub name: String,
    /// Mean over the messages whose round trip is in the middle tenth, nanoseconds: these add up.
    pub mean_ns: f64,
    /// Median over all messages, nanoseconds.
    pub median_ns: f64,
    /// 99th percentile over all messages, nanoseconds.
    pub tail_ns: f64,
    /// The core that it ended on most often.
    pub core: Option<u16>,
    /// In which share of the messages.
    pub core_share: f64,
}
