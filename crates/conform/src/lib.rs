#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cells;
mod fault;
mod predict;
mod run;
mod sample;
mod shrink;

pub use cells::{COLUMNS, FORMS};
pub use run::{ConformOptions, ConformProgress, conform};
