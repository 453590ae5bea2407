//! Known answers: the expected rules were derived by hand from the sources of tc and of the kernel.
//! The answers of the kernel itself are in `tests/tc`.

use super::super::tests::{check, lines, refused};
use super::super::{Format, convert};

fn add(rest: &str) -> String {
    format!("tc filter add dev eth0 ingress {rest}")
}

#[test]
fn tc_filters_are_converted() {
    let table = [
        (
            "protocol ip prio 10 flower ip_proto tcp dst_ip 10.0.0.0/8 src_port 80 action drop",
            "eth type is 0x0800 / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff dst spec \
             10.0.0.0 dst prefix 8 / tcp src is 80 / end actions drop / end",
        ),
        (
            "protocol ip prio 1 flower ip_proto udp dst_port 1000-2000 action skbedit \
             queue_mapping 3",
            "eth type is 0x0800 / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff / udp \
             dst is 1000 dst last 2000 / end actions queue index 3 / end",
        ),
        (
            "protocol 802.1Q prio 2 flower vlan_id 5 vlan_prio 3 vlan_ethtype ipv4 src_ip 1.2.3.4 \
             src_mac 02:00:00:00:00:01/40 action goto chain 4",
            "eth src spec 02:00:00:00:00:00 src prefix 40 type is 0x8100 / vlan pcp is 3 vid is 5 \
             inner_type is 0x0800 / ipv4 src is 1.2.3.4 / end actions jump group 4 / end",
        ),
        (
            "protocol ip prio 3 flower ip_proto tcp tcp_flags 2/12 ip_tos 0x10/fc ip_ttl 64 \
             action gact drop",
            "eth type is 0x0800 / ipv4 tos spec 16 tos mask 0xfc fragment_offset spec 0 \
             fragment_offset mask 0x3fff ttl is 64 / tcp flags spec 2 flags mask 0x12 / end \
             actions drop / end",
        ),
        (
            "protocol ipv6 prio 4 flower src_ip 2001:db8::/32 ip_proto icmpv6 type 128 code 0 \
             action pass",
            "eth type is 0x86dd / ipv6 src spec 2001:db8:: src prefix 32 has_frag_ext is 0 / icmp6 \
             type is 128 code is 0 / end actions rss / end",
        ),
        ("protocol all prio 5 flower action drop", "eth / end actions drop / end"),
        (
            "protocol ip prio 6 flower ip_proto udp action drop",
            "eth type is 0x0800 / ipv4 proto is 17 / end actions drop / end",
        ),
        (
            "protocol ip prio 6 flower ip_proto udp dst_port 256/0xff00 action skbedit \
             queue_mapping 1 pipe action pass",
            "eth type is 0x0800 / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff / udp \
             dst spec 256 dst mask 0xff00 / end actions queue index 1 / end",
        ),
        (
            "protocol ip flower ip_proto tcp tcp_flags 2 dst_port 80 action drop",
            "eth type is 0x0800 / ipv4 fragment_offset spec 0 fragment_offset mask 0x3fff proto is \
             6 / raw relative is 1 pattern_hex spec 0000005000000000000000000002 pattern_hex mask \
             0000ffff00000000000000000fff / end actions drop / end",
        ),
    ];
    for (rest, expected) in table {
        check(Format::Tc, &[(&add(rest), expected)]);
    }
    // Abbreviations, and the base of each number.
    let short = add("prot ip pr 010 flower ip_pr t dst_i 10.1/16 dst_po 010 act dr");
    let expected = "flow create 0 group 0 priority 8 ingress pattern eth type is 0x0800 / ipv4 \
                    fragment_offset spec 0 fragment_offset mask 0x3fff dst spec 10.1.0.0 dst \
                    prefix 16 / tcp dst is 10 / end actions drop / end\n";
    assert_eq!(lines(Format::Tc, &short), expected);
    let out = lines(Format::Tc, &add("protocol 802.1ad chain 3 flower skip_sw action drop"));
    let expected = "# line 1: skip_sw has no equivalent: rules are the card's\n\
                    flow create 0 group 3 priority 49152 ingress pattern eth type is 0x88a8 / vlan \
                    / end actions drop / end\n";
    assert_eq!(out, expected);
}

