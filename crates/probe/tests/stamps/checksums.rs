//! The UDP checksum of a stamped message is as true as it was before.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use niclab_packet::echo::{StampPoint, stamp};
use niclab_probe::Hook;

use crate::system::{Raw, offload_checksums, send_no_checksums};
use crate::udp::receive;
use crate::wire::{End, PORT, Wire, hooks, request};

/// The next UDP datagram to our port: the checksum in it, the one it ought to have, the one of its
/// pseudo header alone, and its payload.
fn datagram(raw: &Raw) -> (u16, u16, u16, Vec<u8>) {
    loop {
        let frame = raw.receive().expect("a frame arrives");
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let (Some(TransportSlice::Udp(udp)), Some(net)) = (packet.transport, packet.net) else {
            continue;
        };
        if udp.destination_port() != PORT {
            continue;
        }
        let (header, payload) = (udp.to_header(), udp.payload());
        let (right, addresses) = match net {
            NetSlice::Ipv4(ip) => {
                let ip = ip.header().to_header();
                let right = header.calc_checksum_ipv4(&ip, payload).unwrap();
                (right, [ip.source, ip.destination].concat())
            }
            NetSlice::Ipv6(ip) => {
                let ip = ip.header().to_header();
                let right = header.calc_checksum_ipv6(&ip, payload).unwrap();
                (right, [ip.source, ip.destination].concat())
            }
            _ => panic!("no IP"),
        };
        let mut pseudo: u32 = addresses
            .chunks_exact(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        pseudo += 17 + u32::from(udp.length());
        while pseudo > 0xffff {
            pseudo = (pseudo & 0xffff) + (pseudo >> 16);
        }
        return (udp.checksum(), right, pseudo as u16, payload.to_vec());
    }
}

#[test]
fn a_checksum_in_place_and_one_left_to_the_card_are_both_true_at_the_receiver() {
    const NAME: &str = "a_checksum_in_place_and_one_left_to_the_card_are_both_true_at_the_receiver";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        for (v6, offload) in [(false, true), (false, false), (true, true), (true, false)] {
            wire.within(End::Near, || offload_checksums("near", offload));
            let (_near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
            let raw = wire.raw(End::Far);
            let (client, server) = wire.udp_pair(v6);
            for number in 0..100 {
                let len = 128 + (number % 5) as u16;
                client.send(&request(len, number)).unwrap();
                // Before ingress, after egress.
                let (there, right, pseudo, payload) = datagram(&raw);
                let case = format!("{hook:?}, v6 {v6}, offload {offload}, message {number}");
                assert!(stamp(&payload, StampPoint::ClientEgress).is_some(), "{case}");
                assert_eq!(there, if offload { pseudo } else { right }, "{case}");
                // After ingress: the socket takes none whose sum is wrong.
                let (bytes, _) = receive(&server).expect(&case);
                assert!(stamp(&bytes, StampPoint::ServerIngress).is_some(), "{case}");
            }
            assert_eq!(far.counts().unwrap().payload, 100);
        }
    }
}

#[test]
fn a_datagram_without_a_checksum_gets_none() {
    const NAME: &str = "a_datagram_without_a_checksum_gets_none";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        let (_near, _far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
        let raw = wire.raw(End::Far);
        let (client, server) = wire.udp_pair(false);
        send_no_checksums(&client);
        client.send(&request(128, 1)).unwrap();
        let (there, _, _, payload) = datagram(&raw);
        assert_eq!(there, 0);
        assert!(stamp(&payload, StampPoint::ClientEgress).is_some());
        assert!(receive(&server).is_some());
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    const NAME: &str = "a_wrong_checksum_stays_wrong";
    let Some(wire) = Wire::lay(NAME) else { return };
    if !hooks(&wire, NAME).contains(&Hook::Clsact) {
        return;
    }
    let (_near, far) = (wire.attach(End::Near, Hook::Clsact), wire.attach(End::Far, Hook::Clsact));
    let (_, server) = wire.udp_pair(false);
    let raw = wire.raw(End::Near);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(End::Near.mac(), End::Far.mac())
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, PORT)
        .write(&mut frame, &request(128, 1))
        .unwrap();
    raw.send(&frame);
    assert!(receive(&server).is_some(), "with the right one it arrives");
    frame[40] ^= 1;
    raw.send(&frame);
    assert!(receive(&server).is_none(), "a wrong checksum was taken for a right one");
    assert_eq!(far.counts().unwrap().payload, 2);
}
