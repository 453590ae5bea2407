//! Sets header fields of frames, and keeps checksums correct.
//!
//! A checksum is updated by the change (RFC 1624): a correct one stays correct, a wrong one stays
//! wrong by as much, and the payload is not read. So it also works for a first fragment, whose
//! checksum covers the payload of other fragments. A later fragment has no transport header; its
//! addresses change like those of the first.
//!
//! `definition` says which headers a frame has. A field that the frame lacks is not set.

use niclab_packet::checksum::{finish, fold, sum};

use crate::limits::ENCAP_LEN_MAX;
use crate::rule::Set;

const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// The most VLAN tags that are read.
const TAGS_MAX: usize = 2;
const ETHER_IPV4: u16 = 0x0800;
const ETHER_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const GRE: u8 = 47;
/// Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
const EXTENSIONS: [u8; 4] = [0, ROUTING, FRAGMENT, 60];
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const EXTENSIONS_MAX: usize = 8;

/// Place of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// The IP version of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ip {
    #[default]
    None,
    V4,
    V6,
}

/// Where the headers of a frame begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    ip: Ip,
    ip_at: usize,
    /// The protocol whose header begins at `transport_at`; 0 where there is none.
    protocol: u8,
    transport_at: usize,
    /// Whether a routing header names another final destination: the checksum is then over that
    /// address (RFC 8200, section 8.1).
    is_routed: bool,
    /// Whether it is the first of several fragments.
    has_more: bool,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

impl Layout {
    /// Reads the outer headers of a frame.
    pub(crate) fn of(frame: &[u8]) -> Layout {
        let (mut layout, mut ip_at) = (Layout::default(), 14);
        let Some(mut ether_type) = be16(frame, 12) else { return layout };
        for _ in 0..TAGS_MAX {
            if !TAGS.contains(&ether_type) || frame.len() < ip_at + 4 {
                break;
            }
            ether_type = be16(frame, ip_at + 2).unwrap_or(0);
            ip_at += 4;
        }
        layout.ip_at = ip_at;
        let packet = frame.get(ip_at..).unwrap_or_default();
        match ether_type {
            ETHER_IPV4 => layout.read_ipv4(packet),
            ETHER_IPV6 => layout.read_ipv6(packet),
            _ => {}
        }
        layout
    }

    fn read_ipv4(&mut self, packet: &[u8]) {
        let Some(head) = packet.first_chunk::<20>() else { return };
        if head[0] >> 4 != 4 || head[0] & 0xf < 5 {
            return;
        }
        self.ip = Ip::V4;
        self.has_more = head[6] & 0x20 != 0;
        let is_later_fragment = head[6] & 0x1f != 0 || head[7] != 0;
        let len = usize::from(head[0] & 0xf) * 4;
        if !is_later_fragment && packet.len() >= len + 4 && matches!(head[9], TCP | UDP | GRE) {
            (self.protocol, self.transport_at) = (head[9], self.ip_at + len);
        }
    }

    fn read_ipv6(&mut self, packet: &[u8]) {
        let Some(head) = packet.first_chunk::<40>() else { return };
        if head[0] >> 4 != 6 {
            return;
        }
        self.ip = Ip::V6;
        let (mut next, mut at) = (head[6], 40);
        for _ in 0..EXTENSIONS_MAX {
            if !EXTENSIONS.contains(&next) {
                break;
            }
            let Some(extension) = packet.get(at..at + 8) else { return };
            if next == FRAGMENT && (extension[2] != 0 || extension[3] & 0xf8 != 0) {
                return;
            }
            self.has_more |= next == FRAGMENT && extension[3] & 1 != 0;
            self.is_routed |= next == ROUTING && extension[3] != 0;
            let units = if next == FRAGMENT { 0 } else { usize::from(extension[1]) };
            (next, at) = (extension[0], at + 8 + units * 8);
        }
        if packet.len() >= at + 4 && matches!(next, TCP | UDP | ICMPV6 | GRE) {
            (self.protocol, self.transport_at) = (next, self.ip_at + at);
        }
    }

    /// Where the transport checksum is.
    fn checksum_at(&self) -> Option<usize> {
        let offset = match self.protocol {
            TCP => 16,
            UDP => 6,
            ICMPV6 => 2,
            _ => return None,
        };
        Some(self.transport_at + offset)
    }
}

