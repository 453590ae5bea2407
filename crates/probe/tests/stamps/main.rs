//! Stamps in real packets: two anonymous network namespaces, joined by a veth pair.
//!
//! - `wire`: the two namespaces and what hangs in them
//! - `system`: calls to the kernel that the standard library does not make
//! - `udp`, `checksums`, `tcp`, `foreign`: what happens to packets
//! - `leaving`: what is left behind, and what is not
//! - `price`: what a stamp costs

mod checksums;
mod foreign;
mod leaving;
mod price;
mod system;
mod tcp;
mod udp;
mod wire;
