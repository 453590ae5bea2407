//! Ternary match against its definition, and beside readers.
#![cfg(not(loom))]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use niclab_table::{
    BURST_MAX, CreateError, Field, Hit, Participant, QsbrDomain, Ternary, TernaryConfig,
    TernaryError, TernaryReader, TernaryRule, TernaryScan, pack_key,
};
use proptest::prelude::*;

/// An address, a port, and a byte that the filter does not look at.
const FIELDS: [Field; 2] = [Field::bytes(0, 4), Field::bytes(4, 2)];

const CASES: u32 = if cfg!(miri) { 4 } else { 400 };

type Table = Ternary<1>;
type Rule = TernaryRule<1>;

fn table(domain: &QsbrDomain) -> Table {
    Table::new(TernaryConfig { capacity_max: 10_000, fields: &FIELDS, seed: 7 }, domain).unwrap()
}

/// A key of few values, so that rules meet.
fn key([address, port, rest]: [u8; 3]) -> [u64; 1] {
    pack_key(&[10, address >> 1, address & 1, 7, 0, port, rest]).unwrap()
}

const MASKS: [[u8; 7]; 8] = [
    [255, 255, 255, 255, 255, 255, 255],
    [255, 255, 0, 0, 0, 0, 0],
    [255, 0, 255, 0, 0, 0, 255],
    [0, 0, 0, 0, 255, 255, 0],
    [255, 255, 255, 0, 255, 255, 0],
    [255, 0, 0, 0, 0, 1, 0],
    [0, 0, 0, 0, 0, 0, 3],
    [0; 7],
];

#[derive(Debug, Clone)]
enum Step {
    Insert(Rule),
    Remove(Rule),
    Replace(Rule, Rule),
    /// Opens a transaction, or commits the one that is open.
    Turn,
    /// The readers pass a quiescent state, and the table has time.
    Rest,
}

fn rule() -> impl Strategy<Value = Rule> {
    let parts = ([0_u8..4, 0..3, 0..4], 0..MASKS.len(), 0_u32..3, 0_u32..2);
    parts.prop_map(|(parts, mask, priority, value)| {
        let mask = pack_key(&MASKS[mask]).unwrap();
        Rule { key: key(parts), mask, priority, value }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => rule().prop_map(Step::Insert),
        3 => rule().prop_map(Step::Remove),
        4 => (rule(), rule()).prop_map(|(old, new)| Step::Replace(old, new)),
        1 => Just(Step::Turn),
        1 => Just(Step::Rest),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 30 } else { 150 })
}

/// Keys that rules can tell apart.
fn keys() -> Vec<[u64; 1]> {
    let parts = (0..5).flat_map(|a| (0..4).flat_map(move |b| (0..5).map(move |c| [a, b, c])));
    parts.map(key).collect()
}

fn check(reader: &mut TernaryReader<1>, participant: &Participant, scan: &TernaryScan<1>) {
    for keys in keys().chunks(BURST_MAX) {
        let mut hits = [None; BURST_MAX];
        reader.lookup_bulk(participant, keys, &mut hits);
        for (key, hit) in keys.iter().zip(hits) {
            assert_eq!(hit, scan.lookup(key), "key {key:x?}");
        }
    }
}

/// What the definition does with a step; whether there was something to do.
fn define(scan: &mut TernaryScan<1>, step: &Step) -> bool {
    match step {
        Step::Insert(rule) => scan.insert(rule),
        Step::Remove(rule) => scan.remove(rule),
        Step::Replace(old, new) => {
            let is_there = scan.remove(old);
            if is_there && !scan.insert(new) {
                scan.insert(old);
                return false;
            }
            is_there
        }
        Step::Turn | Step::Rest => true,
    }
}

