//! A host made of frames: it has an Ethernet and an IPv4 address, and a service at one UDP port. It
//! answers ARP and echo requests, and refuses TCP and other UDP ports.
//!
//! It keeps nothing from one frame to the next but counters and an allowance of refusals per
//! second. It counts and drops a wrong frame. It sends nothing to group addresses, and no answer of
//! the service to another one of its kind.
//!
//! Facts are from RFC 826 (ARP), 791 (IPv4), 792 (ICMP), 768 (UDP), 9293 (TCP), 1122 (§3.2.1.3,
//! addresses that are no sender's; §3.2.2 and §4.1.3.1, answers about a port that cannot be
//! reached) and 6864 (§4.1: what is not to be broken up needs no identification).

mod frame_counters;
mod refusal;
mod reply;

use std::net::Ipv4Addr;

use niclab_nic::memory::{Desc, Region};
use niclab_packet::checksum;
use niclab_packet::wire::{EtherType, IpProtocol, MacAddress, arp, ethernet, icmp, ipv4, tcp, udp};
use niclab_table::prefetch;

pub use self::frame_counters::{FrameCounters, SharedFrameCounters};
use self::refusal::RateLimit;
pub use self::refusal::UNREACHABLE_PER_S_MAX;
pub use self::reply::{FRAME_LEN_MIN, HEADS_LEN, RequestSource, Template};
use crate::service::Answers;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Lines of a frame that are asked for before it is read: those of most requests.
const PREFETCHED_LINES: usize = 3;

/// Offsets of the IPv4 packet in a frame, and of UDP without IPv4 options.
const IP_AT: usize = ethernet::HEADER_LEN;
const UDP_AT: usize = ipv4::HEADER_LEN;

/// Addresses of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Its IPv4 address.
    pub ip: Ipv4Addr,
    /// Bits of it that are its network's, at most 32.
    pub network_bits: u8,
    /// The port of UDP.
    pub port: u16,
}

impl Identity {
    /// Whether this is the address of no other host: a group's, the broadcast address, our own, or
    /// a reserved one.
    fn is_no_sender(&self, ip: Ipv4Addr) -> bool {
        let host = u32::MAX.checked_shr(self.network_bits.into()).unwrap_or(0);
        let (own, other) = (u32::from(self.ip), u32::from(ip));
        // Networks of two hosts have no address for all of them (RFC 3021).
        let is_of_all =
            host > 1 && (own ^ other) & !host == 0 && [0, host].contains(&(other & host));
        let first = ip.octets()[0];
        is_of_all || other == own || first == 0 || first == 127 || first >= 224
    }

    /// Whether these are not the addresses of one other host.
    fn is_no_host(&self, peer: &RequestSource) -> bool {
        peer.mac.is_multicast() || self.is_no_sender(peer.ip)
    }

    /// Whether this peer gets no answer of the service. At the port of another one of its kind, the
    /// answer would be a request.
    pub fn refuses(&self, peer: &RequestSource) -> bool {
        peer.port == 0 || peer.port == self.port || self.is_no_host(peer)
    }
}

