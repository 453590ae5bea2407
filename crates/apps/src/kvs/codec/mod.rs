//! memcached's protocols, from bytes to bytes: no socket, no clock.
//!
//! - `context`: what a codec is given, and what it says of the bytes that it has read.
//! - `statistics`: what `stats` tells.
//! - `text`, `binary`: requests of a connection; neither knows the other.
//! - `session`: what one connection has said so far.
//! - `datagram`: requests in a datagram, one by one and a burst together.

pub mod binary;
pub mod context;
pub mod datagram;
pub mod session;
mod statistics;
pub mod text;
