//! Known answers, and a comparison with a scan of all pairs.

use proptest::prelude::*;

use super::super::text::Parser;
use super::*;

fn survey(lines: &[String]) -> Survey {
    let mut survey = Survey::default();
    for (at, line) in lines.iter().enumerate() {
        let mut parser = Parser::default();
        survey.add(&parser.parse(at as u64 + 1, line).unwrap());
    }
    survey
}

/// Lines of rules, each with that of a better one.
type Lines = Vec<(u64, u64)>;

/// The lines of a rule and a better one that cover and that overlap, of rules that are written as
/// attributes, pattern and actions.
fn pairs(rules: &[(&str, &str, &str)]) -> (Lines, Lines) {
    let line = |(attributes, pattern, actions): &(&str, &str, &str)| {
        format!(
            "flow create 0 {attributes} ingress pattern {pattern} / end actions {actions} / end"
        )
    };
    let report = survey(&rules.iter().map(line).collect::<Vec<_>>()).report();
    assert!(report.complete);
    let plain = |pairs: &[Pair]| pairs.iter().map(|pair| (pair.line, pair.by)).collect();
    (plain(&report.shadowed), plain(&report.overlapped))
}

#[test]
fn a_rule_is_shadowed_by_a_better_one_that_covers_it() {
    let narrow = "ipv4 src is 10.0.0.1 / udp dst is 53";
    let wide = "ipv4 src spec 10.0.0.0 src prefix 8";
    let (shadowed, _) = pairs(&[("", wide, "drop"), ("", narrow, "drop")]);
    assert_eq!(shadowed, [(2, 1)], "created earlier");
    let (shadowed, _) = pairs(&[("", narrow, "drop"), ("", wide, "drop")]);
    assert_eq!(shadowed, [], "created later");
    let (shadowed, _) = pairs(&[("priority 1", narrow, "drop"), ("", wide, "drop")]);
    assert_eq!(shadowed, [(1, 2)], "of better priority");
    let (shadowed, _) = pairs(&[("group 1", wide, "drop"), ("", narrow, "drop")]);
    assert_eq!(shadowed, [], "of another group");
    let (shadowed, _) = pairs(&[("", narrow, "drop"), ("priority 1", narrow, "queue")]);
    assert_eq!(shadowed, [(2, 1)], "the same pattern");
}

#[test]
fn a_rule_is_overlapped_by_a_better_one_with_other_actions() {
    let (src, dst) = ("ipv4 src is 10.0.0.1", "ipv4 dst is 10.0.0.1");
    assert_eq!(pairs(&[("", src, "drop"), ("", dst, "queue")]).1, [(2, 1)]);
    assert_eq!(pairs(&[("", src, "drop"), ("", dst, "drop")]).1, [], "the same actions");
    assert_eq!(pairs(&[("", src, "drop"), ("group 1", dst, "queue")]).1, []);
    let other = "ipv4 src is 10.0.0.2 dst is 10.0.0.1";
    assert_eq!(pairs(&[("", src, "drop"), ("", other, "queue")]).1, [], "no packet of both");
    let shadowed = "ipv4 src is 10.0.0.1 / tcp";
    assert_eq!(pairs(&[("", src, "drop"), ("", shadowed, "queue")]).1, [], "shadowed");
}

