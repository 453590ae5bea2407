//! Random stacks and damaged frames: we agree with ourselves, and with etherparse.

use etherparse::{
    EtherType as TheirEtherType, IpNumber, LinkExtSlice, NetSlice, SlicedPacket, TransportSlice,
};
use proptest::prelude::*;

use super::arbitrary::*;
use super::*;
use crate::ParseError;

/// What both parsers can say of a frame: kinds and first bytes of the layers up to the transport.
type Outline = Vec<(LayerKind, usize)>;

/// Our outline as far as etherparse goes: no tunnels, and IP within IP not looked into.
fn ours(stack: &Stack<'_>) -> Outline {
    let mut outline = Vec::new();
    let mut in_ip = false;
    for span in stack.spans() {
        let kind = span.kind;
        let is_ip = matches!(kind, LayerKind::Ipv4 | LayerKind::Ipv6);
        let is_tunnel = matches!(kind, LayerKind::Gre | LayerKind::Mpls);
        if kind == LayerKind::Payload || is_tunnel || (is_ip && in_ip) {
            break;
        }
        in_ip |= is_ip;
        outline.push((kind, span.start));
        let is_transport =
            matches!(kind, LayerKind::Tcp | LayerKind::Udp | LayerKind::Icmp | LayerKind::Icmpv6);
        if is_transport {
            break;
        }
    }
    outline
}

fn offset(frame: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - frame.as_ptr() as usize
}

fn theirs(frame: &[u8], packet: &SlicedPacket<'_>) -> Outline {
    let mut outline = vec![(LayerKind::Ethernet, 0)];
    for (index, ext) in packet.link_exts.iter().enumerate() {
        let LinkExtSlice::Vlan(_) = ext else { continue };
        outline.push((LayerKind::Vlan, 14 + 4 * index));
    }
    match &packet.net {
        Some(NetSlice::Arp(arp)) => {
            outline.push((LayerKind::Arp, offset(frame, arp.slice())));
        }
        Some(NetSlice::Ipv4(ip)) => {
            outline.push((LayerKind::Ipv4, offset(frame, ip.header().slice())));
            if let Some(auth) = &ip.extensions().auth {
                outline.push((LayerKind::Auth, offset(frame, auth.slice())));
            }
        }
        Some(NetSlice::Ipv6(ip)) => {
            outline.push((LayerKind::Ipv6, offset(frame, ip.header().slice())));
            let mut at = offset(frame, ip.header().slice()) + 40;
            for extension in ip.extensions().clone() {
                let (kind, len) = their_extension(extension);
                outline.push((kind, at));
                at += len;
            }
        }
        None => {}
    }
    match &packet.transport {
        Some(TransportSlice::Icmpv4(t)) => {
            outline.push((LayerKind::Icmp, offset(frame, t.slice())));
        }
        Some(TransportSlice::Icmpv6(t)) => {
            outline.push((LayerKind::Icmpv6, offset(frame, t.slice())));
        }
        Some(TransportSlice::Tcp(t)) => outline.push((LayerKind::Tcp, offset(frame, t.slice()))),
        Some(TransportSlice::Udp(t)) => outline.push((LayerKind::Udp, offset(frame, t.slice()))),
        Some(TransportSlice::Igmp(_)) | None => {}
    }
    outline
}

fn their_extension(extension: etherparse::Ipv6ExtensionSlice<'_>) -> (LayerKind, usize) {
    use etherparse::Ipv6ExtensionSlice as Slice;
    match extension {
        Slice::Authentication(s) => (LayerKind::Auth, s.slice().len()),
        Slice::DestinationOptions(s) => (LayerKind::Ipv6Destination, s.slice().len()),
        Slice::Fragment(s) => (LayerKind::Ipv6Fragment, s.slice().len()),
        Slice::HopByHop(s) => (LayerKind::Ipv6HopByHop, s.slice().len()),
        Slice::Routing(s) => (LayerKind::Ipv6Routing, s.slice().len()),
    }
}

