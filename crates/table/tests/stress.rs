//! One writer and free-running readers, with values that say whose they are and how old.
//!
//! Keys come in three kinds. *Steady* keys live throughout and are updated: readers must find
//! them always, and versions must never go back within a thread. *Coming and going* keys are
//! destroyed and inserted again, others in their slots: a hit must carry a value of the very key
//! that was asked for. *Filling* keys make the table grow again and again.
#![cfg(not(loom))]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use niclab_table::{BURST_MAX, Config, Exact, Participant, QsbrDomain, Reader};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const STEADY: u64 = 200;
const COMING: u64 = 400;
const ROUNDS: u64 = if cfg!(miri) { 2 } else { 150 };

fn key_of<const W: usize>(id: u64) -> [u64; W] {
    std::array::from_fn(|word| id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(word as u32))
}

/// 24 bits of the key, 40 of the version, mixed so that halves of two values never fit.
fn value_of(id: u64, version: u64) -> u64 {
    let plain = id << 40 | version;
    plain ^ plain.wrapping_mul(0xff51_afd7_ed55_8ccd) << 32
}

/// The version in a value if it is one of `id`.
fn version_in(value: u64, id: u64) -> Option<u64> {
    let low = value & 0xffff_ffff;
    // The low half of `plain` is unchanged; it fixes what was mixed into the high half.
    let plain = value ^ low.wrapping_mul(0xff51_afd7_ed55_8ccd) << 32;
    let version = plain & 0xff_ffff_ffff;
    (plain >> 40 == id && value_of(id, version) == value).then_some(version)
}

/// What the readers have seen.
#[derive(Default)]
struct Tally {
    back: AtomicU64,
    hits: AtomicU64,
    misplaced: AtomicU64,
    missed: AtomicU64,
}

fn read<const W: usize>(
    reader: &Reader<W>,
    participant: &mut Participant,
    seed: u64,
    done: &AtomicBool,
    tally: &Tally,
) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut seen = vec![0; (STEADY + COMING) as usize];
    let mut burst = 0u64;
    while !done.load(Relaxed) {
        let size = random.random_range(1..=BURST_MAX);
        let ids: Vec<u64> = (0..size).map(|_| random.random_range(0..STEADY + COMING)).collect();
        let keys: Vec<[u64; W]> = ids.iter().map(|id| key_of(*id)).collect();
        let mut values = [0; BURST_MAX];
        let hits = reader.lookup_bulk(participant, &keys, &mut values);
        for (index, id) in ids.iter().enumerate() {
            if hits >> index & 1 == 0 {
                tally.missed.fetch_add(u64::from(*id < STEADY), Relaxed);
                continue;
            }
            let Some(version) = version_in(values[index], *id) else {
                tally.misplaced.fetch_add(1, Relaxed);
                continue;
            };
            let last = &mut seen[*id as usize];
            tally.back.fetch_add(u64::from(version < *last), Relaxed);
            *last = version;
        }
        tally.hits.fetch_add(u64::from(hits.count_ones()), Relaxed);
        burst += 1;
        match burst % 257 {
            0 => {
                participant.offline();
                std::thread::yield_now();
                participant.online();
            }
            _ => participant.quiescent(),
        }
    }
}

/// The writer: grows a fresh part of the table in each round while it updates and replaces.
fn write<const W: usize>(table: &mut Exact<W>, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut version = 1;
    for round in 0..ROUNDS {
        for step in 0..3000u64 {
            version += 1;
            let steady = random.random_range(0..STEADY);
            assert!(table.update(&key_of(steady), value_of(steady, version)).is_some());
            let id = STEADY + random.random_range(0..COMING);
            if table.remove(&key_of(id)).is_none() {
                // Crowded is legal while readers hold destroyed slots back.
                let _ = table.insert(&key_of(id), value_of(id, version));
            }
            let filling = 1_000_000 + round * 3000 + step;
            let _ = table.insert(&key_of(filling), value_of(filling % 1000, version));
        }
        for filling in (0..3000).map(|step| 1_000_000 + round * 3000 + step) {
            // Every eighth stays, so that the table has to grow now and then to the end.
            if filling % 8 != 0 {
                table.remove(&key_of(filling));
            }
        }
        std::thread::yield_now();
    }
}

