//! Random frames: stacks of headers, tunnels among them, some of their bytes changed, some of them
//! cut off.

use std::net::{Ipv4Addr, Ipv6Addr};

use niclab_packet::stack::{Layer, build, walk};
use niclab_packet::wire::{
    EtherType, IpProtocol, MacAddress, OptionBytes, ethernet, geneve, gre, icmp, icmpv6, ipv4,
    ipv6, ipv6_ext, ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Longest frame, without FCS.
pub const LEN_MAX: usize = 900;

/// A frame without FCS.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    damaged(stack())
}

/// A frame with a header that few frames have.
pub fn less_common() -> impl Strategy<Value = Vec<u8>> {
    let nvgre = gre::Repr { key: Some(0x500), ..Default::default() }.into();
    let nvgre = chain(Just(vec![nvgre]), ethernet(ip(transport())));
    let fragment = (extension_of_fragment(), over_ipv6(transport()));
    let fragment = fragment.prop_map(|(fragment, mut packet)| {
        packet.insert(1, fragment);
        packet
    });
    damaged(
        prop_oneof![
            4 => ethernet(numbered()),
            1 => announced(ethernet(arp()), 0x0806),
            2 => announced(ethernet(pppoe()), 0x8864),
            1 => announced(ethernet(pppoe()), 0x8863),
            4 => ethernet(ip(to_port(2_152, gtp()))),
            1 => ethernet(ip(to_port(2_123, gtp()))),
            2 => ethernet(ip(to_port(4_790, vxlan_gpe()))),
            4 => ethernet(ip(nvgre)),
            1 => ethernet(fragment.boxed()),
        ]
        .boxed(),
    )
}

/// Frames of these layers, some of them changed or cut off.
fn damaged(stack: Stack) -> impl Strategy<Value = Vec<u8>> {
    let at = prop_oneof![2 => 0..90usize, 1 => 0..LEN_MAX];
    let changes = prop::collection::vec((at, any::<u8>()), 1..4);
    let cut = (any::<prop::sample::Index>(), select(vec![100, 250, LEN_MAX]));
    let flip = (any::<prop::sample::Index>(), 0..32usize);
    let damage = (changes, cut, flip);
    (stack, 0..5u8, damage).prop_map(|(layers, how, (changes, (cut, within), flip))| {
        let mut frame = build(&layers).unwrap();
        if how & 1 == 1 {
            for (at, byte) in changes {
                let at = at % frame.len();
                frame[at] = byte;
            }
        }
        if how == 4 {
            flip_bit(&mut frame, flip);
        }
        if how == 2 {
            frame.truncate(cut.index(frame.len().min(within)));
        }
        frame
    })
}

