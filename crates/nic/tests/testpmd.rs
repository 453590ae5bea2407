//! Rules as text, read by testpmd's own parser.
//!
//! testpmd says "Bad arguments" of a text that it cannot read; of one that it can, a null port says
//! that it has no rules. Needs `dpdk-testpmd` (Debian: dpdk-dev); where it is missing or does not
//! start, the tests say SKIP.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use niclab_nic::limits::PRIORITY_MAX;
use niclab_nic::rss::{HashFunction, HashTypes, RssAction, RssLevel};
use niclab_nic::rule::item::{FieldKind, IMAGE_LEN, Item, ItemMatch, RAW_LEN_MAX};
use niclab_nic::rule::text::{FlowRule, Parser};
use niclab_nic::rule::{Action, Set, text};
use niclab_nic::text::Problem;

/// What testpmd starts with, as `benches/peers/flowgen.c` starts it.
const ARGUMENTS: &[&str] = &[
    "--no-huge",
    "--no-pci",
    "--no-shconf",
    "-m",
    "128",
    "--no-telemetry",
    "--log-level=error",
    "--vdev=net_null0",
    "--lcores=0@0,1@0",
    "--main-lcore=0",
    "--",
    "-i",
    "--nb-cores=1",
    "--total-num-mbufs=2048",
];

/// Bytes of a line that testpmd reads at most.
const LINE_LEN_MAX: usize = 500;

