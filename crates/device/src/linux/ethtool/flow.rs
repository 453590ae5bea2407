//! N-tuple rules as the kernel has them (`ethtool_rx_flow_spec`): which packets, to which queue.
//!
//! A rule compares fields under masks; a bit of a mask that is set counts, whatever the header says
//! of other uses of it. Fields of packets are in network order.

use std::fmt;

use super::layout::array;
#[cfg(test)]
use super::layout::{u32_at, u64_at};

/// Lengths of a rule, of a header in it, and of what lies beside the header.
pub(super) const FLOW_LEN: usize = 168;
pub(super) const HEADER_LEN: usize = 52;
pub(super) const EXT_LEN: usize = 20;

/// Where they lie in it.
const VALUE_AT: usize = 4;
const VALUE_EXT_AT: usize = 56;
const MASK_AT: usize = 76;
const MASK_EXT_AT: usize = 128;
const QUEUE_AT: usize = 152;
const LOCATION_AT: usize = 160;

/// `FLOW_EXT` and `FLOW_MAC_EXT`: a VLAN tag, or a MAC address, counts beside the header.
const EXT: u32 = 0x8000_0000;
const MAC_EXT: u32 = 0x4000_0000;

/// `RX_CLS_FLOW_DISC`.
const DISCARD: u64 = u64::MAX;

/// `ETH_RX_NFC_IP4`.
const IP_VERSION_4: u8 = 1;

/// The location of a rule for which the driver is to find one (`RX_CLS_LOC_ANY`).
pub const ANYWHERE: u32 = u32::MAX;

/// The header that a rule's fields are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// Ethernet.
    Ether,
    /// IPv4 of any protocol.
    Ipv4,
    /// IPv6 of any protocol.
    Ipv6,
    /// SCTP in IPv4.
    Sctp4,
    /// SCTP in IPv6.
    Sctp6,
    /// TCP in IPv4.
    Tcp4,
    /// TCP in IPv6.
    Tcp6,
    /// UDP in IPv4.
    Udp4,
    /// UDP in IPv6.
    Udp6,
}

impl FlowKind {
    /// Each with its number and its name in `ethtool -N`.
    pub const ALL: [(FlowKind, u32, &'static str); 9] = [
        (FlowKind::Tcp4, 0x01, "tcp4"),
        (FlowKind::Udp4, 0x02, "udp4"),
        (FlowKind::Sctp4, 0x03, "sctp4"),
        (FlowKind::Tcp6, 0x05, "tcp6"),
        (FlowKind::Udp6, 0x06, "udp6"),
        (FlowKind::Sctp6, 0x07, "sctp6"),
        (FlowKind::Ipv4, 0x0d, "ip4"),
        (FlowKind::Ipv6, 0x0e, "ip6"),
        (FlowKind::Ether, 0x12, "ether"),
    ];

    fn number(self) -> u32 {
        FlowKind::ALL.iter().find(|(kind, ..)| *kind == self).map_or(0, |(_, number, _)| *number)
    }

    fn is_v6(self) -> bool {
        matches!(self, FlowKind::Ipv6 | FlowKind::Sctp6 | FlowKind::Tcp6 | FlowKind::Udp6)
    }
}

/// Values of fields, or which of their bits count. Those that the header of a rule lacks are not
/// written; of an address of IPv4 the first four bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Destination MAC address.
    pub eth_dst: [u8; 6],
    /// Source MAC address, beside Ethernet alone.
    pub eth_src: [u8; 6],
    /// The EtherType, unless the rule matches Ethernet alone.
    pub ether_type: [u8; 2],
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
    /// Source port.
    pub sport: [u8; 2],
    /// Destination port.
    pub dport: [u8; 2],
    /// TOS of IPv4, traffic class of IPv6.
    pub tos: u8,
    /// Protocol, of IP of any protocol.
    pub protocol: u8,
    /// Tag control information of the outer VLAN tag.
    pub vlan_tci: [u8; 2],
}

/// The action on the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They are dropped.
    Drop,
    /// They go to this queue.
    Queue(u32),
}

/// An n-tuple rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The header that its fields are of.
    pub kind: FlowKind,
    /// Values.
    pub value: Fields,
    /// Which bits of them count.
    pub mask: Fields,
    /// The action on the packets.
    pub fate: Fate,
    /// Its place in the card's table, in which lower ones are looked at first; or [`ANYWHERE`].
    pub location: u32,
}

impl Flow {
    /// The kernel's structure.
    pub fn to_bytes(&self) -> [u8; FLOW_LEN] {
        let mut bytes = [0; FLOW_LEN];
        let has_tag = self.mask.vlan_tci != [0; 2];
        let has_mac = self.kind != FlowKind::Ether && self.mask.eth_dst != [0; 6];
        let flags = [(has_tag, EXT), (has_mac, MAC_EXT)];
        let flags = flags.iter().map(|(is_there, bit)| if *is_there { *bit } else { 0 });
        let kind = self.kind.number() | flags.sum::<u32>();
        put(&mut bytes, 0, &kind.to_ne_bytes());
        put(&mut bytes, VALUE_AT, &header(self.kind, &self.value, IP_VERSION_4));
        put(&mut bytes, VALUE_EXT_AT, &ext(self.kind, &self.value));
        // The version is a value, of which the header says that its mask is 0.
        put(&mut bytes, MASK_AT, &header(self.kind, &self.mask, 0));
        put(&mut bytes, MASK_EXT_AT, &ext(self.kind, &self.mask));
        let queue = match self.fate {
            Fate::Drop => DISCARD,
            Fate::Queue(queue) => queue.into(),
        };
        put(&mut bytes, QUEUE_AT, &queue.to_ne_bytes());
        put(&mut bytes, LOCATION_AT, &self.location.to_ne_bytes());
        bytes
    }

