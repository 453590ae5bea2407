//! Actions: what a rule does with the packets that it matches.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::limits::{AGE_TIMEOUT_MAX_S, ENCAP_LEN_MAX};
use crate::modify::{Tunnel, is_tunnel};
use crate::rss::RssAction;

/// What a rule does with a packet that matches it. Actions act in list order, and the fate last,
/// wherever it is in the list. An action on a header that the packet lacks does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Report the rule as aged ([`Nic::aged`]) once it was not hit for this many seconds, 1 to
    /// [`AGE_TIMEOUT_MAX_S`]. A rule has at most one of these. Nothing else happens to the rule or
    /// its packets.
    ///
    /// [`Nic::aged`]: crate::Nic::aged
    Age(u32),
    /// Count packets and bytes, as they came to the rule.
    Count,
    /// Decrement the TTL or hop limit; 0 stays 0.
    DecTtl,
    /// Discard the packet (a fate).
    Drop,
    /// Flag the packet on delivery ([`Desc::is_flagged`]).
    ///
    /// [`Desc::is_flagged`]: crate::memory::Desc::is_flagged
    Flag,
    /// Go on in a greater group (a fate).
    Jump(u32),
    /// Exchange the source and destination address of Ethernet.
    MacSwap,
    /// Flag the packet and deliver this number with it ([`Region::mark`]); the last one counts.
    ///
    /// [`Region::mark`]: crate::memory::Region::mark
    Mark(u32),
    /// Drop the packet at once if it exceeds this meter ([`Nic::create_meter`]). The length is the
    /// one that `count` counts, after the actions before.
    ///
    /// [`Nic::create_meter`]: crate::Nic::create_meter
    Meter(u32),
    /// Remove the headers of an NVGRE tunnel, from Ethernet to GRE (RFC 7637).
    NvgreDecap,
    /// Put the headers of an NVGRE tunnel in front, from Ethernet to GRE with a key, as
    /// [`Action::RawEncap`] does.
    NvgreEncap(Box<[u8]>),
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Send the packet by this Ethernet port, not to a queue (a fate); 0 is the port that it came
    /// in by.
    Port(u16),
    /// Put a VLAN tag of this type, 0x8100 or 0x88a8, in front of the others. It has the TCI of the
    /// outermost tag, or 0 (OpenFlow 1.3.5, section 5.12).
    PushVlan(u16),
    /// Deliver to this receive queue (a fate).
    Queue(u16),
    /// Remove this many bytes in front, if the packet has more.
    RawDecap(u16),
    /// Put these bytes in front, at most [`ENCAP_LEN_MAX`]. Length and checksum are filled in if
    /// they have an IP header, and the length of a UDP header after it.
    ///
    /// [`ENCAP_LEN_MAX`]: crate::limits::ENCAP_LEN_MAX
    RawEncap(Box<[u8]>),
    /// Deliver to one of several queues, by a hash (a fate).
    Rss(Box<RssAction>),
    /// Set a field of a header; checksums of IPv4, TCP, UDP and ICMPv6 stay correct.
    Set(Set),
    /// Set the bits of the packet's metadata that are in `mask`, for later groups; they are 0 at
    /// first.
    SetMeta {
        /// Values of the bits.
        data: u32,
        /// Which bits.
        mask: u32,
    },
    /// Set the bits of one of the packet's four tags that are in `mask`, for later groups.
    SetTag {
        /// Which tag, 0 to 3.
        index: u8,
        /// Values of the bits.
        data: u32,
        /// Which bits.
        mask: u32,
    },
    /// Remove the headers of a VXLAN tunnel, from Ethernet to VXLAN (RFC 7348).
    VxlanDecap,
    /// Put the headers of a VXLAN tunnel in front, from Ethernet to VXLAN, as
    /// [`Action::RawEncap`] does.
    VxlanEncap(Box<[u8]>),
}

/// A header field, of the outermost header that has it, and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// DSCP, 0 to 63.
    Ipv4Dscp(u8),
    /// Destination address.
    Ipv4Dst(Ipv4Addr),
    /// Source address.
    Ipv4Src(Ipv4Addr),
    /// DSCP, 0 to 63.
    Ipv6Dscp(u8),
    /// Destination address.
    Ipv6Dst(Ipv6Addr),
    /// Source address.
    Ipv6Src(Ipv6Addr),
    /// Destination MAC address.
    MacDst([u8; 6]),
    /// Source MAC address.
    MacSrc([u8; 6]),
    /// Destination port of TCP or UDP.
    TpDst(u16),
    /// Source port of TCP or UDP.
    TpSrc(u16),
    /// TTL of IPv4, hop limit of IPv6.
    Ttl(u8),
    /// Priority in the outermost VLAN tag, 0 to 7.
    VlanPcp(u8),
    /// Id in the outermost VLAN tag, 0 to 4095.
    VlanVid(u16),
}

