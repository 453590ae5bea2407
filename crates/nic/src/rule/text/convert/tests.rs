//! Known answers: what is written for each rule was made by hand from the manuals of the formats.

use super::super::super::compile::pattern;
use super::super::{Command, Parser};
use super::*;

fn lines(format: Format, text: &str) -> String {
    convert(format, text).unwrap_or_else(|error| format!("{error}\n"))
}

/// Each rule, and what it is to become behind `ingress pattern`.
fn check(format: Format, table: &[(&str, &str)]) {
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

/// Each text, and the first line of what is said.
fn refused(format: Format, table: &[(&str, &str)]) {
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
    let out = lines(Format::Ethtool, "ethtool -N eth0 flow-type ip4 action 2 loc 1023\n");
    assert!(out.starts_with("flow create 0 group 0 priority 1023 ingress"), "{out}");
    let newest_first = "ethtool -N eth0 flow-type ip4 src-ip 10.0.0.0 m 0.255.255.255 action -1\n\n\
                        ethtool -N eth0 flow-type udp4 src-ip 10.0.0.1 action 1\n";
    let out = lines(Format::Ethtool, newest_first);
    let priorities = ["priority 1 ingress", "priority 0 ingress"];
    assert!(out.lines().zip(priorities).all(|(line, part)| line.contains(part)), "{out}");
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
        (
            &add("ip4 src-port 1 action 1"),
            "line 1, column 31: src-port is no field of this \
          flow-type",
        ),
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
        (&add("ip4"), "line 1, column 27: no action: add `action N`, or `action -1` to drop"),
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
fn tc_filters_are_converted() {
    let add = |rest: &str| format!("tc filter add dev eth0 ingress {rest}");
    let table = [
        (
            "protocol ip prio 10 flower ip_proto tcp dst_ip 10.0.0.0/8 src_port 80 action drop",
            "eth type is 0x0800 / ipv4 dst spec 10.0.0.0 dst prefix 8 / tcp src is 80 / end \
             actions drop / end",
        ),
        (
            "protocol ip prio 1 flower ip_proto udp dst_port 1000-2000 action skbedit \
             queue_mapping 3",
            "eth type is 0x0800 / ipv4 / udp dst is 1000 dst last 2000 / end actions queue index 3 \
             / end",
        ),
        (
            "protocol 802.1Q prio 2 flower vlan_id 5 vlan_prio 3 vlan_ethtype ipv4 src_ip 1.2.3.4 \
             src_mac 02:00:00:00:00:01/40 action goto chain 4",
            "eth src spec 02:00:00:00:00:00 src prefix 40 / vlan pcp is 3 vid is 5 inner_type is \
             0x0800 / ipv4 src is 1.2.3.4 / end actions jump group 4 / end",
        ),
        (
            "protocol ip prio 3 flower ip_proto tcp tcp_flags 2/12 ip_tos 0x10/fc ip_ttl 64 \
             action gact drop",
            "eth type is 0x0800 / ipv4 tos spec 16 tos mask 0xfc ttl is 64 / tcp flags spec 2 \
             flags mask 0x12 / end actions drop / end",
        ),
        (
            "protocol ipv6 prio 4 flower src_ip 2001:db8::/32 ip_proto icmpv6 type 128 code 0 \
             action pass",
            "eth type is 0x86dd / ipv6 src spec 2001:db8:: src prefix 32 / icmp6 type is 128 \
             code is 0 / end actions rss / end",
        ),
        ("protocol all prio 5 flower action drop", "eth / end actions drop / end"),
        (
            "protocol ip prio 6 flower ip_proto udp action drop",
            "eth type is 0x0800 / ipv4 proto is 17 / end actions drop / end",
        ),
        (
            "protocol ip prio 6 flower ip_proto udp dst_port 256/0xff00 action skbedit \
             queue_mapping 1 pipe action pass",
            "eth type is 0x0800 / ipv4 / udp dst spec 256 dst mask 0xff00 / end actions \
             queue index 1 / end",
        ),
    ];
    for (rest, expected) in table {
        check(Format::Tc, &[(&add(rest), expected)]);
    }
    let out = lines(Format::Tc, &add("protocol 802.1ad chain 3 flower skip_sw action drop"));
    let expected = "# line 1: skip_sw has no equivalent: rules are the card's\n\
                    # line 1: 802.1ad is any tag here: its type is not compared\n\
                    flow create 0 group 3 priority 49152 ingress pattern vlan / end actions drop / \
                    end\n";
    assert_eq!(out, expected);
    let two = add("protocol ip flower action drop\n") + &add("protocol ip flower action drop");
    assert!(lines(Format::Tc, &two).contains("priority 49151"), "the kernel's own priorities");
}

/// The kernel tries the masks of a priority in the order of their first use, all filters of a mask
/// at once.
#[test]
fn tc_filters_of_one_priority_whose_order_would_be_another_are_refused() {
    let add = |rest: &str| {
        format!("tc filter add dev eth0 ingress protocol ip prio 1 flower {rest} action drop\n")
    };
    let [one, two] = [add("dst_ip 10.0.0.1"), add("dst_ip 10.0.0.3")];
    let other = add("src_ip 10.0.0.2");
    assert_eq!(lines(Format::Tc, &[&*one, &*two, &*other].concat()).lines().count(), 3);
    let mixed = [&*one, &*other, &*two].concat();
    let expected = "line 3, column 81: tc tries filters of one prio mask by mask: put those with \
                    the same keys and masks one behind the other";
    refused(Format::Tc, &[(&mixed, expected)]);
    let later = mixed.replacen("prio 1", "prio 2", 2);
    assert_eq!(lines(Format::Tc, &later).lines().count(), 3, "of several priorities");
    let back = one.replace("drop", "goto chain 0");
    let expected = "line 1, column 92: `goto chain` goes back, or stays: here rules jump forward \
                    alone";
    refused(Format::Tc, &[(&back, expected)]);
    let zero = one.replace("prio 1", "prio 0");
    assert!(lines(Format::Tc, &zero).contains("priority 49152"), "the kernel's own");
}

/// Two filters in the form of `tc filter show`, before the first of which stands its priority.
const SHOWN: &str = "\
filter protocol ip pref 10 flower chain 0 
filter protocol ip pref 10 flower chain 0 handle 0x1 
  eth_type ipv4
  ip_proto tcp
  dst_ip 10.0.0.0/8
  src_port 80
  not_in_hw
\taction order 1: gact action drop
\t random type none pass val 0
\t index 1 ref 1 bind 1

filter protocol 802.1Q pref 11 flower chain 2 handle 0x7 
  vlan_id 5
  vlan_ethtype ip
  eth_type ipv4
  not_in_hw
\taction order 1: skbedit  queue_mapping 3 pipe
\t index 1 ref 1 bind 1
";

#[test]
fn what_tc_prints_is_converted() {
    let expected = "flow create 0 group 0 priority 10 ingress pattern eth type is 0x0800 / ipv4 \
                    dst spec 10.0.0.0 dst prefix 8 / tcp src is 80 / end actions drop / end\n\
                    # line 12: 802.1Q is any tag here: its type is not compared\n\
                    flow create 0 group 2 priority 11 ingress pattern vlan vid is 5 inner_type is \
                    0x0800 / ipv4 / end actions queue index 3 / end\n";
    assert_eq!(lines(Format::Tc, SHOWN), expected);
}

#[test]
fn of_a_script_of_tc_commands_what_makes_no_filter_is_passed_over_or_refused() {
    let script = "#!/bin/sh
# the web server

sudo tc qdisc add dev eth0 \\
  clsact
tc filter add dev eth0 ingress protocol ip prio 1 \\
  flower ip_proto tcp dst_port 443 \\
tcp_flags 2/2 action drop # new connections alone
\ttc filter add dev eth0 ingress protocol ip prio 2 flower action pass
tc qdisc show dev eth0
";
    let expected = "flow create 0 group 0 priority 1 ingress pattern eth type is 0x0800 / ipv4 / \
                    tcp dst is 443 flags spec 2 flags mask 0x2 / end actions drop / end\n\
                    flow create 0 group 0 priority 2 ingress pattern eth type is 0x0800 / ipv4 / \
                    end actions rss / end\n";
    assert_eq!(lines(Format::Tc, script), expected);
    let shell = "no shell runs here: leave this out, or convert what `tc filter show dev DEV \
                 ingress` prints";
    for (text, place) in [
        ("DEV=eth0\n", "line 1, column 1"),
        ("  for port in 80 443; do\n", "line 1, column 3"),
        (&format!("{script}\ndone\n"), "line 12, column 1"),
    ] {
        refused(Format::Tc, &[(text, &format!("{place}: {shell}"))]);
    }
    let unknown = script.replace("tcp_flags 2/2", "ct_state 1");
    refused(Format::Tc, &[(&unknown, "line 8, column 1: not supported: ct_state")]);
}

#[test]
fn a_line_of_which_a_shell_makes_more_than_one_command_is_refused() {
    let (qdisc, filter) =
        ("tc qdisc add dev eth0 clsact", "tc filter add dev eth0 ingress flower action drop");
    let shell = "no shell runs here: write one command a line, without `&&`, `||`, `;`, `|`, `&` \
                 or a redirection";
    for (text, place) in [
        (format!("{qdisc} && {filter}"), "line 1, column 30"),
        (format!("{qdisc}; {filter}"), "line 1, column 23"),
        (format!("{qdisc} || {filter}"), "line 1, column 30"),
        (format!("{qdisc} | {filter}"), "line 1, column 30"),
        (format!("{qdisc} & {filter}"), "line 1, column 30"),
        (format!("{qdisc} \\\n && {filter}"), "line 2, column 2"),
        (format!("{qdisc} 2>/dev/null"), "line 1, column 30"),
        (format!("{qdisc} # twice\n{filter}; {qdisc}"), "line 2, column 46"),
        ("tc qdisc add dev $(lan) clsact".into(), "line 1, column 18"),
    ] {
        refused(Format::Tc, &[(&text, &format!("{place}: {shell}"))]);
    }
    let out = lines(Format::Tc, &format!("# a && b\n{qdisc} # && c\n{filter}"));
    assert_eq!(out.lines().count(), 1, "{out}");
    let of_variable = filter.replace("eth0", "$DEV");
    assert_eq!(lines(Format::Tc, &of_variable), lines(Format::Tc, filter));
    let said = "line 1, column 37: expected prio: a number from 0 to 65535, found `$P`";
    refused(Format::Tc, &[("tc filter add dev eth0 ingress prio $P flower action drop", said)]);
}

#[test]
fn commands_about_qdiscs_are_passed_over_where_they_leave_the_filters() {
    let filter = "tc filter add dev eth0 ingress flower action drop";
    for command in ["add", "replace", "show", "ls", "del"] {
        let out = lines(Format::Tc, &format!("tc qdisc {command} dev eth0 clsact\n{filter}"));
        assert_eq!(out, lines(Format::Tc, filter), "{command}");
    }
    let late = format!("{filter}\ntc qdisc del dev eth0 clsact");
    let said = "line 2, column 10: a qdisc is deleted behind filters, which it may take along: \
                convert what is added behind it alone";
    refused(Format::Tc, &[(&late, said)]);
    let said = "line 1, column 10: of `tc qdisc` only `add`, `replace`, `show`, `ls` and `del` are \
                passed over: leave this out";
    refused(Format::Tc, &[("tc qdisc change dev eth0 root", said)]);
    let shell = "line 2, column 3: no shell runs here: leave this out, or convert what `tc filter \
                 show dev DEV ingress` prints";
    refused(Format::Tc, &[("tc qdisc add dev eth0 clsact\n  DEV=eth1", shell)]);
}

#[test]
fn tc_filters_without_an_equivalent_are_refused() {
    let add = |rest: &str| format!("tc filter add dev eth0 ingress protocol ip prio 1 {rest}");
    let table = [
        (add("u32 match"), "expected `flower`: other filters have no equivalent, found `u32`"),
        (add("flower ct_state +trk action drop"), "not supported: ct_state"),
        (add("flower dst_port 80 action drop"), "dst_port needs `ip_proto tcp` or `udp` before it"),
        (
            add("flower src_ip 1.2.3.4/33 action drop"),
            "expected src_ip: length: a number from 0 to \
          32, found `1.2.3.4/33`",
        ),
        (
            add("flower action mirred egress redirect dev eth1"),
            "mirred names an interface, and \
          rules know queues alone",
        ),
        (add("flower action police rate 1mbit"), "not supported: action police"),
        (add("flower src_ip 1.2.3.4"), "no action: add `action drop`, or another"),
        (
            add("flower action drop action skbedit queue_mapping 1"),
            "two fates: `drop` and this one",
        ),
        (add("flower vlan_id 5 action drop"), "vlan_id needs `protocol 802.1Q` before it"),
        ("tc filter add dev eth0 egress".into(), "not supported: filters that are not of ingress"),
        (
            "tc class add".into(),
            "expected `tc filter add`, or `filter` as tc prints it, found \
          `class`",
        ),
        (
            add("flower action drop\ntc filter add dev eth1"),
            "another device: convert the filters of \
          one at a time",
        ),
    ];
    for (text, expected) in table {
        let error = convert(Format::Tc, &text).unwrap_err();
        assert_eq!(error.problem().to_string(), expected, "{text}");
    }
    let error = convert(Format::Tc, &add("flower\n  ct_state +trk action drop")).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 3));
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
