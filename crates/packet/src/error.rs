//! What can be wrong with bytes, and with a list of layers.

use std::fmt;

use thiserror::Error;

/// The kinds of header the crate knows, and the payload after the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerKind {
    /// Address resolution (RFC 826).
    Arp,
    /// IP authentication header (RFC 4302).
    Auth,
    /// Ethernet II header.
    Ethernet,
    /// GENEVE header with its options (RFC 8926).
    Geneve,
    /// GRE header with its optional fields (RFC 2784, RFC 2890).
    Gre,
    /// First 8 bytes of an ICMP message (RFC 792).
    Icmp,
    /// First 8 bytes of an ICMPv6 message (RFC 4443).
    Icmpv6,
    /// IPv4 header with its options (RFC 791).
    Ipv4,
    /// Fixed IPv6 header (RFC 8200).
    Ipv6,
    /// IPv6 destination options (RFC 8200 §4.6).
    Ipv6Destination,
    /// IPv6 fragment header (RFC 8200 §4.5).
    Ipv6Fragment,
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    Ipv6HopByHop,
    /// IPv6 routing header (RFC 8200 §4.4).
    Ipv6Routing,
    /// One MPLS label stack entry (RFC 3032).
    Mpls,
    /// Bytes after the last header.
    Payload,
    /// TCP header with its options (RFC 9293).
    Tcp,
    /// UDP header (RFC 768).
    Udp,
    /// One VLAN tag (IEEE 802.1Q, 802.1ad).
    Vlan,
    /// VXLAN header (RFC 7348).
    Vxlan,
}

impl LayerKind {
    /// The name in reports and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arp => "ARP",
            Self::Auth => "AH",
            Self::Ethernet => "Ethernet",
            Self::Geneve => "GENEVE",
            Self::Gre => "GRE",
            Self::Icmp => "ICMP",
            Self::Icmpv6 => "ICMPv6",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Destination => "IPv6 destination options",
            Self::Ipv6Fragment => "IPv6 fragment",
            Self::Ipv6HopByHop => "IPv6 hop-by-hop options",
            Self::Ipv6Routing => "IPv6 routing",
            Self::Mpls => "MPLS",
            Self::Payload => "payload",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Vlan => "VLAN",
            Self::Vxlan => "VXLAN",
        }
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why bytes are not the header they were taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A field holds a value its specification does not allow.
    #[error("{layer}: {field} is {value:#x}, must be {allowed}")]
    Field {
        /// The header.
        layer: LayerKind,
        /// The field, named as its accessor.
        field: &'static str,
        /// The value found.
        value: u32,
        /// What the specification allows.
        allowed: &'static str,
    },
    /// The bytes end before the header, or before the length it states.
    #[error("{layer}: needs {needed_len} bytes, {available_len} are there")]
    Truncated {
        /// The header.
        layer: LayerKind,
        /// Bytes the header needs, from its first byte.
        needed_len: usize,
        /// Bytes there are.
        available_len: usize,
    },
}

/// Why a list of layers is not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The list has no layer.
    #[error("no layers: start with Ethernet")]
    Empty,
    /// A first layer that is not Ethernet.
    #[error("the first layer is {found}: start with Ethernet")]
    First {
        /// The first layer of the list.
        found: LayerKind,
    },
    /// A layer that cannot be carried by the one before it.
    #[error("layer {index}: {inner} cannot follow {outer}")]
    Order {
        /// Position of the inner layer in the list, from 0.
        index: usize,
        /// The layer before.
        outer: LayerKind,
        /// The layer that does not fit.
        inner: LayerKind,
    },
    /// A header body or a payload longer than its length field can say.
    #[error("layer {index} ({layer}): {len} bytes do not fit, the most is {len_max}")]
    TooLong {
        /// Position in the list, from 0.
        index: usize,
        /// The layer.
        layer: LayerKind,
        /// Length asked for, in bytes.
        len: usize,
        /// Longest length possible, in bytes.
        len_max: usize,
    },
    /// A frame length that is less than the headers and payload need.
    #[error("{len} bytes were asked for, the layers need {needed_len}: ask for a longer frame")]
    TooShort {
        /// Length asked for in bytes, without FCS.
        len: usize,
        /// Length the layers need in bytes, without FCS.
        needed_len: usize,
    },
}

/// An option area that does not fit its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{len} bytes of options do not fit, the most is {len_max}")]
pub struct OptionsTooLong {
    /// Length asked for, in bytes.
    pub len: usize,
    /// Longest length possible, in bytes.
    pub len_max: usize,
}

/// Checks that `available_len` bytes hold the `needed_len` that `layer` needs.
pub(crate) fn check_fits(
    layer: LayerKind,
    needed_len: usize,
    available_len: usize,
) -> Result<(), ParseError> {
    if available_len < needed_len {
        return Err(ParseError::Truncated { layer, needed_len, available_len });
    }
    Ok(())
}
