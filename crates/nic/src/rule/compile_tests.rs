//! Patterns of rules as text against frames that are built.

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{
    EtherType, MacAddress, OptionBytes, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6,
    ipv6_fragment, mpls, tcp, udp, vlan, vxlan,
};

use super::super::Pattern;
use super::super::text::{Command, Parser};
use crate::text::TextError;

fn compile(pattern: &str) -> Result<Pattern, TextError> {
    let line = format!("flow create 0 ingress pattern {pattern} / end actions drop / end");
    let mut parser = Parser::default();
    let parsed = parser.parse(1, &line)?;
    match parsed.command {
        Command::Create { rule, .. } => parsed.pattern(&rule),
        other => panic!("{other}"),
    }
}

fn matches(pattern: &str, frame: &[u8]) -> bool {
    compile(pattern).unwrap_or_else(|error| panic!("{error}")).matches(frame)
}

fn eth() -> Layer {
    let repr = ethernet::Repr {
        dst: MacAddress([2, 0, 0, 0, 0, 1]),
        src: MacAddress([2, 0, 0, 0, 0, 2]),
        ..Default::default()
    };
    repr.into()
}

fn tag(id: u16, priority: u8, drop_eligible: bool) -> Layer {
    vlan::Repr { tag_type: EtherType::VLAN, id, priority, drop_eligible, ..Default::default() }
        .into()
}

fn ip4() -> Layer {
    let [src, dst] = ["10.1.2.3", "192.168.0.9"].map(|text| text.parse().unwrap());
    ipv4::Repr { src, dst, ttl: 64, dscp: 46, ecn: 1, ..Default::default() }.into()
}

fn ip6() -> Layer {
    let [src, dst] = ["2001:db8::1:2", "2001:db8:5::9"].map(|text| text.parse().unwrap());
    let repr = ipv6::Repr { src, dst, hop_limit: 63, traffic_class: 0xb9, ..Default::default() };
    repr.into()
}

fn datagram() -> Layer {
    udp::Repr { src_port: 1024, dst_port: 53, ..Default::default() }.into()
}

fn segment() -> Layer {
    let flags = tcp::Flags(0x12);
    tcp::Repr { src_port: 443, dst_port: 50_000, flags, ..Default::default() }.into()
}

fn frame(layers: &[Layer]) -> Vec<u8> {
    build(layers).unwrap()
}