/// Priorities of the rules that filters are converted to.
fn priorities(filters: &[&str]) -> Vec<String> {
    let text: Vec<String> = filters.iter().map(|rest| add(rest)).collect();
    let out = lines(Format::Tc, &text.join("\n"));
    let words = |line: &str| line.split(' ').skip(4).take(3).collect::<Vec<_>>().join(" ");
    out.lines().filter(|line| !line.starts_with('#')).map(words).collect()
}

#[test]
fn a_filter_without_a_priority_gets_what_the_kernel_gives() {
    let [pass, drop] =
        ["flower dst_ip 10.0.0.0/8 action pass", "flower dst_ip 10.0.0.1 action drop"];
    let ip = |pref: &str, rest: &str| format!("protocol ip {pref} {rest}");
    let first = ip("pref 100", pass);
    // Those below 0x8000 do not count.
    assert_eq!(
        priorities(&[&first, &ip("", drop), &ip("", pass)]),
        ["0 priority 100", "0 priority 49152", "0 priority 49151"]
    );
    assert_eq!(
        priorities(&[&ip("pref 60000", pass), &ip("prio 0", drop), &ip("pref 32767", pass)]),
        ["0 priority 60000", "0 priority 59999", "0 priority 32767"]
    );
    // Each chain has its own.
    assert_eq!(
        priorities(&[&ip("pref 40000", pass), &ip("chain 5", drop)]),
        ["0 priority 40000", "5 priority 49152"]
    );
    let full = [add(&ip("pref 32768", pass)), add(&ip("", drop))].join("\n");
    let said = "line 2, column 75: the kernel gives no priority below 32768, which is taken: add \
                `pref`";
    refused(Format::Tc, &[(&full, said)]);
}

/// The kernel tries the masks of a priority in the order of their first use, all filters of a mask
/// at once.
#[test]
fn filters_of_one_priority_are_tried_mask_by_mask() {
    let add = |rest: &str| format!("{}\n", add(&format!("protocol ip prio 1 flower {rest}")));
    let [one, two] = [add("dst_ip 10.0.0.1 action drop"), add("dst_ip 10.0.0.3 action drop")];
    let other = add("src_ip 10.0.0.2 action drop");
    let mixed = lines(Format::Tc, &[&*one, &*other, &*two].concat());
    assert_eq!(mixed, lines(Format::Tc, &[&*one, &*two, &*other].concat()));
    // A range has another mask than one port.
    let [port, range] =
        ["53", "50-60"].map(|port| add(&format!("ip_proto udp dst_port {port} action drop")));
    let ports = lines(Format::Tc, &[&*range, &*port, &range.replace("50-60", "70-80")].concat());
    let last = ports.lines().last().unwrap_or_default();
    assert!(last.contains("udp dst is 53 /"), "{ports}");
    let back = one.replace("action drop", "action goto chain 0");
    let expected = "line 1, column 92: `goto chain` goes back, or stays: here rules jump forward \
                    alone";
    refused(Format::Tc, &[(&back, expected)]);
}

