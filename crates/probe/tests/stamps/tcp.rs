//! Streams: every end of a segment is stamped, and no segment changed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use etherparse::PacketBuilder;
use niclab_probe::{Counts, Direction, Flow, Hook, Stamps, sequence_behind};

use crate::wire::{End, PORT, Wire, hooks, now_ns};

#[test]
fn what_is_written_to_a_stream_is_stamped_by_where_it_ends() {
    const NAME: &str = "what_is_written_to_a_stream_is_stamped_by_where_it_ends";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        for v6 in [false, true] {
            stream(&wire, hook, v6);
        }
    }
}

fn stream(wire: &Wire, hook: Hook, v6: bool) {
    let (near, far) = (wire.attach(End::Near, hook), wire.attach(End::Far, hook));
    let address = SocketAddr::new(End::Far.ip(v6), PORT);
    let listener = wire.within(End::Far, || TcpListener::bind(address)).unwrap();
    let mut client = wire.within(End::Near, || TcpStream::connect(address)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();

    let there = Flow { source: client.local_addr().unwrap(), target: address };
    let beginning = |stamps: &Stamps, flow| stamps.beginning(flow).unwrap();
    let began = beginning(&near, there).expect("the opening was seen");
    assert_eq!(beginning(&far, there), Some(began));
    let answered = beginning(&near, there.turned()).expect("its answer was seen");
    assert_eq!(beginning(&far, there.turned()), Some(answered));

    // One message at a time: each ends a segment, however many it takes.
    let (mut sent, mut came) = (0, 0);
    for len in [1, 100, 1448, 5000, 100_000] {
        let before = now_ns();
        let written: Vec<u8> = (0..len).map(|at: u32| (at * 31) as u8).collect();
        let mut read = vec![0; written.len()];
        thread::scope(|scope| {
            scope.spawn(|| client.write_all(&written).unwrap());
            server.read_exact(&mut read).unwrap();
        });
        assert!(written == read, "{len} bytes changed on the way");
        sent += u64::from(len);
        server.write_all(&[7; 33]).unwrap();
        client.read_exact(&mut [0; 33]).unwrap();
        came += 33;

        let at = |stamps: &Stamps, flow, direction, began, bytes| {
            let end = sequence_behind(began, bytes);
            stamps.segment(flow, direction, end).unwrap().expect("a stamp of the end").time_ns
        };
        let passed = [
            at(&near, there, Direction::Egress, began, sent),
            at(&far, there, Direction::Ingress, began, sent),
            at(&far, there.turned(), Direction::Egress, answered, came),
            at(&near, there.turned(), Direction::Ingress, answered, came),
        ];
        assert!(passed.is_sorted() && before < passed[0] && passed[3] < now_ns(), "{passed:?}");
    }
    // All of a flow: the ends rise, and the last is that of the stream.
    let ends = near.segments(there, Direction::Egress).unwrap();
    let offsets: Vec<u32> = ends.iter().map(|(end, _)| end.wrapping_sub(began)).collect();
    // TCP sends a segment again if its acknowledgement is late: that end is behind a greater one.
    let (mut rising, mut repeated) = (vec![offsets[0]], 0);
    for offset in &offsets[1..] {
        match rising.last().is_some_and(|last| offset > last) {
            true => rising.push(*offset),
            false => repeated += 1,
        }
    }
    assert!(rising.len() >= 5 && repeated < rising.len(), "{offsets:?}");
    assert_eq!(rising.last().copied(), Some(sent as u32 + 1));
    assert_eq!(near.segments(there, Direction::Ingress).unwrap(), []);
    let counts = near.counts().unwrap();
    assert_eq!(counts, Counts { segments: counts.segments, ..Counts::default() });
    near.clear().unwrap();
    assert_eq!(near.segments(there, Direction::Egress).unwrap(), []);
    assert_eq!(beginning(&near, there), Some(began));
}

#[test]
fn the_first_stamp_of_a_segment_stays_when_it_is_sent_again() {
    const NAME: &str = "the_first_stamp_of_a_segment_stays_when_it_is_sent_again";
    let Some(wire) = Wire::lay(NAME) else { return };
    for hook in hooks(&wire, NAME) {
        let near = wire.attach(End::Near, hook);
        let (raw, seen) = (wire.raw(End::Near), wire.raw(End::Far));
        let flow = Flow {
            source: SocketAddr::new(End::Near.ip(false), 4000),
            target: SocketAddr::new(End::Far.ip(false), PORT),
        };
        let segment = |sequence, len: usize| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2(End::Near.mac(), End::Far.mac())
                .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
                .tcp(4000, PORT, sequence, 1000)
                .write(&mut frame, &vec![1; len])
                .unwrap();
            frame
        };
        // Across the end of the numbers.
        let frame = segment(u32::MAX - 9, 100);
        raw.send(&frame);
        let first = near.segment(flow, Direction::Egress, 90).unwrap().expect("a stamp");
        raw.send(&frame);
        assert_eq!(near.segment(flow, Direction::Egress, 90).unwrap(), Some(first));
        raw.send(&segment(90, 0)); // an acknowledgement alone
        assert_eq!(near.counts().unwrap(), Counts { segments: 1, ..Counts::default() });
        // An opening that has bytes with it, which come behind the number that it takes itself.
        let mut opening = segment(500, 10);
        opening[47] |= 2;
        raw.send(&opening);
        assert_eq!(near.beginning(flow).unwrap(), Some(500));
        let end = sequence_behind(500, 10);
        assert!(near.segment(flow, Direction::Egress, end).unwrap().is_some());
        let tcp = std::iter::from_fn(|| seen.receive()).find(|frame| frame.get(23) == Some(&6));
        assert_eq!(tcp, Some(frame), "a segment was changed");
    }
}

#[test]
fn at_the_loopback_a_segment_is_stamped_both_ways() {
    const NAME: &str = "at_the_loopback_a_segment_is_stamped_both_ways";
    let Some(wire) = Wire::lay(NAME) else { return };
    wire.type_in(End::Near, "ip link set lo up");
    for hook in hooks(&wire, NAME) {
        let stamps = wire.within(End::Near, || Stamps::attach_by(hook, 1, PORT)).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], PORT));
        let listener = wire.within(End::Near, || TcpListener::bind(address)).unwrap();
        let mut client = wire.within(End::Near, || TcpStream::connect(address)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 64]).unwrap();
        server.read_exact(&mut [0; 64]).unwrap();
        let flow = Flow { source: client.local_addr().unwrap(), target: address };
        let end = sequence_behind(stamps.beginning(flow).unwrap().unwrap(), 64);
        let [out, back] = [Direction::Egress, Direction::Ingress]
            .map(|direction| stamps.segment(flow, direction, end).unwrap().expect("a stamp"));
        assert!(out.time_ns < back.time_ns, "{out:?} {back:?}");
    }
}
