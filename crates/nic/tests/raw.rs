//! Bytes by their offset: the item `raw`. The property test of `definition` compares it with the
//! definition; here is what it says of known frames, and what it refuses.

use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::text::{Command, Parser, is_blank};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Worker};
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{
    EtherType, OptionBytes, ethernet, geneve, gre, icmp, icmpv6, ipv4, ipv6, ipv6_ext, mpls, tcp,
    udp, vlan, vxlan,
};

/// The pattern of a text, or why there is none.
fn compile(text: &str) -> Result<Pattern, String> {
    let line = format!("flow create 0 ingress pattern {text} / end actions drop / end");
    let mut parser = Parser::default();
    let parsed = parser.parse(1, &line).map_err(|error| error.problem().to_string())?;
    let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
    parsed.pattern(&rule).map_err(|error| error.problem().to_string())
}

fn pattern(text: &str) -> Pattern {
    compile(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn options<const N: usize>() -> OptionBytes<N> {
    OptionBytes::new(&[1; 8]).unwrap()
}

fn eth() -> Layer {
    ethernet::Repr { ether_type: EtherType(0x1234), ..Default::default() }.into()
}

fn tag() -> Layer {
    vlan::Repr { ether_type: EtherType(0x1234), ..Default::default() }.into()
}

fn ip4() -> Layer {
    ipv4::Repr { options: options(), ..Default::default() }.into()
}

fn ip6() -> Layer {
    ipv6::Repr::default().into()
}

fn datagram() -> Layer {
    udp::Repr { src_port: 9, dst_port: 9, ..Default::default() }.into()
}

fn gre(key: Option<u32>) -> Layer {
    gre::Repr { protocol: EtherType(0x1234), checksum_present: true, key, sequence: None }.into()
}

fn geneve() -> Layer {
    let (protocol, options) = (EtherType::IPV4, options());
    geneve::Repr { vni: 5, protocol, control: false, critical: false, options }.into()
}

/// Items, the layers they are about, and how many bytes of these are behind the end of the last
/// item: what is optional in GRE, a message of ICMPv6, extension headers.
fn ends() -> Vec<(&'static str, Vec<Layer>, usize)> {
    let outer = || [eth(), ip4()];
    let over = |layers: Vec<Layer>| outer().into_iter().chain(layers).collect::<Vec<_>>();
    let segment = || tcp::Repr { options: options(), ..Default::default() }.into();
    let ping = || icmp::Repr::echo_request(1, 2).into();
    let ping6 = || icmpv6::Repr::echo_request(1, 2).into();
    let label = || mpls::Repr::default().into();
    let vxlan = || vxlan::Repr { vni: 5 }.into();
    let labelled = gre::Repr {
        protocol: EtherType(0x8847),
        checksum_present: false,
        key: Some(1),
        sequence: Some(2),
    };
    vec![
        ("eth", vec![eth()], 0),
        ("eth / vlan", vec![eth(), tag()], 0),
        ("vlan / vlan", vec![eth(), tag(), tag()], 0),
        ("eth", vec![eth(), tag()], 4),
        ("eth / ipv4", over(vec![]), 0),
        ("ipv6", vec![eth(), ip6()], 0),
        ("ipv6", vec![eth(), ip6(), ipv6_ext::Repr::hop_by_hop().into(), datagram()], 16),
        ("ipv4 / tcp", over(vec![segment()]), 0),
        ("eth / ipv4 / udp", over(vec![datagram()]), 0),
        ("ipv4 / icmp", over(vec![ping()]), 0),
        ("ipv6 / icmp6", vec![eth(), ip6(), ping6()], 4),
        ("ipv4 / gre", over(vec![gre(None)]), 4),
        ("ipv4 / gre", over(vec![gre(Some(1))]), 8),
        ("ipv4 / gre / gre_key", over(vec![gre(Some(1))]), 0),
        ("ipv4 / udp / vxlan", over(vec![datagram(), vxlan()]), 0),
        ("ipv4 / udp / geneve", over(vec![datagram(), geneve()]), 0),
        ("ipv4 / udp / mpls", over(vec![datagram(), label()]), 0),
        ("ipv4 / gre / mpls", over(vec![labelled.into(), label()]), 0),
        ("eth / mpls", vec![eth(), label()], 0),
        ("ipv4 / ipv6 / udp", over(vec![ip6(), datagram()]), 0),
        ("ipv4 / ipv4", over(vec![ip4()]), 0),
        ("ipv4 / udp / vxlan / eth", over(vec![datagram(), vxlan(), eth()]), 0),
        ("ipv4 / udp / vxlan / eth / vlan", over(vec![datagram(), vxlan(), eth(), tag()]), 0),
        ("ipv4 / udp / geneve / ipv4 / tcp", over(vec![datagram(), geneve(), ip4(), segment()]), 0),
    ]
}

#[test]
fn bytes_are_counted_from_the_end_of_the_item_before_or_from_the_start() {
    for (items, layers, more) in ends() {
        let mut frame = build(&layers).unwrap();
        let len = frame.len();
        frame.extend(b"mark");
        let fits = |text: &str| pattern(text).matches(&frame);
        assert!(fits(&format!("{items} / raw relative is 1 offset is {more} pattern is mark")));
        assert!(fits(&format!("{items} / raw offset is {len} pattern is mark")), "{items}");
        for (offset, bytes, is_there) in [(0, "mar", true), (1, "ark", true), (1, "mar", false)] {
            let offset = offset + more;
            let text = format!("{items} / raw relative is 1 offset is {offset} pattern is {bytes}");
            assert_eq!(fits(&text), is_there, "{text}");
        }
        let text = format!("{items} / raw relative is 1 offset is {more} pattern is mark");
        assert!(!pattern(&text).matches(&frame[..len + 3]), "{text}: cut off");
        let behind = format!("{items} / raw relative is 1 offset is {} pattern is k", more + 3);
        assert!(fits(&behind) && !pattern(&behind).matches(&frame[..len + 3]), "{behind}");
        let last = frame[len - 1];
        let before = (more as i32 - 1) as u32;
        let text =
            format!("{items} / raw relative is 1 offset is {before} pattern_hex is {last:02x}6d");
        assert!(fits(&text), "{text}");
    }
}

/// The example of DPDK's programmer's guide, without its search.
#[test]
fn bytes_behind_each_other_go_forth_and_back() {
    let text = "eth / ipv4 / udp / raw relative is 1 offset is 10 pattern is foo / raw relative is \
                1 offset is 20 pattern is bar / raw relative is 1 offset is 0xffffffe3 pattern is \
                baz";
    let mut frame = build(&[eth(), ip4(), datagram()]).unwrap();
    frame.extend([b"xxxxxxxbaz", &b"foo"[..], &[0; 20], b"bar"].concat());
    assert!(pattern(text).matches(&frame));
    for (at, counts) in [(56, false), (57, true), (60, true), (63, false), (83, true)] {
        let mut other = frame.clone();
        other[at] ^= 1;
        assert_eq!(pattern(text).matches(&other), !counts, "{at}");
    }
}

#[test]
fn bytes_before_the_packet_are_not_there() {
    let mut frame = build(&[eth(), ip4()]).unwrap();
    frame[0] = 0xab;
    let back = |bytes: i32| {
        let offset = -bytes as u32;
        pattern(&format!("ipv4 / raw relative is 1 offset is {offset} pattern_hex is ab"))
    };
    assert!(back(42).matches(&frame) && !back(41).matches(&frame));
    assert!((43..60).all(|bytes| !back(bytes).matches(&frame)));
}

#[test]
fn a_mask_says_which_bits_of_which_bytes_count() {
    let frame = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let matches = |text: &str| pattern(text).matches(frame);
    assert!(matches("raw pattern_hex spec 30ff32 pattern_hex mask ff00ff"));
    assert!(matches("raw pattern_hex spec 0x3f pattern_hex mask 0xf0"));
    assert!(!matches("raw pattern_hex spec 0x4f pattern_hex mask 0xf0"));
    assert!(matches("raw offset is 30 pattern is ef0123456789abcdef"), "over two words");
    assert!(matches("raw offset spec 9 offset mask 1 pattern is 1"), "so does that of the offset");
}

#[test]
fn the_same_bytes_make_the_same_pattern() {
    for [one, other] in [
        ["raw pattern is abcd", "raw pattern is ab / raw relative is 1 pattern is cd"],
        ["raw pattern is abcd", "raw pattern_hex is 61626364"],
        ["raw pattern is abcd", "raw pattern spec abcd"],
        ["raw pattern_hex is 310", "raw pattern_hex is 0310"],
        ["raw pattern is abcd", "raw offset is 2 pattern is cd / raw pattern is ab"],
        ["eth / raw relative is 1 pattern is a", "raw offset is 14 pattern is a"],
        ["eth / raw relative is 1 pattern is a", "eth / meta / raw relative is 1 pattern is a"],
        ["raw pattern is abcd", "raw pattern is abcd / raw offset is 1 pattern is bc"],
        [
            "eth / ipv4 / raw offset is 40 pattern_hex spec 000102 pattern_hex mask 0000ff",
            "ipv4 / raw offset is 42 pattern_hex is 02",
        ],
    ] {
        assert_eq!(pattern(one), pattern(other), "{one} and {other}");
    }
    let [at_14, of_ip] = ["raw offset is 14 pattern is a", "ipv4 / raw offset is 14 pattern is a"];
    assert_ne!(pattern(at_14), pattern(of_ip));
}

/// Pattern, and what is said of it.
const REFUSED: &[(&str, &str)] = &[
    ("raw", "raw has no pattern: add `pattern is` or `pattern_hex is`"),
    ("raw offset is 3", "raw has no pattern: add `pattern is` or `pattern_hex is`"),
    (
        "raw search is 1 pattern is a",
        "not supported: raw search: cards match bytes at fixed places; give the offset",
    ),
    ("raw limit is 9 pattern is a", "not supported: raw limit: it is about a search; leave it 0"),
    ("raw offset is -5 pattern is a", "testpmd reads no sign: write -5 as 0xfffffffb"),
    ("raw offset is 0xfffffffb pattern is a", "raw begins 5 bytes before the packet"),
    (
        "eth / raw relative is 1 offset is 0xfffffff1 pattern is a",
        "raw begins 1 bytes before the packet",
    ),
    (
        "raw offset is 511 pattern is ab",
        "not supported: raw bytes 511 to 512: they are 512 at most from the packet's start or \
         from the end of a header",
    ),
    (
        "ipv4 / raw relative is 1 offset is 500 pattern is a / raw relative is 1 offset is 20 \
         pattern is a",
        "not supported: raw bytes 521 to 521: they are 512 at most from the packet's start or \
         from the end of a header",
    ),
    (
        "ipv4 / raw relative is 1 offset is 0xfffffdff pattern is a",
        "not supported: raw bytes -513 to -513: they are 512 at most from the packet's start or \
         from the end of a header",
    ),
    (
        "raw pattern is 12345678901234567890123456789012345678901",
        "41 bytes are too many: one raw item has 1 to 40",
    ),
    (
        "raw pattern_hex spec 0102 pattern_hex mask ffffff",
        "raw has a pattern of 2 bytes and a mask of 3 for it",
    ),
    (
        "raw pattern_hex spec 0102 pattern_hex mask ff",
        "raw has a pattern of 2 bytes and a mask of 1 for it",
    ),
    ("raw pattern_hex mask ff", "raw has a mask and no value: add `is` or `spec`"),
    (
        "raw offset is 3 pattern spec ab",
        "raw has a mask and none for its pattern: write `is` for `spec`",
    ),
    ("raw pattern_hex is 0g", "expected pattern_hex: hexadecimal digits, found `0g`"),
    ("raw pattern_hex is 0x", "expected pattern_hex: hexadecimal digits, found `0x`"),
    ("raw pattern last ab", "expected `is`, `mask` or `spec`, found `last`"),
    (
        "raw pattren is ab",
        "expected a field of raw (relative, search, offset, limit, pattern, pattern_hex) or `/`, \
         found `pattren`",
    ),
    ("raw offset is 3 offset last 5 pattern is a", "not supported: raw offset last"),
    ("raw pattern is ab / raw pattern is ac", "raw contradicts a raw before it"),
    ("raw pattern is ab / ipv4", "ipv4 stands behind raw; put raw behind all headers"),
    (
        "ipv4 src is 1.2.3.4 / udp dst is 53 / raw offset is 80 pattern is \
         1234567890123456789012345678901234567890 / raw relative is 1 pattern is 123456789",
        "fields of 9 words of 8 bytes are matched, and 8 can be: name fewer fields",
    ),
    (
        "raw pattern is 1234567890123456789012345678901234567890 / raw relative is 1 pattern is \
         1234567890123456789012345",
        "fields of 9 words of 8 bytes are matched, and 8 can be: name fewer fields",
    ),
];

#[test]
fn what_cannot_be_matched_is_said() {
    for (text, said) in REFUSED {
        assert_eq!(compile(text).map(|_| ()), Err((*said).to_owned()), "{text}");
    }
    let set = Parser::default().parse(1, "set raw_encap 0 eth / raw pattern is a / end_set").err();
    let said = set.map(|error| error.problem().to_string());
    assert_eq!(said.as_deref(), Some("not supported: raw among raw headers"));
}

/// A NIC with one worker and some frames.
struct Bench {
    nic: Nic,
    worker: Worker,
    region: std::sync::Arc<Region>,
    descs: Vec<Desc>,
}

impl Bench {
    fn new() -> Bench {
        let mut nic = Nic::new(&NicConfig { queues: 64, ..NicConfig::default() }).unwrap();
        nic.isolate(true).unwrap();
        let worker = nic.worker();
        let (region, descs) = Region::new(64, 200).unwrap();
        Bench { nic, worker, region, descs }
    }

    /// The queue of each frame; `None` for one that is dropped.
    fn queues(&mut self, frames: &[Vec<u8>]) -> Vec<Option<u16>> {
        let descs = &mut self.descs[..frames.len()];
        for (desc, frame) in descs.iter_mut().zip(frames) {
            self.region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            self.region.set_len(desc, frame.len() as u16);
        }
        let dropped = self.worker.classify(&self.region, descs);
        let queue = |(i, desc): (usize, &Desc)| (dropped >> i & 1 == 0).then_some(desc.queue);
        descs.iter().enumerate().map(queue).collect()
    }
}

fn to_queue(text: &str, group: u32, queue: u16) -> (Pattern, u32, [Action; 1]) {
    (pattern(text), group, [Action::Queue(queue)])
}

fn create(nic: &mut Nic, (pattern, group, actions): (Pattern, u32, [Action; 1])) {
    nic.create(&Rule { group, priority: 0, pattern, actions: &actions }).unwrap();
}

/// From five masks on a filter says which are looked at; some frames end before the byte.
#[test]
fn many_places_are_looked_at_in_one_group() {
    let mut bench = Bench::new();
    let head = build(&[eth(), ip4(), datagram()]).unwrap();
    let mut frames = Vec::new();
    for queue in 0..60 {
        let text = format!(
            "ipv4 / udp / raw relative is 1 offset is {queue} pattern_hex is {queue:02x}aa"
        );
        create(&mut bench.nic, to_queue(&text, 0, queue));
        let mut payload = vec![0; usize::from(queue) + 2];
        payload[usize::from(queue)..].copy_from_slice(&[queue as u8, 0xaa]);
        frames.push([&head[..], &payload].concat());
    }
    while !bench.nic.run_housekeeping(64) {
        bench.worker.classify(&bench.region, &mut []);
    }
    let expected: Vec<_> = (0..60).map(Some).collect();
    assert_eq!(bench.queues(&frames), expected);
    frames.iter_mut().for_each(|frame| frame.truncate(frame.len() - 1));
    assert_eq!(bench.queues(&frames), vec![None; 60]);
}

#[test]
fn a_rule_can_change_the_bytes_it_matches_and_where_they_are() {
    let mut bench = Bench::new();
    let frames: Vec<Vec<u8>> =
        ["..ab....", "....cd..", "..cd...."].map(|text| text.as_bytes().repeat(8)).to_vec();
    let (one, _, actions) = to_queue("raw offset is 2 pattern is ab", 0, 1);
    let rule = |pattern| Rule { group: 0, priority: 0, pattern, actions: &actions };
    let id = bench.nic.create(&rule(one.clone())).unwrap();
    let duplicate = bench.nic.create(&rule(one.clone())).unwrap_err().to_string();
    assert!(duplicate.contains("has this pattern"), "{duplicate}");
    assert_eq!(bench.queues(&frames), [Some(1), None, None]);
    bench.nic.modify(id, &rule(pattern("raw offset is 4 pattern is cd"))).unwrap();
    assert_eq!(bench.queues(&frames), [None, Some(1), None]);
    let mut transaction = bench.nic.transaction();
    transaction.modify(id, &rule(pattern("raw offset is 2 pattern is cd"))).unwrap();
    transaction.create(&rule(one)).unwrap();
    transaction.commit().unwrap();
    assert_eq!(bench.queues(&frames), [Some(1), None, Some(1)]);
}

#[test]
fn later_groups_find_bytes_where_the_changed_packet_has_them() {
    let mut bench = Bench::new();
    let text = "ipv4 / raw relative is 1 pattern is mark";
    let rule = |group, pattern, actions| Rule { group, priority: 0, pattern, actions };
    let actions = [Action::PushVlan(0x8100), Action::Jump(1)];
    bench.nic.create(&rule(0, pattern(text), &actions)).unwrap();
    create(&mut bench.nic, to_queue(&format!("vlan / {text}"), 1, 5));
    create(&mut bench.nic, to_queue("raw offset is 42 pattern is mark", 1, 6));
    let plain = build(&[eth(), ip4()]).unwrap();
    assert_eq!(bench.queues(&[[&plain[..], b"mark"].concat()]), [Some(5)]);
}

/// What `docs/rules.md` says of bytes.
#[test]
fn the_rules_of_the_book_match_what_it_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let book = std::fs::read_to_string(path).unwrap();
    let section = book.split("\n### ").find(|section| section.starts_with("Bytes\n")).unwrap();
    let examples = section.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let mut bench = Bench::new();
    for line in examples.lines().filter(|line| !is_blank(line)) {
        let mut parser = Parser::default();
        let parsed = parser.parse(1, line).unwrap();
        let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
        let (pattern, actions) = (parsed.pattern(&rule).unwrap(), rule.actions);
        bench.nic.create(&Rule { group: 0, priority: 0, pattern, actions }).unwrap();
    }
    bench.nic.isolate(false).unwrap();
    let over_ip = |layer: Layer| build(&[eth(), ip4(), layer]).unwrap();
    let segment = tcp::Repr { dst_port: 80, options: options(), ..Default::default() };
    let request = |method: &[u8]| [&over_ip(segment.into())[..], method].concat();
    let datagram = udp::Repr { src_port: 9, dst_port: 7_777, ..Default::default() };
    let message = |bytes: &[u8]| [&over_ip(datagram.into())[..], bytes].concat();
    let frames = [
        request(b"GET / HTTP/1.1"),
        request(b"PUT / HTTP/1.1"),
        message(&[0, 0, 0, 0, 0x0a, 0x0b, 0, 0, 0x80, 0]),
        message(&[0, 0, 0, 0, 0x0a, 0x0b, 0, 0, 0x40, 0]),
    ];
    let queues = bench.queues(&frames);
    assert_eq!((queues[0], queues[2]), (Some(1), None));
    assert!(queues[1].is_some() && queues[3].is_some(), "{queues:?}");
}