#[test]
fn filters_are_replaced_and_deleted_as_the_kernel_does() {
    let command = |command: &str, rest: &str| {
        format!("tc filter {command} dev eth0 ingress protocol ip pref 10 {rest}\n")
    };
    let first = command("add", "flower dst_ip 1.1.1.1 action drop");
    let second = command("add", "flower dst_ip 1.1.1.2 action drop");
    let other = command("replace", "handle 0x1 flower dst_ip 1.1.1.4 action pass");
    let out = lines(Format::Tc, &[&*first, &*second, &*other].concat());
    let found: Vec<&str> = out.lines().filter_map(|it| it.split("dst is ").nth(1)).collect();
    let expected = ["1.1.1.4 / end actions rss / end", "1.1.1.2 / end actions drop / end"];
    assert_eq!(found, expected);
    // Without a handle `replace` is as `add`.
    let new = command("replace", "flower dst_ip 1.1.1.3 action pass");
    assert_eq!(lines(Format::Tc, &format!("{first}{new}")).lines().count(), 2);
    let change = command("change", "handle 1 flower dst_ip 1.1.1.4 action pass");
    assert_eq!(lines(Format::Tc, &format!("{first}{change}")).lines().count(), 1);
    for (then, said) in [
        (
            first.clone(),
            "line 1 has these keys with this pref: the kernel refuses a second such filter",
        ),
        (first.replace("add", "replace"), "line 1 has these keys"),
        (other.replace("replace", "add"), "this handle is that of line 1: use `replace`"),
        (
            command("replace", "handle 1 flower src_ip 1.1.1.4 action pass"),
            "the filter of line 1 has other keys or masks",
        ),
        (change.replace("handle 1 ", ""), "no filter of this handle is there to change"),
        (change.replace("pref 10", "pref 11"), "no filter of pref 11 is there to change"),
        (change.replace("pref 10", ""), "`change` without `pref`"),
        (
            first.replace("protocol ip", "protocol ipv6").replace("dst_ip 1.1.1.1 ", ""),
            "pref 10 is that of another protocol, of line 1",
        ),
    ] {
        let error = convert(Format::Tc, &format!("{first}{then}")).unwrap_err().to_string();
        assert!(error.contains(said), "{then}{error}");
    }
    // A deletion before any filter was added has no effect.
    let clear = "tc filter del dev eth0 ingress\n";
    assert_eq!(lines(Format::Tc, &format!("{clear}{first}")), lines(Format::Tc, &first));
    let out = lines(Format::Tc, &format!("{first}{second}{clear}"));
    assert_eq!(out, "# line 3: deletes 2 of the filters before it\n");
    let one = command("delete", "handle 1 flower");
    let out = lines(Format::Tc, &format!("{first}{second}{one}"));
    assert_eq!(out.lines().filter(|line| line.contains("1.1.1.2")).count(), 1, "{out}");
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn a_delete_that_tc_or_the_kernel_refuses_is_refused() {
    let first = "tc filter add dev eth0 ingress protocol ip pref 10 flower action drop\n";
    let root = "neither `ingress` nor `parent ffff:`";
    let kind = "`handle` without `flower`: tc deletes no filter";
    for (rest, said) in [
        ("", root),
        ("pref 10", root),
        ("pref 10 protocol ip handle 1 flower", root),
        ("root", "not supported: filters that are not of ingress"),
        ("ingress handle 1", kind),
        ("ingress handle 0", kind),
        ("ingress pref 10 handle 1", kind),
        ("ingress pref 10 protocol ip handle 1", kind),
        ("ingress protocol ip", "`delete` with `protocol` and without `pref`"),
        ("ingress protocol all", "`delete` with `protocol` and without `pref`"),
        ("ingress pref 0 protocol ip", "`delete` with `protocol` and without `pref`"),
        ("ingress handle 1 flower", "`delete` with `handle` and without `pref`"),
        ("ingress flower", "`delete` with `flower` and without `pref`"),
        ("parent ffff: chain 0 flower", "`delete` with `flower` and without `pref`"),
    ] {
        let text = format!("{first}tc filter del dev eth0 {rest}");
        let error = convert(Format::Tc, &text).unwrap_err().to_string();
        assert!(error.contains(said), "{rest}: {error}");
    }
    for rest in [
        "ingress",
        "parent ffff: chain 0",
        "ingress pref 10",
        "ingress pref 10 protocol ip",
        "ingress pref 10 flower",
        "ingress pref 10 handle 1 flower",
    ] {
        let out = lines(Format::Tc, &format!("{first}tc filter del dev eth0 {rest}"));
        assert_eq!(out, "# line 2: deletes 1 of the filters before it\n", "{rest}");
    }
}

/// Two filters in the form of `tc filter show`, after the header line of their priority.
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
\t index 1 ref 1 bind 1 installed 0 sec used 0 sec
\tAction statistics:
\tSent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) 
\tbacklog 0b 0p requeues 0
";

