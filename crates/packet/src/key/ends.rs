//! Where the headers of a frame end: what bytes behind a header are found by.
//!
//! A header ends where its own bytes do. IPv4, TCP and GENEVE say how long they are, and so include
//! their options; all others end behind their fixed part: IPv6 before its extension headers, GRE
//! and GTP before what is optional in them, AH before its check value.

use super::deep::{AH, ESP, ETHER_BRIDGED, GRE, PORT_GENEVE, ethernet, tunnel};
use super::walk::{ETHER_IPV4, ICMP, ICMPV6, SCTP, TCP, UDP, Walked, walk_packet};
use super::{Depth, KeyLine, field};

/// A place in a frame that bytes are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum End {
    /// The first byte of the frame.
    Frame,
    /// Behind the outer IP header.
    Ip,
    /// Behind the outer TCP, UDP, SCTP, ICMP, ICMPv6, ESP or AH.
    Transport,
    /// Behind the four bytes of GRE.
    Gre,
    /// Behind the key of GRE.
    GreKey,
    /// Behind VXLAN, VXLAN-GPE, GENEVE or GTP.
    Tunnel,
    /// Behind the first MPLS label.
    Label,
    /// The first byte of what the tunnel carries.
    Inside,
    /// Behind the IP header inside the tunnel.
    InnerIp,
    /// Behind the TCP, UDP, SCTP, ICMP, ICMPv6, ESP or AH inside the tunnel.
    InnerTransport,
}

/// How many [`End`]s there are.
const ENDS: usize = End::InnerTransport as usize + 1;

/// Where the headers of one frame end. Says something about headers that the frame has, and nothing
/// of use about others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends([Option<u32>; ENDS]);

impl Ends {
    /// Reads a frame (no FCS).
    pub fn read(frame: &[u8]) -> Ends {
        let (mut outer, mut inside, mut extra) = ([0; 64], [0; 64], [0; 64]);
        let mut ends = Ends::default();
        ends.put(End::Frame, Some(0));
        let walked = ethernet(&mut outer, frame);
        ends.level(frame, &outer, &walked, [End::Ip, End::Transport]);
        if let Some(rest) = walked.rest {
            ends.tunnel(frame, &outer, rest);
        }
        if let Some((ether_type, bytes)) = tunnel(&outer, &walked, &mut extra) {
            ends.put(End::Inside, Some(start(frame, bytes)));
            let walked = match ether_type {
                ETHER_BRIDGED => ethernet(&mut inside, bytes),
                _ => walk_packet(&mut inside, ether_type, bytes),
            };
            ends.level(frame, &inside, &walked, [End::InnerIp, End::InnerTransport]);
        }
        ends
    }

    /// Bytes from the start of the frame to a place, which may be behind the frame's end where the
    /// header is cut off; `None` where the frame does not say.
    #[inline]
    pub fn at(&self, end: End) -> Option<u32> {
        self.0[end as usize]
    }

    fn put(&mut self, end: End, at: Option<u32>) {
        self.0[end as usize] = at;
    }

    /// The ends of IP and of what it carries.
    fn level(
        &mut self,
        frame: &[u8],
        key: &KeyLine,
        walked: &Walked<'_>,
        [ip, transport]: [End; 2],
    ) {
        let has = |depth: Depth| key[field::DEPTH.start] & depth.bit() != 0;
        if !has(Depth::Ip) {
            return;
        }
        let is_v4 = key[field::ETHER_TYPE] == ETHER_IPV4;
        let len = if is_v4 { u32::from(walked.ip[0] & 0xf) * 4 } else { 40 };
        self.put(ip, Some(start(frame, walked.ip) + len));
        let Some(segment) = walked.rest else { return };
        let len = match key[field::PROTOCOL.start] {
            // A header of less than 20 bytes is none: then it does not say where it ends.
            TCP => segment.get(12).map(|byte| u32::from(byte >> 4) * 4).filter(|len| *len >= 20),
            UDP | ICMP | ESP => Some(8),
            ICMPV6 => Some(4),
            SCTP | AH => Some(12),
            _ => None,
        };
        self.put(transport, len.map(|len| start(frame, segment) + len));
    }

