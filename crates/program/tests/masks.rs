//! Masks of tables come and go: any sequence of changes is accepted whose masks are few enough at
//! each moment, and each packet meets what the definition says.

use std::sync::Arc;

use niclab_nic::memory::{Desc, Region};
use niclab_program::definition::Definition;
use niclab_program::limits::MASKS_MAX;
use niclab_program::{
    Change, ChangeError, Entry, Fate, Invocation, Key, Lost, Part, Pipeline, Program, Worker,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const PROGRAM: &str = "
    struct h_t {
        bit<32> src
        bit<32> dst
        bit<128> long
    }
    header h instanceof h_t
    struct m_t {
        bit<32> acl
        bit<32> route
        bit<32> port
    }
    metadata instanceof m_t
    struct a_t {
        bit<32> number
    }
    action acl args instanceof a_t {
        mov m.acl t.number
        return
    }
    action route args instanceof a_t {
        mov m.route t.number
        return
    }
    action none args none {
        return
    }
    table acls {
        key {
            h.h.src wildcard
            h.h.dst wildcard
        }
        actions {
            acl
            none
        }
        default_action none args none
        size 4096
    }
    table routes {
        key {
            h.h.long lpm
        }
        actions {
            route
            none
        }
        default_action none args none
        size 4096
    }
    apply {
        rx m.port
        extract h.h
        table acls
        table routes
        mov h.h.src m.acl
        mov h.h.dst m.route
        emit h.h
        tx m.port
    }";

const LEN: usize = 24;

struct Sides {
    rng: Xoshiro256PlusPlus,
    definition: Definition,
    pipeline: Pipeline,
    /// The second comes seldom.
    workers: [Worker; 2],
    region: Arc<Region>,
    frames: Vec<Desc>,
    /// By table.
    live: [Vec<Key>; 2],
    added: u32,
}

impl Sides {
    fn new(seed: u64) -> Sides {
        let program = Program::read(PROGRAM).unwrap_or_else(|error| panic!("{error}"));
        let pipeline = Pipeline::new(program.clone()).unwrap();
        let (region, frames) = Region::new(64, LEN).unwrap();
        Sides {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            definition: Definition::new(program),
            workers: [pipeline.worker(), pipeline.worker()],
            pipeline,
            region,
            frames,
            live: [Vec::new(), Vec::new()],
            added: 0,
        }
    }

    /// A key that is not there; of wildcards, with a mask that is not there either.
    fn key(&mut self, table: usize) -> Key {
        let masks =
            |key: &Key| -> Vec<Vec<u8>> { key.iter().map(|part| part.mask.clone()).collect() };
        loop {
            let key = match table {
                0 => (0..2).map(|_| self.masked()).collect(),
                _ => {
                    let value: [u8; 16] = self.rng.random();
                    vec![Part::prefix(&value, self.rng.random_range(0..=128))]
                }
            };
            let is_like = |of: &Key| *of == key || table == 0 && masks(of) == masks(&key);
            if !self.live[table].iter().any(is_like) {
                return key;
            }
        }
    }

    /// Few bits, so that packets match many of them.
    fn masked(&mut self) -> Part {
        let [value, a, b, c]: [u32; 4] = self.rng.random();
        Part::masked(&value.to_be_bytes(), (a & b & c).to_be_bytes().to_vec())
    }

    fn add(&mut self, table: usize) -> Change {
        self.added += 1;
        let does = Invocation { action: table, arguments: vec![self.added.to_be_bytes().to_vec()] };
        let priority = if table == 0 { self.rng.random_range(0..8) } else { 0 };
        Change::Add { table, entry: Entry { key: self.key(table), priority, does } }
    }

    /// Something that fits what there is.
    fn some(&mut self, live_max: usize) -> Change {
        let table = self.rng.random_range(0..2);
        let count = self.live[table].len();
        if count < self.rng.random_range(0..live_max) {
            return self.add(table);
        }
        let key = self.live[table][self.rng.random_range(0..count)].clone();
        match self.rng.random_range(0..4) {
            0 => match self.add(table) {
                Change::Add { table, entry } => {
                    Change::Modify { table, entry: Entry { key, ..entry } }
                }
                other => other,
            },
            _ => Change::Delete { table, key },
        }
    }

    /// The same on both sides, which say the same of it.
    fn change(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let told = self.pipeline.change(changes);
        if !matches!(told, Err(ChangeError::Room { .. })) {
            assert_eq!(self.definition.change(changes), told);
        }
        if told.is_ok() {
            for change in changes {
                match change {
                    Change::Add { table, entry } => self.live[*table].push(entry.key.clone()),
                    Change::Delete { table, key } => self.live[*table].retain(|of| of != key),
                    _ => {}
                }
            }
        }
        told
    }

    /// Packets that entries match, and others.
    fn packets(&mut self, worker: usize) {
        let count = self.rng.random_range(1..=self.frames.len());
        let mut expected = Vec::new();
        for frame in 0..count {
            let mut bytes: [u8; LEN] = self.rng.random();
            for (table, at) in [(0, 0), (1, 8)] {
                let keys = &self.live[table];
                if !keys.is_empty() {
                    let key = &keys[self.rng.random_range(0..keys.len())];
                    let parts = key.iter().flat_map(|part| part.value.iter().zip(&part.mask));
                    for (byte, (value, mask)) in bytes[at..].iter_mut().zip(parts) {
                        *byte = *byte & !mask | value;
                    }
                }
            }
            let desc = &mut self.frames[frame];
            self.region.slot_mut(desc)[..LEN].copy_from_slice(&bytes);
            self.region.set_len(desc, LEN as u16);
            expected.push(self.definition.run(7, &bytes));
        }
        let mut fates = vec![Fate::Dropped(Lost::Told); count];
        let frames = &mut self.frames[..count];
        self.workers[worker].run(&self.region, frames, 7, &mut fates, |_, _| {});
        for ((expected, fate), frame) in expected.iter().zip(&fates).zip(frames) {
            assert_eq!(expected.fate, *fate);
            assert_eq!(expected.frame, self.region.frame(frame));
        }
    }

    /// As many entries as there can be masks, each with a mask of its own.
    fn fill(&mut self) {
        while self.live[0].len() < MASKS_MAX {
            let add = self.add(0);
            self.change(&[add]).unwrap();
        }
    }
}

#[test]
fn thousands_of_masks_come_and_go_and_packets_meet_what_is_there() {
    for (seed, live_max) in [(1, 12), (2, 100), (3, 300)] {
        let mut sides = Sides::new(seed);
        for round in 0..1_500 {
            let count = if round % 3 == 0 { sides.rng.random_range(2..6) } else { 1 };
            let mut changes: Vec<Change> = (0..count).map(|_| sides.some(live_max)).collect();
            // One in nine comes to nothing at its end.
            let twice = (round % 9 == 0).then(|| sides.add(0));
            changes.extend(twice.iter().chain(&twice).cloned());
            let told = sides.change(&changes);
            assert!(!matches!(told, Err(ChangeError::Room { .. })), "{round}: {told:?}");
            assert!(twice.is_none() || told.is_err());
            if sides.rng.random_bool(0.3) {
                sides.packets(0);
            }
            match round % 40 {
                0 => sides.packets(1),
                20 => sides.workers[1].offline(),
                39 => sides.workers[1].online(),
                _ => {}
            }
            if round % 100 == 0 {
                sides.pipeline.run_housekeeping(8);
            }
        }
        assert!(sides.added > MASKS_MAX as u32, "{}", sides.added);
    }
}

#[test]
fn a_mask_more_than_there_can_be_is_refused_and_one_in_place_of_another_is_not() {
    let mut sides = Sides::new(4);
    sides.fill();
    let add = sides.add(0);
    let said = sides.change(std::slice::from_ref(&add)).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("acls: no room: its entries have {MASKS_MAX} different masks at most")
    );
    // Another entry under a mask that is there.
    let at = sides.live[0].iter().position(|key| key[0].mask != [0; 4]).unwrap();
    let mut key = sides.live[0][at].clone();
    let other: Vec<u8> = key[0].value.iter().map(|byte| !byte).collect();
    key[0] = Part::masked(&other, key[0].mask.clone());
    let Change::Add { table, entry } = sides.add(0) else { panic!() };
    sides.change(&[Change::Add { table, entry: Entry { key: key.clone(), ..entry } }]).unwrap();
    sides.change(&[Change::Delete { table, key }]).unwrap();
    // No worker comes by.
    for _ in 0..3_000 {
        let key = sides.live[0][0].clone();
        sides.change(&[Change::Delete { table: 0, key }]).unwrap();
        let add = sides.add(0);
        sides.change(&[add]).unwrap();
    }
    sides.packets(0);
}

#[test]
fn all_masks_change_at_once_as_soon_as_workers_have_seen_the_change_before() {
    let mut sides = Sides::new(5);
    sides.fill();
    let all = |sides: &mut Sides| -> Vec<Change> {
        let gone = sides.live[0].clone().into_iter().map(|key| Change::Delete { table: 0, key });
        let gone: Vec<_> = gone.collect();
        gone.into_iter().chain((0..MASKS_MAX).map(|_| sides.add(0))).collect()
    };
    for _ in 0..3 {
        let changes = all(&mut sides);
        sides.change(&changes).unwrap();
        // Both workers are at work with what was there before.
        let changes = all(&mut sides);
        let said = sides.change(&changes).unwrap_err().to_string();
        assert!(said.ends_with("are not given up by all workers yet"), "{said}");
        sides.packets(0);
        sides.packets(1);
    }
    assert_eq!(sides.live[0].len(), MASKS_MAX);
}
