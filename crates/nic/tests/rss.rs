//! RSS from the frame to the hash: published answers, what is hashed by addresses alone, hash types
//! and the symmetric hash.
//!
//! Answers are those of Microsoft's "Verifying the RSS Hash Calculation", with its key:
//! <https://learn.microsoft.com/windows-hardware/drivers/network/verifying-the-rss-hash-calculation>

use std::net::{IpAddr, SocketAddr};

use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use niclab_nic::rule::Rule;
use niclab_nic::rule::text::{Command, Parser, is_blank};
use niclab_nic::{Nic, NicConfig, RuleError};
use niclab_packet::flow::{FlowSet, FlowSpec, IpVersion, Transport};

/// Source, destination, hash of the addresses, hash with the ports.
type Known = (&'static str, &'static str, u32, u32);

#[rustfmt::skip]
const IPV4: [Known; 5] = [
    ("66.9.149.187:2794", "161.142.100.80:1766", 0x323e8fc2, 0x51ccc178),
    ("199.92.111.2:14230", "65.69.140.83:4739", 0xd718262a, 0xc626b0ea),
    ("24.19.198.95:12898", "12.22.207.184:38024", 0xd2d0a5de, 0x5c2b394a),
    ("38.27.205.30:48228", "209.142.163.6:2217", 0x82989176, 0xafc7327f),
    ("153.39.163.191:44251", "202.188.127.2:1303", 0x5d1809c5, 0x10e828a2),
];

#[rustfmt::skip]
const IPV6: [Known; 3] = [
    ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x2cc18cd5, 0x40207d3d),
    ("[3ffe:501:8::260:97ff:fe40:efab]:14230", "[ff02::1]:4739", 0x0f0c461c, 0xdde51bbf),
    ("[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", "[fe80::200:f8ff:fe21:67cf]:38024",
        0x4b61e985, 0x02d1feef),
];

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const SCTP: u8 = 132;
const MORE: u16 = 0x2000;
const DO_NOT: u16 = 0x4000;

/// Queues of the NIC under test.
const QUEUES: u16 = 16;

/// Hashes and queues of some frames, `burst` of them at a time.
fn hashes(frames: &[Vec<u8>], burst: usize) -> Vec<(u32, u16)> {
    hashes_by(&spread(HashFunction::Toeplitz, "ip tcp udp"), frames, burst)
}

/// A state with Microsoft's key and the queues in turn.
fn spread(function: HashFunction, types: &str) -> Rss {
    let types = HashTypes::try_from(types.to_owned()).unwrap();
    Rss { function, types, indirection: evenly(0..QUEUES), ..Rss::default() }
}

/// [`hashes`], of a NIC in this state.
fn hashes_by(rss: &Rss, frames: &[Vec<u8>], burst: usize) -> Vec<(u32, u16)> {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    nic.set_rss(rss).unwrap();
    let mut worker = nic.worker();
    let (region, mut descs) = Region::new(burst, 200).unwrap();
    let mut all = Vec::new();
    for frames in frames.chunks(burst) {
        for (desc, frame) in descs.iter_mut().zip(frames) {
            region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(desc, frame.len() as u16);
            (desc.hash, desc.queue) = (0xdead_beef, u16::MAX);
        }
        let burst = &mut descs[..frames.len()];
        assert_eq!(worker.classify(&region, burst), 0);
        all.extend(burst.iter().map(|desc| (desc.hash, desc.queue)));
    }
    all
}