#[test]
fn an_exception_to_a_worse_rule_is_counted_and_does_not_overlap_it() {
    let line = |priority: u32, pattern: &str, actions: &str| {
        format!(
            "flow create 0 priority {priority} ingress pattern {pattern} / end actions {actions} \
             / end"
        )
    };
    let route = |len: u32, queue: u32| {
        let pattern = format!("ipv4 dst spec 10.1.2.0 dst prefix {len}");
        line(32 - len, &pattern, &format!("queue index {queue}"))
    };
    let routes = [route(8, 1), route(16, 2), route(24, 3), line(32, "ipv4", "drop")];
    let report = survey(&routes).report();
    assert_eq!(report, Report { exceptions_count: 3, complete: true, ..Report::default() });
    assert!(report.is_clean());
    // The same queue as the wider one, but not as the one that is wider still.
    let report = survey(&[route(8, 1), route(16, 2), route(24, 2)]).report();
    assert_eq!(report.exceptions_count, 2);
    assert_eq!(survey(&[route(16, 2), route(24, 2)]).report().exceptions_count, 0);
    // What the range of a worse rule has is an exception to it, what reaches beyond is none.
    let ports = |priority: u32, first: u32, last: u32, action: &str| {
        line(priority, &format!("ipv4 / udp dst is {first} dst last {last}"), action)
    };
    let report = survey(&[ports(1, 10, 20, "drop"), ports(0, 12, 18, "queue")]).report();
    assert_eq!((report.exceptions_count, report.overlapped), (1, vec![]));
    let report = survey(&[ports(1, 10, 20, "drop"), ports(0, 12, 21, "queue")]).report();
    assert_eq!((report.exceptions_count, report.overlapped), (0, vec![Pair { line: 1, by: 2 }]));
    // The report has the best rule that is no exception.
    let worse = line(2, "ipv4 dst is 10.0.0.1", "drop");
    let inside = line(0, "ipv4 src is 10.0.0.2 dst is 10.0.0.1", "queue");
    let across = line(1, "ipv4 src is 10.0.0.3", "queue");
    let report = survey(&[worse, inside, across]).report();
    assert_eq!((report.exceptions_count, report.overlapped), (1, vec![Pair { line: 1, by: 3 }]));
}

#[test]
fn rules_of_one_pattern_are_no_exceptions_to_each_other() {
    let report = |one: &str, other: &str| {
        let line = |priority: u32, pattern: &str, action: &str| {
            format!(
                "flow create 0 priority {priority} ingress pattern {pattern} / end actions \
                 {action} / end"
            )
        };
        let report = survey(&[line(0, one, "drop"), line(1, other, "queue")]).report();
        (report.shadowed.len(), report.exceptions_count)
    };
    assert_eq!(report("ipv4 dst is 10.0.0.1", "ipv4 dst is 10.0.0.1"), (1, 0));
    assert_eq!(report("ipv4 dst is 10.0.0.1", "ipv4"), (0, 1));
    let [ports, more] = ["ipv4 / udp dst is 3 dst last 5", "ipv4 / udp dst is 3 dst last 6"];
    assert_eq!(report(ports, ports), (1, 0));
    assert_eq!(report(ports, more), (0, 1));
    assert_eq!(report("raw pattern is ab", "raw pattern is ab"), (1, 0));
    assert_eq!(report("raw pattern is ab", "raw pattern is a"), (0, 1));
}

