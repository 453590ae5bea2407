//! A partition with DMA segments, beside a plain map.

use std::collections::HashMap;
use std::sync::Arc;

use super::dma_segment::tests::image;
use super::dma_segment::{DMA_SEGMENT_BYTES, DMA_SEGMENT_LEN};
use super::simulated_card_tests::{CORES, Card, Random, Under, dma_segments, set_of};
use super::*;
use crate::kvs::protocol::answer::{DeleteOutcome, StoreOutcome};
use crate::kvs::protocol::event::tests::{encode_get, encode_stored};
use crate::kvs::protocol::event::{Event, EventKind, Requester};
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::request::{StoreMode, StoreRequest};
use crate::kvs::protocol::time::{Expiry, UnixTime};

const START: UnixTime = UnixTime(1_000_000);
const SEED: u64 = 7;

/// A partition with so much memory and so many DMA segments, and its card.
fn made(budget_bytes: usize, segments: usize) -> (Partition, Card) {
    let (dma, card) = dma_segments(segments);
    let mut partition = Partition::new(PartitionConfig { budget_bytes, number: 0, count: 1 });
    partition.attach_dma(dma, SEED);
    (partition, card)
}

fn client(id: u16) -> Requester {
    Requester {
        mac: Default::default(),
        ip: std::net::Ipv4Addr::UNSPECIFIED,
        port: 1,
        id,
        opaque: [0; 4],
    }
}

/// The core's turn; values of what it was asked for, in their order.
fn turn(partition: &mut Partition, now: UnixTime) -> Vec<(u16, Option<Vec<u8>>)> {
    let mut room = [Event::default(); 16];
    let (count, known) = partition.take_events(&mut room, now);
    let answers = serve(partition, &room[..count], known, now);
    partition.rotate_segments();
    answers
}

/// Serves events, of which some were looked at already: what was written is all published before
/// anything is linked.
fn serve(
    partition: &mut Partition,
    events: &[Event],
    known: u64,
    now: UnixTime,
) -> Vec<(u16, Option<Vec<u8>>)> {
    let publish = |(at, event): (usize, &Event)| match event.kind() {
        EventKind::Stored(written) if known >> at & 1 == 0 => {
            Some(partition.publish(&written).expect("the card writes what can be").0)
        }
        _ => None,
    };
    let places: Vec<_> = events.iter().enumerate().map(publish).collect();
    let mut answers = Vec::new();
    for (event, place) in events.iter().zip(places) {
        if let EventKind::Asked(key, client) = event.kind() {
            let place = partition.get(&HashedKey::new(key, SEED), now);
            answers.push((client.id, place.map(|place| partition.item(place).value.to_vec())));
        }
        place.into_iter().for_each(|place| partition.link_written(place));
    }
    answers
}

fn write<'a>(key: &'a [u8], value: &'a [u8], expiry: Expiry) -> StoreRequest<'a> {
    set_of(HashedKey::new(key, SEED), value, expiry)
}

/// What ends, and what is there.
#[derive(Clone, PartialEq, Debug)]
struct Kept {
    value: Vec<u8>,
    expiry: Expiry,
}

struct World {
    partition: Partition,
    card: Card,
    model: HashMap<Vec<u8>, Kept>,
    /// Gets that the ring has, with what they are to find at the latest.
    now: UnixTime,
    random: Random,
    keys: usize,
    /// All that is stored has to be found.
    is_ample: bool,
    /// A core of the card that has taken a place of the ring.
    holds: Option<usize>,
    /// Sets of the card, of requests, gaps, places of the ring that were held.
    counts: [usize; 4],
}

impl World {
    fn new(seed: u64, keys: usize, budget_bytes: usize, segments: usize, is_ample: bool) -> World {
        let (partition, card) = made(budget_bytes, segments);
        let random = Random(seed * 0x9e37_79b9 + 1);
        let (model, holds, counts) = (HashMap::new(), None, [0; 4]);
        World { partition, card, model, now: START, random, keys, is_ample, holds, counts }
    }

