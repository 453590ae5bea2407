//! Every limit of the crate, with its reason.

/// Layers [`crate::stack::walk`] lists before it gives up. An outer and an inner stack with two
/// VLAN tags, a label stack and a full extension chain each need fewer.
pub const LAYERS_MAX: usize = 32;

/// Tunnel headers (GRE, VXLAN, GENEVE, an MPLS stack, IP in IP) walked into, one in another.
pub const TUNNELS_MAX: usize = 4;

/// IPv6 extension headers (and AH) walked between one IP header and its transport header.
/// RFC 8200 §4.1 names seven distinct positions.
pub const EXTENSIONS_MAX: usize = 8;

/// Longest IPv4 or TCP option area in bytes: a 4-bit word count less the 20-byte header.
pub const OPTIONS_LEN_MAX: usize = 40;

/// Longest GENEVE option area in bytes: a 6-bit count of 4-byte words.
pub const GENEVE_OPTIONS_LEN_MAX: usize = 252;

/// Longest frame [`crate::stack::build`] makes, in bytes without FCS: the largest IPv6 packet in
/// an Ethernet frame with tags, and some room for tunnels around a jumbo frame.
pub const FRAME_LEN_MAX: usize = 65_536 + 512;

/// Flows in one set: 16 Mi, the largest published flow tables with room to spare.
pub const FLOWS_MAX: u32 = 1 << 24;

/// Longest block or record of a capture file in bytes. Larger ones are a corrupt length field.
pub const RECORD_LEN_MAX: usize = 16 << 20;

/// Frame bytes a [`crate::trace::Trace`] holds unless told otherwise: 1 GiB.
pub const TRACE_LEN_MAX: usize = 1 << 30;

/// Records a [`crate::trace::Trace`] holds unless told otherwise: 16 Mi.
pub const TRACE_RECORDS_MAX: usize = 1 << 24;

const _: () = assert!(TUNNELS_MAX < LAYERS_MAX);
const _: () = assert!(EXTENSIONS_MAX < LAYERS_MAX);
const _: () = assert!(FRAME_LEN_MAX < RECORD_LEN_MAX);
const _: () = assert!(RECORD_LEN_MAX <= TRACE_LEN_MAX);
