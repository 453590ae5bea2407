#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod breakdown;
mod clsact;
mod deep;
mod error;
mod leftovers;
mod maps;
pub mod parts;
mod programs;
mod stamps;
mod tcx;

#[cfg(test)]
mod programs_tests;

/// What libbpf-cargo wrote from `bpf/stamps.bpf.c`.
#[allow(unsafe_code, missing_docs, unused, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/stamps.skel.rs"));
}

/// What it wrote from `bpf/deep.bpf.c`.
#[allow(unsafe_code, missing_docs, unused, clippy::all, clippy::undocumented_unsafe_blocks)]
mod deep_skeleton {
    include!(concat!(env!("OUT_DIR"), "/deep.skel.rs"));
}

pub use clsact::Direction;
pub use deep::{Deep, Inner, Inside};
pub use error::ProbeError;
pub use leftovers::{Leftover, clean, leftovers};
pub use maps::{Counts, Flow, MessageId, sequence_behind};
pub use programs::ProgramRuns;
pub use stamps::{Hook, Stamps};
