//! Frames that are answered, and frames that are not.

use std::net::Ipv4Addr;

use niclab_nic::memory::Region;
use niclab_packet::checksum;
use niclab_packet::wire::udp::ChecksumMode;
use niclab_packet::wire::{EtherType, IpProtocol, MacAddress, arp, ethernet, icmp, ipv4, udp};

use super::*;
use crate::kvs::codec::datagram::batch::BatchStep;
use crate::kvs::protocol::time::UnixTime;
use crate::kvs::store::{Spread, Store};

pub(super) const US: Identity = Identity {
    mac: MacAddress([2, 0, 10, 9, 0, 2]),
    ip: Ipv4Addr::new(10, 9, 0, 2),
    network_bits: 24,
    port: 11211,
};
pub(super) const THEM: RequestSource = RequestSource {
    mac: MacAddress([2, 0, 0, 0, 0, 7]),
    ip: Ipv4Addr::new(10, 9, 0, 1),
    port: 4000,
};

/// Frames that were sent; there is room for so many.
pub(super) struct Sent {
    pub frames: Vec<Vec<u8>>,
    pub room: usize,
}

impl Answers for Sent {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.frames.len() == self.room || len > 1536 {
            return None;
        }
        self.frames.push(vec![0xee; len]);
        self.frames.last_mut().map(Vec::as_mut_slice)
    }
}

/// A host, its store, and what time it is there.
pub(super) struct World {
    store: Store,
    pub station: Station,
    pub room: usize,
    pub now: UnixTime,
}

impl World {
    pub fn new() -> World {
        let store = Store::new(32 << 20, 2, 7).unwrap().spread_by(Spread::Steered);
        World { store, station: Station::new(US), room: usize::MAX, now: UnixTime(1000) }
    }

    fn ask_by(&mut self, frames: &[Vec<u8>], owner: Option<usize>) -> Vec<Vec<u8>> {
        let (region, mut descs) = Region::new(frames.len().max(1), 1536).unwrap();
        descs.truncate(frames.len());
        for (desc, frame) in descs.iter_mut().zip(frames) {
            region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(desc, frame.len() as u16);
        }
        let context = Context { store: &self.store, now: self.now, host: &() };
        let mut sent = Sent { frames: Vec::new(), room: self.room };
        self.station.serve(&region, &descs, |_| owner, &context, &mut (), &mut sent);
        sent.frames
    }

    pub fn ask(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.ask_by(&[frame], None)
    }

    /// Nothing is answered, and it is counted where it belongs.
    #[track_caller]
    pub fn ignores(&mut self, frame: Vec<u8>, counted: impl Fn(&FrameCounters) -> u64) {
        let before = counted(self.station.counted());
        assert_eq!(self.ask(frame), Vec::<Vec<u8>>::new());
        assert_eq!(counted(self.station.counted()), before + 1, "{:?}", self.station.counted());
    }
}

pub(super) fn packet(
    peer: &RequestSource,
    to: (MacAddress, Ipv4Addr),
    protocol: IpProtocol,
    inner: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER_LEN + ipv4::HEADER_LEN];
    let link = ethernet::Repr { dst: to.0, src: peer.mac, ether_type: EtherType::IPV4 };
    link.emit(&mut ethernet::Frame::new_unchecked(&mut bytes[..ethernet::HEADER_LEN]));
    let ip = ipv4::Repr { src: peer.ip, dst: to.1, protocol, ..ipv4::Repr::default() };
    ip.emit(&mut ipv4::Packet::new_unchecked(&mut bytes[ethernet::HEADER_LEN..]), inner.len());
    bytes.extend_from_slice(inner);
    bytes
}

pub(super) fn datagram(peer: &RequestSource, to: Ipv4Addr, port: u16, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN];
    bytes.extend_from_slice(content);
    let mut view = udp::Datagram::new_unchecked(&mut bytes[..]);
    let checksum = ChecksumMode::Computed;
    let repr = udp::Repr { src_port: peer.port, dst_port: port, checksum };
    repr.emit(&mut view, content.len());
    let len = (udp::HEADER_LEN + content.len()) as u16;
    view.fill_checksum(checksum::pseudo_ipv4(peer.ip, to, IpProtocol::UDP, len));
    bytes
}

