//! Refusals: a TCP reset, and ICMP "port unreachable" for other UDP ports.
//!
//! Neither of them is ever answered. An ICMP message may be longer than the datagram it refuses, so
//! each core sends a limited number in a second. A reset is never longer than its segment, apart
//! from padding to the shortest frame.

use niclab_packet::checksum;
use niclab_packet::wire::{IpProtocol, ethernet, ipv4, tcp, udp};

use super::reply::{self, RequestSource};
use super::{Endpoint, IP_AT, Received};
use crate::service::Answers;

/// How often a core says in a second that a port cannot be reached: often enough for who has the
/// wrong port, and little beside what it serves.
pub const UNREACHABLE_PER_S_MAX: u32 = 100;

/// Limits the answers of each second.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    second_s: u32,
    left: u32,
}

impl Default for RateLimit {
    fn default() -> RateLimit {
        RateLimit { second_s: 0, left: UNREACHABLE_PER_S_MAX }
    }
}

impl RateLimit {
    /// Takes one, if there is one left now.
    fn take(&mut self, now_s: u32) -> bool {
        if self.second_s != now_s {
            *self = RateLimit { second_s: now_s, ..RateLimit::default() };
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

impl Endpoint {
    /// Classifies a TCP segment to our address.
    #[cold]
    pub(super) fn read_tcp<'a>(&mut self, bytes: &'a [u8], payload: &'a [u8]) -> Received<'a> {
        let Ok(segment) = tcp::Segment::new_checked(payload) else { return self.malformed() };
        let peer = sender(bytes, segment.src_port());
        let (own, len) = (self.identity.ip, payload.len() as u16);
        let pseudo = checksum::pseudo_ipv4(peer.ip, own, IpProtocol::TCP, len);
        if !segment.is_checksum_valid(pseudo) {
            return self.malformed();
        }
        match tcp::Repr::reset(&segment) {
            Some(reset) if peer.port != 0 && !self.identity.is_no_host(&peer) => {
                Received::Segment(peer, reset)
            }
            _ => self.refused(),
        }
    }

    /// Classifies a whole datagram to another port of our address.
    #[cold]
    pub(super) fn read_unserved<'a>(&mut self, bytes: &'a [u8], payload: &'a [u8]) -> Received<'a> {
        let datagram = udp::Datagram::new_unchecked(payload);
        let peer = sender(bytes, datagram.src_port());
        let (own, len) = (self.identity.ip, datagram.length() as u16);
        let pseudo = checksum::pseudo_ipv4(peer.ip, own, IpProtocol::UDP, len);
        if !datagram.is_checksum_valid(pseudo) {
            return self.malformed();
        }
        if peer.port == 0 || self.identity.is_no_host(&peer) {
            return self.refused();
        }
        // Its header and 64 bits of what follows (RFC 792), which are UDP's header.
        let header_len = ipv4::Packet::new_unchecked(&bytes[IP_AT..]).header_len();
        Received::Unserved(peer, &bytes[IP_AT..][..header_len + udp::HEADER_LEN])
    }

    #[cold]
    pub(super) fn answer_tcp(
        &mut self,
        peer: &RequestSource,
        reset: &tcp::Repr,
        answers: &mut dyn Answers,
    ) {
        self.counted.resets += 1;
        let sent = reply::segment(&self.identity, peer, reset, answers);
        self.counted.unsent += u64::from(!sent);
    }

    #[cold]
    pub(super) fn answer_unserved(
        &mut self,
        peer: &RequestSource,
        beginning: &[u8],
        now_s: u32,
        answers: &mut dyn Answers,
    ) {
        if !self.allowance.take(now_s) {
            self.strange();
            return;
        }
        self.counted.unreachable += 1;
        let sent = reply::unreachable(&self.identity, peer, beginning, answers);
        self.counted.unsent += u64::from(!sent);
    }
}

/// The sender of a packet.
fn sender(bytes: &[u8], port: u16) -> RequestSource {
    let ip = ipv4::Packet::new_unchecked(&bytes[IP_AT..]).src();
    RequestSource { mac: ethernet::Frame::new_unchecked(bytes).src(), ip, port }
}
