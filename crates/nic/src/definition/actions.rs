//! What actions do to a packet, byte by byte: the part of the definition that changes it.
//!
//! Checksums are summed from scratch before and after an action, over all the bytes that they
//! cover. A checksum changes by the difference (modulo 65535, one's complement): so a correct one
//! stays correct, and a wrong one stays wrong by as much.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{
    ETHER_IPV4, ETHER_IPV6, ETHER_TAGS, EXTENSIONS, EXTENSIONS_MAX, FRAGMENT, ICMP6, TAGS_MAX, TCP,
    UDP, be16,
};
use crate::rule::{Action, Set};

const ROUTING: u8 = 43;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4_789;

/// A packet on its way through the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Its bytes, without FCS.
    pub frame: Vec<u8>,
    /// Whether a rule flagged or marked it.
    pub flagged: bool,
    /// The number of the last `mark`.
    pub mark: Option<u32>,
}

impl Packet {
    /// A packet as it came in: it has only its bytes.
    pub fn new(frame: &[u8]) -> Packet {
        Packet { frame: frame.to_vec(), ..Packet::default() }
    }

    /// Carries out an action other than a fate or `count`.
    pub(super) fn apply(&mut self, action: &Action) {
        match action {
            // Data that the packet itself does not carry are stored elsewhere.
            Action::SetMeta { .. } | Action::SetTag { .. } => {}
            Action::Age(_) | Action::Meter(_) => {}
            Action::Port(_) => {}
            Action::Count | Action::Drop | Action::Jump(_) | Action::Queue(_) | Action::Rss(_) => {}
            Action::DecTtl => self.rewrite(|frame, places| {
                let at = places.ttl();
                at.into_iter().for_each(|at| frame[at] = frame[at].saturating_sub(1));
            }),
            Action::Flag => self.flagged = true,
            Action::MacSwap => {
                if self.frame.len() >= 14 {
                    self.frame[..12].rotate_left(6);
                }
            }
            Action::Mark(mark) => (self.flagged, self.mark) = (true, Some(*mark)),
            Action::NvgreDecap => {
                let tunnel = |(protocol, at): (u8, usize), frame: &[u8]| {
                    let is_nvgre = protocol == GRE && be16(frame, at) == 0x2000;
                    (is_nvgre && be16(frame, at + 2) == 0x6558).then_some(at + 8)
                };
                self.leave(tunnel);
            }
            Action::VxlanDecap => {
                let tunnel = |(protocol, at): (u8, usize), frame: &[u8]| {
                    let is_vxlan = protocol == UDP && be16(frame, at + 2) == VXLAN_PORT;
                    let has_id = frame.get(at + 8).is_some_and(|flags| flags / 8 % 2 == 1);
                    (is_vxlan && has_id).then_some(at + 16)
                };
                self.leave(tunnel);
            }
            Action::RawDecap(len) => {
                if self.frame.len() > usize::from(*len) {
                    self.frame.drain(..usize::from(*len));
                }
            }
            Action::NvgreEncap(bytes) | Action::RawEncap(bytes) | Action::VxlanEncap(bytes) => {
                self.enclose(bytes);
            }
            Action::PopVlan => {
                if has_tag(&self.frame) {
                    self.frame.drain(12..16);
                }
            }
            Action::PushVlan(tag) => {
                if self.frame.len() >= 14 {
                    let outermost = has_tag(&self.frame).then(|| be16(&self.frame, 14));
                    let tci = outermost.unwrap_or(0).to_be_bytes();
                    self.frame.splice(12..12, tag.to_be_bytes().into_iter().chain(tci));
                }
            }
            Action::Set(set) => self.rewrite(|frame, places| put(frame, places, set)),
        }
    }

    /// Removes a tunnel's headers; the given function returns where they end.
    fn leave(&mut self, tunnel: impl FnOnce((u8, usize), &[u8]) -> Option<usize>) {
        let places = places(&self.frame);
        let Some(transport) = places.transport.filter(|_| !places.has_more) else { return };
        let inside = tunnel(transport, &self.frame);
        if let Some(end) = inside.filter(|end| self.frame.len() >= end + 14) {
            self.frame.drain(..end);
        }
    }

