#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod burst;
pub mod error;
pub mod external_queue;
pub mod frame_pool;
pub mod inter_core;
pub mod link;
pub mod output;
pub mod packet;
pub mod pcap;
pub mod queue_pair;
mod sync;
pub mod tap;
pub mod wake;
#[cfg(test)]
mod wake_tests;
pub mod xdp;

pub use burst::Burst;