fn check<const W: usize>(readers: u64, config: Config) {
    let domain = QsbrDomain::new();
    let mut table = Exact::<W>::new(config, &domain).unwrap();
    for id in 0..STEADY {
        table.insert(&key_of(id), value_of(id, 1)).unwrap();
    }
    let (tally, done) = (Tally::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 0..readers {
            let (reader, mut participant) = (table.reader(), domain.register_reader());
            let (tally, done) = (&tally, &done);
            scope.spawn(move || read(&reader, &mut participant, seed, done, tally));
        }
        write(&mut table, 99);
        done.store(true, Relaxed);
    });
    let Tally { back, hits, misplaced, missed } = tally;
    assert!(hits.into_inner() > 0, "readers never ran");
    let seen = [back, misplaced, missed].map(AtomicU64::into_inner);
    assert_eq!(seen, [0; 3], "[versions that went back, values of other keys, steady keys missed]");
    while !table.run_housekeeping(64) {}
}

#[test]
fn values_are_decoded_as_they_were_made() {
    for (id, version) in [(0, 0), (1, 1), (599, (1 << 40) - 1), (1 << 23, 12345)] {
        assert_eq!(version_in(value_of(id, version), id), Some(version));
        assert_eq!(version_in(value_of(id, version), id + 1), None);
    }
    let torn = value_of(3, 7) & 0xffff_ffff | value_of(3, 1 << 36 | 8) & !0xffff_ffff;
    assert_eq!(version_in(torn, 3), None);
}

#[test]
fn a_growing_table_of_short_keys() {
    check::<1>(2, Config::growing(100_000, 3));
}

#[test]
fn a_growing_table_of_tuples() {
    check::<2>(3, Config::growing(100_000, 4));
}

#[test]
fn a_growing_table_of_long_keys() {
    check::<8>(2, Config::growing(100_000, 5));
}

#[test]
fn a_full_table_whose_slots_are_reused() {
    check::<2>(2, Config::reserved(700, 6));
}

/// Key and value lie in different lines: the longest moment between reading one and the other.
#[test]
fn a_full_table_of_long_keys_whose_slots_are_reused() {
    check::<8>(1, Config::reserved(700, 7));
}

const GROWN: u64 = 200_000;

/// Looks up random keys among those whose insertion has been announced: all must be found.
fn follow(reader: &Reader<2>, mut participant: Participant, announced: &AtomicU64) -> [u64; 2] {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut seen = vec![0; GROWN as usize];
    let (mut missed, mut wrong) = (0, 0);
    loop {
        let count = announced.load(Acquire);
        if count > GROWN {
            return [missed, wrong];
        }
        let ids: [u64; BURST_MAX] = std::array::from_fn(|_| random.random_range(0..count));
        let mut values = [0; BURST_MAX];
        let hits = reader.lookup_bulk(&participant, &ids.map(key_of), &mut values);
        missed += u64::from(hits.count_zeros());
        for (id, value) in ids.iter().zip(values) {
            let last = &mut seen[*id as usize];
            match version_in(value, *id) {
                Some(version) if version >= *last => *last = version,
                _ => wrong += 1,
            }
        }
        participant.quiescent();
    }
}

/// Every key of a table that grows from nothing is found from the moment its insert returned.
#[test]
#[cfg_attr(miri, ignore = "slow")]
fn no_key_is_missed_while_a_table_grows() {
    for seed in 0..3 {
        let domain = QsbrDomain::new();
        let mut table = Exact::<2>::new(Config::growing(GROWN as usize, seed), &domain).unwrap();
        let announced = AtomicU64::new(1);
        table.insert(&key_of(0), value_of(0, 1)).unwrap();
        let (reader, participant) = (table.reader(), domain.register_reader());
        let outcome = std::thread::scope(|scope| {
            let reading = scope.spawn(|| follow(&reader, participant, &announced));
            for id in 1..GROWN {
                table.insert(&key_of(id), value_of(id, id)).unwrap();
                announced.store(id + 1, Release);
                let older = id / 2;
                table.update(&key_of(older), value_of(older, id + GROWN)).unwrap();
            }
            announced.store(GROWN + 1, Release);
            reading.join().unwrap()
        });
        assert_eq!(outcome, [0, 0], "[keys missed, values of others or older ones]");
    }
}
