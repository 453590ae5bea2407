//! Several cores carry packets through one program at once. Each packet becomes what the definition
//! makes of it, and what cores have in common what it is after the packets of all of them in one
//! order or another.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use niclab_nic::dma::Reader;
use niclab_nic::limits::BURST;
use niclab_nic::memory::Region;
use niclab_program::definition::Definition;
use niclab_program::{Fate, Lost, Pipeline, Program, Worker};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const CORES: usize = 2;
const BURSTS: usize = 4_000;
/// Registers and counters of an array.
const PLACES: u64 = 16;

const PROGRAM: &str = "
    struct h_t {
        bit<32> core
        bit<32> number
        bit<32> key
        bit<32> ticket
        bit<32> is_known
        bit<24> part
        bit<64> all
        bit<24> again
    }
    header h instanceof h_t
    struct m_t {
        bit<32> port
        bit<32> core
        bit<32> number
        bit<32> key
        bit<32> ticket
        bit<32> at
        bit<32> timeout
    }
    metadata instanceof m_t
    regarray sums size 16 initval 5
    regarray tickets size 1 initval 0
    countarray seen size 16
    window w size 64
    ring q count 1 size 1048576 entry 8
    action met args none {
        mov h.h.is_known 1
        return
    }
    action missed args none {
        learn met m.timeout
        return
    }
    learner known {
        key {
            m.key
        }
        actions {
            met @tableonly
            missed @defaultonly
        }
        default_action missed args none
        size 512
        timeout {
            60
        }
    }
    apply {
        rx m.port
        extract h.h
        mov m.core h.h.core
        mov m.number h.h.number
        mov m.key h.h.key
        dma_write q 0 m.core m.number
        count seen m.key
        regadd sums m.key m.number
        regadd m.ticket tickets 0 1
        mov h.h.ticket m.ticket
        table known
        mov m.at m.core
        add m.at m.core
        add m.at m.core
        dma_write_at w m.at h.h.part
        dma_write_at w 8 h.h.all
        dma_read_at w m.at h.h.again
        emit h.h
        tx m.port
    }";

const FRAME_LEN: usize = 34;
/// Where the number of a ticket stands in a frame.
const TICKET: std::ops::Range<usize> = 12..16;

type Frame = [u8; FRAME_LEN];

/// What one core did.
struct Did {
    /// Each packet as it came, and what became of it.
    packets: Vec<(Frame, Fate, Frame)>,
}

/// The packets of a core in their order.
fn frames(core: usize) -> Vec<Frame> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(core as u64);
    let each = |number| {
        let mut frame = [0; FRAME_LEN];
        frame[..4].copy_from_slice(&(core as u32).to_be_bytes());
        frame[4..8].copy_from_slice(&(number as u32).to_be_bytes());
        frame[8..12].copy_from_slice(&rng.random_range(0..400_u32).to_be_bytes());
        let random: [u8; 11] = rng.random();
        frame[20..31].copy_from_slice(&random);
        frame
    };
    (0..BURSTS * BURST).map(each).collect()
}

