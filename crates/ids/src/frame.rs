//! The flow of a frame, as a card reads it.

use std::net::IpAddr;

use crate::region::FlowEnds;
use crate::rule::Transport;

/// Types of VLAN tags.
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Extension headers of IPv6: hop-by-hop options, routing, fragment, authentication, destination
/// options, mobility, HIP, Shim6.
const EXTENSIONS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// Protocols that carry packets of other flows: IPv4, IPv6 and GRE, and ESP with an empty cipher.
const TUNNELS: [u8; 4] = [4, 41, 47, 50];

/// UDP ports on which Suricata looks for packets of other flows, by its default configuration:
/// VXLAN, GENEVE and Teredo.
pub(crate) const TUNNEL_PORTS: [u16; 3] = [4789, 6081, 3544];

/// The flow of an Ethernet frame (no FCS). `None` if only an engine can determine it, because the
/// frame
///
/// - has no IP header, more than two VLAN tags, or an extension header of IPv6;
/// - has lengths that contradict each other, or not all of its headers;
/// - is a fragment, which may lack the ports;
/// - belongs to a tunnel, and carries a packet of another flow;
/// - has an error message of ICMP, which is about another flow.
///
/// Such a frame concerns all cores. The program `programs/ids-steering` does the same.
pub fn flow_of(frame: &[u8]) -> Option<FlowEnds> {
    let mut rest = frame.get(12..)?;
    for _ in 0..2 {
        if TAGS.contains(&two(rest, 0)?) {
            rest = rest.get(4..)?;
        }
    }
    let (source, destination, protocol, packet) = match two(rest, 0)? {
        0x0800 => ipv4(rest.get(2..)?)?,
        0x86dd => ipv6(rest.get(2..)?)?,
        _ => return None,
    };
    let transport = match protocol {
        6 => Transport::Tcp,
        17 => Transport::Udp,
        132 => Transport::Sctp,
        1 | 58 => Transport::Icmp,
        protocol if TUNNELS.contains(&protocol) => return None,
        _ => Transport::Other,
    };
    let ports = || Some([two(packet, 0)?, two(packet, 2)?]);
    let [source_port, destination_port] = match transport {
        Transport::Tcp => {
            let header_len = usize::from(packet.get(12)? >> 4) * 4;
            ports().filter(|_| (20..=packet.len()).contains(&header_len))?
        }
        Transport::Udp => {
            let is_whole = usize::from(two(packet, 4)?) == packet.len() && packet.len() >= 8;
            ports()
                .filter(|ports| is_whole && !ports.iter().any(|port| TUNNEL_PORTS.contains(port)))?
        }
        Transport::Sctp => ports().filter(|_| packet.len() >= 12)?,
        Transport::Icmp => {
            let kind = *packet.first().filter(|_| packet.len() >= 8)?;
            let is_error = match source {
                IpAddr::V4(_) => protocol == 58 || matches!(kind, 3..=5 | 11 | 12),
                IpAddr::V6(_) => protocol == 1 || kind < 128,
            };
            if is_error {
                return None;
            }
            [0, 0]
        }
        Transport::Other => [0, 0],
    };
    Some(FlowEnds {
        transport,
        source: (source, source_port),
        destination: (destination, destination_port),
    })
}

/// Source, destination, protocol and payload of a packet.
type IpPacket<'a> = (IpAddr, IpAddr, u8, &'a [u8]);

fn ipv4(packet: &[u8]) -> Option<IpPacket<'_>> {
    let first = *packet.first()?;
    let (header_len, len) = (usize::from(first & 0x0f) * 4, usize::from(two(packet, 2)?));
    let is_whole = two(packet, 6)? & 0x3fff == 0;
    if first >> 4 != 4 || header_len < 20 || !is_whole {
        return None;
    }
    let payload = packet.get(header_len..len)?;
    let address = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<4>()?));
    Some((address(12)?, address(16)?, packet[9], payload))
}

fn ipv6(packet: &[u8]) -> Option<IpPacket<'_>> {
    let (first, len) = (*packet.first()?, usize::from(two(packet, 4)?));
    let payload = packet.get(40..40 + len)?;
    if first >> 4 != 6 || EXTENSIONS.contains(&packet[6]) {
        return None;
    }
    let address = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<16>()?));
    Some((address(8)?, address(24)?, packet[6], payload))
}

/// A number of two bytes.
fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use niclab_packet::stack::{Layer, build};
    use niclab_packet::wire::{ethernet, gre, icmp, ipv4, ipv6, tcp, udp, vlan, vxlan};

    use super::*;

    fn flow(layers: &[Layer]) -> Option<FlowEnds> {
        let ethernet = ethernet::Repr::default().into();
        flow_of(&build(&[&[ethernet], layers].concat()).unwrap())
    }

    fn four() -> Layer {
        let [src, dst] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        ipv4::Repr { src, dst, ..Default::default() }.into()
    }

    fn segment() -> Layer {
        tcp::Repr { src_port: 5, dst_port: 80, ..Default::default() }.into()
    }

    #[test]
    fn flows_are_read_behind_tags_and_of_both_versions() {
        let expected = FlowEnds {
            transport: Transport::Tcp,
            source: ("10.0.0.1".parse().unwrap(), 5),
            destination: ("10.0.0.2".parse().unwrap(), 80),
        };
        assert_eq!(flow(&[four(), segment()]), Some(expected));
        assert_eq!(flow(&[vlan::Repr::default().into(), four(), segment()]), Some(expected));
        let [src, dst] = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
        let six = ipv6::Repr { src, dst, ..Default::default() }.into();
        let datagram = udp::Repr { src_port: 7, dst_port: 53, ..Default::default() }.into();
        let expected = FlowEnds {
            transport: Transport::Udp,
            source: (src.into(), 7),
            destination: (dst.into(), 53),
        };
        assert_eq!(flow(&[six, datagram]), Some(expected));
    }

    #[test]
    fn frames_that_only_an_engine_can_tell_concern_all_cores() {
        let inside = [ethernet::Repr::default().into(), four(), segment()];
        let vxlan = [four(), udp::Repr::default().into(), vxlan::Repr { vni: 1 }.into()];
        assert_eq!(flow(&[&vxlan[..], &inside].concat()), None);
        assert_eq!(flow(&[four(), gre::Repr::default().into(), four(), segment()]), None);
        assert_eq!(flow(&[four(), four(), segment()]), None);
        let fragment = ipv4::Repr { more_fragments: true, ..Default::default() }.into();
        assert_eq!(flow(&[fragment, segment()]), None);
        let error = icmp::Repr { message_type: icmp::MessageType(3), ..Default::default() };
        assert_eq!(flow(&[four(), error.into()]), None);
        assert_eq!(flow_of(&[0; 60]), None);
        let whole = build(&[ethernet::Repr::default().into(), four(), segment()]).unwrap();
        for len in 0..whole.len() {
            assert_eq!(flow_of(&whole[..len]), None, "{len} bytes");
        }
        // A data offset beyond the packet, and one within the header.
        for offset in [0xf0, 0x40] {
            let mut wrong = whole.clone();
            wrong[14 + 20 + 12] = offset;
            assert_eq!(flow_of(&wrong), None);
        }
        let mut padded = whole.clone();
        padded.extend([0; 6]);
        assert!(flow_of(&padded).is_some());
    }
}
