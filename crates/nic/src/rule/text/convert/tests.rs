//! Known answers: the expected rules were derived by hand from the manuals of the formats.

use super::super::super::compile::pattern;
use super::super::{Command, Parser};
use super::*;

pub(super) fn lines(format: Format, text: &str) -> String {
    convert(format, text).unwrap_or_else(|error| format!("{error}\n"))
}

/// Each rule, and the expected text after `ingress pattern`.
pub(super) fn check(format: Format, table: &[(&str, &str)]) {
    for (rule, expected) in table {
        let out = lines(format, rule);
        let last = out.lines().last().unwrap_or_default();
        let found = last.split_once("ingress pattern ").map_or(out.as_str(), |(_, rest)| rest);
        assert_eq!(found, *expected, "{rule}");
        let mut parser = Parser::default();
        if !expected.contains("rss") {
            let parsed = parser.parse(1, last).unwrap();
            let Command::Create { .. } = parsed.command else { panic!("{last}") };
        }
    }
}

/// Each text, and the first line of the expected error.
pub(super) fn refused(format: Format, table: &[(&str, &str)]) {
    for (text, expected) in table {
        let said = convert(format, text).unwrap_err().to_string();
        assert_eq!(said.lines().next(), Some(*expected), "{text}");
    }
}

#[test]
fn classbench_rules_are_converted() {
    let tcp = "0x06/0xFF";
    let line = |rest: &str| format!("@10.1.0.0/16\t0.0.0.0/0\t{rest}");
    let table = [
        (line("0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t"), "end"),
        (line("0 : 65535\t0 : 65535\t0x06/0xFF"), "proto"),
        (line(&format!("0 : 65535\t80 : 80\t{tcp}\t0x0000/0x0000")), "port"),
        (line(&format!("1024 : 65535\t0 : 1023\t{tcp}\t0x0200/0x1200")), "ranges"),
        (line("0 : 65535\t0 : 65535\t0x01/0xFF\t0x0800/0xff00"), "icmp"),
        (line("0 : 65535\t0 : 65535\t0x2f/0xFF\t0x0000/0x0000"), "gre"),
    ];
    let expected = [
        "ipv4 src spec 10.1.0.0 src prefix 16 / end actions queue index 0 / end",
        "ipv4 proto is 6 src spec 10.1.0.0 src prefix 16 / end actions queue index 0 / end",
        "ipv4 src spec 10.1.0.0 src prefix 16 / tcp dst is 80 / end actions queue index 0 / end",
        "ipv4 src spec 10.1.0.0 src prefix 16 / tcp src is 1024 src last 65535 dst is 0 \
         dst last 1023 flags spec 2 flags mask 0x12 / end actions queue index 0 / end",
        "ipv4 src spec 10.1.0.0 src prefix 16 / icmp type is 8 / end actions queue index 0 / end",
        "ipv4 proto is 47 src spec 10.1.0.0 src prefix 16 / end actions queue index 0 / end",
    ];
    let pairs: Vec<(&str, &str)> =
        table.iter().zip(expected).map(|((rule, _), expected)| (rule.as_str(), expected)).collect();
    check(Format::ClassBench, &pairs);
    let two = "@1.2.3.4/32 5.6.7.8/32 0 : 65535 53 : 53 0x11/0xFF\n\n\
               @1.2.3.4/31 5.6.7.8/0 0 : 65535 0 : 65535 0/0\n";
    let expected = "flow create 0 group 0 priority 0 ingress pattern ipv4 src is 1.2.3.4 \
                    dst is 5.6.7.8 / udp dst is 53 / end actions queue index 0 / end\n\
                    flow create 0 group 0 priority 1 ingress pattern ipv4 src spec 1.2.3.4 \
                    src prefix 31 / end actions queue index 0 / end\n";
    assert_eq!(lines(Format::ClassBench, two), expected);
}

#[test]
fn classbench_sets_of_ipv6_are_converted() {
    let table = [
        (
            "@2001:db8::/32\t2001:db8:1::/48\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000",
            "ipv6 src spec 2001:db8:: src prefix 32 dst spec 2001:db8:1:: dst prefix 48 / udp dst \
             is 53 / end actions queue index 0 / end",
        ),
        (
            "@::/0 ::1/128 0 : 65535 0 : 65535 0x3A/0xFF 0x8000/0xff00",
            "ipv6 dst is ::1 / icmp6 type is 128 / end actions queue index 0 / end",
        ),
        (
            "@::/0 ::/0 0 : 65535 0 : 65535 0x06/0xFF 0x0000/0x0000",
            "ipv6 proto is 6 / end actions queue index 0 / end",
        ),
        (
            "@::/0 ::/0 0 : 65535 0 : 65535 0x01/0xFF 0x0000/0x0000",
            "ipv6 proto is 1 / end actions queue index 0 / end",
        ),
    ];
    check(Format::ClassBench, &table);
    let mixed = "@10.0.0.0/8 ::/0 0 : 65535 0 : 65535 0/0";
    let said = "line 1, column 13: expected dst: an address, found `::/0`";
    refused(Format::ClassBench, &[(mixed, said)]);
}

