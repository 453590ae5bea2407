//! Answers that there is no TCP, or nobody at a port.

use std::net::Ipv4Addr;

use niclab_packet::checksum;
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, icmp, ipv4, tcp};

use super::tests::{THEM, US, World, datagram, packet};
use super::*;
use crate::endpoint::UNREACHABLE_PER_S_MAX;
use crate::kvs::protocol::time::UnixTime;

/// A segment of TCP to the store's port.
fn segment_of(peer: &RequestSource, flags: tcp::Flags, content: &[u8]) -> Vec<u8> {
    let (sequence, acknowledgement) = (0x1122_3344, 0x5566_7788);
    let (src_port, dst_port) = (peer.port, US.port);
    let ports = tcp::Repr { src_port, dst_port, window: 1000, ..tcp::Repr::default() };
    let repr = tcp::Repr { sequence, acknowledgement, flags, ..ports };
    let mut bytes = [&[0; tcp::HEADER_LEN], content].concat();
    repr.emit(&mut tcp::Segment::new_unchecked(&mut bytes[..]));
    let pseudo = checksum::pseudo_ipv4(peer.ip, US.ip, IpProtocol::TCP, bytes.len() as u16);
    tcp::Segment::new_unchecked(&mut bytes[..]).fill_checksum(pseudo);
    packet(peer, (US.mac, US.ip), IpProtocol::TCP, &bytes)
}

/// A datagram to another port than the store's.
fn unserved_of(peer: &RequestSource) -> Vec<u8> {
    let message = datagram(peer, US.ip, US.port + 1, b"get a\r\n");
    packet(peer, (US.mac, US.ip), IpProtocol::UDP, &message)
}

/// Peers to whom nothing is said.
fn nobodies() -> impl Iterator<Item = RequestSource> {
    let ips = [[10, 9, 0, 255], [10, 9, 0, 0], [255; 4], [224, 0, 0, 1], [127, 0, 0, 1], [0; 4]];
    let ips = ips.map(Ipv4Addr::from).into_iter().chain([US.ip]);
    let macs = [[0xff; 6], [1, 0, 0x5e, 0, 0, 1]].map(MacAddress);
    let port = RequestSource { port: 0, ..THEM };
    ips.map(|ip| RequestSource { ip, ..THEM })
        .chain(macs.map(|mac| RequestSource { mac, ..THEM }))
        .chain([port])
}

#[test]
fn a_tcp_connection_is_reset_at_once() {
    let mut world = World::new();
    let sent = world.ask(segment_of(&THEM, tcp::Flags::SYN, b""));
    let expected = [
        0x02, 0x00, 0x00, 0x00, 0x00, 0x07, 0x02, 0x00, 0x0a, 0x09, 0x00, 0x02, 0x08, 0x00, //
        0x45, 0x00, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, 0x26,
        0xbc, // IPv4, 40 bytes
        0x0a, 0x09, 0x00, 0x02, 0x0a, 0x09, 0x00, 0x01, // from us to them
        0x2b, 0xcb, 0x0f, 0xa0, // 11211 > 4000
        0x00, 0x00, 0x00, 0x00, 0x11, 0x22, 0x33, 0x45, // sequence 0; theirs, SYN counted
        0x50, 0x14, 0x00, 0x00, 0x1b, 0xea, 0x00, 0x00, // RST and ACK, checksum
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // up to the shortest frame
    ];
    assert_eq!(sent, [expected]);
    let of = |sent: &[u8]| {
        let packet = ipv4::Packet::new_checked(&sent[ethernet::HEADER_LEN..]).unwrap();
        let segment = tcp::Segment::new_checked(packet.payload()).unwrap();
        assert!(segment.is_checksum_valid(packet.pseudo(IpProtocol::TCP, tcp::HEADER_LEN)));
        (segment.sequence(), segment.acknowledgement(), segment.flags())
    };
    // Who believes in a connection is answered from where he believes us to be; and it does not
    // matter which port he has.
    let sent = world.ask(segment_of(&THEM, tcp::Flags::ACK, b"get a\r\n"));
    assert_eq!(of(&sent[0]), (0x5566_7788, 0, tcp::Flags::RST));
    let sent =
        world.ask(segment_of(&RequestSource { port: US.port, ..THEM }, tcp::Flags::FIN, b"get a"));
    assert_eq!(of(&sent[0]), (0, 0x1122_3344 + 6, tcp::Flags::RST | tcp::Flags::ACK));
    assert_eq!(world.station.counted().resets, 3);
    world.room = 0;
    assert!(world.ask(segment_of(&THEM, tcp::Flags::SYN, b"")).is_empty());
    assert_eq!((world.station.counted().resets, world.station.counted().unsent), (4, 1));
}