/// Each field: the item that matches the frame, and the same with another value, which does not.
#[test]
fn every_field_matches_its_value_and_no_other() {
    let v4 = frame(&[eth(), ip4(), datagram()]);
    let v6 = frame(&[eth(), ip6(), segment()]);
    let tagged = frame(&[eth(), tag(100, 5, true), ip4(), datagram()]);
    let double = frame(&[eth(), tag(100, 5, true), tag(7, 0, false), ip6(), segment()]);
    let table: &[(&[u8], &str, &str)] = &[
        (&v4, "eth dst is 02:00:00:00:00:01", "eth dst is 02:00:00:00:00:02"),
        (&v4, "eth src is 02:00:00:00:00:02", "eth src is 02:00:00:00:00:03"),
        (&v4, "eth type is 0x0800", "eth type is 0x86dd"),
        (&v4, "eth type spec 0x0801 type mask 0xff00", "eth type spec 0x86ff type mask 0xff00"),
        (&v4, "eth has_vlan is 0", "eth has_vlan is 1"),
        (&tagged, "eth has_vlan is 1", "eth has_vlan is 0"),
        (&double, "eth has_vlan is 1 / ipv6", "eth has_vlan is 0 / ipv6"),
        (&tagged, "vlan vid is 100", "vlan vid is 101"),
        (&tagged, "vlan pcp is 5", "vlan pcp is 4"),
        (&tagged, "vlan dei is 1", "vlan dei is 0"),
        (&tagged, "vlan tci is 0xb064", "vlan tci is 0x0064"),
        (&tagged, "vlan tci spec 0xb064", "vlan tci spec 0xb065"),
        (&tagged, "vlan vid spec 96 vid prefix 9", "vlan vid spec 32 vid prefix 9"),
        (&tagged, "vlan inner_type is 0x0800", "vlan inner_type is 0x86dd"),
        (&tagged, "vlan has_more_vlan is 0", "vlan has_more_vlan is 1"),
        (&double, "vlan has_more_vlan is 1", "vlan has_more_vlan is 0"),
        (&double, "eth / vlan vid is 100 / vlan vid is 7", "eth / vlan / vlan vid is 100"),
        (&double, "vlan / vlan inner_type is 0x86dd", "vlan / vlan inner_type is 0x0800"),
        (&v4, "ipv4 src is 10.1.2.3", "ipv4 src is 10.1.2.4"),
        (&v4, "ipv4 dst is 192.168.0.9", "ipv4 dst is 10.1.2.3"),
        (&v4, "ipv4 src spec 10.1.9.9 src prefix 16", "ipv4 src spec 10.2.2.3 src prefix 16"),
        (
            &v4,
            "ipv4 dst spec 192.0.0.9 dst mask 255.0.0.255",
            "ipv4 dst spec 192.168.0.8 dst mask 255.0.0.255",
        ),
        (&v4, "ipv4 src spec 10.1.2.3 dst spec 192.168.0.9", "ipv4 src spec 10.1.2.3"),
        (&v4, "ipv4 tos is 0xb9", "ipv4 tos is 0xb8"),
        (&v4, "ipv4 ttl is 64", "ipv4 ttl is 63"),
        (&v4, "ipv4 proto is 17", "ipv4 proto is 6"),
        (&v4, "ipv4 src is 10.1.2.3 src last 0", "ipv4 src is 10.1.2.4 src last 10.1.2.4"),
        (&v6, "ipv6 src is 2001:db8::1:2", "ipv6 src is 2001:db8::1:3"),
        (&v6, "ipv6 dst is 2001:db8:5::9", "ipv6 dst is 2001:db8:6::9"),
        (
            &v6,
            "ipv6 dst spec 2001:db8:5:: dst prefix 48",
            "ipv6 dst spec 2001:db8:4:: dst prefix 48",
        ),
        (&v6, "ipv6 tc is 0xb9", "ipv6 tc is 0xb8"),
        (&v6, "ipv6 hop is 63", "ipv6 hop is 64"),
        (&v6, "ipv6 proto is 6", "ipv6 proto is 17"),
        (&v4, "eth / ipv4 / udp src is 1024", "eth / ipv4 / udp src is 1025"),
        (&v4, "eth / ipv4 / udp dst is 53", "eth / ipv4 / udp dst is 54"),
        (&v4, "eth / ipv4 / udp", "eth / ipv4 / tcp"),
        (&v4, "eth / ipv4", "eth / ipv6"),
        (&tagged, "eth / ipv4 / udp dst is 53", "eth / vlan / vlan / ipv4 / udp dst is 53"),
        (&double, "eth / vlan / ipv6 / tcp", "eth / vlan / ipv4 / tcp"),
        (&v6, "ipv6 / tcp src is 443", "ipv6 / tcp src is 444"),
        (&v6, "ipv6 / tcp dst is 50000", "ipv6 / tcp dst is 50001"),
        (&v6, "ipv6 / tcp dst spec 49152 dst prefix 4", "ipv6 / tcp dst spec 0 dst prefix 4"),
        (&v6, "ipv6 / tcp flags is 0x12", "ipv6 / tcp flags is 0x02"),
        (&v6, "ipv6 / tcp flags spec 2 flags mask 2", "ipv6 / tcp flags spec 0 flags mask 2"),
    ];
    for (frame, yes, no) in table {
        assert!(matches(yes, frame), "{yes}");
        assert!(!matches(no, frame), "{no}");
    }
}

