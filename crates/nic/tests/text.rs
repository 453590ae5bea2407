//! Rule text under attack: random and mutated lines are read or refused, never more than that.
//!
//! What is read prints to a text that reads back the same; a refused file changes nothing; what is
//! converted can be read. `cargo test` tries some thousands of texts, the same ones every time.
//! The ignored test goes on with others for as many seconds as `NICLAB_FUZZ_SECONDS` says, 600
//! where it is not set:
//!
//! ```text
//! NICLAB_FUZZ_SECONDS=600 cargo test --release -p niclab-nic --test text -- --ignored
//! ```

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use niclab_nic::rule::session::Session;
use niclab_nic::rule::text::Parser;
use niclab_nic::rule::text::convert::{Format, convert};
use niclab_nic::{Nic, NicConfig};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Lines that are right, to be made wrong.
const FLOWS: &[&str] = &[
    "flow create 0 group 1 priority 2 ingress pattern eth dst is 02:00:00:00:00:01 / vlan vid is 5 \
     / ipv4 src spec 10.1.0.0 src prefix 16 ttl spec 64 ttl mask 0xf0 / tcp flags is 2 / end \
     actions count / queue index 3 / end",
    "flow create 0 ingress pattern ipv6 src is 2001:db8::1 proto is 17 / udp dst is 53 dst last 60 \
     / end actions jump group 1 / end # a comment",
    "flow create 0 ingress pattern ipv4 / end actions drop / end",
    "flow create 0 ingress pattern ipv4 / udp / raw relative is 1 offset is 4 pattern is ab / raw \
     offset is 0 pattern_hex spec 0102 pattern_hex mask 00ff / end actions drop / end",
    "flow create 0 ingress pattern end actions void / drop / end",
    "flow validate 0 ingress pattern eth type is 0x0806 / end actions queue index 0 / end",
    "flow destroy 0 rule 0 rule 1",
    "flow update 0 0 actions count / drop / end",
    "flow query 0 0 count",
    "flow isolate 0 1",
    "flow create 0 ingress pattern eth / end actions age timeout 3 / meter mtr_id 0 / drop / end",
    "flow query 0 0 age",
    "flow create 0 ingress pattern eth / end actions port_id id 0 / end",
    "set vxlan ip-version ipv4 vni 4 udp-src 4 udp-dst 4 ip-src 127.0.0.1 ip-dst 128.0.0.1 eth-src \
     11:11:11:11:11:11 eth-dst 22:22:22:22:22:22",
    "set raw_encap 1 eth / vlan tci is 34 / ipv4 ttl is 3 / udp / vxlan vni is 4 / end_set",
    "flow create 0 ingress pattern eth / end actions vxlan_encap / raw_encap index 1 / drop / end",
    "flow aged 0 destroy",
    "flow flush 0",
    "flow list 0",
];

/// Rules of others that are right.
const FOREIGN: &[(Format, &str)] = &[
    (Format::ClassBench, "@10.0.0.0/8 1.2.3.4/32 0 : 65535 53 : 80 0x06/0xFF 0x0200/0x1200"),
    (Format::ClassBench, "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x01/0xFF\t0x0800/0xff00\t"),
    (
        Format::Ethtool,
        "ethtool -N eth0 flow-type tcp4 src-ip 10.0.0.0 m 0.0.255.255 action 3 loc 7",
    ),
    (Format::Ethtool, "ethtool -U eth0 flow-type ether src 2:0:0:0:0:1 vlan 5 m 0xf000 action -1"),
    (
        Format::Tc,
        "tc filter add dev eth0 ingress protocol ip prio 1 flower skip_sw ip_proto tcp dst_ip \
         10.0.0.0/8 src_port 80-90 tcp_flags 2/12 action skbedit queue_mapping 1",
    ),
    (
        Format::Tc,
        "filter protocol 802.1Q pref 11 flower chain 2 handle 0x7\n vlan_id 5\n \
         vlan_ethtype ipv6\n src_ip 2001:db8::/32\n\taction order 1: gact action drop\n\t \
         random type none pass val 0\n",
    ),
];

const WORDS: &[&str] = &[
    "/",
    "end",
    "actions",
    "pattern",
    "ingress",
    "group",
    "priority",
    "is",
    "spec",
    "mask",
    "last",
    "prefix",
    "eth",
    "vlan",
    "ipv4",
    "ipv6",
    "tcp",
    "udp",
    "icmp",
    "gre",
    "src",
    "dst",
    "type",
    "proto",
    "flags",
    "count",
    "queue",
    "index",
    "drop",
    "jump",
    "void",
    "rss",
    "raw",
    "relative",
    "offset",
    "pattern_hex",
    "raw_encap",
    "end_set",
    "age",
    "timeout",
    "0",
    "1",
    "65535",
    "65536",
    "4294967295",
    "99999999999999999999999999999999999999999",
    "0x",
    "0xffff",
    "-1",
    "007",
    "10.0.0.1",
    "10.0.0.0/33",
    "::",
    "2001:db8::1",
    "02:00:00:00:00:01",
    "#",
    "é",
    "\u{0}",
    "rule",
    "m",
    "loc",
    "action",
    "flower",
    "order",
    "handle",
    ":",
    "1 : 2",
    "@",
];