#[test]
fn classbench_rules_without_an_equivalent_are_refused() {
    refused(
        Format::ClassBench,
        &[
            (
                "10.0.0.0/8",
                "line 1, column 1: expected `@` and a source prefix, found `10.0.0.0/8`",
            ),
            (
                "@10.0.0.0/33 ",
                "line 1, column 2: expected src: length: a number from 0 to 32, found \
              `10.0.0.0/33`",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 9 : 8 0 : 1 6/0xff",
                "line 1, column 26: source ports end at 8, before 9",
            ),
            (
                "\n@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 1 0/0",
                "line 2, column 38: ports of any protocol: write a rule for each protocol",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 1 132/0xff",
                "line 1, column 38: not supported: ports of this protocol",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 1 17/0xff 1/1",
                "line 1, column 46: not supported: these flags of this protocol",
            ),
            (
                "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 1",
                "line 1, column 37: expected protocol: VALUE/MASK, found the end of the line",
            ),
        ],
    );
}

#[test]
fn a_classbench_set_of_more_rules_than_there_are_priorities_is_refused_where_they_end() {
    let rule = "@1.2.3.4/32 5.6.7.8/32 0 : 65535 53 : 53 0x11/0xFF\n";
    assert_eq!(lines(Format::ClassBench, &rule.repeat(65_536)).lines().count(), 65_536);
    let said = "line 65537, column 2: each rule takes a priority of its own, and the last is \
                65535: leave out the rules from here on";
    refused(Format::ClassBench, &[(&rule.repeat(65_537), said)]);
}

#[test]
fn ethtool_rules_are_converted() {
    check(
        Format::Ethtool,
        &[
            (
                "ethtool -N eth0 flow-type tcp4 src-ip 10.0.0.0 m 0.0.255.255 dst-port 80 action 3",
                "ipv4 src spec 10.0.0.0 src prefix 16 / tcp dst is 80 / end actions \
                 queue index 3 / end",
            ),
            (
                "ethtool -U eth0 flow-type udp4 dst-port 0x1200 m 0xff action -1 loc 7",
                "ipv4 / udp dst spec 4608 dst mask 0xff00 / end actions drop / end",
            ),
            (
                "ethtool --config-ntuple eth0 flow-type ip4 tos 0x10 l4proto 47 action 0",
                "ipv4 tos is 16 proto is 47 / end actions queue index 0 / end",
            ),
            (
                "ethtool -N eth0 flow-type ether dst 02:00:00:00:00:01 m 00:00:00:00:00:ff \
                 proto 0x806 vlan 5 m 0xf000 action 1",
                "eth dst spec 02:00:00:00:00:00 dst prefix 40 type is 0x0806 / vlan \
                 vid is 5 / end actions queue index 1 / end",
            ),
            (
                "ethtool -N eth0 flow-type tcp6 src-ip 2001:db8::1 tclass 4 action 2",
                "ipv6 tc is 4 proto is 6 src is 2001:db8::1 / end actions queue index 2 / end",
            ),
        ],
    );
    check(
        Format::Ethtool,
        &[
            (
                "ethtool -U eth0 flow-type udp4 src-ip 10.0.0.0 src-ip-mask 0.0.0.255 dst-port 010 \
                 queue 0x3",
                "ipv4 src spec 10.0.0.0 src prefix 24 / udp dst is 8 / end actions queue index 3 / \
                 end",
            ),
            (
                "ethtool -N eth0 flow-type ip4 dst-port 53 dst-port-mask 0x00ff l4proto 17 action \
                 0x10",
                "ipv4 / udp dst spec 0 dst mask 0xff00 / end actions queue index 16 / end",
            ),
            (
                "ethtool -N eth0 flow-type ip6 l4proto 6 src-port 80 action 0xffffffffffffffff",
                "ipv6 / tcp src is 80 / end actions drop / end",
            ),
            (
                "ethtool -N eth0 flow-type ip4 l4proto 17",
                "ipv4 proto is 17 / end actions queue index 0 / end",
            ),
        ],
    );
    let out = lines(Format::Ethtool, "ethtool -N eth0 flow-type ip4 action 2 loc 1023\n");
    assert!(out.starts_with("flow create 0 group 0 priority 1023 ingress"), "{out}");
    let newest_first = "ethtool -N eth0 flow-type ip4 src-ip 10.0.0.0 m 0.255.255.255 action -1\n\n\
                        ethtool -N eth0 flow-type udp4 src-ip 10.0.0.1 action 1\n";
    let out = lines(Format::Ethtool, newest_first);
    let priorities = ["priority 1 ingress", "priority 0 ingress"];
    assert!(out.lines().zip(priorities).all(|(line, part)| line.contains(part)), "{out}");
}

