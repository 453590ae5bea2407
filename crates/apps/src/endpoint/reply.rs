//! Frames that a host made of frames sends.

use std::net::Ipv4Addr;

use niclab_packet::checksum;
use niclab_packet::wire::{
    EtherType, IpProtocol, MacAddress, arp as arp_wire, ethernet, icmp, ipv4, tcp, udp,
};

use super::Identity;
use super::frame_counters::FrameCounters;
use crate::service::Answers;

/// Bytes of all headers before a datagram's content.
pub const HEADS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Shortest frame without FCS; what is missing is filled with zeros.
pub const FRAME_LEN_MIN: usize = 60;

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSource {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
    /// Its port of UDP.
    pub port: u16,
}

impl Default for RequestSource {
    fn default() -> RequestSource {
        RequestSource { mac: MacAddress::default(), ip: Ipv4Addr::UNSPECIFIED, port: 0 }
    }
}

/// The headers of every answer, but for what differs from one to the next.
#[derive(Clone, Debug)]
pub struct Template {
    heads: [u8; HEADS_LEN],
    /// Partial sums of what does not differ: of the IPv4 header, and of the pseudo header and the
    /// header of UDP.
    ip_sum: u64,
    udp_sum: u64,
}

impl Template {
    /// The template of this host's answers.
    pub fn new(identity: &Identity) -> Template {
        let mut heads = [0; HEADS_LEN];
        let nobody = RequestSource::default();
        let (ethernet, rest) = heads.split_at_mut(ethernet::HEADER_LEN);
        let (ip, datagram) = rest.split_at_mut(ipv4::HEADER_LEN);
        link(identity, &nobody, EtherType::IPV4, ethernet);
        network(identity, &nobody, IpProtocol::UDP, ip, 0);
        let mut packet = ipv4::Packet::new_unchecked(ip);
        packet.set_total_len(0);
        packet.set_checksum(0);
        let ip_sum = checksum::sum(packet.as_bytes());
        let checksum = udp::ChecksumMode::Computed;
        let repr = udp::Repr { src_port: identity.port, dst_port: 0, checksum };
        let mut datagram = udp::Datagram::new_unchecked(datagram);
        repr.emit(&mut datagram, 0);
        let udp_sum = packet.pseudo(IpProtocol::UDP, 0) + u64::from(identity.port);
        Template { heads, ip_sum, udp_sum }
    }

    /// Writes them for a datagram with so many bytes of content, of which this is the partial sum.
    #[inline]
    pub fn write(
        &self,
        peer: &RequestSource,
        heads: &mut [u8; HEADS_LEN],
        len: usize,
        content: u64,
    ) {
        *heads = self.heads;
        let (ethernet, rest) = heads.split_at_mut(ethernet::HEADER_LEN);
        let (ip, datagram) = rest.split_at_mut(ipv4::HEADER_LEN);
        ethernet::Frame::new_unchecked(ethernet).set_dst(peer.mac);
        let len = (udp::HEADER_LEN + len) as u16;
        let total_len = ipv4::HEADER_LEN as u16 + len;
        let bits = u64::from(u32::from(peer.ip));
        let dst_sum = (bits >> 16) + (bits & 0xffff);
        let mut packet = ipv4::Packet::new_unchecked(ip);
        packet.set_total_len(total_len);
        packet.set_dst(peer.ip);
        packet.set_checksum(checksum::finish(self.ip_sum + u64::from(total_len) + dst_sum));
        let mut datagram = udp::Datagram::new_unchecked(datagram);
        datagram.set_dst_port(peer.port);
        datagram.set_length(len);
        // The length counts twice: in the header, and in the pseudo header.
        let sum = self.udp_sum + dst_sum + u64::from(peer.port) + 2 * u64::from(len);
        datagram.set_checksum(checksum::finish_udp(sum + content));
    }
}

/// Sends a datagram; whether there was a frame for it.
#[inline]
pub fn datagram(
    template: &Template,
    peer: &RequestSource,
    content: &[u8],
    counted: &mut FrameCounters,
    answers: &mut dyn Answers,
) -> bool {
    let len = content.len();
    let bytes = answers.frame((HEADS_LEN + len).max(FRAME_LEN_MIN));
    let Some((heads, room)) = bytes.and_then(|bytes| bytes.split_first_chunk_mut()) else {
        counted.unsent += 1;
        return false;
    };
    room[..len].copy_from_slice(content);
    room[len..].fill(0);
    counted.answers += 1;
    counted.answer_bytes += len as u64;
    template.write(peer, heads, len, checksum::sum(content));
    true
}