/// Waits until all cores have come so far: their bursts are to be under way at once.
fn meet(came: &AtomicUsize, round: usize) {
    came.fetch_add(1, Ordering::Relaxed);
    let mut looks = 0;
    while came.load(Ordering::Relaxed) < CORES * (round + 1) {
        looks += 1;
        match looks % 10_000 {
            // The other one may wait for this processor.
            0 => thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Carries packets through, burst by burst.
fn work(core: usize, mut worker: Worker, came: &AtomicUsize) -> Did {
    let (region, mut descs) = Region::new(BURST, 256).unwrap();
    let frames = frames(core);
    let mut packets = Vec::with_capacity(frames.len());
    worker.set_time_ns(1);
    for (round, burst) in frames.chunks(BURST).enumerate() {
        for (desc, frame) in descs.iter_mut().zip(burst) {
            region.slot_mut(desc)[..FRAME_LEN].copy_from_slice(frame);
            region.set_len(desc, FRAME_LEN as u16);
        }
        let mut fates = [Fate::Dropped(Lost::Told); BURST];
        meet(came, round);
        worker.run(&region, &mut descs, 3, &mut fates, |_, _| panic!("a copy"));
        for ((desc, fate), frame) in descs.iter().zip(fates).zip(burst) {
            let mut got = [0; FRAME_LEN];
            let len = region.frame(desc).len().min(FRAME_LEN);
            got[..len].copy_from_slice(&region.frame(desc)[..len]);
            packets.push((*frame, fate, got));
        }
    }
    Did { packets }
}

/// What is known of a core whose packets became what the definition makes of them alone.
struct Known {
    definition: Definition,
    /// What they were told.
    tickets: Vec<u32>,
}

impl Did {
    fn check(&self, core: usize, program: &Program) -> Known {
        let mut definition = Definition::new(program.clone());
        definition.set_time_ns(1);
        let mut tickets = Vec::new();
        for (number, (frame, fate, got)) in self.packets.iter().enumerate() {
            let expected = definition.run(3, frame);
            assert_eq!([expected.fate, *fate], [Fate::Port(3); 2], "core {core}, packet {number}");
            assert!(definition.take(0, 0).is_some());
            let (mut got, ticket) = (*got, got[TICKET].try_into().unwrap());
            tickets.push(u32::from_be_bytes(ticket));
            got[TICKET].copy_from_slice(&expected.frame[TICKET]);
            assert_eq!(got[..], expected.frame, "core {core}, packet {number}");
        }
        Known { definition, tickets }
    }
}

/// Reads entries of the ring until all cores are through: by core, the numbers of its packets.
fn read(mut reader: Reader, are_through: &AtomicUsize) -> [Vec<u32>; CORES] {
    let mut read: [Vec<u32>; CORES] = Default::default();
    loop {
        let is_last = are_through.load(Ordering::Acquire) == CORES;
        while let Some([core, number]) = reader.take(|shared, at| {
            let mut entry = [0; 8];
            shared.copy_out(at, &mut entry);
            [0, 4].map(|at| u32::from_le_bytes(*entry[at..].first_chunk().unwrap()))
        }) {
            read[core as usize].push(number);
        }
        if is_last {
            return read;
        }
        thread::yield_now();
    }
}

#[test]
fn cores_at_once_come_to_what_the_definition_allows() {
    let program = Program::read(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
    let mut pipeline = Pipeline::new(program.clone()).unwrap();
    let reader = pipeline.reader(0, 0).unwrap();
    let (came, are_through) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (did, read) = thread::scope(|scope| {
        let cores: Vec<_> = (0..CORES)
            .map(|core| {
                let (worker, came, are_through) = (pipeline.worker(), &came, &are_through);
                scope.spawn(move || {
                    let did = work(core, worker, came);
                    are_through.fetch_add(1, Ordering::Release);
                    did
                })
            })
            .collect();
        let reading = scope.spawn(|| read(reader, &are_through));
        let did: Vec<Did> = cores.into_iter().map(|core| core.join().unwrap()).collect();
        (did, reading.join().unwrap())
    });
    let known: Vec<Known> =
        did.iter().enumerate().map(|(core, of)| of.check(core, &program)).collect();
    for place in 0..PLACES {
        let counted = |(packets, bytes): (u64, u64), of: &Known| {
            let (more, more_bytes) = of.definition.counter(0, place).unwrap();
            (packets + more, bytes + more_bytes)
        };
        assert_eq!(pipeline.counter(0, place), Some(known.iter().fold((0, 0), counted)));
        // Each definition began with 5.
        let added = |of: &Known| of.definition.register(0, place).unwrap() - 5;
        assert_eq!(pipeline.register(0, place), Some(5 + known.iter().map(added).sum::<u64>()));
    }
    let all = CORES * BURSTS * BURST;
    assert_eq!(pipeline.register(1, 0), Some(all as u64));
    let tickets: BTreeSet<u32> = known.iter().flat_map(|of| of.tickets.iter().copied()).collect();
    assert!(tickets.iter().copied().eq(0..all as u32), "nobody has the ticket of another");
    for (core, of) in known.iter().enumerate() {
        assert!(of.tickets.is_sorted(), "packets of core {core} come one behind the other");
        let all = 0..of.tickets.len() as u32;
        assert!(read[core].iter().copied().eq(all), "what core {core} put into the ring");
    }
    let (window, mut bytes) = (pipeline.window(0).unwrap(), [0; 16]);
    window.copy_out(0, &mut bytes);
    let last: Vec<&Frame> = did.iter().map(|of| &of.packets.last().unwrap().0).collect();
    assert_eq!(bytes[..6], [&last[0][20..23], &last[1][20..23]].concat());
    assert_eq!(bytes[6..8], [0; 2]);
    assert!(last.iter().any(|of| of[23..31] == bytes[8..]), "the last of one or the other");
}
