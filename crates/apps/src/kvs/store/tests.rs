//! The store beside a plain model, and the memory that it takes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::limits::PARTITION_BYTES_MIN;
use super::simulated_card_tests::set_of;
use super::*;
use crate::kvs::protocol::answer::{DeleteOutcome, StoreOutcome};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::limits::VALUE_LEN_MAX;
use crate::kvs::protocol::number::unsigned;
use crate::kvs::protocol::request::{CountDirection, CountRequest, StoreMode, StoreRequest};
use crate::kvs::protocol::time::{Expiry, UnixTime};

const START: UnixTime = UnixTime(1_000_000);

fn partition(budget_bytes: usize) -> Partition {
    Partition::new(PartitionConfig { budget_bytes, number: 0, count: 1 })
}

fn key(bytes: &[u8]) -> HashedKey<'_> {
    HashedKey::new(bytes, 1)
}

fn write<'a>(key: &'a [u8], value: &'a [u8]) -> StoreRequest<'a> {
    set_of(HashedKey::new(key, 1), value, Expiry::NEVER)
}

#[track_caller]
fn set(store: &mut Partition, key: &[u8], value: &[u8]) {
    let written = store.write(&write(key, value), START);
    assert!(matches!(written, StoreOutcome::Stored { .. }), "{written:?}");
    check_memory(store);
}

fn value(store: &mut Partition, bytes: &[u8]) -> Option<Vec<u8>> {
    let place = store.get(&key(bytes), START)?;
    Some(store.item(place).value.to_vec())
}

#[track_caller]
fn check_memory(store: &Partition) {
    let now = store.statistics();
    assert!(now.memory_bytes <= now.limit_maxbytes, "{now:?}");
    assert!(now.bytes + now.hash_bytes <= now.memory_bytes, "{now:?}");
}

/// What an item is, without any limit.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u8, mode: u8, len: u8, time: i64, compare: u8 },
    Delete { key: u8, compare: u8 },
    Touch { key: u8, time: i64 },
    Count { key: u8, up: bool, delta: u64, initial: bool },
    Get { key: u8 },
    Wait { seconds: u8 },
    Flush { delay: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12u8;
    let time = prop_oneof![4 => Just(0i64), 1 => Just(-1), 2 => 1..5i64];
    let delta = prop_oneof![0..200u64, any::<u64>()];
    let write = (key.clone(), 0..5u8, 0..60u8, time.clone(), 0..6u8);
    let count = (key.clone(), any::<bool>(), delta, any::<bool>());
    let delete = (key.clone(), 0..6u8);
    prop_oneof![
        8 => write.prop_map(|(key, mode, len, time, compare)| {
            Step::Put { key, mode, len, time, compare }
        }),
        2 => delete.prop_map(|(key, compare)| Step::Delete { key, compare }),
        2 => (key.clone(), time).prop_map(|(key, time)| Step::Touch { key, time }),
        3 => count.prop_map(|(key, up, delta, initial)| Step::Count { key, up, delta, initial }),
        4 => key.prop_map(|key| Step::Get { key }),
        1 => (0..3u8).prop_map(|seconds| Step::Wait { seconds }),
        1 => (0..40u8).prop_map(|delay| Step::Flush { delay }),
    ]
}

/// The model: a map, the time, and when it is emptied.
struct Model {
    map: BTreeMap<u8, Kept>,
    now: UnixTime,
    flush_at: Option<UnixTime>,
}

impl Model {
    fn pass(&mut self) {
        if self.flush_at.is_some_and(|at| at <= self.now) {
            self.map.clear();
            self.flush_at = None;
        }
        self.map.retain(|_, kept| !kept.expiry.is_past(self.now));
    }

    /// A number to compare with: mostly that of the item, or none, or a wrong one.
    fn compare(&self, key: u8, choice: u8) -> Option<u64> {
        match choice {
            0 => Some(1),
            1 | 2 => Some(self.map.get(&key).map_or(77, |kept| kept.cas)),
            _ => None,
        }
    }
}

