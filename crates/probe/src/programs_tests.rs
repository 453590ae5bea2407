//! The programs run by the kernel on frames made here (`BPF_PROG_TEST_RUN`), without an interface.

use std::mem::MaybeUninit;

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use libbpf_rs::{ProgramInput, ProgramMut};
use niclab_packet::echo::{self, MessageHeader, MessageKind, Stamp, StampPoint};

use crate::clsact::Direction;
use crate::error::ProbeError;
use crate::maps::{Flow, Maps, segment_entry};
use crate::programs::{load, maps};

const PORT: u16 = 7000;

/// The kernel sums up the whole frame before, as some cards do, and compares after (Linux 6.16).
const CHECKSUM_COMPLETE: u32 = 1 << 2;

/// `TC_ACT_UNSPEC`.
const GO_ON: u32 = u32::MAX;

/// A request that has been stamped before.
fn message(len: u16, number: u32) -> Vec<u8> {
    let mut message = vec![0; usize::from(len)];
    MessageHeader { kind: MessageKind::Request, len, run: 7, number }.write(&mut message);
    for place in [StampPoint::ClientEgress, StampPoint::ServerIngress] {
        let old = Stamp { time_ns: 0x1234_5678_9abc_def1, core: Some(513) };
        echo::put_stamp(&mut message, place, old);
    }
    message
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ip {
    V4,
    V6,
}

fn udp(ip: Ip, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let builder = match ip {
        Ip::V4 => builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
        Ip::V6 => builder.ipv6([1; 16], [2; 16], 64),
    };
    let mut frame = Vec::new();
    builder.udp(4000, PORT).write(&mut frame, payload).unwrap();
    frame
}

/// A segment of 100 bytes.
fn tcp((host, port): (u8, u16), sequence: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, host], [10, 0, 0, 2], 64)
        .tcp(port, PORT, sequence, 1000)
        .write(&mut frame, &[0; 100])
        .unwrap();
    frame
}

/// UDP checksum as it stands in the frame, and as it ought to be; and the payload.
fn parse(frame: &[u8]) -> (u16, u16, Vec<u8>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!("no UDP") };
    let header = udp.to_header();
    let right = match packet.net.unwrap() {
        etherparse::NetSlice::Ipv4(ip) => {
            header.calc_checksum_ipv4(&ip.header().to_header(), udp.payload())
        }
        etherparse::NetSlice::Ipv6(ip) => {
            header.calc_checksum_ipv6(&ip.header().to_header(), udp.payload())
        }
        _ => panic!("no IP"),
    };
    (udp.checksum(), right.unwrap(), udp.payload().to_vec())
}

/// Runs a program once; the frame that came out of it.
fn run(program: &ProgramMut<'_>, frame: &[u8], flags: u32) -> libbpf_rs::Result<Vec<u8>> {
    let mut out = vec![0; frame.len() + 64];
    let input = ProgramInput {
        data_in: Some(frame),
        data_out: Some(&mut out),
        flags,
        ..ProgramInput::default()
    };
    let output = program.test_run(input)?;
    assert_eq!(output.return_value, GO_ON);
    Ok(output.data.unwrap().to_vec())
}