/// Whether testpmd can read each of these lines.
fn understood(lines: &[String]) -> Result<Vec<bool>, String> {
    let mut testpmd = Command::new("dpdk-testpmd")
        .args(ARGUMENTS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("dpdk-testpmd does not start: {error}"))?;
    let mut input = testpmd.stdin.take().ok_or("no standard input")?;
    let mut text = lines.join("\n");
    text.push_str("\nquit\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = testpmd.wait_with_output().map_err(|error| error.to_string())?;
    writer.join().map_err(|_| "the writer panicked")?.map_err(|error| error.to_string())?;
    let output = String::from_utf8_lossy(&output.stdout);
    // Each line is echoed behind a prompt, and its answer follows.
    let answers: Vec<&str> = output.split("testpmd> ").skip(1).collect();
    if answers.len() != lines.len() + 1 {
        return Err(format!("{} lines, {} answers", lines.len(), answers.len()));
    }
    Ok(answers[..lines.len()].iter().map(|a| !a.contains("Bad arguments")).collect())
}

fn understood_or_skip(test: &str, lines: &[String]) -> Option<Vec<bool>> {
    if let Err(error) = Command::new("dpdk-testpmd").arg("--version").output() {
        println!("SKIP {test}: dpdk-testpmd: {error}");
        return None;
    }
    match understood(lines) {
        Ok(answers) => Some(answers),
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Every field of every item, by each of the ways to match it.
fn items() -> Vec<ItemMatch> {
    let mut items: Vec<ItemMatch> = Item::ALL.into_iter().map(ItemMatch::any).collect();
    for item in Item::ALL {
        for (at, field) in item.fields().iter().enumerate() {
            let values = [0, 1, 0x5a5a_5a5a_5a5a & field.ones(), field.ones()];
            let masks = [field.ones(), field.ones() & !(field.ones() >> (at % 9)), 1, 0];
            for (value, mask) in values.into_iter().flat_map(|v| masks.map(|mask| (v, mask))) {
                if field.kind == FieldKind::Index && mask != field.ones() {
                    continue;
                }
                let mut read = ItemMatch::any(item);
                field.put(&mut read.spec, value);
                field.put(&mut read.mask, mask);
                let mut last = [0; IMAGE_LEN];
                field.put(&mut last, value | mask);
                let has_last = value == 1 && field.kind != FieldKind::Index;
                read.last = (has_last && last != [0; IMAGE_LEN]).then_some(last);
                items.push(read);
            }
        }
    }
    for (len, mask) in [(1, 0xff), (3, 0xf0), (RAW_LEN_MAX, 0xff), (RAW_LEN_MAX, 0x01)] {
        let mut read = ItemMatch::any(Item::Raw);
        read.spec[7] = len as u8;
        read.spec[8..][..len].fill(0x5a);
        read.mask[8..][..len].fill(mask);
        items.push(read);
    }
    items
}

/// `rss` with each parameter, and each hash type.
fn rss_actions() -> Vec<RssAction> {
    let mut actions: Vec<RssAction> = HashTypes::NAMES
        .map(|(_, types)| RssAction { types: Some(types), ..RssAction::default() })
        .to_vec();
    for function in [None, Some(HashFunction::Toeplitz), Some(HashFunction::SymmetricToeplitz)] {
        for (queues, key_len) in [(0, 40), (1, 52), (30, 64)] {
            let key = Some((0..key_len).map(|at: u8| at.wrapping_mul(37)).collect());
            let queues: Vec<u16> = (0..queues).map(|queue| u16::MAX - queue).collect();
            let level = (queues.len() == 1).then_some(RssLevel::Inner);
            actions.push(RssAction { function, key, level, queues, types: None });
        }
    }
    actions.push(RssAction::default());
    actions
}

/// Headers for actions, and rules that use them.
const SETS: &[&str] = &[
    "set nvgre ip-version ipv4 tni 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 eth-src 11:11:11:11:11:11 \
         eth-dst 22:22:22:22:22:22",
    "set nvgre-with-vlan ip-version ipv6 tni 16777215 ip-src ::1 ip-dst ::2222 vlan-tci 34 eth-src \
         11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
    "set vxlan ip-version ipv4 vni 4 udp-src 4 udp-dst 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 eth-src \
         11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
    "set vxlan-with-vlan ip-version ipv4 vni 4 udp-src 4 udp-dst 65535 ip-src 127.0.0.1 ip-dst \
         128.0.0.1 vlan-tci 65535 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
    "set vxlan-tos-ttl ip-version ipv6 vni 16777215 udp-src 4 udp-dst 4789 ip-tos 255 ip-ttl 255 \
         ip-src ::1 ip-dst ::2222 eth-src 11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
    "set raw_encap 0 eth src is 02:00:00:00:00:01 / vlan vid is 5 / ipv4 ttl is 64 src is \
         10.0.0.1 / udp dst is 4789 / vxlan vni is 5 / end_set",
    "set raw_decap 0 eth / ipv6 / gre / gre_key / end_set",
    "set raw_encap 2 eth / mpls label is 7 / tcp / geneve vni is 3 / end_set",
    "flow create 0 group 0 priority 0 ingress pattern eth / end actions vxlan_encap / nvgre_encap \
     / raw_encap / raw_decap / drop / end",
];

#[test]
fn testpmd_reads_what_is_printed() {
    let mut lines: Vec<String> =
        ["flush 0", "list 0", "destroy 0 rule 7 rule 8", "query 0 7 count", "query 0 7 age"]
            .map(|command| format!("flow {command}"))
            .to_vec();
    let actions = [
        Action::Age(1),
        Action::Age(0xff_ffff),
        Action::Count,
        Action::Queue(u16::MAX),
        Action::Queue(0),
        Action::Jump(u32::MAX),
        Action::Drop,
        Action::Flag,
        Action::Mark(u32::MAX),
        Action::Meter(u32::MAX),
        Action::DecTtl,
        Action::MacSwap,
        Action::NvgreDecap,
        Action::VxlanDecap,
        Action::PopVlan,
        Action::Port(u16::MAX),
        Action::PushVlan(0x8100),
        Action::Set(Set::Ipv4Dscp(63)),
        Action::Set(Set::Ipv4Dst(Ipv4Addr::BROADCAST)),
        Action::Set(Set::Ipv4Src(Ipv4Addr::LOCALHOST)),
        Action::Set(Set::Ipv6Dscp(63)),
        Action::Set(Set::Ipv6Dst(Ipv6Addr::LOCALHOST)),
        Action::Set(Set::Ipv6Src(Ipv6Addr::from_bits(0x2001_0db8 << 96 | 5))),
        Action::Set(Set::MacDst([2, 0, 0, 0, 0, 0xff])),
        Action::Set(Set::MacSrc([2, 0, 0, 0, 0, 0xfe])),
        Action::Set(Set::TpDst(u16::MAX)),
        Action::Set(Set::TpSrc(0)),
        Action::Set(Set::Ttl(255)),
        Action::Set(Set::VlanPcp(7)),
        Action::Set(Set::VlanVid(4_095)),
    ];
    lines.extend(SETS.iter().map(|line| (*line).to_owned()));
    for (at, items) in items().chunks(2).enumerate() {
        let actions =
            &[actions[at % actions.len()].clone(), actions[at / 3 % actions.len()].clone()];
        let rule =
            FlowRule { group: at as u32, priority: PRIORITY_MAX - at as u32, items, actions };
        let command = match at % 2 {
            0 => text::Command::Create { port: 0, rule },
            _ => text::Command::Validate { port: 0, rule },
        };
        lines.push(command.to_string());
    }
    for action in rss_actions() {
        let actions = &[Action::Rss(Box::new(action))];
        let rule = FlowRule { group: 0, priority: 0, items: &[], actions };
        lines.push(text::Command::Create { port: 0, rule }.to_string());
    }
    assert!(lines.iter().all(|line| line.len() < LINE_LEN_MAX));
    let mut parser = Parser::default();
    for line in &lines {
        assert_eq!(parser.parse(1, line).map(|p| p.command.to_string()).as_ref(), Ok(line));
    }
    let Some(answers) = understood_or_skip("testpmd_reads_what_is_printed", &lines) else { return };
    let refused: Vec<_> = lines.iter().zip(answers).filter(|(_, known)| !known).collect();
    assert!(refused.is_empty(), "{} of {}: {refused:#?}", refused.len(), lines.len());
}

/// Lines of which words are left out, doubled, exchanged or replaced.
fn damaged() -> Vec<String> {
    let whole = [
        "flow create 0 group 1 priority 2 ingress pattern eth src is 02:00:00:00:00:01 / vlan vid \
         is 5 / ipv4 src spec 10.0.0.1 src prefix 24 dst is 10.0.0.2 / udp dst spec 53 dst mask \
         0xff / end actions count / queue index 3 / end",
        "flow validate 0 ingress pattern ipv6 src is 2001:db8::1 hop last 9 hop is 1 / tcp flags \
         is 2 / end actions void / jump group 3 / drop / end # why",
        "flow create 0 ingress pattern eth / ipv4 / udp / vxlan vni is 5 / eth / ipv4 / tcp dst is \
         80 / meta data is 7 / tag data spec 1 data mask 1 index is 2 / end actions drop / end",
        "flow create 0 ingress pattern end actions flag / mark id 7 / of_push_vlan ethertype \
         0x8100 / set_mac_dst mac_addr 02:00:00:00:00:01 / dec_ttl / set_ttl ttl_value 3 / end",
        "flow create 0 ingress pattern end actions set_meta data 0x7 mask 0xff / set_tag index 2 \
         data 9 mask 0xffffffff / jump group 1 / end",
        "flow create 0 ingress pattern end actions set_ipv4_src ipv4_addr 1.2.3.4 / set_ipv6_dst \
         ipv6_addr ::1 / set_tp_dst port 4 / set_ipv4_dscp dscp_value 9 / end",
        "flow create 0 ingress pattern eth / end actions rss queues 0 3 end types ipv4-udp \
         l3-src-only end key \
         00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0011223344556677 \
         key_len 40 func symmetric_toeplitz level 1 / end",
        "flow create 0 ingress pattern eth / raw relative is 1 search is 0 offset is 12 limit is 0 \
         pattern is abcd / raw offset spec 0xfffffff0 offset mask 0xffffffff pattern_hex spec \
         0x0102 pattern_hex mask f0ff / end actions drop / end",
        "flow create 0 ingress pattern eth dst is 0200:0000:0001 src is 02:00:00:00:00:01 / ipv4 / \
         gre k_bit is true c_bit spec no c_bit mask Y / end actions rss queues end / end",
        "flow create 0 ingress pattern tcp dst is 80 / end actions drop / end",
        "flow destroy 0 rule 1 rule 2",
        "flow query 0 1 count",
        "flow query 0 1 age",
        "flow aged 0",
        "flow aged 0 destroy",
        "flow flush 0",
        "flow list 0",
    ];
    let replacements =
        ["/", "end", "eth", "frob", "5x", "1.2.3.4", "70000000000", "true", "0x1", "2:0:0:0:0:1"];
    let mut lines = Vec::new();
    for line in whole {
        let words: Vec<&str> = line.split(' ').collect();
        lines.push(words.join(" "));
        // The first word is kept: testpmd has more commands than `flow`.
        for at in 1..words.len() {
            let mut change = |with: &[&str], skipped: usize| {
                let changed = [&words[..at], with, &words[at + skipped..]].concat();
                lines.push(changed.join(" "));
            };
            change(&[], 1);
            change(&[words[at], words[at]], 1);
            for with in replacements {
                change(&[with], 1);
            }
            if at + 1 < words.len() {
                change(&[words[at + 1], words[at]], 2);
            }
        }
    }
    lines
}

#[test]
fn testpmd_refuses_what_is_refused_as_no_command() {
    let lines = damaged();
    let test = "testpmd_refuses_what_is_refused_as_no_command";
    let Some(answers) = understood_or_skip(test, &lines) else { return };
    let (mut refused, mut wrong) = (0, Vec::new());
    let mut parser = Parser::default();
    for (line, known) in lines.iter().zip(answers) {
        let ours = parser.parse(1, line).map(|_| ());
        let syntax =
            matches!(ours.as_ref().map_err(|e| e.problem()), Err(Problem::Expected { .. }));
        refused += u32::from(syntax);
        match ours {
            Ok(()) if !known => wrong.push(format!("read here and not there: {line}")),
            Err(error) if syntax && known => wrong.push(format!("read there: {error}")),
            _ => {}
        }
    }
    assert!(refused > 400, "{refused} of {} lines", lines.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}