fn run(steps: &[Step]) {
    let domain = QsbrDomain::new();
    let (mut table, mut scan) = (table(&domain), TernaryScan::new());
    let (mut reader, mut participant) = (table.reader(), domain.register_reader());
    let (mut is_open, mut seen) = (false, scan.clone());
    for step in steps {
        let done = match step {
            Step::Insert(rule) => table.insert(rule).map(|()| true),
            Step::Remove(rule) => table.remove(rule),
            Step::Replace(old, new) => table.replace(old, new),
            Step::Turn => {
                if is_open {
                    table.commit()
                } else {
                    table.open()
                };
                is_open = !is_open;
                Ok(true)
            }
            Step::Rest => {
                participant.quiescent();
                table.run_housekeeping(100);
                Ok(true)
            }
        };
        let done = match done {
            Err(TernaryError::Duplicate) => false,
            done => done.unwrap(),
        };
        assert_eq!(done, define(&mut scan, step), "{step:?}");
        assert_eq!(table.len(), scan.len(), "{step:?}");
        if !is_open {
            seen = scan.clone();
        }
        check(&mut reader, &participant, &seen);
    }
    table.commit();
    check(&mut reader, &participant, &scan);
    let rules: Vec<Rule> = table.rules().collect();
    assert_eq!(rules.len(), scan.len());
    assert!(rules.iter().all(|rule| table.contains(rule) && scan.clone().remove(rule)));
    for rule in &rules {
        assert_eq!(table.remove(rule), Ok(true));
    }
    drop(reader);
    drop(participant);
    assert!((0..100).any(|_| table.run_housekeeping(100)), "it comes to rest");
    assert_eq!((table.len(), table.masks_count()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..Default::default() })]

    #[test]
    fn a_table_finds_what_the_definition_finds(steps in steps()) {
        run(&steps);
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let domain = QsbrDomain::new();
    let new = |capacity_max, fields: &[Field]| {
        Table::new(TernaryConfig { capacity_max, fields, seed: 1 }, &domain).map(|_| ())
    };
    assert!(matches!(new(0, &FIELDS), Err(CreateError::Capacity { .. })));
    let outside = [FIELDS[0], Field::bytes(7, 2)];
    assert_eq!(new(10, &outside), Err(CreateError::Field { field: 1, words: 1 }));

    let config = TernaryConfig { capacity_max: 2, fields: &FIELDS, seed: 1 };
    let mut table = Table::new(config, &domain).unwrap();
    let rule = |value| Rule { key: [1], mask: [u64::MAX], priority: 1, value };
    table.insert(&rule(1)).unwrap();
    assert_eq!(table.insert(&rule(1)), Err(TernaryError::Duplicate));
    let limit = Rule::VALUE_MAX;
    let error = Err(TernaryError::Value { value: limit + 1, limit });
    assert_eq!(table.insert(&rule(limit + 1)), error);
    assert_eq!(table.replace(&rule(1), &rule(limit + 1)).map(|_| ()), error);
    table.insert(&rule(2)).unwrap();
    assert_eq!(table.insert(&rule(3)), Err(TernaryError::Full { capacity_max: 2 }));
    assert_eq!(table.replace(&rule(1), &rule(2)), Err(TernaryError::Duplicate));
    assert_eq!(table.remove(&rule(4)), Ok(false));
    let hit = Hit { priority: 1, value: 1 };
    let (mut reader, participant) = (table.reader(), domain.register_reader());
    assert_eq!((table.len(), reader.lookup(&participant, &[1])), (2, Some(hit)));
}

/// As many masks as a table can have, and one more; a look-up asks few of them.
#[test]
#[cfg_attr(miri, ignore = "too long under Miri")]
fn masks_are_limited_and_come_back() {
    let (domain, mut scan) = (QsbrDomain::new(), TernaryScan::new());
    let mut table = table(&domain);
    let rule = |number: u64| {
        let mask = [number | 0xffff_ffff_0000_0000];
        Rule { key: [number << 40 | number], mask, priority: (number % 7) as u32, value: 5 }
    };
    for number in 0..2048 {
        table.insert(&rule(number)).unwrap();
        scan.insert(&rule(number));
    }
    assert_eq!(table.insert(&rule(5000)), Err(TernaryError::Masks { limit: 2048 }));
    assert_eq!(table.remove(&rule(77)), Ok(true));
    scan.remove(&rule(77));
    table.insert(&rule(5000)).unwrap();
    scan.insert(&rule(5000));
    (0..10).for_each(|_| _ = table.run_housekeeping(10_000));
    let (mut reader, participant) = (table.reader(), domain.register_reader());
    for number in (0..2048).chain([5000]) {
        let key = [number << 40 | number];
        assert_eq!(reader.lookup(&participant, &key), scan.lookup(&key), "{number}");
    }
}

