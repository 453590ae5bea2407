#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod engine;
mod frame;
pub mod partition;
mod ranges;
mod region;
pub mod rule;
pub mod run;
mod steering;
mod variables;

pub use frame::flow_of;
pub use ranges::{AddressSet, RangeSet};
pub use region::{FlowEnds, Region, Selector};
pub use steering::{STEERING_CORES_MAX, STEERING_PROGRAM, SteeringError, SteeringTables};
pub use variables::{ConfigError, Variables};