#[test]
fn what_tc_prints_is_converted() {
    let expected = "flow create 0 group 0 priority 10 ingress pattern eth type is 0x0800 / ipv4 \
                    fragment_offset spec 0 fragment_offset mask 0x3fff dst spec 10.0.0.0 dst \
                    prefix 8 / tcp src is 80 / end actions drop / end\n\
                    flow create 0 group 2 priority 11 ingress pattern eth type is 0x8100 / vlan \
                    vid is 5 inner_type is 0x0800 / end actions queue index 3 / end\n";
    assert_eq!(lines(Format::Tc, SHOWN), expected);
    let behind_qdiscs = format!("qdisc clsact ffff: dev eth0 parent ffff:fff1 \n{SHOWN}");
    assert_eq!(lines(Format::Tc, &behind_qdiscs), expected);
    let mirred = "  not_in_hw\n\taction order 1: mirred (Egress Redirect to device veth1) stolen\n \
                  \tindex 1 ref 1 bind 1\n";
    let shown = format!("filter protocol ip pref 49152 flower chain 0 handle 0x1 \n{mirred}");
    let said = "line 3, column 18: not supported: action mirred: it names an interface, and rules \
                know queues and ports by their number";
    refused(Format::Tc, &[(&shown, said)]);
}

#[test]
fn a_batch_is_read_as_if_tc_stood_in_front() {
    let batch = "# a comment
qdisc add dev eth0 ingress
filter add dev eth0 ingress protocol ip pref 1 flower dst_mac 02:00:00:00:00:02 action drop#why
  fil a dev eth0 ingress protocol ip pref 2 \\
    flower dst_ip '10.0.0.1' action pass
filter show dev eth0 ingress
";
    let script = "tc qdisc add dev eth0 ingress
tc filter add dev eth0 ingress protocol ip pref 1 flower dst_mac 02:00:00:00:00:02 action drop
tc filter add dev eth0 ingress protocol ip pref 2 flower dst_ip 10.0.0.1 action pass
";
    let out = lines(Format::Tc, batch);
    assert_eq!(out, lines(Format::Tc, script));
    assert_eq!(out.lines().count(), 2);
    for (line, said) in [
        ("class add dev eth0 parent 1:", "not supported: tc class"),
        ("fliter add dev eth0", "expected an object of tc, such as `filter` or `qdisc`"),
        ("filter add dev eth0 ingress flower; drop", "expected `flower`"),
    ] {
        let error = convert(Format::Tc, &format!("{batch}{line}\n")).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("shell"), "{error}");
    }
    let said = "the commands are in another file: convert that one";
    let error = convert(Format::Tc, "tc -force -b file").unwrap_err();
    assert_eq!(error.problem().to_string(), said);
    let options = script.replace("tc ", "sudo /sbin/tc -s -n lab ");
    assert_eq!(lines(Format::Tc, &options), out);
}

