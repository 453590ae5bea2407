//! A layer as a value, and as a view of a frame's bytes.

use std::fmt;

use crate::error::LayerKind;
use crate::wire::{
    arp, auth, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, ipv6_fragment, mpls, tcp,
    udp, vlan, vxlan,
};

/// A layer as a value: a header, or the payload after the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the header of its name")]
pub enum Layer {
    Arp(arp::Repr),
    Auth(auth::Repr),
    Ethernet(ethernet::Repr),
    Geneve(Box<geneve::Repr>),
    Gre(gre::Repr),
    Icmp(icmp::Repr),
    Icmpv6(icmpv6::Repr),
    Ipv4(ipv4::Repr),
    Ipv6(ipv6::Repr),
    Ipv6Extension(ipv6_ext::Repr),
    Ipv6Fragment(ipv6_fragment::Repr),
    Mpls(mpls::Repr),
    Payload(Vec<u8>),
    Tcp(tcp::Repr),
    Udp(udp::Repr),
    Vlan(vlan::Repr),
    Vxlan(vxlan::Repr),
}

impl Layer {
    /// Which kind it is.
    pub const fn kind(&self) -> LayerKind {
        match self {
            Self::Arp(_) => LayerKind::Arp,
            Self::Auth(_) => LayerKind::Auth,
            Self::Ethernet(_) => LayerKind::Ethernet,
            Self::Geneve(_) => LayerKind::Geneve,
            Self::Gre(_) => LayerKind::Gre,
            Self::Icmp(_) => LayerKind::Icmp,
            Self::Icmpv6(_) => LayerKind::Icmpv6,
            Self::Ipv4(_) => LayerKind::Ipv4,
            Self::Ipv6(_) => LayerKind::Ipv6,
            Self::Ipv6Extension(repr) => repr.kind.layer(),
            Self::Ipv6Fragment(_) => LayerKind::Ipv6Fragment,
            Self::Mpls(_) => LayerKind::Mpls,
            Self::Payload(_) => LayerKind::Payload,
            Self::Tcp(_) => LayerKind::Tcp,
            Self::Udp(_) => LayerKind::Udp,
            Self::Vlan(_) => LayerKind::Vlan,
            Self::Vxlan(_) => LayerKind::Vxlan,
        }
    }

    /// Length of the header (of the payload, if it is one) in bytes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Self::Arp(repr) => repr.buffer_len(),
            Self::Auth(repr) => repr.buffer_len(),
            Self::Ethernet(repr) => repr.buffer_len(),
            Self::Geneve(repr) => repr.buffer_len(),
            Self::Gre(repr) => repr.buffer_len(),
            Self::Icmp(repr) => repr.buffer_len(),
            Self::Icmpv6(repr) => repr.buffer_len(),
            Self::Ipv4(repr) => repr.buffer_len(),
            Self::Ipv6(repr) => repr.buffer_len(),
            Self::Ipv6Extension(repr) => repr.buffer_len(),
            Self::Ipv6Fragment(repr) => repr.buffer_len(),
            Self::Mpls(repr) => repr.buffer_len(),
            Self::Payload(bytes) => bytes.len(),
            Self::Tcp(repr) => repr.buffer_len(),
            Self::Udp(repr) => repr.buffer_len(),
            Self::Vlan(repr) => repr.buffer_len(),
            Self::Vxlan(repr) => repr.buffer_len(),
        }
    }
}

macro_rules! from_repr {
    ($($name:ident($repr:ty)),* $(,)?) => {
        $(impl From<$repr> for Layer {
            fn from(repr: $repr) -> Self {
                Self::$name(repr.into())
            }
        })*
    };
}

from_repr! {
    Arp(arp::Repr), Auth(auth::Repr), Ethernet(ethernet::Repr), Geneve(geneve::Repr),
    Gre(gre::Repr), Icmp(icmp::Repr), Icmpv6(icmpv6::Repr), Ipv4(ipv4::Repr), Ipv6(ipv6::Repr),
    Ipv6Extension(ipv6_ext::Repr), Ipv6Fragment(ipv6_fragment::Repr), Mpls(mpls::Repr),
    Payload(Vec<u8>), Tcp(tcp::Repr), Udp(udp::Repr), Vlan(vlan::Repr), Vxlan(vxlan::Repr),
}

