//! A key-value store that speaks memcached's protocols.
//!
//! - `store`: items in partitions, each a log and an index to it, within a limit of memory.
//! - `text`, `binary`, `datagram`: memcached's protocols: bytes in, bytes out.
//! - `session`: what one connection has said so far.
//! - `server`: sockets of the kernel, and a thread for each core.
//!
//! Facts of the protocols are from memcached's doc/protocol.txt and doc/protocol-binary.txt, and
//! from what memcached 1.6.18 answers.

pub mod hash;
pub mod limits;
pub mod store;
pub mod time;
