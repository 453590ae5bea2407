#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod burst;
pub mod crossing;
pub mod error;
pub mod frame_pool;
pub mod guest;
pub mod lane;
pub mod link;
pub mod output;
pub mod packet;
pub mod pcap;
mod sync;
pub mod tap;
pub mod wake;
#[cfg(test)]
mod wake_tests;
pub mod xdp;

pub use burst::Burst;
