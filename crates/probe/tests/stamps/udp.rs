//! Messages in datagrams: stamped where they pass, in their payload or in the map.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};

use niclab_packet::echo::{Stamp, StampPoint, put_stamp, stamp, turn};
use niclab_probe::{Counts, Hook, MessageId, Stamps};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::system::new_tun;
use crate::wire::{End, PORT, Wire, hooks, now_ns, request};

/// What came, and `None` where nothing did.
pub fn receive(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut bytes = vec![0; 1 << 16];
    let (len, from) = socket.recv_from(&mut bytes).ok()?;
    bytes.truncate(len);
    Some((bytes, from))
}

/// Sends a request, turns it into a reply at the far end, and takes that; its bytes at both ends.
fn echo(client: &UdpSocket, server: &UdpSocket, request: &[u8]) -> (Vec<u8>, Vec<u8>) {
    client.send(request).unwrap();
    let (there, from) = receive(server).expect("the request arrives");
    let mut reply = there.clone();
    put_stamp(&mut reply, StampPoint::ServerReceive, Stamp { time_ns: now_ns(), core: None });
    turn(&mut reply);
    server.send_to(&reply, from).unwrap();
    (there, receive(client).expect("the reply arrives").0)
}

/// Runs `work` with the programs at both ends, by every hook and over both versions of IP.
fn everywhere(test: &str, work: impl Fn(&Wire, [&Stamps; 2], bool)) {
    let Some(wire) = Wire::lay(test) else { return };
    for hook in hooks(&wire, test) {
        for v6 in [false, true] {
            let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
            assert_eq!(near.hook(), hook);
            work(&wire, [&near, &far], v6);
        }
    }
}

/// Only on this core from now on; `false` where the machine has no such.
fn pin(core: usize) -> bool {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).is_ok()
}

#[test]
fn a_request_and_its_reply_are_stamped_at_both_ends_in_the_order_they_pass() {
    const NAME: &str = "a_request_and_its_reply_are_stamped_at_both_ends_in_the_order_they_pass";
    everywhere(NAME, |wire, [near, far], v6| {
        let (client, server) = wire.udp_pair(v6);
        for (number, len) in [(0, 128), (1, 129), (2, 1000), (3, 1400)] {
            let core = number as usize % 2;
            let pinned = pin(core);
            let sent = request(len, number);
            let (there, back) = echo(&client, &server, &sent);
            let after = now_ns();
            let places = [
                StampPoint::ClientSend,
                StampPoint::ClientEgress,
                StampPoint::ServerIngress,
                StampPoint::ServerReceive,
                StampPoint::ServerEgress,
                StampPoint::ClientIngress,
            ];
            let stamps =
                places.map(|place| stamp(&back, place).unwrap_or_else(|| panic!("{place:?}")));
            assert!(stamps.is_sorted_by(|a, b| a.time_ns <= b.time_ns), "{stamps:?}");
            assert!(stamps[5].time_ns <= after);
            assert!(stamps[1].time_ns < stamps[2].time_ns, "{stamps:?}");
            for at in [1, 4] {
                assert!(!pinned || stamps[at].core == Some(core as u16), "{stamps:?}");
            }
            assert!(stamps[2].core.is_some() && stamps[5].core.is_some());
            assert_eq!((stamps[0].core, stamps[3].core), (None, None));
            // The server sees the two of the way there, and nothing else is touched.
            assert_eq!(stamp(&there, StampPoint::ServerEgress), None);
            assert_eq!(there[..24], sent[..24]);
            assert_eq!(back[96..], sent[96..]);
            let id = MessageId { run: 3, number };
            assert_eq!(near.message(id, StampPoint::ClientEgress).unwrap(), None);
        }
        let counts = Counts { payload: 8, ..Counts::default() };
        assert_eq!([near.counts().unwrap(), far.counts().unwrap()], [counts; 2]);
    });
}

#[test]
fn short_messages_and_fragmented_ones_are_stamped_in_the_map_and_stay_as_they_are() {
    const NAME: &str =
        "short_messages_and_fragmented_ones_are_stamped_in_the_map_and_stay_as_they_are";
    everywhere(NAME, |wire, [near, far], v6| {
        let (client, server) = wire.udp_pair(v6);
        for (number, len) in [(10, 16), (11, 64), (12, 127), (13, 9000), (14, 60_000)] {
            let before = now_ns();
            let mut sent = request(len, number);
            let (there, mut back) = echo(&client, &server, &sent);
            assert!(there == sent, "{len} bytes changed");
            turn(&mut sent);
            put_stamp(&mut sent, StampPoint::ServerReceive, Stamp { time_ns: 0, core: None });
            put_stamp(&mut back, StampPoint::ServerReceive, Stamp { time_ns: 0, core: None });
            assert!(back == sent, "{len} bytes changed");
            let id = MessageId { run: 3, number };
            let at = |stamps: &Stamps, place| stamps.message(id, place).unwrap();
            let passed = [
                at(near, StampPoint::ClientEgress),
                at(far, StampPoint::ServerIngress),
                at(far, StampPoint::ServerEgress),
                at(near, StampPoint::ClientIngress),
            ]
            .map(|stamp| stamp.expect("a stamp").time_ns);
            assert!(passed.is_sorted() && before < passed[0] && passed[3] < now_ns(), "{passed:?}");
            assert_eq!(
                (at(far, StampPoint::ClientEgress), at(near, StampPoint::ServerIngress)),
                (None, None)
            );
            assert_eq!(
                at(near, StampPoint::ClientEgress).unwrap().core.map(|core| core < 1024),
                Some(true)
            );
        }
        let counts = Counts { map: 10, ..Counts::default() };
        assert_eq!([near.counts().unwrap(), far.counts().unwrap()], [counts; 2]);

        // 65,536 later the entry of a message is another's, and nothing of its stamps is left.
        let later = MessageId { run: 3, number: 11 + (1 << 16) };
        client.send(&request(64, later.number)).unwrap();
        assert!(receive(&server).is_some());
        let id = MessageId { run: 3, number: 11 };
        assert_eq!(near.message(id, StampPoint::ClientEgress).unwrap(), None);
        assert!(near.message(later, StampPoint::ClientEgress).unwrap().is_some());
        assert_eq!(near.message(later, StampPoint::ClientIngress).unwrap(), None);

        near.clear().unwrap();
        let id = MessageId { run: 3, number: 13 };
        assert_eq!(near.message(id, StampPoint::ClientEgress).unwrap(), None);
        assert!(far.message(id, StampPoint::ServerIngress).unwrap().is_some());
        assert_eq!(near.counts().unwrap(), Counts { map: 11, ..Counts::default() });
    });
}