    /// Reads the kernel's structure; `None` for a rule that niclab cannot express.
    #[cfg(test)]
    pub(super) fn from_bytes(bytes: &[u8; FLOW_LEN]) -> Option<Flow> {
        let number = u32_at(bytes, 0) & !(EXT | MAC_EXT);
        let (kind, ..) = *FlowKind::ALL.iter().find(|(_, known, _)| *known == number)?;
        let fields = |header, ext| fields(kind, &array(bytes, header), &array(bytes, ext));
        let fate = match u64_at(bytes, QUEUE_AT) {
            DISCARD => Fate::Drop,
            queue => Fate::Queue(queue.try_into().ok()?),
        };
        Some(Flow {
            kind,
            value: fields(VALUE_AT, VALUE_EXT_AT),
            mask: fields(MASK_AT, MASK_EXT_AT),
            fate,
            location: u32_at(bytes, LOCATION_AT),
        })
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The header that counts (`ethtool_flow_union`).
fn header(kind: FlowKind, fields: &Fields, ip_version: u8) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    let ports = [fields.sport, fields.dport].concat();
    match kind {
        FlowKind::Ether => {
            put(&mut bytes, 0, &fields.eth_dst);
            put(&mut bytes, 6, &fields.eth_src);
            put(&mut bytes, 12, &fields.ether_type);
        }
        kind if kind.is_v6() => {
            put(&mut bytes, 0, &fields.src);
            put(&mut bytes, 16, &fields.dst);
            put(&mut bytes, 32, &ports);
            bytes[36] = fields.tos;
        }
        _ => {
            put(&mut bytes, 0, &fields.src[..4]);
            put(&mut bytes, 4, &fields.dst[..4]);
            put(&mut bytes, 8, &ports);
            bytes[12] = fields.tos;
        }
    }
    match kind {
        FlowKind::Ipv4 => put(&mut bytes, 13, &[ip_version, fields.protocol]),
        FlowKind::Ipv6 => bytes[37] = fields.protocol,
        _ => {}
    }
    bytes
}

/// What counts beside the header (`ethtool_flow_ext`).
fn ext(kind: FlowKind, fields: &Fields) -> [u8; EXT_LEN] {
    let mut bytes = [0; EXT_LEN];
    if kind != FlowKind::Ether {
        put(&mut bytes, 2, &fields.eth_dst);
    }
    put(&mut bytes, 10, &fields.vlan_tci);
    bytes
}

#[cfg(test)]
fn fields(kind: FlowKind, header: &[u8; HEADER_LEN], ext: &[u8; EXT_LEN]) -> Fields {
    let mut fields = Fields { vlan_tci: array(ext, 10), ..Fields::default() };
    if kind == FlowKind::Ether {
        return Fields {
            eth_dst: array(header, 0),
            eth_src: array(header, 6),
            ether_type: array(header, 12),
            ..fields
        };
    }
    fields.eth_dst = array(ext, 2);
    if kind.is_v6() {
        (fields.src, fields.dst) = (array(header, 0), array(header, 16));
        (fields.sport, fields.dport, fields.tos) =
            (array(header, 32), array(header, 34), header[36]);
    } else {
        fields.src[..4].copy_from_slice(&header[..4]);
        fields.dst[..4].copy_from_slice(&header[4..8]);
        (fields.sport, fields.dport, fields.tos) =
            (array(header, 8), array(header, 10), header[12]);
    }
    fields.protocol = match kind {
        FlowKind::Ipv4 => header[14],
        FlowKind::Ipv6 => header[37],
        _ => 0,
    };
    fields
}

/// The arguments of `ethtool -N`, without the interface.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = FlowKind::ALL.iter().find(|(kind, ..)| *kind == self.kind).map_or("", |of| of.2);
        write!(f, "flow-type {name}")?;
        let (value, mask) = (&self.value, &self.mask);
        let mac = |bytes: &[u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
        if mask.eth_dst != [0; 6] {
            write!(f, " dst-mac {} m {}", mac(&value.eth_dst), mac(&mask.eth_dst))?;
        }
        if mask.eth_src != [0; 6] {
            write!(f, " src-mac {} m {}", mac(&value.eth_src), mac(&mask.eth_src))?;
        }
        let addresses = [("src-ip", value.src, mask.src), ("dst-ip", value.dst, mask.dst)];
        for (name, value, mask) in addresses.iter().filter(|(_, _, mask)| *mask != [0; 16]) {
            let text = |bytes: &[u8; 16]| match self.kind.is_v6() {
                true => std::net::Ipv6Addr::from(*bytes).to_string(),
                false => std::net::Ipv4Addr::from(array::<4>(bytes, 0)).to_string(),
            };
            write!(f, " {name} {} m {}", text(value), text(mask))?;
        }
        let numbers = [
            ("proto", value.ether_type, mask.ether_type),
            ("l4proto", [0, value.protocol], [0, mask.protocol]),
            ("tos", [0, value.tos], [0, mask.tos]),
            ("src-port", value.sport, mask.sport),
            ("dst-port", value.dport, mask.dport),
            ("vlan", value.vlan_tci, mask.vlan_tci),
        ];
        for (name, value, mask) in numbers.iter().filter(|(_, _, mask)| *mask != [0; 2]) {
            let (value, mask) = (u16::from_be_bytes(*value), u16::from_be_bytes(*mask));
            write!(f, " {name} {value} m {mask:#x}")?;
        }
        match self.fate {
            Fate::Drop => write!(f, " action -1")?,
            Fate::Queue(queue) => write!(f, " action {queue}")?,
        }
        if self.location == ANYWHERE { Ok(()) } else { write!(f, " loc {}", self.location) }
    }
}
