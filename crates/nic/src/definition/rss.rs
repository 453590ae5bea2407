//! What RSS does with a frame, from its bytes to the queue.
//!
//! 1. *Packets.* A frame has an IP packet if it has an IP header by rule 1 of the definition. A
//!    fragment is a packet with an offset or with more fragments; its ports are not read. The
//!    protocol of an IPv6 packet is the number of the header after the last extension header that
//!    was read. Ports are the first 4 bytes after all these headers; bytes that the frame lacks are
//!    zero. At the inner level, the packet is the one inside a tunnel (rule 1 of the definition),
//!    if there is one and the frame is not a fragment outside; otherwise it is the outermost
//!    packet.
//! 2. *Types.* `ipv4-tcp`, `-udp` and `-sctp` name whole packets of that protocol, `ipv4-other` the
//!    other whole packets, `ipv4-frag` fragments, and `ipv4` all packets. The first three hash the
//!    ports after the addresses; the others hash the addresses alone. The same holds for IPv6. A
//!    packet that no type names, and a frame without a packet, has the hash 0.
//! 3. *Fields.* If a level has one `only` type, its other field is zero. A symmetric hash then
//!    takes the exclusive or of source and destination for both.
//! 4. *Hash.* Toeplitz's, as Microsoft defines it ("RSS Hashing Functions",
//!    <https://learn.microsoft.com/windows-hardware/drivers/network/rss-hashing-functions>): for
//!    each bit of the input that is set, from the left, the exclusive or with the leftmost 32 bits
//!    of the key. The key moves left by one with each bit of the input.
//! 5. *Queue.* The entry of the table at the hash modulo the length of the table.
//! 6. *Rules.* An `rss` action has queues of its own, which its table names in turn, or else all
//!    queues of the NIC. Level, key, types and hash function are its own, or else the port's at the
//!    time when the actions were written.

use super::{
    ETHER_BRIDGED, ETHER_IPV4, ETHER_IPV6, ETHER_TAGS, EXTENSIONS, EXTENSIONS_MAX, FRAGMENT,
    TAGS_MAX, TCP, UDP, Verdict, be16, read_ethernet, read_tunnel,
};
use crate::rss::{HashFunction, HashTypes, Rss, RssAction, RssLevel};

const SCTP: u8 = 132;

/// The state of a rule's action, with the port's values for what it leaves out.
pub(super) fn of_rule(action: &RssAction, port: &Rss, queues: u16) -> Rss {
    let mut rss = port.clone();
    let named = match action.queues.is_empty() {
        true => (0..queues).collect(),
        false => action.queues.clone(),
    };
    for (at, entry) in rss.indirection.iter_mut().enumerate() {
        *entry = named[at % named.len()];
    }
    if let Some(key) = &action.key {
        rss.key.clone_from(key);
    }
    rss.level = action.level.unwrap_or(rss.level);
    rss.types = action.types.unwrap_or(rss.types);
    rss.function = action.function.unwrap_or(rss.function);
    rss
}

/// The queue and the hash of a frame under a state of RSS.
pub(super) fn verdict(rss: &Rss, frame: &[u8]) -> Verdict {
    let outermost = packet(frame);
    let hashed = match rss.level {
        RssLevel::Inner if outermost.as_ref().is_none_or(|packet| !packet.is_fragment) => {
            carried(frame).or(outermost)
        }
        RssLevel::Inner | RssLevel::Outermost => outermost,
    };
    let input = hashed.map_or_else(Vec::new, |packet| packet.input(rss));
    let hash = toeplitz(&rss.key, &input);
    Verdict::Rss { hash, queue: rss.indirection[hash as usize % rss.indirection.len()] }
}

fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bits = |bytes: &[u8]| -> Vec<bool> {
        bytes.iter().flat_map(|byte| (0..8).map(move |at| byte << at & 0x80 != 0)).collect()
    };
    let key = bits(key);
    let leftmost = |at: usize| key[at..at + 32].iter().fold(0, |sum, bit| sum << 1 | *bit as u32);
    let set = bits(input).into_iter().enumerate().filter(|(_, bit)| *bit);
    set.fold(0, |hash, (at, _)| hash ^ leftmost(at))
}

/// An IP packet, as far as RSS is concerned.
struct Packet {
    version: u8,
    protocol: u8,
    is_fragment: bool,
    src: Vec<u8>,
    dst: Vec<u8>,
    src_port: Vec<u8>,
    dst_port: Vec<u8>,
}

impl Packet {
    fn new(version: u8, addresses: &[u8], protocol: u8, is_fragment: bool, rest: &[u8]) -> Packet {
        let (src, dst) = addresses.split_at(addresses.len() / 2);
        let ports = if rest.len() < 4 { &[0; 4] } else { &rest[..4] };
        let [src, dst, src_port, dst_port] =
            [src, dst, &ports[..2], &ports[2..]].map(|field| field.to_vec());
        Packet { version, protocol, is_fragment, src, dst, src_port, dst_port }
    }

