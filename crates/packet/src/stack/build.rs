//! From layers to a frame.

use super::walk::pseudo;
use super::{Layer, MPLS_PORT, Span};
use crate::error::{BuildError, LayerKind};
use crate::limits::FRAME_LEN_MAX;
use crate::size::FCS_LEN;
use crate::wire::{
    EtherType, IpProtocol, arp, auth, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext,
    ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};

/// The frame (without FCS) of these layers, outermost first.
///
/// Set from the layers, whatever their values say: lengths; checksums (IPv4 header, ICMP, ICMPv6,
/// GRE where present, TCP, UDP unless [`udp::ChecksumMode::Absent`]); and every field that
/// announces the next layer, the UDP destination port before a tunnel included. Before a payload
/// the value given stays. Transport checksums of a fragment cover that fragment alone; behind a
/// routing header of unknown type with segments left they lack the pseudo header.
///
/// # Errors
/// An empty list, a first layer other than Ethernet, a layer the one before cannot carry, more
/// bytes than a length field can state.
pub fn build(layers: &[Layer]) -> Result<Vec<u8>, BuildError> {
    check_order(layers)?;
    let spans = plan(layers)?;
    let mut frame = vec![0; spans.last().map_or(0, |span| span.end)];
    for (index, span) in spans.iter().enumerate() {
        let announced = announce(layers[index].clone(), layers.get(index + 1));
        emit(&announced, &mut frame[span.start..span.end], span.header_len);
    }
    // Innermost first: an outer UDP or GRE checksum covers the inner ones.
    for index in (0..layers.len()).rev() {
        fill_checksum(&layers[index], &mut frame, &spans[..=index]);
    }
    Ok(frame)
}

/// As [`build`], with zeros added to the payload so that the frame with its FCS is `frame_len`
/// bytes long; the bytes returned are 4 fewer.
///
/// # Errors
/// Those of [`build`]; a `frame_len` the layers do not fit in.
pub fn build_with_len(layers: &[Layer], frame_len: u16) -> Result<Vec<u8>, BuildError> {
    let len = usize::from(frame_len.saturating_sub(FCS_LEN));
    let needed_len = layers.iter().map(Layer::buffer_len).sum();
    let Some(added_len) = len.checked_sub(needed_len) else {
        return Err(BuildError::TooShort { len, needed_len });
    };
    let mut layers = layers.to_vec();
    match layers.last_mut() {
        Some(Layer::Payload(bytes)) => bytes.resize(bytes.len() + added_len, 0),
        _ if added_len > 0 => layers.push(Layer::Payload(vec![0; added_len])),
        _ => {}
    }
    build(&layers)
}

fn check_order(layers: &[Layer]) -> Result<(), BuildError> {
    match layers.first().map(Layer::kind) {
        None => return Err(BuildError::Empty),
        Some(LayerKind::Ethernet) => {}
        Some(found) => return Err(BuildError::First { found }),
    }
    let mut v6 = false;
    for (index, pair) in layers.windows(2).enumerate() {
        match pair[0].kind() {
            LayerKind::Ipv4 => v6 = false,
            LayerKind::Ipv6 => v6 = true,
            _ => {}
        }
        if !can_carry(&pair[0], &pair[1], v6) {
            let (outer, inner) = (pair[0].kind(), pair[1].kind());
            return Err(BuildError::Order { index: index + 1, outer, inner });
        }
    }
    Ok(())
}

fn can_carry(outer: &Layer, inner: &Layer, v6: bool) -> bool {
    let is_ethernet = matches!(inner, Layer::Ethernet(_));
    if matches!(inner, Layer::Payload(_)) {
        return !matches!(outer, Layer::Payload(_));
    }
    match outer {
        Layer::Ethernet(_) | Layer::Vlan(_) => ether_type_of(inner).is_some() && !is_ethernet,
        Layer::Geneve(_) | Layer::Gre(_) => ether_type_of(inner).is_some(),
        Layer::Ipv4(_)
        | Layer::Ipv6(_)
        | Layer::Auth(_)
        | Layer::Ipv6Extension(_)
        | Layer::Ipv6Fragment(_) => {
            let v6_only = matches!(inner, Layer::Ipv6Extension(_) | Layer::Ipv6Fragment(_));
            protocol_of(inner).is_some() && (v6 || !v6_only)
        }
        Layer::Mpls(_) => matches!(inner, Layer::Ipv4(_) | Layer::Ipv6(_) | Layer::Mpls(_)),
        Layer::Udp(_) => port_of(inner).is_some(),
        Layer::Vxlan(_) => is_ethernet,
        Layer::Arp(_) | Layer::Icmp(_) | Layer::Icmpv6(_) | Layer::Payload(_) | Layer::Tcp(_) => {
            false
        }
    }
}