/// Flips a bit of the first four bytes of a header: of flags, versions and types.
fn flip_bit(frame: &mut [u8], (which, bit): (prop::sample::Index, usize)) {
    let starts: Vec<usize> = walk(frame).spans().iter().map(|span| span.start).collect();
    let at = starts[which.index(starts.len())] + bit / 8;
    if let Some(byte) = frame.get_mut(at) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

/// Layers, outermost first.
type Stack = BoxedStrategy<Vec<Layer>>;

/// Layers one behind the other.
fn chain(one: impl Strategy<Value = Vec<Layer>> + 'static, other: Stack) -> Stack {
    (one, other).prop_map(|(one, other)| [one, other].concat()).boxed()
}

fn stack() -> Stack {
    let carried = prop_oneof![1 => transport(), 1 => tunnel(transport())].boxed();
    let common = ethernet(prop_oneof![
        1 => payload().boxed(),
        10 => ip(carried),
        1 => chain(labels(), ip(transport())),
        1 => numbered(),
    ]);
    prop_oneof![
        20 => common,
        1 => announced(ethernet(arp()), 0x0806),
        1 => announced(ethernet(pppoe()), 0x8864),
        1 => announced(ethernet(pppoe()), 0x8863),
    ]
    .boxed()
}

/// Layers whose last type is this one, if a payload follows it.
fn announced(stack: Stack, number: u16) -> Stack {
    let announce = move |layer: Layer| match layer {
        Layer::Ethernet(repr) => ethernet::Repr { ether_type: EtherType(number), ..repr }.into(),
        Layer::Vlan(repr) => vlan::Repr { ether_type: EtherType(number), ..repr }.into(),
        layer => layer,
    };
    stack.prop_map(move |layers| layers.into_iter().map(announce).collect()).boxed()
}

/// SCTP, ESP and AH, some of them cut off.
fn numbered() -> Stack {
    let bytes = prop::collection::vec(select(vec![0, 1, 5, 53]), 0..24);
    let inside = bytes.prop_map(|bytes: Vec<u8>| vec![Layer::from(bytes)]).boxed();
    let protocol = select(vec![132, 50, 51]).prop_map(IpProtocol);
    let numbered = (ip(inside), protocol).prop_map(|(layers, number)| {
        let announce = |layer: Layer| match layer {
            Layer::Ipv4(repr) => ipv4::Repr { protocol: number, ..repr }.into(),
            Layer::Ipv6(repr) => ipv6::Repr { next_header: number, ..repr }.into(),
            Layer::Ipv6Extension(repr) => ipv6_ext::Repr { next_header: number, ..repr }.into(),
            Layer::Ipv6Fragment(repr) => ipv6_fragment::Repr { next_header: number, ..repr }.into(),
            layer => layer,
        };
        layers.into_iter().map(announce).collect()
    });
    numbered.boxed()
}

/// The bytes of a packet behind the Ethernet header of its frame.
fn packet_bytes(packet: Stack) -> impl Strategy<Value = Vec<u8>> {
    packet.prop_map(|packet| build(&in_frame(packet)).unwrap().split_off(14))
}

fn in_frame(packet: Vec<Layer>) -> Vec<Layer> {
    [vec![ethernet::Repr::default().into()], packet].concat()
}

fn arp() -> Stack {
    let address = || select(vec![[0; 4], [10, 0, 0, 1], [10, 0, 0, 2]]);
    let fields = (select(vec![1u8, 1, 1, 6]), mac(), address(), mac(), address());
    let arp = fields.prop_map(|(kind, sha, spa, tha, tpa)| {
        let head = [0, kind, 8, 0, 6, 4, 0, 1];
        vec![Layer::from([&head[..], &sha.0, &spa, &tha.0, &tpa].concat())]
    });
    arp.boxed()
}

fn pppoe() -> Stack {
    let head = (select(vec![0x11u8, 0x11, 0x11, 0x12]), select(vec![0u8, 0, 0, 9]), 0..3u8);
    let protocol = select(vec![0x21u8, 0x21, 0x57, 0xc0]);
    let bytes = packet_bytes(ip(transport()));
    let pppoe = (head, protocol, bytes).prop_map(|((version, code, session), protocol, bytes)| {
        let head = [version, code, 0, session, 0, 0, 0, protocol];
        vec![Layer::from([&head[..], &bytes].concat())]
    });
    pppoe.boxed()
}

/// UDP to this port, and a payload.
fn to_port(dst_port: u16, bytes: impl Strategy<Value = Vec<u8>> + 'static) -> Stack {
    let udp = udp::Repr { src_port: 9, dst_port, ..Default::default() };
    bytes.prop_map(move |bytes| vec![udp.into(), bytes.into()]).boxed()
}

/// GTP with extension headers and a packet.
fn gtp() -> impl Strategy<Value = Vec<u8>> {
    let flags = select(vec![0x30u8, 0x34, 0x34, 0x34, 0x32, 0x36, 0x48, 0x20]);
    let head = (flags, select(vec![255u8, 255, 255, 1]), select(vec![0u8, 5, 255]));
    let extension = (select(vec![0x85u8, 0x85, 0x20]), 0..3u8, 0..3u8, select(vec![1u8, 1, 2, 0]));
    let extensions = prop::collection::vec(extension, 0..4);
    let packet = packet_bytes(ip(transport()));
    (head, extensions, packet).prop_map(|((flags, kind, teid), extensions, packet)| {
        let mut bytes = vec![flags, kind, 0, 0, 0, 0, 0, teid];
        if flags & 7 != 0 {
            bytes.extend([0, 1, 0]);
            for (number, pdu, qfi, words) in extensions {
                bytes.push(number);
                let mut extension = vec![0; 4 * usize::from(words)];
                extension.splice(..extension.len().min(3), [words, pdu << 4, qfi]);
                extension.pop();
                bytes.extend(extension);
            }
            bytes.push(0);
        }
        [bytes, packet].concat()
    })
}

fn vxlan_gpe() -> impl Strategy<Value = Vec<u8>> {
    let flags = select(vec![0x0cu8, 0x0c, 0x08, 0x04, 0x1c]);
    let frame = ethernet(ip(transport())).prop_map(|layers| build(&layers).unwrap());
    let packet = packet_bytes(ip(transport()));
    let inside = prop_oneof![
        1 => frame.prop_map(|bytes| (3u8, bytes)),
        1 => (select(vec![1u8, 2, 4]), packet),
    ];
    (flags, vni(), inside).prop_map(|(flags, vni, (protocol, bytes))| {
        let vni = (vni << 8).to_be_bytes();
        [&[flags, 0, 0, protocol][..], &vni, &bytes].concat()
    })
}

fn ethernet(inside: impl Strategy<Value = Vec<Layer>> + 'static) -> Stack {
    let tags = prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3)];
    let tags = tags.prop_flat_map(|count| prop::collection::vec(tag(), count));
    let types = select(vec![0, 0x0800, 0x86dd, 0x0806, 0x8100, 0x8847]).prop_map(EtherType);
    let layers = (mac(), mac(), types, tags, inside);
    let layers = layers.prop_map(|(dst, src, ether_type, tags, inside)| {
        let eth = ethernet::Repr { dst, src, ether_type };
        std::iter::once(eth.into()).chain(tags).chain(inside).collect()
    });
    layers.boxed()
}

