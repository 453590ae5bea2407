//! What the key of the outer headers has no place for: the headers inside a tunnel, and fields that
//! few rules ask for.
//!
//! They are kept in two more lines of the size of a key, which are filled only when somebody asks
//! for them: the *inner* line is a [`Key`] of what is inside the tunnel, the *extra* line has the
//! places of [`extra`]. What a frame lacks is zero in both; bits say what is there.
//!
//! A tunnel is GRE (RFC 2784, 2890), VXLAN (RFC 7348) on UDP port 4789, VXLAN-GPE
//! (draft-ietf-nvo3-vxlan-gpe) on UDP port 4790, GENEVE (RFC 8926) on UDP port 6081, GTP-U (3GPP TS
//! 29.281) on UDP port 2152, a session of PPPoE (RFC 2516), a stack of MPLS labels (RFC 3032)
//! behind Ethernet, GRE or on UDP port 6635 (RFC 7510), and IP in IP (RFC 2003, 2473, 4213). A
//! tunnel inside a tunnel is not entered.
//!
//! ARP has no place of its own: no frame has both ARP and a tunnel, so its addresses are where the
//! inner line has those of Ethernet and IPv4.

use super::walk::{
    ETHER_IPV4, ETHER_IPV6, ICMP, ICMPV6, SCTP, UDP, Walked, walk_ethernet, walk_packet,
};
use super::{Depth, KEY_WORDS, Key, KeyLine, field};

/// Where a field stands in the extra line: bytes of the whole line.
pub mod extra {
    use std::ops::Range;

    /// Metadata of the packet, which no frame brings along; big-endian.
    pub const META: Range<usize> = 0..4;
    /// Tags of the packet, which no frame brings along; four of four bytes, big-endian.
    pub const TAGS: Range<usize> = 4..20;
    /// The first entry of the stack of MPLS labels.
    pub const MPLS: Range<usize> = 20..24;
    /// VNI and the byte behind it of VXLAN, VXLAN-GPE or GENEVE; the key of GRE; the TEID of GTP.
    pub const TUNNEL_ID: Range<usize> = 24..28;
    /// Which headers of a tunnel are there: a bit each, [`GRE`] and those behind it.
    pub const TUNNELS: Range<usize> = 28..29;
    /// The first byte of a GENEVE header: version and length of the options.
    pub const GENEVE_FIRST: Range<usize> = 29..30;
    /// The upper half of the identification in the outer fragment header of IPv6; [`FRAGMENT_END`]
    /// of the inner line has the rest of that header.
    pub const FRAGMENT_ID: Range<usize> = 30..32;
    /// Flags and version of GRE; flags (1) and message type (1) of GTP.
    pub const GRE_FLAGS: Range<usize> = 32..34;
    /// What GRE or GENEVE carries; the second and third byte of GTP's PDU session container.
    pub const TUNNEL_TYPE: Range<usize> = 34..36;
    /// The type in the Ethernet header itself.
    pub const ETH_TYPE: Range<usize> = 36..38;
    /// The type in the outer VLAN tag.
    pub const VLAN_TYPE: Range<usize> = 38..40;
    /// Where the level of the outer headers starts: [`VERSION_IHL`] to [`ICMP_TYPE`].
    pub const OUTER: usize = 40;
    /// Where that of those inside the tunnel starts.
    pub const INNER: usize = 48;
    /// Identifier and sequence number of ICMP, the tag of SCTP, or the SPI of ESP or AH; outer.
    pub const OUTER_ECHO: usize = 56;
    /// The same inside the tunnel.
    pub const INNER_ECHO: usize = 60;
    /// The lower half of the identification (2) and the next header (1) of the outer fragment
    /// header of IPv6. Bytes of the *inner* line, behind those of its own headers.
    pub const FRAGMENT_END: Range<usize> = 61..64;

    /// IPv4: version and header length; from the level's first byte.
    pub const VERSION_IHL: usize = 0;
    /// IPv4: identification (2), then flags and fragment offset (2).
    pub const PACKET_ID: usize = 1;
    /// IPv6: flow label, in the lower 20 bits of three bytes.
    pub const FLOW: usize = 0;
    /// IPv6, outer: offset and flags of the fragment header (2).
    pub const FRAGMENT_DATA: usize = 3;
    /// PPPoE, outer: code (1) and session (2).
    pub const PPPOE: usize = 0;
    /// Bits that say what is there: the constants below.
    pub const KNOWN: usize = 5;
    /// ICMP or ICMPv6: type (1) and code (1).
    pub const ICMP_TYPE: usize = 6;