/// Bytes of a VXLAN header, and of the GRE header of NVGRE.
const TUNNEL_LEN: usize = 8;
const UDP_LEN: usize = 8;
const VXLAN_PORT: u16 = 4_789;
/// The flag that says that there is a network identifier (RFC 7348, section 5).
const VXLAN_HAS_ID: u8 = 0x08;
/// GRE's flags, of which only that of the key is set, and the protocol (RFC 7637, section 3.2).
const NVGRE: [u8; 4] = [0x20, 0x00, 0x65, 0x58];

/// A tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunnel {
    Nvgre,
    Vxlan,
}

/// The length of the headers of a tunnel; `None` if the frame is no such tunnel, is a fragment, or
/// has no Ethernet header inside.
pub(crate) fn tunnel_len(frame: &[u8], layout: &Layout, tunnel: Tunnel) -> Option<usize> {
    let segment = frame.get(layout.transport_at..).filter(|_| !layout.has_more)?;
    let len = match (tunnel, layout.protocol) {
        (Tunnel::Vxlan, UDP) => {
            let is_vxlan = be16(segment, 2) == Some(VXLAN_PORT)
                && segment.get(UDP_LEN).is_some_and(|flags| flags & VXLAN_HAS_ID != 0);
            is_vxlan.then_some(UDP_LEN + TUNNEL_LEN)?
        }
        (Tunnel::Nvgre, GRE) => segment.starts_with(&NVGRE).then_some(TUNNEL_LEN)?,
        _ => return None,
    };
    (segment.len() >= len + 14).then_some(layout.transport_at + len)
}

/// Whether bytes are exactly the headers of a tunnel, from Ethernet on; the destination port of UDP
/// may be any.
pub(crate) fn is_tunnel(headers: &[u8], tunnel: Tunnel) -> bool {
    let layout = Layout::of(headers);
    let rest = headers.get(layout.transport_at..).unwrap_or_default();
    match (tunnel, layout.protocol) {
        _ if headers.len() > ENCAP_LEN_MAX || layout.has_more => false,
        (Tunnel::Vxlan, UDP) => {
            rest.len() == UDP_LEN + TUNNEL_LEN && rest[UDP_LEN] & VXLAN_HAS_ID != 0
        }
        (Tunnel::Nvgre, GRE) => rest.len() == TUNNEL_LEN && rest.starts_with(&NVGRE),
        _ => false,
    }
}

/// Writes headers into the first bytes of a frame, and fills in their lengths and checksum.
pub(crate) fn write_headers(frame: &mut [u8], headers: impl Iterator<Item = u8>) {
    let mut len = 0;
    for (place, byte) in frame.iter_mut().zip(headers) {
        *place = byte;
        len += 1;
    }
    // Only the first bytes: the headers after them have lengths of their own.
    let layout = Layout::of(&frame[..len]);
    let (whole, at) = (frame.len(), layout.ip_at);
    let lasting = |at: usize| ((whole - at) as u16).to_be_bytes();
    match layout.ip {
        Ip::None => return,
        Ip::V4 => {
            frame[at + 2..at + 4].copy_from_slice(&lasting(at));
            frame[at + IPV4_CHECKSUM..][..2].fill(0);
            let header_len = usize::from(frame[at] & 0xf) * 4;
            let checksum = finish(sum(&frame[at..(at + header_len).min(whole)]));
            frame[at + IPV4_CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
        }
        Ip::V6 => {
            frame[at + 4..at + 6].copy_from_slice(&lasting(at + 40));
        }
    }
    if layout.protocol == UDP && len >= layout.transport_at + UDP_LEN {
        let at = layout.transport_at;
        frame[at + 4..at + 6].copy_from_slice(&lasting(at));
    }
}

/// Which checksums cover a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covered {
    No,
    Header,
    Transport,
    Both,
}