fn ends(known: &Known) -> (SocketAddr, SocketAddr) {
    (known.0.parse().unwrap(), known.1.parse().unwrap())
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Source and destination port, and room for the rest of a transport header.
fn segment(known: &Known) -> Vec<u8> {
    let (src, dst) = ends(known);
    [&src.port().to_be_bytes()[..], &dst.port().to_be_bytes(), &[0; 16]].concat()
}

/// A frame with such a fragment field and so many bytes of options.
fn ipv4(known: &Known, protocol: u8, fragment: u16, options_len: usize) -> Vec<u8> {
    let (src, dst) = ends(known);
    let mut head = [&[2; 12][..], &[8, 0]].concat();
    let [high, low] = fragment.to_be_bytes();
    head.extend([0x45 + options_len as u8 / 4, 0, 0, 60, 0, 0, high, low, 64, protocol, 0, 0]);
    head.extend([octets(src.ip()), octets(dst.ip()), vec![1; options_len]].concat());
    [head, segment(known)].concat()
}

/// A frame with such extension headers, each with its own number.
fn ipv6(known: &Known, protocol: u8, extensions: &[(u8, [u8; 8])]) -> Vec<u8> {
    let (src, dst) = ends(known);
    let mut head = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    let numbers = extensions.iter().map(|(number, _)| *number).chain([protocol]);
    let mut numbers: Vec<u8> = numbers.collect();
    head.extend([0, 60, numbers.remove(0), 64]);
    head.extend([octets(src.ip()), octets(dst.ip())].concat());
    for ((_, extension), next) in extensions.iter().zip(numbers) {
        head.push(next);
        head.extend(&extension[1..]);
    }
    [head, segment(known)].concat()
}

/// A fragment header with such an offset (in 8 bytes) and mark.
fn fragment(offset: u16, more: bool) -> (u8, [u8; 8]) {
    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
    (44, [0, 0, high, low, 0, 0, 0, 9])
}

/// Frames with the hashes they must have.
fn cases() -> Vec<(String, Vec<u8>, u32)> {
    let mut cases = Vec::new();
    let mut add = |name: &str, frame, hash| cases.push((name.to_owned(), frame, hash));
    for known in &IPV4 {
        let (addresses, ports) = (known.2, known.3);
        for protocol in [TCP, UDP] {
            add("IPv4", ipv4(known, protocol, 0, 0), ports);
            add("not to be fragmented", ipv4(known, protocol, DO_NOT, 0), ports);
            add("with options", ipv4(known, protocol, 0, 8), ports);
            add("first fragment", ipv4(known, protocol, MORE, 0), addresses);
            add("first fragment with options", ipv4(known, protocol, MORE, 4), addresses);
            add("middle fragment", ipv4(known, protocol, MORE | 185, 0), addresses);
            add("last fragment", ipv4(known, protocol, 370, 0), addresses);
            add("ports cut off", ipv4(known, protocol, 0, 0)[..36].to_vec(), addresses);
        }
        add("SCTP", ipv4(known, SCTP, 0, 0), addresses);
        add("ICMP", ipv4(known, ICMP, 0, 0), addresses);
        add("not IP", [&[0; 12][..], &[8, 6], &[7; 46]].concat(), 0);
    }
    let hop = (0, [0; 8]);
    for known in &IPV6 {
        let (addresses, ports) = (known.2, known.3);
        for protocol in [TCP, UDP] {
            add("IPv6", ipv6(known, protocol, &[]), ports);
            add("behind a hop-by-hop header", ipv6(known, protocol, &[hop]), ports);
            add("a fragment of one", ipv6(known, protocol, &[fragment(0, false)]), ports);
            let first = ipv6(known, protocol, &[fragment(0, true)]);
            add("first fragment", first, addresses);
            let first = ipv6(known, protocol, &[hop, fragment(0, true), (60, [0; 8])]);
            add("first fragment among other headers", first, addresses);
            add("later fragment", ipv6(known, protocol, &[fragment(185, false)]), addresses);
        }
        add("SCTP", ipv6(known, SCTP, &[]), addresses);
    }
    cases
}

#[test]
fn frames_have_the_published_hashes_however_they_come() {
    let cases = cases();
    let frames: Vec<Vec<u8>> = cases.iter().map(|(_, frame, _)| frame.clone()).collect();
    for burst in [1, 7, 33, BURST] {
        for (case, (hash, queue)) in cases.iter().zip(hashes(&frames, burst)) {
            let (name, _, expected) = case;
            assert_eq!(hash, *expected, "{name}, in bursts of {burst}");
            assert_eq!(u32::from(queue), hash % 512 % u32::from(QUEUES), "{name}");
        }
    }
}

#[test]
fn all_fragments_of_a_datagram_reach_one_queue() {
    for known in &IPV4 {
        let fragments = [MORE, MORE | 185, 370].map(|field| ipv4(known, UDP, field, 0));
        let queues = hashes(&fragments, BURST);
        assert!(queues.iter().all(|got| *got == queues[0]), "{queues:?}");
    }
    for known in &IPV6 {
        let parts = [fragment(0, true), fragment(185, true), fragment(370, false)];
        let fragments = parts.map(|part| ipv6(known, UDP, &[part]));
        let queues = hashes(&fragments, BURST);
        assert!(queues.iter().all(|got| *got == queues[0]), "{queues:?}");
    }
}

/// Hashes of both directions of the published flows: of addresses and ports, and of addresses
/// alone. Computed bit by bit with Microsoft's key over exclusive ors, each of them twice.
#[rustfmt::skip]
const SYMMETRIC: [(u32, u32); 8] = [
    (0xac2b58ca, 0x887bd7bc), (0x231ac402, 0xb8a48b2d), (0xf4298103, 0x24308e2d),
    (0x4e18ff80, 0x25ea1454), (0x053876b1, 0x9c8f3ac9), (0x5ae081f3, 0x93faa660),
    (0x3d12f676, 0x36e6bcbb), (0xd36f3942, 0x66226820),
];

/// The published flows, each in both directions, and fragments of the same.
fn flows() -> Vec<[Vec<u8>; 4]> {
    let back = |known: &Known| (known.1, known.0, known.2, known.3);
    let ipv4 = IPV4.iter().map(|known| {
        let [whole, part] =
            [0, 185].map(|field| [known, &back(known)].map(|k| ipv4(k, TCP, field, 0)));
        [whole, part].concat()
    });
    let ipv6 = IPV6.iter().map(|known| {
        let extensions = [vec![], vec![fragment(185, false)]];
        let [whole, part] = extensions.map(|e| [known, &back(known)].map(|k| ipv6(k, TCP, &e)));
        [whole, part].concat()
    });
    ipv4.chain(ipv6).map(|frames| frames.try_into().unwrap()).collect()
}

#[test]
fn both_directions_of_a_flow_have_one_symmetric_hash() {
    let frames: Vec<Vec<u8>> = flows().into_iter().flatten().collect();
    for burst in [1, 32] {
        let rss = spread(HashFunction::SymmetricToeplitz, "ip tcp udp");
        let found = hashes_by(&rss, &frames, burst);
        for (flow, (with_ports, alone)) in found.chunks(4).zip(SYMMETRIC) {
            let hashes: Vec<u32> = flow.iter().map(|(hash, _)| *hash).collect();
            assert_eq!(hashes, [with_ports, with_ports, alone, alone], "in bursts of {burst}");
            assert_eq!(flow[0].1, flow[1].1, "queues");
        }
    }
}

/// What the first IPv4 and the first IPv6 flow have as hash, TCP whole and as a fragment.
type Hashed = (&'static str, HashFunction, [u32; 2], [u32; 2]);

/// Computed bit by bit with Microsoft's key, zeros where a field does not count.
#[rustfmt::skip]
const TYPES: [Hashed; 16] = [
    ("none", HashFunction::Toeplitz, [0, 0], [0, 0]),
    ("udp sctp ipv4-other ipv6-other", HashFunction::Toeplitz, [0, 0], [0, 0]),
    ("l3-src-only l4-src-only", HashFunction::Toeplitz, [0, 0], [0, 0]),
    ("tcp", HashFunction::Toeplitz, [0x51ccc178, 0], [0x40207d3d, 0]),
    ("ipv4-tcp", HashFunction::Toeplitz, [0x51ccc178, 0], [0, 0]),
    ("ipv6-tcp", HashFunction::Toeplitz, [0, 0], [0x40207d3d, 0]),
    ("ipv4", HashFunction::Toeplitz, [0x323e8fc2, 0x323e8fc2], [0, 0]),
    ("ipv6", HashFunction::Toeplitz, [0, 0], [0x2cc18cd5, 0x2cc18cd5]),
    ("ipv4-frag", HashFunction::Toeplitz, [0, 0x323e8fc2], [0, 0]),
    ("ipv6-frag", HashFunction::Toeplitz, [0, 0], [0, 0x2cc18cd5]),
    ("tcp l3-src-only", HashFunction::Toeplitz, [0x6dbaf764, 0], [0xe4d0ad42, 0]),
    ("tcp l4-dst-only", HashFunction::Toeplitz, [0x9090ebe4, 0], [0x3f1e3611, 0]),
    ("tcp l3-src-only l3-dst-only", HashFunction::Toeplitz, [0x51ccc178, 0], [0x40207d3d, 0]),
    ("tcp l4-src-only l4-dst-only", HashFunction::Toeplitz, [0x51ccc178, 0], [0x40207d3d, 0]),
    ("tcp l3-src-only", HashFunction::SymmetricToeplitz, [0x8deba12b, 0], [0xfa33837f, 0]),
    ("ip", HashFunction::SymmetricToeplitz, [0x887bd7bc, 0x887bd7bc], [0x93faa660, 0x93faa660]),
];

#[test]
fn types_say_what_is_hashed() {
    let flows = flows();
    let frames: Vec<Vec<u8>> = flows.into_iter().flatten().collect();
    for (types, function, ipv4, ipv6) in TYPES {
        let found = hashes_by(&spread(function, types), &frames, BURST);
        let hashes = |at: usize| [found[at].0, found[at + 2].0];
        assert_eq!(hashes(0), ipv4, "{types}, {function:?}");
        assert_eq!(hashes(4 * IPV4.len()), ipv6, "{types}, {function:?}");
    }
}

#[test]
fn states_that_cannot_be_are_refused_and_change_nothing() {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let before = nic.rss().clone();
    let (queue, queues) = (QUEUES, QUEUES);
    let unknown = Err(RuleError::QueueUnknown { queue, queues });
    let indirection = evenly(0..=QUEUES);
    assert_eq!(nic.set_rss(&Rss { indirection, ..before.clone() }), unknown);
    assert_eq!(nic.move_entries(&[(0, 1), (511, QUEUES)]), unknown);
    let error = nic.move_entries(&[(0, 1), (512, 0)]).unwrap_err();
    assert_eq!(error, RuleError::EntryUnknown { entry: 512 });
    assert_eq!(error.to_string(), "entry 512; an indirection table has entries 0 to 511");
    let error = nic.set_rss(&Rss { key: vec![1; 39], ..before.clone() }).unwrap_err();
    assert!(error.to_string().starts_with("an RSS key of 39 bytes cannot be used"), "{error}");
    assert_eq!(*nic.rss(), before);
    let mut transaction = nic.transaction();
    transaction.move_entries(&[(3, 7)]).unwrap();
    assert_eq!(transaction.move_entries(&[(3, QUEUES)]), unknown);
    transaction.commit().unwrap();
    assert_eq!((nic.rss().indirection[3], nic.rss().indirection[4]), (7, 4));
}

#[test]
fn a_transaction_that_is_dropped_leaves_rss_as_it_was() {
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
    let before = nic.rss().clone();
    let mut transaction = nic.transaction();
    transaction.move_entries(&[(0, 7)]).unwrap();
    transaction.set_rss(&spread(HashFunction::SymmetricToeplitz, "ip")).unwrap();
    drop(transaction);
    assert_eq!(*nic.rss(), before);
    nic.move_entries(&[(0, 7)]).unwrap();
    assert_ne!(*nic.rss(), before);
}

#[test]
fn queues_get_even_shares() {
    for queues in [1, 3, 7, 16, 256] {
        let table = evenly(2..2 + queues);
        let shares: Vec<usize> =
            (2..2 + queues).map(|q| table.iter().filter(|at| **at == q).count()).collect();
        let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
        assert!(most - least <= 1, "{queues} queues: {shares:?}");
        assert_eq!(shares.iter().sum::<usize>(), table.len());
    }
    assert_eq!(*evenly([]), [0; 512]);
}

/// What `docs/rules.md` says of rules that spread packets.
#[test]
fn the_rules_of_the_book_are_created_and_spread_as_it_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
    let book = std::fs::read_to_string(path).unwrap();
    let section = book.split("\n## ").find(|section| section.starts_with("RSS\n")).unwrap();
    let examples = section.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
    let mut nic = Nic::new(&NicConfig { queues: 8, ..NicConfig::default() }).unwrap();
    let (mut parser, mut count) = (Parser::default(), 0);
    for line in examples.lines().filter(|line| !is_blank(line)) {
        let parsed = parser.parse(1, line).unwrap();
        let Command::Create { rule, .. } = parsed.command else { panic!("{line}") };
        let (group, priority, pattern) =
            (rule.group, rule.priority, parsed.pattern(&rule).unwrap());
        nic.create(&Rule { group, priority, pattern, actions: rule.actions }).unwrap();
        count += 1;
    }
    assert_eq!(count, 4);
    let mut worker = nic.worker();
    let mut queue = |src: &'static str, dst: &'static str| {
        let frame = ipv4(&(src, dst, 0, 0), UDP, 0, 0);
        let (region, mut descs) = Region::new(1, 200).unwrap();
        region.slot_mut(&mut descs[0])[..frame.len()].copy_from_slice(&frame);
        region.set_len(&mut descs[0], frame.len() as u16);
        assert_eq!(worker.classify(&region, &mut descs), 0);
        descs[0].queue
    };
    let asked = queue("10.0.0.1:4000", "10.0.0.2:53");
    assert_eq!(asked, queue("10.0.0.2:53", "10.0.0.1:4000"), "both directions");
    assert!([2, 3].contains(&asked));
    let sent = queue("10.0.0.1:4000", "10.0.0.2:80");
    assert_eq!(sent, queue("10.0.0.1:4000", "10.7.7.7:99"), "one source");
    assert!((4..8).contains(&sent));
}

#[test]
fn the_shares_of_flows_are_those_of_their_frames() {
    const FLOWS: u32 = 400;
    let end = |address: IpAddr, port| -> &'static str {
        SocketAddr::new(address, port).to_string().leak()
    };
    for (version, proto) in [
        (IpVersion::V4, Transport::Tcp),
        (IpVersion::V4, Transport::Udp),
        (IpVersion::V6, Transport::Tcp),
        (IpVersion::V6, Transport::Udp),
    ] {
        let spec = FlowSpec { count: FLOWS, version, proto, seed: 7, ..FlowSpec::default() };
        let flows = FlowSet::new(&spec).unwrap();
        let number = if proto == Transport::Tcp { TCP } else { UDP };
        let frame = |tuple: niclab_packet::flow::FiveTuple| {
            let known = (end(tuple.src, tuple.sport), end(tuple.dst, tuple.dport), 0, 0);
            match version {
                IpVersion::V4 => ipv4(&known, number, 0, 0),
                IpVersion::V6 => ipv6(&known, number, &[]),
            }
        };
        let frames: Vec<Vec<u8>> = flows.tuples().map(frame).collect();
        for function in [HashFunction::Toeplitz, HashFunction::SymmetricToeplitz] {
            for types in [
                "ip tcp udp",
                "ip",
                "tcp",
                "ipv4-udp ipv6",
                "ip l3-src-only",
                "ip tcp udp l3-dst-only l4-src-only",
                "udp l3-src-only l3-dst-only l4-dst-only",
            ] {
                let rss = spread(function, types);
                let mut counted = [0.0; QUEUES as usize];
                for (_, queue) in hashes_by(&rss, &frames, BURST) {
                    counted[usize::from(queue)] += 1.0 / f64::from(FLOWS);
                }
                let shares = rss.shares(&flows, QUEUES).unwrap();
                let differs = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-9;
                let is_other = shares.iter().zip(&counted).any(differs);
                assert!(!is_other, "{version:?} {proto:?} {function:?} {types}: {shares:?}");
            }
        }
    }
}

#[test]
fn a_state_is_read_as_it_was_written_and_no_other_table_is() {
    let rss = Rss { indirection: evenly(3..7), ..Rss::default() };
    let text = serde_json::to_string(&rss).unwrap();
    assert_eq!(serde_json::from_str::<Rss>(&text).unwrap(), rss);
    let error = serde_json::from_str::<Rss>(&text.replacen("3,4", "3", 1)).unwrap_err().to_string();
    assert!(error.contains("indirection has 511 entries: 512 are wanted"), "{error}");
}
