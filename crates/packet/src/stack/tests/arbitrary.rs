//! Random lists of layers that make a frame, and frames with random damage.

use proptest::prelude::*;

use super::*;

fn octets<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    prop::array::uniform(any::<u8>())
}

fn bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..=len_max)
}

fn ethernet_layer() -> impl Strategy<Value = Layer> {
    (octets(), octets()).prop_map(|(dst, src)| {
        let (dst, src) = (MacAddress(dst), MacAddress(src));
        // A type number nothing is known of, should only a payload follow.
        ethernet::Repr { dst, src, ether_type: EtherType(0x88b5) }.into()
    })
}

fn vlan_layer() -> impl Strategy<Value = Layer> {
    let tag_type =
        prop::sample::select(&[EtherType::VLAN, EtherType::VLAN_SERVICE, EtherType::VLAN_OLD][..]);
    (tag_type, 0u16..4096, 0u8..8, any::<bool>()).prop_map(
        |(tag_type, id, priority, drop_eligible)| {
            let ether_type = EtherType(0x88b5);
            vlan::Repr { tag_type, id, priority, drop_eligible, ether_type }.into()
        },
    )
}

pub(super) fn ipv4_layer() -> impl Strategy<Value = Layer> {
    let numbers = (any::<u8>(), 0u8..64, 0u8..4, any::<u16>(), any::<bool>());
    (octets::<4>(), octets::<4>(), numbers, bytes(40)).prop_map(|(src, dst, numbers, options)| {
        let (ttl, dscp, ecn, identification, dont_fragment) = numbers;
        let (src, dst) = (src.into(), dst.into());
        let options = OptionBytes::new(&options).unwrap();
        ipv4::Repr {
            src,
            dst,
            ttl,
            dscp,
            ecn,
            identification,
            dont_fragment,
            options,
            ..Default::default()
        }
        .into()
    })
}

pub(super) fn ipv6_layer() -> impl Strategy<Value = Layer> {
    (octets::<16>(), octets::<16>(), any::<u8>(), any::<u8>(), 0u32..1 << 20).prop_map(
        |(src, dst, hop_limit, traffic_class, flow_label)| {
            let (src, dst) = (src.into(), dst.into());
            ipv6::Repr { src, dst, hop_limit, traffic_class, flow_label, ..Default::default() }
                .into()
        },
    )
}

fn extension_layer(kind: ipv6_ext::ExtensionKind) -> impl Strategy<Value = Layer> {
    bytes(40).prop_map(move |mut body| {
        if let (ipv6_ext::ExtensionKind::Routing, Some(segments_left)) = (kind, body.get_mut(1)) {
            *segments_left &= 1;
        }
        ipv6_ext::Repr { kind, next_header: IpProtocol::NONE, body }.into()
    })
}

fn auth_layer() -> impl Strategy<Value = Layer> {
    (any::<u32>(), any::<u32>(), bytes(40)).prop_map(|(spi, sequence, check_value)| {
        auth::Repr { next_header: IpProtocol::NONE, spi, sequence, check_value }.into()
    })
}

/// Extension headers in the order RFC 8200 §4.1 recommends, any of them left out.
fn extensions() -> impl Strategy<Value = Vec<Layer>> {
    use ipv6_ext::ExtensionKind;
    let fragment = any::<u32>().prop_map(|identification| {
        Layer::from(ipv6_fragment::Repr {
            identification,
            next_header: IpProtocol::NONE,
            ..Default::default()
        })
    });
    let chain = (
        prop::option::weighted(0.3, extension_layer(ExtensionKind::HopByHop)),
        prop::option::weighted(0.3, extension_layer(ExtensionKind::Destination)),
        prop::option::weighted(0.3, extension_layer(ExtensionKind::Routing)),
        prop::option::weighted(0.3, fragment),
        prop::option::weighted(0.3, auth_layer()),
        prop::option::weighted(0.3, extension_layer(ExtensionKind::Destination)),
    );
    // Destination options before routing only if there is a routing header.
    chain.prop_map(|(hop, first, routing, fragment, auth, last)| {
        let first = first.filter(|_| routing.is_some());
        [hop, first, routing, fragment, auth, last].into_iter().flatten().collect()
    })
}

