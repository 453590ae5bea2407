//! Our messages against those of `tc`, which `message_tests.txt` has as they went to the kernel:
//! `strace -e trace=sendmsg -e write=all tc filter add dev lo ingress …` of iproute2 6.1.
//!
//! ```text
//! tcp4   protocol ip pref 19456 handle 7 flower skip_sw dst_mac 02:00:00:00:00:07 ip_proto tcp
//!        src_ip 10.0.0.0/24 dst_ip 10.0.0.2 src_port 1024 dst_port 80 ip_tos 0x10/0xfc action drop
//! udp6   protocol ipv6 pref 19458 handle 1 flower skip_hw ip_proto udp src_ip 2001:db8::1
//!        dst_ip 2001:db8::2 dst_port 53 action skbedit queue_mapping 3
//! vlan   protocol 802.1q pref 19459 handle 2 flower skip_hw vlan_id 291 vlan_prio 3
//!        vlan_ethtype ip ip_proto sctp dst_port 38412 action drop
//! ether  protocol 0x88f7 pref 19456 handle 3 flower skip_hw dst_mac 02:00:00:00:00:01
//!        src_mac 02:00:00:00:00:02 action drop
//! ip4    protocol ip pref 19457 handle 4 flower skip_hw ip_proto 2f dst_ip 192.0.2.1 action drop
//! ```

use std::collections::BTreeMap;

use super::message::{self, FilterId, FilterPlace, filter};
use crate::linux::ethtool::flow::{ANYWHERE, Fate, Fields, Flow, FlowKind};

/// A value, or what is nested in an attribute.
#[derive(Debug, PartialEq)]
enum Node {
    Value(Vec<u8>),
    Nest(BTreeMap<u16, Node>),
}