/// Loads the programs and calls `work`, or says why not.
fn with_programs(test: &str, work: impl FnOnce(&ProgramMut<'_>, &ProgramMut<'_>, &Maps)) {
    let mut object = MaybeUninit::uninit();
    match load(&mut object, PORT, 14) {
        Ok(skeleton) => work(
            &skeleton.progs.niclab_egress,
            &skeleton.progs.niclab_ingress,
            &maps(&skeleton).unwrap(),
        ),
        Err(ProbeError::NotAllowed { .. }) => println!("SKIP {test}: needs root"),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_sum_of_the_whole_packet_stays_true_with_a_udp_checksum_and_without() {
    const NAME: &str = "a_sum_of_the_whole_packet_stays_true_with_a_udp_checksum_and_without";
    with_programs(NAME, |egress, ingress, _| {
        let plain = udp(Ip::V4, b"x");
        if run(egress, &plain, CHECKSUM_COMPLETE).is_err() {
            return println!("SKIP {NAME}: the kernel cannot sum up test frames (6.16 can)");
        }
        for ip in [Ip::V4, Ip::V6] {
            for number in 0..50 {
                let frame = udp(ip, &message(128 + (number % 3) as u16, number));
                let at = if ip == Ip::V4 { 40 } else { 60 };
                let mut without = frame.clone();
                without[at..at + 2].fill(0);
                // The kernel itself fails the run where the sum does not fit.
                for program in [egress, ingress] {
                    let (there, right, _) =
                        parse(&run(program, &frame, CHECKSUM_COMPLETE).unwrap());
                    assert_eq!(there, right, "{ip:?}");
                    let out = run(program, &without, CHECKSUM_COMPLETE).unwrap();
                    assert_eq!(parse(&out).0, 0, "{ip:?}");
                    let place = if std::ptr::eq(program, egress) {
                        StampPoint::ClientEgress
                    } else {
                        StampPoint::ServerIngress
                    };
                    let stamp = echo::stamp(&parse(&out).2, place).unwrap();
                    assert!(stamp.core < Some(512) && stamp.time_ns < 1 << 60, "{stamp:?}");
                }
            }
        }
    });
}

/// One time in 65,536 the corrected checksum is 0, which would mean that there is none.
#[test]
fn a_checksum_that_comes_out_as_zero_is_written_as_all_ones() {
    const NAME: &str = "a_checksum_that_comes_out_as_zero_is_written_as_all_ones";
    with_programs(NAME, |egress, _, _| {
        let mut frame = udp(Ip::V4, &message(128, 1));
        let mut ones = 0;
        for number in 0..400_000_u32 {
            // The number changes, and with it the sum: taken in where the message says nothing.
            let word = (number % 0xffff) as u16;
            let spare = frame.len() - 2;
            let before = u16::from_be_bytes([frame[spare], frame[spare + 1]]);
            frame[spare..].copy_from_slice(&word.to_be_bytes());
            let sum = u16::from_be_bytes([frame[40], frame[41]]);
            let sum = replaced(sum, before, word);
            frame[40..42].copy_from_slice(&sum.to_be_bytes());
            let out = run(egress, &frame, 0).unwrap();
            let there = u16::from_be_bytes([out[40], out[41]]);
            assert_ne!(there, 0);
            if there == 0xffff {
                assert_eq!(parse(&out).1, 0xffff);
                ones += 1;
            }
        }
        assert!(ones > 0, "not one of 400,000 checksums came out as zero");
    });
}

/// A checksum after one word of what it covers was replaced (RFC 1624, equation 3).
fn replaced(sum: u16, from: u16, to: u16) -> u16 {
    let mut new = u32::from(!sum) + u32::from(!from) + u32::from(to);
    while new > 0xffff {
        new = (new & 0xffff) + (new >> 16);
    }
    match !(new as u16) {
        0 => 0xffff,
        sum => sum,
    }
}

#[test]
fn segments_that_share_an_entry_are_told_apart_and_the_later_has_it() {
    const NAME: &str = "segments_that_share_an_entry_are_told_apart_and_the_later_has_it";
    const END: u32 = 101;
    const HERE: (u8, u16) = (1, 4000);
    let flow = |(host, port)| Flow {
        source: ([10, 0, 0, host], port).into(),
        target: ([10, 0, 0, 2], PORT).into(),
    };
    let entry = |source, end| segment_entry(&flow(source).key(), Direction::Egress, end);
    with_programs(NAME, |egress, ingress, maps| {
        let stamp = |source, direction, end| maps.segment(flow(source), direction, end).unwrap();
        let first = || stamp(HERE, Direction::Egress, END);

        // Another flow with the same end, and another end in the same flow.
        let mut others = (3..=255).flat_map(|host| (1..PORT).map(move |port| (host, port)));
        let other = others.find(|source| entry(*source, END) == entry(HERE, END)).unwrap();
        let end = (END + 1..).find(|end| entry(HERE, *end) == entry(HERE, END)).unwrap();
        for (source, end) in [(other, END), (HERE, end)] {
            run(egress, &tcp(HERE, END - 100), 0).unwrap();
            assert!(first().is_some());
            run(egress, &tcp(source, end - 100), 0).unwrap();
            assert_eq!(first(), None, "taken over by {source:?}, {end}");
            assert!(stamp(source, Direction::Egress, end).is_some());
        }
        // The same segment the other way has another entry.
        run(ingress, &tcp(HERE, end - 100), 0).unwrap();
        assert!(stamp(HERE, Direction::Egress, end).is_some());
        assert!(stamp(HERE, Direction::Ingress, end).is_some());
    });
}

/// No test: prints what a stamp costs, `cargo test -p niclab-probe --release -- --ignored price
/// --nocapture`.
#[test]
#[ignore = "a measurement: prints the price of a stamp"]
fn price() {
    const REPEATS: u32 = 1_000_000;
    with_programs("price", |egress, ingress, _| {
        let mut other = udp(Ip::V4, &message(128, 1));
        other[36..38].copy_from_slice(&9_u16.to_be_bytes());
        let frames = [
            ("of another port", other),
            ("in the payload, IPv4, 128 bytes", udp(Ip::V4, &message(128, 1))),
            ("in the payload, IPv6, 128 bytes", udp(Ip::V6, &message(128, 1))),
            ("in the payload, IPv4, 1400 bytes", udp(Ip::V4, &message(1400, 1))),
            ("in the table, 64 bytes", udp(Ip::V4, &message(64, 1))),
            ("TCP, an end seen before", tcp((1, 4000), 1)),
        ];
        for (what, frame) in frames {
            for (name, program) in [("egress", egress), ("ingress", ingress)] {
                let once = || {
                    let input = ProgramInput {
                        data_in: Some(&frame),
                        repeat: REPEATS,
                        ..ProgramInput::default()
                    };
                    program.test_run(input).unwrap().duration.as_nanos()
                };
                let mut times: Vec<u128> = (0..5).map(|_| once()).collect();
                times.sort_unstable();
                println!("{name} {what}: {} ns ({} to {})", times[2], times[0], times[4]);
            }
        }
    });
}

#[test]
fn a_program_that_the_verifier_refuses_is_an_error_with_the_end_of_its_log() {
    use crate::skeleton::StampsSkelBuilder;
    use libbpf_rs::ProgramType;
    use libbpf_rs::skel::{OpenSkel, SkelBuilder};
    const NAME: &str = "a_program_that_the_verifier_refuses_is_an_error_with_the_end_of_its_log";

    with_programs(NAME, |_, _, _| {
        let mut object = MaybeUninit::uninit();
        let mut open = StampsSkelBuilder::default().open(&mut object).unwrap();
        // One that is not given what ours reads.
        open.progs.niclab_egress.set_prog_type(ProgramType::Xdp);
        let Err(error) = open.load() else { panic!("the verifier let it in") };
        let ProbeError::Refused { log } = crate::programs::why(&error) else { panic!("{error}") };
        assert!(log.contains("invalid bpf_context access"), "{log}");
    });
}