/// A layer as a view of a frame's bytes, from its header to its end. Already checked: no accessor
/// panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the header of its name")]
pub enum LayerView<'a> {
    Arp(arp::Packet<&'a [u8]>),
    Auth(auth::Header<&'a [u8]>),
    Ethernet(ethernet::Frame<&'a [u8]>),
    Geneve(geneve::Packet<&'a [u8]>),
    Gre(gre::Packet<&'a [u8]>),
    Icmp(icmp::Message<&'a [u8]>),
    Icmpv6(icmpv6::Message<&'a [u8]>),
    Ipv4(ipv4::Packet<&'a [u8]>),
    Ipv6(ipv6::Packet<&'a [u8]>),
    Ipv6Extension(ipv6_ext::ExtensionKind, ipv6_ext::Header<&'a [u8]>),
    Ipv6Fragment(ipv6_fragment::Header<&'a [u8]>),
    Mpls(mpls::Entry<&'a [u8]>),
    Payload(&'a [u8]),
    Tcp(tcp::Segment<&'a [u8]>),
    Udp(udp::Datagram<&'a [u8]>),
    Vlan(vlan::Tag<&'a [u8]>),
    Vxlan(vxlan::Packet<&'a [u8]>),
}

impl<'a> LayerView<'a> {
    /// Takes `bytes` for a layer of this kind, unchecked.
    pub(super) const fn new_unchecked(kind: LayerKind, bytes: &'a [u8]) -> Self {
        use ipv6_ext::{ExtensionKind, Header};
        match kind {
            LayerKind::Arp => Self::Arp(arp::Packet::new_unchecked(bytes)),
            LayerKind::Auth => Self::Auth(auth::Header::new_unchecked(bytes)),
            LayerKind::Ethernet => Self::Ethernet(ethernet::Frame::new_unchecked(bytes)),
            LayerKind::Geneve => Self::Geneve(geneve::Packet::new_unchecked(bytes)),
            LayerKind::Gre => Self::Gre(gre::Packet::new_unchecked(bytes)),
            LayerKind::Icmp => Self::Icmp(icmp::Message::new_unchecked(bytes)),
            LayerKind::Icmpv6 => Self::Icmpv6(icmpv6::Message::new_unchecked(bytes)),
            LayerKind::Ipv4 => Self::Ipv4(ipv4::Packet::new_unchecked(bytes)),
            LayerKind::Ipv6 => Self::Ipv6(ipv6::Packet::new_unchecked(bytes)),
            LayerKind::Ipv6Destination => {
                Self::Ipv6Extension(ExtensionKind::Destination, Header::new_unchecked(bytes))
            }
            LayerKind::Ipv6Fragment => {
                Self::Ipv6Fragment(ipv6_fragment::Header::new_unchecked(bytes))
            }
            LayerKind::Ipv6HopByHop => {
                Self::Ipv6Extension(ExtensionKind::HopByHop, Header::new_unchecked(bytes))
            }
            LayerKind::Ipv6Routing => {
                Self::Ipv6Extension(ExtensionKind::Routing, Header::new_unchecked(bytes))
            }
            LayerKind::Mpls => Self::Mpls(mpls::Entry::new_unchecked(bytes)),
            LayerKind::Payload => Self::Payload(bytes),
            LayerKind::Tcp => Self::Tcp(tcp::Segment::new_unchecked(bytes)),
            LayerKind::Udp => Self::Udp(udp::Datagram::new_unchecked(bytes)),
            LayerKind::Vlan => Self::Vlan(vlan::Tag::new_unchecked(bytes)),
            LayerKind::Vxlan => Self::Vxlan(vxlan::Packet::new_unchecked(bytes)),
        }
    }
}

impl fmt::Display for LayerView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arp(view) => view.fmt(f),
            Self::Auth(view) => view.fmt(f),
            Self::Ethernet(view) => view.fmt(f),
            Self::Geneve(view) => view.fmt(f),
            Self::Gre(view) => view.fmt(f),
            Self::Icmp(view) => view.fmt(f),
            Self::Icmpv6(view) => view.fmt(f),
            Self::Ipv4(view) => view.fmt(f),
            Self::Ipv6(view) => view.fmt(f),
            Self::Ipv6Extension(kind, view) => write!(
                f,
                "{} next {} length {}",
                kind.layer(),
                view.next_header(),
                view.header_len()
            ),
            Self::Ipv6Fragment(view) => view.fmt(f),
            Self::Mpls(view) => view.fmt(f),
            Self::Payload(bytes) => write!(f, "payload {} bytes", bytes.len()),
            Self::Tcp(view) => view.fmt(f),
            Self::Udp(view) => view.fmt(f),
            Self::Vlan(view) => view.fmt(f),
            Self::Vxlan(view) => view.fmt(f),
        }
    }
}