#[test]
fn fields_that_ethtool_ignores_whole_ask_for_nothing() {
    let ignored = [
        ("tcp4 src-port 65535 m 65535", "ipv4 proto is 6"),
        ("tcp4 dst-port 80 m 0xffff src-port 1 src-port-mask 0xffff", "ipv4 proto is 6"),
        ("udp6 dst-port 53 m 0xffff", "ipv6 proto is 17"),
        ("udp4 src-port 1 m 0xffff dst-port 53", "ipv4 / udp dst is 53"),
        ("ip4 l4proto 6 dst-port 80 m 0xffff", "ipv4 proto is 6"),
        ("ip6 l4proto 17 m 0xff", "ipv6"),
        ("ip4 tos 1 m 0xff src-ip 1.2.3.4 m 255.255.255.255", "ipv4"),
        ("ip6 tclass 1 m 0xff dst-ip ::1 m ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ipv6"),
        ("ether vlan 5 m 0xffff", "eth"),
        ("ether vlan 5 m 0xfffe", "eth / vlan tci spec 1 tci mask 0x1"),
        ("ether proto 0x800 m 0xffff dst 02:00:00:00:00:01 m ff:ff:ff:ff:ff:ff", "eth"),
        ("ether src 02:00:00:00:00:01 src-mask ff:ff:ff:ff:ff:ff", "eth"),
        ("ip4 dst-mac 02:00:00:00:00:01 m ff:ff:ff:ff:ff:ff", "ipv4"),
        ("sctp4 vlan 5 m 0xffff", "ipv4 proto is 132"),
    ];
    for (fields, pattern) in ignored {
        let rule = format!("ethtool -N eth0 flow-type {fields} action 1");
        let expected = format!("{pattern} / end actions queue index 1 / end");
        check(Format::Ethtool, &[(rule.as_str(), expected.as_str())]);
    }
}

#[test]
fn queues_that_the_card_has_not_are_refused() {
    let add = |action: &str| format!("ethtool -N eth0 flow-type tcp4 dst-port 80 {action}");
    let place = "no queue 256; this NIC has queues 0 to 255";
    let (action, queue) =
        (format!("line 1, column 51: {place}"), format!("line 1, column 50: {place}"));
    refused(
        Format::Ethtool,
        &[(&add("action 256"), action.as_str()), (&add("queue 0x100"), queue.as_str())],
    );
    let vf = "line 1, column 51: no queue 4294967296; this NIC has queues 0 to 255";
    refused(Format::Ethtool, &[(&add("action 0x100000000"), vf)]);
    assert!(lines(Format::Ethtool, &add("action 255")).contains("queue index 255"));
    let tc = "tc filter add dev eth0 ingress protocol ip flower action skbedit queue_mapping 256";
    let said = format!("line 1, column 80: {place}");
    refused(Format::Tc, &[(tc, &said)]);
}

