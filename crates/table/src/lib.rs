#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bulk;
mod chunks;
mod domain;
mod error;
mod exact;
mod grid;
mod hash;
mod limits;
mod memory;
mod prefetch;
mod presence;
mod prune;
mod reader;
mod retired;
mod segments;
mod shared;
mod sync;
mod tags;
mod ternary;
mod tuples;
mod versions;

pub use chunks::{Chunks, Fifo};
pub use domain::{Domain, Participant, Stamp};
pub use error::{CreateError, FilterError, InsertError, TernaryError};
pub use exact::{Config, Exact, Spot};
pub use hash::{Hasher, key_bytes_max, pack_bytes, pack_key};
pub use limits::{ADD_VISITS_MAX, BURST_MAX, CAPACITY_LIMIT, KEY_WORDS_MAX, TABLES_LIMIT};
pub use memory::Pages;
pub use prefetch::prefetch;
pub use presence::Presence;
pub use prune::{
    Bits, Burst, Candidates, Filter, FilterConfig, FilterReader, FilterRule, Joined, Joining,
    Progress, Sets, Span,
};
pub use reader::Reader;
pub use retired::Retired;
pub use segments::Segments;
pub use ternary::{Hit, Ternary, TernaryConfig, TernaryReader, TernaryRule, TernaryScan};
pub use tuples::{Field, Rank, TupleConfig, TupleReader, TupleSpace};
pub use versions::{CellId, Changes, Generation, Placed, Versions, is_reference};
