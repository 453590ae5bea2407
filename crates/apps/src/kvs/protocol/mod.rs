//! Requests, answers and events as bytes and types: what all other folders of `kvs` agree on.
//!
//! - `request`, `answer`: requests that change an item, and what they led to.
//! - `hash`, `time`, `number`: keys with their hashes, times and numbers, as memcached reads them.
//! - `binary`, `datagram`: the bytes of memcached's binary protocol and of its UDP.
//! - `event`: what a card reports to the core that owns a key.
//! - `limits`: how long all of these may be.

pub(super) mod answer;
pub(super) mod binary;
pub mod datagram;
pub mod event;
pub mod hash;
pub mod limits;
pub(super) mod number;
pub(super) mod request;
pub mod time;

/// The answer to `version`: the release of memcached whose protocol this is, and our name.
pub const VERSION: &str = "1.6.18-niclab";