/// The type number that announces a layer.
const fn ether_type_of(layer: &Layer) -> Option<EtherType> {
    match layer {
        Layer::Arp(_) => Some(EtherType::ARP),
        Layer::Ethernet(_) => Some(EtherType::ETHERNET),
        Layer::Ipv4(_) => Some(EtherType::IPV4),
        Layer::Ipv6(_) => Some(EtherType::IPV6),
        Layer::Mpls(_) => Some(EtherType::MPLS),
        Layer::Vlan(repr) => Some(repr.tag_type),
        _ => None,
    }
}

/// The IP protocol number that announces a layer.
const fn protocol_of(layer: &Layer) -> Option<IpProtocol> {
    match layer {
        Layer::Auth(_) => Some(IpProtocol::AUTH),
        Layer::Gre(_) => Some(IpProtocol::GRE),
        Layer::Icmp(_) => Some(IpProtocol::ICMP),
        Layer::Icmpv6(_) => Some(IpProtocol::ICMPV6),
        Layer::Ipv4(_) => Some(IpProtocol::IPV4),
        Layer::Ipv6(_) => Some(IpProtocol::IPV6),
        Layer::Ipv6Extension(repr) => Some(repr.kind.protocol()),
        Layer::Ipv6Fragment(_) => Some(IpProtocol::FRAGMENT),
        Layer::Mpls(_) => Some(IpProtocol::MPLS),
        Layer::Tcp(_) => Some(IpProtocol::TCP),
        Layer::Udp(_) => Some(IpProtocol::UDP),
        _ => None,
    }
}

/// The UDP port that announces a layer.
const fn port_of(layer: &Layer) -> Option<u16> {
    match layer {
        Layer::Geneve(_) => Some(geneve::PORT),
        Layer::Mpls(_) => Some(MPLS_PORT),
        Layer::Vxlan(_) => Some(vxlan::PORT),
        _ => None,
    }
}

/// `layer` with the field that announces `next` set.
fn announce(mut layer: Layer, next: Option<&Layer>) -> Layer {
    let ether_type = next.and_then(ether_type_of);
    let protocol = next.and_then(protocol_of);
    match &mut layer {
        Layer::Ethernet(repr) => repr.ether_type = ether_type.unwrap_or(repr.ether_type),
        Layer::Geneve(repr) => repr.protocol = ether_type.unwrap_or(repr.protocol),
        Layer::Gre(repr) => repr.protocol = ether_type.unwrap_or(repr.protocol),
        Layer::Vlan(repr) => repr.ether_type = ether_type.unwrap_or(repr.ether_type),
        Layer::Auth(repr) => repr.next_header = protocol.unwrap_or(repr.next_header),
        Layer::Ipv4(repr) => repr.protocol = protocol.unwrap_or(repr.protocol),
        Layer::Ipv6(repr) => repr.next_header = protocol.unwrap_or(repr.next_header),
        Layer::Ipv6Extension(repr) => repr.next_header = protocol.unwrap_or(repr.next_header),
        Layer::Ipv6Fragment(repr) => repr.next_header = protocol.unwrap_or(repr.next_header),
        Layer::Mpls(repr) => repr.bottom = !matches!(next, Some(Layer::Mpls(_))),
        Layer::Udp(repr) => repr.dst_port = next.and_then(port_of).unwrap_or(repr.dst_port),
        _ => {}
    }
    layer
}