/// Sets a field; does nothing where the frame does not have it.
pub(crate) fn set(frame: &mut [u8], layout: &Layout, set: &Set) {
    let at = |ip: Ip, offset: usize| (layout.ip == ip).then_some(layout.ip_at + offset);
    let has_ports = matches!(layout.protocol, TCP | UDP);
    let ports = |offset: usize| has_ports.then_some(layout.transport_at + offset);
    let routed = if layout.is_routed { Covered::No } else { Covered::Transport };
    let (at, bytes, covered): (_, &[u8], _) = match set {
        Set::Ipv4Dscp(dscp) => return set_dscp_ipv4(frame, layout, *dscp),
        Set::Ipv4Dst(address) => (at(Ip::V4, 16), &address.octets(), Covered::Both),
        Set::Ipv4Src(address) => (at(Ip::V4, 12), &address.octets(), Covered::Both),
        Set::Ipv6Dscp(dscp) => return set_dscp_ipv6(frame, layout, *dscp),
        Set::Ipv6Dst(address) => (at(Ip::V6, 24), &address.octets(), routed),
        Set::Ipv6Src(address) => (at(Ip::V6, 8), &address.octets(), Covered::Transport),
        Set::MacDst(address) => (has_ethernet(frame).then_some(0), address, Covered::No),
        Set::MacSrc(address) => (has_ethernet(frame).then_some(6), address, Covered::No),
        Set::TpDst(port) => (ports(2), &port.to_be_bytes(), Covered::Transport),
        Set::TpSrc(port) => (ports(0), &port.to_be_bytes(), Covered::Transport),
        Set::Ttl(ttl) => return set_ttl(frame, layout, |_| *ttl),
        Set::VlanPcp(pcp) => return set_tci(frame, 0x1fff, u16::from(*pcp) << 13),
        Set::VlanVid(vid) => return set_tci(frame, 0xf000, *vid),
    };
    if let Some(at) = at {
        replace(frame, layout, at, bytes, covered);
    }
}

/// Takes one hop off; 0 stays 0.
pub(crate) fn dec_ttl(frame: &mut [u8], layout: &Layout) {
    set_ttl(frame, layout, |ttl| ttl.saturating_sub(1));
}

/// Exchanges the addresses of Ethernet.
pub(crate) fn swap_addresses(frame: &mut [u8]) {
    if has_ethernet(frame) {
        let (dst, src) = frame.split_at_mut(6);
        dst.swap_with_slice(&mut src[..6]);
    }
}

pub(crate) fn has_ethernet(frame: &[u8]) -> bool {
    frame.len() >= 14
}

/// The TCI of the outermost VLAN tag.
pub(crate) fn tci(frame: &[u8]) -> Option<u16> {
    let is_tagged = be16(frame, 12).is_some_and(|ether_type| TAGS.contains(&ether_type));
    be16(frame, 14).filter(|_| is_tagged && frame.len() >= 18)
}

/// Sets the bits of the outermost tag's TCI that are not in `kept`.
fn set_tci(frame: &mut [u8], kept: u16, bits: u16) {
    if let Some(tci) = tci(frame) {
        frame[14..16].copy_from_slice(&(tci & kept | bits).to_be_bytes());
    }
}

fn set_ttl(frame: &mut [u8], layout: &Layout, next: impl Fn(u8) -> u8) {
    let at = layout.ip_at;
    match layout.ip {
        Ip::None => {}
        Ip::V4 => {
            let word = [next(frame[at + 8]), frame[at + 9]];
            replace(frame, layout, at + 8, &word, Covered::Header);
        }
        Ip::V6 => frame[at + 7] = next(frame[at + 7]),
    }
}

fn set_dscp_ipv4(frame: &mut [u8], layout: &Layout, dscp: u8) {
    if layout.ip == Ip::V4 {
        let at = layout.ip_at;
        let word = [frame[at], dscp << 2 | frame[at + 1] & 3];
        replace(frame, layout, at, &word, Covered::Header);
    }
}

fn set_dscp_ipv6(frame: &mut [u8], layout: &Layout, dscp: u8) {
    if layout.ip == Ip::V6 {
        let at = layout.ip_at;
        frame[at] = frame[at] & 0xf0 | dscp >> 2;
        frame[at + 1] = dscp << 6 | frame[at + 1] & 0x3f;
    }
}

