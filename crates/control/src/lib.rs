#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod counters;
mod error;
mod flow;
mod request;
mod response;
mod tables;

pub use client::{Client, Connection};
pub use counters::{
    ApplicationCounters, CardCounters, CoreCounters, ExternalQueueCounters, PortCounters,
    QueueCounters,
};
pub use error::ControlError;
pub use flow::{FlowDone, ListedRule};
pub use request::{Request, TextFile, Width};
pub use response::{
    ApplicationStatus, CaptureState, DigestField, Response, RingShape, WindowShape,
};
pub use tables::{DefaultAction, TableEntries, TableState};

/// Longest request, and longest answer made from tables, bytes: a file of tables for a million
/// entries. All requests that a card has not yet heard to their end share this limit.
pub const LINE_LEN_MAX: usize = 64 << 20;
