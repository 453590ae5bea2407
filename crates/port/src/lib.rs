//! Packets in and out of the NIC: the memory wire, and the queues behind a NIC.
#![forbid(unsafe_code)]

pub mod queues;
pub mod wire;