fn ip(inside: Stack) -> Stack {
    prop_oneof![1 => over_ipv4(inside.clone()), 1 => over_ipv6(inside)].boxed()
}

/// What IP carries: a tunnel, and IP or Ethernet in it.
fn tunnel(transport: Stack) -> Stack {
    let packet = prop_oneof![
        6 => ip(transport),
        1 => payload().prop_map(from_payload),
        1 => numbered(),
    ]
    .boxed();
    let bridged = ethernet(packet.clone());
    let any = prop_oneof![1 => packet.clone(), 1 => bridged.clone()].boxed();
    // A tunnel in a tunnel, which is not entered.
    let bridged = prop_oneof![
        5 => bridged,
        1 => chain(datagram(), chain(vxlan(), ethernet(packet.clone()))).prop_map(in_ethernet),
    ];
    prop_oneof![
        2 => packet.clone(),
        3 => chain(gre(), any.clone()),
        1 => chain(gre(), chain(labels(), packet.clone())),
        3 => chain(datagram(), chain(vxlan(), bridged.boxed())),
        3 => chain(datagram(), chain(geneve(), any)),
        1 => chain(datagram(), chain(labels(), packet)),
        2 => to_port(2_152, gtp()),
        1 => to_port(2_123, gtp()),
        2 => to_port(4_790, vxlan_gpe()),
    ]
    .boxed()
}

/// A payload where an IP header should be: one, with the payload behind it.
fn from_payload(payload: Vec<Layer>) -> Vec<Layer> {
    [vec![ipv4::Repr { protocol: IpProtocol(4), ..Default::default() }.into()], payload].concat()
}

fn in_ethernet(datagram: Vec<Layer>) -> Vec<Layer> {
    let head = vec![ethernet::Repr::default().into(), ipv4::Repr::default().into()];
    [head, datagram].concat()
}

fn vni() -> impl Strategy<Value = u32> {
    select(vec![0, 5, 0xff_ffff])
}

fn vxlan() -> impl Strategy<Value = Vec<Layer>> {
    vni().prop_map(|vni| vec![vxlan::Repr { vni }.into()])
}

fn geneve() -> impl Strategy<Value = Vec<Layer>> {
    (vni(), select(vec![0usize, 4, 8])).prop_map(|(vni, options_len)| {
        let options = OptionBytes::new(&vec![0; options_len]).unwrap();
        let protocol = EtherType::IPV4;
        vec![geneve::Repr { vni, protocol, control: false, critical: false, options }.into()]
    })
}

fn gre() -> impl Strategy<Value = Vec<Layer>> {
    let key = prop::option::of(select(vec![0, 5, u32::MAX]));
    (any::<bool>(), key, prop::option::of(Just(0))).prop_map(|(checksum_present, key, sequence)| {
        vec![gre::Repr { protocol: EtherType::IPV4, checksum_present, key, sequence }.into()]
    })
}

fn labels() -> impl Strategy<Value = Vec<Layer>> {
    let label = (select(vec![0, 5, 0xf_ffff]), 0..2u8);
    let label = label.prop_map(|(label, traffic_class)| {
        mpls::Repr { label, traffic_class, bottom: true, ttl: 64 }.into()
    });
    let count = prop_oneof![3 => Just(1), 2 => Just(2), 1 => 8..10usize];
    count.prop_flat_map(move |count| prop::collection::vec(label.clone(), count))
}

fn datagram() -> impl Strategy<Value = Vec<Layer>> {
    (port(), port()).prop_map(|(src_port, dst_port)| {
        vec![udp::Repr { src_port, dst_port, ..Default::default() }.into()]
    })
}

fn mac() -> impl Strategy<Value = MacAddress> {
    select(vec![0, 1, 2]).prop_map(|last| MacAddress([2 * u8::from(last > 0), 0, 0, 0, 0, last]))
}

fn tag() -> impl Strategy<Value = Layer> {
    let types = select(vec![EtherType::VLAN, EtherType::VLAN, EtherType::VLAN_SERVICE]);
    (types, 0..3u16, 0..3u8, any::<bool>()).prop_map(|(tag_type, id, priority, drop_eligible)| {
        vlan::Repr { tag_type, id, priority, drop_eligible, ether_type: EtherType::ARP }.into()
    })
}

