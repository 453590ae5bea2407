//! Receive side scaling: hash, indirection table, queue.
//!
//! The hash is Toeplitz's, over addresses and ports as Microsoft lays them out ("RSS Hashing
//! Types", <https://learn.microsoft.com/windows-hardware/drivers/network/rss-hashing-types>); which
//! of them count for which packets, [`HashTypes`] say. Its low bits pick an entry of the
//! indirection table, which names the queue.
//!
//! A state of all that, a context, is never changed, only replaced: workers
//! find it by its number, which is in their hands for a burst at most. `contexts` says when a
//! number is given again.

mod action;
mod change;
pub(crate) mod context;
pub(crate) mod contexts;
mod shares;
mod types;

pub use action::RssAction;
pub use change::RssChange;
pub use types::HashTypes;

use serde::{Deserialize, Serialize};

use crate::limits::INDIRECTION_LEN;
use crate::toeplitz::MICROSOFT_KEY;

/// The queue for each remainder of the hash by [`INDIRECTION_LEN`].
pub type Indirection = [u16; INDIRECTION_LEN];

/// How a hash is taken of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// The same for both directions of a flow: source and destination are each replaced by the
    /// exclusive or of both, a field that does not count being zero (`rte_flow.h` of DPDK 22.11,
    /// `RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ`). Hashes of several flows coincide more often:
    /// of each pair only the difference counts.
    SymmetricToeplitz,
    /// Source, then destination.
    #[default]
    Toeplitz,
}

/// Of which headers a hash is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RssLevel {
    /// Those inside a tunnel; the outermost where there is no IP packet inside, and of fragments of
    /// a tunnel, so that all of them have one hash.
    Inner,
    /// The outermost.
    #[default]
    Outermost,
}

/// A state of RSS.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rss {
    /// The hash.
    pub function: HashFunction,
    /// The queues.
    #[serde(with = "written")]
    pub indirection: Box<Indirection>,
    /// The hash's key, 40 to 128 bytes; see [`crate::toeplitz`].
    pub key: Vec<u8>,
    /// Of which headers.
    pub level: RssLevel,
    /// What is hashed.
    pub types: HashTypes,
}

impl Default for Rss {
    /// Addresses of all IP packets, ports of TCP and UDP, Microsoft's key; all to queue 0.
    fn default() -> Rss {
        Rss {
            function: HashFunction::Toeplitz,
            indirection: Box::new([0; INDIRECTION_LEN]),
            key: MICROSOFT_KEY.to_vec(),
            level: RssLevel::Outermost,
            types: HashTypes::IP | HashTypes::TCP | HashTypes::UDP,
        }
    }
}

/// Which state of RSS it is that spreads, without what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssStamp {
    /// Each state that is made has a greater one than those before, from 1.
    pub state: u64,
    /// Two states that have the same give every packet the same hash: they differ in the
    /// indirection table at most.
    pub hash: u64,
}

/// An indirection table as it is written down: a list of as many queues.
mod written {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{INDIRECTION_LEN, Indirection};

    pub fn serialize<S: Serializer>(table: &Indirection, to: S) -> Result<S::Ok, S::Error> {
        table[..].serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Indirection>, D::Error> {
        let queues: Box<[u16]> = Vec::<u16>::deserialize(from)?.into();
        let wrong = |queues: Box<[u16]>| {
            let len = queues.len();
            D::Error::custom(format!("indirection has {len} entries: {INDIRECTION_LEN} are wanted"))
        };
        queues.try_into().map_err(wrong)
    }
}

/// An indirection table that names these queues in turn, so that each has as many entries as any
/// other, or one less: `evenly(2..6)`. Of no queues, it names queue 0.
pub fn evenly(queues: impl IntoIterator<Item = u16, IntoIter: Clone>) -> Box<Indirection> {
    let mut queues = queues.into_iter().cycle();
    Box::new(std::array::from_fn(|_| queues.next().unwrap_or(0)))
}
