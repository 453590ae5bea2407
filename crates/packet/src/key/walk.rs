//! A frame header by header, however it is made up.
//!
//! All of it is inlined where it is used: who does not read on does not pay for [`Walked`], which
//! cost 3 of 21 ns of a tagged packet in the pipeline.

use super::{Depth, KEY_WORDS, Key, KeyLine, field};

pub(super) const ETHER_IPV4: [u8; 2] = [0x08, 0x00];
pub(super) const ETHER_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHER_VLAN: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const SCTP: u8 = 132;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;
/// IPv6 extension headers that are walked over (RFC 8200 §4).
const MORE_HEADERS: [u8; 4] = [0, 43, 44, 60];
const FRAGMENT: u8 = 44;
/// Extension headers that are walked at most; a longer chain has no ports.
const EXTENSIONS_MAX: usize = 8;

/// Whether the transport protocol starts with two ports.
#[inline]
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, UDP | TCP | SCTP)
}

/// Where the last header that was read ends, for those who read on.
#[derive(Clone, Copy, Default)]
pub(super) struct Walked<'f> {
    /// From the IP header on, if there is one; empty else.
    pub(super) ip: &'f [u8],
    /// What is behind the last of Ethernet, tags, IP and its extensions that was read; `None` where
    /// no header follows: a later fragment, or a header that is cut off or of another version.
    pub(super) rest: Option<&'f [u8]>,
    /// The first fragment header of IPv6 that was read.
    pub(super) fragment_header: Option<&'f [u8; 8]>,
}

/// Any frame, header by header.
#[inline(never)]
pub(super) fn walk(frame: &[u8], key: &mut Key) {
    let mut line = [0; KEY_WORDS * 8];
    walk_ethernet(&mut line, frame);
    *key = Key::from_bytes(&line);
}

#[inline(always)]
pub(super) fn walk_ethernet<'f>(line: &mut KeyLine, frame: &'f [u8]) -> Walked<'f> {
    let Some((ethernet, mut rest)) = frame.split_first_chunk::<14>() else {
        return Walked::default();
    };
    line[field::ETH_DST].copy_from_slice(&ethernet[0..6]);
    line[field::ETH_SRC].copy_from_slice(&ethernet[6..12]);
    let mut ether_type = [ethernet[12], ethernet[13]];
    line[field::DEPTH.start] |= Depth::Ethernet.bit();
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
    walk_packet(line, ether_type, rest)
}

/// What an Ethernet header or a tunnel carries, by its type.
#[inline(always)]
pub(super) fn walk_packet<'f>(
    line: &mut KeyLine,
    ether_type: [u8; 2],
    packet: &'f [u8],
) -> Walked<'f> {
    line[field::ETHER_TYPE].copy_from_slice(&ether_type);
    match ether_type {
        ETHER_IPV4 => walk_ipv4(line, packet),
        ETHER_IPV6 => walk_ipv6(line, packet),
        _ => Walked { rest: Some(packet), ..Walked::default() },
    }
}

#[inline(always)]
fn walk_ipv4<'f>(line: &mut KeyLine, packet: &'f [u8]) -> Walked<'f> {
    let Some(head) = packet.first_chunk::<20>() else {
        return Walked::default();
    };
    let head_len = usize::from(head[0] & 0xf) * 4;
    if head[0] >> 4 != 4 || head_len < 20 {
        return Walked::default();
    }
    line[field::DEPTH.start] |= Depth::Ip.bit();
    line[field::TOS.start] = head[1];
    line[field::TTL.start] = head[8];
    line[field::PROTOCOL.start] = head[9];
    line[field::SRC_HEAD].copy_from_slice(&head[12..16]);
    line[field::DST_HEAD].copy_from_slice(&head[16..20]);
    let fragment_offset = u16::from_be_bytes([head[6] & 0x1f, head[7]]);
    let more_fragments = head[6] & 0x20 != 0;
    line[field::FRAGMENT.start] = u8::from(fragment_offset != 0 || more_fragments);
    let segment = packet.get(head_len..).filter(|_| fragment_offset == 0);
    if let Some(segment) = segment {
        walk_transport(line, head[9], ICMP, segment);
    }
    Walked { ip: packet, rest: segment, fragment_header: None }
}

#[inline(always)]
fn walk_ipv6<'f>(line: &mut KeyLine, packet: &'f [u8]) -> Walked<'f> {
    let Some((head, mut rest)) = packet.split_first_chunk::<40>() else {
        return Walked::default();
    };
    if head[0] >> 4 != 6 {
        return Walked::default();
    }
    let mut walked = Walked { ip: packet, ..Walked::default() };
    line[field::DEPTH.start] |= Depth::Ip.bit();
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
            return walked;
        };
        walked.fragment_header =
            walked.fragment_header.or(Some(extension).filter(|_| next == FRAGMENT));
        let later_fragment = next == FRAGMENT && (extension[2] != 0 || extension[3] & 0xf8 != 0);
        // Offset 0 and no more to come is a whole packet (RFC 6946).
        let more_fragments = next == FRAGMENT && extension[3] & 1 != 0;
        line[field::FRAGMENT.start] |= u8::from(later_fragment || more_fragments);
        let len = if next == FRAGMENT { 8 } else { usize::from(extension[1]) * 8 + 8 };
        next = extension[0];
        if later_fragment {
            line[field::PROTOCOL.start] = next;
            return walked;
        }
        let Some(behind) = rest.get(len..) else {
            return walked;
        };
        rest = behind;
    }
    line[field::PROTOCOL.start] = next;
    walk_transport(line, next, ICMPV6, rest);
    Walked { rest: Some(rest), ..walked }
}

/// `icmp` is the protocol number of ICMP in this version of IP.
#[inline(always)]
fn walk_transport(line: &mut KeyLine, protocol: u8, icmp: u8, segment: &[u8]) {
    let Some(first) = segment.first_chunk::<4>() else {
        return;
    };
    if !has_ports(protocol) {
        if protocol == icmp {
            line[field::DEPTH.start] |= Depth::Transport.bit();
        }
        return;
    }
    line[field::DEPTH.start] |= Depth::Transport.bit();
    line[field::SPORT].copy_from_slice(&first[0..2]);
    line[field::DPORT].copy_from_slice(&first[2..4]);
    if let (TCP, Some(flags)) = (protocol, segment.get(13)) {
        line[field::DEPTH.start] |= Depth::TcpFlags.bit();
        line[field::TCP_FLAGS.start] = *flags;
    }
}
