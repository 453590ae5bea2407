//! memcached's protocols, from bytes to bytes: no socket, no clock.
//!
//! - `context`: what a codec is given, and how far it came.
//! - `statistics`: the answers to `stats`.
//! - `text`, `binary`: requests of a connection; neither knows the other.
//! - `session`: one connection, from its bytes to the answers.
//! - `datagram`: requests in a datagram, one by one and a burst together.

pub mod binary;
pub mod context;
pub mod datagram;
pub mod session;
pub mod statistics;
pub mod text;
