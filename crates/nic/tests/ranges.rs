//! Ranges of fields. The property test of `definition` compares them with the definition, ranges of
//! metadata too; here is each field that can have one, at the ends of its range.

use niclab_nic::memory::Region;
use niclab_nic::rule::item::{IMAGE_LEN, Item};
use niclab_nic::rule::text::{Command, Parser};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig};
use niclab_packet::stack::{Layer, build, walk};
use niclab_packet::wire::{
    EtherType, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6, mpls, tcp, udp, vlan, vxlan,
};

fn compile(text: &str) -> Result<Pattern, String> {
    let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
    let mut parser = Parser::default();
    let parsed = parser.parse(1, &line).map_err(|error| error.problem().to_string())?;
    let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
    parsed.pattern(&rule).map_err(|error| error.problem().to_string())
}

/// Items in front, an item, its fields, and the layers up to its header.
fn fields() -> Vec<(&'static str, Item, &'static [&'static str], Vec<Layer>)> {
    let eth = || Layer::from(ethernet::Repr::default());
    let ip4 = || Layer::from(ipv4::Repr::default());
    let ip6 = || Layer::from(ipv6::Repr::default());
    let tag = || Layer::from(vlan::Repr::default());
    let udp = || Layer::from(udp::Repr::default());
    let vxlan = || Layer::from(vxlan::Repr { vni: 1 });
    let (protocol, options) = (EtherType::IPV4, Default::default());
    let geneve = geneve::Repr { vni: 1, protocol, control: false, critical: false, options };
    let key = gre::Repr { protocol, checksum_present: false, key: Some(1), sequence: None };
    let inside = |layer| vec![eth(), ip4(), udp(), vxlan(), eth(), layer];
    let in_ip = |layer: Layer| vec![eth(), ip4(), udp(), vxlan(), eth(), ip4(), layer];
    let segment = || Layer::from(tcp::Repr::default());
    let (ping, ping6) = (icmp::Repr::echo_request(1, 2), icmpv6::Repr::echo_request(1, 2));
    let ip4_fields = &["tos", "ttl", "src", "dst"];
    let ip6_fields = &["tc", "hop"];
    vec![
        ("eth", Item::Ipv4, ip4_fields, vec![eth(), ip4()]),
        ("eth", Item::Ipv6, ip6_fields, vec![eth(), ip6()]),
        ("eth", Item::Vlan, &["vid", "pcp", "dei"], vec![eth(), tag()]),
        ("vlan", Item::Vlan, &["vid", "pcp"], vec![eth(), tag(), tag()]),
        ("ipv4", Item::Tcp, &["src", "dst"], vec![eth(), ip4(), segment()]),
        ("ipv4", Item::Icmp, &["type", "code"], vec![eth(), ip4(), ping.into()]),
        ("ipv6", Item::Icmp6, &["type", "code"], vec![eth(), ip6(), ping6.into()]),
        ("ipv4 / udp", Item::Vxlan, &["vni"], vec![eth(), ip4(), udp(), vxlan()]),
        ("ipv4 / udp", Item::Geneve, &["vni"], vec![eth(), ip4(), udp(), geneve.into()]),
        ("eth", Item::Mpls, &["label", "tc"], vec![eth(), mpls::Repr::default().into()]),
        ("ipv4 / gre", Item::GreKey, &["value"], vec![eth(), ip4(), key.into()]),
        ("ipv4 / udp / vxlan / eth", Item::Ipv4, ip4_fields, inside(ip4())),
        ("ipv4 / udp / vxlan / eth", Item::Ipv6, ip6_fields, inside(ip6())),
        ("ipv4 / udp / vxlan / eth", Item::Vlan, &["vid"], inside(tag())),
        ("ipv4 / udp / vxlan / eth / ipv4", Item::Tcp, &["src", "dst"], in_ip(segment())),
        ("ipv4 / udp / vxlan / eth / ipv4", Item::Icmp, &["type"], in_ip(ping.into())),
    ]
}

#[test]
fn a_field_lies_in_its_range_from_the_first_value_to_the_last() {
    for (before, item, names, layers) in fields() {
        let frame = build(&layers).unwrap();
        let last = walk(&frame).spans()[layers.len() - 1];
        // The key of GRE is no layer of its own.
        let start = last.start + if item == Item::GreKey { 4 } else { 0 };
        for name in names {
            let field = item.field(name).unwrap();
            let ones = field.ones();
            for (first, last) in [(0, 0), (0, ones / 2), (1, ones), (ones / 3, ones / 2), (1, 1)] {
                let item_name = item.name();
                let values = format!("{name} spec {first:#x} {name} mask {ones:#x}");
                let text = format!("{before} / {item_name} {values} {name} last {last:#x}");
                let pattern = compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                // A last value of 0 is none.
                let values = [first.saturating_sub(1), first, last, (last + 1).min(ones), 0, ones];
                for value in values {
                    let (mut frame, mut image) = (frame.clone(), [0; IMAGE_LEN]);
                    let end = (start + item.header_len()).min(frame.len());
                    image[..end - start].copy_from_slice(&frame[start..end]);
                    field.put(&mut image, value);
                    frame[start..end].copy_from_slice(&image[..end - start]);
                    let expected = (first..=last).contains(&value);
                    assert_eq!(pattern.matches(&frame), expected, "{text} of {value:#x}");
                }
            }
        }
    }
}

#[test]
fn the_same_values_make_the_same_pattern() {
    for [one, other] in [
        ["ipv4 src is 10.0.0.0 src last 10.0.0.255", "ipv4 src spec 10.0.0.0 src prefix 24"],
        ["ipv4 ttl is 64 ttl last 64", "ipv4 ttl is 64"],
        ["ipv4 ttl is 0 ttl last 255", "ipv4"],
        ["vlan vid is 3 vid last 9", "vlan tci spec 3 tci mask 0xfff vid last 9"],
        ["ipv4 / udp dst is 8 dst last 15", "ipv4 / udp dst spec 8 dst mask 0xfff8"],
        [
            "ipv4 src spec 10.0.9.9 src mask 255.255.255.0 src last 10.0.11.2",
            "ipv4 src is 10.0.9.0 src last 10.0.11.255",
        ],
        ["ipv4 / udp dst spec 9 dst mask 0xfffc dst last 12", "ipv4 / udp dst is 8 dst last 15"],
        ["vlan tci is 0x2003 tci last 0x2009", "vlan pcp is 1 dei is 0 vid is 3 vid last 9"],
    ] {
        assert_eq!(compile(one).unwrap(), compile(other).unwrap(), "{one} and {other}");
    }
    let range = |last| compile(&format!("ipv4 ttl is 3 ttl last {last}")).unwrap();
    assert_ne!(range(9), range(10));
}

/// Pattern, and what is said of it.
const REFUSED: &[(&str, &str)] = &[
    ("eth src is 02:00:00:00:00:02 src last 02:00:00:00:00:09", "not supported: eth src last"),
    ("ipv6 src is ::1 src last ::9", "not supported: ipv6 src last"),
    ("ipv6 flow is 1 flow last 9", "not supported: ipv6 flow last"),
    ("ipv4 / tcp flags is 1 flags last 3", "not supported: tcp flags last"),
    ("ipv4 / icmp ident is 1 ident last 3", "not supported: icmp ident last"),
    ("ipv4 packet_id is 1 packet_id last 3", "not supported: ipv4 packet_id last"),
    ("ipv4 src is 10.0.0.9 src last 10.0.0.1", "ipv4 src last 10.0.0.1 is below 10.0.0.9"),
    ("ipv4 ttl is 9 ttl last 3", "ipv4 ttl last 3 is below 9"),
    (
        "ipv4 src spec 10.0.0.9 src mask 255.0.255.0 src last 11.0.0.1",
        "not supported: ipv4 src last under a mask that is no prefix",
    ),
    (
        "vlan pcp is 1 pcp last 3 vid is 5",
        "not supported: vlan pcp last beside what stands behind it in tci",
    ),
    ("tag data is 1 data last 7", "not supported: tag without an index: add `index is`"),
    ("tag data is 1 data last 7 index is 4", "not supported: tag index 4; 0 to 3"),
    (
        "ipv4 src is 10.0.0.1 src last 10.0.0.9 dst is 10.0.0.1 dst last 10.0.0.9 ttl is 1 ttl \
         last 9 tos is 1 tos last 9 / udp / vxlan vni is 1 vni last 9",
        "not supported: vxlan vni last as range 5 of a pattern",
    ),
];

#[test]
fn what_can_have_no_range_is_said() {
    for (text, said) in REFUSED {
        assert_eq!(compile(text).map(|_| ()), Err((*said).to_owned()), "{text}");
    }
}

/// No bit is the same in all values of these ranges, so there is no key to look up.
#[test]
fn a_range_without_a_bit_in_common_is_looked_at_alone() {
    for (first, expected) in [(1, u64::MAX), (0, 0)] {
        let mut nic = Nic::new(&NicConfig::default()).unwrap();
        nic.isolate(true).unwrap();
        let pattern = compile(&format!("meta data is {first} data last 0xfffffffe")).unwrap();
        let actions = &[Action::Queue(0)];
        nic.create(&Rule { group: 0, priority: 0, pattern, actions }).unwrap();
        let (region, mut descs) = Region::new(64, 60).unwrap();
        assert_eq!(nic.worker().classify(&region, &mut descs), expected, "metadata is 0");
    }
}
