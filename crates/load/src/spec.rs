//! The load: what is offered to a device, declared.

use std::path::PathBuf;

use niclab_packet::flow::FlowSpec;
use niclab_packet::size::FrameSizes;
use serde::{Deserialize, Serialize};

/// Offered traffic: everything a testbed needs to generate it, and nothing about the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Who talks to whom.
    pub flows: FlowSpec,
    /// Frame sizes in bytes, with FCS.
    pub sizes: FrameSizes,
    /// How many frames a second.
    pub rate: Rate,
    /// How departures are spaced.
    pub arrivals: Arrivals,
    /// Length of the measured part, nanoseconds.
    pub duration_ns: u64,
    /// Length of the part before it, which is generated but never counted, nanoseconds.
    pub warmup_ns: u64,
    /// Seed of everything random in the load: which flow comes next, Poisson gaps.
    pub seed: u64,
    /// Frames of this capture, in its order and over again, in place of generated ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
}

/// How many frames a second are offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Open loop: a frame leaves at each of its planned times whatever the device does.
    Pps(f64),
    /// As fast as the device takes them: a frame is offered whenever its ring has room. It shows
    /// the device's capacity; loss and latency under it are those of a full ring.
    Saturate,
}

/// How departures are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Frame k is due at k / rate.
    #[default]
    Constant,
    /// Gaps are exponential with mean 1 / rate.
    Poisson,
}
