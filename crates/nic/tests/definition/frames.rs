//! Random frames: stacks of headers, some of their bytes changed, some of them cut off.

use std::net::{Ipv4Addr, Ipv6Addr};

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{
    EtherType, IpProtocol, MacAddress, OptionBytes, ethernet, icmp, icmpv6, ipv4, ipv6, ipv6_ext,
    ipv6_fragment, tcp, udp, vlan,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Longest frame, without FCS.
pub const LEN_MAX: usize = 600;

/// A frame without FCS.
pub fn frame() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((0..90usize, any::<u8>()), 1..4);
    let cut = any::<prop::sample::Index>();
    (stack(), 0..4u8, changes, cut).prop_map(|(layers, damage, changes, cut)| {
        let mut frame = build(&layers).unwrap();
        if damage & 1 == 1 {
            for (at, byte) in changes {
                let at = at % frame.len();
                frame[at] = byte;
            }
        }
        if damage == 2 {
            frame.truncate(cut.index(frame.len().min(100)));
        }
        frame
    })
}

fn stack() -> impl Strategy<Value = Vec<Layer>> {
    let tags = prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3)];
    let tags = tags.prop_flat_map(|count| prop::collection::vec(tag(), count));
    let inside =
        prop_oneof![1 => payload().boxed(), 5 => over_ipv4().boxed(), 5 => over_ipv6().boxed()];
    let types = select(vec![0, 0x0800, 0x86dd, 0x0806, 0x8100]).prop_map(EtherType);
    (mac(), mac(), types, tags, inside).prop_map(|(dst, src, ether_type, tags, inside)| {
        let eth = ethernet::Repr { dst, src, ether_type };
        std::iter::once(eth.into()).chain(tags).chain(inside).collect()
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
    select(vec![0, 53, 1_024])
}

/// What an IP header carries, if it is more than some bytes.
fn transport(icmp: Layer) -> impl Strategy<Value = Vec<Layer>> {
    let flags = select(vec![0, 2, 0x12]).prop_map(tcp::Flags);
    let segment = (port(), port(), flags).prop_map(|(src_port, dst_port, flags)| {
        vec![tcp::Repr { src_port, dst_port, flags, ..Default::default() }.into()]
    });
    let datagram = (port(), port()).prop_map(|(src_port, dst_port)| {
        vec![udp::Repr { src_port, dst_port, ..Default::default() }.into()]
    });
    prop_oneof![
        3 => segment,
        3 => datagram,
        1 => Just(vec![icmp]),
        1 => payload(),
    ]
}

fn protocol() -> impl Strategy<Value = IpProtocol> {
    select(vec![0, 1, 6, 17, 44, 58, 60, 132]).prop_map(IpProtocol)
}

fn fragment() -> impl Strategy<Value = (u16, bool)> {
    let later = (select(vec![1, 185]), any::<bool>());
    prop_oneof![4 => Just((0, false)), 1 => Just((0, true)), 1 => later]
}

fn over_ipv4() -> impl Strategy<Value = Vec<Layer>> {
    let host = || (0..3u8).prop_map(|b| Ipv4Addr::new(10 * u8::from(b > 0), 0, 0, b));
    let options = prop_oneof![3 => Just(0), 1 => select(vec![4usize, 20, 40])];
    let rest = (protocol(), select(vec![0, 64]), select(vec![0, 1, 46]), fragment(), options);
    (host(), host(), rest, transport(icmp::Repr::default().into())).prop_map(
        |(src, dst, (protocol, ttl, dscp, fragment, options_len), inside)| {
            let (fragment_offset, more_fragments) = fragment;
            let options = OptionBytes::new(&vec![1; options_len]).unwrap();
            let ip = ipv4::Repr {
                src,
                dst,
                protocol,
                ttl,
                dscp,
                ecn: dscp & 1,
                fragment_offset,
                more_fragments,
                options,
                ..Default::default()
            };
            std::iter::once(ip.into()).chain(inside).collect()
        },
    )
}

fn over_ipv6() -> impl Strategy<Value = Vec<Layer>> {
    let host = || {
        let address = |b: u16| Ipv6Addr::new(0x2001 * b.min(1), 0xdb8 * b.min(1), 0, 0, 0, 0, 0, b);
        (0..3u16).prop_map(address)
    };
    let count = prop_oneof![4 => Just(0), 2 => 1..4usize, 2 => 7..10usize];
    let extensions = count.prop_flat_map(|count| prop::collection::vec(extension(), count));
    let rest = (protocol(), select(vec![0, 64]), select(vec![0, 4, 0xb9]));
    (host(), host(), rest, extensions, transport(icmpv6::Repr::default().into())).prop_map(
        |(src, dst, (next_header, hop_limit, traffic_class), extensions, inside)| {
            let ip = ipv6::Repr { src, dst, next_header, hop_limit, traffic_class, flow_label: 0 };
            std::iter::once(ip.into()).chain(extensions).chain(inside).collect()
        },
    )
}

fn extension() -> impl Strategy<Value = Layer> {
    use ipv6_ext::Kind::{Destination, HopByHop, Routing};
    let options = (select(vec![Destination, HopByHop, Routing]), select(vec![6, 14]), protocol())
        .prop_map(|(kind, len, next_header)| {
            ipv6_ext::Repr { kind, next_header, body: vec![0; len] }.into()
        });
    let fragment = (fragment(), protocol()).prop_map(|((offset, more_fragments), next_header)| {
        ipv6_fragment::Repr { next_header, offset, more_fragments, identification: 9 }.into()
    });
    prop_oneof![5 => options, 1 => fragment]
}
