//! The match key of a frame: its outer headers in one cache line, at fixed places.
//!
//! [`Key::parse`] is what a NIC does with every frame, so it is written for the common case and
//! reads each header once. It never panics: of a truncated frame, what is there is filled in and
//! the rest is zero; [`Key::depth`] says how far it came.
//!
//! | word | bytes 0..8 |
//! |---|---|
//! | 0 | destination MAC (6), outer VLAN TCI (2) |
//! | 1 | source MAC (6), inner VLAN TCI (2) |
//! | 2 | source address, first 4 bytes (4); destination address, first 4 bytes (4) |
//! | 3 | source port (2), destination port (2), protocol (1), depth (1), ether type (2) |
//! | 4 | source address, bytes 4..12 (IPv6) |
//! | 5 | source address, bytes 12..16 (4); destination address, bytes 4..8 (4) |
//! | 6 | destination address, bytes 8..16 |
//! | 7 | DSCP and ECN (1), TTL or hop limit (1), TCP flags (1), VLAN tags (1), fragment (1) |
//!
//! An IPv4 5-tuple stands in two words, an IPv6 5-tuple in five.

use std::ops::Range;

/// Words of a key.
pub const KEY_WORDS: usize = 8;

/// A frame's outer headers, or a mask over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct Key(pub [u64; KEY_WORDS]);

/// How far a frame could be read: a bit for each header that is there, the lowest for Ethernet. So
/// one bit of a mask asks for a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Depth {
    /// Shorter than an Ethernet header.
    Nothing = 0b0000,
    /// Ethernet and VLAN tags; no IP header, or one that is cut off or of another version than the
    /// type says.
    Ethernet = 0b0001,
    /// An IP header; no transport header, a later fragment, or one that is cut off.
    Ip = 0b0011,
    /// A transport header: its first four bytes, the ports or ICMP's type, code and checksum.
    Transport = 0b0111,
    /// A TCP header up to its flags.
    TcpFlags = 0b1111,
}

impl Depth {
    /// The bit of the header that makes it this deep.
    pub const fn bit(self) -> u8 {
        self as u8 & !(self as u8 >> 1)
    }
}

/// Where a field stands in a key: bytes of the whole line.
pub mod field {
    use super::Range;

    /// Destination MAC address.
    pub const ETH_DST: Range<usize> = 0..6;
    /// Outer VLAN tag control information.
    pub const VLAN_OUTER: Range<usize> = 6..8;
    /// Source MAC address.
    pub const ETH_SRC: Range<usize> = 8..14;
    /// Inner VLAN tag control information.
    pub const VLAN_INNER: Range<usize> = 14..16;
    /// IPv4 source address; first part of an IPv6 one.
    pub const SRC_HEAD: Range<usize> = 16..20;
    /// IPv4 destination address; first part of an IPv6 one.
    pub const DST_HEAD: Range<usize> = 20..24;
    /// Source port.
    pub const SPORT: Range<usize> = 24..26;
    /// Destination port.
    pub const DPORT: Range<usize> = 26..28;
    /// IP protocol, behind IPv6 extension headers.
    pub const PROTOCOL: Range<usize> = 28..29;
    /// [`super::Depth`].
    pub const DEPTH: Range<usize> = 29..30;
    /// Ether type behind the VLAN tags.
    pub const ETHER_TYPE: Range<usize> = 30..32;
    /// Rest of an IPv6 source address.
    pub const SRC_TAIL: Range<usize> = 32..44;
    /// Rest of an IPv6 destination address.
    pub const DST_TAIL: Range<usize> = 44..56;
    /// DSCP and ECN.
    pub const TOS: Range<usize> = 56..57;
    /// TTL or hop limit.
    pub const TTL: Range<usize> = 57..58;
    /// TCP flags.
    pub const TCP_FLAGS: Range<usize> = 58..59;
    /// VLAN tags, a bit each from the lowest: 0, 1 or 3. So one bit of a mask asks for a tag.
    pub const VLANS: Range<usize> = 59..60;
    /// 1 for a fragment of a larger packet, the first of them included.
    pub const FRAGMENT: Range<usize> = 60..61;
}