    fn key(&mut self) -> Vec<u8> {
        // Some are asked for often, and others live long.
        let among = if self.random.below(2) == 0 { 30 } else { self.keys };
        format!("key:{}", self.random.below(among)).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        let (len, first) = (self.random.below(1400), self.random.below(256));
        (0..len).map(|at| (at * 31 + first) as u8).collect()
    }

    fn keep(&mut self, key: Vec<u8>, value: Vec<u8>, expiry: Expiry) {
        self.model.insert(key, Kept { value, expiry });
    }

    #[track_caller]
    fn look(&mut self, key: &[u8], found: Option<Vec<u8>>) {
        let now = self.now;
        let kept = self.model.get(key).filter(|kept| !kept.expiry.is_past(now));
        match (found, kept) {
            (None, Some(_)) => assert!(!self.is_ample, "{key:?} is gone"),
            (found, kept) => assert_eq!(found.as_ref(), kept.map(|kept| &kept.value), "{key:?}"),
        }
    }

    /// By a request that the core serves, which has the partition alone.
    fn request(&mut self) {
        self.partition.catch_up();
        let (key, now) = (self.key(), self.now);
        match self.random.below(12) {
            0..5 => {
                let value = self.value();
                let expiry = match self.random.below(4) {
                    0 => Expiry::of(1 + self.random.below(3) as i64, now),
                    _ => Expiry::NEVER,
                };
                let written = self.partition.write(&write(&key, &value, expiry), now);
                assert!(matches!(written, StoreOutcome::Stored { .. }), "{written:?}");
                self.counts[1] += 1;
                self.keep(key, value, expiry);
            }
            5 => {
                let deleted = self.partition.delete(&HashedKey::new(&key, SEED), None, now);
                let kept = self.model.remove(&key).filter(|kept| !kept.expiry.is_past(now));
                let is_right = (deleted == DeleteOutcome::Done) == kept.is_some();
                assert!(is_right || !self.is_ample && deleted == DeleteOutcome::NotFound);
            }
            6 => {
                let tail = b"tail";
                let append =
                    StoreRequest { mode: StoreMode::Append, ..write(&key, tail, Expiry::NEVER) };
                let written = self.partition.write(&append, now);
                let kept = self.model.get_mut(&key).filter(|kept| !kept.expiry.is_past(now));
                match (written, kept) {
                    (StoreOutcome::Stored { .. }, Some(kept)) => kept.value.extend_from_slice(tail),
                    (StoreOutcome::NotStored, None) => {}
                    (StoreOutcome::NotStored, Some(_)) => {
                        assert!(!self.is_ample);
                        self.model.remove(&key);
                    }
                    other => panic!("{other:?}"),
                }
            }
            7 => {
                let expiry = Expiry::of(self.random.below(5) as i64, now);
                let place = self.partition.touch(&HashedKey::new(&key, SEED), expiry, now);
                if let Some(kept) = self.model.get_mut(&key).filter(|of| !of.expiry.is_past(now)) {
                    assert!(place.is_some() || !self.is_ample);
                    kept.expiry = expiry;
                }
            }
            _ => {
                let place = self.partition.get(&HashedKey::new(&key, SEED), now);
                let found = place.map(|place| self.partition.item(place).value.to_vec());
                self.look(&key, found);
            }
        }
    }

    /// A core takes a place of the ring, and fills it some steps later.
    fn hold(&mut self) {
        let (core, steps) = (self.random.below(CORES), self.random.below(60));
        let ring = Arc::clone(&self.card.ring);
        let reported = ring.fill(|shared, at| {
            self.holds = Some(core);
            (0..steps).for_each(|_| self.step());
            self.holds = None;
            // Events under way arrive there, after all that was answered meanwhile.
            let event = match self.card.under_way[core].take() {
                Some(Under { key, value, at, len, .. }) => {
                    self.partition.catch_up();
                    let event = encode_stored(key.len() as u8, at, len as u32);
                    self.keep(key, value, Expiry::NEVER);
                    event
                }
                None => vec![0; 88],
            };
            shared.copy_in(at, &event);
        });
        if reported {
            self.card.turns.end(core);
            self.counts[3] += 1;
        }
    }

