#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod control;
mod counters;
pub mod definition;
mod groups;
pub mod limits;
mod mask;
pub mod memory;
mod rss;
pub mod rule;
mod segments;
mod tables;
#[allow(unsafe_code)]
pub mod toeplitz;
mod word;
mod worker;

pub use control::{Nic, NicConfig, NicError, RuleError, RuleId};
pub use counters::Counts;
pub use worker::Worker;
