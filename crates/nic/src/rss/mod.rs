//! Receive side scaling: hash, indirection table, queue.
//!
//! The hash is Toeplitz's, over addresses and ports in Microsoft's layout ("RSS Hashing Types",
//! <https://learn.microsoft.com/windows-hardware/drivers/network/rss-hashing-types>). [`HashTypes`]
//! say which fields of which packets are hashed. The low bits of the hash select an entry of the
//! indirection table, which names the queue.
//!
//! A state of RSS, a context, never changes and is only replaced. Workers find it by its number,
//! which they hold for a burst at most. `contexts` says when a number is reused.

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

/// The queue for each remainder of the hash modulo [`INDIRECTION_LEN`].
pub type Indirection = [u16; INDIRECTION_LEN];

/// The hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// The same hash for both directions of a flow: source and destination are each replaced by the
    /// exclusive or of both, and a field that is not hashed is zero (`rte_flow.h` of DPDK 22.11,
    /// `RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ`). Hashes of different flows coincide more often,
    /// because only the difference of each pair counts.
    SymmetricToeplitz,
    /// Source, then destination.
    #[default]
    Toeplitz,
}

/// Which headers are hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RssLevel {
    /// The headers inside a tunnel. The outermost headers if no IP packet is inside, and for
    /// fragments of a tunnel, so that all of them have one hash.
    Inner,
    /// The outermost headers.
    #[default]
    Outermost,
}

/// A state of RSS.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rss {
    /// The hash function.
    pub function: HashFunction,
    /// The indirection table.
    #[serde(with = "written")]
    pub indirection: Box<Indirection>,
    /// The hash's key, 40 to 128 bytes; see [`crate::toeplitz`].
    pub key: Vec<u8>,
    /// Which headers are hashed.
    pub level: RssLevel,
    /// Which packets and fields are hashed.
    pub types: HashTypes,
}

impl Default for Rss {
    /// Hashes addresses of all IP packets and ports of TCP and UDP, with Microsoft's key; all to
    /// queue 0.
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

/// Identifies a state of RSS, without its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RssStamp {
    /// Number of the state, from 1; newer states have greater numbers.
    pub state: u64,
    /// Two states with the same value give every packet the same hash: at most their indirection
    /// tables differ.
    pub hash: u64,
}

/// Serializes an indirection table as a list of queues.
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

/// An indirection table that names these queues in turn, so that their numbers of entries differ by
/// one at most: `evenly(2..6)`. Without queues, it names queue 0.
pub fn evenly(queues: impl IntoIterator<Item = u16, IntoIter: Clone>) -> Box<Indirection> {
    let mut queues = queues.into_iter().cycle();
    Box::new(std::array::from_fn(|_| queues.next().unwrap_or(0)))
}
