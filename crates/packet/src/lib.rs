#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod checksum;
pub mod echo;
pub mod flow;
pub mod key;
pub mod limits;
pub mod size;
pub mod stack;
pub mod timestamp;
pub mod trace;
pub mod wire;

mod error;
#[cfg(test)]
mod testing;

pub use error::{BuildError, LayerKind, OptionsTooLong, ParseError};
