//! Result directories: the documents a run writes, appended and synced, read back and resumed.
//!
//! `lab` writes them, `report` and the command line read them, and neither needs the other. This
//! crate knows how a document looks and how it reaches the disk; it knows no device, runs nothing
//! and computes no statistics.
#![forbid(unsafe_code)]

pub mod document;

pub use document::*;