/// Two patterns, and how many of the second's rules are shadowed and overlapped by the first's.
const IMPLIED: &[(&str, &str, (usize, usize))] = &[
    ("ipv4 / udp / vxlan vni is 5", "ipv4 / udp dst is 53", (0, 0)),
    ("ipv4 / udp dst is 53", "ipv4 / udp / vxlan vni is 5", (0, 0)),
    ("ipv4 / udp dst is 4789", "ipv4 / udp / vxlan vni is 5", (1, 0)),
    ("ipv4 / udp dst is 4000 dst last 4789", "ipv4 / udp / vxlan", (1, 0)),
    ("ipv4 / udp dst is 4000 dst last 4788", "ipv4 / udp / vxlan", (0, 0)),
    ("ipv4 / udp dst is 9 dst last 5000 / vxlan", "ipv4 / udp / vxlan vni is 5", (1, 0)),
    ("ipv4 / udp src is 9 src last 12 / vxlan", "ipv4 / udp src is 10 / vxlan", (1, 0)),
    ("ipv4 / udp / vxlan", "ipv4 / udp dst is 4789", (0, 0)),
    ("ipv4 / udp src is 1 / vxlan", "ipv4 / udp dst is 4789", (0, 0)),
    ("ipv4 src is 10.0.0.1 / udp / vxlan", "ipv4 dst is 10.0.0.2 / udp dst is 4789", (0, 1)),
    ("ipv4 / udp / geneve", "ipv4 / udp / vxlan", (0, 0)),
    ("ipv6 / udp dst is 6081", "ipv6 / udp / geneve / eth / ipv4", (1, 0)),
    ("ipv4 / udp dst is 6635", "ipv4 / udp / mpls label is 7", (1, 0)),
    ("ipv4 / udp dst is 6636", "ipv4 / udp / mpls label is 7", (0, 0)),
    ("eth type is 0x0800", "mpls", (0, 0)),
    ("eth type is 0x8848", "mpls", (0, 1)),
    ("ipv4 / gre protocol is 0x0800", "ipv4 / gre / mpls", (0, 0)),
    ("ipv4 / gre protocol is 0x8847", "ipv4 / gre / mpls", (0, 1)),
    ("ipv4 / gre k_bit is 0", "ipv4 / gre / gre_key value is 3", (0, 0)),
    ("ipv4 / gre k_bit is 1", "ipv4 / gre / gre_key value is 3", (1, 0)),
    ("ipv4 / gre protocol is 0x6558", "ipv4 / gre / eth / ipv4", (1, 0)),
    ("ipv4 / gre protocol is 0x6558", "ipv4 / gre / ipv4 ttl is 9", (0, 1)),
    ("ipv4 / gre protocol is 0x86dd", "ipv4 / gre / ipv4 ttl is 9", (0, 0)),
    ("ipv4 proto is 47", "ipv4 / gre", (1, 0)),
    ("eth has_vlan is 1", "vlan vid is 5", (1, 0)),
    ("ipv4 fragment_offset spec 1 fragment_offset mask 0x1fff", "ipv4 / udp", (0, 0)),
    ("ipv4 / udp", "ipv4 fragment_offset spec 0x100 fragment_offset mask 0x100", (0, 0)),
    ("ipv4 fragment_offset is 0x2000", "ipv4 / udp", (0, 1)),
    ("ipv4 fragment_offset is 7", "ipv4 / gre", (0, 0)),
    ("ipv4 fragment_offset is 7", "ipv4 / ipv4", (0, 0)),
    ("ipv4 fragment_offset is 7", "ipv4 proto is 17", (0, 1)),
    ("ipv4 / ipv4 fragment_offset is 7", "ipv4 / ipv4 / tcp", (0, 0)),
];

#[test]
fn what_a_pattern_implies_is_compared() {
    for (one, other, expected) in IMPLIED {
        let found = pairs(&[("", one, "drop"), ("", other, "queue")]);
        assert_eq!((found.0.len(), found.1.len()), *expected, "{one}; {other}");
    }
}

#[test]
fn rules_with_ranges_that_are_not_compared_are_counted() {
    let line = |group: u32, pattern: &str| {
        format!("flow create 0 group {group} ingress pattern {pattern} / end actions drop / end")
    };
    let (ttl, alone) = ("ipv4 ttl is 3 ttl last 9", line(1, "ipv4 ttl is 3 ttl last 9"));
    let count = |lines: &[String]| survey(lines).report().uncompared_count;
    assert_eq!(count(&[line(0, "ipv6"), line(0, ttl), alone.clone()]), 1);
    assert!(!survey(&[line(0, "ipv6"), line(0, ttl)]).report().is_clean());
    assert_eq!(count(&[line(0, ttl), alone.clone()]), 0, "nothing to compare it with");
    assert_eq!(count(&[line(0, "ipv4"), line(0, ttl), alone]), 0, "shadowed");
    assert_eq!(count(&[line(0, "ipv6"), line(0, "ipv4 / udp dst is 3 dst last 9")]), 0);
}