const ETHER_IPV4: [u8; 2] = [0x08, 0x00];
const ETHER_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHER_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// IPv6 extension headers that are walked over (RFC 8200 §4).
const MORE_HEADERS: [u8; 4] = [0, 43, 44, 60];
const FRAGMENT: u8 = 44;
/// Extension headers that are walked at most; a longer chain has no ports.
const EXTENSIONS_MAX: usize = 8;

/// The line as bytes, while it is filled.
type Line = [u8; KEY_WORDS * 8];

impl Key {
    /// The bytes of the line, in the order of the table above.
    #[inline]
    pub fn to_bytes(&self) -> Line {
        let mut line = [0; KEY_WORDS * 8];
        for (bytes, word) in line.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        line
    }

    /// A key from the bytes of a line.
    #[inline]
    pub fn from_bytes(line: &Line) -> Key {
        let mut words = [0; KEY_WORDS];
        for (word, bytes) in words.iter_mut().zip(line.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            *word = u64::from_le_bytes(eight);
        }
        Key(words)
    }

    /// How far the frame could be read.
    pub fn depth(&self) -> Depth {
        match self.to_bytes()[field::DEPTH.start] {
            0b0000 => Depth::Nothing,
            0b0001 => Depth::Ethernet,
            0b0011 => Depth::Ip,
            0b0111 => Depth::Transport,
            _ => Depth::TcpFlags,
        }
    }

    /// Whether the frame carries IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        self.depth() >= Depth::Ip
    }

    /// Reads the outer headers of a frame (no FCS).
    #[inline]
    pub fn parse(frame: &[u8]) -> Key {
        let mut key = Key::default();
        key.read(frame);
        key
    }

    /// [`Key::parse`] in place. A key that is built elsewhere and copied is read back before its
    /// words have reached the cache, and the processor waits: 6 of 15 ns a packet in the pipeline.
    #[inline]
    pub fn read(&mut self, frame: &[u8]) {
        // IPv4 without tags, options or fragments: one test per property, no walk.
        match frame.first_chunk::<38>() {
            Some(head) if head[12..14] == ETHER_IPV4 && head[14] == 0x45 => {
                let whole = head[20] & 0x3f == 0 && head[21] == 0;
                if !whole || !has_ports(head[23]) {
                    return walk(frame, self);
                }
                self.0 = plain(head);
                if let (TCP, Some(flags)) = (head[23], frame.get(47)) {
                    self.0[3] |= u64::from(Depth::TcpFlags.bit()) << 40;
                    self.0[7] |= u64::from(*flags) << 16;
                }
            }
            _ => walk(frame, self),
        }
    }
}

/// Whether the transport protocol starts with two ports.
#[inline]
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, UDP | TCP | SCTP)
}

/// The words of the first 38 bytes of an untagged IPv4 frame without options.
#[inline]
fn plain(head: &[u8; 38]) -> [u64; KEY_WORDS] {
    let two = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    let four = |at: usize| {
        u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
    };
    let [tos, ttl, protocol] = [head[15], head[22], head[23]].map(u64::from);
    let ports = four(34) | protocol << 32 | (Depth::Transport as u64) << 40;
    let addresses = four(26) | four(30) << 32;
    let [dst, src] = [four(0) | two(4) << 32, four(6) | two(10) << 32];
    [dst, src, addresses, ports | two(12) << 48, 0, 0, 0, tos | ttl << 8]
}

/// Any frame, header by header.
#[inline(never)]
fn walk(frame: &[u8], key: &mut Key) {
    let mut line = [0; KEY_WORDS * 8];
    walk_ethernet(&mut line, frame);
    *key = Key::from_bytes(&line);
}

