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

mod deep;
mod ends;
mod walk;

use std::ops::Range;

use walk::{ETHER_IPV4, TCP, has_ports};

pub use deep::{extra, read_deep};
pub use ends::{End, Ends};

/// Words of a key.
pub const KEY_WORDS: usize = 8;

/// A frame's outer headers, or a mask over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct Key(pub [u64; KEY_WORDS]);

/// How far a frame could be read: a bit for each header that is there, the lowest for Ethernet. So
/// one bit of a mask asks for a header. (What is inside a tunnel may lack the lowest.)
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

/// The line as bytes, while it is filled.
type KeyLine = [u8; KEY_WORDS * 8];

impl Key {
    /// The bytes of the line, in the order of the table above.
    #[inline]
    pub fn to_bytes(&self) -> KeyLine {
        let mut line = [0; KEY_WORDS * 8];
        for (bytes, word) in line.chunks_exact_mut(8).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        line
    }

    /// A key from the bytes of a line.
    #[inline]
    pub fn from_bytes(line: &KeyLine) -> Key {
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
        // The highest bit: what is inside a tunnel may begin with IP, and has no Ethernet then.
        match self.to_bytes()[field::DEPTH.start] {
            0b0000 => Depth::Nothing,
            0b0001 => Depth::Ethernet,
            0b0010..=0b0011 => Depth::Ip,
            0b0100..=0b0111 => Depth::Transport,
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
                    return walk::walk(frame, self);
                }
                self.0 = plain(head);
                if let (TCP, Some(flags)) = (head[23], frame.get(47)) {
                    self.0[3] |= u64::from(Depth::TcpFlags.bit()) << 40;
                    self.0[7] |= u64::from(*flags) << 16;
                }
            }
            _ => walk::walk(frame, self),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::walk::UDP;
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
            let kind = ipv6_ext::ExtensionKind::Destination;
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
