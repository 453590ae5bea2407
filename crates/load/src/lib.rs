//! Traffic sources and sinks with honest pacing.
//!
//! [`drive`] offers a [`Load`] to an [`Outlet`](lane::Outlet), takes what comes back from an
//! [`Inlet`](lane::Inlet), and says in an [`Observation`] what became of every frame. It knows
//! frames and time; it knows no device.

pub mod clock;
pub mod drive;
mod generator;
pub mod histogram;
pub mod lane;
pub mod observation;
mod sink;
pub mod spec;
pub mod stall;
mod stamp;
mod tape;

pub use drive::{LoadError, drive};
pub use histogram::Latency;
pub use observation::{Honesty, Observation, PortCounters, QueueCounters, Slice, Stalls};
pub use spec::{Arrivals, Load, Rate};
pub use stall::StallWatch;
pub use tape::trace_frame_len_max;
