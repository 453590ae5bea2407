#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod card;
mod counters;
mod engine;
mod name;

pub use card::{Card, CardConfig, CardError, Ended};
pub use counters::{CoreCounters, Counters, PortCounters, QueueCounters};
pub use name::{PortName, UnknownPort};
pub use niclab_port::error::PortError;