#[test]
fn of_a_script_of_tc_commands_what_makes_no_filter_is_passed_over_or_refused() {
    let script = "#!/bin/sh
# the web server

sudo tc qdisc add dev eth0 \\
  clsact
tc filter add dev \"eth0\" ingress protocol ip prio 1 \\
  flower ip_proto tcp dst_port 443 \\
tcp_flags 2/2 action drop # new connections alone
\ttc filter add dev eth0 ingress protocol ip prio 2 flower action pass
tc qdisc show dev eth0
";
    let expected = "flow create 0 group 0 priority 1 ingress pattern eth type is 0x0800 / ipv4 \
                    fragment_offset spec 0 fragment_offset mask 0x3fff / tcp dst is 443 flags spec \
                    2 flags mask 0x2 / end actions drop / end\n\
                    flow create 0 group 0 priority 2 ingress pattern eth type is 0x0800 / end \
                    actions rss / end\n";
    assert_eq!(lines(Format::Tc, script), expected);
    let shell = "no shell runs here: leave this out, or convert what `tc filter show dev DEV \
                 ingress` prints";
    for (text, place) in [
        ("DEV=$(lan)\n", "line 1, column 1"),
        ("A=1 B=2\n", "line 1, column 1"),
        ("set -n\n", "line 1, column 1"),
        ("set\n", "line 1, column 1"),
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
    let said = "line 1, column 37: expected pref: a number from 0 to 65535, found `$P`";
    refused(Format::Tc, &[("tc filter add dev eth0 ingress prio $P flower action drop", said)]);
}

#[test]
fn commands_about_qdiscs_are_passed_over_where_they_leave_the_filters() {
    let filter = "tc filter add dev eth0 ingress flower action drop";
    for command in ["add", "replace", "show", "ls", "list", "del", "delete"] {
        let out = lines(Format::Tc, &format!("tc qdisc {command} dev eth0 clsact\n{filter}"));
        assert_eq!(out, lines(Format::Tc, filter), "{command}");
    }
    let late = format!("{filter}\ntc qdisc del dev eth0 clsact");
    let said = "line 2, column 10: a qdisc is deleted behind filters, which it may take along: \
                convert what is added behind it alone";
    refused(Format::Tc, &[(&late, said)]);
    let said = "line 1, column 10: of `tc qdisc` only `add`, `replace`, `show`, `list` and \
                `delete` are passed over: leave this out";
    refused(Format::Tc, &[("tc qdisc change dev eth0 root", said)]);
    let shell = "line 2, column 3: no shell runs here: leave this out, or convert what `tc filter \
                 show dev DEV ingress` prints";
    refused(Format::Tc, &[("tc qdisc add dev eth0 clsact\n  exit 1", shell)]);
}

#[test]
fn tc_filters_without_an_equivalent_are_refused() {
    let add = |rest: &str| add(&format!("protocol ip prio 1 {rest}"));
    let flower = |rest: &str| add(&format!("flower {rest} action drop"));
    let table = [
        (
            add("u32 match"),
            "expected `flower` (other filters have no equivalent), or a word that may stand before \
             it, found `u32`",
        ),
        (add("flower ct_state +trk action drop"), "not supported: ct_state"),
        (add("flower dst_port 80 action drop"), "dst_port needs `ip_proto tcp` or `udp` before it"),
        (
            add("flower src_ip 1.2.3.4/33 action drop"),
            "expected src_ip: length: a number from 0 to 32, found `1.2.3.4/33`",
        ),
        (
            add("flower action mirred egress redirect dev eth1"),
            "not supported: action mirred: it names an interface, and rules know queues and ports \
             by their number",
        ),
        (add("flower action police rate 1mbit"), "not supported: action police"),
        (add("flower src_ip 1.2.3.4"), "no action: add `action drop`, or another"),
        (
            add("flower action drop action skbedit queue_mapping 1"),
            "two fates: `drop` and this one",
        ),
        (flower("vlan_id 5"), "vlan_id needs `protocol 802.1Q` before it"),
        ("tc filter add dev eth0 egress".into(), "not supported: filters that are not of ingress"),
        (
            "tc filter add dev eth0 protocol ip flower action drop".into(),
            "neither `ingress` nor `parent ffff:`: tc means the filters of the root qdisc, where \
             packets leave",
        ),
        ("tc class add".into(), "not supported: tc class"),
        (
            add("flower action drop\ntc filter add dev eth1"),
            "another device: convert the filters of one at a time",
        ),
    ];
    is_said(&table);
    let error = convert(Format::Tc, &add("flower \\\n  ct_state +trk action drop")).unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 3));
}