    fn step(&mut self) {
        let core = self.random.below(CORES);
        if self.holds == Some(core) {
            return;
        }
        match self.random.below(100) {
            0..55 => {
                if self.card.under_way[core].is_none() {
                    let (key, value) = (self.key(), self.value());
                    if !self.card.begin(core, &key, &value, self.now) {
                        // As it came: the core stores it.
                        self.partition.catch_up();
                        let of = write(&key, &value, Expiry::NEVER);
                        let written = self.partition.write(&of, self.now);
                        assert!(matches!(written, StoreOutcome::Stored { .. }), "{written:?}");
                        self.counts[1] += 1;
                        self.keep(key, value, Expiry::NEVER);
                    }
                }
                let is_dropped = self.random.below(20) == 0;
                if self.random.below(3) > 0 {
                    match self.card.finish(core, is_dropped) {
                        Some((key, value)) => {
                            self.counts[0] += 1;
                            self.keep(key, value, Expiry::NEVER);
                        }
                        None => self.counts[2] += 1,
                    }
                }
            }
            55..70 => self.card.turn(core),
            70..85 => {
                turn(&mut self.partition, self.now);
            }
            85..99 => self.request(),
            _ => match self.random.below(40) {
                0 => self.now.0 += 1,
                1 if self.random.below(20) == 0 => {
                    self.partition.catch_up();
                    self.partition.flush(self.now, self.now);
                    self.model.clear();
                }
                2..20 if self.holds.is_none() => self.hold(),
                // What is asked for by the ring sees all that came before.
                _ if self.holds.is_some() => {}
                _ => {
                    while !turn(&mut self.partition, self.now).is_empty() {}
                    let key = self.key();
                    if self.card.tell(&encode_get(&client(9), &key)) {
                        let mut answers = Vec::new();
                        while answers.is_empty() {
                            answers = turn(&mut self.partition, self.now);
                        }
                        let (_, found) = answers.remove(0);
                        self.look(&key, found);
                    }
                }
            },
        }
        let now = self.partition.statistics();
        assert!(now.memory_bytes <= now.limit_maxbytes, "{now:?}");
        assert!(now.bytes + now.hash_bytes <= now.memory_bytes, "{now:?}");
        assert_eq!(now.unfit, 0);
    }

    fn run(&mut self, steps: usize) {
        (0..steps).for_each(|_| self.step());
        // In the end everything is found, and a live byte is one of an item that is in the index.
        self.partition.catch_up();
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        let mut live = 0;
        for key in keys {
            let place = self.partition.find(&HashedKey::new(&key, SEED), self.now);
            let found = place.map(|place| self.partition.item(place).value.to_vec());
            live += place.map_or(0, |place| self.partition.item(place).header.item_len());
            self.look(&key, found);
        }
        let over = self.partition.statistics().bytes as usize;
        assert!(live <= over, "{live} {over}");
    }
}

#[test]
fn items_stored_by_card_and_requests_match_a_map() {
    for seed in 0..4 {
        let mut world = World::new(seed, 2_000, 8 << 20, 2 + seed as usize % 3, true);
        world.run(60_000);
        let [by_card, by_requests, gaps, held] = world.counts;
        let is_all = by_card > 8_000 && by_requests > 3_000 && gaps > 500 && held > 100;
        assert!(is_all, "{:?}", world.counts);
        let counters = world.partition.statistics().counters;
        assert_eq!(counters.evictions, 0);
        assert!(counters.items_moved > 100, "segments went round: {counters:?}");
    }
}

#[test]
fn a_full_log_forgets_and_is_never_wrong() {
    for seed in 0..3 {
        let budget = 2 * DMA_SEGMENT_BYTES + (1 << 20) + (seed as usize) * (1 << 19);
        let mut world = World::new(100 + seed, 9_000, budget, 2, false);
        world.run(60_000);
        let counters = world.partition.statistics().counters;
        assert!(world.counts[0] > 6_000, "{:?}", world.counts);
        assert!(counters.evictions > 500, "{counters:?}");
    }
}