fn payload() -> impl Strategy<Value = Vec<Layer>> {
    let bytes = prop::collection::vec(select(vec![0, 1, 6, 17, 0x45, 0x60]), 0..70);
    bytes.prop_map(|bytes| if bytes.is_empty() { vec![] } else { vec![bytes.into()] })
}

fn port() -> impl Strategy<Value = u16> {
    select(vec![0, 53, 1_024, 4_789, 6_081, 6_635])
}

/// What an IP header carries, if it is more than some bytes.
fn transport() -> Stack {
    let flags = select(vec![0, 2, 0x12]).prop_map(tcp::Flags);
    let segment = (port(), port(), flags).prop_map(|(src_port, dst_port, flags)| {
        vec![tcp::Repr { src_port, dst_port, flags, ..Default::default() }.into()]
    });
    prop_oneof![
        3 => segment,
        3 => datagram(),
        2 => message(),
        1 => payload(),
    ]
    .boxed()
}

/// ICMP or ICMPv6, behind either IP.
fn message() -> impl Strategy<Value = Vec<Layer>> {
    let fields = (select(vec![0, 8, 128]), select(vec![0, 1]), select(vec![0, 1, 0x1_0000]));
    (any::<bool>(), fields).prop_map(|(is_v4, (number, code, rest))| match is_v4 {
        true => {
            vec![icmp::Repr { message_type: icmp::MessageType(number), code, rest }.into()]
        }
        false => {
            vec![icmpv6::Repr { message_type: icmpv6::MessageType(number), code, rest }.into()]
        }
    })
}

fn protocol() -> impl Strategy<Value = IpProtocol> {
    select(vec![0, 1, 4, 6, 17, 41, 44, 47, 50, 51, 58, 60, 132]).prop_map(IpProtocol)
}

fn fragment() -> impl Strategy<Value = (u16, bool)> {
    let later = (select(vec![1, 185]), any::<bool>());
    prop_oneof![4 => Just((0, false)), 1 => Just((0, true)), 1 => later]
}

fn over_ipv4(inside: Stack) -> Stack {
    let host = || (0..3u8).prop_map(|b| Ipv4Addr::new(10 * u8::from(b > 0), 0, 0, b));
    let options = prop_oneof![3 => Just(0), 1 => select(vec![4usize, 20, 40])];
    let numbers = (select(vec![0, 64]), select(vec![0, 1, 46]), select(vec![0, 1]));
    let rest = (protocol(), numbers, fragment(), options);
    let layers = (host(), host(), rest, inside).prop_map(
        |(src, dst, (protocol, (ttl, dscp, identification), fragment, options_len), inside)| {
            let (fragment_offset, more_fragments) = fragment;
            let options = OptionBytes::new(&vec![1; options_len]).unwrap();
            let ip = ipv4::Repr {
                src,
                dst,
                protocol,
                ttl,
                dscp,
                ecn: dscp & 1,
                identification,
                fragment_offset,
                more_fragments,
                options,
                ..Default::default()
            };
            std::iter::once(ip.into()).chain(inside).collect()
        },
    );
    layers.boxed()
}

fn over_ipv6(inside: Stack) -> Stack {
    let host = || {
        let address = |b: u16| Ipv6Addr::new(0x2001 * b.min(1), 0xdb8 * b.min(1), 0, 0, 0, 0, 0, b);
        (0..3u16).prop_map(address)
    };
    let count = prop_oneof![4 => Just(0), 2 => 1..4usize, 2 => 7..10usize];
    let extensions = count.prop_flat_map(|count| prop::collection::vec(extension(), count));
    let flow_label = select(vec![0, 1, 0xf_ffff]);
    let rest = (protocol(), select(vec![0, 64]), select(vec![0, 4, 0xb9]), flow_label);
    let layers = (host(), host(), rest, extensions, inside).prop_map(
        |(src, dst, (next_header, hop_limit, traffic_class, flow_label), extensions, inside)| {
            let ip = ipv6::Repr { src, dst, next_header, hop_limit, traffic_class, flow_label };
            std::iter::once(ip.into()).chain(extensions).chain(inside).collect()
        },
    );
    layers.boxed()
}

fn extension() -> impl Strategy<Value = Layer> {
    use ipv6_ext::ExtensionKind::{Destination, HopByHop, Routing};
    let options = (select(vec![Destination, HopByHop, Routing]), select(vec![6, 14]), protocol())
        .prop_map(|(kind, len, next_header)| {
            ipv6_ext::Repr { kind, next_header, body: vec![0; len] }.into()
        });
    prop_oneof![5 => options, 1 => extension_of_fragment()]
}

fn extension_of_fragment() -> impl Strategy<Value = Layer> {
    let identification = select(vec![0, 1, 0x1_0000]);
    (fragment(), protocol(), identification).prop_map(
        |((offset, more_fragments), next_header, identification)| {
            ipv6_fragment::Repr { next_header, offset, more_fragments, identification }.into()
        },
    )
}