/// Replaces bytes at an even offset within what the checksums cover.
fn replace(frame: &mut [u8], layout: &Layout, at: usize, bytes: &[u8], covered: Covered) {
    let Some(place) = frame.get_mut(at..at + bytes.len()) else { return };
    if place == bytes {
        return;
    }
    let change = u64::from(!fold(sum(place))) + sum(bytes);
    place.copy_from_slice(bytes);
    if matches!(covered, Covered::Header | Covered::Both) {
        update(frame, layout.ip_at + IPV4_CHECKSUM, change, false);
    }
    if matches!(covered, Covered::Transport | Covered::Both)
        && let Some(checksum_at) = layout.checksum_at()
    {
        update(frame, checksum_at, change, layout.protocol == UDP);
    }
}

/// Updates a checksum from the old and the new sum (RFC 1624, equation 3), if the frame has it. In
/// UDP, 0 means no checksum, and 0xffff replaces 0 (RFC 768). Other protocols never send 0xffff,
/// because a sum is never zero.
fn update(frame: &mut [u8], at: usize, change: u64, is_udp: bool) {
    let Some(checksum) = be16(frame, at) else { return };
    if is_udp && checksum == 0 {
        return;
    }
    let checksum = match finish(u64::from(!checksum) + change) {
        0 if is_udp => 0xffff,
        0xffff if !is_udp => 0,
        checksum => checksum,
    };
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use niclab_packet::stack::{Layer, build, walk};
    use niclab_packet::wire::{ethernet, ipv4, udp};

    use super::*;

    fn datagram() -> Vec<u8> {
        let ip = ipv4::Repr { src: Ipv4Addr::new(10, 0, 0, 1), ..Default::default() };
        let udp = udp::Repr { src_port: 5, dst_port: 6, ..Default::default() };
        let layers: [Layer; 4] =
            [ethernet::Repr::default().into(), ip.into(), udp.into(), vec![1, 2, 3].into()];
        build(&layers).unwrap()
    }

    fn change(frame: &mut [u8], field: Set) {
        let layout = Layout::of(frame);
        set(frame, &layout, &field);
    }

    #[test]
    fn a_udp_checksum_of_zero_stays_and_a_computed_one_becomes_ones() {
        let mut frame = datagram();
        let at = 14 + 20 + 6;
        let mut met = false;
        for port in 0..=u16::MAX {
            change(&mut frame, Set::TpSrc(port));
            met |= frame[at..at + 2] == [0xff, 0xff];
            assert_ne!(frame[at..at + 2], [0, 0], "port {port}");
        }
        assert!(met, "one of the ports makes the sum zero");
        assert!(walk(&frame).checksum_errors().is_empty());
        frame[at..at + 2].fill(0);
        change(&mut frame, Set::TpSrc(9));
        change(&mut frame, Set::Ipv4Src(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(frame[at..at + 2], [0, 0]);
        assert!(walk(&frame).checksum_errors().is_empty());
    }

    #[test]
    fn fragments_of_a_datagram_are_put_together_to_a_right_one() {
        let mut whole = datagram();
        let mut first = whole.clone();
        first[14 + 6] |= 0x20;
        let mut later = whole.clone();
        later[14 + 7] = 1;
        for frame in [&mut whole, &mut first, &mut later] {
            // Its IP checksum is that of a whole packet, and wrong by as much afterwards.
            change(frame, Set::Ipv4Dst(Ipv4Addr::new(192, 0, 2, 7)));
            change(frame, Set::TpDst(700));
        }
        assert!(walk(&whole).checksum_errors().is_empty());
        assert_eq!(first[34..], whole[34..], "the first has the header, and the whole's checksum");
        assert_eq!(later[34..], datagram()[34..], "what looks like ports is payload");
        assert_eq!(later[30..34], whole[30..34]);
    }

    #[test]
    fn a_hop_is_taken_off_down_to_zero() {
        let mut frame = datagram();
        for expected in [1, 0, 0] {
            if expected == 1 {
                change(&mut frame, Set::Ttl(2));
            }
            let layout = Layout::of(&frame);
            dec_ttl(&mut frame, &layout);
            assert_eq!(frame[14 + 8], expected);
            assert!(walk(&frame).checksum_errors().is_empty());
        }
    }
}
