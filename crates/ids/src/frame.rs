//! The flow of a frame, as a card reads it.

use std::net::IpAddr;

use niclab_packet::key::{Depth, Key, field};
use niclab_packet::stack::{Layer, walk};

use crate::region::FlowEnds;
use crate::rule::Transport;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Protocols that carry packets of other flows: IPv4, IPv6 and GRE, and ESP with an empty cipher.
const TUNNELS: [u8; 4] = [4, 41, 47, 50];

/// UDP ports on which Suricata looks for packets of other flows: VXLAN, GENEVE and Teredo, by its
/// own default settings.
const TUNNEL_PORTS: [u16; 3] = [4789, 6081, 3544];

/// The flow of an Ethernet frame (no FCS). `None` if only an engine can tell it, because the frame
///
/// - has no IP header, or not all of its headers;
/// - is a fragment, which may lack the ports;
/// - is a tunnel's, and carries a packet of another flow;
/// - has an error message of ICMP, which is about another flow.
///
/// Such a frame concerns all cores.
pub fn flow_of(frame: &[u8]) -> Option<FlowEnds> {
    let key = Key::parse(frame);
    let bytes = key.to_bytes();
    let is_fragment = bytes[field::FRAGMENT.start] != 0;
    if key.depth() < Depth::Ip || is_fragment {
        return None;
    }
    let mut source = [0; 16];
    let mut destination = [0; 16];
    source[..4].copy_from_slice(&bytes[field::SRC_HEAD]);
    source[4..].copy_from_slice(&bytes[field::SRC_TAIL]);
    destination[..4].copy_from_slice(&bytes[field::DST_HEAD]);
    destination[4..].copy_from_slice(&bytes[field::DST_TAIL]);
    let is_four = match bytes[field::ETHER_TYPE].try_into() {
        Ok(IPV4) => true,
        Ok(IPV6) => false,
        _ => return None,
    };
    let address = |all: [u8; 16]| match (is_four, all) {
        (true, [a, b, c, d, ..]) => IpAddr::from([a, b, c, d]),
        (false, all) => IpAddr::from(all),
    };
    let port = |field: std::ops::Range<usize>| {
        u16::from_be_bytes([bytes[field.start], bytes[field.start + 1]])
    };
    let protocol = bytes[field::PROTOCOL.start];
    let (transport, ports) = match (protocol, key.depth() >= Depth::Transport) {
        (6, true) => (Transport::Tcp, [port(field::SPORT), port(field::DPORT)]),
        (17, true) => (Transport::Udp, [port(field::SPORT), port(field::DPORT)]),
        (132, true) => (Transport::Sctp, [port(field::SPORT), port(field::DPORT)]),
        (1 | 58, true) => {
            if is_icmp_error(frame) {
                return None;
            }
            (Transport::Icmp, [0, 0])
        }
        (1 | 6 | 17 | 58 | 132, false) => return None,
        (protocol, _) if TUNNELS.contains(&protocol) => return None,
        _ => (Transport::Other, [0, 0]),
    };
    let is_tunnel =
        transport == Transport::Udp && ports.iter().any(|port| TUNNEL_PORTS.contains(port));
    let [source_port, destination_port] = ports;
    (!is_tunnel).then_some(FlowEnds {
        transport,
        source: (address(source), source_port),
        destination: (address(destination), destination_port),
    })
}

/// Whether the message of ICMP is about another flow (RFC 792, RFC 4443).
fn is_icmp_error(frame: &[u8]) -> bool {
    walk(frame).to_layers().iter().any(|layer| match layer {
        Layer::Icmp(message) => matches!(message.message_type.0, 3..=5 | 11 | 12),
        Layer::Icmpv6(message) => message.message_type.0 < 128,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use niclab_packet::stack::build;
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
        for len in 0..38 {
            assert_eq!(flow_of(&whole[..len]), None, "{len} bytes");
        }
    }
}
