//! Bits that a pattern implies: VXLAN follows UDP to its port, and a later fragment has no
//! transport header.
//!
//! The classifier does not need these bits, because each packet with the requested bits has them
//! too. A comparison of two patterns needs them.

use std::ops::Range;

use niclab_packet::key::{Depth, KEY_WORDS, extra, field as place};

use super::Bits;
use crate::rule::{EXTRA, INNER, OUTER, Pattern};

const UDP: u8 = 17;
const GRE: u8 = 47;
const ETHER_BRIDGED: u16 = 0x6558;
/// The bits that 0x8847 and 0x8848 share.
const ETHER_MPLS: (u16, u16) = (0x8840, 0xfff0);
/// A key, no route, and version 0.
const GRE_WITH_KEY: (u16, u16) = (0x2000, 0x6007);
/// Destination ports of the tunnels in UDP.
const PORTS: [(u8, u16); 4] = [
    (extra::VXLAN, 4_789),
    (extra::VXLAN_GPE, 4_790),
    (extra::GENEVE, 6_081),
    (extra::MPLS_LABEL, 6_635),
];
/// Destination ports of GTP.
const GTP_PORTS: [(u8, u16); 2] = [(extra::IS_GTPU, 2_152), (extra::IS_GTPC, 2_123)];
const ALL_DEPTHS: u8 = Depth::TcpFlags as u8;
const ALL_TUNNELS: u8 = u8::MAX;

/// Values of a packet's header keys, and which bits of them count.
pub(super) struct Asked {
    pub(super) value: Bits,
    pub(super) mask: Bits,
}

impl Asked {
    /// The bits that all packets of a pattern have, as far as single bits express it.
    pub(super) fn of(pattern: &Pattern) -> Asked {
        let mut asked = Asked { value: Bits::default(), mask: Bits::default() };
        let keys = [(pattern.value(), pattern.mask())].into_iter();
        let keys = keys.chain(pattern.deep_keys().iter().map(|key| (&key.value, &key.mask)));
        let words = asked.value.chunks_mut(KEY_WORDS).zip(asked.mask.chunks_mut(KEY_WORDS));
        for ((value, mask), key) in words.zip(keys) {
            value.copy_from_slice(&key.0.0);
            mask.copy_from_slice(&key.1.0);
        }
        asked.headers(OUTER);
        if !pattern.deep_keys().is_empty() {
            asked.headers(INNER);
            asked.fragment();
            asked.tunnel();
        }
        asked
    }

    /// The headers before those that are requested.
    fn headers(&mut self, key: usize) {
        let depth = place::DEPTH.start;
        for (header, before) in [
            (Depth::TcpFlags, Depth::Transport),
            (Depth::Transport, Depth::Ip),
            (Depth::Ip, Depth::Ethernet),
        ] {
            // A tunnel may carry IP without Ethernet.
            let is_behind = key == OUTER || before != Depth::Ethernet;
            if is_behind && self.has(key, depth, header.bit()) {
                self.byte(key, depth, before.bit(), before.bit());
            }
        }
        if self.has(key, place::VLANS.start, 2) {
            self.byte(key, place::VLANS.start, 1, 1);
        }
        if self.has(key, place::VLANS.start, 1) {
            self.byte(key, depth, Depth::Ethernet.bit(), Depth::Ethernet.bit());
        }
    }

    /// A later fragment has no header after its IP header.
    fn fragment(&mut self) {
        let is_later = |asked: &Asked, level: usize| {
            let at = level + extra::PACKET_ID + 2;
            asked.number(EXTRA, at..at + 2) & 0x1fff != 0
        };
        let behind_ip = Depth::Transport.bit() | Depth::TcpFlags.bit();
        if is_later(self, extra::OUTER) {
            self.byte(OUTER, place::DEPTH.start, 0, behind_ip);
            self.byte(EXTRA, extra::TUNNELS.start, 0, ALL_TUNNELS);
            self.byte(INNER, place::DEPTH.start, 0, ALL_DEPTHS);
        }
        if is_later(self, extra::INNER) {
            self.byte(INNER, place::DEPTH.start, 0, behind_ip);
        }
    }

    /// The fields that announce a tunnel, and its content.
    fn tunnel(&mut self) {
        let has = |asked: &Asked, bit: u8| asked.has(EXTRA, extra::TUNNELS.start, bit);
        let protocol = self.number(OUTER, place::PROTOCOL) as u8;
        for (bit, port) in PORTS {
            if protocol == UDP && has(self, bit) {
                self.two(OUTER, place::DPORT, (port, u16::MAX));
            }
        }
        for (bit, port) in GTP_PORTS {
            if self.has(EXTRA, extra::OUTER + extra::KNOWN, bit) {
                self.two(OUTER, place::DPORT, (port, u16::MAX));
            }
        }
        let has_labels = has(self, extra::MPLS_LABEL);
        if has_labels && protocol == GRE {
            self.two(EXTRA, extra::TUNNEL_TYPE, ETHER_MPLS);
        } else if has_labels && protocol != UDP {
            self.two(OUTER, place::ETHER_TYPE, ETHER_MPLS);
        }
        if has(self, extra::GRE_KEY) {
            self.two(EXTRA, extra::GRE_FLAGS, GRE_WITH_KEY);
        }
        let carries =
            |asked: &Asked, depth: Depth| asked.has(INNER, place::DEPTH.start, depth.bit());
        if has_labels || !has(self, extra::GRE) && !has(self, extra::GENEVE) {
            return;
        }
        if carries(self, Depth::Ethernet) {
            self.two(EXTRA, extra::TUNNEL_TYPE, (ETHER_BRIDGED, u16::MAX));
        } else if carries(self, Depth::Ip) {
            // With or without Ethernet between.
            let ip = self.number(INNER, place::ETHER_TYPE);
            let common = !(ip ^ ETHER_BRIDGED);
            self.two(EXTRA, extra::TUNNEL_TYPE, (ip & common, common));
        }
    }

    /// Whether these bits of a byte are required to be ones.
    fn has(&self, key: usize, at: usize, bits: u8) -> bool {
        let (word, shift) = word_of(key, at);
        (self.value[word] & self.mask[word]) >> shift & u64::from(bits) == u64::from(bits)
    }

    /// A number of one or two bytes, with zeros for bits that are not required.
    fn number(&self, key: usize, bytes: Range<usize>) -> u16 {
        bytes.fold(0, |number, at| {
            let (word, shift) = word_of(key, at);
            number << 8 | ((self.value[word] & self.mask[word]) >> shift & 0xff) as u16
        })
    }

    fn two(&mut self, key: usize, bytes: Range<usize>, (value, mask): (u16, u16)) {
        for (at, (value, mask)) in
            bytes.zip(value.to_be_bytes().into_iter().zip(mask.to_be_bytes()))
        {
            self.byte(key, at, value, mask);
        }
    }

    /// Requires bits of a byte. Nothing contradicts them, or no packet would match.
    fn byte(&mut self, key: usize, at: usize, value: u8, mask: u8) {
        let (word, shift) = word_of(key, at);
        self.value[word] |= u64::from(value) << shift;
        self.mask[word] |= u64::from(mask) << shift;
    }
}

/// The word of a key's byte, and how far up in it the byte is.
fn word_of(key: usize, at: usize) -> (usize, u32) {
    (key * KEY_WORDS + at / 8, 8 * (at % 8) as u32)
}