    /// ICMP is there up to its identifier.
    pub const HAS_IDENT: u8 = 1;
    /// ICMP is there up to its sequence number, SCTP up to its tag, ESP or AH wholly.
    pub const HAS_SEQ: u8 = 2;
    /// There is a fragment header of IPv6.
    pub const HAS_FRAGMENT_HEADER: u8 = 4;
    /// There is ARP for Ethernet and IPv4; outer only.
    pub const HAS_ARP: u8 = 8;
    /// There is PPPoE; outer only.
    pub const HAS_PPPOE: u8 = 16;
    /// GTP is on the port of GTP-U; outer only.
    pub const IS_GTPU: u8 = 32;
    /// GTP is on the port of GTP-C; outer only.
    pub const IS_GTPC: u8 = 64;

    /// Bits of [`TUNNELS`].
    pub const GRE: u8 = 1;
    /// The key of GRE.
    pub const GRE_KEY: u8 = 2;
    /// VXLAN.
    pub const VXLAN: u8 = 4;
    /// GENEVE.
    pub const GENEVE: u8 = 8;
    /// One MPLS label or more.
    pub const MPLS_LABEL: u8 = 16;
    /// GTP, version 1.
    pub const GTP: u8 = 32;
    /// The PDU session container of GTP-U.
    pub const GTP_PSC: u8 = 64;
    /// VXLAN-GPE.
    pub const VXLAN_GPE: u8 = 128;
}

pub(super) const ETHER_BRIDGED: [u8; 2] = [0x65, 0x58];
const ETHER_MPLS: [[u8; 2]; 2] = [[0x88, 0x47], [0x88, 0x48]];
const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
pub(super) const GRE: u8 = 47;
pub(super) const ESP: u8 = 50;
pub(super) const AH: u8 = 51;
const ETHER_ARP: [u8; 2] = [0x08, 0x06];
const ETHER_PPPOE: [[u8; 2]; 2] = [[0x88, 0x63], [0x88, 0x64]];
/// What ARP begins with for Ethernet and IPv4 (RFC 826).
const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Version and type of PPPoE.
const PPPOE_VERSION: u8 = 0x11;
const PPP_IPV4: [u8; 2] = [0x00, 0x21];
const PPP_IPV6: [u8; 2] = [0x00, 0x57];
const PORT_GTPC: u16 = 2_123;
const PORT_GTPU: u16 = 2_152;
const PORT_GPE: u16 = 4_790;
/// A packet of a user, in GTP-U.
const GTP_PACKET: u8 = 255;
/// The PDU session container, among the extension headers of GTP-U.
const GTP_CONTAINER: u8 = 0x85;
/// Extension headers of GTP-U that are walked at most.
const GTP_EXTENSIONS_MAX: usize = 8;
const PORT_VXLAN: u16 = 4_789;
pub(super) const PORT_GENEVE: u16 = 6_081;
const PORT_MPLS: u16 = 6_635;
/// MPLS labels that are walked at most; of a longer stack it is not known what it carries.
const LABELS_MAX: usize = 8;

/// What a tunnel carries: its type, as Ethernet has it, and its bytes.
type InnerPacket<'f> = Option<([u8; 2], &'f [u8])>;

/// Reads the headers inside a tunnel and the places of [`extra`] of a frame (no FCS). Metadata and
/// tags in `beside` are left as they are.
pub fn read_deep(frame: &[u8], inner: &mut Key, beside: &mut Key) {
    let (mut outer, mut inside, mut line) = ([0; 64], [0; 64], [0; 64]);
    let walked = ethernet(&mut outer, frame);
    if outer[field::DEPTH.start] != 0 {
        line[extra::ETH_TYPE].copy_from_slice(&frame[12..14]);
    }
    if outer[field::VLANS.start] != 0 {
        line[extra::VLAN_TYPE].copy_from_slice(&frame[16..18]);
    }
    level(&outer, &walked, &mut line, extra::OUTER, extra::OUTER_ECHO);
    beside_ip(&outer, &walked, &mut line, &mut inside);
    if let Some((ether_type, bytes)) = tunnel(&outer, &walked, &mut line) {
        let walked = match ether_type {
            ETHER_BRIDGED => ethernet(&mut inside, bytes),
            _ => walk_packet(&mut inside, ether_type, bytes),
        };
        level(&inside, &walked, &mut line, extra::INNER, extra::INNER_ECHO);
    }
    if let Some(header) = walked.fragment_header {
        line[extra::OUTER + extra::FRAGMENT_DATA..][..2].copy_from_slice(&header[2..4]);
        line[extra::FRAGMENT_ID].copy_from_slice(&header[4..6]);
        inside[extra::FRAGMENT_END].copy_from_slice(&[header[6], header[7], header[0]]);
    }
    *inner = Key::from_bytes(&inside);
    let marks = extra::META.start..extra::TAGS.end;
    line[marks.clone()].copy_from_slice(&beside.to_bytes()[marks]);
    *beside = Key::from_bytes(&line);
}