    /// The ends of a tunnel's headers, of which the first is at `rest`.
    fn tunnel(&mut self, frame: &[u8], outer: &KeyLine, rest: &[u8]) {
        let at = start(frame, rest);
        if outer[field::DEPTH.start] & Depth::Ip.bit() == 0 {
            self.put(End::Label, Some(at + 4));
            return;
        }
        let byte = |at: usize| rest.get(at).copied().unwrap_or(0);
        match outer[field::PROTOCOL.start] {
            GRE => {
                // Checksum, key and sequence number have four bytes each.
                let optional = |flags: u8| 4 * (byte(0) & flags).count_ones();
                self.put(End::Gre, Some(at + 4));
                self.put(End::GreKey, Some(at + 4 + optional(0x80) + 4));
                self.put(End::Label, Some(at + 4 + optional(0xb0) + 4));
            }
            UDP => {
                let is_geneve = [byte(2), byte(3)] == PORT_GENEVE.to_be_bytes();
                let options = if is_geneve { u32::from(byte(8) & 0x3f) * 4 } else { 0 };
                self.put(End::Tunnel, Some(at + 16 + options));
                self.put(End::Label, Some(at + 12));
            }
            _ => {}
        }
    }
}

/// Where bytes begin that reach to the end of the frame.
fn start(frame: &[u8], bytes: &[u8]) -> u32 {
    (frame.len() - bytes.len()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::{Layer, build};
    use crate::wire::{OptionBytes, ethernet, geneve, gre, ipv4, ipv6, mpls, tcp, udp, vlan};

    fn eth() -> Layer {
        ethernet::Repr::default().into()
    }

    fn ends<const N: usize>(layers: &[Layer], ends: [End; N]) -> [Option<u32>; N] {
        let frame = build(layers).unwrap();
        ends.map(|end| Ends::read(&frame).at(end))
    }

    #[test]
    fn options_belong_to_a_header_that_says_how_long_it_is() {
        let ip = ipv4::Repr { options: OptionBytes::new(&[0; 8]).unwrap(), ..Default::default() };
        let tcp = tcp::Repr { options: OptionBytes::new(&[0; 8]).unwrap(), ..Default::default() };
        let both = [End::Frame, End::Ip, End::Transport];
        assert_eq!(ends(&[eth(), ip.into(), tcp.into()], both), [0, 14 + 28, 42 + 28].map(Some));
        let tag = vlan::Repr::default().into();
        let udp = |dst_port| Layer::from(udp::Repr { dst_port, ..Default::default() });
        let protocol = crate::wire::EtherType::IPV6;
        let options = OptionBytes::new(&[0; 8]).unwrap();
        let geneve =
            geneve::Repr { vni: 1, protocol, control: false, critical: false, options }.into();
        let ip6 = || ipv6::Repr::default().into();
        let layers = [eth(), tag, ip6(), udp(PORT_GENEVE), geneve, ip6(), udp(1)];
        let all = [End::Transport, End::Tunnel, End::Inside, End::InnerIp, End::InnerTransport];
        assert_eq!(ends(&layers, all), [66, 82, 82, 122, 130].map(Some));
    }

    #[test]
    fn gre_ends_before_its_options_and_its_key_behind_it() {
        let protocol = crate::wire::EtherType(0x8847);
        let gre = gre::Repr { protocol, checksum_present: true, key: Some(1), sequence: Some(2) };
        let label = mpls::Repr { label: 1, traffic_class: 0, bottom: true, ttl: 1 };
        let ip = || ipv4::Repr::default().into();
        let layers = [eth(), ip(), gre.into(), label.into(), ip()];
        let all = [End::Gre, End::GreKey, End::Label, End::Inside, End::InnerTransport];
        let [behind, key, stack] = [38, 46, 54].map(Some);
        assert_eq!(ends(&layers, all), [behind, key, stack, stack, None]);
    }
}
