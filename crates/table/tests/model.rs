//! The table against `std::collections::HashMap`, through growth, destruction and reuse.
#![cfg(not(loom))]

use std::collections::HashMap;

use niclab_table::{
    Config, Exact, InsertError, Pages, Participant, QsbrDomain, Reader, SlotHandle,
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Bulk(Vec<u16>),
    Insert(u16, u64),
    Quiescent,
    Remove(u16),
    Settle(usize),
    Update(u16, u64),
}

fn steps(keys: u16) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..keys, any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (0..keys).prop_map(Step::Remove),
        3 => (0..keys, any::<u64>()).prop_map(|(key, value)| Step::Update(key, value)),
        2 => prop::collection::vec(0..keys, 0..=64).prop_map(Step::Bulk),
        1 => Just(Step::Quiescent),
        1 => (0usize..4).prop_map(Step::Settle),
    ];
    prop::collection::vec(step, 1..600)
}

/// Keys that differ in one word only, another one for each residue.
fn key_of<const W: usize>(id: u16) -> [u64; W] {
    let mut key = [0x5555; W];
    key[usize::from(id) % W] = u64::from(id);
    key
}

struct Pair<const W: usize> {
    table: Exact<W>,
    reader: Reader<W>,
    participant: Participant,
    model: HashMap<[u64; W], u64>,
    /// Where entries were when they were inserted or last looked for.
    handles: HashMap<[u64; W], SlotHandle>,
    capacity_max: usize,
}

impl<const W: usize> Pair<W> {
    fn new(capacity_max: usize, reserve: usize) -> Self {
        let domain = QsbrDomain::new();
        let config = Config { capacity_max, pages: Pages::Huge, reserve, seed: 11 };
        let table = Exact::new(config, &domain).unwrap();
        let reader = table.reader();
        let participant = domain.register_reader();
        let (model, handles) = (HashMap::new(), HashMap::new());
        Self { table, reader, participant, model, handles, capacity_max }
    }

    fn insert(&mut self, key: [u64; W], value: u64) {
        let expected = match self.model.get(&key) {
            Some(&value) => Err(InsertError::Duplicate { value }),
            None if self.model.len() == self.capacity_max => {
                Err(InsertError::Full { capacity_max: self.capacity_max })
            }
            None => Ok(()),
        };
        let got = self.table.insert(&key, value);
        // A participant that is not quiescent holds destroyed slots back.
        if matches!(got, Err(InsertError::Crowded { waiting, .. }) if waiting > 0) {
            return;
        }
        assert_eq!(got.map(|_| ()), expected);
        if let Ok(handle) = got {
            self.model.insert(key, value);
            self.handles.insert(key, handle);
        }
    }

    /// By the handle where the table knows it, else by the key.
    fn update(&mut self, key: &[u64; W], value: u64) {
        let before = self.model.get(key).copied();
        let handle = self.handles.get(key).copied().filter(|_| before.is_some());
        let known = handle.filter(|handle| self.table.is_current(*handle));
        assert_eq!(known.and_then(|handle| self.table.value_of(handle)), known.and(before));
        if known.is_some_and(|handle| self.table.set_at(handle, value)) {
            self.model.insert(*key, value);
            return;
        }
        assert_eq!(self.table.update(key, value), before);
        if before.is_some() {
            self.model.insert(*key, value);
            self.handles.extend(self.table.handle_of(key).map(|handle| (*key, handle)));
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Bulk(ids) => self.check_bulk(ids),
            Step::Insert(id, value) => self.insert(key_of(*id), *value),
            Step::Quiescent => self.participant.quiescent(),
            Step::Remove(id) => {
                let key = key_of(*id);
                let handle = self.handles.get(&key).filter(|_| self.model.contains_key(&key));
                let known = handle.copied().filter(|handle| self.table.is_current(*handle));
                let removed = known.and_then(|handle| self.table.remove_at(handle));
                let removed = removed.or_else(|| self.table.remove(&key));
                assert_eq!(removed, self.model.remove(&key));
            }
            Step::Settle(groups) => {
                self.table.run_housekeeping(*groups);
            }
            Step::Update(id, value) => self.update(&key_of(*id), *value),
        }
        assert_eq!(self.table.len(), self.model.len());
    }

    fn check_bulk(&self, ids: &[u16]) {
        let keys: Vec<[u64; W]> = ids.iter().map(|id| key_of(*id)).collect();
        let hashes: Vec<u64> = keys.iter().map(|key| self.reader.hash(key)).collect();
        let (mut values, mut again) = ([77; 64], [77; 64]);
        let hits = self.reader.lookup_bulk(&self.participant, &keys, &mut values);
        let same = self.reader.lookup_bulk_hashed(&self.participant, &keys, &hashes, &mut again);
        assert_eq!((hits, values), (same, again));
        for (index, key) in keys.iter().enumerate() {
            let hit = (hits >> index & 1 == 1).then_some(values[index]);
            assert_eq!(hit, self.model.get(key).copied());
            assert_eq!(hit, self.reader.lookup(&self.participant, key));
            assert_eq!(hit, self.table.get(key));
            assert!(hit.is_some() || values[index] == 77, "a miss leaves its value alone");
        }
        assert!(ids.len() == 64 || hits >> ids.len() == 0, "no hit beyond the burst");
    }

