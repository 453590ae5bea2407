//! Our bytes against those of `linux/ethtool.h`, as `layout_tests.c` made them: kept in
//! `layout_tests.txt`, and made anew where there are a compiler and the header.

use std::collections::HashMap;
use std::process::Command;

use super::flow::{ANYWHERE, EXT_LEN, FLOW_LEN, Fate, Fields, Flow, FlowKind, HEADER_LEN};
use super::info::{self, Channels, Driver, Queues, Rings};
use super::rss::RssConfig;
use super::rss::{FIELDS_LEN, Fields as HashFields, IP_DST, IP_SRC, L4_DST, L4_SRC, RXFH_LEN};
use super::rules::{self, COUNT_AT, FLOW_AT, LOCATIONS_AT, RXNFC_LEN};
use super::stamps::{self, RxFilter, StampAbility, StampSetting};
use super::{Card, call, layout};

/// The values of the kernel's header, by name.
const SAID: &str = include_str!("layout_tests.txt");

fn c_output(name: &str) -> &'static str {
    let lines = SAID.lines().filter_map(|line| line.split_once(' '));
    lines.collect::<HashMap<_, _>>().get(name).unwrap_or_else(|| panic!("no line {name}"))
}

fn number(name: &str) -> usize {
    c_output(name).parse().unwrap()
}

fn bytes(name: &str) -> Vec<u8> {
    let text = c_output(name).as_bytes();
    text.chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn layouts_match_the_headers_of_the_kernel() {
    let test = "layouts_match_the_headers_of_the_kernel";
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (concat!(env!("CARGO_MANIFEST_DIR"), "/src/linux/ethtool"), "said");
    let program = directory.path().join(program);
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    match cc.arg(format!("{source}/layout_tests.c")).output() {
        Err(e) => return println!("SKIP {test}: cc: {e}"),
        Ok(made) if !made.status.success() => {
            let said = String::from_utf8_lossy(&made.stderr).into_owned();
            assert!(said.contains("No such file"), "{said}");
            return println!("SKIP {test}: linux/ethtool.h is not here");
        }
        Ok(_) => {}
    }
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), SAID);
}

#[test]
fn lengths_and_places_are_those_of_the_header() {
    for (name, ours) in [
        ("drvinfo", info::DRVINFO_LEN),
        ("ringparam", info::RINGPARAM_LEN),
        ("pauseparam", info::PAUSEPARAM_LEN),
        ("channels-len", info::CHANNELS_LEN),
        ("gstrings", info::GSTRINGS_LEN),
        ("stats", info::STATS_LEN),
        ("sset_info", info::SSET_INFO_LEN),
        ("value", info::VALUE_LEN),
        ("ts-info", stamps::TS_INFO_LEN),
        ("stamp-setting", stamps::SETTING_LEN),
        ("rxfh", RXFH_LEN),
        ("rxnfc", RXNFC_LEN),
        ("flow", FLOW_LEN),
        ("flow-at", FLOW_AT),
        ("count-at", COUNT_AT),
        ("locations-at", LOCATIONS_AT),
    ] {
        assert_eq!(ours, number(name), "{name}");
    }
    assert_eq!(4 + 2 * (HEADER_LEN + EXT_LEN) + 4 + 8 + 8, FLOW_LEN, "with four bytes between");
}

#[test]
fn questions_have_the_numbers_of_the_header() {
    for (name, command) in [
        ("GSTRINGS", info::ask_names(2).0),
        ("GSTATS", info::ask_values(2).0),
        ("GSSET_INFO", info::ask_count().0),
        ("GFLAGS", info::ask_flags()),
        ("SFLAGS", info::set_flags(5)),
        ("GRXFH", HashFields::ask(1)),
        ("GRSSH", RssConfig::ask(0, 0).0),
        ("GRXCLSRLCNT", rules::ask_count()),
        ("GRXCLSRLALL", rules::ask_all(2).0),
        ("SRXCLSRLDEL", rules::at(0x31, 7)),
        ("GET_TS_INFO", StampAbility::ask()),
    ] {
        assert_eq!(layout::u32_at(&command, 0) as usize, number(name), "{name}");
    }
    assert_eq!(info::FLAG_NTUPLE as usize, number("NTUPLE"));
    assert_eq!(info::read_flags(&info::set_flags(info::FLAG_NTUPLE)), info::FLAG_NTUPLE);
    assert_eq!(info::ask_names(2), (info::ask_names(2).0, 12 + 2 * number("name")));
    assert_eq!(rules::ask_all(3).1, LOCATIONS_AT + 12);
    assert_eq!(layout::u32_at(&rules::at(0x31, 7), FLOW_AT + 160), 7);
}