fn walk_ethernet(line: &mut Line, frame: &[u8]) {
    let Some((ethernet, mut rest)) = frame.split_first_chunk::<14>() else {
        return;
    };
    line[field::ETH_DST].copy_from_slice(&ethernet[0..6]);
    line[field::ETH_SRC].copy_from_slice(&ethernet[6..12]);
    let mut ether_type = [ethernet[12], ethernet[13]];
    line[field::DEPTH.start] = Depth::Ethernet as u8;
    for place in [field::VLAN_OUTER, field::VLAN_INNER] {
        if !ETHER_VLAN.contains(&ether_type) {
            break;
        }
        let Some((tag, behind)) = rest.split_first_chunk::<4>() else {
            break;
        };
        line[place].copy_from_slice(&tag[0..2]);
        line[field::VLANS.start] = line[field::VLANS.start] << 1 | 1;
        ether_type = [tag[2], tag[3]];
        rest = behind;
    }
    line[field::ETHER_TYPE].copy_from_slice(&ether_type);
    match ether_type {
        ETHER_IPV4 => walk_ipv4(line, rest),
        ETHER_IPV6 => walk_ipv6(line, rest),
        _ => {}
    }
}

fn walk_ipv4(line: &mut Line, packet: &[u8]) {
    let Some(head) = packet.first_chunk::<20>() else {
        return;
    };
    let head_len = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || head_len < 20 {
        return;
    }
    line[field::DEPTH.start] = Depth::Ip as u8;
    line[field::TOS.start] = head[1];
    line[field::TTL.start] = head[8];
    line[field::PROTOCOL.start] = head[9];
    line[field::SRC_HEAD].copy_from_slice(&head[12..16]);
    line[field::DST_HEAD].copy_from_slice(&head[16..20]);
    let fragment_offset = u16::from_be_bytes([head[6] & 0x1f, head[7]]);
    let more_fragments = head[6] & 0x20 != 0;
    line[field::FRAGMENT.start] = u8::from(fragment_offset != 0 || more_fragments);
    if fragment_offset == 0 {
        let segment = packet.get(head_len..).unwrap_or_default();
        walk_transport(line, head[9], ICMP, segment);
    }
}

fn walk_ipv6(line: &mut Line, packet: &[u8]) {
    let Some((head, mut rest)) = packet.split_first_chunk::<40>() else {
        return;
    };
    if head[0] >> 4 != 6 {
        return;
    }
    line[field::DEPTH.start] = Depth::Ip as u8;
    line[field::TOS.start] = head[0] << 4 | head[1] >> 4;
    line[field::TTL.start] = head[7];
    line[field::SRC_HEAD].copy_from_slice(&head[8..12]);
    line[field::SRC_TAIL].copy_from_slice(&head[12..24]);
    line[field::DST_HEAD].copy_from_slice(&head[24..28]);
    line[field::DST_TAIL].copy_from_slice(&head[28..40]);
    let mut next = head[6];
    for _ in 0..EXTENSIONS_MAX {
        line[field::PROTOCOL.start] = next;
        if !MORE_HEADERS.contains(&next) {
            break;
        }
        let Some(extension) = rest.first_chunk::<8>() else {
            return;
        };
        let later_fragment = next == FRAGMENT && (extension[2] != 0 || extension[3] & 0xf8 != 0);
        // Offset 0 and no more to come is a whole packet (RFC 6946).
        let more_fragments = next == FRAGMENT && extension[3] & 1 != 0;
        line[field::FRAGMENT.start] |= u8::from(later_fragment || more_fragments);
        let len = if next == FRAGMENT { 8 } else { usize::from(extension[1]) * 8 + 8 };
        next = extension[0];
        if later_fragment {
            line[field::PROTOCOL.start] = next;
            return;
        }
        let Some(behind) = rest.get(len..) else {
            return;
        };
        rest = behind;
    }
    line[field::PROTOCOL.start] = next;
    walk_transport(line, next, ICMPV6, rest);
}