/// Fields that only the extra key has, outside and inside of tunnels.
#[test]
fn every_field_beside_the_key_matches_its_value_and_no_other() {
    let plain = || ipv4::Repr { identification: 9, dont_fragment: true, ..Default::default() };
    let ping = || Layer::from(icmp::Repr::echo_request(7, 3));
    let v4 = frame(&[eth(), plain().into(), ping()]);
    let label = ipv6::Repr { flow_label: 0x12345, ..Default::default() };
    let fragment = ipv6_fragment::Repr { identification: 1, ..Default::default() };
    let v6 =
        frame(&[eth(), label.into(), fragment.into(), icmpv6::Repr::echo_request(7, 3).into()]);
    let service = vlan::Repr { tag_type: EtherType::VLAN_SERVICE, ..Default::default() };
    let double = frame(&[eth(), service.into(), tag(7, 0, false), ip4(), datagram()]);
    let inside = frame(&[
        eth(),
        ip4(),
        datagram(),
        vxlan::Repr { vni: 5 }.into(),
        eth(),
        tag(7, 0, false),
        plain().into(),
        ping(),
    ]);
    let table: &[(&[u8], &str, &str)] = &[
        (&v4, "ipv4 version_ihl is 0x45", "ipv4 version_ihl is 0x46"),
        (&v4, "ipv4 packet_id is 9", "ipv4 packet_id is 8"),
        (&v4, "ipv4 fragment_offset is 0x4000", "ipv4 fragment_offset is 0"),
        (&v4, "ipv4 / icmp type is 8", "ipv4 / icmp type is 0"),
        (&v4, "ipv4 / icmp code is 0", "ipv4 / icmp code is 1"),
        (&v4, "ipv4 / icmp ident is 7", "ipv4 / icmp ident is 0"),
        (&v4, "ipv4 / icmp seq is 3", "ipv4 / icmp seq is 7"),
        (&v6, "ipv6 flow is 0x12345", "ipv6 flow is 0x2345"),
        (&v6, "ipv6 has_frag_ext is 1", "ipv6 has_frag_ext is 0"),
        (&v6, "ipv6 / icmp6 type is 128", "ipv6 / icmp6 type is 129"),
        (&double, "eth type is 0x88a8", "eth type is 0x8100"),
        (
            &double,
            "eth type is 0x88a8 / vlan inner_type is 0x8100 / ipv4",
            "vlan inner_type is 0x88a8",
        ),
        (&double, "eth type spec 0x8000 type mask 0xf000", "eth type spec 0x8100 type mask 0xff00"),
        (&inside, "ipv4 / udp / vxlan / eth / vlan vid is 7", "ipv4 / udp / vxlan / eth / ipv6"),
        (
            &inside,
            "ipv4 / udp / vxlan vni is 5 / ipv4 packet_id is 9 / icmp ident is 7",
            "ipv4 / udp / vxlan vni is 5 / ipv4 packet_id is 9 / icmp ident is 3",
        ),
    ];
    for (frame, yes, no) in table {
        assert!(matches(yes, frame), "{yes}");
        assert!(!matches(no, frame), "{no}");
    }
}

#[test]
fn every_tunnel_is_known_by_its_fields_and_what_is_inside() {
    let protocol = EtherType::IPV4;
    let gre = |key| gre::Repr { protocol, checksum_present: true, key, sequence: None }.into();
    let label = |label| mpls::Repr { label, traffic_class: 3, ..Default::default() }.into();
    let options = OptionBytes::new(&[0; 8]).unwrap();
    let geneve = geneve::Repr { vni: 5, protocol, control: false, critical: false, options };
    let geneve = || geneve.into();
    let table: &[(&[Layer], &str, &str)] = &[
        (
            &[eth(), ip4(), gre(Some(9)), ip6(), segment()],
            "ipv4 / gre k_bit is 1 s_bit is 0 / gre_key value is 9 / ipv6 hop is 63 / tcp",
            "ipv4 / gre / gre_key value is 9 / eth / ipv6",
        ),
        (
            &[eth(), ip6(), gre(None), eth(), ip4(), datagram()],
            "ipv6 / gre protocol is 0x6558 / eth src is 02:00:00:00:00:02 / ipv4 / udp dst is 53",
            "ipv6 / gre / gre_key",
        ),
        (
            &[eth(), ip4(), gre(None), ip4(), datagram()],
            "ipv4 / gre c_rsvd0_ver is 0x8000 c_bit is 1 / ipv4 ttl is 64",
            "ipv4 / ipv4",
        ),
        (
            &[eth(), ip4(), datagram(), geneve(), ip4(), datagram()],
            "ipv4 / udp / geneve vni is 5 protocol is 0x0800 optlen is 2 / ipv4 / udp src is 1024",
            "ipv4 / udp / geneve optlen is 1",
        ),
        (
            &[eth(), ip4(), datagram(), geneve(), eth(), ip6(), segment()],
            "ipv4 / udp dst is 6081 / geneve / ipv6 / tcp",
            "ipv4 / udp / vxlan",
        ),
        (
            &[eth(), label(5), label(6), ip4(), datagram()],
            "eth / mpls label is 5 tc is 3 s is 0 / ipv4 src is 10.1.2.3",
            "eth / ipv4",
        ),
        (
            &[eth(), tag(7, 0, false), label(5), ip6(), segment()],
            "vlan vid is 7 / mpls s is 1 / ipv6 / tcp src is 443",
            "mpls label is 6",
        ),
        (&[eth(), ip4(), datagram(), label(5), ip4()], "ipv4 / udp / mpls / ipv4", "eth / mpls"),
        (
            &[eth(), ip4(), gre(None), label(5), ip4()],
            "ipv4 / gre / mpls / ipv4",
            "ipv4 / gre / ipv4",
        ),
        (
            &[eth(), ip6(), ip4(), datagram()],
            "ipv6 hop is 63 / ipv4 dst is 192.168.0.9 / udp dst is 53",
            "ipv6 / ipv6",
        ),
    ];
    for (layers, yes, no) in table {
        let frame = frame(layers);
        assert!(matches(yes, &frame), "{yes}");
        assert!(!matches(no, &frame), "{no}");
    }
}