#[test]
fn groups_that_no_packet_comes_to_and_jumps_to_groups_without_rules_are_found() {
    let line = |group: u32, port: u32, actions: &str| {
        format!(
            "flow create 0 group {group} ingress pattern ipv4 / udp dst is {port} / end actions \
             {actions} / end"
        )
    };
    let mut lines = vec![
        line(0, 1, "jump group 1"),
        line(1, 1, "jump group 7"),
        line(2, 1, "jump group 3"),
        line(2, 2, "drop"),
        line(3, 1, "drop"),
    ];
    let report = survey(&lines).report();
    let unreachable_groups =
        |group, line, rules_count| UnreachableGroup { group, line, rules_count };
    // Group 3 is jumped to from a group that no packet comes to.
    assert_eq!(
        report.unreachable_groups,
        [unreachable_groups(2, 3, 2), unreachable_groups(3, 5, 1)]
    );
    assert_eq!(report.dangling_jumps, [DanglingJump { line: 2, group: 7 }]);
    assert!(!report.is_clean());
    lines.push("flow update 0 1 actions jump group 2 / end".into());
    assert!(survey(&lines).report().is_clean());
}

#[test]
fn a_value_without_a_mask_is_reported_with_its_meaning() {
    for (pattern, expected) in [
        ("ipv4 src spec 10.0.0.1", "ipv4 dst must be 0"),
        ("ipv4 ttl spec 9", "ipv4 src and dst must be 0, and ttl does not count"),
        ("ipv4 src is 10.0.0.1 ttl spec 9", "ipv4 ttl does not count"),
        ("ipv4 / udp dst spec 53 dst last 60", "udp src must be 0"),
        ("eth type spec 0x0800", "eth dst and src must be 0, and type does not count"),
        ("vlan pcp spec 3", "vlan vid must be 0, and pcp does not count"),
        ("vlan vid spec 3", ""),
        ("ipv4 src spec 1.2.3.4 dst spec 1.2.3.5", ""),
        ("ipv4 src spec 10.0.0.0 src prefix 8", ""),
        ("ipv4 src is 10.0.0.1", ""),
        ("tag data spec 3", ""),
        ("raw pattern spec ab", ""),
    ] {
        let rule = format!("flow create 0 ingress pattern {pattern} / end actions drop / end");
        let report = survey(std::slice::from_ref(&rule)).report();
        let said: Vec<String> = report.bare.iter().map(|(_, bare)| bare.to_string()).collect();
        let expected = expected.replace("must be 0", "must be 0 by rte_flow's default mask");
        assert_eq!(said.concat(), expected, "{pattern}");
        assert_eq!(report.is_clean(), expected.is_empty(), "{pattern}");
        let later = survey(&[rule, "flow destroy 0 rule 0".into()]).report();
        assert_eq!(later.bare, [], "of rules that are there in the end");
    }
}

#[test]
fn ranges_of_ports_are_compared() {
    let ports = |first, last| format!("ipv4 / udp dst is {first} dst last {last}");
    let all = ["", "drop"];
    let [wide, narrow, beside, cut] = [ports(10, 20), ports(12, 20), ports(21, 30), ports(20, 25)];
    let pair = |one: &str, other: &str| {
        let found = pairs(&[("", one, all[1]), ("", other, "queue")]);
        (found.0.len(), found.1.len())
    };
    assert_eq!(pair(&wide, &narrow), (1, 0));
    assert_eq!(pair(&narrow, &wide), (0, 0), "an exception");
    assert_eq!(pair(&wide, &beside), (0, 0));
    assert_eq!(pair(&wide, &cut), (0, 1));
    assert_eq!(pair(&wide, "ipv4 / udp dst is 15"), (1, 0));
    assert_eq!(pair(&wide, "ipv4 / udp dst is 21"), (0, 0));
    assert_eq!(pair("ipv4 / udp dst is 15", &wide), (0, 0));
    assert_eq!(pair(&wide, "ipv4 / udp dst spec 16 dst mask 0xfffc"), (1, 0), "16 to 19");
    assert_eq!(pair(&wide, "ipv4 / udp dst spec 16 dst mask 0xfff8"), (0, 1), "16 to 23");
    assert_eq!(pair(&wide, "ipv4 / tcp dst is 15"), (0, 0));
    let bits = "ipv4 / udp dst spec 16 dst mask 0xfff8";
    assert_eq!(pair(bits, &ports(16, 20)), (0, 1), "16 to 23: not seen to be covered");
}

