//! The software NIC: frame pool, RSS, rule groups, actions, counters.
//!
//! [`Nic`] is the control side: it creates, changes and destroys rules. A [`Worker`] is the
//! pipeline of one core: it takes a burst of frames and says for each where it goes. They share
//! memory, and neither waits for the other. What a rule means is said in [`rule`]; where frames
//! live, in [`memory`]. The NIC knows no wire, no device and no experiment.
#![deny(unsafe_code)]

mod control;
mod counters;
pub mod limits;
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