/// [`walk_ethernet`], once for outside and inside.
#[inline(never)]
pub(super) fn ethernet<'f>(line: &mut KeyLine, frame: &'f [u8]) -> Walked<'f> {
    walk_ethernet(line, frame)
}

/// What a key has no place for, of the headers in `key`.
fn level(key: &KeyLine, walked: &Walked<'_>, line: &mut KeyLine, at: usize, echo: usize) {
    let has = |depth: Depth| key[field::DEPTH.start] & depth.bit() != 0;
    if !has(Depth::Ip) {
        return;
    }
    let (ip, place) = (walked.ip, &mut line[at..at + KEY_WORDS]);
    let icmp = if key[field::ETHER_TYPE] == ETHER_IPV4 {
        place[extra::VERSION_IHL] = ip[0];
        place[extra::PACKET_ID..][..4].copy_from_slice(&ip[4..8]);
        ICMP
    } else {
        place[extra::FLOW..][..3].copy_from_slice(&[ip[1] & 0xf, ip[2], ip[3]]);
        ICMPV6
    };
    if walked.fragment_header.is_some() {
        place[extra::KNOWN] |= extra::HAS_FRAGMENT_HEADER;
    }
    let Some(message) = walked.rest else { return };
    let protocol = key[field::PROTOCOL.start];
    if protocol != icmp || !has(Depth::Transport) {
        // The header is there if this many bytes are; its number is at this place.
        let number = match protocol {
            SCTP => message.get(4..8),
            ESP => message.get(..8).map(|header| &header[..4]),
            AH => message.get(..12).map(|header| &header[4..8]),
            _ => None,
        };
        if let Some(number) = number {
            place[extra::KNOWN] |= extra::HAS_SEQ;
            line[echo..][..4].copy_from_slice(number);
        }
        return;
    }
    place[extra::ICMP_TYPE..][..2].copy_from_slice(&message[..2]);
    for (end, bit) in [(6, extra::HAS_IDENT), (8, extra::HAS_SEQ)] {
        if message.len() >= end {
            place[extra::KNOWN] |= bit;
        }
    }
    let echoed = message.get(4..6).into_iter().chain(message.get(6..8)).flatten();
    line[echo..].iter_mut().zip(echoed).for_each(|(place, byte)| *place = *byte);
}

/// ARP and PPPoE, behind Ethernet and its tags.
fn beside_ip(outer: &KeyLine, walked: &Walked<'_>, line: &mut KeyLine, inside: &mut KeyLine) {
    let ether_type = [outer[field::ETHER_TYPE.start], outer[field::ETHER_TYPE.start + 1]];
    let place = &mut line[extra::OUTER..][..KEY_WORDS];
    let Some(packet) = walked.rest else { return };
    if let (ETHER_ARP, Some(arp)) = (ether_type, packet.first_chunk::<28>()) {
        if arp[..6] == ARP_OF_IPV4 {
            place[extra::KNOWN] |= extra::HAS_ARP;
            inside[field::SPORT].copy_from_slice(&arp[6..8]);
            inside[field::ETH_SRC].copy_from_slice(&arp[8..14]);
            inside[field::SRC_HEAD].copy_from_slice(&arp[14..18]);
            inside[field::ETH_DST].copy_from_slice(&arp[18..24]);
            inside[field::DST_HEAD].copy_from_slice(&arp[24..28]);
        }
    } else if let (true, Some(pppoe)) =
        (ETHER_PPPOE.contains(&ether_type), packet.first_chunk::<6>())
        && pppoe[0] == PPPOE_VERSION
    {
        place[extra::KNOWN] |= extra::HAS_PPPOE;
        place[extra::PPPOE..][..3].copy_from_slice(&pppoe[1..4]);
    }
}

