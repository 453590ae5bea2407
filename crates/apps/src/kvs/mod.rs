//! A key-value store that speaks memcached's protocols.
//!
//! - `protocol`: requests, answers and events as bytes and types.
//! - `store`: items in partitions, each a log and an index to it, within a limit of memory.
//! - `codec`: memcached's protocols, from bytes to bytes.
//! - `frames`: a host made of frames, for a card's queues.
//! - `server`: sockets of the kernel, and a thread for each core.
//!
//! Facts of the protocols are from memcached's doc/protocol.txt and doc/protocol-binary.txt, and
//! from what memcached 1.6.18 answers.

pub mod codec;
pub mod frames;
pub mod protocol;
pub mod server;
pub mod store;
