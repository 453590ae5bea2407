//! What is not ours passes as if nobody looked.

use etherparse::PacketBuilder;
use niclab_packet::echo::{MessageHeader, MessageKind};
use niclab_probe::Counts;

use crate::udp::receive;
use crate::wire::{End, PORT, Wire, hooks, request};

fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(End::Near.mac(), End::Far.mac())
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, port)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// Messages that are not whole or not of this version: with our magic number, and counted.
fn refused() -> Vec<Vec<u8>> {
    let changed = |at: usize, byte: u8| {
        let mut message = request(200, 1);
        message[at] = byte;
        message
    };
    let mut longer = request(200, 1);
    longer.push(0);
    let mut short = vec![0; 128];
    MessageHeader { kind: MessageKind::Request, len: 15, run: 1, number: 1 }.write(&mut short);
    vec![changed(4, 2), changed(5, 0), changed(5, 3), changed(7, 199), changed(6, 1), longer, short]
}

#[test]
fn with_our_magic_but_no_message_of_ours_a_datagram_passes_and_is_counted() {
    const NAME: &str = "with_our_magic_but_no_message_of_ours_a_datagram_passes_and_is_counted";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
        let (client, server) = wire.udp_pair(false);
        let all = refused();
        for sent in &all {
            client.send(sent).unwrap();
            let (came, _) = receive(&server).expect("it arrives");
            assert!(came == *sent, "changed: {:?}", &sent[..16]);
        }
        // A datagram that says another length than its packet and its message do.
        let (raw, seen) = (wire.raw(End::Near), wire.raw(End::Far));
        let mut frame = datagram(PORT, &request(200, 1));
        frame[39] -= 1;
        raw.send(&frame);
        assert!(std::iter::from_fn(|| seen.receive()).any(|came| came == frame), "changed");
        let counts = Counts { refused: all.len() as u64 + 1, ..Counts::default() };
        assert_eq!([near.counts().unwrap(), far.counts().unwrap()], [counts; 2]);
    }
}

#[test]
fn foreign_frames_pass_untouched_and_are_not_counted() {
    const NAME: &str = "foreign_frames_pass_untouched_and_are_not_counted";
    let Some(wire) = Wire::lay(NAME) else { return };
    let ours = request(200, 1);
    let mut frames = vec![
        datagram(9, &ours),
        datagram(PORT, b"short"),
        datagram(PORT, &[0; 300]),
        [&[0xff; 12][..], &[0x08, 0x06], &[7; 46]].concat(),
        [&[0xff; 12][..], &[0x88, 0xb5], &[7; 46]].concat(),
        [&[0xff; 12][..], &[0x86, 0xdd], &[0x60; 30]].concat(),
    ];
    // Headers that end too early, an unknown version of IP, and a fragment that is not the first.
    let whole = datagram(PORT, &ours);
    frames.extend((15..50).map(|len| whole[..len].to_vec()));
    let changed = |at: usize, byte: u8| {
        let mut frame = whole.clone();
        frame[at] = byte;
        frame
    };
    frames.extend([changed(14, 0x55), changed(21, 9), changed(23, 132)]);
    for hook in hooks(&wire, NAME) {
        let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
        let (raw, seen) = (wire.raw(End::Near), wire.raw(End::Far));
        for frame in &frames {
            raw.send(frame);
            let from_near = |came: &Vec<u8>| came.len() == frame.len() && came == frame;
            assert!(
                std::iter::from_fn(|| seen.receive()).any(|came| from_near(&came)),
                "{frame:?}"
            );
        }
        for stamps in [&near, &far] {
            assert_eq!(stamps.counts().unwrap(), Counts::default());
        }
    }
}