    /// Puts headers in front. Only these are read, because the inner headers have their own
    /// lengths.
    fn enclose(&mut self, headers: &[u8]) {
        let places = places(headers);
        self.frame.splice(..0, headers.iter().copied());
        let frame = &mut self.frame;
        let len = frame.len();
        let mut fill = |at: usize, value: usize| {
            frame[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
        };
        if let Some(ip) = places.ipv6 {
            fill(ip + 4, len - ip - 40);
        }
        if let Some((UDP, udp)) = places.transport
            && headers.len() >= udp + 8
        {
            fill(udp + 4, len - udp);
        }
        if let Some(ip) = places.ipv4 {
            fill(ip + 2, len - ip);
            let end = (ip + usize::from(frame[ip] & 0xf) * 4).min(len);
            frame[ip + 10..ip + 12].fill(0);
            let sum = frame[ip..end].chunks(2).map(word).sum::<u64>() % 65_535;
            let checksum = (65_535 - sum) % 65_535;
            frame[ip + 10..ip + 12].copy_from_slice(&(checksum as u16).to_be_bytes());
        }
    }

    /// Changes bytes, and then the checksums that cover them.
    fn rewrite(&mut self, change: impl FnOnce(&mut [u8], &Places)) {
        let places = places(&self.frame);
        let before = places.sums(&self.frame);
        change(&mut self.frame, &places);
        let after = places.sums(&self.frame);
        for (before, after) in before.into_iter().zip(after) {
            if before.covered == after.covered {
                continue;
            }
            let at = before.at;
            let old = be16(&self.frame, at);
            if before.is_udp && old == 0 {
                continue;
            }
            let sum = |sum: &Sum| sum.covered.chunks(2).map(word).sum::<u64>() % 65_535;
            let new = (u64::from(old) + sum(&before) + 65_535 - sum(&after)) % 65_535;
            // Zero can be written in two ways; a UDP checksum of 0 would mean none.
            let new = if before.is_udp && new == 0 { 0xffff } else { new as u16 };
            self.frame[at..at + 2].copy_from_slice(&new.to_be_bytes());
        }
    }
}

/// Whether a frame has a VLAN tag.
fn has_tag(frame: &[u8]) -> bool {
    frame.len() >= 18 && ETHER_TAGS.contains(&be16(frame, 12))
}

/// Two bytes in network order.
fn word(bytes: &[u8]) -> u64 {
    u64::from(bytes[0]) * 256 + bytes.get(1).map_or(0, |low| u64::from(*low))
}

/// A checksum: its place, and all that it covers, with itself as zeros.
struct Sum {
    at: usize,
    covered: Vec<u8>,
    is_udp: bool,
}

/// Where headers begin.
#[derive(Default)]
struct Places {
    ipv4: Option<usize>,
    ipv6: Option<usize>,
    /// Protocol, and where its header begins.
    transport: Option<(u8, usize)>,
    /// A routing header has segments left: the receiver is not the destination of the IP header.
    is_routed: bool,
    /// More fragments follow.
    has_more: bool,
}

impl Places {
    fn ttl(&self) -> Option<usize> {
        self.ipv4.map(|at| at + 8).or(self.ipv6.map(|at| at + 7))
    }

    /// Where the ports are.
    fn ports(&self) -> Option<usize> {
        let with_ports = |(protocol, _): &(u8, usize)| [TCP, UDP].contains(protocol);
        self.transport.filter(with_ports).map(|(_, at)| at)
    }