    fn check_all(&self, keys: u16) {
        let listed: HashMap<_, _> = self.table.iter().collect();
        assert_eq!(listed, self.model);
        assert_eq!(self.table.iter().count(), self.model.len(), "nothing is listed twice");
        for chunk in (0..keys).collect::<Vec<_>>().chunks(64) {
            self.check_bulk(chunk);
        }
    }
}

fn check<const W: usize>(steps: &[Step], keys: u16, capacity_max: usize, reserve: usize) {
    let mut pair = Pair::<W>::new(capacity_max, reserve);
    for step in steps {
        pair.apply(step);
    }
    pair.check_all(keys);
    for _ in 0..10_000 {
        pair.participant.quiescent();
        if pair.table.run_housekeeping(3) {
            return pair.check_all(keys);
        }
    }
    panic!("the housekeeping never ends");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]

    #[test]
    fn one_word(steps in steps(300)) {
        check::<1>(&steps, 300, 250, 0);
    }

    #[test]
    fn two_words(steps in steps(300)) {
        check::<2>(&steps, 300, 250, 40);
    }

    #[test]
    fn few_keys_many_reuses(steps in steps(12)) {
        check::<2>(&steps, 12, 10, 10);
    }

    #[test]
    fn odd_and_long_keys(steps in steps(200)) {
        check::<3>(&steps, 200, 150, 0);
        check::<5>(&steps, 200, 150, 0);
        check::<8>(&steps, 200, 150, 150);
    }
}

/// Fills a table to its last entry, empties it and fills it again with other keys.
fn check_fill<const W: usize>(capacity_max: usize, reserve: usize) {
    let domain = QsbrDomain::new();
    let config = Config { capacity_max, pages: Pages::Small, reserve, seed: 5 };
    let mut table = Exact::<W>::new(config, &domain).unwrap();
    let key = |id: usize| {
        let mut key = [9; W];
        key[0] = id as u64;
        key
    };
    for round in 0..3 {
        let ids = round * capacity_max..(round + 1) * capacity_max;
        for id in ids.clone() {
            table.insert(&key(id), id as u64).unwrap();
        }
        assert_eq!(table.insert(&key(usize::MAX), 0), Err(InsertError::Full { capacity_max }));
        for id in ids {
            assert_eq!(table.get(&key(id)), Some(id as u64));
            assert_eq!(table.remove(&key(id)), Some(id as u64));
        }
        assert!(table.is_empty());
    }
}

#[test]
fn every_size_fills_completely() {
    for capacity_max in [1, 2, 10, 11, 14, 15, 16, 31, 100, 1000] {
        check_fill::<1>(capacity_max, 0);
        check_fill::<2>(capacity_max, capacity_max);
        check_fill::<8>(capacity_max, capacity_max / 2);
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn large_tables_fill_completely() {
    check_fill::<2>(300_000, 0);
    check_fill::<4>(100_000, 100_000);
}

#[test]
fn a_table_outlives_its_writer() {
    let domain = QsbrDomain::new();
    let mut table = Exact::<2>::new(Config::growing(1000, 1), &domain).unwrap();
    let (reader, participant) = (table.reader(), domain.register_reader());
    for id in 0..100 {
        table.insert(&[id, 0], id).unwrap();
    }
    drop(table);
    assert!((0..100).all(|id| reader.lookup(&participant, &[id, 0]) == Some(id)));
}

#[test]
fn readers_that_never_pass_cost_room_but_never_an_entry() {
    let domain = QsbrDomain::new();
    let mut table = Exact::<1>::new(Config::reserved(50, 1), &domain).unwrap();
    let mut participant = domain.register_reader();
    let mut id = 0;
    let waiting = loop {
        match table.insert(&[id], id) {
            Ok(_) => assert_eq!(table.remove(&[id]), Some(id)),
            Err(InsertError::Crowded { len: 0, waiting }) => break waiting,
            Err(error) => panic!("{error}"),
        }
        id += 1;
        assert!(id < 100_000, "slots are reused while a reader may look at them");
    };
    assert!(waiting >= 50);
    participant.quiescent();
    table.insert(&[id], id).unwrap();
    assert_eq!(table.reader().lookup(&participant, &[id]), Some(id));
}

#[test]
#[should_panic(expected = "offline")]
fn an_offline_participant_may_not_look_up() {
    let domain = QsbrDomain::new();
    let table = Exact::<1>::new(Config::growing(1, 1), &domain).unwrap();
    let mut participant = domain.register_reader();
    participant.offline();
    let _ = table.reader().lookup(&participant, &[1]);
}

#[test]
#[should_panic(expected = "another domain")]
fn a_stranger_may_not_look_up() {
    let table = Exact::<1>::new(Config::growing(1, 1), &QsbrDomain::new()).unwrap();
    let _ = table.reader().lookup(&QsbrDomain::new().register_reader(), &[1]);
}

/// Hash 0 has the tag of an empty slot, whose entry is all zero: the key [0, 0].
#[test]
fn a_wrong_hash_is_a_miss() {
    let domain = QsbrDomain::new();
    let mut table = Exact::<2>::new(Config::reserved(50, 1), &domain).unwrap();
    table.insert(&[1, 0], 7).unwrap();
    let (reader, participant) = (table.reader(), domain.register_reader());
    for hash in [0, 1, 0xffff, u64::MAX] {
        let mut values = [9];
        let found = reader.lookup_bulk_hashed(&participant, &[[0, 0]], &[hash], &mut values);
        assert_eq!((found, values), (0, [9]), "hash {hash:#x}");
    }
}