/// Ends the others when a thread is done, or fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Two places whose rules always have the same value, each round under other masks.
fn pair(round: u32) -> [Rule; 2] {
    [0, 1].map(|at| {
        let mask = pack_key(&MASKS[(round as usize + 2 * at) % 5]).unwrap();
        let priority = 1 + 3 * at as u32 + round % 2;
        Rule { key: key(PLACES[at]), mask, priority, value: round }
    })
}

const PLACES: [[u8; 3]; 2] = [[0, 0, 0], [3, 2, 3]];

/// A rule that goes to and fro between two places: one of two keys has it.
fn wanderer(round: u32) -> Rule {
    let mask = pack_key(&MASKS[[0, 4][round as usize / 2 % 2]]).unwrap();
    Rule { key: key(HOMES[round as usize % 2]), mask, priority: 0, value: WANDERER }
}

/// Its value, which no round has.
const WANDERER: u32 = Rule::VALUE_MAX;

const HOMES: [[u8; 3]; 2] = [[1, 1, 1], [2, 0, 2]];

/// The rule of a key that has no other.
const LAST: Rule = Rule { key: [0], mask: [0], priority: 1_000, value: 0 };

/// Looks until it has to stop; counts the changes that it sees.
fn look(
    (mut reader, mut participant): (TernaryReader<1>, Participant),
    stop: &AtomicBool,
    seen: &AtomicU64,
) {
    let _stop = Stop(stop);
    let keys = [PLACES[0], HOMES[0], PLACES[1], HOMES[1], [4, 3, 9]].map(key);
    let mut newest = 0;
    while !stop.load(Acquire) {
        let mut hits = [None; 5];
        reader.lookup_bulk(&participant, &keys, &mut hits);
        let [one, here, other, there, none] = hits.map(|hit: Option<Hit>| hit.unwrap());
        assert_eq!(one.value, other.value, "half of a transaction");
        assert!(one.value >= newest, "{} after {newest}", one.value);
        seen.fetch_add(u64::from(one.value > newest), Relaxed);
        newest = one.value;
        let count = [here, there].into_iter().filter(|hit| hit.value == WANDERER).count();
        assert_eq!(count, 1, "a rule is in one place at a time: {here:?} {there:?}");
        assert_eq!(none, LAST.hit());
        participant.quiescent();
    }
}

/// Rules that change while readers look: of a rule that is replaced exactly one form is there at
/// any moment, of a transaction all of it, and what stays is always found.
#[test]
fn readers_see_changes_as_a_whole() {
    /// Changes that each reader is to see while the writer goes on.
    const SEEN: u64 = if cfg!(miri) { 2 } else { 500 };
    let domain = QsbrDomain::new();
    let mut table = table(&domain);
    let first = pair(0).into_iter().chain([wanderer(0), LAST]);
    first.for_each(|rule| table.insert(&rule).unwrap());
    let (stop, seen) = (AtomicBool::new(false), [0, 0].map(AtomicU64::new));
    std::thread::scope(|scope| {
        for seen in &seen {
            let (end, stop) = ((table.reader(), domain.register_reader()), &stop);
            scope.spawn(move || look(end, stop, seen));
        }
        let is_wanted = || seen.iter().any(|seen| seen.load(Relaxed) < SEEN);
        for round in (1..).take_while(|_| is_wanted() && !stop.load(Acquire)) {
            table.open();
            for (old, new) in pair(round - 1).iter().zip(&pair(round)) {
                assert_eq!(table.replace(old, new), Ok(true));
            }
            table.commit();
            assert_eq!(table.replace(&wanderer(round - 1), &wanderer(round)), Ok(true));
            if round % 2 == 0 {
                table.run_housekeeping(10);
            }
        }
        stop.store(true, Release);
    });
}
