//! Structs and numbers of the C interface. `niclab.h` is made of them.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

use super::profiles::CardProfile;
use crate::flow_queue::QUEUE_SIZE_MAX;
use crate::indirect_actions::INDIRECT_ACTIONS_MAX;
use crate::port::FRAME_LEN_MAX;

/// Bytes of [`niclab_error::message`].
pub const NICLAB_MESSAGE_LEN: usize = 240;

/// Frames of one call of `niclab_classify`, `niclab_port_receive` and `niclab_port_send`.
pub const NICLAB_BURST: usize = 64;

/// Entries of the RSS indirection table.
pub const NICLAB_INDIRECTION_LEN: usize = 512;

/// The longest RSS key, bytes. The shortest is 40.
pub const NICLAB_RSS_KEY_LEN_MAX: usize = 128;

/// The longest frame of a port that leads out of the process, bytes without the frame check
/// sequence.
pub const NICLAB_FRAME_LEN_MAX: usize = 1_522;
const _: () = assert!(NICLAB_FRAME_LEN_MAX == FRAME_LEN_MAX);

/// The most operations of a queue whose results were not pulled.
pub const NICLAB_QUEUE_SIZE_MAX: u32 = 1 << 20;
const _: () = assert!(NICLAB_QUEUE_SIZE_MAX == QUEUE_SIZE_MAX);

/// The most indirect actions.
pub const NICLAB_INDIRECT_ACTIONS_MAX: usize = 1 << 20;
const _: () = assert!(NICLAB_INDIRECT_ACTIONS_MAX == INDIRECT_ACTIONS_MAX);

/// The part of a call that an error concerns.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum niclab_part {
    /// Nothing in particular.
    None = 0,
    /// An action, by its index.
    Action = 1,
    /// The list of actions as a whole.
    Actions = 2,
    /// The group.
    Group = 3,
    /// A handle: of a rule, of an indirect action.
    Handle = 4,
    /// An item, by its index.
    Item = 5,
    /// The priority.
    Priority = 6,
    /// The NIC's room for rules.
    Room = 7,
}

/// Why a call failed. Every function that can fail returns 0, or a negative `errno` and fills this
/// in, unless the pointer to it is null. A call that fails changes nothing.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_error {
    /// A `niclab_part`.
    pub part: u32,
    /// Which item or action, from 0.
    pub index: u32,
    /// The fault, its place and the remedy; ends with a zero byte.
    pub message: [c_char; NICLAB_MESSAGE_LEN],
}

/// A NIC to open.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_config {
    /// Receive queues, 1 to 256.
    pub queues: u16,
    /// Ethernet ports that rules can send packets by, 1 to 256.
    pub ports: u16,
    /// Seed of the tables' hashes.
    pub seed: u64,
    /// The card whose limits the NIC has; null for those of niclab.
    pub profile: *const CardProfile,
}

/// The kind of an item. The bytes of an item are those of the header on the wire.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum niclab_item_kind {
    /// Ethernet: 14 bytes, and a byte whose bit 0 says that a VLAN tag follows.
    Eth = 0,
    /// A VLAN tag: TCI and type, 4 bytes, and a byte whose bit 0 says that another tag follows.
    Vlan = 1,
    /// IPv4 without options: 20 bytes.
    Ipv4 = 2,
    /// IPv6: 40 bytes, and a byte whose bit 0 says that a fragment header follows.
    Ipv6 = 3,
    /// ICMP: 8 bytes.
    Icmp = 4,
    /// ICMPv6: 4 bytes.
    Icmp6 = 5,
    /// TCP without options: 20 bytes.
    Tcp = 6,
    /// UDP: 8 bytes.
    Udp = 7,
    /// GRE: its first 4 bytes.
    Gre = 8,
    /// The key after a GRE header: 4 bytes.
    GreKey = 9,
    /// VXLAN: 8 bytes.
    Vxlan = 10,
    /// GENEVE without options: 8 bytes.
    Geneve = 11,
    /// One MPLS label: 4 bytes.
    Mpls = 12,
    /// Metadata that rules set: 4 bytes, most significant first.
    Meta = 13,
    /// A tag that rules set: 4 bytes, most significant first, and the number of the tag.
    Tag = 14,
    /// Bytes at an offset, 48 bytes: bit 7 of byte 0 is `relative`, bit 6 `search`; offset (4
    /// bytes, signed), limit (2), the number of bytes (1), and the bytes. Numbers begin with the
    /// most significant byte.
    Raw = 15,
    /// SCTP, its common header: 12 bytes.
    Sctp = 16,
    /// ESP: SPI and sequence number, 8 bytes.
    Esp = 17,
    /// The authentication header without its check value: 12 bytes.
    Ah = 18,
    /// ARP for Ethernet and IPv4: 28 bytes.
    ArpEthIpv4 = 19,
    /// The fragment header of IPv6: 8 bytes.
    Ipv6FragExt = 20,
    /// PPPoE in its discovery stage: 6 bytes.
    Pppoed = 21,
    /// PPPoE in its session stage: 6 bytes.
    Pppoes = 22,
    /// GRE as NVGRE has it, with its key: 8 bytes.
    Nvgre = 23,
    /// VXLAN-GPE: 8 bytes.
    VxlanGpe = 24,
    /// GTP of version 1, on the port of GTP-U or GTP-C: 8 bytes.
    Gtp = 25,
    /// GTP-C of version 1: 8 bytes.
    Gtpc = 26,
    /// GTP-U: 8 bytes.
    Gtpu = 27,
    /// The PDU session container, an extension header of GTP-U: 3 bytes.
    GtpPsc = 28,
}

