//! Packets in and out of the NIC: the memory wire.
#![forbid(unsafe_code)]

pub mod wire;