#[test]
fn bytes_by_their_offset_are_compared() {
    let pair = |one: &str, other: &str| {
        let found = pairs(&[("", one, "drop"), ("", other, "queue")]);
        (found.0.len(), found.1.len())
    };
    let [ab, abc, bc] =
        ["raw pattern is ab", "raw pattern is abc", "raw offset is 1 pattern is bc"];
    assert_eq!(pair(ab, abc), (1, 0));
    assert_eq!(pair(abc, ab), (0, 0), "an exception");
    assert_eq!(pair(ab, bc), (0, 1));
    assert_eq!(pair(ab, "raw offset is 1 pattern is c"), (0, 0), "another byte 1");
    assert_eq!(pair(ab, "raw offset is 20 pattern is c"), (0, 1), "other bytes");
    assert_eq!(pair("ipv4", &format!("ipv4 / {ab}")), (1, 0));
    assert_eq!(pair(&format!("ipv4 / {ab}"), "ipv4"), (0, 0));
    assert_eq!(pair(&format!("ipv4 / {ab}"), "ipv6"), (0, 0));
    let masked = |mask: &str| format!("raw pattern_hex spec 61 pattern_hex mask {mask}");
    assert_eq!(pair(&masked("f0"), ab), (1, 0));
    assert_eq!(pair(&masked("0f"), "raw pattern is q"), (1, 0));
    assert_eq!(pair(&masked("f0"), "raw pattern is q"), (0, 0));
    assert_eq!(pair("raw pattern is q", &masked("0f")), (0, 0));
    let of_ip = "ipv4 / raw relative is 1 pattern is xy";
    assert_eq!(pair(of_ip, "ipv4 / raw relative is 1 pattern is xz"), (0, 0));
    assert_eq!(pair(of_ip, "ipv4 / raw offset is 34 pattern is xz"), (0, 1), "not known");
}

#[test]
fn rules_that_are_destroyed_or_changed_count_as_they_are_in_the_end() {
    let create = |pattern: &str, action: &str| {
        format!("flow create 0 ingress pattern {pattern} / end actions {action} / end")
    };
    let (src, dst) = ("ipv4 src is 10.0.0.1", "ipv4 dst is 10.0.0.1");
    let mut lines = vec![create(src, "drop"), create(dst, "queue")];
    lines.push("flow destroy 0 rule 0".into());
    assert_eq!(survey(&lines).report().overlapped, []);
    lines[2] = "flow update 0 1 actions drop / end".into();
    assert_eq!(survey(&lines).report().overlapped, []);
    lines[2] = "flow flush 0".into();
    assert_eq!(survey(&lines).report(), Report { complete: true, ..Report::default() });
}

/// A pattern over few values, so that many meet.
fn written() -> impl Strategy<Value = (u32, u32, String, u16)> {
    let address = |name: &'static str| {
        prop_oneof![
            Just(String::new()),
            (0..4u8).prop_map(move |low| format!(" {name} is 10.0.0.{low}")),
            (0..2u8).prop_map(move |half| {
                format!(" {name} spec 10.0.0.{} {name} prefix 31", half * 2)
            }),
        ]
    };
    let port = |name: &'static str| {
        prop_oneof![
            Just(String::new()),
            (0..4u16).prop_map(move |port| format!(" {name} is {port}")),
            (0..3u16, 1..3u16).prop_map(move |(first, more)| {
                format!(" {name} is {first} {name} last {}", first + more)
            }),
        ]
    };
    let transport = prop_oneof![
        Just(String::new()),
        (prop::bool::ANY, port("src"), port("dst")).prop_map(|(tcp, src, dst)| {
            format!(" / {}{src}{dst}", if tcp { "tcp" } else { "udp" })
        }),
    ];
    let pattern = (address("src"), address("dst"), transport)
        .prop_map(|(src, dst, transport)| format!("ipv4{src}{dst}{transport}"));
    (0..2u32, 0..3u32, pattern, 0..2u16)
}

