//! Frames are read as Suricata decodes them, or refused with a reason.

use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{ethernet, gre, icmp, ipv4, ipv6, tcp, udp, vlan};

use super::*;

fn frame(layers: &[Layer]) -> Vec<u8> {
    build(&[&[ethernet::Repr::default().into()], layers].concat()).unwrap()
}

fn four() -> Layer {
    let [src, dst] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
    ipv4::Repr { src, dst, ..Default::default() }.into()
}

fn payload() -> Layer {
    Layer::Payload(b"abcdefgh".to_vec())
}

#[test]
fn headers_give_ports_flags_and_payload() {
    let flags = tcp::Flags::SYN | tcp::Flags::ACK;
    let segment = tcp::Repr { src_port: 5, dst_port: 80, flags, ..Default::default() };
    let mut bytes = frame(&[vlan::Repr::default().into(), four(), segment.into(), payload()]);
    bytes.extend([0; 9]);
    let packet = InspectedPacket::read(&bytes).unwrap();
    assert_eq!((packet.protocol, packet.ports, packet.flags), (6, Some([5, 80]), Some(0x12)));
    assert_eq!(packet.payload, b"abcdefgh", "without what pads the frame");
    let [src, dst] = ["fd00::1", "fd00::2"].map(|address| address.parse().unwrap());
    let six = ipv6::Repr { src, dst, ..Default::default() };
    let datagram = udp::Repr { src_port: 7, dst_port: 53, ..Default::default() };
    let bytes = frame(&[six.into(), datagram.into(), payload()]);
    let packet = InspectedPacket::read(&bytes).unwrap();
    assert_eq!((packet.source, packet.ports), (src.into(), Some([7, 53])));
}

#[test]
fn the_payload_of_icmp_is_where_suricata_sees_it() {
    let read = |kind: u8, protocol: u8| {
        let message = icmp::Repr { message_type: icmp::MessageType(kind), code: 0, rest: 0 };
        let mut bytes = frame(&[four(), message.into(), Layer::Payload(vec![0; 16])]);
        bytes[14 + 9] = protocol;
        let packet = transport(protocol, [10, 0, 0, 1].into(), [10, 0, 0, 2].into(), &bytes[34..]);
        packet.map(|packet| packet.payload.len())
    };
    assert_eq!((read(8, 1), read(13, 1), read(3, 1)), (Ok(16), Ok(4), Ok(16)));
    assert_eq!(read(9, 1), Err(NotInspected::Header));
    assert_eq!((read(128, 58), read(135, 58)), (Ok(16), Ok(12)));
}

#[test]
fn frames_that_need_more_than_themselves_are_refused() {
    let refused = |layers: &[Layer]| InspectedPacket::read(&frame(layers)).unwrap_err();
    let fragment = ipv4::Repr { more_fragments: true, ..Default::default() };
    assert_eq!(refused(&[fragment.into(), payload()]), NotInspected::Fragment);
    let inner = [four(), tcp::Repr::default().into()];
    assert_eq!(
        refused(&[&[four(), gre::Repr::default().into()], &inner[..]].concat()),
        NotInspected::Tunnel
    );
    let vxlan = udp::Repr { src_port: 9, dst_port: 4789, ..Default::default() };
    assert_eq!(refused(&[four(), vxlan.into(), payload()]), NotInspected::Tunnel);
    assert_eq!(InspectedPacket::read(&[0; 60]), Err(NotInspected::NotIp));
    let whole = frame(&[four(), tcp::Repr::default().into(), payload()]);
    for len in 0..whole.len() {
        assert!(InspectedPacket::read(&whole[..len]).is_err(), "{len} bytes");
    }
    for offset in [0xf0, 0x40] {
        let mut wrong = whole.clone();
        wrong[14 + 20 + 12] = offset;
        assert_eq!(InspectedPacket::read(&wrong), Err(NotInspected::Header));
    }
}

#[test]
fn options_of_ipv4_must_fit() {
    assert!(has_sound_options(&[1, 1, 7, 3, 4, 0, 9, 9]) && has_sound_options(&[]));
    for wrong in [&[7, 9, 1][..], &[7, 1, 0, 0], &[7, 0, 0, 0], &[1, 7]] {
        assert!(!has_sound_options(wrong), "{wrong:?}");
    }
}
