//! Traffic sources and sinks with honest pacing.
#![forbid(unsafe_code)]

pub mod histogram;
pub mod spec;

pub use histogram::Latency;
pub use spec::{Arrivals, Load, Rate};