pub(super) fn transport_layer() -> impl Strategy<Value = Layer> {
    let tcp = (any::<[u16; 4]>(), any::<[u32; 2]>(), any::<u8>(), bytes(40)).prop_map(
        |([src_port, dst_port, window, urgent], [sequence, acknowledgement], flags, options)| {
            let (flags, options) = (tcp::Flags(flags), OptionBytes::new(&options).unwrap());
            Layer::from(tcp::Repr {
                src_port,
                dst_port,
                sequence,
                acknowledgement,
                flags,
                window,
                urgent,
                options,
            })
        },
    );
    let udp = (any::<u16>(), 0u16..4000, any::<bool>()).prop_map(|(src_port, dst_port, absent)| {
        let checksum = if absent { udp::ChecksumMode::Absent } else { udp::ChecksumMode::Computed };
        Layer::from(udp::Repr { src_port, dst_port, checksum })
    });
    prop_oneof![tcp, udp]
}

fn icmp_layer() -> impl Strategy<Value = Layer> {
    // Time stamps (13, 14) have a length of their own, which etherparse insists on.
    let kinds = prop_oneof![0u8..13, 15u8..=255];
    (kinds, any::<u8>(), any::<u32>()).prop_map(|(kind, code, rest)| {
        icmp::Repr { message_type: icmp::MessageType(kind), code, rest }.into()
    })
}

fn icmpv6_layer() -> impl Strategy<Value = Layer> {
    (any::<u8>(), any::<u8>(), any::<u32>()).prop_map(|(kind, code, rest)| {
        icmpv6::Repr { message_type: icmpv6::MessageType(kind), code, rest }.into()
    })
}

/// An IP header with what may stand between it and the transport, and the transport.
pub(super) fn ip_packet() -> impl Strategy<Value = Vec<Layer>> {
    let v4 = (
        ipv4_layer(),
        prop::option::weighted(0.2, auth_layer()),
        prop_oneof![3 => transport_layer(), 1 => icmp_layer()],
    )
        .prop_map(|(ip, auth, transport)| {
            std::iter::once(ip).chain(auth).chain([transport]).collect()
        });
    let v6 = (ipv6_layer(), extensions(), prop_oneof![3 => transport_layer(), 1 => icmpv6_layer()])
        .prop_map(|(ip, extensions, transport)| {
            std::iter::once(ip).chain(extensions).chain([transport]).collect()
        });
    prop_oneof![v4, v6]
}

/// Ethernet, up to three tags, an IP packet or ARP, a payload.
pub(super) fn plain_stack() -> impl Strategy<Value = Vec<Layer>> {
    let arp = (any::<u16>(), octets(), octets::<4>(), octets(), octets::<4>()).prop_map(
        |(operation, src_mac, src_ip, dst_mac, dst_ip)| {
            let (src_mac, dst_mac) = (MacAddress(src_mac), MacAddress(dst_mac));
            let (src_ip, dst_ip) = (src_ip.into(), dst_ip.into());
            vec![Layer::from(arp::Repr { operation, src_mac, src_ip, dst_mac, dst_ip })]
        },
    );
    let inside = prop_oneof![1 => arp, 9 => ip_packet()];
    let tags = prop::collection::vec(vlan_layer(), 0..=3);
    (ethernet_layer(), tags, inside, bytes(64)).prop_map(|(ethernet, tags, inside, payload)| {
        let payload = (!payload.is_empty()).then(|| Layer::from(payload));
        std::iter::once(ethernet).chain(tags).chain(inside).chain(payload).collect()
    })
}