/// Attributes by their kind, for tc has them in another order; those on this way are nests.
fn tree(mut bytes: &[u8], way: &[u16]) -> BTreeMap<u16, Node> {
    let mut nodes = BTreeMap::new();
    while !bytes.is_empty() {
        let len = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        let kind = u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x7fff;
        let value = &bytes[4..len];
        let node = match way {
            [next, rest @ ..] if *next == kind => Node::Nest(tree(value, rest)),
            _ => Node::Value(value.to_vec()),
        };
        assert!(nodes.insert(kind, node).is_none(), "attribute {kind} twice");
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    nodes
}

/// Options of a filter, its actions, the first, its options.
const NESTS: [u16; 4] = [2, 3, 1, 2];

fn of_tc(name: &str) -> Vec<u8> {
    let lines = include_str!("message_tests.txt").lines();
    let hex = lines.filter_map(|line| line.split_once(' ')).find(|line| line.0 == name).unwrap().1;
    let bytes = hex.as_bytes().chunks(2);
    bytes.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn address(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn flow(kind: FlowKind, value: Fields, mask: Fields) -> Flow {
    Flow { kind, value, mask, fate: Fate::Drop, location: ANYWHERE }
}

fn flows() -> [(&'static str, FilterId, Flow, FilterPlace); 5] {
    let (none, all) = (Fields::default(), [0xff; 2]);
    let id = |preference, protocol, handle| FilterId { preference, protocol, handle };
    let tcp4 = Fields {
        eth_dst: [2, 0, 0, 0, 0, 7],
        src: address(&[10, 0, 0, 0]),
        dst: address(&[10, 0, 0, 2]),
        sport: 1_024_u16.to_be_bytes(),
        dport: 80_u16.to_be_bytes(),
        tos: 0x10,
        ..none
    };
    let tcp4_mask = Fields {
        eth_dst: [0xff; 6],
        src: address(&[0xff, 0xff, 0xff, 0]),
        dst: address(&[0xff; 4]),
        sport: all,
        dport: all,
        tos: 0xfc,
        ..none
    };
    let mut host = address(&[0x20, 0x01, 0x0d, 0xb8]);
    host[15] = 1;
    let mut other = host;
    other[15] = 2;
    let udp6 = Fields { src: host, dst: other, dport: 53_u16.to_be_bytes(), ..none };
    let udp6_mask = Fields { src: [0xff; 16], dst: [0xff; 16], dport: all, ..none };
    let tagged = Fields { vlan_tci: [0x61, 0x23], dport: 38_412_u16.to_be_bytes(), ..none };
    let tagged_mask = Fields { vlan_tci: [0xef, 0xff], dport: all, ..none };
    let ether = Fields {
        eth_dst: [2, 0, 0, 0, 0, 1],
        eth_src: [2, 0, 0, 0, 0, 2],
        ether_type: [0x88, 0xf7],
        ..none
    };
    let ether_mask = Fields { eth_dst: [0xff; 6], eth_src: [0xff; 6], ether_type: all, ..none };
    let ip4 = Fields { dst: address(&[192, 0, 2, 1]), protocol: 47, ..none };
    let ip4_mask = Fields { dst: address(&[0xff; 4]), protocol: 0xff, ..none };
    let queue = Flow { fate: Fate::Queue(3), ..flow(FlowKind::Udp6, udp6, udp6_mask) };
    let (card, kernel) = (FilterPlace::Card, FilterPlace::Kernel);
    [
        ("tcp4", id(19_456, 0x0800, 7), flow(FlowKind::Tcp4, tcp4, tcp4_mask), card),
        ("udp6", id(19_458, 0x86dd, 1), queue, kernel),
        ("vlan", id(19_459, 0x8100, 2), flow(FlowKind::Sctp4, tagged, tagged_mask), kernel),
        ("ether", id(19_456, 0x88f7, 3), flow(FlowKind::Ether, ether, ether_mask), kernel),
        ("ip4", id(19_457, 0x0800, 4), flow(FlowKind::Ipv4, ip4, ip4_mask), kernel),
    ]
}

#[test]
fn filters_are_what_tc_sends() {
    for (name, id, flow, place) in flows() {
        let (ours, theirs) = (filter(1, id, &flow, place).unwrap(), of_tc(name));
        // Length, kind, and flags: a request with an answer, of what is not there yet.
        assert_eq!(theirs[4..8], [44, 0, 5, 6]);
        assert_eq!(ours[..20], theirs[16..36], "{name}: interface, number, parent, preference");
        assert_eq!(tree(&ours[20..], &NESTS), tree(&theirs[36..], &NESTS), "{name}");
        assert_eq!(message::protocol(&flow), Ok(id.protocol), "{name}");
    }
}

#[test]
fn a_part_of_a_port_has_its_mask() {
    let [(_, id, tcp4, place), ..] = flows();
    let part = Flow { mask: Fields { dport: [0xff, 0], ..tcp4.mask }, ..tcp4 };
    let bytes = filter(1, id, &part, place).unwrap();
    let options = message::attribute(&bytes[20..], 2).unwrap();
    assert_eq!(
        message::attribute(options, 36),
        Some(&[0xff, 0][..]),
        "TCA_FLOWER_KEY_TCP_DST_MASK"
    );
    assert_eq!(message::attribute(options, 35), None);
}

#[test]
fn rules_that_filters_cannot_express_are_named() {
    let all = [0xff; 2];
    let refused = |kind, mask: Fields| {
        let flow = flow(kind, Fields::default(), mask);
        let id = FilterId { preference: 1, protocol: 0x0800, handle: 1 };
        filter(1, id, &flow, FilterPlace::Kernel).unwrap_err()
    };
    let none = Fields::default();
    for (kind, mask, what) in [
        (FlowKind::Ether, Fields { ether_type: [0xff, 0], ..none }, "a part of the Ethernet type"),
        (FlowKind::Ipv4, Fields { protocol: 0xf0, ..none }, "a part of the protocol's number"),
        (FlowKind::Ipv4, Fields { vlan_tci: [0, 0xff], ..none }, "a part of the VLAN's number"),
        (FlowKind::Ipv4, Fields { vlan_tci: [0x20, 0], ..none }, "a part of the VLAN's priority"),
        (FlowKind::Ipv4, Fields { vlan_tci: all, ..none }, "the drop-eligible bit of a VLAN tag"),
    ] {
        assert_eq!(refused(kind, mask), what);
    }
}

#[test]
fn counts_are_found_in_what_the_kernel_tells() {
    let attribute = |kind: u16, value: &[u8]| {
        let len = 4 + value.len() as u16;
        [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
    };
    let basic = [&7_u64.to_ne_bytes()[..], &3_u32.to_ne_bytes(), &[0; 4]].concat();
    let statistics = attribute(4, &attribute(1, &basic));
    let action = [attribute(1, b"gact\0\0\0\0"), statistics].concat();
    let options = attribute(2, &attribute(3 | 0x8000, &attribute(1, &action)));
    let reply = [vec![0; 20], attribute(1, b"flower\0\0"), options].concat();
    assert_eq!(message::counts(&reply), Some((3, 7)));
    assert_eq!(message::counts(&reply[..60]), None, "a message that is cut");
    assert_eq!(message::counts(&[0; 20]), None);
}