fn name(key: u8) -> Vec<u8> {
    vec![b'a' + key; 1 + usize::from(key) * 20]
}

fn content(len: u8, seed: usize) -> Vec<u8> {
    // Some are numbers, so that there is something to count.
    match len % 3 {
        0 => (u64::from(len) * 7).to_string().into_bytes(),
        _ => (0..len).map(|at| (usize::from(at) * 31 + seed) as u8).collect(),
    }
}

const MODES: [StoreMode; 5] =
    [StoreMode::Set, StoreMode::Add, StoreMode::Replace, StoreMode::Append, StoreMode::Prepend];

/// What the model says to a write, without the number that the item gets.
fn model_write(model: &mut Model, key: u8, write: &StoreRequest<'_>) -> StoreOutcome {
    let stored = |cas, kept: &Kept| StoreOutcome::Stored { cas, value_len: kept.value.len() };
    let fresh =
        Kept { value: write.value.to_vec(), flags: write.flags, expiry: write.expiry, cas: 0 };
    let old = model.map.get(&key).cloned();
    let joined = |front: &[u8], back: &[u8], old: &Kept| Kept {
        value: [front, back].concat(),
        ..old.clone()
    };
    let new = match (write.mode, old) {
        (StoreMode::Add, Some(_)) => return StoreOutcome::NotStored,
        (StoreMode::Set | StoreMode::Replace, None) if write.compare.is_some() => {
            return StoreOutcome::NotFound;
        }
        (StoreMode::Replace | StoreMode::Append | StoreMode::Prepend, None) => {
            return StoreOutcome::NotStored;
        }
        (_, Some(old)) if write.compare.is_some_and(|cas| cas != old.cas) => {
            return StoreOutcome::Exists;
        }
        (StoreMode::Append, Some(old)) => joined(&old.value, write.value, &old),
        (StoreMode::Prepend, Some(old)) => joined(write.value, &old.value, &old),
        _ => fresh,
    };
    let written = stored(0, &new);
    model.map.insert(key, new);
    written
}

fn model_count(model: &mut Model, key: u8, count: &CountRequest<'_>) -> Option<Result<u64, ()>> {
    let Some(kept) = model.map.get_mut(&key) else {
        let (value, expiry) = count.initial?;
        let kept = Kept { value: value.to_string().into_bytes(), flags: 0, expiry, cas: 0 };
        model.map.insert(key, kept);
        return Some(Ok(value));
    };
    let Some(before) = unsigned(&kept.value) else { return Some(Err(())) };
    let value = match count.way {
        CountDirection::Up => before.wrapping_add(count.delta),
        CountDirection::Down => before.saturating_sub(count.delta),
    };
    let len = kept.value.len();
    kept.value = format!("{value:<len$}").into_bytes();
    Some(Ok(value))
}

/// Takes the number that the store has given into the model, which cannot foresee it.
fn agree_on_cas(store: &mut Partition, model: &mut Model, of: u8) {
    if let (Some(kept), Some(place)) =
        (model.map.get_mut(&of), store.find(&key(&name(of)), model.now))
    {
        kept.cas = store.item(place).header.cas;
    }
}