/// Whoever has the partition next sees what the card has answered for, though its core has not had
/// its turn; and what the core then takes is not linked twice.
#[test]
fn an_answered_item_is_found_by_every_client() {
    let (mut partition, mut card) = made(8 << 20, 2);
    let key = |key: &'static [u8]| HashedKey::new(key, SEED);
    assert!(card.begin(0, b"a", b"one", START));
    assert_eq!(partition.find(&key(b"a"), START), None, "not told of");
    card.finish(0, false).unwrap();
    assert!(partition.has_events());
    assert_eq!(partition.find(&key(b"a"), START), None, "nobody has looked");
    partition.catch_up();
    let place = partition.find(&key(b"a"), START).unwrap();
    assert_eq!(partition.item(place).value, b"one");
    assert_eq!(partition.delete(&key(b"a"), None, START), DeleteOutcome::Done);
    assert!(partition.has_events(), "its core takes it yet");
    assert_eq!(turn(&mut partition, START), []);
    assert_eq!(partition.find(&key(b"a"), START), None, "it was deleted since");
    assert!(!partition.has_events());
    assert_eq!(partition.statistics().counters.total_items, 1);
}

/// A core has taken the place of the ring before, and has not filled it: its client has no answer
/// yet, and the one behind has.
#[test]
fn an_answered_item_is_found_behind_an_empty_ring_entry() {
    let key = |key: &'static [u8]| HashedKey::new(key, SEED);
    let value = |partition: &mut Partition, of| {
        let place = partition.find(&key(of), START)?;
        Some(partition.item(place).value.to_vec())
    };
    let (mut partition, mut card) = made(8 << 20, 2);
    let ring = Arc::clone(&card.ring);
    assert!(card.begin(1, b"a", b"first", START));
    let Under { at: first, len, .. } = card.under_way[1].take().unwrap();
    assert!(ring.fill(|shared, at| {
        for of in [b"a", b"b"] {
            assert!(card.begin(0, of, b"one", START));
            card.finish(0, false).unwrap();
        }
        assert!(
            card.tell(&encode_get(&client(1), b"a")) && card.tell(&encode_get(&client(2), b"b"))
        );
        partition.catch_up();
        assert_eq!(value(&mut partition, b"a").as_deref(), Some(&b"one"[..]));
        // What a request stores then is not written over by what was answered before it.
        let written = partition.write(&write(b"b", b"two", Expiry::NEVER), START);
        assert!(matches!(written, StoreOutcome::Stored { .. }));
        partition.catch_up();
        assert_eq!(turn(&mut partition, START), [], "events are taken in their order");
        shared.copy_in(at, &encode_stored(1, first, len as u32));
    }));
    assert!(card.begin(0, b"c", b"one", START));
    card.finish(0, false).unwrap();
    let [a, b] = [&b"first"[..], b"two"].map(|value| Some(value.to_vec()));
    assert_eq!(turn(&mut partition, START), [(1, a), (2, b)]);
    assert_eq!(value(&mut partition, b"c").as_deref(), Some(&b"one"[..]));
    let statistics = partition.statistics();
    assert_eq!((statistics.stored.items, statistics.unfit), (4, 0), "each is linked once");
}

#[test]
fn a_segment_is_not_given_back_while_somebody_may_write_to_it() {
    let (mut partition, mut card) = made(8 << 20, 2);
    let value = vec![1; 1000];
    let mut stored = 0;
    let fill = |card: &mut Card, partition: &mut Partition, key: &[u8]| {
        let is_there = card.begin(0, key, &value, START);
        card.finish(0, false);
        turn(partition, START);
        is_there
    };
    let first = card.next.read() >> 40;
    // A core has begun, and goes on only when all is full.
    assert!(card.begin(1, b"late", b"late", START));
    while fill(&mut card, &mut partition, b"same") {
        stored += 1;
    }
    // The other segment is filled and full; the first one has not been sealed.
    for _ in 0..3 * stored {
        fill(&mut card, &mut partition, b"same");
    }
    assert_eq!(partition.log.dma_state(), (true, 0), "it waits for the core that has begun");
    let second = card.next.read() >> 40;
    assert_ne!(first, second);
    assert_eq!(card.finish(1, false), Some((b"late".to_vec(), b"late".to_vec())));
    turn(&mut partition, START);
    let place = partition.find(&HashedKey::new(b"late", SEED), START).unwrap();
    assert_eq!(partition.item(place).value, b"late");
    // Once that has ended two turns it is emptied, and what lives in it moves.
    for _ in 0..4 {
        (0..CORES).for_each(|core| card.turn(core));
        partition.catch_up();
    }
    let put = write(b"other", &value, Expiry::NEVER);
    for _ in 0..2 * stored {
        partition.write(&put, START);
    }
    assert_eq!(card.next.read(), first << 40, "the card has it again");
    let place = partition.find(&HashedKey::new(b"late", SEED), START).unwrap();
    assert_eq!(partition.item(place).value, b"late");
}