/// Whether etherparse also finds every checksum right, of the layers it knows.
fn their_checksums_agree(packet: &SlicedPacket<'_>, stack: &Stack<'_>) {
    let ours = |kind| {
        let index = stack.spans().iter().position(|span| span.kind == kind).unwrap();
        stack.is_checksum_valid(index)
    };
    if let Some(NetSlice::Ipv4(ip)) = &packet.net {
        // Their header forgets the reserved flag, and so does its checksum.
        let reserved_flag = ip.header().slice()[6] & 0x80 != 0;
        let header = ip.header().to_header();
        let is_valid = header.calc_header_checksum() == header.header_checksum;
        assert!(reserved_flag || ours(LayerKind::Ipv4) == Some(is_valid));
    }
    let addresses = match &packet.net {
        Some(NetSlice::Ipv4(ip)) => Ok((ip.header().source(), ip.header().destination())),
        Some(NetSlice::Ipv6(ip)) => Err((ip.header().source(), ip.header().destination())),
        _ => return,
    };
    let has_route = stack
        .views()
        .any(|v| matches!(v, LayerView::Ipv6Extension(ipv6_ext::ExtensionKind::Routing, _)));
    if has_route {
        return; // etherparse knows nothing of last segments
    }
    match (&packet.transport, addresses) {
        (Some(TransportSlice::Tcp(tcp)), Ok((src, dst))) => {
            let expected = tcp.calc_checksum_ipv4(src, dst).unwrap();
            assert_eq!(ours(LayerKind::Tcp), Some(expected == tcp.checksum()));
        }
        (Some(TransportSlice::Tcp(tcp)), Err((src, dst))) => {
            let expected = tcp.calc_checksum_ipv6(src, dst).unwrap();
            assert_eq!(ours(LayerKind::Tcp), Some(expected == tcp.checksum()));
        }
        (Some(TransportSlice::Udp(udp)), Ok((src, dst))) if udp.checksum() != 0 => {
            let expected = udp.to_header().calc_checksum_ipv4_raw(src, dst, udp.payload()).unwrap();
            assert_eq!(ours(LayerKind::Udp), Some(expected == udp.checksum()));
        }
        (Some(TransportSlice::Udp(udp)), Err((src, dst))) if udp.checksum() != 0 => {
            let expected = udp.to_header().calc_checksum_ipv6_raw(src, dst, udp.payload()).unwrap();
            assert_eq!(ours(LayerKind::Udp), Some(expected == udp.checksum()));
        }
        (Some(TransportSlice::Icmpv6(icmp)), Err((src, dst))) => {
            assert_eq!(ours(LayerKind::Icmpv6), Some(icmp.is_checksum_valid(src, dst)));
        }
        _ => {}
    }
}

/// Where the two differ on purpose; such frames are not compared.
fn is_out_of_scope(stack: &Stack<'_>, packet: &SlicedPacket<'_>) -> bool {
    let jumbo = |view: LayerView<'_>| match view {
        // Lengths of 0: etherparse takes all there is, we take none or refuse.
        LayerView::Ipv6(ip) => ip.payload_len() == 0,
        _ => false,
    };
    let zero_udp = matches!(&packet.transport, Some(TransportSlice::Udp(u)) if u.length() == 0);
    // It reads at most three tags, and MACsec, which we do not.
    let tags = stack.spans().iter().filter(|span| span.kind == LayerKind::Vlan).count();
    let macsec = packet.link_exts.iter().any(|e| matches!(e, LinkExtSlice::Macsec(_)));
    stack.views().any(jumbo) || zero_udp || tags > 3 || macsec
}