/// An item of a pattern. Without `spec` it matches every packet that has the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_item {
    /// A `niclab_item_kind`.
    pub kind: u32,
    /// Values, as many bytes as the kind has; or null.
    pub spec: *const u8,
    /// Greatest values of ranges; or null.
    pub last: *const u8,
    /// Which bits count; null for the mask that `rte_flow` has as default.
    pub mask: *const u8,
}

/// The kind of an action.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum niclab_action_kind {
    /// Report the rule as aged after `value` seconds without a packet; `context` is reported, or
    /// the handle if it is 0.
    Age = 0,
    /// Count packets and bytes.
    Count = 1,
    /// Decrement TTL or hop limit.
    DecTtl = 2,
    /// Discard the packet.
    Drop = 3,
    /// Flag the packet.
    Flag = 4,
    /// Go on in group `value`.
    Jump = 5,
    /// Mark the packet with `value`.
    Mark = 6,
    /// Drop the packet if it exceeds meter `value`.
    Meter = 7,
    /// Remove an NVGRE tunnel.
    NvgreDecap = 8,
    /// Put the headers in `bytes` in front: Ethernet, IP, GRE with a key.
    NvgreEncap = 9,
    /// Remove the outermost VLAN tag.
    PopVlan = 10,
    /// Send the packet by port `value`; 0 is the port that it came in by.
    Port = 11,
    /// Put a VLAN tag of type `value` in front.
    PushVlan = 12,
    /// Deliver to queue `value`.
    Queue = 13,
    /// Remove `value` bytes in front.
    RawDecap = 14,
    /// Put `bytes` in front.
    RawEncap = 15,
    /// Deliver to one of several queues; see `rss`.
    Rss = 16,
    /// Set a field of a header, `index` is a `niclab_field`; the value is `value`, or `bytes` for
    /// addresses.
    Set = 17,
    /// Set the bits `mask` of the metadata to those of `value`.
    SetMeta = 18,
    /// Set the bits `mask` of tag `index` to those of `value`.
    SetTag = 19,
    /// Remove a VXLAN tunnel.
    VxlanDecap = 20,
    /// Put the headers in `bytes` in front: Ethernet, IP, UDP, VXLAN.
    VxlanEncap = 21,
    /// The indirect action with the handle `context`.
    Indirect = 22,
    /// Exchange the addresses of Ethernet.
    MacSwap = 23,
}

/// A field that an action sets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub enum niclab_field {
    /// DSCP, 0 to 63.
    Ipv4Dscp = 0,
    /// Destination address, 4 bytes.
    Ipv4Dst = 1,
    /// Source address, 4 bytes.
    Ipv4Src = 2,
    /// DSCP, 0 to 63.
    Ipv6Dscp = 3,
    /// Destination address, 16 bytes.
    Ipv6Dst = 4,
    /// Source address, 16 bytes.
    Ipv6Src = 5,
    /// Destination address, 6 bytes.
    MacDst = 6,
    /// Source address, 6 bytes.
    MacSrc = 7,
    /// Destination port of TCP or UDP.
    TpDst = 8,
    /// Source port of TCP or UDP.
    TpSrc = 9,
    /// TTL or hop limit.
    Ttl = 10,
    /// Priority in the outermost VLAN tag, 0 to 7.
    VlanPcp = 11,
    /// Id in the outermost VLAN tag, 0 to 4095.
    VlanVid = 12,
}

/// Settings of RSS.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_rss {
    /// Bit set of hash types, with the numbers of `HashTypes`; `UINT32_MAX` for the port's.
    pub types: u32,
    /// 0 for Toeplitz, 1 for symmetric Toeplitz, 255 for the port's.
    pub function: u8,
    /// 1 for the outermost headers, 2 for those inside a tunnel, 0 for the port's.
    pub level: u8,
    /// Number of queues, at most 128; 0 for all.
    pub queues_len: u16,
    /// Length of the key, 40 to 128; 0 for the port's.
    pub key_len: u32,
    /// The key.
    pub key: *const u8,
    /// The queues.
    pub queues: *const u16,
}