#[test]
fn plain_values_and_options_of_the_shell_are_passed_over() {
    let filter = "tc filter add dev $DEV ingress flower action drop";
    let of_shell = "DEV=eth0\nset -e\nset -euo pipefail # all\nset +x\n_A1='x.y' # why\n";
    let script = format!("{of_shell}tc qdisc add dev $DEV clsact\nB=\"${{DEV}}\"\n{filter}\nC=1\n");
    let out = lines(Format::Tc, &script);
    assert_eq!(out, lines(Format::Tc, filter));
    assert_eq!(out.lines().count(), 1, "{out}");
    let rule = "ethtool -N $DEV flow-type ip4 action 1\n";
    let out = lines(Format::Ethtool, &format!("{of_shell}{rule}"));
    assert_eq!(out, lines(Format::Ethtool, rule));
    assert!(out.starts_with("flow create 0 group 0 priority 0 "), "{out}");
    let said = "line 3, column 1: a second value of DEV: convert what uses each by itself";
    let twice = |rule: &str| format!("DEV=eth0\n{rule}\nDEV=eth1\n{rule}");
    refused(Format::Tc, &[(&twice(filter), said)]);
    refused(Format::Ethtool, &[(&twice(rule.trim_end()), said)]);
    // tc itself knows neither.
    let batch = "qdisc add dev eth0 clsact\nDEV=eth0\n";
    let said = "line 2, column 1: expected an object of tc, such as `filter` or `qdisc`, found \
                `DEV=eth0`";
    refused(Format::Tc, &[(batch, said)]);
}

#[test]
fn a_backslash_joins_lines_at_the_very_end_alone() {
    let said = "a blank behind the `\\`: it joins lines at the very end alone; remove it";
    for end in ["\\ ", "\\\t", "drop\\ ", "\\ # why"] {
        for tc in ["tc ", ""] {
            let text = format!("{tc}filter add dev eth0 ingress flower {end}\n action drop\n");
            let error = convert(Format::Tc, &text).unwrap_err();
            assert_eq!((error.line(), error.problem().to_string().as_str()), (1, said), "{text}");
        }
    }
    let said = "line 2, column 1: the `\\` before joins this to the word in front: put a blank \
                between";
    let cut = "tc filter add dev eth0 ingress flower action dr\\\nop";
    refused(Format::Tc, &[(cut, said)]);
    let apart = "tc filter add dev eth0 ingress flower action\\\n drop";
    assert_eq!(lines(Format::Tc, apart).lines().count(), 1);
    let text = "tc filter add dev eth0 ingress flower \\\r\n action drop\r\n";
    assert_eq!(lines(Format::Tc, text).lines().count(), 1);
}