/// What the tunnel behind the outer headers carries, if there is one.
pub(super) fn tunnel<'f>(
    outer: &KeyLine,
    walked: &Walked<'f>,
    line: &mut KeyLine,
) -> InnerPacket<'f> {
    let rest = walked.rest?;
    if outer[field::DEPTH.start] & Depth::Ip.bit() == 0 {
        let ether_type = [outer[field::ETHER_TYPE.start], outer[field::ETHER_TYPE.start + 1]];
        return match ether_type {
            ether_type if ETHER_MPLS.contains(&ether_type) => labels(rest, line),
            ether_type if ether_type == ETHER_PPPOE[1] => session(rest),
            _ => None,
        };
    }
    match outer[field::PROTOCOL.start] {
        IPV4_IN_IP => Some((ETHER_IPV4, rest)),
        IPV6_IN_IP => Some((ETHER_IPV6, rest)),
        GRE => gre(rest, line),
        UDP => {
            let (udp, payload) = rest.split_first_chunk::<8>()?;
            match u16::from_be_bytes([udp[2], udp[3]]) {
                PORT_VXLAN => vxlan(payload, line),
                PORT_GPE => vxlan_gpe(payload, line),
                PORT_GTPU => gtp(payload, line, extra::IS_GTPU),
                PORT_GTPC => gtp(payload, line, extra::IS_GTPC),
                PORT_GENEVE => geneve(payload, line),
                PORT_MPLS => labels(payload, line),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Behind GRE; of version 0 without routing (RFC 1701), for of others it is not known where.
fn gre<'f>(packet: &'f [u8], line: &mut KeyLine) -> InnerPacket<'f> {
    let (head, mut rest) = packet.split_first_chunk::<4>()?;
    line[extra::TUNNELS.start] |= extra::GRE;
    line[extra::GRE_FLAGS].copy_from_slice(&head[..2]);
    line[extra::TUNNEL_TYPE].copy_from_slice(&head[2..]);
    let [has_checksum, has_routing, has_key, has_sequence] =
        [0x80, 0x40, 0x20, 0x10].map(|bit| head[0] & bit != 0);
    if has_routing || head[1] & 7 != 0 {
        return None;
    }
    if has_checksum {
        rest = rest.get(4..)?;
    }
    if has_key {
        let (key, behind) = rest.split_first_chunk::<4>()?;
        line[extra::TUNNELS.start] |= extra::GRE_KEY;
        line[extra::TUNNEL_ID].copy_from_slice(key);
        rest = behind;
    }
    if has_sequence {
        rest = rest.get(4..)?;
    }
    match [head[2], head[3]] {
        ether_type @ (ETHER_BRIDGED | ETHER_IPV4 | ETHER_IPV6) => Some((ether_type, rest)),
        ether_type if ETHER_MPLS.contains(&ether_type) => labels(rest, line),
        _ => None,
    }
}

/// Behind VXLAN, which has the flag that its VNI is one.
fn vxlan<'f>(packet: &'f [u8], line: &mut KeyLine) -> InnerPacket<'f> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    if head[0] & 0x08 == 0 {
        return None;
    }
    line[extra::TUNNELS.start] |= extra::VXLAN;
    line[extra::TUNNEL_ID].copy_from_slice(&head[4..]);
    Some((ETHER_BRIDGED, rest))
}

/// Behind VXLAN-GPE of version 0, which has the flag that its VNI is one. Without the flag P it
/// carries what VXLAN does.
fn vxlan_gpe<'f>(packet: &'f [u8], line: &mut KeyLine) -> InnerPacket<'f> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    if head[0] & 0x38 != 0x08 {
        return None;
    }
    line[extra::TUNNELS.start] |= extra::VXLAN_GPE;
    line[extra::TUNNEL_ID].copy_from_slice(&head[4..]);
    match (head[0] & 0x04 != 0, head[3]) {
        (false, _) | (true, 3) => Some((ETHER_BRIDGED, rest)),
        (true, 1) => Some((ETHER_IPV4, rest)),
        (true, 2) => Some((ETHER_IPV6, rest)),
        _ => None,
    }
}

