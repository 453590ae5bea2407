#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod array;
mod bulk;
mod domain;
mod error;
mod exact;
mod grid;
mod hash;
mod limbo;
mod limits;
mod memory;
mod prefetch;
mod reader;
mod segments;
mod shared;
mod sync;
mod tags;
mod versions;

pub use domain::{Domain, Participant, Stamp};
pub use error::{CreateError, InsertError};
pub use exact::{Config, Exact};
pub use hash::pack_key;
pub use limits::{BURST_MAX, CAPACITY_LIMIT, KEY_WORDS_MAX};
pub use memory::Pages;
pub use prefetch::prefetch;
pub use reader::Reader;
pub use segments::Segments;
pub use versions::{CellId, Changes, Generation, Placed, Versions, is_reference};