fn request_of(peer: &RequestSource, text: &[u8]) -> Vec<u8> {
    let content = [&[0xbe, 0xef, 0, 0, 0, 1, 0, 0], text].concat();
    packet(peer, (US.mac, US.ip), IpProtocol::UDP, &datagram(peer, US.ip, US.port, &content))
}

fn request(text: &[u8]) -> Vec<u8> {
    request_of(&THEM, text)
}

/// The content of a datagram to who asked, everything around which is right.
#[track_caller]
fn content(frame: &[u8]) -> Vec<u8> {
    let view = ethernet::Frame::new_checked(frame).unwrap();
    assert_eq!((view.dst(), view.src()), (THEM.mac, US.mac));
    assert!(frame.len() >= 60);
    let packet = ipv4::Packet::new_checked(view.payload()).unwrap();
    assert!(packet.check_whole().is_ok() && packet.is_checksum_valid());
    assert_eq!((packet.src(), packet.dst(), packet.dont_fragment()), (US.ip, THEM.ip, true));
    let datagram = udp::Datagram::new_checked(packet.payload()).unwrap();
    assert_eq!((datagram.src_port(), datagram.dst_port()), (US.port, THEM.port));
    let pseudo = packet.pseudo(IpProtocol::UDP, datagram.length());
    assert!(datagram.checksum() != 0 && datagram.is_checksum_valid(pseudo));
    datagram.payload().to_vec()
}

