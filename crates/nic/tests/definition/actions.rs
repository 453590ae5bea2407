//! Random actions, but for fates. Values are those that patterns ask for, as often as not.

use std::net::{Ipv4Addr, Ipv6Addr};

use niclab_nic::Meter;
use niclab_nic::rule::{Action, Set};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, ethernet, ipv4, ipv6, udp, vlan, vxlan};
use proptest::prelude::*;
use proptest::sample::select;

/// Meters there are, by number: sizes of some frames, and some more each second.
pub const METERS: [Meter; 3] = [
    Meter::SingleRate { cir_bytes_per_s: 100, cbs_bytes: 1_000, ebs_bytes: 300 },
    Meter::SingleRate { cir_bytes_per_s: 2_000, cbs_bytes: 0, ebs_bytes: 3_000 },
    Meter::TwoRate { cir_bytes_per_s: 100, pir_bytes_per_s: 700, cbs_bytes: 600, pbs_bytes: 1_000 },
];

/// Any action that is no fate, some of them meters.
pub fn metered() -> impl Strategy<Value = Action> {
    prop_oneof![1 => (0..METERS.len() as u32).prop_map(Action::Meter), 9 => any()]
}

/// Any action that is no fate and no meter.
pub fn any() -> impl Strategy<Value = Action> {
    let tag = select(vec![0x8100, 0x88a8]);
    prop_oneof![
        3 => Just(Action::Count),
        3 => (1..4u32).prop_map(Action::Age),
        1 => Just(Action::Flag),
        2 => prop_oneof![0..3u32, Just(u32::MAX)].prop_map(Action::Mark),
        1 => Just(Action::DecTtl),
        1 => Just(Action::MacSwap),
        2 => tag.prop_map(Action::PushVlan),
        2 => Just(Action::PopVlan),
        1 => (1..=20u16).prop_map(Action::RawDecap),
        2 => headers().prop_map(Action::RawEncap),
        1 => (0..2usize).prop_map(|which| Action::VxlanEncap(tunnel_headers(which).into())),
        1 => (2..4usize).prop_map(|which| Action::NvgreEncap(tunnel_headers(which).into())),
        2 => Just(Action::VxlanDecap),
        1 => Just(Action::NvgreDecap),
        9 => set().prop_map(Action::Set),
        3 => notes(),
    ]
}

/// Any action that notes something beside the packet.
pub fn notes() -> impl Strategy<Value = Action> {
    prop_oneof![
        1 => bits().prop_map(|(data, mask)| Action::SetMeta { data, mask }),
        3 => (0..4u8, bits())
            .prop_map(|(index, (data, mask))| Action::SetTag { index, data, mask }),
    ]
}

/// Data and mask.
pub fn bits() -> impl Strategy<Value = (u32, u32)> {
    (select(vec![0, 1, 2, u32::MAX]), select(vec![u32::MAX, u32::MAX, 1, 0xffff_0000]))
}

/// Headers of tunnels, whole, damaged and cut off.
fn headers() -> impl Strategy<Value = Box<[u8]>> {
    let damage = (0..80usize, proptest::num::u8::ANY);
    (0..4usize, damage, 0..6u8, 1..80usize).prop_map(|(which, (at, byte), how, len)| {
        let mut headers = tunnel_headers(which);
        match how {
            0 => headers.truncate(len),
            1 => headers[at % 40] = byte,
            _ => {}
        }
        headers.into()
    })
}

/// Headers of a tunnel: VXLAN over IPv4, over IPv6 with a tag, NVGRE over either.
pub fn tunnel_headers(which: usize) -> Vec<u8> {
    let eth = ethernet::Repr::default().into();
    let tag = vlan::Repr { id: 1, ..Default::default() }.into();
    let over4 = |protocol| ipv4::Repr { protocol, ttl: 64, ..Default::default() }.into();
    let over6 = |next_header| ipv6::Repr { next_header, hop_limit: 9, ..Default::default() }.into();
    let udp = || udp::Repr { src_port: 1_024, dst_port: 4_789, ..Default::default() }.into();
    let vxlan = || vxlan::Repr { vni: 5 }.into();
    // GRE with a key: no builder sets the type that is inside before there is something.
    let nvgre = || Layer::from(vec![0x20, 0, 0x65, 0x58, 0, 0, 1, 0]);
    let layers: Vec<Layer> = match which {
        0 => vec![eth, over4(IpProtocol::UDP), udp(), vxlan()],
        1 => vec![eth, tag, over6(IpProtocol::UDP), udp(), vxlan()],
        2 => vec![eth, over4(IpProtocol::GRE), nvgre()],
        _ => vec![eth, tag, over6(IpProtocol::GRE), nvgre()],
    };
    let mut headers = build(&layers).unwrap();
    if which < 2 {
        // VXLAN needs no UDP checksum, and this one was of an empty tunnel.
        let at = headers.len() - 10;
        headers[at..at + 2].fill(0);
    }
    headers
}

fn set() -> impl Strategy<Value = Set> {
    let mac = || (0..3u8).prop_map(|b| [2 * u8::from(b > 0), 0, 0, 0, 0, b]);
    let v4 = || select(vec![0, 0x0a00_0001, 0x0a00_0002, u32::MAX]).prop_map(Ipv4Addr::from_bits);
    let v6 = || {
        let prefix = 0x2001_0db8 << 96;
        select(vec![0, prefix | 1, prefix | 2, u128::MAX]).prop_map(Ipv6Addr::from_bits)
    };
    let dscp = || select(vec![0, 1, 46, 63]);
    let port = || prop_oneof![3 => select(vec![0, 53, 1_024]), 1 => proptest::num::u16::ANY];
    prop_oneof![
        dscp().prop_map(Set::Ipv4Dscp),
        v4().prop_map(Set::Ipv4Dst),
        v4().prop_map(Set::Ipv4Src),
        dscp().prop_map(Set::Ipv6Dscp),
        v6().prop_map(Set::Ipv6Dst),
        v6().prop_map(Set::Ipv6Src),
        mac().prop_map(Set::MacDst),
        mac().prop_map(Set::MacSrc),
        port().prop_map(Set::TpDst),
        port().prop_map(Set::TpSrc),
        select(vec![0, 1, 64, 255]).prop_map(Set::Ttl),
        (0..8u8).prop_map(Set::VlanPcp),
        select(vec![0, 1, 2, 4_095]).prop_map(Set::VlanVid),
    ]
}
