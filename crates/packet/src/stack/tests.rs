//! Known frames; random stacks that round-trip; etherparse as a second opinion.

mod arbitrary;
mod oracle;

use expect_test::{Expect, expect};

use super::*;
use crate::error::{BuildError, LayerKind};
use crate::limits::{EXTENSIONS_MAX, LAYERS_MAX, TUNNELS_MAX};
use crate::wire::{
    EtherType, IpProtocol, MacAddress, OptionBytes, arp, auth, ethernet, geneve, gre, icmp, icmpv6,
    ipv4, ipv6, ipv6_ext, ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};

fn eth() -> Layer {
    let (dst, src) = (MacAddress::local(2), MacAddress::local(1));
    ethernet::Repr { dst, src, ..Default::default() }.into()
}

fn ip4() -> Layer {
    let (src, dst) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    ipv4::Repr { src, dst, ..Default::default() }.into()
}

fn ip6() -> Layer {
    let address = |last| [0xfd00, 0, 0, 0, 0, 0, 0, last].into();
    ipv6::Repr { src: address(1), dst: address(2), ..Default::default() }.into()
}

fn datagram() -> Layer {
    udp::Repr { src_port: 1000, dst_port: 2000, ..Default::default() }.into()
}

fn payload(len: u8) -> Layer {
    (0..len).collect::<Vec<u8>>().into()
}

fn syn() -> Layer {
    let options = OptionBytes::new(&[2, 4, 5, 0xb4, 1, 3, 3, 7]).unwrap();
    let flags = tcp::Flags::SYN;
    tcp::Repr { src_port: 1, dst_port: 80, flags, options, ..Default::default() }.into()
}

fn tag(tag_type: EtherType, id: u16) -> Layer {
    vlan::Repr { tag_type, id, ..Default::default() }.into()
}

fn label(label: u32) -> Layer {
    mpls::Repr { label, ..Default::default() }.into()
}

fn ah() -> Layer {
    auth::Repr { spi: 5, check_value: vec![7; 12], ..Default::default() }.into()
}

fn options(kind: ipv6_ext::ExtensionKind) -> Layer {
    ipv6_ext::Repr { kind, ..ipv6_ext::Repr::hop_by_hop() }.into()
}

/// A segment routing header with two segments, one of them left.
fn routing() -> Layer {
    let mut body = vec![4, 1, 1, 0, 0, 0];
    body.extend([[0xa; 16], [0xb; 16]].concat());
    let next_header = IpProtocol::TCP;
    ipv6_ext::Repr { kind: ipv6_ext::ExtensionKind::Routing, next_header, body }.into()
}

fn vni() -> Layer {
    let options = OptionBytes::new(&[1, 2, 3, 1, 9, 9, 9, 9]).unwrap();
    geneve::Repr { vni: 7, options, ..Default::default() }.into()
}

fn request() -> Layer {
    arp::Repr {
        operation: arp::REQUEST,
        src_mac: MacAddress::local(1),
        src_ip: [10, 0, 0, 1].into(),
        dst_mac: MacAddress::default(),
        dst_ip: [10, 0, 0, 2].into(),
    }
    .into()
}