#[test]
fn ethtool_rules_without_an_equivalent_are_refused() {
    let add = |rest: &str| format!("ethtool -N eth0 flow-type {rest}");
    let both = format!("{}\n{}", add("ip4 action 1 loc 3"), add("ip6 action 1 loc 3"));
    let mixed = format!("{}\n{}", add("ip4 action 1 loc 3"), add("ip6 action 1"));
    let table = [
        ("ethtool -K eth0", "line 1, column 9: expected `-N`, found `-K`"),
        ("ethtool -N eth0 delete 3", "line 1, column 17: not supported: delete"),
        (&add("esp4 action 1"), "line 1, column 27: not supported: flow-type esp4"),
        (&add("tcp4 user-def 1 action 1"), "line 1, column 32: not supported: user-def"),
        (&add("sctp4 dst-port 1 action 1"), "line 1, column 33: not supported: ports of SCTP"),
        (&add("sctp6 src-port 1 action 1"), "line 1, column 33: not supported: ports of SCTP"),
        (
            &add("sctp4 l4proto 6 action 1"),
            "line 1, column 33: l4proto is no field of this flow-type",
        ),
        (
            &add("ip4 src-ip 1.2.3 action 1"),
            "line 1, column 38: expected src-ip: an address, found \
          `1.2.3`",
        ),
        (&add("ip4 action -2"), "line 1, column 38: not supported: action -2: wake on LAN"),
        (
            &add("ip4 tos 256 action 1"),
            "line 1, column 35: expected tos: a number from 0 to 255, \
          found `256`",
        ),
        (
            &add("ip4 dst-port 53 l4proto 1 action 1"),
            "line 1, column 60: ports of `ip4` and `ip6` need `l4proto 6` or `l4proto 17`",
        ),
        (
            &add("udp4 dst-port 08 action 1"),
            "line 1, column 41: expected dst-port: a number from 0 to 65535, found `08`",
        ),
        (
            &add("ip4 action 1 queue 2"),
            "line 1, column 40: action and queue name the same: give one of them",
        ),
        (&add("udp4 dst-port 1 dst-port 2 action 1"), "line 1, column 43: dst-port is given twice"),
        (
            &add("udp4 dst-port 1 src-port-mask 2 action 1"),
            "line 1, column 43: expected a field of the flow-type, `action`, `queue` or `loc`, \
             found `src-port-mask`",
        ),
        (
            &add("ether dst-mac 02:00:00:00:00:01"),
            "line 1, column 33: dst-mac is no field of this flow-type",
        ),
        (
            &both,
            "line 2, column 44: loc 3 is that of line 1, which ethtool would replace: leave \
          that out",
        ),
        (
            &mixed,
            "line 2, column 38: some rules have `loc` and some have none: give it to all, or \
          to none",
        ),
    ];
    refused(Format::Ethtool, &table);
}

#[test]
fn lines_and_commands_have_a_length() {
    let long = format!("\n# {}\n", "x".repeat(LINE_LEN_MAX));
    for format in [Format::ClassBench, Format::Ethtool, Format::Tc] {
        let said = "line 2, column 1: the line is longer than 65536 bytes";
        refused(format, &[(&long, said)]);
    }
    let joined = format!("tc filter add \\\n{}", "dev eth0 \\\n".repeat(3_000));
    let said = "line 2048, column 5: a command of more than 4096 words";
    refused(Format::Tc, &[(&joined, said)]);
}

#[test]
fn a_text_with_a_byte_order_mark_is_refused_by_its_name() {
    let said = "line 1, column 1: the file begins with a byte order mark (U+FEFF): remove it";
    for (format, text) in [
        (Format::ClassBench, "@1.2.3.4/32 5.6.7.8/32 0 : 65535 53 : 53 0x11/0xFF"),
        (Format::Ethtool, "ethtool -N eth0 flow-type ip4 action 1"),
        (Format::Tc, "tc filter add dev eth0 ingress flower action drop"),
        (Format::Tc, "# a comment"),
        (Format::Tc, ""),
    ] {
        assert!(convert(format, text).is_ok());
        refused(format, &[(&format!("\u{feff}{text}"), said)]);
    }
    for text in ["flow list 0", "# a comment", ""] {
        let error = Parser::default().parse(1, &format!("\u{feff}{text}")).unwrap_err();
        assert_eq!(error.to_string().lines().next(), Some(said));
    }
}

#[test]
fn a_converted_pattern_is_compiled_as_its_rule_says() {
    let text = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 53 : 53 0x11/0xff";
    let out = lines(Format::ClassBench, text);
    let mut parser = Parser::default();
    let parsed = parser.parse(1, out.trim_end()).unwrap();
    let Command::Create { rule, .. } = parsed.command else { panic!("{out}") };
    let found = pattern(rule.items).unwrap();
    let matches = |src: [u8; 4], port: u16| {
        let mut datagram = [0; 60];
        (datagram[12], datagram[14], datagram[23]) = (8, 0x45, 17);
        datagram[26..30].copy_from_slice(&src);
        datagram[36..38].copy_from_slice(&port.to_be_bytes());
        found.matches(&datagram)
    };
    assert!(matches([10, 9, 8, 7], 53));
    assert!(!matches([11, 0, 0, 0], 53) && !matches([10, 0, 0, 0], 54));
}
