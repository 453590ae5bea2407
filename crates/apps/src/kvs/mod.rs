//! A key-value store that speaks memcached's protocols.
//!
//! - `protocol`: requests, answers and events as bytes and types.
//! - `store`: items in partitions, each a log and an index to it, within a limit of memory.
//! - `codec`: memcached's protocols, from bytes to bytes.
//! - `transport`: how requests come and answers leave, by sockets of the kernel or a card's queues.
//!
//! Each of these knows those above it in this list alone (`tidy` holds it).
//!
//! Facts of the protocols are from memcached's doc/protocol.txt and doc/protocol-binary.txt, and
//! from what memcached 1.6.18 answers.

pub mod codec;
pub mod protocol;
pub mod store;
pub mod transport;