/// Lists of layers in which every kind of header and of tunnel occurs.
#[rustfmt::skip]
fn samples() -> Vec<Vec<Layer>> {
    let ping: Layer = icmp::Repr::echo_request(1, 2).into();
    let ping6: Layer = icmpv6::Repr::echo_request(1, 2).into();
    let atomic: Layer = ipv6_fragment::Repr { identification: 9, ..Default::default() }.into();
    let gre: Layer = gre::Repr::default().into();
    let gre_all: Layer = gre::Repr {
        checksum_present: true, key: Some(8), sequence: Some(9), ..Default::default()
    }.into();
    let vxlan: Layer = vxlan::Repr { vni: 5 }.into();
    let (service, customer) = (tag(EtherType::VLAN_SERVICE, 100), tag(EtherType::VLAN, 7));
    let hop = options(ipv6_ext::ExtensionKind::HopByHop);
    let end = options(ipv6_ext::ExtensionKind::Destination);
    vec![
        vec![eth(), request(), payload(18)],
        vec![eth(), ip4(), datagram(), payload(18)],
        vec![eth(), service, customer.clone(), ip6(), syn()],
        vec![eth(), ip4(), ping, payload(9)],
        vec![eth(), ip6(), ping6, payload(9)],
        vec![eth(), label(16), label(17), ip4(), syn(), payload(3)],
        vec![eth(), ip6(), hop, routing(), atomic, ah(), end, syn(), payload(5)],
        vec![eth(), ip4(), ah(), datagram(), payload(4)],
        vec![eth(), ip4(), datagram(), vxlan, eth(), ip6(), syn()],
        vec![eth(), ip6(), datagram(), vni(), eth(), customer, ip4(), datagram()],
        vec![eth(), ip4(), gre_all, ip6(), datagram(), payload(7)],
        vec![eth(), ip4(), gre, eth(), ip4(), datagram(), payload(1)],
        vec![eth(), ip4(), ip6(), ip4(), syn()],
        vec![eth(), ip4(), datagram(), label(3), ip6(), datagram()],
    ]
}

#[test]
fn samples_round_trip_with_valid_checksums() {
    for layers in samples() {
        let frame = build(&layers).unwrap();
        let stack = walk(&frame);
        let kinds: Vec<_> = stack.spans().iter().map(|span| span.kind).collect();
        assert!(layers.iter().map(Layer::kind).eq(kinds.iter().copied()), "{kinds:?}");
        assert_eq!((stack.end(), stack.missing_len()), (WalkEnd::Payload, 0), "{stack}");
        assert_eq!(stack.checksum_errors(), [], "{stack}");
        assert_eq!(build(&stack.to_layers()).unwrap(), frame);
    }
}

#[test]
fn every_truncation_of_every_sample_is_walked() {
    for layers in samples() {
        let frame = build(&layers).unwrap();
        let whole = walk(&frame);
        for len in 0..frame.len() {
            let head = walk(&frame[..len]);
            // What the head of a frame shows is what the frame shows.
            let headers = head.spans().iter().filter(|span| span.kind != LayerKind::Payload);
            for (span, of_whole) in headers.zip(whole.spans()) {
                assert_eq!(
                    (span.kind, span.start, span.header_len),
                    (of_whole.kind, of_whole.start, of_whole.header_len)
                );
            }
            assert!(head.spans().iter().all(|span| span.end <= len));
            assert!(head.to_string().len() > 10);
            let is_reported = head.missing_len() > 0 || matches!(head.end(), WalkEnd::Malformed(_));
            let before_payload = len >= frame.len() - whole.payload().len();
            assert!(
                is_reported || before_payload || head.spans().len() < whole.spans().len(),
                "{head}"
            );
            assert!(head.checksum_errors().is_empty() || before_payload, "{len} {head}");
        }
    }
}

fn check(layers: &[Layer], expected: Expect) {
    // The first line has no indent: without it the others would lose theirs.
    expected.assert_eq(&format!("frame\n{}", walk(&build(layers).unwrap())));
}

