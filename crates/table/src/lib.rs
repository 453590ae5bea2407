#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod bloom;
mod bulk;
mod chunks;
mod error;
mod exact;
mod grid;
mod hash;
mod limits;
mod masks;
mod memory;
mod prefetch;
mod prune;
mod qsbr;
mod reader;
mod retired;
mod segments;
mod shared;
mod sync;
mod tags;
mod ternary;
mod tuples;
mod versioned_values;

pub use bloom::BloomFilter;
pub use chunks::{Chunks, Fifo};
pub use error::{CreateError, FilterError, InsertError, TernaryError};
pub use exact::{Config, Exact, SlotHandle};
pub use hash::{Hasher, key_bytes_max, pack_bytes, pack_key};
pub use limits::{ADD_VISITS_MAX, BURST_MAX, CAPACITY_LIMIT, KEY_WORDS_MAX, TABLES_LIMIT};
pub use masks::{EntryCursor, MaskFilter, MaskSearch, MaskSlots, MaskSource, MaskView, Pace};
pub use memory::Pages;
pub use prefetch::prefetch;
pub use prune::{
    Bits, Burst, Candidates, Filter, FilterConfig, FilterReader, FilterRule, Joined, Joining,
    Progress, Sets, Span,
};
pub use qsbr::{Participant, QsbrDomain, Stamp};
pub use reader::Reader;
pub use retired::Retired;
pub use segments::Segments;
pub use ternary::{Hit, Ternary, TernaryConfig, TernaryReader, TernaryRule, TernaryScan};
pub use tuples::{Field, Rank, TupleConfig, TupleReader, TupleSpace};
pub use versioned_values::{
    CellId, Generation, Transactions, VersionedValues, WordUpdate, is_reference,
};