/// A core that rests is not waited for; one that has come back is.
#[test]
fn a_sleeping_core_delays_no_segment() {
    let (mut partition, mut card) = made(8 << 20, 2);
    let value = vec![1; 1000];
    let fill = |card: &mut Card, partition: &mut Partition, count: usize| {
        let mut refused = 0;
        for _ in 0..count {
            if !card.begin(0, b"same", &value, START) {
                refused += 1;
                partition.write(&write(b"same", &value, Expiry::NEVER), START);
            }
            card.finish(0, false);
            card.turn(0);
            turn(partition, START);
        }
        refused
    };
    card.turns.sleep(1);
    // Some segments, and a few sets for each that come while the next one is given.
    let refused = fill(&mut card, &mut partition, 8_000);
    assert!((1..50).contains(&refused), "{refused}");
    card.turns.wake(1);
    let refused = fill(&mut card, &mut partition, 8_000);
    assert!(refused > 4_000, "{refused}");
    card.turns.sleep(1);
    let refused = fill(&mut card, &mut partition, 8_000);
    assert!((1..50).contains(&refused), "{refused}");
}

/// An event that stands behind one that is not whole is linked, however far the segment of its item
/// was on its way to be sealed when the first one became whole.
#[test]
fn a_segment_is_not_sealed_on_a_look_that_was_too_early() {
    let (mut partition, mut card) = made(8 << 20, 3);
    let value = vec![1; 1000];
    let fill = |card: &mut Card, partition: &mut Partition, core| {
        while card.begin(core, b"same", &value, START) {
            card.finish(core, false);
            turn(partition, START);
        }
        turn(partition, START);
    };
    fill(&mut card, &mut partition, 0);
    for _ in 0..4 {
        (0..CORES).for_each(|core| card.turn(core));
        turn(&mut partition, START);
    }
    assert_eq!(partition.log.dma_state(), (false, 1), "the first one is sealed");
    // An item of the second one, which becomes full.
    assert!(card.begin(0, b"late", b"late", START));
    fill(&mut card, &mut partition, 1);
    assert_eq!(partition.log.dma_state(), (true, 0));
    // All that is in the first segment is dead: the next item to be linked finds it empty.
    assert!(card.begin(1, b"next", b"next", START));
    card.finish(1, false);
    let (ring, mut room) = (Arc::clone(&card.ring), [Event::default(); 16]);
    let mut taken = (0, 0);
    // Core 1 is in its next turn, and has the next place of the ring.
    assert!(ring.fill(|shared, at| {
        card.finish(0, false);
        partition.rotate_segments();
        taken = partition.take_events(&mut room, START);
        shared.copy_in(at, &encode_get(&client(1), b"other"));
    }));
    let (count, known) = taken;
    assert_eq!(count, 1);
    (0..CORES).for_each(|core| card.turn(core));
    serve(&mut partition, &room[..count], known, START);
    partition.rotate_segments();
    for _ in 0..4 {
        (0..CORES).for_each(|core| card.turn(core));
        turn(&mut partition, START);
    }
    let place = partition.find(&HashedKey::new(b"late", SEED), START).expect("it was answered");
    assert_eq!(partition.item(place).value, b"late");
    assert_eq!((partition.unfit(), partition.log.dma_state()), (0, (false, 1)));
}

