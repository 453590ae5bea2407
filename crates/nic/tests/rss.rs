//! RSS from the frame to the hash: published answers, and what is hashed by addresses alone.
//!
//! Answers are those of Microsoft's "Verifying the RSS Hash Calculation", with its key:
//! <https://learn.microsoft.com/windows-hardware/drivers/network/verifying-the-rss-hash-calculation>

use std::net::{IpAddr, SocketAddr};

use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_nic::{Nic, NicConfig};

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
    let mut nic = Nic::new(&NicConfig { queues: QUEUES, ..NicConfig::default() }).unwrap();
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
