//! Network functions that run on the NIC's queues. They see frames, and neither ports nor senders.
#![deny(unsafe_code)]

pub mod endpoint;
pub mod forward;
pub mod kvs;
pub mod service;