/// The headers of a tunnel, without those outside it: what an IP packet or a frame goes into.
fn tunnel() -> impl Strategy<Value = (Vec<Layer>, bool)> {
    let gre = (any::<bool>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<bool>()).prop_map(
        |(checksum_present, key, sequence, frame)| {
            let repr = gre::Repr { checksum_present, key, sequence, ..Default::default() };
            (vec![Layer::from(repr)], frame)
        },
    );
    let outer_udp = (any::<u16>(), any::<bool>()).prop_map(|(src_port, absent)| {
        let checksum = if absent { udp::ChecksumMode::Absent } else { udp::ChecksumMode::Computed };
        Layer::from(udp::Repr { src_port, dst_port: 0, checksum })
    });
    let vxlan = (0u32..1 << 24).prop_map(|vni| (Layer::from(vxlan::Repr { vni }), true));
    let geneve = (0u32..1 << 24, any::<bool>(), any::<bool>(), bytes(252)).prop_map(
        |(vni, critical, frame, options)| {
            let options = OptionBytes::new(&options).unwrap();
            let repr = geneve::Repr { vni, critical, options, ..Default::default() };
            (Layer::from(repr), frame)
        },
    );
    let in_udp = (outer_udp, prop_oneof![vxlan, geneve])
        .prop_map(|(udp, (tunnel, frame))| (vec![udp, tunnel], frame));
    let label = (3u32..1 << 20, 0u8..8, any::<u8>()).prop_map(|(label, traffic_class, ttl)| {
        Layer::from(mpls::Repr { label, traffic_class, bottom: true, ttl })
    });
    let mpls = prop::collection::vec(label, 1..4).prop_map(|labels| (labels, false));
    prop_oneof![gre, in_udp, mpls, Just((vec![], false))]
}

/// A plain stack within up to three tunnels.
pub(super) fn any_stack() -> impl Strategy<Value = Vec<Layer>> {
    let outer = (prop_oneof![ipv4_layer(), ipv6_layer()], tunnel());
    (ethernet_layer(), prop::collection::vec(outer, 0..=3), plain_stack()).prop_map(
        |(ethernet, tunnels, plain)| {
            let mut layers = vec![ethernet];
            let mut in_frame = true;
            for (ip, (headers, frame)) in tunnels {
                if frame_starts(in_frame, &layers) {
                    layers.push(eth());
                }
                layers.push(ip);
                layers.extend(headers);
                in_frame = frame;
            }
            // Inside an IP-only tunnel a plain stack loses its Ethernet part, and ARP its place.
            let keep_all = frame_starts(in_frame, &layers);
            let is_inner = |layer: &Layer| {
                !matches!(layer, Layer::Ethernet(_) | Layer::Vlan(_) | Layer::Arp(_))
            };
            let has_ip = plain.iter().any(|layer| matches!(layer, Layer::Ipv4(_) | Layer::Ipv6(_)));
            let after_label = matches!(layers.last(), Some(Layer::Mpls(_)));
            let only_outer = layers.len() == 1;
            layers.extend(plain.into_iter().filter(|layer| match layer {
                Layer::Ethernet(_) => keep_all,
                Layer::Payload(_) => has_ip || !after_label, // it might look like an IP header
                layer => keep_all || only_outer || is_inner(layer),
            }));
            layers
        },
    )
}

fn frame_starts(in_frame: bool, layers: &[Layer]) -> bool {
    in_frame && layers.len() > 1
}

/// A frame with a few bytes changed, and cut or lengthened.
pub(super) fn damaged(stack: impl Strategy<Value = Vec<Layer>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (stack, changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(layers, changes, cut, is_cut)| {
            let mut frame = build(&layers).unwrap();
            let headers_len = walk(&frame).spans().last().map_or(1, |s| s.start).max(1);
            for (at, value) in changes {
                frame[at.index(headers_len)] = value;
            }
            if is_cut {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}