#[test]
fn values_that_a_driver_fills_in_are_read() {
    let driver = Driver {
        name: "mlx5_core".into(),
        version: "6.18".into(),
        firmware: "16.35.2000 (MT_0000000008)".into(),
        bus: "0000:01:00.0".into(),
    };
    assert_eq!(Driver::read(&bytes("driver")), driver);
    let rings = Rings { rx: 1_024, rx_most: 8_192, tx: 512, tx_most: 4_096 };
    assert_eq!(Rings::read(&bytes("rings")), rings);
    let reply = Channels::read(&bytes("told"));
    let queues = |rx, tx, other, combined| Queues { rx, tx, other, combined };
    assert_eq!(reply, Channels { most: queues(1, 2, 3, 64), now: queues(5, 6, 7, 8) });
    assert_eq!(reply.now.receiving(), 13);
    // A card whose queues do both is given those alone.
    assert_eq!(reply.with_receiving(12), Some(queues(0, 6, 7, 12)));
    assert_eq!(reply.with_receiving(65), None);
    let apart = Channels { most: queues(4, 2, 0, 0), now: queues(1, 1, 0, 0) };
    assert_eq!(apart.with_receiving(3), Some(queues(3, 2, 0, 0)));
    assert_eq!(apart.with_receiving(5), None);
}

#[test]
fn time_stamps_are_asked_for_and_set() {
    let frames = |name| StampAbility::read(&bytes(name)).frames();
    assert_eq!(frames("stamps-all"), Some(RxFilter::All));
    assert_eq!(frames("stamps-ptp"), Some(RxFilter::Ptp));
    let mut without = bytes("stamps-all");
    without[4] = 0;
    assert_eq!(StampAbility::read(&without).frames(), None, "the driver stamps in software alone");
    let (all, ptp) = (StampSetting::of(RxFilter::All), StampSetting::of(RxFilter::Ptp));
    assert_eq!((all.bytes(), ptp.bytes()), (bytes("stamp-all"), bytes("stamp-ptp")));
    assert_eq!(StampSetting::read(&bytes("stamp-ptp")), ptp);
    assert!(ptp.is_part_of(all) && ptp.is_part_of(ptp) && !all.is_part_of(ptp));
    assert!(!ptp.is_part_of(StampSetting::default()));
    let kernel = |name| StampAbility::read(&bytes(name)).has_kernel_times();
    assert!(kernel("stamps-kernel") && !kernel("stamps-all"));
    let words = |name| StampAbility::read(&bytes(name)).words();
    assert_eq!(words("stamps-all"), "card (all frames, both ways)");
    assert_eq!(words("stamps-ptp"), "card (PTP frames alone, both ways)");
    assert_eq!(words("stamps-kernel"), "kernel");
    assert_eq!(StampAbility::default().words(), "none");
    assert_eq!(call::STAMP_CALLS.map(|n| n as usize), [number("GHWTSTAMP"), number("SHWTSTAMP")]);
}