/// One way to make a text another.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, &'static str),
    Remove(Index),
    Replace(Index, &'static str),
    Repeat(Index),
    Cut(Index),
    Put(Index, char),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), select(WORDS)).prop_map(|(at, word)| Change::Insert(at, word)),
        2 => at().prop_map(Change::Remove),
        4 => (at(), select(WORDS)).prop_map(|(at, word)| Change::Replace(at, word)),
        1 => at().prop_map(Change::Repeat),
        1 => at().prop_map(Change::Cut),
        2 => (at(), any::<char>()).prop_map(|(at, letter)| Change::Put(at, letter)),
    ]
}

fn changed(text: &str, changes: &[Change]) -> String {
    let mut text = text.to_owned();
    for change in changes {
        let mut words: Vec<&str> = text.split(' ').collect();
        let len = words.len();
        match change {
            Change::Insert(at, word) => words.insert(at.index(len + 1), word),
            Change::Remove(at) => drop(words.remove(at.index(len))),
            Change::Replace(at, word) => words[at.index(len)] = word,
            Change::Repeat(at) => words.insert(at.index(len), words[at.index(len)]),
            Change::Cut(at) => words.truncate(at.index(len) + 1),
            Change::Put(at, letter) => {
                let mut letters: Vec<char> = text.chars().collect();
                letters.insert(at.index(letters.len() + 1), *letter);
                text = letters.into_iter().collect();
                continue;
            }
        }
        text = if words.is_empty() { " ".to_owned() } else { words.join(" ") };
    }
    text
}

fn line() -> impl Strategy<Value = String> {
    let changes = prop_oneof![
        2 => Just(Vec::new()),
        3 => prop::collection::vec(change(), 1..4),
        1 => prop::collection::vec(change(), 4..20),
    ];
    (select(FLOWS), changes).prop_map(|(line, changes)| changed(line, &changes))
}

fn foreign() -> impl Strategy<Value = (Format, String)> {
    (select(FOREIGN), prop::collection::vec(change(), 0..4))
        .prop_map(|((format, text), changes)| (format, changed(text, &changes)))
}

/// A line is read or refused, and what is read prints to the same.
fn check_line(text: &str) -> Result<(), TestCaseError> {
    let mut parser = Parser::default();
    match parser.parse(1, text) {
        Ok(parsed) => {
            let printed = parsed.command.to_string();
            let mut again = Parser::default();
            let read = again.parse(1, &printed).map(|parsed| parsed.command);
            prop_assert_eq!(read, Ok(parsed.command), "{}", printed);
        }
        Err(error) => {
            prop_assert!(error.column() <= text.chars().count() + 1, "{}", error);
            prop_assert_eq!(error.to_string().lines().count(), 3, "{}", error);
        }
    }
    Ok(())
}

/// Files are applied one after the other; those that are refused change nothing.
fn check_files(files: &[Vec<String>]) -> Result<(), TestCaseError> {
    let config = NicConfig { queues: 4, ..NicConfig::default() };
    let mut nic = Nic::new(&config).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut session = Session::new(0);
    for lines in files {
        let before = (session.len(), nic.len(), nic.is_isolated());
        let text = lines.join("\n");
        let applied = session.apply(&mut nic, text.as_bytes());
        prop_assert_eq!(session.len(), nic.len());
        if let Err(error) = applied {
            let after = (session.len(), nic.len(), nic.is_isolated());
            prop_assert_eq!(after, before, "{}", error);
        }
    }
    Ok(())
}

/// What is converted is read by the parser, which lacks only what the NIC lacks.
fn check_foreign(format: Format, text: &str) -> Result<(), TestCaseError> {
    let Ok(converted) = convert(format, text) else { return Ok(()) };
    for line in converted.lines().filter(|line| !line.starts_with('#')) {
        let mut parser = Parser::default();
        let read = parser.parse(1, line).map(|_| ());
        let lacks = line.contains("actions rss /");
        prop_assert!(lacks || read.is_ok(), "{}: {:?}", text, read.err());
    }
    Ok(())
}

fn attack(rng: TestRng, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let file = prop::collection::vec(line(), 1..6);
    let all = (line(), prop::collection::vec(file, 1..4), foreign());
    TestRunner::new_with_rng(config, rng)
        .run(&all, |(line, files, (format, text))| {
            check_line(&line)?;
            check_files(&files)?;
            check_foreign(format, &text)
        })
        .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn mutated_text_is_read_or_refused() {
    attack(TestRng::deterministic_rng(RngAlgorithm::ChaCha), 2_000);
}

#[test]
#[ignore = "as long as NICLAB_FUZZ_SECONDS says"]
fn mutated_text_is_read_or_refused_for_minutes() {
    let seconds = std::env::var("NICLAB_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(600)));
    let mut texts = 0_u64;
    while start.elapsed() < limit {
        let mut seed = [0; 32];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        seed[..16].copy_from_slice(&now.as_nanos().to_le_bytes());
        attack(TestRng::from_seed(RngAlgorithm::ChaCha, &seed), 2_000);
        texts += 2_000;
    }
    println!("{texts} lines, files and foreign rules in {} s", start.elapsed().as_secs());
}