/// The packets over those few values, by number, that a pattern matches.
fn packets(pattern: &str) -> Vec<usize> {
    let mut parser = Parser::default();
    let line = format!("flow create 0 ingress pattern {pattern} / end actions drop / end");
    let parsed = parser.parse(1, &line).unwrap();
    let Command::Create { rule, .. } = parsed.command else { unreachable!() };
    let fits = |value: usize, item: &ItemMatch, name: &str| {
        let field = item.item.field(name).unwrap();
        let value = if field.bits == 32 { 0x0a00_0000 | value as u128 } else { value as u128 };
        let [spec, mask] = [&item.spec, &item.mask].map(|image| field.value(image));
        match item.has_range(field) {
            true => (spec..=field.value(&item.last.unwrap())).contains(&value),
            false => value & mask == spec & mask,
        }
    };
    // Two bits of each address, three of each port, and the protocol: tcp, udp, or another.
    (0..4 * 4 * 8 * 8 * 3)
        .filter(|number| {
            let (src, dst) = (number % 4, number / 4 % 4);
            let (sport, dport) = (number / 16 % 8, number / 128 % 8);
            rule.items.iter().all(|item| match item.item {
                Item::Ipv4 => fits(src, item, "src") && fits(dst, item, "dst"),
                of => {
                    let protocol = [Item::Tcp, Item::Udp, Item::Icmp][number / 1_024];
                    of == protocol && fits(sport, item, "src") && fits(dport, item, "dst")
                }
            })
        })
        .collect()
}

proptest! {
    #[test]
    fn what_is_found_is_what_a_scan_of_all_packets_finds(
        rules in prop::collection::vec(written(), 1..20),
    ) {
        let line = |(group, priority, pattern, queue): &(u32, u32, String, u16)| {
            format!(
                "flow create 0 group {group} priority {priority} ingress pattern {pattern} / end \
                 actions queue index {queue} / end"
            )
        };
        let report = survey(&rules.iter().map(line).collect::<Vec<_>>()).report();
        let sets: Vec<Vec<usize>> = rules.iter().map(|rule| packets(&rule.2)).collect();
        let key = |at: usize| (rules[at].1, at);
        let (mut shadowed, mut overlapped, mut exceptions_count) = (Vec::new(), Vec::new(), 0);
        for at in 0..rules.len() {
            let mut better: Vec<usize> = (0..rules.len())
                .filter(|&by| rules[by].0 == rules[at].0 && key(by) < key(at))
                .collect();
            better.sort_by_key(|&by| key(by));
            let covers = |by: &&usize| sets[at].iter().all(|it| sets[**by].contains(it));
            let inside = |one: usize, other: usize| {
                let mut packets = sets[one].iter();
                rules[one].3 != rules[other].3 && packets.all(|it| sets[other].contains(it))
            };
            let is_wider = |by: usize| sets[by].len() > sets[at].len();
            let shares = |by: &&usize| {
                rules[**by].3 != rules[at].3
                    && sets[at].iter().any(|it| sets[**by].contains(it))
                    && !inside(**by, at)
            };
            let is_worse = |by: usize| rules[by].0 == rules[at].0 && key(by) > key(at);
            let pair = |by: &usize| Pair { line: at as u64 + 1, by: *by as u64 + 1 };
            match better.iter().find(covers) {
                Some(by) => shadowed.push(pair(by)),
                None => {
                    overlapped.extend(better.iter().find(shares).map(pair));
                    let excepts = (0..rules.len())
                        .any(|by| is_worse(by) && is_wider(by) && inside(at, by));
                    exceptions_count += usize::from(excepts);
                }
            }
        }
        let Report { unreachable_groups, complete, .. } = report.clone();
        let found = Report { unreachable_groups, complete, ..Report::default() };
        let expected = Report { shadowed, overlapped, exceptions_count, ..found };
        prop_assert_eq!(report, expected);
        prop_assert!(complete);
    }
}