#[test]
fn names_and_values_of_statistics_are_read() {
    let mut names = vec![0; 12 + 64];
    names[8..12].copy_from_slice(&2_u32.to_ne_bytes());
    names[12..22].copy_from_slice(b"rx_packets");
    names[44..].copy_from_slice(b"a_name_of_all_32_bytes_and_no_nu");
    let read = info::read_names(&names);
    assert_eq!(read, ["rx_packets", "a_name_of_all_32_bytes_and_no_nu"]);
    let values = [&[0; 4], &2_u32.to_ne_bytes(), &7_u64.to_ne_bytes()[..], &[0xff; 8]].concat();
    assert_eq!(info::read_values(&values), [7, u64::MAX]);
    // The set's bit stays where there are texts.
    let (mut count, _) = info::ask_count();
    count.extend(5_u32.to_ne_bytes());
    assert_eq!(info::read_count(&count), 5);
    count[8..16].fill(0);
    assert_eq!(info::read_count(&count), 0);
    // An answer that is cut is read as far as it goes.
    assert_eq!(info::read_names(&names[..40]), Vec::<String>::new());
    assert_eq!(info::read_values(&values[..12]), Vec::<u64>::new());
}

#[test]
fn settings_are_the_bytes_of_the_header() {
    let config = RssConfig {
        indirection: vec![1, 0x0102_0304],
        key: (0..40).collect(),
        function: 1,
        transform: 1,
    };
    assert_eq!(config.set(), bytes("rss"));
    assert_eq!(RssConfig::read(&config.set()), config);
    let key = RssConfig { indirection: Vec::new(), ..config };
    assert_eq!(layout::u32_at(&key.set(), 8), u32::MAX, "the table stays");
    let queues = Queues { rx: 1, tx: 2, other: 3, combined: 4 };
    assert_eq!(Channels::set(&queues), bytes("channels"));
    let fields = HashFields { flow: 2, fields: IP_SRC | IP_DST | L4_SRC | L4_DST };
    assert_eq!(fields.set(), bytes("fields"));
    assert_eq!(HashFields::read(&fields.set()), fields);
    assert_eq!(bytes("fields").len(), FIELDS_LEN);
}

/// An address as its first bytes.
fn address(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0))
}

