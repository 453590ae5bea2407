#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod clock;
pub mod clocked;
pub mod drive;
pub mod echo;
mod generator;
pub mod histogram;
mod mmsg;
pub mod observation;
pub mod requests;
pub mod rings;
mod sink;
pub mod spec;
pub mod stall;
pub mod stamp;
pub mod stream;
mod tape;

pub use drive::{LoadError, drive, mark_stalls};
pub use histogram::Latency;
pub use observation::{
    Alignment, AlignmentBy, Control, Honesty, LoadObservation, PortCounters, QueueCounters,
    QueueReaction, RssChanges, Slice, Stalls, StampedFrames,
};
pub use sink::FLOWS_PROBED_MAX;
pub use spec::{Arrivals, Load, Rate};
pub use stall::StallWatch;
pub use tape::TraceFrames;