/// A flush that was put off comes before what the card wrote since, and none of what it wrote
/// before is there, whenever that is linked.
#[test]
fn a_flush_that_was_put_off_comes_between_what_was_written_before_and_since() {
    let later = UnixTime(START.0 + 1);
    let look = |partition: &mut Partition, key: &[u8]| {
        let place = partition.find(&HashedKey::new(key, SEED), later);
        place.map(|place| partition.item(place).value.to_vec())
    };
    for now in [START, later] {
        let (mut partition, mut card) = made(8 << 20, 2);
        let mut store = |key: &[u8], at: UnixTime| {
            assert!(card.begin(0, key, key, at));
            card.finish(0, false);
        };
        store(b"before", START);
        turn(&mut partition, START);
        partition.flush(later, START);
        // One burst, which the core takes before it knows that the time has come, or after.
        store(b"old", START);
        for key in [b"a", b"b", b"c"] {
            store(key, later);
        }
        assert_eq!(turn(&mut partition, now), []);
        assert_eq!(look(&mut partition, b"before"), None);
        assert_eq!(look(&mut partition, b"old"), None);
        store(b"a", later);
        store(b"late", START);
        turn(&mut partition, later);
        for key in [b"a", b"b", b"c"] {
            assert_eq!(look(&mut partition, key).as_deref(), Some(&key[..]));
        }
        assert_eq!(look(&mut partition, b"late"), None, "it was written before");
        let len = image(b"a", b"a", 1, later).len() as u64;
        let statistics = partition.statistics();
        assert_eq!((statistics.curr_items, statistics.bytes), (3, 3 * len));
        // The same for who comes by another way.
        partition.flush(UnixTime(later.0 + 1), later);
        card.begin(0, b"x", b"x", later);
        card.finish(0, false);
        card.begin(0, b"y", b"y", UnixTime(later.0 + 1));
        card.finish(0, false);
        partition.catch_up();
        assert_eq!(look(&mut partition, b"x"), None);
        assert_eq!(look(&mut partition, b"y").as_deref(), Some(&b"y"[..]));
        assert_eq!(partition.statistics().curr_items, 1);
    }
}

#[test]
fn impossible_items_are_counted_and_not_linked() {
    let (mut partition, card) = made(8 << 20, 2);
    let one = image(b"a", b"value", 1, START);
    card.memory.write(0, &one);
    card.memory.write(DMA_SEGMENT_LEN, &one);
    let len = one.len() as u32;
    // Another segment, beyond the window, another length, between two places.
    for (at, len) in
        [(DMA_SEGMENT_LEN as u64, len), (u64::MAX, len), (2 << 40, len), (0, len + 8), (4, len)]
    {
        assert!(card.tell(&encode_stored(1, at, len)));
    }
    assert!(card.tell(&[3; 88]) && card.tell(&encode_stored(1, 0, len)));
    partition.catch_up();
    let statistics = partition.statistics();
    assert_eq!((statistics.unfit, statistics.curr_items), (5, 1));
    assert!(partition.find(&HashedKey::new(b"a", SEED), START).is_some());
}

#[test]
fn as_many_dma_segments_are_given_as_fit() {
    let least = DMA_PARTITION_BYTES_MIN;
    assert_eq!(dma_segments_of(least, 1, 64), Some(2));
    assert_eq!(dma_segments_of(least - 1, 1, 64), None);
    assert_eq!(dma_segments_of(2 * least, 2, 64), Some(2));
    assert_eq!(dma_segments_of(64 << 20, 2, 64), Some(15));
    assert_eq!(dma_segments_of(1 << 30, 2, 64), Some(32));
    assert_eq!(dma_segments_of(1 << 30, 16, 64), Some(4));
    assert_eq!(dma_segments_of(1 << 40, 33, 64), None);
    assert_eq!(dma_segments_of(1 << 40, 32, 64), Some(2));
}

#[test]
#[should_panic = "DMA segments for each partition"]
fn fewer_dma_segments_than_partitions_are_refused() {
    let store = Store::new(16 << 20, 2, SEED).unwrap().spread_by(Spread::Steered);
    store.attach_dma(std::iter::once(dma_segments(2).0));
}

#[test]
#[should_panic = "a store with DMA segments is steered"]
fn a_store_that_no_card_steers_takes_no_dma_segments() {
    let store = Store::new(16 << 20, 1, SEED).unwrap();
    store.attach_dma(std::iter::once(dma_segments(2).0));
}