fn flows() -> [(&'static str, Flow); 6] {
    let all4 = address(&[0xff; 4]);
    let none = Fields::default();
    let of = |kind, value, mask, fate, location| Flow { kind, value, mask, fate, location };
    let tcp4 = Fields {
        eth_dst: [2, 0, 0, 0, 0, 7],
        src: address(&[10, 0, 0, 1]),
        dst: address(&[10, 0, 0, 2]),
        sport: 1_024_u16.to_be_bytes(),
        dport: 80_u16.to_be_bytes(),
        tos: 0x10,
        vlan_tci: [0x01, 0x23],
        ..none
    };
    let tcp4_mask = Fields {
        eth_dst: [0xff; 6],
        src: address(&[0xff, 0xff, 0xff, 0]),
        dst: all4,
        sport: [0xff; 2],
        dport: [0xff, 0xf0],
        tos: 0xfc,
        vlan_tci: [0x0f, 0xff],
        ..none
    };
    let host = |last| address(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    let udp6 = Fields {
        src: host(1),
        dst: host(2),
        sport: 53_u16.to_be_bytes(),
        dport: 5_353_u16.to_be_bytes(),
        tos: 0x20,
        ..none
    };
    let all = [0xff; 2];
    let udp6_mask =
        Fields { src: [0xff; 16], dst: [0xff; 16], sport: all, dport: all, tos: 0xff, ..none };
    let sctp4 = Fields { dport: 38_412_u16.to_be_bytes(), ..none };
    let ip4 = Fields { dst: address(&[192, 0, 2, 1]), tos: 4, protocol: 47, ..none };
    let mut link_local = address(&[0xfe, 0x80]);
    link_local[15] = 1;
    let ip6 = Fields { src: link_local, tos: 8, protocol: 58, ..none };
    let ether = Fields {
        eth_dst: [2, 0, 0, 0, 0, 1],
        eth_src: [2, 0, 0, 0, 0, 2],
        ether_type: [0x88, 0xf7],
        ..none
    };
    let ether_mask =
        Fields { eth_dst: [0xff; 6], eth_src: [0xff; 6], ether_type: [0xff; 2], ..none };
    let ip4_mask = Fields { dst: all4, tos: 0xff, protocol: 0xff, ..none };
    let ip6_mask = Fields { src: [0xff; 16], tos: 0xff, protocol: 0xff, ..none };
    let first = Fate::Queue(0);
    [
        ("tcp4", of(FlowKind::Tcp4, tcp4, tcp4_mask, Fate::Queue(3), 7)),
        ("udp6", of(FlowKind::Udp6, udp6, udp6_mask, Fate::Drop, ANYWHERE)),
        ("sctp4", of(FlowKind::Sctp4, sctp4, Fields { dport: all, ..none }, Fate::Queue(1), 0)),
        ("ip4", of(FlowKind::Ipv4, ip4, ip4_mask, first, 0)),
        ("ip6", of(FlowKind::Ipv6, ip6, ip6_mask, first, 0)),
        ("ether", of(FlowKind::Ether, ether, ether_mask, first, 0)),
    ]
}

#[test]
fn rules_are_the_bytes_of_the_header_and_are_read_back() {
    for (name, flow) in flows() {
        assert_eq!(rules::insert(&flow), bytes(name), "{name}");
        assert_eq!(Flow::from_bytes(&flow.to_bytes()), Some(flow), "{name}");
        assert_eq!(rules::read_location(&rules::insert(&flow)), flow.location);
    }
    let mut of_ah = flows()[2].1.to_bytes();
    of_ah[0] = 9;
    assert_eq!(Flow::from_bytes(&of_ah), None, "AH, which niclab has no words for");
}

#[test]
fn rules_are_told_in_the_words_of_ethtool() {
    let [tcp4, udp6, _, ip4, _, ether] = flows().map(|(_, flow)| flow.to_string());
    let expected = "flow-type tcp4 dst-mac 02:00:00:00:00:07 m ff:ff:ff:ff:ff:ff \
        src-ip 10.0.0.1 m 255.255.255.0 dst-ip 10.0.0.2 m 255.255.255.255 tos 16 m 0xfc \
        src-port 1024 m 0xffff dst-port 80 m 0xfff0 vlan 291 m 0xfff action 3 loc 7";
    assert_eq!(tcp4, expected);
    assert!(udp6.starts_with("flow-type udp6 src-ip 2001:db8::1 m ffff:"), "{udp6}");
    assert!(udp6.ends_with(" dst-port 5353 m 0xffff action -1"), "{udp6}");
    assert!(ip4.contains(" l4proto 47 m 0xff tos 4 m 0xff "), "{ip4}");
    assert!(ether.contains(" src-mac 02:00:00:00:00:02 m "), "{ether}");
    assert!(ether.contains(" proto 35063 m 0xffff "), "{ether}");
}

#[test]
fn tables_of_rules_are_read_and_have_free_places() {
    let (mut answer, len) = rules::ask_all(3);
    answer.resize(len, 0);
    answer[8..16].copy_from_slice(&6_u64.to_ne_bytes());
    for (at, place) in [4_u32, 0, 2].into_iter().enumerate() {
        answer[LOCATIONS_AT + at * 4..][..4].copy_from_slice(&place.to_ne_bytes());
    }
    assert_eq!(rules::read_all(&answer), (6, vec![4, 0, 2]));
    let table = rules::NtupleTable { places: 6, finds_places: false, taken: vec![0, 2, 4] };
    assert_eq!(table.free().take(2).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(table.free().rev().collect::<Vec<_>>(), [5, 3, 1]);
    let mut count = rules::ask_count();
    count[COUNT_AT] = 9;
    assert_eq!(rules::read_count(&count), (9, false));
    count[8..16].copy_from_slice(&0x8000_0400_u64.to_ne_bytes());
    assert_eq!(rules::read_count(&count), (9, true));
}

#[test]
fn an_interface_that_is_not_there_is_an_error_and_loopback_lacks_all() {
    let error = Card::open("niclab-none").unwrap().driver().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    let mut lo = Card::open("lo").unwrap();
    assert_eq!(lo.name(), "lo");
    assert_eq!(lo.channels().unwrap(), None);
    assert_eq!(lo.rings().unwrap(), None);
    assert_eq!(lo.rss_config().unwrap(), None);
    assert_eq!(lo.hash_fields().unwrap(), []);
    assert_eq!(lo.rules().unwrap(), None);
    assert_eq!(lo.statistics().unwrap(), []);
}
