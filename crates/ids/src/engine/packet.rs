//! The packet of a frame, as the engine inspects it.

use std::fmt;
use std::net::IpAddr;

use crate::frame::TUNNEL_PORTS;

/// Types of VLAN tags, and how many of them a frame has at most.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
const TAGS_MAX: usize = 2;

/// A reason why the engine does not inspect a frame. Suricata may report something on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotInspected {
    /// It has no header of IP behind Ethernet and at most two VLAN tags.
    NotIp,
    /// It is a piece of a packet.
    Fragment,
    /// It carries another packet.
    Tunnel,
    /// A header is cut, contradicts the frame, or has extensions.
    Header,
}

impl fmt::Display for NotInspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotInspected::NotIp => "no IP header",
            NotInspected::Fragment => "a fragment",
            NotInspected::Tunnel => "a tunnel",
            NotInspected::Header => "a header that is cut, wrong, or has extensions",
        })
    }
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InspectedPacket<'a> {
    /// The number of the protocol behind IP.
    pub(super) protocol: u8,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Source and destination, of TCP, UDP and SCTP.
    pub(super) ports: Option<[u16; 2]>,
    /// Of TCP.
    pub(super) flags: Option<u8>,
    pub(super) payload: &'a [u8],
}

impl<'a> InspectedPacket<'a> {
    /// Reads an Ethernet frame.
    pub(super) fn read(frame: &'a [u8]) -> Result<InspectedPacket<'a>, NotInspected> {
        let mut rest = frame.get(12..).ok_or(NotInspected::NotIp)?;
        for _ in 0..TAGS_MAX {
            if two(rest, 0).is_some_and(|kind| TAGS.contains(&kind)) {
                rest = rest.get(4..).ok_or(NotInspected::NotIp)?;
            }
        }
        let packet = rest.get(2..).unwrap_or_default();
        match two(rest, 0) {
            Some(0x0800) => four(packet),
            Some(0x86dd) => six(packet).ok_or(NotInspected::Header)?,
            _ => Err(NotInspected::NotIp),
        }
    }
}

/// A packet of IPv4.
fn four(packet: &[u8]) -> Result<InspectedPacket<'_>, NotInspected> {
    let read = || {
        let first = *packet.first()?;
        let (header_len, len) = (usize::from(first & 0x0f) * 4, usize::from(two(packet, 2)?));
        let payload =
            packet.get(header_len..len).filter(|_| first >> 4 == 4 && header_len >= 20)?;
        let is_sound = has_sound_options(&packet[20..header_len]);
        let [source, destination] = [12, 16].map(|at| address(packet[at..].first_chunk::<4>()));
        Some((source?, destination?, payload)).filter(|_| is_sound)
    };
    let (source, destination, payload) = read().ok_or(NotInspected::Header)?;
    if two(packet, 6).is_none_or(|field| field & 0x3fff != 0) {
        return Err(NotInspected::Fragment);
    }
    match packet[9] {
        58 => Err(NotInspected::Header),
        protocol => transport(protocol, source, destination, payload),
    }
}

/// A packet of IPv6; nothing if its header is wrong.
fn six(packet: &[u8]) -> Option<Result<InspectedPacket<'_>, NotInspected>> {
    let payload = packet.get(40..40 + usize::from(two(packet, 4)?))?;
    let [source, destination] = [8, 24].map(|at| address(packet[at..].first_chunk::<16>()));
    let (source, destination) = (source?, destination?);
    Some(match packet[6] {
        _ if packet[0] >> 4 != 6 => Err(NotInspected::Header),
        44 => Err(NotInspected::Fragment),
        // Extension headers, and ICMP of IPv4.
        0 | 1 | 43 | 51 | 59 | 60 | 135 | 139 | 140 => Err(NotInspected::Header),
        protocol => transport(protocol, source, destination, payload),
    })
}

fn address<const N: usize>(bytes: Option<&[u8; N]>) -> Option<IpAddr>
where
    IpAddr: From<[u8; N]>,
{
    bytes.map(|bytes| IpAddr::from(*bytes))
}

/// Whether the lengths of options of IPv4 fit.
fn has_sound_options(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match kind {
            0 => return true,
            1 => rest,
            _ => match rest.first().map(|len| options.get(usize::from(*len).max(1)..)) {
                Some(Some(rest)) if options[1] >= 2 => rest,
                _ => return false,
            },
        };
    }
    true
}

/// Ports, flags, and start and end of the payload.
type TransportHeader = (Option<[u16; 2]>, Option<u8>, usize, usize);

/// Reads the header behind IP.
fn transport(
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    packet: &[u8],
) -> Result<InspectedPacket<'_>, NotInspected> {
    let ports = || two(packet, 0).zip(two(packet, 2)).map(|(from, to)| [from, to]);
    let read = || -> Option<TransportHeader> {
        let len = packet.len();
        match protocol {
            6 => {
                let header_len = usize::from(*packet.get(12)? >> 4) * 4;
                let is_sound = (20..=len).contains(&header_len);
                is_sound.then_some((ports(), Some(packet[13]), header_len, len))
            }
            17 => {
                let end = usize::from(two(packet, 4)?);
                (8..=len).contains(&end).then_some((ports(), None, 8, end))
            }
            132 => (len >= 12).then_some((ports(), None, 12, len)),
            1 | 58 => {
                let (start, end) = icmp_payload(protocol, packet)?;
                Some((None, None, start, end))
            }
            // Suricata sees no payload behind other headers.
            _ => Some((None, None, len, len)),
        }
    };
    if matches!(protocol, 4 | 41 | 47 | 50) {
        return Err(NotInspected::Tunnel);
    }
    let (ports, flags, start, end) = read().ok_or(NotInspected::Header)?;
    let is_tunnel = |ports: [u16; 2]| ports.iter().any(|port| TUNNEL_PORTS.contains(port));
    if protocol == 17 && ports.is_some_and(is_tunnel) {
        return Err(NotInspected::Tunnel);
    }
    Ok(InspectedPacket {
        protocol,
        source,
        destination,
        ports,
        flags,
        payload: &packet[start..end],
    })
}

/// Start and end of what Suricata takes as the payload of a message of ICMP.
fn icmp_payload(protocol: u8, packet: &[u8]) -> Option<(usize, usize)> {
    let (kind, code, len) = (*packet.first()?, *packet.get(1)?, packet.len());
    if len < 8 {
        return None;
    }
    match (protocol, kind, code) {
        // Three times of four bytes.
        (1, 13 | 14, _) if len >= 20 => Some((20, len)),
        // The length of a router's advertisement follows from its content.
        (1, 9, _) => None,
        (1, ..) => Some((8, len)),
        (_, 1, 0..=6) | (_, 2 | 128 | 129, 0) | (_, 3, 0..=1) | (_, 4, 0..=2) => Some((8, len)),
        // The start moves back by four bytes, and so does the end, twice.
        _ if len >= 12 => Some((4, len - 8)),
        _ => Some((0, 0)),
    }
}

/// A number of two bytes.
fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