#[test]
fn a_tunnel_is_shown_line_by_line() {
    let samples = samples();
    check(
        &samples[9],
        expect![[r#"
            frame
                0 Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x86dd
               14 IPv6 fd00::1 > fd00::2 next UDP hops 64 label 0x0 length 70
               54 UDP 1000 > 6081 length 70
               62 GENEVE vni 7 type 0x6558 option 0x0102:0x03 [09, 09, 09, 09]
               78 Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x8100
               92 VLAN 7 priority 0 type 0x0800
               96 IPv4 10.0.0.1 > 10.0.0.2 protocol UDP ttl 64 length 28
              116 UDP 1000 > 2000 length 8
        "#]],
    );
    let mut chain = samples[6].clone();
    chain[7] = datagram();
    check(
        &chain,
        expect![[r#"
            frame
                0 Ethernet 02:00:00:00:00:01 > 02:00:00:00:00:02 type 0x86dd
               14 IPv6 fd00::1 > fd00::2 next 0 hops 64 label 0x0 length 101
               54 IPv6 hop-by-hop options next 43 length 8
               62 IPv6 routing next 44 length 40
              102 IPv6 fragment 9@0 next 51
              110 AH spi 0x5 sequence 0 next 60 length 24
              134 IPv6 destination options next UDP length 8
              142 UDP 1000 > 2000 length 13
              150 payload 5 bytes
        "#]],
    );
}

#[test]
fn a_known_frame() {
    // Checksums computed by hand from RFC 791 and RFC 768.
    let frame = build(&[eth(), ip4(), datagram(), payload(2)]).unwrap();
    assert_eq!(
        frame,
        [
            0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
            0x45, 0x00, 0x00, 0x1e, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xcd, // IPv4
            10, 0, 0, 1, 10, 0, 0, 2, //
            0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0a, 0xe0, 0x1e, // UDP
            0x00, 0x01, // payload
        ]
    );
}

#[test]
fn padding_is_outside_the_packet() {
    let mut frame = build(&[eth(), ip4(), datagram(), payload(2)]).unwrap();
    frame.resize(60, 0xee);
    let stack = walk(&frame);
    assert_eq!(stack.payload(), [0, 1]);
    assert_eq!(stack.checksum_errors(), []);
}

#[test]
fn missing_bytes_are_counted() {
    let frame = build(&[eth(), ip4(), datagram(), payload(100)]).unwrap();
    let stack = walk(&frame[..64]);
    assert_eq!((stack.end(), stack.missing_len()), (WalkEnd::Payload, 78));
    assert_eq!(stack.spans().len(), 4);
    assert_eq!(stack.is_checksum_valid(1), Some(true));
    assert_eq!(stack.is_checksum_valid(2), None);
}

#[test]
fn every_wrong_bit_under_a_checksum_is_found() {
    let frame = build(&[eth(), ip4(), datagram(), payload(2)]).unwrap();
    for bit in 14 * 8..frame.len() * 8 {
        let mut wrong = frame.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let stack = walk(&wrong);
        let is_reported = stack.missing_len() > 0 || matches!(stack.end(), WalkEnd::Malformed(_));
        assert!(is_reported || !stack.checksum_errors().is_empty(), "{bit} {stack}");
    }
}

#[test]
fn fragments_are_not_looked_into() {
    let first = ipv4::Repr { more_fragments: true, dont_fragment: false, ..Default::default() };
    let later = ipv4::Repr { fragment_offset: 8, ..first };
    for repr in [first, later] {
        let stack_frame = build(&[eth(), repr.into(), datagram(), payload(3)]).unwrap();
        let stack = walk(&stack_frame);
        assert_eq!((stack.end(), stack.spans().len()), (WalkEnd::Fragment, 3));
    }
    let fragment = ipv6_fragment::Repr { more_fragments: true, ..Default::default() };
    let frame = build(&[eth(), ip6(), fragment.into(), datagram()]).unwrap();
    assert_eq!(walk(&frame).end(), WalkEnd::Fragment);
}

#[test]
fn depth_is_bounded() {
    let tower = |count, layer: Layer| {
        let mut layers = vec![eth()];
        layers.extend(std::iter::repeat_n(layer, count));
        layers.push(payload(1));
        build(&layers).unwrap()
    };
    let end = |frame: Vec<u8>| walk(&frame).end();
    assert_eq!(end(tower(TUNNELS_MAX + 1, ip4())), WalkEnd::Payload);
    assert_eq!(end(tower(TUNNELS_MAX + 2, ip4())), WalkEnd::Limit);

    assert_eq!(end(tower(LAYERS_MAX - 2, tag(EtherType::VLAN, 1))), WalkEnd::Payload);
    assert_eq!(end(tower(LAYERS_MAX - 1, tag(EtherType::VLAN, 1))), WalkEnd::Limit);
    let chain = |count| {
        let mut layers = vec![eth(), ip6()];
        layers.extend(std::iter::repeat_n(ipv6_ext::Repr::hop_by_hop().into(), count));
        layers.push(datagram());
        build(&layers).unwrap()
    };
    assert_eq!(end(chain(EXTENSIONS_MAX)), WalkEnd::Payload);
    assert_eq!(end(chain(EXTENSIONS_MAX + 1)), WalkEnd::Limit);
}

#[test]
fn wrong_lists_are_refused() {
    let error = |layers: &[Layer]| build(layers).unwrap_err();
    assert_eq!(error(&[]), BuildError::Empty);
    assert_eq!(error(&[ip4()]), BuildError::First { found: LayerKind::Ipv4 });
    for (outer, inner) in [
        (eth(), eth()),
        (eth(), datagram()),
        (ip4(), ipv6_ext::Repr::hop_by_hop().into()),
        (datagram(), ip4()),
        (payload(1), payload(1)),
        (mpls::Repr::default().into(), eth()),
        (vxlan::Repr::default().into(), ip4()),
    ] {
        let kinds = (outer.kind(), inner.kind());
        let layers = match kinds.0 {
            LayerKind::Ethernet => vec![outer, inner],
            LayerKind::Udp | LayerKind::Ipv4 => vec![eth(), ip4(), outer, inner],
            LayerKind::Vxlan => vec![eth(), ip4(), datagram(), outer, inner],
            _ => vec![eth(), outer, inner],
        };
        let BuildError::Order { outer, inner, .. } = error(&layers) else { panic!("{kinds:?}") };
        assert_eq!((outer, inner), kinds);
    }
}

#[test]
fn lengths_are_checked() {
    let with = |len: usize| build(&[eth(), ip4(), datagram(), vec![0; len].into()]);
    assert_eq!(with(65_535 - 28).unwrap().len(), 65_549);
    assert_eq!(
        with(65_535 - 27).unwrap_err(),
        BuildError::TooLong { index: 1, layer: LayerKind::Ipv4, len: 65_536, len_max: 65_535 }
    );
    let long = ipv6_ext::Repr { body: vec![0; 2047], ..ipv6_ext::Repr::hop_by_hop() };
    assert!(matches!(
        build(&[eth(), ip6(), long.into()]),
        Err(BuildError::TooLong { layer: LayerKind::Ipv6HopByHop, .. })
    ));
    let layers = [eth(), ip4(), datagram()];
    for len in [64, 1518, 9000] {
        let frame = build_with_len(&layers, len).unwrap();
        assert_eq!(frame.len(), usize::from(len) - 4);
        assert_eq!(walk(&frame).checksum_errors(), []);
    }
    assert_eq!(build_with_len(&layers, 45), Err(BuildError::TooShort { len: 41, needed_len: 42 }));
    assert_eq!(build_with_len(&layers, 46).unwrap().len(), 42);
}

/// Writes the samples where `NICLAB_SEEDS` says, for the fuzzer: see `fuzz/README.md`. Everywhere
/// else it checks that they survive a capture file.
#[test]
fn write_seeds() {
    use crate::trace::{Endian, Format, Resolution, Trace, TraceLimits, Writer};
    let mut trace = Trace::new();
    for layers in samples() {
        let frame = build(&layers).unwrap();
        trace.push(1, frame.len() as u32, &frame);
    }
    let formats = [
        Format::Pcap(Endian::Big, Resolution::Micro),
        Format::Pcap(Endian::Little, Resolution::Nano),
        Format::PcapNg(Endian::Big, Resolution::Nano),
        Format::PcapNg(Endian::Little, Resolution::Nano),
    ];
    let mut seeds: Vec<Vec<u8>> = trace.records().map(|record| record.data.to_vec()).collect();
    for format in formats {
        let mut writer = Writer::new(Vec::new(), format).unwrap();
        trace.records().for_each(|record| writer.write(&record).unwrap());
        let file = writer.finish().unwrap();
        let read = Trace::load(&file[..], TraceLimits::default()).unwrap();
        assert!(read.records().map(|r| r.data).eq(trace.records().map(|r| r.data)));
        seeds.push(file);
    }
    if let Some(folder) = std::env::var_os("NICLAB_SEEDS") {
        std::fs::create_dir_all(&folder).unwrap();
        for (index, seed) in seeds.iter().enumerate() {
            let path = std::path::Path::new(&folder).join(format!("seed-{index}"));
            std::fs::write(path, seed).unwrap();
        }
    }
}
