//! Whole frames: walked into layers, tunnels included, and built from layers.
//!
//! [`walk`] never fails: it lists the layers it could read and says why it stopped. [`build`]
//! makes the frame of a list of layers with every length, checksum and next-protocol field set.
//! For every frame that `build` makes, `build(&walk(&frame).to_layers())` makes it again.

mod build;
mod layer;
mod walk;

pub use build::{build, build_with_len};
pub use layer::{Layer, LayerView};
pub use walk::{ChecksumError, Span, Stack, WalkEnd, walk};

/// UDP port of MPLS label stacks in UDP (RFC 7510).
pub const MPLS_PORT: u16 = 6635;

#[cfg(test)]
mod tests;