#[test]
fn no_reset_answers_a_reset_or_what_is_not_whole_or_from_nobody() {
    let mut world = World::new();
    let good = segment_of(&THEM, tcp::Flags::SYN, b"content");
    assert_eq!(world.ask(good.clone()).len(), 1);
    for flags in [tcp::Flags::RST, tcp::Flags::RST | tcp::Flags::ACK] {
        world.ignores(segment_of(&THEM, flags, b""), |of| of.refused);
    }
    for peer in nobodies() {
        world.ignores(segment_of(&peer, tcp::Flags::SYN, b""), |of| of.refused);
    }
    world.ignores(good[..good.len() - 1].to_vec(), |of| of.malformed);
    let tcp_at = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    // The content; the length of the header, shorter than it is, and longer than the segment.
    for (at, to) in [(good.len() - 1, b'T'), (tcp_at + 12, 0x40), (tcp_at + 12, 0xf0)] {
        let mut bytes = good.clone();
        bytes[at] = to;
        world.ignores(bytes, |of| of.malformed);
    }
    // A fragment, and one for somebody else.
    for (at, to, is_fragment) in [(6, 0x20, true), (7, 1, true), (19, 3, false)] {
        let mut bytes = good.clone();
        bytes[ethernet::HEADER_LEN + at] = to;
        ipv4::Packet::new_unchecked(&mut bytes[ethernet::HEADER_LEN..]).fill_checksum();
        world.ignores(bytes, |of| if is_fragment { of.fragments } else { of.strange });
    }
    assert_eq!(world.station.counted().resets, 1);
}

#[test]
fn a_datagram_to_another_port_gets_port_unreachable() {
    let mut world = World::new();
    let asked = unserved_of(&THEM);
    let sent = world.ask(asked.clone());
    let frame = ethernet::Frame::new_checked(&sent[0][..]).unwrap();
    assert_eq!((frame.dst(), frame.src(), sent[0].len()), (THEM.mac, US.mac, 70));
    let reported = ipv4::Packet::new_checked(frame.payload()).unwrap();
    assert!(reported.is_checksum_valid() && (reported.src(), reported.dst()) == (US.ip, THEM.ip));
    let reported = icmp::Message::new_checked(reported.payload()).unwrap();
    assert!(reported.is_checksum_valid());
    let unreachable = (icmp::MessageType::UNREACHABLE, 3, 0);
    assert_eq!((reported.message_type(), reported.code(), reported.rest()), unreachable);
    assert_eq!(
        reported.payload(),
        &asked[ethernet::HEADER_LEN..][..28],
        "its headers, and nothing else"
    );
    // Whose checksum is not there is as good, from the store's own port, too.
    let mut bare = unserved_of(&RequestSource { port: US.port, ..THEM });
    bare[ethernet::HEADER_LEN + ipv4::HEADER_LEN + 6..][..2].fill(0);
    assert_eq!(world.ask(bare).len(), 1);
    assert_eq!(world.station.counted().unreachable, 2);

    for peer in nobodies() {
        world.ignores(unserved_of(&peer), |of| of.refused);
    }
    let mut wrong = asked.clone();
    *wrong.last_mut().unwrap() ^= 1;
    world.ignores(wrong, |of| of.malformed);
    // Not an error of ICMP, whatever it is about.
    let reported = reported.as_bytes();
    world.ignores(packet(&THEM, (US.mac, US.ip), IpProtocol::ICMP, reported), |of| of.strange);
}

#[test]
fn in_a_second_it_is_said_only_so_often() {
    let mut world = World::new();
    for second in 0..3 {
        world.now = UnixTime(1000 + second);
        for _ in 0..UNREACHABLE_PER_S_MAX {
            assert_eq!(world.ask(unserved_of(&THEM)).len(), 1);
        }
        world.ignores(unserved_of(&THEM), |of| of.strange);
        world.ignores(unserved_of(&THEM), |of| of.strange);
        // A reset is no longer than what it answers.
        assert_eq!(world.ask(segment_of(&THEM, tcp::Flags::SYN, b"")).len(), 1);
    }
    assert_eq!(world.station.counted().unreachable, 3 * u64::from(UNREACHABLE_PER_S_MAX));
}