#[test]
fn masks_that_tc_takes_otherwise_or_not_are_refused() {
    let flower = |rest: &str| add(&format!("protocol ip prio 1 flower {rest} action drop"));
    let v6 = |rest: &str| add(&format!("protocol ipv6 prio 1 flower {rest} action drop"));
    let no_bits = |key: &str| {
        format!("{key} of 0 bits: tc 6.1 makes the mask 00:00:ff:ff:ff:ff of it; leave it out")
    };
    let holes = |key: &str, word: &str| {
        format!(
            "expected {key}: a length, or an IPv4 mask of leading ones: tc takes no other, found \
             `{word}`"
        )
    };
    for (text, said) in [
        (flower("dst_mac 02:00:00:00:00:01/0"), no_bits("dst_mac")),
        (flower("src_mac 02:00:00:00:00:01/0"), no_bits("src_mac")),
        (flower("src_ip 10.0.0.1/0.0.0.255"), holes("src_ip", "10.0.0.1/0.0.0.255")),
        (flower("dst_ip 10.0.0.1/255.255.0.255"), holes("dst_ip", "10.0.0.1/255.255.0.255")),
        (flower("src_ip 10.0.0.1/8.0"), holes("src_ip", "10.0.0.1/8.0")),
        (
            flower("src_ip 10.0.0.1/255"),
            "expected src_ip: length: a number from 0 to 32, found `10.0.0.1/255`".to_owned(),
        ),
        (v6("dst_ip 2001:db8::/ffff:ffff::"), holes("dst_ip", "2001:db8::/ffff:ffff::")),
        (v6("dst_ip 2001:db8::/0.0.0.1"), holes("dst_ip", "2001:db8::/0.0.0.1")),
    ] {
        is_said(&[(text, &said)]);
    }
    for (text, part) in [
        (flower("src_ip 10.0.0.1/255.255.254.0"), "ipv4 src spec 10.0.0.0 src prefix 23 /"),
        (flower("src_ip 10.0.0.1/255.0"), "ipv4 src spec 10.0.0.0 src prefix 8 /"),
        (v6("dst_ip 2001:db8::/255.255.0.0"), "ipv6 dst spec 2001:: dst prefix 16 /"),
    ] {
        let out = lines(Format::Tc, &text);
        assert!(out.contains(part), "{text}: {out}");
    }
}

/// The expected error for each text.
fn is_said(table: &[(String, &str)]) {
    for (text, expected) in table {
        let error = convert(Format::Tc, text).unwrap_err();
        assert_eq!(error.problem().to_string(), *expected, "{text}");
    }
}

#[test]
fn keys_of_flower_that_no_rule_says_are_refused_with_what_would_do() {
    let flower = |rest: &str| add(&format!("protocol ip prio 1 flower {rest} action drop"));
    is_said(&[
        (
            flower("ip_proto icmp type 0"),
            "type is to be 0, which flower finds in all fragments too: add `ip_flags nofrag`",
        ),
        (
            flower("ip_proto tcp tcp_flags 0/2"),
            "tcp_flags is to be 0, which flower finds in all fragments too: add `ip_flags nofrag`",
        ),
        (
            flower("ip_proto tcp dst_port 80 ip_flags firstfrag"),
            "dst_port with these ip_flags: flower reads no transport header of fragments; leave it \
             out, or use `nofrag`",
        ),
        (
            flower("ip_flags frag"),
            "ip_flags: no one rule matches these; `nofrag` or `firstfrag` can be matched",
        ),
        (flower("ip_flags nofrag/firstfrag"), "a first fragment is one: this matches nothing"),
        (
            flower("dst_ip 10.0.0.0/0"),
            "dst_ip of which no bit counts: flower matches nothing; leave it out",
        ),
        (flower("dst_ip any"), "dst_ip of any address: leave it out"),
        (flower("ip_proto tcp dst_port 0"), "tc takes no dst_port 0: write `0/0xffff`"),
        (flower("ip_proto tcp dst_port 5-0"), "dst_port: a range is upwards, from 1"),
        (
            flower("tcp_flags 2"),
            "tcp_flags needs `ip_proto tcp`: without it the kernel passes over them",
        ),
        (
            flower("ip_proto tcp tcp_flags 2 dst_port 1-2"),
            "tcp_flags without a mask are 12 bits, of which `tcp flags` has 8: give a mask, such \
             as `2/ff`",
        ),
        (
            flower("ip_proto 89"),
            "not supported: ip_proto 0x89: flower takes such packets for MPLS, not for IP",
        ),
        (flower("dst_ip 1.1.1.1 dst_ip 2.2.2.2"), "dst_ip is given twice: tc takes the last alone"),
        (flower("eth_type ip"), "tc prints eth_type and does not read it: leave it out"),
        (flower("ip_proto icmp type 300"), "expected type: a number from 0 to 255, found `300`"),
        (
            flower("ip_proto icmp type 8/0xf"),
            "expected type: a number from 0 to 255, found `8/0xf`",
        ),
    ]);
}
