//! Network functions that run on the NIC's queues. They see frames; they know no NIC and no wire.
#![deny(unsafe_code)]

pub mod forward;
pub mod kvs;
pub mod service;