impl Action {
    /// What is wrong with its value, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let fits = |len: usize| (1..=ENCAP_LEN_MAX).contains(&len);
        match *self {
            Action::Age(timeout) if !(1..=AGE_TIMEOUT_MAX_S).contains(&timeout) => {
                Some("a timeout is 1 to 16777215 seconds")
            }
            Action::RawDecap(len) if !fits(len.into()) => Some("1 to 128 bytes go"),
            Action::RawEncap(ref bytes) if !fits(bytes.len()) => Some("1 to 128 bytes come"),
            Action::NvgreEncap(ref bytes) if !is_tunnel(bytes, Tunnel::Nvgre) => {
                Some("headers of NVGRE come: Ethernet, IP, and GRE with a key alone")
            }
            Action::VxlanEncap(ref bytes) if !is_tunnel(bytes, Tunnel::Vxlan) => {
                Some("headers of VXLAN come: Ethernet, IP, UDP and VXLAN")
            }
            Action::PushVlan(tag) if ![0x8100, 0x88a8].contains(&tag) => {
                Some("a tag has type 0x8100 or 0x88a8")
            }
            Action::Set(Set::Ipv4Dscp(64..) | Set::Ipv6Dscp(64..)) => Some("a DSCP is 0 to 63"),
            Action::Set(Set::VlanPcp(8..)) => Some("a priority is 0 to 7"),
            Action::Set(Set::VlanVid(4_096..)) => Some("an id is 0 to 4095"),
            Action::SetTag { index: 4.., .. } => Some("tags are 0 to 3"),
            _ => None,
        }
    }
}

/// In testpmd's syntax, which has the headers of tunnels and raw actions elsewhere.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Age(timeout) => write!(f, "age timeout {timeout}"),
            Action::Count => write!(f, "count"),
            Action::DecTtl => write!(f, "dec_ttl"),
            Action::Drop => write!(f, "drop"),
            Action::Flag => write!(f, "flag"),
            Action::Jump(group) => write!(f, "jump group {group}"),
            Action::MacSwap => write!(f, "mac_swap"),
            Action::Mark(mark) => write!(f, "mark id {mark}"),
            Action::Meter(number) => write!(f, "meter mtr_id {number}"),
            Action::NvgreDecap => write!(f, "nvgre_decap"),
            Action::NvgreEncap(_) => write!(f, "nvgre_encap"),
            Action::PopVlan => write!(f, "of_pop_vlan"),
            Action::Port(port) => write!(f, "represented_port ethdev_port_id {port}"),
            Action::PushVlan(tag) => write!(f, "of_push_vlan ethertype {tag:#06x}"),
            Action::Queue(queue) => write!(f, "queue index {queue}"),
            Action::RawDecap(_) => write!(f, "raw_decap"),
            Action::RawEncap(_) => write!(f, "raw_encap"),
            Action::Rss(rss) => rss.fmt(f),
            Action::Set(set) => set.fmt(f),
            Action::SetMeta { data, mask } => write!(f, "set_meta data {data:#x} mask {mask:#x}"),
            Action::SetTag { index, data, mask } => {
                write!(f, "set_tag index {index} data {data:#x} mask {mask:#x}")
            }
            Action::VxlanDecap => write!(f, "vxlan_decap"),
            Action::VxlanEncap(_) => write!(f, "vxlan_encap"),
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Set::Ipv4Dscp(dscp) => write!(f, "set_ipv4_dscp dscp_value {dscp}"),
            Set::Ipv4Dst(address) => write!(f, "set_ipv4_dst ipv4_addr {address}"),
            Set::Ipv4Src(address) => write!(f, "set_ipv4_src ipv4_addr {address}"),
            Set::Ipv6Dscp(dscp) => write!(f, "set_ipv6_dscp dscp_value {dscp}"),
            Set::Ipv6Dst(address) => write!(f, "set_ipv6_dst ipv6_addr {address}"),
            Set::Ipv6Src(address) => write!(f, "set_ipv6_src ipv6_addr {address}"),
            Set::MacDst(address) => write!(f, "set_mac_dst mac_addr {}", Mac(address)),
            Set::MacSrc(address) => write!(f, "set_mac_src mac_addr {}", Mac(address)),
            Set::TpDst(port) => write!(f, "set_tp_dst port {port}"),
            Set::TpSrc(port) => write!(f, "set_tp_src port {port}"),
            Set::Ttl(ttl) => write!(f, "set_ttl ttl_value {ttl}"),
            Set::VlanPcp(pcp) => write!(f, "of_set_vlan_pcp vlan_pcp {pcp}"),
            Set::VlanVid(vid) => write!(f, "of_set_vlan_vid vlan_vid {vid}"),
        }
    }
}

struct Mac<'a>(&'a [u8; 6]);

impl fmt::Display for Mac<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