/// Headers at the bottom may be left out; then any of them may be there.
#[test]
fn a_transport_header_may_stand_first() {
    let frames = [
        frame(&[eth(), ip4(), datagram()]),
        frame(&[eth(), ip6(), datagram()]),
        frame(&[eth(), tag(5, 0, false), ip4(), datagram()]),
        frame(&[eth(), ip4(), segment()]),
        frame(&[eth(), ip4(), icmp::Repr::default().into()]),
        frame(&[eth(), ip6(), icmp::Repr::default().into()]),
    ];
    let table = [
        ("udp", [true, true, true, false, false, false]),
        ("udp dst is 53", [true, true, true, false, false, false]),
        ("udp dst is 54", [false; 6]),
        ("tcp flags is 0x12", [false, false, false, true, false, false]),
        ("icmp", [false, false, false, false, true, false]),
        ("icmp6", [false; 6]),
    ];
    for (pattern, expected) in table {
        let found: Vec<bool> = frames.iter().map(|frame| matches(pattern, frame)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

/// What zeros in a field match shows whether the header must be there.
#[test]
fn a_tunnel_that_is_cut_off_is_not_there() {
    let inner = || [eth(), ip4()];
    let with = |tunnel: &[Layer]| frame(&[&[eth(), ip4()], tunnel, &inner()[..]].concat());
    let vxlan = with(&[datagram(), vxlan::Repr { vni: 0 }.into()]);
    let gre = gre::Repr {
        protocol: EtherType::IPV4,
        checksum_present: false,
        key: Some(0),
        sequence: None,
    };
    let gre = with(&[gre.into()]);
    let ping = frame(&[eth(), ip4(), icmp::Repr::echo_request(0, 0).into()]);
    let table: &[(&[u8], &str, usize)] = &[
        (&vxlan, "ipv4 / udp / vxlan", 50),
        (&vxlan, "ipv4 / udp / vxlan vni is 0 / eth", 64),
        (&vxlan, "ipv4 / udp / vxlan / ipv4 packet_id is 0", 84),
        (&gre, "ipv4 / gre", 38),
        (&gre, "ipv4 / gre / gre_key value is 0", 42),
        (&gre, "ipv4 / gre / eth has_vlan is 0", 56),
        (&ping, "ipv4 / icmp code is 0", 38),
        (&ping, "ipv4 / icmp ident is 0", 40),
        (&ping, "ipv4 / icmp seq is 0", 42),
    ];
    for (frame, pattern, len) in table {
        for cut in 0..=frame.len() {
            assert_eq!(matches(pattern, &frame[..cut]), cut >= *len, "{pattern}: {cut} bytes");
        }
    }
}

#[test]
fn an_untagged_type_is_not_the_one_behind_a_tag() {
    let tagged = frame(&[eth(), tag(1, 0, false), ip4(), datagram()]);
    assert!(!matches("eth type is 0x0800", &tagged));
    assert!(matches("eth", &tagged) && matches("eth / ipv4", &tagged));
    assert!(!matches("eth / vlan / ipv4", &frame(&[eth(), ip4(), datagram()])));
}

/// What zeros in a field match shows whether the header must be there.
#[test]
fn a_header_that_is_cut_off_is_not_there() {
    let none = [0; 13];
    assert!(matches("eth", &none) && matches("void", &none));
    for pattern in ["eth dst is 00:00:00:00:00:00", "eth type is 0", "eth has_vlan is 0"] {
        assert!(!matches(pattern, &none), "{pattern}");
    }
    let ping = frame(&[eth(), ip4(), icmp::Repr::default().into()]);
    let table: &[(&[u8], &str, usize)] = &[
        (&frame(&[eth(), tag(0, 0, false)]), "vlan", 18),
        (&frame(&[eth(), ip4(), datagram()]), "ipv4", 34),
        (&frame(&[eth(), ip6(), segment()]), "ipv6", 54),
        (&frame(&[eth(), ip4(), datagram()]), "ipv4 / udp", 38),
        (&frame(&[eth(), ip6(), segment()]), "ipv6 / tcp", 58),
        (&frame(&[eth(), ip4(), tcp::Repr::default().into()]), "ipv4 / tcp flags is 0", 48),
        (&ping, "ipv4 / icmp", 38),
    ];
    for (frame, pattern, len) in table {
        for cut in 0..=frame.len() {
            assert_eq!(matches(pattern, &frame[..cut]), cut >= *len, "{pattern}: {cut} bytes");
        }
    }
}

#[test]
fn a_later_fragment_has_no_transport_header() {
    let mut ping = frame(&[eth(), ip4(), icmp::Repr::default().into()]);
    assert!(matches("ipv4 proto is 1", &ping) && matches("ipv4 / icmp", &ping));
    ping[21] = 1;
    assert!(matches("ipv4 proto is 1", &ping) && !matches("ipv4 / icmp", &ping));
}

#[test]
fn icmp_is_a_protocol_of_its_version() {
    let ping = frame(&[eth(), ip4(), icmp::Repr::default().into()]);
    assert!(matches("ipv4 / icmp", &ping) && !matches("ipv6 / icmp6", &ping));
    assert!(!matches("ipv4 / icmp", &frame(&[eth(), ip4(), datagram()])));
}

/// What the functions of `Pattern` make, its text makes too.
#[test]
fn a_pattern_is_that_of_its_text() {
    let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
    let [c, d] = ["2001:db8::1", "::2"].map(|text| text.parse().unwrap());
    let patterns = [
        Pattern::any(),
        Pattern::ipv4(),
        Pattern::ipv6(),
        Pattern::any().eth_dst([2, 0, 0, 0, 0, 1]).eth_src([2; 6]),
        Pattern::any().src(a).dst(b).udp().sport(1).dport(2),
        Pattern::any().src(c).dst(d).tcp().sport(1).dport(2),
    ];
    for pattern in patterns {
        assert_eq!(compile(&pattern.to_string()), Ok(pattern.clone()), "{pattern}");
    }
}

/// Pattern, and what is said of it.
const REFUSED: &[(&str, &str)] = &[
    ("eth / udp", "udp stands behind eth; put ipv4 or ipv6 between"),
    ("gre", "gre stands first; put ipv4 or ipv6 before it"),
    (
        "eth / mpls / mpls",
        "not supported: a second mpls: niclab reads one label, and passes over those behind it",
    ),
    ("ipv4 / vlan", "vlan stands behind ipv4; it belongs behind eth or vlan"),
    (
        "ipv4 / eth",
        "eth stands behind ipv4; it belongs first, or behind gre, gre_key, nvgre, vxlan, vxlan-gpe \
         or geneve",
    ),
    (
        "eth / eth",
        "eth stands behind eth; it belongs first, or behind gre, gre_key, nvgre, vxlan, vxlan-gpe \
         or geneve",
    ),
    (
        "ipv4 / tcp / ipv6",
        "ipv6 stands behind tcp; it belongs behind eth, vlan, pppoes, ipv4, ipv6, gre, gre_key, \
         nvgre, vxlan, vxlan-gpe, gtp, gtpu, gtp_psc, geneve or mpls",
    ),
    ("ipv4 proto is 6 / ipv6", "the proto before ipv6 is 6; that of ipv6 is 41"),
    ("ipv4 / ipv4 / ipv4", "not supported: ipv4 behind a tunnel in a tunnel"),
    ("ipv4 / ipv4 / gre", "not supported: gre inside a tunnel"),
    ("ipv4 / gre / eth / mpls", "not supported: mpls inside a tunnel"),
    ("ipv4 / gre protocol is 0x86dd / ipv4", "ipv4 cannot stand behind this protocol of gre"),
    ("ipv4 / gre protocol is 0x0800 / mpls", "mpls cannot stand behind this protocol of gre"),
    (
        "ipv4 / udp / geneve protocol is 0x0800 / eth",
        "eth cannot stand behind this protocol of geneve",
    ),
    ("ipv4 / gre k_bit is 0 / gre_key", "gre_key stands behind a gre that is to have no key"),
    ("ipv4 / udp dst is 53 / vxlan", "the udp dst before vxlan is not 4789, which vxlan has"),
    ("ipv4 / udp dst is 1 / mpls", "the udp dst before mpls is not 6635, which mpls has"),
    ("eth type is 0x0800 / mpls", "the type before mpls is none of mpls: use 0x8847"),
    ("ipv4 / udp / vxlan / eth type is 0x8100", "not supported: eth type"),
    ("meta data is 1 / meta data is 2", "meta contradicts what stands before"),
    ("tag data spec 1 data mask 1", "not supported: tag without an index: add `index is`"),
    ("tag data is 1 index is 4", "not supported: tag index 4; 0 to 3"),
    (
        "eth src is 02:00:00:00:00:02 dst is 02:00:00:00:00:01 / ipv6 src is ::1 dst is ::2 / udp \
         src is 1 \
             / vxlan / eth / ipv4 src is 1.2.3.4 ttl is 64",
        "fields of 11 words of 8 bytes are matched, and 8 can be: name fewer fields",
    ),
    ("ipv6 / icmp", "icmp stands behind ipv6; it belongs behind ipv4"),
    ("vxlan", "vxlan stands first; it belongs behind udp"),
    ("eth type is 0x0800 / ipv6", "the type before ipv6 is 0x0800; that of ipv6 is 0x86dd"),
    (
        "ipv4 version_ihl is 0x65",
        "the version in version_ihl is 4, as 0x45 has it: 6 is that of the item ipv6",
    ),
    (
        "ipv4 version_ihl spec 4 version_ihl mask 0xf",
        "the header's length in version_ihl is 5 words or more, as 0x45 has it",
    ),
    (
        "ipv4 fragment_offset is 5 / udp",
        "a later fragment has no udp: leave it out, and ask for `ipv4 proto`",
    ),
    (
        "ipv4 fragment_offset spec 0x100 fragment_offset mask 0x1100 / ipv6",
        "a later fragment has no ipv6: leave it out, and ask for `ipv4 proto`",
    ),
    (
        "ipv4 / ipv4 fragment_offset is 0x2001 / icmp",
        "a later fragment has no icmp: leave it out, and ask for `ipv4 proto`",
    ),
    (
        "ipv4 / udp dst is 4000 dst last 4788 / vxlan",
        "the udp dst before vxlan is not 4789, which vxlan has",
    ),
    ("ipv4 proto is 6 / udp", "the proto before udp is 6; that of udp is 17"),
    (
        "eth type is 0x0800 / vlan",
        "eth type 0x0800 stands before vlan: use 0x8100, or leave it out",
    ),
    ("eth has_vlan is 0 / vlan", "vlan stands behind a header that is to have no tag"),
    ("eth type is 0x0800 has_vlan is 1", "eth has_vlan contradicts eth's type, which is no tag's"),
    ("vlan / vlan / vlan", "not supported: a third vlan"),
    ("vlan / vlan has_more_vlan is 0", "not supported: vlan has_more_vlan"),
    ("ipv4 / udp dst is 9 dst last 3", "udp dst last 3 is below 9"),
    (
        "ipv4 / udp dst spec 9 dst mask 0xff dst last 12",
        "not supported: udp dst last under a mask that is no prefix",
    ),
];

#[test]
fn what_makes_no_pattern_is_said() {
    for (pattern, said) in REFUSED {
        let error = compile(pattern).map(|_| ()).unwrap_err();
        assert_eq!(error.problem().to_string(), *said, "{pattern}");
    }
    let error = compile("eth / udp").unwrap_err();
    assert_eq!((error.line(), error.column()), (1, 37), "{error}");
}