/// A frame by what it asks for.
pub enum Received<'a> {
    /// A datagram for the service.
    Datagram(RequestSource, &'a [u8]),
    /// An ARP request for our address.
    Arp(arp::Repr),
    /// An echo request.
    Echo(RequestSource, &'a [u8]),
    /// A segment of TCP, by the reset that answers it.
    Segment(RequestSource, tcp::Repr),
    /// A datagram to another port, the beginning of its packet.
    Unserved(RequestSource, &'a [u8]),
    /// Nothing to be answered; it is counted.
    Nothing,
}

/// The host on one core.
#[derive(Debug)]
pub struct Endpoint {
    identity: Identity,
    template: Template,
    allowance: RateLimit,
    /// Its counters; a reader takes them and leaves zeros.
    pub counted: FrameCounters,
}

/// Asks the memory for the beginnings of frames, before the first one is read.
#[inline]
pub fn prefetch_frames(region: &Region, frames: &[Desc]) {
    for desc in frames {
        region.frame(desc).iter().step_by(LINE).take(PREFETCHED_LINES).for_each(prefetch);
    }
}

impl Endpoint {
    /// A host with these addresses.
    pub fn new(identity: Identity) -> Endpoint {
        let (template, allowance) = (Template::new(&identity), RateLimit::default());
        Endpoint { identity, template, allowance, counted: FrameCounters::default() }
    }

    /// Its addresses.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What writes the headers of answers, and the counters of these.
    #[inline]
    pub fn answering(&mut self) -> (&Template, &mut FrameCounters) {
        (&self.template, &mut self.counted)
    }

    /// Answers everything but datagrams for the service, of which it gives sender and content. The
    /// time of day is in whole seconds.
    #[inline]
    pub fn answer<'a>(
        &mut self,
        received: Received<'a>,
        now_s: u32,
        answers: &mut dyn Answers,
    ) -> Option<(RequestSource, &'a [u8])> {
        match received {
            Received::Datagram(peer, datagram) => return Some((peer, datagram)),
            Received::Arp(request) => self.answer_arp(&request, answers),
            Received::Echo(peer, message) => self.answer_echo(&peer, message, answers),
            Received::Segment(peer, reset) => self.answer_tcp(&peer, &reset, answers),
            Received::Unserved(peer, beginning) => {
                self.answer_unserved(&peer, beginning, now_s, answers);
            }
            Received::Nothing => {}
        }
        None
    }

    /// Sends a datagram of the service; whether there was a frame for it.
    #[inline]
    pub fn send(
        &mut self,
        peer: &RequestSource,
        content: &[u8],
        answers: &mut dyn Answers,
    ) -> bool {
        reply::datagram(&self.template, peer, content, &mut self.counted, answers)
    }

    /// Classifies a frame whose headers a card has checked.
    #[inline]
    pub fn steered<'a>(&mut self, frame: &'a [u8]) -> Received<'a> {
        let whole = || {
            let packet = frame.get(IP_AT..)?;
            let len = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
            let datagram = packet.get(UDP_AT..len)?;
            (datagram.len() >= udp::HEADER_LEN).then_some(datagram)
        };
        match whole() {
            Some(datagram) => self.checked(frame, datagram),
            None => self.malformed(),
        }
    }

    /// A datagram for the service whose headers are right.
    #[inline]
    fn checked<'a>(&mut self, frame: &'a [u8], datagram: &'a [u8]) -> Received<'a> {
        let frame = ethernet::Frame::new_unchecked(frame);
        let packet = ipv4::Packet::new_unchecked(frame.payload());
        let (src, dst) = (packet.src(), packet.dst());
        let peer_mac = frame.src();
        let datagram = udp::Datagram::new_unchecked(datagram);
        let len = datagram.length();
        let pseudo = checksum::pseudo_ipv4(src, dst, IpProtocol::UDP, len as u16);
        if !datagram.is_checksum_valid(pseudo) {
            return self.malformed();
        }
        let peer = RequestSource { mac: peer_mac, ip: src, port: datagram.src_port() };
        if self.identity.refuses(&peer) {
            return self.refused();
        }
        let datagram = datagram.into_inner();
        Received::Datagram(peer, &datagram[udp::HEADER_LEN..len.min(datagram.len())])
    }

    #[cold]
    fn refused<'a>(&mut self) -> Received<'a> {
        self.counted.refused += 1;
        Received::Nothing
    }

    #[cold]
    fn malformed<'a>(&mut self) -> Received<'a> {
        self.counted.malformed += 1;
        Received::Nothing
    }

    #[cold]
    fn strange<'a>(&mut self) -> Received<'a> {
        self.counted.strange += 1;
        Received::Nothing
    }

    /// Classifies a frame.
    pub fn read<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let Ok(frame) = ethernet::Frame::new_checked(bytes) else { return self.malformed() };
        let is_for_us = frame.dst() == self.identity.mac;
        match frame.ether_type() {
            EtherType::IPV4 if is_for_us => self.read_ip(bytes),
            EtherType::ARP if is_for_us || frame.dst() == MacAddress::BROADCAST => {
                self.read_arp(&bytes[IP_AT..])
            }
            _ => self.strange(),
        }
    }

    fn read_arp<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let Ok(packet) = arp::Packet::new_checked(bytes) else { return self.malformed() };
        match arp::Repr::parse(&packet) {
            Ok(request) if request.operation != arp::REQUEST => self.strange(),
            Ok(request) if request.dst_ip != self.identity.ip => self.strange(),
            // One that looks whether the address is taken (RFC 5227) has none of its own yet.
            Ok(request) if request.src_mac.is_multicast() => self.refused(),
            Ok(request) => Received::Arp(request),
            Err(_) => self.malformed(),
        }
    }

    fn read_ip<'a>(&mut self, bytes: &'a [u8]) -> Received<'a> {
        let packet = ipv4::Packet::new_unchecked(&bytes[IP_AT..]);
        if packet.check_whole().is_err() || !packet.is_checksum_valid() {
            return self.malformed();
        }
        if packet.dst() != self.identity.ip {
            return self.strange();
        }
        if packet.is_fragment() {
            self.counted.fragments += 1;
            return Received::Nothing;
        }
        let start = IP_AT + packet.header_len();
        let payload = &bytes[start..IP_AT + packet.total_len()];
        match packet.protocol() {
            IpProtocol::UDP => {
                let Ok(datagram) = udp::Datagram::new_checked(payload) else {
                    return self.malformed();
                };
                if datagram.check_whole().is_err() {
                    return self.malformed();
                }
                match datagram.dst_port() == self.identity.port {
                    true => self.checked(bytes, &payload[..datagram.length()]),
                    false => self.read_unserved(bytes, &payload[..datagram.length()]),
                }
            }
            IpProtocol::TCP => self.read_tcp(bytes, payload),
            IpProtocol::ICMP => self.read_icmp(bytes, payload),
            _ => self.strange(),
        }
    }

    fn read_icmp<'a>(&mut self, bytes: &'a [u8], message: &'a [u8]) -> Received<'a> {
        let Ok(view) = icmp::Message::new_checked(message) else { return self.malformed() };
        if !view.is_checksum_valid() {
            return self.malformed();
        }
        if view.message_type() != icmp::MessageType::ECHO_REQUEST || view.code() != 0 {
            return self.strange();
        }
        let frame = ethernet::Frame::new_unchecked(bytes);
        let ip = ipv4::Packet::new_unchecked(&bytes[IP_AT..]).src();
        let peer = RequestSource { mac: frame.src(), ip, port: 0 };
        if self.identity.is_no_host(&peer) {
            return self.refused();
        }
        Received::Echo(peer, message)
    }

    #[cold]
    fn answer_arp(&mut self, request: &arp::Repr, answers: &mut dyn Answers) {
        self.counted.arp += 1;
        let sent = reply::arp(&self.identity, request, answers);
        self.counted.unsent += u64::from(!sent);
    }

    #[cold]
    fn answer_echo(&mut self, peer: &RequestSource, message: &[u8], answers: &mut dyn Answers) {
        self.counted.echoes += 1;
        let sent = reply::echo(&self.identity, peer, message, answers);
        self.counted.unsent += u64::from(!sent);
    }
}
