//! One file per protocol: views over bytes, and what they say as plain values.
//!
//! Every file has the same skeleton: a view over bytes; `mod field`, the table of offsets;
//! `new_checked` with `check_len`; accessors; setters; `Repr`, the header as a value, with `parse`
//! and `emit`; `Display`; tests with bytes written out.
//!
//! The contract of every view: **if `check_len` returned `Ok`, no accessor and no setter
//! panics.** A length field that states more than there is does not break it: payloads are cut to
//! the bytes there are. Setters that change a header's length void the check.
//!
//! `Repr::buffer_len` is the header's length in bytes without payload; `emit` writes exactly so
//! many bytes. Checksums that cover a payload are left 0 by `emit`; `fill_checksum` comes after.

pub(crate) mod bytes;
mod types;

pub mod arp;
pub mod auth;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_ext;
pub mod ipv6_fragment;
pub mod mpls;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use types::{EtherType, IpProtocol, MacAddress, MacAddressError, OptionBytes};