/// Two thousand each, or as many as `PROPTEST_CASES` says.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn stacks_round_trip(layers in any_stack()) {
        let frame = build(&layers).unwrap();
        let stack = walk(&frame);
        prop_assert_eq!(stack.end(), WalkEnd::Payload);
        prop_assert_eq!(stack.missing_len(), 0);
        prop_assert_eq!(stack.checksum_errors(), vec![]);
        let kinds: Vec<_> = stack.spans().iter().map(|span| span.kind).collect();
        let expected: Vec<_> = layers.iter().map(Layer::kind).collect();
        prop_assert_eq!(kinds, expected);
        prop_assert_eq!(build(&stack.to_layers()).unwrap(), frame);
    }

    #[test]
    fn etherparse_sees_what_we_build(layers in plain_stack()) {
        let frame = build(&layers).unwrap();
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let stack = walk(&frame);
        prop_assume!(!is_out_of_scope(&stack, &packet));
        prop_assert_eq!(theirs(&frame, &packet), ours(&stack));
        their_checksums_agree(&packet, &stack);
    }

    #[test]
    fn etherparse_sees_what_we_see(frame in damaged(plain_stack())) {
        let stack = walk(&frame);
        prop_assert!(!stack.to_string().is_empty() || frame.is_empty());
        match SlicedPacket::from_ethernet(&frame) {
            Ok(packet) if !is_out_of_scope(&stack, &packet) => {
                let (mut theirs, ours) = (theirs(&frame, &packet), ours(&stack));
                let other_arp = match stack.end() {
                    WalkEnd::Malformed(
                        ParseError::Field { layer, .. } | ParseError::Truncated { layer, .. },
                    ) => layer == LayerKind::Arp,
                    _ => false,
                };
                if stack.end() == WalkEnd::Fragment || other_arp {
                    // They read headers within fragments, and ARP for addresses of any length.
                    theirs.truncate(ours.len());
                }
                prop_assert_eq!(theirs, ours, "{}", stack);
                if stack.missing_len() == 0 {
                    their_checksums_agree(&packet, &stack);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn damaged_tunnels_are_walked(frame in damaged(any_stack())) {
        let stack = walk(&frame);
        let shown = stack.to_string();
        prop_assert!(shown.lines().count() >= stack.spans().len());
        let mut at = 0;
        for span in stack.spans() {
            prop_assert_eq!(span.start, at); // no gap, no overlap
            at = span.start + span.header_len;
            prop_assert!(at <= span.end && span.end <= frame.len());
        }
        prop_assert_eq!(stack.to_layers().len(), stack.spans().len());
        let _ = stack.checksum_errors();
    }
}

#[test]
fn type_numbers_are_those_of_etherparse() {
    assert_eq!(EtherType::IPV4.0, TheirEtherType::IPV4.0);
    assert_eq!(EtherType::IPV6.0, TheirEtherType::IPV6.0);
    assert_eq!(EtherType::ARP.0, TheirEtherType::ARP.0);
    assert_eq!(EtherType::VLAN.0, TheirEtherType::VLAN_TAGGED_FRAME.0);
    assert_eq!(EtherType::VLAN_SERVICE.0, TheirEtherType::PROVIDER_BRIDGING.0);
    assert_eq!(EtherType::VLAN_OLD.0, TheirEtherType::VLAN_DOUBLE_TAGGED_FRAME.0);
    for (ours, theirs) in [
        (IpProtocol::AUTH, IpNumber::AUTHENTICATION_HEADER),
        (IpProtocol::DESTINATION, IpNumber::IPV6_DESTINATION_OPTIONS),
        (IpProtocol::FRAGMENT, IpNumber::IPV6_FRAGMENTATION_HEADER),
        (IpProtocol::GRE, IpNumber::GRE),
        (IpProtocol::ICMPV6, IpNumber::IPV6_ICMP),
        (IpProtocol::MPLS, IpNumber::MPLS_IN_IP),
        (IpProtocol::ROUTING, IpNumber::IPV6_ROUTE_HEADER),
    ] {
        assert_eq!(ours.0, theirs.0);
    }
}