/// Behind GTP of version 1: the packet of a user, behind the extension headers.
fn gtp<'f>(packet: &'f [u8], line: &mut KeyLine, port: u8) -> InnerPacket<'f> {
    let (head, mut rest) = packet.split_first_chunk::<8>()?;
    if head[0] & 0xf0 != 0x30 {
        return None;
    }
    line[extra::TUNNELS.start] |= extra::GTP;
    line[extra::OUTER + extra::KNOWN] |= port;
    line[extra::GRE_FLAGS].copy_from_slice(&head[..2]);
    line[extra::TUNNEL_ID].copy_from_slice(&head[4..]);
    if port != extra::IS_GTPU {
        return None;
    }
    // Sequence number, N-PDU number and type of an extension header: all if one is flagged.
    let mut next = 0;
    if head[0] & 0x07 != 0 {
        let (optional, behind) = rest.split_first_chunk::<4>()?;
        next = if head[0] & 0x04 != 0 { optional[3] } else { 0 };
        rest = behind;
    }
    for _ in 0..GTP_EXTENSIONS_MAX {
        if next == 0 {
            break;
        }
        let len = 4 * usize::from(*rest.first()?);
        let (extension, behind) = rest.split_at_checked(len)?;
        let is_first = line[extra::TUNNELS.start] & extra::GTP_PSC == 0;
        if next == GTP_CONTAINER && is_first && len > 0 {
            line[extra::TUNNELS.start] |= extra::GTP_PSC;
            line[extra::TUNNEL_TYPE].copy_from_slice(&extension[1..3]);
        }
        (next, rest) = (*extension.last()?, behind);
    }
    match rest.first()? >> 4 {
        _ if next != 0 || head[1] != GTP_PACKET => None,
        4 => Some((ETHER_IPV4, rest)),
        6 => Some((ETHER_IPV6, rest)),
        _ => None,
    }
}

/// Behind PPPoE of a session: IP by the number of PPP's protocol.
fn session(packet: &[u8]) -> InnerPacket<'_> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    match [head[6], head[7]] {
        _ if head[..2] != [PPPOE_VERSION, 0] => None,
        PPP_IPV4 => Some((ETHER_IPV4, rest)),
        PPP_IPV6 => Some((ETHER_IPV6, rest)),
        _ => None,
    }
}

/// Behind GENEVE of version 0.
fn geneve<'f>(packet: &'f [u8], line: &mut KeyLine) -> InnerPacket<'f> {
    let (head, rest) = packet.split_first_chunk::<8>()?;
    if head[0] >> 6 != 0 {
        return None;
    }
    line[extra::TUNNELS.start] |= extra::GENEVE;
    line[extra::GENEVE_FIRST.start] = head[0];
    line[extra::TUNNEL_TYPE].copy_from_slice(&head[2..4]);
    line[extra::TUNNEL_ID].copy_from_slice(&head[4..]);
    let rest = rest.get(usize::from(head[0] & 0x3f) * 4..)?;
    match [head[2], head[3]] {
        ether_type @ (ETHER_BRIDGED | ETHER_IPV4 | ETHER_IPV6) => Some((ether_type, rest)),
        _ => None,
    }
}