    fn sums(&self, frame: &[u8]) -> Vec<Sum> {
        let zeroed = |mut bytes: Vec<u8>, at: usize| {
            bytes[at..at + 2].fill(0);
            bytes
        };
        let mut sums = Vec::new();
        if let Some(ip) = self.ipv4 {
            let len = (usize::from(frame[ip] & 0xf) * 4).min(frame.len() - ip);
            let covered = zeroed(frame[ip..ip + len].to_vec(), 10);
            sums.push(Sum { at: ip + 10, covered, is_udp: false });
        }
        let Some((protocol, at)) = self.transport else { return sums };
        let checksum = match protocol {
            TCP => 16,
            UDP => 6,
            ICMP6 => 2,
            _ => return sums,
        };
        if frame.len() < at + checksum + 2 {
            return sums;
        }
        let mut covered = match (self.ipv4, self.ipv6) {
            (Some(ip), _) => frame[ip + 12..ip + 20].to_vec(),
            (None, Some(ip)) if self.is_routed => frame[ip + 8..ip + 24].to_vec(),
            (None, Some(ip)) => frame[ip + 8..ip + 40].to_vec(),
            (None, None) => return sums,
        };
        covered.extend(zeroed(frame[at..].to_vec(), checksum));
        sums.push(Sum { at: at + checksum, covered, is_udp: protocol == UDP });
        sums
    }
}

fn places(frame: &[u8]) -> Places {
    let mut places = Places::default();
    if frame.len() < 14 {
        return places;
    }
    let (mut ether_type, mut at) = (be16(frame, 12), 14);
    for _ in 0..TAGS_MAX {
        if ETHER_TAGS.contains(&ether_type) && frame.len() >= at + 4 {
            (ether_type, at) = (be16(frame, at + 2), at + 4);
        } else {
            break;
        }
    }
    let left = frame.len() - at;
    if ether_type == ETHER_IPV4 && left >= 20 && frame[at] >> 4 == 4 && frame[at] & 0xf >= 5 {
        places.ipv4 = Some(at);
        places.has_more = frame[at + 6] & 0x20 > 0;
        let (protocol, behind) = (frame[at + 9], at + usize::from(frame[at] & 0xf) * 4);
        let is_later_fragment = be16(frame, at + 6) & 0x1fff != 0;
        if !is_later_fragment && frame.len() >= behind + 4 && [TCP, UDP, GRE].contains(&protocol) {
            places.transport = Some((protocol, behind));
        }
    }
    if ether_type == ETHER_IPV6 && left >= 40 && frame[at] >> 4 == 6 {
        places.ipv6 = Some(at);
        places.read_extensions(frame, frame[at + 6], at + 40);
    }
    places
}

impl Places {
    fn read_extensions(&mut self, frame: &[u8], first: u8, at: usize) {
        let (mut number, mut at) = (first, at);
        for _ in 0..EXTENSIONS_MAX {
            if !EXTENSIONS.contains(&number) {
                break;
            }
            if frame.len() < at + 8 || number == FRAGMENT && be16(frame, at + 2) >> 3 != 0 {
                return;
            }
            self.has_more |= number == FRAGMENT && frame[at + 3] % 2 == 1;
            self.is_routed |= number == ROUTING && frame[at + 3] > 0;
            let len = if number == FRAGMENT { 8 } else { 8 + 8 * usize::from(frame[at + 1]) };
            (number, at) = (frame[at], at + len);
        }
        if frame.len() >= at + 4 && [TCP, UDP, ICMP6, GRE].contains(&number) {
            self.transport = Some((number, at));
        }
    }
}

/// Sets a field if the frame has it.
fn put(frame: &mut [u8], places: &Places, set: &Set) {
    let has_ethernet = frame.len() >= 14;
    let mut write = |at: Option<usize>, bytes: &[u8]| {
        if let Some(at) = at {
            frame[at..at + bytes.len()].copy_from_slice(bytes);
        }
    };
    let in_ipv4 = |offset: usize| places.ipv4.map(|at| at + offset);
    let in_ipv6 = |offset: usize| places.ipv6.map(|at| at + offset);
    let v4 = |address: &Ipv4Addr| address.octets();
    let v6 = |address: &Ipv6Addr| address.octets();
    match set {
        Set::Ipv4Dscp(dscp) => {
            if let Some(at) = in_ipv4(1) {
                frame[at] = dscp * 4 + frame[at] % 4;
            }
        }
        Set::Ipv4Dst(address) => write(in_ipv4(16), &v4(address)),
        Set::Ipv4Src(address) => write(in_ipv4(12), &v4(address)),
        Set::Ipv6Dscp(dscp) => {
            if let Some(at) = in_ipv6(0) {
                let first = u16::from(6u8) << 12 | u16::from(*dscp) << 6;
                let bytes = (first | be16(frame, at) & 0x3f).to_be_bytes();
                frame[at..at + 2].copy_from_slice(&bytes);
            }
        }
        Set::Ipv6Dst(address) => write(in_ipv6(24), &v6(address)),
        Set::Ipv6Src(address) => write(in_ipv6(8), &v6(address)),
        Set::MacDst(address) => write(has_ethernet.then_some(0), address),
        Set::MacSrc(address) => write(has_ethernet.then_some(6), address),
        Set::TpDst(port) => write(places.ports().map(|at| at + 2), &port.to_be_bytes()),
        Set::TpSrc(port) => write(places.ports(), &port.to_be_bytes()),
        Set::Ttl(ttl) => write(places.ttl(), &[*ttl]),
        Set::VlanPcp(pcp) => {
            if has_tag(frame) {
                frame[14] = frame[14] % 32 + pcp * 32;
            }
        }
        Set::VlanVid(vid) => {
            if has_tag(frame) {
                let above = be16(frame, 14) / 4_096 * 4_096;
                frame[14..16].copy_from_slice(&(above + vid).to_be_bytes());
            }
        }
    }
}