/// Where each layer will lie; refuses what a length field cannot state.
fn plan(layers: &[Layer]) -> Result<Vec<Span>, BuildError> {
    let end = layers.iter().map(Layer::buffer_len).sum();
    let mut spans = Vec::with_capacity(layers.len());
    let mut start = 0;
    for (index, layer) in layers.iter().enumerate() {
        let (kind, header_len) = (layer.kind(), layer.buffer_len());
        let (len, len_max) = match layer {
            Layer::Auth(repr) => (repr.check_value.len(), auth::CHECK_VALUE_LEN_MAX),
            Layer::Ethernet(_) => (end - start, FRAME_LEN_MAX),
            Layer::Ipv4(_) => (end - start, ipv4::TOTAL_LEN_MAX),
            Layer::Ipv6(_) => (end - start - header_len, ipv6::PAYLOAD_LEN_MAX),
            Layer::Ipv6Extension(repr) => (repr.body.len(), ipv6_ext::BODY_LEN_MAX),
            Layer::Udp(_) => (end - start, usize::from(u16::MAX)),
            _ => (0, 0),
        };
        if len > len_max {
            return Err(BuildError::TooLong { index, layer: kind, len, len_max });
        }
        spans.push(Span { kind, start, header_len, end });
        start += header_len;
    }
    Ok(spans)
}

/// Writes one layer to the start of `bytes`, which reach to the end of the frame.
fn emit(layer: &Layer, bytes: &mut [u8], header_len: usize) {
    let payload_len = bytes.len() - header_len;
    match layer {
        Layer::Arp(repr) => repr.emit(&mut arp::Packet::new_unchecked(bytes)),
        Layer::Auth(repr) => repr.emit(&mut auth::Header::new_unchecked(bytes)),
        Layer::Ethernet(repr) => repr.emit(&mut ethernet::Frame::new_unchecked(bytes)),
        Layer::Geneve(repr) => repr.emit(&mut geneve::Packet::new_unchecked(bytes)),
        Layer::Gre(repr) => repr.emit(&mut gre::Packet::new_unchecked(bytes)),
        Layer::Icmp(repr) => repr.emit(&mut icmp::Message::new_unchecked(bytes)),
        Layer::Icmpv6(repr) => repr.emit(&mut icmpv6::Message::new_unchecked(bytes)),
        Layer::Ipv4(repr) => repr.emit(&mut ipv4::Packet::new_unchecked(bytes), payload_len),
        Layer::Ipv6(repr) => repr.emit(&mut ipv6::Packet::new_unchecked(bytes), payload_len),
        Layer::Ipv6Extension(repr) => repr.emit(&mut ipv6_ext::Header::new_unchecked(bytes)),
        Layer::Ipv6Fragment(repr) => repr.emit(&mut ipv6_fragment::Header::new_unchecked(bytes)),
        Layer::Mpls(repr) => repr.emit(&mut mpls::Entry::new_unchecked(bytes)),
        Layer::Payload(payload) => bytes.copy_from_slice(payload),
        Layer::Tcp(repr) => repr.emit(&mut tcp::Segment::new_unchecked(bytes)),
        Layer::Udp(repr) => repr.emit(&mut udp::Datagram::new_unchecked(bytes), payload_len),
        Layer::Vlan(repr) => repr.emit(&mut vlan::Tag::new_unchecked(bytes)),
        Layer::Vxlan(repr) => repr.emit(&mut vxlan::Packet::new_unchecked(bytes)),
    }
}

/// Fills the checksum of the last of `spans`, whose layers are already written.
fn fill_checksum(layer: &Layer, frame: &mut [u8], spans: &[Span]) {
    let Some((span, outer)) = spans.split_last() else {
        return;
    };
    let len = span.end - span.start;
    // Only a routing header of unknown type leaves no receiver to sum: see `build`.
    let sum = |frame: &[u8], protocol| pseudo(frame, outer, protocol, len).unwrap_or_default();
    let range = span.start..span.end;
    match layer {
        Layer::Gre(_) => gre::Packet::new_unchecked(&mut frame[range]).fill_checksum(),
        Layer::Icmp(_) => icmp::Message::new_unchecked(&mut frame[range]).fill_checksum(),
        Layer::Icmpv6(_) => {
            let pseudo = sum(frame, IpProtocol::ICMPV6);
            icmpv6::Message::new_unchecked(&mut frame[range]).fill_checksum(pseudo);
        }
        Layer::Tcp(_) => {
            let pseudo = sum(frame, IpProtocol::TCP);
            tcp::Segment::new_unchecked(&mut frame[range]).fill_checksum(pseudo);
        }
        Layer::Udp(repr) if repr.checksum == udp::ChecksumMode::Computed => {
            let pseudo = sum(frame, IpProtocol::UDP);
            udp::Datagram::new_unchecked(&mut frame[range]).fill_checksum(pseudo);
        }
        _ => {}
    }
}