/// Behind a stack of MPLS labels, whose last does not say what follows: the version of an IP header
/// does.
fn labels<'f>(packet: &'f [u8], line: &mut KeyLine) -> InnerPacket<'f> {
    let mut rest = packet;
    for at in 0..LABELS_MAX {
        let (label, behind) = rest.split_first_chunk::<4>()?;
        if at == 0 {
            line[extra::TUNNELS.start] |= extra::MPLS_LABEL;
            line[extra::MPLS].copy_from_slice(label);
        }
        rest = behind;
        if label[2] & 1 != 0 {
            return match rest.first()? >> 4 {
                4 => Some((ETHER_IPV4, rest)),
                6 => Some((ETHER_IPV6, rest)),
                _ => None,
            };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stack::{Layer, build};
    use crate::wire::{ethernet, gre, ipv4, udp, vxlan};

    fn read(frame: &[u8]) -> (Key, KeyLine) {
        let (mut inner, mut beside) =
            (Key([9; KEY_WORDS]), Key([0x0101_0101_0101_0101; KEY_WORDS]));
        read_deep(frame, &mut inner, &mut beside);
        (inner, beside.to_bytes())
    }

    /// A frame whose payload begins where the headers of a tunnel end.
    fn with(tunnel: &[Layer], inside: &[u8]) -> Vec<u8> {
        let head = [ethernet::Repr::default().into(), ipv4::Repr::default().into()];
        let mut frame = build(&[&head, tunnel].concat()).unwrap();
        frame.extend_from_slice(inside);
        frame
    }

    /// Bytes of which some are those that headers begin with.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let likely =
            prop::sample::select(vec![0, 4, 6, 8, 17, 41, 47, 0x45, 0x60, 0x81, 0x86, 0x88]);
        prop::collection::vec(prop_oneof![1 => any::<u8>(), 2 => likely], 0..120)
    }

    proptest! {
        #[test]
        fn inside_a_tunnel_any_bytes_are_read_as_a_frame_of_their_own_is(bytes in bytes()) {
            let udp = || udp::Repr { dst_port: PORT_VXLAN, ..Default::default() }.into();
            let (inner, beside) = read(&with(&[udp(), vxlan::Repr { vni: 7 }.into()], &bytes));
            prop_assert_eq!(inner, Key::parse(&bytes));
            prop_assert_eq!(beside[extra::TUNNELS.start], extra::VXLAN);
            prop_assert_eq!(&beside[extra::TUNNEL_ID], &[0, 0, 7, 0]);
        }

        #[test]
        fn behind_gre_any_bytes_are_read_as_behind_ethernet(bytes in bytes(), v6 in any::<bool>()) {
            let ether_type = if v6 { ETHER_IPV6 } else { ETHER_IPV4 };
            let protocol = crate::wire::EtherType(u16::from_be_bytes(ether_type));
            let gre = gre::Repr { protocol, checksum_present: true, key: None, sequence: Some(1) };
            let (inner, _) = read(&with(&[gre.into()], &bytes));
            let plain = [&[0; 12][..], &ether_type, &bytes].concat();
            let mut expected = Key::parse(&plain).to_bytes();
            expected[field::DEPTH.start] &= !Depth::Ethernet.bit();
            prop_assert_eq!(inner, Key::from_bytes(&expected));
        }

        #[test]
        fn behind_gtp_and_its_container_any_bytes_are_read_as_behind_ethernet(
            bytes in bytes(),
            (before, after) in (0..2usize, 0..2usize),
        ) {
            let udp = || udp::Repr { dst_port: PORT_GTPU, ..Default::default() }.into();
            let first = if before == 0 { GTP_CONTAINER } else { 0x20 };
            let mut head = vec![0x34, 255, 0, 0, 0, 0, 0, 7, 0, 0, 0, first];
            head.extend([1, 9, 9, GTP_CONTAINER].repeat(before));
            head.extend([1, 0x10, 0x3f, if after == 0 { 0 } else { 0x20 }]);
            head.extend([1, 9, 9, 0].repeat(after));
            let (inner, beside) = read(&with(&[udp(), head.into()], &bytes));
            prop_assert_eq!(beside[extra::TUNNELS.start], extra::GTP | extra::GTP_PSC);
            prop_assert_eq!(&beside[extra::TUNNEL_ID], &[0, 0, 0, 7]);
            prop_assert_eq!(&beside[extra::TUNNEL_TYPE], &[0x10, 0x3f]);
            let ether_type = match bytes.first().map(|byte| byte >> 4) {
                Some(4) => ETHER_IPV4,
                Some(6) => ETHER_IPV6,
                _ => return Ok(()),
            };
            let plain = [&[0; 12][..], &ether_type, &bytes].concat();
            let mut expected = Key::parse(&plain).to_bytes();
            expected[field::DEPTH.start] &= !Depth::Ethernet.bit();
            prop_assert_eq!(inner, Key::from_bytes(&expected));
        }

        #[test]
        fn metadata_and_tags_stay_and_the_rest_is_of_this_frame(bytes in bytes()) {
            let (inner, beside) = read(&bytes);
            prop_assert!(beside[..extra::TAGS.end].iter().all(|byte| *byte == 1));
            let outer = Key::parse(&bytes).to_bytes();
            let protocol = outer[field::PROTOCOL.start];
            let in_ip = [IPV4_IN_IP, IPV6_IN_IP].contains(&protocol);
            let others = extra::HAS_ARP | extra::HAS_PPPOE | extra::HAS_FRAGMENT_HEADER;
            let has_others = beside[extra::OUTER + extra::KNOWN] & others != 0;
            if beside[extra::TUNNELS.start] == 0 && !in_ip && !has_others {
                prop_assert_eq!(inner, Key::default());
            }
        }
    }
}