/// `icmp` is the protocol number of ICMP in this version of IP.
fn walk_transport(line: &mut Line, protocol: u8, icmp: u8, segment: &[u8]) {
    let Some(first) = segment.first_chunk::<4>() else {
        return;
    };
    if !has_ports(protocol) {
        if protocol == icmp {
            line[field::DEPTH.start] = Depth::Transport as u8;
        }
        return;
    }
    line[field::DEPTH.start] = Depth::Transport as u8;
    line[field::SPORT].copy_from_slice(&first[0..2]);
    line[field::DPORT].copy_from_slice(&first[2..4]);
    if let (TCP, Some(flags)) = (protocol, segment.get(13)) {
        line[field::DEPTH.start] = Depth::TcpFlags as u8;
        line[field::TCP_FLAGS.start] = *flags;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{Layer, build};
    use crate::wire::{ethernet, icmp, icmpv6, ipv4, ipv6, ipv6_ext, tcp, udp, vlan};

    fn eth() -> Layer {
        ethernet::Repr::default().into()
    }

    fn ip4() -> Layer {
        ipv4::Repr::default().into()
    }

    fn ip6() -> Layer {
        ipv6::Repr::default().into()
    }

    /// Each number is the length from which on the frame is one header deeper.
    #[test]
    fn a_frame_is_as_deep_as_its_headers_are_whole() {
        let [segment, tag] = [tcp::Repr::default().into(), vlan::Repr::default().into()];
        let [datagram, ping] = [udp::Repr::default().into(), icmp::Repr::default().into()];
        let table: [(&[Layer], &[usize]); 5] = [
            (&[eth(), ip4(), segment], &[14, 34, 38, 48]),
            (&[eth(), ip4(), datagram], &[14, 34, 38]),
            (&[eth(), ip4(), ping], &[14, 34, 38]),
            (&[eth(), tag, ip6(), icmpv6::Repr::default().into()], &[14, 58, 62]),
            (&[eth(), ip6(), tcp::Repr::default().into()], &[14, 54, 58, 68]),
        ];
        let depths =
            [Depth::Nothing, Depth::Ethernet, Depth::Ip, Depth::Transport, Depth::TcpFlags];
        for (layers, lengths) in table {
            let frame = build(layers).unwrap();
            for len in 0..=frame.len() {
                let depth = depths[lengths.iter().filter(|from| len >= **from).count()];
                assert_eq!(Key::parse(&frame[..len]).depth(), depth, "{layers:?}, {len} bytes");
            }
        }
    }

    #[test]
    fn an_ip_header_of_another_version_or_too_short_is_none() {
        for (ip, first) in [(ip4(), 0x65), (ip4(), 0x44), (ip6(), 0x45)] {
            let mut frame = build(&[eth(), ip]).unwrap();
            assert_eq!(Key::parse(&frame).depth(), Depth::Ip);
            frame[14] = first;
            assert_eq!(Key::parse(&frame).depth(), Depth::Ethernet, "{first:#x}");
        }
    }

    #[test]
    fn eight_extension_headers_are_walked() {
        let options = || {
            let kind = ipv6_ext::Kind::Destination;
            Layer::from(ipv6_ext::Repr { kind, ..ipv6_ext::Repr::hop_by_hop() })
        };
        for (count, depth, protocol) in [(8, Depth::Transport, UDP), (9, Depth::Ip, 60)] {
            let mut layers = vec![eth(), ip6()];
            layers.extend((0..count).map(|_| options()));
            layers.push(udp::Repr::default().into());
            let key = Key::parse(&build(&layers).unwrap());
            assert_eq!(key.depth(), depth, "{count} extension headers");
            assert_eq!(key.to_bytes()[field::PROTOCOL], [protocol]);
        }
    }
}