    /// The types that name it, and the one of these with ports.
    fn types(&self) -> ([HashTypes; 2], Option<HashTypes>) {
        let of_version = |ipv4, ipv6| if self.version == 4 { ipv4 } else { ipv6 };
        let any = of_version(HashTypes::IPV4, HashTypes::IPV6);
        let own = match self.protocol {
            _ if self.is_fragment => of_version(HashTypes::IPV4_FRAG, HashTypes::IPV6_FRAG),
            TCP => of_version(HashTypes::IPV4_TCP, HashTypes::IPV6_TCP),
            UDP => of_version(HashTypes::IPV4_UDP, HashTypes::IPV6_UDP),
            SCTP => of_version(HashTypes::IPV4_SCTP, HashTypes::IPV6_SCTP),
            _ => of_version(HashTypes::IPV4_OTHER, HashTypes::IPV6_OTHER),
        };
        let has_ports = !self.is_fragment && [TCP, UDP, SCTP].contains(&self.protocol);
        ([any, own], has_ports.then_some(own))
    }

    /// The hash input.
    fn input(&self, rss: &Rss) -> Vec<u8> {
        let has = |types: &HashTypes| rss.types.contains(*types);
        let (named_by, with_ports) = self.types();
        if !named_by.iter().any(has) {
            return Vec::new();
        }
        let only = [HashTypes::L3_SRC_ONLY, HashTypes::L3_DST_ONLY].map(|only| has(&only));
        let mut input = pair(rss.function, &self.src, &self.dst, only);
        if with_ports.as_ref().is_some_and(has) {
            let only = [HashTypes::L4_SRC_ONLY, HashTypes::L4_DST_ONLY].map(|only| has(&only));
            input.extend(pair(rss.function, &self.src_port, &self.dst_port, only));
        }
        input
    }
}

/// Source and destination as they are hashed; `only` says which of them is the only one to hash.
fn pair(function: HashFunction, src: &[u8], dst: &[u8], only: [bool; 2]) -> Vec<u8> {
    let zeros = vec![0; src.len()];
    let (src, dst) = match only {
        [true, false] => (src, &zeros[..]),
        [false, true] => (&zeros[..], dst),
        [true, true] | [false, false] => (src, dst),
    };
    match function {
        HashFunction::Toeplitz => [src, dst].concat(),
        HashFunction::SymmetricToeplitz => {
            let both: Vec<u8> = src.iter().zip(dst).map(|(src, dst)| src ^ dst).collect();
            [&both[..], &both].concat()
        }
    }
}

/// The IP packet that the tunnel of a frame carries.
fn carried(frame: &[u8]) -> Option<Packet> {
    let mut headers = Vec::new();
    let rest = read_ethernet(frame, &mut headers);
    match read_tunnel(rest, &mut headers)? {
        (ETHER_BRIDGED, frame) => packet(frame),
        (ETHER_IPV4, packet) => ipv4(packet),
        (_, packet) => ipv6(packet),
    }
}

/// The outermost IP packet of a frame.
fn packet(frame: &[u8]) -> Option<Packet> {
    let mut type_at = 12;
    if frame.len() < type_at + 2 {
        return None;
    }
    for _ in 0..TAGS_MAX {
        if ETHER_TAGS.contains(&be16(frame, type_at)) && frame.len() >= type_at + 6 {
            type_at += 4;
        }
    }
    let packet = &frame[type_at + 2..];
    match be16(frame, type_at) {
        ETHER_IPV4 => ipv4(packet),
        ETHER_IPV6 => ipv6(packet),
        _ => None,
    }
}

fn ipv4(packet: &[u8]) -> Option<Packet> {
    if packet.len() < 20 || packet[0] >> 4 != 4 || packet[0] & 0xf < 5 {
        return None;
    }
    let header_len = usize::from(packet[0] & 0xf) * 4;
    // More fragments, or an offset.
    let is_fragment = be16(packet, 6) & 0x3fff != 0;
    let rest = if packet.len() < header_len { &[] } else { &packet[header_len..] };
    Some(Packet::new(4, &packet[12..20], packet[9], is_fragment, rest))
}

fn ipv6(packet: &[u8]) -> Option<Packet> {
    if packet.len() < 40 || packet[0] >> 4 != 6 {
        return None;
    }
    let (mut number, mut rest, mut is_fragment) = (packet[6], &packet[40..], false);
    for _ in 0..EXTENSIONS_MAX {
        if !EXTENSIONS.contains(&number) {
            break;
        }
        if rest.len() < 8 {
            rest = &[];
            break;
        }
        let offset = if number == FRAGMENT { be16(rest, 2) >> 3 } else { 0 };
        is_fragment |= number == FRAGMENT && be16(rest, 2) & 0xfff9 != 0;
        let len = if number == FRAGMENT { 8 } else { 8 + 8 * usize::from(rest[1]) };
        if offset > 0 {
            number = rest[0];
            break;
        }
        if rest.len() < len {
            rest = &[];
            break;
        }
        (number, rest) = (rest[0], &rest[len..]);
    }
    Some(Packet::new(6, &packet[8..40], number, is_fragment, rest))
}
