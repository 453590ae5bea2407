//! A testbed of two hosts: a tester with a port, and a device with another one, cabled to each
//! other.
//!
//! Each half is in a process of its own, on whatever host. This side asks the tester to offer a
//! load and the device to serve it, tells both when the measured part begins, and lays what both
//! counted side by side. Two clocks are aligned by markers: frames that the tester sends while
//! nothing else is under way, and that the function sends back at once. The device notes when it
//! saw each, so the clocks differ by `seen - (sent + received) / 2`, with an error of half the
//! round trip at most.

mod alignment;
mod check;
mod far;
mod frame_text;
mod marker;
mod merge;
mod tester;

pub use self::alignment::{MarkerTrip, SeenMarker, align};
pub use self::check::STALLS_MAX;
pub use self::far::{
    Caller, FarAnswer, FarHost, FarLink, FarRequest, RequestLine, ServeNotice, ServeSignal,
    write_line,
};
pub use self::marker::Marker;
pub(crate) use self::merge::balance_interface;
pub use self::merge::merge;
pub use self::tester::TesterEnds;

use std::collections::BTreeMap;

use niclab_load::{Control, Load, LoadObservation, PortCounters, RssChanges, Stalls};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// What one half of a testbed of two hosts does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HalfTask {
    /// The device's part of a load that the tester offers, while the control plane carries out a
    /// plan.
    Serve {
        /// The load.
        load: Load,
        /// The operations meanwhile.
        plan: Plan,
    },
    /// The tester's part of it.
    Offer {
        /// The load.
        load: Load,
        /// When it begins, by the tester's clock, nanoseconds. Where that is over, the tester
        /// refuses the task ([`crate::DeviceError::TooLate`]).
        start_ns: u64,
        /// Frames that the device's ring holds.
        depth: u32,
    },
    /// So many markers from the tester, each when the one before is back or lost.
    Mark {
        /// How many.
        count: u32,
    },
    /// Single frames from the tester, and those that have come to it since.
    Exchange {
        /// Frames without FCS; base64 in JSON.
        #[serde(with = "frame_text::all")]
        frames: Vec<Vec<u8>>,
    },
    /// The clock of this half.
    Clock,
}

/// What came of a [`HalfTask`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HalfObservation {
    /// Of [`HalfTask::Serve`].
    Served(Box<DeviceObservation>),
    /// Of [`HalfTask::Offer`].
    Offered(Box<TesterObservation>),
    /// Of [`HalfTask::Mark`].
    Marked(MarkedTrips),
    /// Of [`HalfTask::Exchange`].
    Exchanged(ExchangedFrames),
    /// Of [`HalfTask::Clock`]: nanoseconds.
    Clock(u64),
}

/// Which part of a testbed a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Both halves.
    #[default]
    Whole,
    /// Generator and sink.
    Tester,
    /// The device under test with its function.
    Device,
}

/// Markers of [`HalfTask::Mark`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedTrips {
    /// Those that left.
    pub sent: u64,
    /// Those that came back.
    pub trips: Vec<MarkerTrip>,
}

/// What the tester counted of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TesterObservation {
    /// The load, without the device's part.
    pub load: LoadObservation,
    /// When the measured part began, by the tester's clock, nanoseconds.
    pub opened_ns: u64,
    /// Frames that came back and found the sink's ring full.
    pub sink_missed: u64,
    /// The counters of the tester's interface.
    pub interface: InterfaceCounts,
}

/// What the device counted meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceObservation {
    /// Frames of the function by queue. [`PortCounters::rx_missed`] are those that its rings had no
    /// room for.
    pub function: PortCounters,
    /// Frames of the measured part that the function's rings had no room for.
    pub missed: u64,
    /// Frames that the function passed on before the load, such as markers: no queue counts them.
    pub shown: u64,
    /// Stalls of the function's cores.
    pub stalls: Stalls,
    /// Start, by the device's clock, and length of each, nanoseconds; the longest [`STALLS_MAX`] of
    /// them.
    pub each_stall_ns: Vec<(u64, u64)>,
    /// Share of the measured part in which the busiest core found no frames.
    pub idle_ratio: Option<f64>,
    /// Time of the measured part in which it found some, nanoseconds.
    pub busy_ns: Option<u64>,
    /// The interface's own counters of the trial.
    pub interface: InterfaceCounts,
    /// The interface is one end of a veth pair.
    pub is_veth: bool,
    /// Counters of the driver, by its own names.
    pub statistics: BTreeMap<String, u64>,
    /// The operations on rules of the plan.
    pub control: Option<Control>,
    /// The changes of RSS of the plan.
    pub rss_changes: Option<RssChanges>,
    /// In words, what is to be said of it.
    pub reasons: Vec<String>,
}

/// Frames of [`HalfTask::Exchange`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExchangedFrames {
    /// Those of the task that left.
    pub sent: usize,
    /// Those that came back, without FCS; base64 in JSON.
    #[serde(with = "frame_text::all")]
    pub received: Vec<Vec<u8>>,
}

/// What an interface counted in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounts {
    /// Frames received, with those that the function's queues had no room for.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames that found no room in the interface.
    pub rx_missed: u64,
    /// Frames that could not be sent.
    pub tx_dropped: u64,
}