#[inline]
fn link(identity: &Identity, peer: &RequestSource, ether_type: EtherType, bytes: &mut [u8]) {
    let repr = ethernet::Repr { dst: peer.mac, src: identity.mac, ether_type };
    repr.emit(&mut ethernet::Frame::new_unchecked(bytes));
}

#[inline]
fn network(
    identity: &Identity,
    peer: &RequestSource,
    protocol: IpProtocol,
    bytes: &mut [u8],
    payload_len: usize,
) {
    let repr = ipv4::Repr { src: identity.ip, dst: peer.ip, protocol, ..ipv4::Repr::default() };
    repr.emit(&mut ipv4::Packet::new_unchecked(bytes), payload_len);
}

/// Answers an ARP request; whether there was a frame for it.
pub fn arp(identity: &Identity, request: &arp_wire::Repr, answers: &mut dyn Answers) -> bool {
    let Some(bytes) = answers.frame(FRAME_LEN_MIN) else { return false };
    let peer = RequestSource { mac: request.src_mac, ip: request.src_ip, port: 0 };
    let (ethernet, rest) = bytes.split_at_mut(ethernet::HEADER_LEN);
    link(identity, &peer, EtherType::ARP, ethernet);
    let repr = arp_wire::Repr {
        operation: arp_wire::REPLY,
        src_mac: identity.mac,
        src_ip: identity.ip,
        dst_mac: peer.mac,
        dst_ip: peer.ip,
    };
    rest.fill(0);
    repr.emit(&mut arp_wire::Packet::new_unchecked(rest));
    true
}

/// A frame with a packet to this host, of which so many bytes are left to be written.
fn packet<'a>(
    identity: &Identity,
    peer: &RequestSource,
    protocol: IpProtocol,
    payload_len: usize,
    answers: &'a mut dyn Answers,
) -> Option<&'a mut [u8]> {
    let len = ethernet::HEADER_LEN + ipv4::HEADER_LEN + payload_len;
    let bytes = answers.frame(len.max(FRAME_LEN_MIN))?;
    let (ethernet, rest) = bytes.split_at_mut(ethernet::HEADER_LEN);
    let (ip, rest) = rest.split_at_mut(ipv4::HEADER_LEN);
    link(identity, peer, EtherType::IPV4, ethernet);
    network(identity, peer, protocol, ip, payload_len);
    let (payload, padding) = rest.split_at_mut(payload_len);
    padding.fill(0);
    Some(payload)
}

/// Answers an echo request; whether there was a frame for it.
pub fn echo(
    identity: &Identity,
    peer: &RequestSource,
    message: &[u8],
    answers: &mut dyn Answers,
) -> bool {
    let own = packet(identity, peer, IpProtocol::ICMP, message.len(), answers);
    let Some(own) = own else { return false };
    own.copy_from_slice(message);
    let mut own = icmp::Message::new_unchecked(own);
    own.set_message_type(icmp::MessageType::ECHO_REPLY, 0);
    own.fill_checksum();
    true
}

/// Sends a segment without data; whether there was a frame for it.
pub fn segment(
    identity: &Identity,
    peer: &RequestSource,
    repr: &tcp::Repr,
    answers: &mut dyn Answers,
) -> bool {
    let len = repr.buffer_len();
    let own = packet(identity, peer, IpProtocol::TCP, len, answers);
    let Some(own) = own else { return false };
    let mut own = tcp::Segment::new_unchecked(own);
    repr.emit(&mut own);
    own.fill_checksum(checksum::pseudo_ipv4(identity.ip, peer.ip, IpProtocol::TCP, len as u16));
    true
}

/// Says that nobody listens at the port that a packet was for, of which this is the beginning;
/// whether there was a frame for it.
pub fn unreachable(
    identity: &Identity,
    peer: &RequestSource,
    beginning: &[u8],
    answers: &mut dyn Answers,
) -> bool {
    let len = icmp::HEADER_LEN + beginning.len();
    let own = packet(identity, peer, IpProtocol::ICMP, len, answers);
    let Some(own) = own else { return false };
    let (message_type, code) = (icmp::MessageType::UNREACHABLE, icmp::PORT_UNREACHABLE);
    let repr = icmp::Repr { message_type, code, rest: 0 };
    let mut own = icmp::Message::new_unchecked(own);
    repr.emit(&mut own);
    own.payload_mut().copy_from_slice(beginning);
    own.fill_checksum();
    true
}