fn take(store: &mut Partition, model: &mut Model, step: &Step, at: usize) {
    model.pass();
    let now = model.now;
    match *step {
        Step::Put { key: of, mode, len, time, compare } => {
            let (name, content) = (name(of), content(len, at));
            let write = StoreRequest {
                mode: MODES[usize::from(mode)],
                flags: at as u32,
                expiry: Expiry::of(time, now),
                compare: model.compare(of, compare),
                ..write(&name, &content)
            };
            let expected = model_write(model, of, &write);
            let written = match store.write(&write, now) {
                StoreOutcome::Stored { value_len, .. } => {
                    StoreOutcome::Stored { cas: 0, value_len }
                }
                other => other,
            };
            assert_eq!(written, expected, "{step:?}");
            agree_on_cas(store, model, of);
        }
        Step::Delete { key: of, compare } => {
            let compare = model.compare(of, compare);
            let expected = match model.map.get(&of) {
                None => DeleteOutcome::NotFound,
                Some(kept) if compare.is_some_and(|cas| cas != kept.cas) => DeleteOutcome::Exists,
                Some(_) => DeleteOutcome::Done,
            };
            if expected == DeleteOutcome::Done {
                model.map.remove(&of);
            }
            assert_eq!(store.delete(&key(&name(of)), compare, now), expected);
        }
        Step::Touch { key: of, time } => {
            let expiry = Expiry::of(time, now);
            let found = store.touch(&key(&name(of)), expiry, now).is_some();
            assert_eq!(found, model.map.contains_key(&of));
            model.map.entry(of).and_modify(|kept| kept.expiry = expiry);
        }
        Step::Count { key: of, up, delta, initial } => {
            let (name, way) =
                (name(of), if up { CountDirection::Up } else { CountDirection::Down });
            let initial = initial.then_some((9, Expiry::NEVER));
            let count =
                CountRequest { key: key(&name), way, delta, compare: None, cas: None, initial };
            let counted = match store.count(&count, now) {
                CountOutcome::Now { value, .. } => Some(Ok(value)),
                CountOutcome::NotNumeric => Some(Err(())),
                CountOutcome::NotFound => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(counted, model_count(model, of, &count), "{step:?}");
            agree_on_cas(store, model, of);
        }
        Step::Get { key: of } => {
            store.get(&key(&name(of)), now);
        }
        Step::Wait { seconds } => model.now = UnixTime(now.0 + u32::from(seconds)),
        Step::Flush { delay } => {
            // Seldom at once: it would leave little to look at.
            let at = UnixTime(now.0 + u32::from(delay / 4));
            store.flush(at, now);
            model.flush_at = Some(at);
        }
    }
}

fn compare(store: &mut Partition, model: &mut Model) {
    model.pass();
    for of in 0..12 {
        let found = store.get(&key(&name(of)), model.now).map(|place| {
            let item = store.item(place);
            let (flags, expiry) = (item.header.flags, item.header.expiry);
            Kept { value: item.value.to_vec(), flags, expiry, cas: item.header.cas }
        });
        assert_eq!(found.as_ref(), model.map.get(&of), "key {of}");
    }
    assert_eq!(store.statistics().curr_items as usize, model.map.len());
    check_memory(store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// What fits is there, as it was stored: nothing has to go while the memory suffices, however
    /// often it was gone through.
    #[test]
    fn it_does_what_a_map_does(steps in prop::collection::vec(step(), 1..400)) {
        let mut store = partition(PARTITION_BYTES_MIN);
        let mut model = Model { map: BTreeMap::new(), now: START, flush_at: None };
        for (at, step) in steps.iter().enumerate() {
            take(&mut store, &mut model, step, at);
            if at % 16 == 0 {
                compare(&mut store, &mut model);
            }
        }
        compare(&mut store, &mut model);
        prop_assert_eq!(store.statistics().counters.evictions, 0);
    }
}

#[test]
fn only_overwritten_items_are_reclaimed() {
    let mut store = partition(PARTITION_BYTES_MIN);
    // A third of the memory that nobody reads lies among what changes all the time.
    for round in 0..60_000u32 {
        let name = format!("hot{}", round % 10);
        set(&mut store, name.as_bytes(), &round.to_le_bytes().repeat(20));
        if round % 4 == 0 && round < 3200 {
            set(&mut store, format!("cold{}", round / 4).as_bytes(), &[7; 50]);
        }
    }
    let counters = store.statistics().counters;
    assert_eq!((counters.evictions, store.statistics().curr_items), (0, 810));
    assert!(counters.items_moved > 0, "{counters:?}");
    for number in 0..800u32 {
        let name = format!("cold{number}");
        assert_eq!(value(&mut store, name.as_bytes()).as_deref(), Some(&[7; 50][..]), "{name}");
    }
}

#[test]
fn when_memory_is_full_the_oldest_goes_and_what_is_read_stays() {
    let mut store = partition(PARTITION_BYTES_MIN);
    let used = |number: u32| format!("used{}", number % 100);
    for number in 0..100 {
        set(&mut store, used(number).as_bytes(), used(number).as_bytes());
    }
    set(&mut store, b"once", b"read");
    assert!(value(&mut store, b"once").is_some());
    let mut bytes = 0;
    for number in 0..80_000u32 {
        set(&mut store, format!("new{number}").as_bytes(), &[1; 100]);
        bytes += if number < 70_000 { 0 } else { store.statistics().bytes };
        let name = used(number);
        assert_eq!(
            value(&mut store, name.as_bytes()).as_deref(),
            Some(name.as_bytes()),
            "{number}"
        );
    }
    let now = store.statistics();
    assert!(now.counters.evictions > 60_000, "{now:?}");
    // What was read but once was kept for some rounds, and went then.
    assert_eq!(now.counters.evicted_unfetched, now.counters.evictions - 1);
    assert!(value(&mut store, b"once").is_none());
    assert!(value(&mut store, b"new0").is_none());
    assert!(value(&mut store, b"new79999").is_some());
    let share = bytes as f64 / 10_000.0 / now.limit_maxbytes as f64;
    assert!(share > 0.45, "only {share:.2} of the memory holds items: {now:?}");
}

#[test]
fn small_and_large_take_turns_within_the_memory() {
    let mut store = partition(PARTITION_BYTES_MIN);
    let longest = store.item_len_max();
    for round in 0..300usize {
        for number in 0..20 {
            set(&mut store, format!("s{round}:{number}").as_bytes(), &[3; 10]);
        }
        let len = (round * 997) % (longest - 60);
        let large = vec![round as u8; len];
        set(&mut store, b"large", &large);
        assert_eq!(value(&mut store, b"large").as_deref(), Some(&large[..]), "{round}");
    }
}

#[test]
fn an_item_of_1_mib_is_stored_where_it_fits_and_refused_where_not() {
    let large = vec![5; VALUE_LEN_MAX];
    let mut roomy = partition(16 << 20);
    for round in 0..40u32 {
        set(&mut roomy, format!("large{}", round % 20).as_bytes(), &large);
    }
    assert_eq!(value(&mut roomy, b"large19"), Some(large.clone()));
    let mut small = partition(PARTITION_BYTES_MIN);
    set(&mut small, b"large", b"before");
    assert_eq!(small.write(&write(b"large", &large), START), StoreOutcome::NoMemory);
    assert_eq!(value(&mut small, b"large"), None, "whoever reads must not find the old value");
    assert_eq!(small.statistics().counters.store_no_memory, 1);
    let longer = vec![5; VALUE_LEN_MAX + 1];
    set(&mut roomy, b"longer", b"before");
    assert_eq!(roomy.write(&write(b"longer", &longer), START), StoreOutcome::TooLarge);
    assert_eq!(value(&mut roomy, b"longer"), None);
    let append = StoreRequest { mode: StoreMode::Append, ..write(b"large19", b"x") };
    assert_eq!(roomy.write(&append, START), StoreOutcome::NotStored);
    assert_eq!(value(&mut roomy, b"large19"), Some(large), "it stays as it was");
}

#[test]
fn many_small_items_grow_the_index_within_the_same_memory() {
    let mut store = partition(1 << 20);
    for number in 0..40_000u32 {
        set(&mut store, &number.to_le_bytes(), b"");
    }
    let now = store.statistics();
    assert!(now.hash_bytes > 8 * 16 * 1024, "{now:?}");
    assert!(now.curr_items > 8_000, "{now:?}");
    let found = (0..40_000u32).filter(|n| value(&mut store, &n.to_le_bytes()).is_some()).count();
    assert_eq!(found as u64, now.curr_items);
    assert!(value(&mut store, &39_999u32.to_le_bytes()).is_some());
}

#[test]
fn expired_items_make_room_in_place() {
    let mut store = partition(PARTITION_BYTES_MIN);
    for number in 0..600u32 {
        let name = format!("brief{number}");
        let brief =
            StoreRequest { expiry: Expiry::of(1, START), ..write(name.as_bytes(), &[2; 50]) };
        store.write(&brief, START);
    }
    for number in 0..600u32 {
        set(&mut store, format!("kept{number}").as_bytes(), &[2; 50]);
    }
    let later = UnixTime(START.0 + 1);
    for number in 0..400u32 {
        let name = format!("later{number}");
        store.write(&write(name.as_bytes(), &[2; 100]), later);
    }
    let counters = store.statistics().counters;
    assert_eq!(counters.evictions, 0, "{counters:?}");
    assert!(counters.reclaimed > 0 && counters.expired_unfetched == counters.reclaimed);
    for number in 0..600u32 {
        assert!(store.get(&key(format!("kept{number}").as_bytes()), later).is_some(), "{number}");
    }
}

#[test]
fn a_stale_item_may_replace_a_newer_one_only_where_it_is_allowed() {
    let mut store = partition(PARTITION_BYTES_MIN);
    let numbered = |cas| StoreRequest { cas: Some(cas), ..write(b"k", b"new") };
    store.write(&numbered(100), START);
    let older = StoreRequest { compare: Some(50), ..write(b"k", b"old") };
    assert_eq!(store.write(&older, START), StoreOutcome::Exists);
    let allowed = StoreRequest { stale_allowed: true, ..older };
    assert!(matches!(store.write(&allowed, START), StoreOutcome::Stored { .. }));
    let place = store.find(&key(b"k"), START).unwrap();
    assert!(store.item(place).header.has(mark::STALE));
    let higher = StoreRequest { compare: Some(1000), stale_allowed: true, ..write(b"k", b"x") };
    assert_eq!(store.write(&higher, START), StoreOutcome::Exists);
}

#[test]
fn partitions_share_the_memory_and_their_numbers_differ() {
    assert!(matches!(Store::new(1 << 20, 0, 1), Err(StoreError::Partitions { .. })));
    let too_little = Store::new(4 * PARTITION_BYTES_MIN - 1, 4, 1).unwrap_err();
    assert!(too_little.to_string().contains("use at least 1048576 bytes for 4 partitions"));
    let store = Store::new(4 * PARTITION_BYTES_MIN, 4, 1).unwrap();
    let mut observed = std::collections::HashSet::new();
    for number in 0..1000u32 {
        let name = number.to_le_bytes();
        let key = store.key(&name);
        let written =
            store.partition(&key).write(&StoreRequest { key, ..write(&name, b"v") }, START);
        let StoreOutcome::Stored { cas, .. } = written else { panic!("{written:?}") };
        assert!(observed.insert(cas), "{cas} was given twice");
    }
    let all = store.statistics();
    assert_eq!((all.curr_items, all.limit_maxbytes), (1000, 4 * PARTITION_BYTES_MIN as u64));
    assert_eq!(all.counters.total_items, 1000);
    store.flush(START, START);
    assert_eq!(store.statistics().curr_items, 0);
}

#[test]
fn waiting_for_a_lock_is_counted() {
    let store = Store::new(PARTITION_BYTES_MIN, 1, 1).unwrap();
    let key = store.key(b"k");
    let held = store.partition(&key);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(store.partition(&store.key(b"k"))));
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(held);
        waiting.join().unwrap();
    });
    let all = store.statistics();
    assert_eq!(all.lock_waits, 1);
    assert!(all.lock_wait_ns > 1_000_000, "{all:?}");
}