#[test]
fn a_datagram_is_answered_to_who_sent_it() {
    let mut world = World::new();
    let sent = world.ask(request(b"set a 0 0 1\r\nx\r\nget a\r\n"));
    assert_eq!(sent.len(), 1);
    let text = content(&sent[0]);
    assert_eq!(text[..8], [0xbe, 0xef, 0, 0, 0, 1, 0, 0]);
    assert_eq!(text[8..], *b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    // Without a checksum it is as good, and bytes behind its end are not of it.
    let mut bare = request(b"get a\r\n");
    bare[ethernet::HEADER_LEN + ipv4::HEADER_LEN + 6..][..2].fill(0);
    bare.extend_from_slice(&[0; 20]);
    assert_eq!(content(&world.ask(bare)[0])[8..], *b"VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.station.counted().datagrams, 2);
    assert_eq!(world.station.counted().answers, 2);
}

#[test]
fn a_long_answer_goes_in_parts_and_what_finds_no_frame_is_counted() {
    let mut world = World::new();
    let key = world.store.key(b"k");
    let value = vec![b'v'; 100 << 10];
    let new = crate::kvs::store::NewItem {
        flags: 0,
        expiry: crate::kvs::protocol::time::Expiry::NEVER,
        cas: 1,
        marks: 0,
    };
    let whole = crate::kvs::store::Value::Whole(&value);
    world.store.partition(&key).put(&key, new, whole, UnixTime(1000)).unwrap();
    let sent = world.ask(request(b"get k\r\n"));
    let mut all = Vec::new();
    for (number, frame) in sent.iter().enumerate() {
        let text = content(frame);
        let head = [0xbeef, number as u16, sent.len() as u16, 0].map(u16::to_be_bytes);
        assert_eq!(text[..8], *head.as_flattened());
        all.extend_from_slice(&text[8..]);
    }
    let expected = [b"VALUE k 0 102400\r\n", &value[..], b"\r\nEND\r\n"].concat();
    assert!(all == expected && sent.len() == expected.len().div_ceil(1392));
    world.room = 10;
    assert_eq!(world.ask(request(b"get k\r\n")).len(), 10);
    assert_eq!(world.station.counted().unsent, sent.len() as u64 - 10);
    assert_eq!(world.station.counted().answers, sent.len() as u64 + 10);
}

#[test]
fn addresses_and_echoes_are_answered() {
    let mut world = World::new();
    let ask = |src_mac: MacAddress, src_ip: Ipv4Addr, dst_ip: Ipv4Addr, operation: u16| {
        let mut bytes = vec![0; 60];
        let dst = MacAddress::BROADCAST;
        let link = ethernet::Repr { dst, src: src_mac, ether_type: EtherType::ARP };
        link.emit(&mut ethernet::Frame::new_unchecked(&mut bytes[..ethernet::HEADER_LEN]));
        let dst_mac = MacAddress::default();
        let repr = arp::Repr { operation, src_mac, src_ip, dst_mac, dst_ip };
        repr.emit(&mut arp::Packet::new_unchecked(&mut bytes[ethernet::HEADER_LEN..]));
        bytes
    };
    for src_ip in [THEM.ip, Ipv4Addr::UNSPECIFIED] {
        let sent = world.ask(ask(THEM.mac, src_ip, US.ip, arp::REQUEST));
        let frame = ethernet::Frame::new_checked(&sent[0][..]).unwrap();
        assert_eq!((frame.dst(), frame.src(), sent[0].len()), (THEM.mac, US.mac, 60));
        let reported =
            arp::Repr::parse(&arp::Packet::new_checked(frame.payload()).unwrap()).unwrap();
        assert_eq!(
            (reported.operation, reported.src_mac, reported.src_ip),
            (arp::REPLY, US.mac, US.ip)
        );
        assert_eq!((reported.dst_mac, reported.dst_ip), (THEM.mac, src_ip));
    }
    world.ignores(ask(THEM.mac, THEM.ip, THEM.ip, arp::REQUEST), |of| of.strange);
    world.ignores(ask(THEM.mac, THEM.ip, US.ip, arp::REPLY), |of| of.strange);
    world.ignores(ask(MacAddress([1; 6]), THEM.ip, US.ip, arp::REQUEST), |of| of.refused);
    world.ignores(ask(THEM.mac, THEM.ip, US.ip, arp::REQUEST)[..30].to_vec(), |of| of.malformed);

    let mut message = vec![0; 8];
    let mut view = icmp::Message::new_unchecked(&mut message[..]);
    icmp::Repr::echo_request(7, 1).emit(&mut view);
    message.extend_from_slice(b"abcdefghi");
    icmp::Message::new_unchecked(&mut message[..]).fill_checksum();
    let echo = |to, message: &[u8]| packet(&THEM, to, IpProtocol::ICMP, message);
    let sent = world.ask(echo((US.mac, US.ip), &message));
    let reported = ipv4::Packet::new_checked(&sent[0][ethernet::HEADER_LEN..]).unwrap();
    assert!(reported.is_checksum_valid() && reported.payload().len() == message.len());
    let reported = icmp::Message::new_checked(reported.payload()).unwrap();
    assert!(reported.is_checksum_valid() && reported.payload() == b"abcdefghi");
    assert_eq!(
        (reported.message_type(), reported.rest()),
        (icmp::MessageType::ECHO_REPLY, 7 << 16 | 1)
    );
    world.ignores(echo((US.mac, Ipv4Addr::new(10, 9, 0, 255)), &message), |of| of.strange);
    message[9] ^= 1;
    world.ignores(echo((US.mac, US.ip), &message), |of| of.malformed);
    assert_eq!((world.station.counted().arp, world.station.counted().echoes), (2, 1));
}

#[test]
fn malformed_frames_are_counted_and_not_answered() {
    let mut world = World::new();
    let good = request(b"get a\r\n");
    assert_eq!(world.ask(good.clone()).len(), 1);
    let with = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    // With its checksum put right where that is not what is wrong.
    let ip_with = |at: usize, to: u8| {
        let mut bytes = with(ethernet::HEADER_LEN + at, to);
        ipv4::Packet::new_unchecked(&mut bytes[ethernet::HEADER_LEN..]).fill_checksum();
        bytes
    };
    for len in [0, 13, 20, ethernet::HEADER_LEN + 19, ethernet::HEADER_LEN + 27, good.len() - 1] {
        world.ignores(good[..len].to_vec(), |of| of.malformed);
    }
    world.ignores(with(ethernet::HEADER_LEN + 10, 0x55), |of| of.malformed);
    world.ignores(with(ethernet::HEADER_LEN + ipv4::HEADER_LEN + 6, 0x55), |of| of.malformed);
    world.ignores(with(good.len() - 3, b'b'), |of| of.malformed);
    world.ignores(ip_with(0, 0x46), |of| of.malformed);
    world.ignores(ip_with(0, 0x65), |of| of.malformed);
    world.ignores(ip_with(2, 0xff), |of| of.malformed);
    world.ignores(ip_with(6, 0x20), |of| of.fragments);
    world.ignores(ip_with(7, 0x01), |of| of.fragments);
    world.ignores(ip_with(9, 47), |of| of.strange);
    world.ignores(ip_with(19, 3), |of| of.strange);
    world.ignores(with(0, 0xff), |of| of.strange);
    world.ignores(with(13, 0xdd), |of| of.strange);
    // To another port, with a checksum that is wrong then.
    world.ignores(with(ethernet::HEADER_LEN + ipv4::HEADER_LEN + 3, 0xff), |of| of.malformed);
    world.ignores(with(ethernet::HEADER_LEN + ipv4::HEADER_LEN + 5, 200), |of| of.malformed);
    world.ignores(with(ethernet::HEADER_LEN + ipv4::HEADER_LEN + 5, 7), |of| of.malformed);
}

#[test]
fn no_answer_goes_to_an_address_that_it_would_harm() {
    let mut world = World::new();
    let of = |ip: [u8; 4], port: u16, mac: [u8; 6]| {
        request_of(&RequestSource { mac: MacAddress(mac), ip: ip.into(), port }, b"get a\r\n")
    };
    let (ip, mac) = (THEM.ip.octets(), THEM.mac.0);
    for refused in [
        of([10, 9, 0, 255], 4000, mac),
        of([10, 9, 0, 0], 4000, mac),
        of([255; 4], 4000, mac),
        of([224, 0, 0, 1], 4000, mac),
        of([127, 0, 0, 1], 4000, mac),
        of([0; 4], 4000, mac),
        of(US.ip.octets(), 4000, mac),
        of(ip, 0, mac),
        of(ip, US.port, mac),
        of(ip, 4000, [0xff; 6]),
        of(ip, 4000, [1, 0, 0x5e, 0, 0, 1]),
    ] {
        let mut bytes = refused.clone();
        world.ignores(refused, |of| of.refused);
        // A card that steers changes nothing in this.
        bytes.truncate(1500);
        assert!(world.ask_by(&[bytes], Some(0)).is_empty());
    }
    assert_eq!(world.station.counted().refused, 22);
    assert_eq!(world.ask(of([10, 9, 1, 255], 4000, mac)).len(), 1, "a host of another network");
}

#[test]
fn steered_and_unsteered_requests_are_served_alike() {
    let (mut reported, mut untold) = (World::new(), World::new());
    let binary = |code: u8, extras: &[u8], key: &[u8], value: &[u8]| {
        let body_len = (extras.len() + key.len() + value.len()) as u32;
        let mut head = vec![0x80, code, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
        head.extend_from_slice(&body_len.to_be_bytes());
        head.extend_from_slice(&[0; 12]);
        request(&[&head[..], extras, key, value].concat())
    };
    let owner =
        |key: &[u8]| crate::kvs::protocol::hash::owner(crate::kvs::protocol::hash::steered(key), 2);
    for number in 0..40 {
        let key = format!("key {number}").into_bytes();
        for frame in [binary(1, &[0; 8], &key, b"value"), binary(0, b"", &key, b"")] {
            let sent = reported.ask_by(std::slice::from_ref(&frame), Some(owner(&key)));
            assert_eq!(sent, untold.ask(frame.clone()));
            let flipped = |at: usize| {
                let mut bytes = frame.clone();
                bytes[at] ^= 1;
                bytes
            };
            let last = frame.len() - 1;
            assert!(reported.ask_by(&[flipped(last)], Some(0)).is_empty(), "its checksum is wrong");
            assert!(reported.ask_by(&[frame[..last].to_vec()], Some(0)).is_empty(), "cut off");
        }
    }
    assert_eq!(reported.store.statistics().counters, untold.store.statistics().counters);
    for len in 0..60 {
        reported.ask_by(&[vec![0xff; len], vec![0; len]], Some(0));
    }
}

#[test]
fn each_step_of_a_burst_is_reported() {
    #[derive(Default)]
    struct Told(Vec<BatchStep>);
    impl StepObserver for Told {
        fn done(&mut self, step: BatchStep) {
            self.0.push(step);
        }
    }
    let mut world = World::new();
    let (region, descs) = Region::new(1, 1536).unwrap();
    let context = Context { store: &world.store, now: UnixTime(1000), host: &() };
    let (mut reported, mut sent) = (Told::default(), Sent { frames: Vec::new(), room: 0 });
    world.station.serve(&region, &descs, |_| None, &context, &mut reported, &mut sent);
    assert_eq!(
        reported.0,
        [BatchStep::Receive, BatchStep::Parse, BatchStep::Hash, BatchStep::Reply]
    );
}