/// An action.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_action {
    /// A `niclab_action_kind`.
    pub kind: u32,
    /// See the kind.
    pub value: u32,
    /// See the kind.
    pub mask: u32,
    /// See the kind.
    pub index: u32,
    /// See the kind.
    pub context: u64,
    /// See the kind.
    pub bytes: *const u8,
    /// Number of bytes.
    pub bytes_len: usize,
    /// See the kind.
    pub rss: *const niclab_rss,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_rule {
    /// Group; 0 is the root, which every packet comes to first.
    pub group: u32,
    /// Priority, 0 (highest) to 65535.
    pub priority: u32,
    /// Number of items.
    pub items_len: u32,
    /// Number of actions, at most 16.
    pub actions_len: u32,
    /// The items, outermost header first.
    pub items: *const niclab_item,
    /// The actions.
    pub actions: *const niclab_action,
}

/// A list of items: a pattern template.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_pattern {
    /// Number of items.
    pub items_len: usize,
    /// The items; their masks are those of all rules, and other values do not matter.
    pub items: *const niclab_item,
}

/// A list of actions: an actions template.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_actions {
    /// Number of actions, at most 16.
    pub actions_len: usize,
    /// The actions.
    pub actions: *const niclab_action,
    /// For each action, whether its values are those of the template (1) or of the rule (0).
    pub fixed: *const u8,
}

/// A template table to create.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_template {
    /// Group of the rules.
    pub group: u32,
    /// Their priority.
    pub priority: u32,
    /// Number of pattern templates.
    pub patterns_len: usize,
    /// Pattern templates.
    pub patterns: *const niclab_pattern,
    /// Number of actions templates.
    pub actions_len: usize,
    /// Actions templates.
    pub actions: *const niclab_actions,
}

/// A rule of a template table to enqueue.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_enqueued_rule {
    /// Index of the pattern template.
    pub pattern: u32,
    /// Index of the actions template.
    pub actions_template: u32,
    /// Number of items: as many as the pattern template has.
    pub items_len: u32,
    /// Number of actions: as many as the actions template has.
    pub actions_len: u32,
    /// Their values; the masks are those of the template.
    pub items: *const niclab_item,
    /// The actions; values that the template fixes do not matter.
    pub actions: *const niclab_action,
    /// Comes back with the result.
    pub user: u64,
    /// 1 if the operation may wait for the next push.
    pub postpone: u32,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_completion {
    /// The operation's `user`.
    pub user: u64,
    /// 1 if it was carried out, 0 if it was refused.
    pub done: u32,
}

/// Counters of a rule.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_counts {
    /// Packets.
    pub packets: u64,
    /// Bytes, with the frame check sequence.
    pub bytes: u64,
}

/// The age of a rule.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct niclab_age {
    /// Nanoseconds since its last packet, or since it began to age.
    pub idle_ns: u64,
    /// Its timeout.
    pub timeout_s: u32,
    /// 1 if it is aged.
    pub aged: u32,
}

/// A frame in the program's buffer, and what the NIC decided about it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct niclab_frame {
    /// First byte of the frame. Rules that add or remove headers move it.
    pub data: *mut u8,
    /// Bytes before `data` that headers may be put into.
    pub headroom: u16,
    /// Length, bytes without the frame check sequence.
    pub len: u16,
    /// RSS hash; 0 if there is none.
    pub hash: u32,
    /// The number of a rule's mark, if `NICLAB_MARKED` is set.
    pub mark: u32,
    /// Receive queue.
    pub queue: u16,
    /// Port that the packet leaves by, if `NICLAB_LEAVES` is set.
    pub port: u8,
    /// Bits `NICLAB_FLAGGED` to `NICLAB_PORT_RSS`.
    pub flags: u8,
}

/// A rule flagged the packet.
pub const NICLAB_FLAGGED: u8 = 1;
/// A rule marked the packet.
pub const NICLAB_MARKED: u8 = 2;
/// No queue gets the packet: discard it.
pub const NICLAB_DROPPED: u8 = 4;
/// No queue gets the packet: send it by its `port`.
pub const NICLAB_LEAVES: u8 = 8;
/// RSS chose the queue, and no rule.
pub const NICLAB_PORT_RSS: u8 = 16;

/// Takes a piece of text; `context` is the caller's.
pub type niclab_write = extern "C" fn(context: *mut c_void, text: *const c_char, len: usize);
