//! The card's programs against the crate: `tuple-steering` finds the worker that has a key, and
//! `tuple-acker` finishes the trees that [`Acker`] finishes.

use niclab_analytics::acker::Acker;
use niclab_analytics::partition;
use niclab_analytics::tuple::{Frame, Tuple, begin_tuples, push_tuple};
use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
use niclab_program::{Change, Entry, Fate, Invocation, Lost, Part, Pipeline, Program, Worker};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const STEERING: &str = include_str!("../../../programs/tuple-steering/tuple-steering.spec");
const ACKER: &str = include_str!("../../../programs/tuple-acker/tuple-acker.spec");

const MAC: MacAddress = MacAddress([2, 0, 10, 9, 0, 2]);
const IP: [u8; 4] = [10, 9, 0, 2];
const PORT: u16 = 9_770;
/// Bytes of the headers before the payload of UDP.
const HEADERS_LEN: usize = 42;
/// The queue of everything that is not steered.
const OTHERS: u64 = 100;

/// A program whose table `table` has one address.
fn pipeline(text: &str, table: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Program::read(text).unwrap()).unwrap();
    let table = pipeline.program().table_number(table).unwrap();
    let key = [MAC.0.to_vec(), IP.to_vec(), PORT.to_be_bytes().to_vec()].map(Part::exact).to_vec();
    let does = Invocation { action: 0, arguments: Vec::new() };
    let entry = Entry { key, priority: 0, does };
    pipeline.change(&[Change::Add { table, entry }]).unwrap();
    pipeline
}

fn set(pipeline: &mut Pipeline, array: &str, values: impl Iterator<Item = u64>) {
    let arrays = &pipeline.program().registers;
    let number = arrays.iter().position(|of| of.name == array).unwrap();
    for (index, value) in values.enumerate() {
        pipeline.set_register(number, index as u64, value);
    }
}

fn frame(payload: &[u8]) -> Vec<u8> {
    build(&[
        Layer::Ethernet(ethernet::Repr { dst: MAC, ..ethernet::Repr::default() }),
        Layer::Ipv4(ipv4::Repr {
            src: [10, 9, 0, 1].into(),
            dst: IP.into(),
            protocol: IpProtocol::UDP,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port: 4_000, dst_port: PORT, ..udp::Repr::default() }),
        Layer::Payload(payload.to_vec()),
    ])
    .unwrap()
}

/// The queues of frames, in their order; `None` for those that the program drops.
fn queues(worker: &mut Worker, frames: &[Vec<u8>]) -> Vec<Option<u64>> {
    let mut queues = Vec::new();
    for frames in frames.chunks(BURST) {
        let (region, mut descs) = Region::new(frames.len(), 1_536).unwrap();
        for (desc, frame) in descs.iter_mut().zip(frames) {
            region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
            region.set_len(desc, frame.len() as u16);
        }
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        worker.run(&region, &mut descs, 0, &mut fates, |_, _| {});
        for ((fate, desc), frame) in fates.iter().zip(&descs).zip(frames) {
            let queue = if let Fate::Queue(queue) = fate { Some(*queue) } else { None };
            assert!(queue.is_none() || region.frame(desc) == frame, "it arrives as it came");
            queues.push(queue);
        }
    }
    queues
}

/// A frame of up to four tuples.
fn tuples(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut payload = Vec::new();
    begin_tuples(&mut payload, random.random());
    for _ in 0..random.random_range(1..5) {
        let (key, sequence) = (random.random(), random.random());
        let bytes = vec![7; random.random_range(0..200)];
        let tuple = Tuple { key, sequence, time_ns: 5, stream: 1, payload: &bytes };
        assert!(push_tuple(&mut payload, &tuple));
    }
    payload
}

fn steering(workers: usize) -> Pipeline {
    let mut pipeline = pipeline(STEERING, "receivers");
    set(&mut pipeline, "owners", (0..partition::PARTS).map(|part| (part % workers) as u64));
    set(&mut pipeline, "others", (0..partition::PARTS).map(|_| OTHERS));
    pipeline
}

#[test]
fn the_card_and_the_crate_agree_on_the_worker_of_a_key() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    for workers in [1, 2, 3, 7] {
        let payloads: Vec<Vec<u8>> = (0..1_000).map(|_| tuples(&mut random)).collect();
        let frames: Vec<Vec<u8>> = payloads.iter().map(|payload| frame(payload)).collect();
        let queues = queues(&mut steering(workers).worker(), &frames);
        for (payload, queue) in payloads.iter().zip(queues) {
            let Ok((_, Frame::Tuples(mut tuples))) = Frame::parse(payload) else {
                panic!("tuples")
            };
            let key = tuples.next().unwrap().key;
            assert_eq!(queue, Some(partition::worker(key, workers) as u64), "{key}");
        }
    }
}

#[test]
fn a_damaged_frame_is_steered_by_no_other_key_than_the_host_finds() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let damaged = |_| {
        let mut frame = frame(&tuples(&mut random));
        for _ in 0..random.random_range(1..3) {
            let at = random.random_range(HEADERS_LEN..HEADERS_LEN + 48);
            frame[at] = random.random();
        }
        frame
    };
    let frames: Vec<Vec<u8>> = (0..20_000).map(damaged).collect();
    let (mut steered, mut others) = (0, 0);
    for (frame, queue) in frames.iter().zip(queues(&mut steering(3).worker(), &frames)) {
        if queue == Some(OTHERS) {
            others += 1;
            let read = Frame::parse(&frame[HEADERS_LEN..]);
            assert!(!matches!(read, Ok((_, Frame::Tuples(_)))), "{read:?}");
            continue;
        }
        // The host may still refuse it: a later tuple may be damaged, too.
        if let Ok((_, Frame::Tuples(mut tuples))) = Frame::parse(&frame[HEADERS_LEN..]) {
            let key = tuples.next().unwrap().key;
            assert_eq!(queue, Some(partition::worker(key, 3) as u64));
            steered += 1;
        }
    }
    assert!(steered > 1_000 && others > 1_000, "{steered} steered, {others} others");
}

/// A begin (1) or a report (2).
fn report(kind: u8, slot: u16, ids: u64) -> Vec<u8> {
    let mut payload = b"nack\x01".to_vec();
    payload.push(kind);
    payload.extend_from_slice(&slot.to_be_bytes());
    payload.extend_from_slice(&ids.to_be_bytes());
    frame(&payload)
}

#[test]
fn the_card_finishes_the_trees_that_the_acker_finishes() {
    const SLOTS: u16 = 5;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
    let mut pipeline = pipeline(ACKER, "ackers");
    set(&mut pipeline, "sources", (0..SLOTS).map(u64::from));
    set(&mut pipeline, "others", std::iter::once(OTHERS));
    let (mut worker, mut acker) = (pipeline.worker(), Acker::new(SLOTS.into()));
    let (mut frames, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        // Few ids, so that trees end often, and slots are begun while they have a tree.
        let (slot, ids) = (random.random_range(0..SLOTS), random.random_range(0..4));
        let is_begin = random.random_range(0..3) == 0;
        frames.push(report(if is_begin { 1 } else { 2 }, slot, ids));
        let is_finished = match is_begin {
            true => {
                acker.begin(slot.into(), ids);
                false
            }
            false => acker.report(slot.into(), ids),
        };
        expected.push(is_finished.then_some(u64::from(slot)));
    }
    assert!(expected.iter().flatten().count() > 1_000);
    assert_eq!(queues(&mut worker, &frames), expected);
}
