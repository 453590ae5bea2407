//! Frames are whole and as declared, whichever tape writes them.

use niclab_packet::flow::{FlowSet, FlowSpec, IpVersion, Transport};
use niclab_packet::size::FrameSizes;
use niclab_packet::stack::walk;

use super::*;
use crate::spec::{Arrivals, Load, Rate};
use crate::stamp::Stamp;

fn load(flows: FlowSpec, sizes: FrameSizes) -> Load {
    Load {
        flows,
        sizes,
        rate: Rate::Saturate,
        arrivals: Arrivals::Constant,
        duration_ns: 1,
        warmup_ns: 0,
        seed: 5,
        trace: None,
    }
}

/// Every frame of a tape is whole, of its size, of the flow its stamp names, in its number.
fn check<const N: usize>(flows: FlowSpec, sizes: FrameSizes) {
    let load = load(flows, sizes);
    let set = FlowSet::new(&load.flows).unwrap();
    let picks = FlowSequence::Drawn(set.picker(load.seed));
    let mut tape = FlowTape::<N>::new(&load, &set, picks).unwrap();
    let mut next = vec![0; load.flows.count as usize];
    let mut slot = vec![0xff; 2_048];
    for k in 0..5_000 {
        let len = usize::from(tape.write(&mut slot, k * 1_000, k));
        let frame = &slot[..len];
        assert_eq!(len + 4, usize::from(sizes.size(k)));
        assert_eq!(walk(frame).checksum_errors(), [], "frame {k}");
        let stamp = Stamp::of_frame(frame).unwrap();
        assert_eq!((stamp.planned_ns, stamp.late_ns), (k * 1_000, k & !63));
        let tuple = set.tuple(stamp.flow);
        let key = niclab_packet::key::Key::parse(frame).to_bytes();
        let ports = [tuple.sport.to_be_bytes(), tuple.dport.to_be_bytes()].concat();
        assert_eq!(key[24..28], ports[..]);
        assert_eq!(stamp.sequence, next[stamp.flow as usize]);
        next[stamp.flow as usize] += 1;
    }
}

#[test]
fn frames_are_whole_whatever_the_headers_and_the_size() {
    for proto in [Transport::Udp, Transport::Tcp] {
        for size in [84, 101, 128, 1_517, 1_518] {
            let v4 = FlowSpec { count: 100, proto, ..FlowSpec::default() };
            check::<12>(v4.clone(), FrameSizes::Fixed(size));
            let v6 = FlowSpec { version: IpVersion::V6, ..v4 };
            check::<36>(v6, FrameSizes::Fixed(size.max(96)));
        }
    }
    check::<12>(FlowSpec { count: 100, ..FlowSpec::default() }, FrameSizes::Imix);
}

#[test]
fn skipping_counts_the_bytes_that_writing_would_have_sent() {
    let mut sizes = Sizes::new(FrameSizes::Imix.period().to_vec());
    let mut sent = 0;
    for count in [0, 1, 11, 12, 13, 1_000] {
        let written: u64 = (sent..sent + count).map(|k| u64::from(FrameSizes::Imix.size(k))).sum();
        assert_eq!(sizes.skip(count), written);
        sent += count;
    }
}

#[test]
fn the_smallest_frames_are_those_of_the_general_tape_byte_for_byte() {
    let flows = FlowSpec { count: 1_000, ..FlowSpec::default() };
    let load = load(flows, FrameSizes::Fixed(64));
    let set = FlowSet::new(&load.flows).unwrap();
    let picks = || FlowSequence::Drawn(set.picker(load.seed));
    let mut general = FlowTape::<12>::new(&load, &set, picks()).unwrap();
    assert!(SmallestTape::fits(&load));
    let mut smallest = SmallestTape::new(&set, picks()).unwrap();
    let (mut a, mut long, mut short) = ([0xff; 64], [0x11; 64], [0x11; 60]);
    for k in 0..100_000_u64 {
        let b = if k % 2 == 0 { &mut long[..] } else { &mut short[..] };
        let planned_ns = k * 0x1_2345_6789;
        let len = general.write(&mut a, planned_ns, k << 3);
        assert_eq!(smallest.write(b, planned_ns, k << 3), len);
        assert_eq!(a[..60], b[..60], "frame {k}");
    }
    let other = Load { sizes: FrameSizes::Fixed(65), ..load };
    assert!(!SmallestTape::fits(&other));
}

#[test]
fn the_flows_of_a_list_come_in_its_order_and_over_again() {
    let load = load(FlowSpec { count: 10, ..FlowSpec::default() }, FrameSizes::Fixed(64));
    let set = FlowSet::new(&load.flows).unwrap();
    let mut tape = SmallestTape::new(&set, FlowSequence::listed(vec![7, 2, 2])).unwrap();
    let mut slot = [0; 64];
    let mut next = || {
        let len = usize::from(tape.write(&mut slot, 0, 0));
        Stamp::of_frame(&slot[..len]).map(|stamp| (stamp.flow, stamp.sequence)).unwrap()
    };
    let first: Vec<(u32, u32)> = (0..6).map(|_| next()).collect();
    assert_eq!(first, [(7, 0), (2, 0), (2, 1), (7, 1), (2, 2), (2, 3)]);
}