#[test]
fn behind_a_vlan_tag_messages_are_stamped_as_well() {
    const NAME: &str = "behind_a_vlan_tag_messages_are_stamped_as_well";
    let Some(wire) = Wire::lay(NAME) else { return };
    let hook = Hook::Clsact;
    if !hooks(&wire, NAME).contains(&hook) {
        return;
    }
    let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(End::Near.mac(), End::Far.mac())
        .single_vlan(etherparse::VlanId::try_new(5).unwrap())
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, PORT)
        .write(&mut frame, &request(200, 1))
        .unwrap();
    wire.raw(End::Near).send(&frame);
    let counts = Counts { payload: 1, ..Counts::default() };
    assert_eq!([near.counts().unwrap(), far.counts().unwrap()], [counts; 2]);
}

#[test]
fn at_the_loopback_one_interface_stamps_for_both_ends() {
    const NAME: &str = "at_the_loopback_one_interface_stamps_for_both_ends";
    let Some(wire) = Wire::lay(NAME) else { return };
    wire.type_in(End::Near, "ip link set lo up");
    for hook in hooks(&wire, NAME) {
        let stamps = wire.within(End::Near, || Stamps::attach_by(hook, 1, PORT)).unwrap();
        let server = wire.udp(End::Near, ([127, 0, 0, 1], PORT).into());
        let client = wire.udp(End::Near, ([127, 0, 0, 1], 0).into());
        client.connect(SocketAddr::from(([127, 0, 0, 1], PORT))).unwrap();
        let (_, back) = echo(&client, &server, &request(128, 1));
        let places = [
            StampPoint::ClientEgress,
            StampPoint::ServerIngress,
            StampPoint::ServerEgress,
            StampPoint::ClientIngress,
        ];
        let times = places.map(|place| stamp(&back, place).expect("a stamp").time_ns);
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(stamps.counts().unwrap(), Counts { payload: 4, ..Counts::default() });
    }
}

#[test]
fn packets_without_an_ethernet_header_are_stamped_as_well() {
    const NAME: &str = "packets_without_an_ethernet_header_are_stamped_as_well";
    let Some(wire) = Wire::lay(NAME) else { return };
    let mut tun = match wire.within(End::Near, || new_tun("bare")) {
        Ok(tun) => tun,
        Err(e) => return println!("SKIP {NAME}: no tun interfaces here: {e}"),
    };
    wire.type_in(End::Near, "ip link set bare up");
    wire.type_in(End::Near, "ip addr add 10.9.0.1/24 dev bare");
    let shown = wire.type_in(End::Near, "ip -o link show bare");
    let index: u32 = shown.split(':').next().unwrap().parse().unwrap();
    for hook in hooks(&wire, NAME) {
        let stamps = wire.within(End::Near, || Stamps::attach_by(hook, index, PORT)).unwrap();
        let server = wire.udp(End::Near, ([10, 9, 0, 1], PORT).into());
        let mut packet = Vec::new();
        etherparse::PacketBuilder::ipv4([10, 9, 0, 2], [10, 9, 0, 1], 64)
            .udp(4000, PORT)
            .write(&mut packet, &request(128, 1))
            .unwrap();
        tun.write_all(&packet).unwrap();
        let (bytes, _) = receive(&server).expect("it arrives, with a right checksum");
        assert!(stamp(&bytes, StampPoint::ServerIngress).is_some());
        let mut reply = bytes.clone();
        turn(&mut reply);
        server.send_to(&reply, SocketAddr::from(([10, 9, 0, 2], 4000))).unwrap();
        // The kernel says things of its own on a new interface.
        let mut packet = vec![0; 2000];
        let mut len = 0;
        while packet[0] != 0x45 {
            len = tun.read(&mut packet).unwrap();
        }
        assert!(stamp(&packet[28..len], StampPoint::ServerEgress).is_some());
        assert_eq!(stamps.counts().unwrap(), Counts { payload: 2, ..Counts::default() });
    }
}
