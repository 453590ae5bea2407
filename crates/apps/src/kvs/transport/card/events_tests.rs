//! The turns of a core whose card writes items, beside a plain map: bursts of events, segments that
//! go round meanwhile, and flushes that come in the middle.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use niclab_packet::wire::MacAddress;

use super::tests::{Sent, US};
use super::*;
use crate::kvs::protocol::answer::{DeleteOutcome, StoreOutcome};
use crate::kvs::protocol::event::Requester;
use crate::kvs::protocol::event::tests::encode_get;
use crate::kvs::protocol::hash::HashedKey;
use crate::kvs::protocol::time::{Expiry, UnixTime};
use crate::kvs::store::simulated_card_tests::{CORES, Card, Random, dma_segments, set_of};
use crate::kvs::store::{Spread, Store};

const SEED: u64 = 7;

/// Bytes of an answer before the value: headers, frame header, header and flags.
const VALUE_AT: usize = 42 + 8 + 24 + 4;

/// A value, and when it was written.
type Kept = (Vec<u8>, UnixTime);

/// A get that the ring has, and all that it may find.
struct Get {
    id: u16,
    key: Vec<u8>,
    found: Vec<Option<Vec<u8>>>,
}

struct World {
    store: Store,
    station: Station,
    card: Card,
    model: HashMap<Vec<u8>, Kept>,
    gets: VecDeque<Get>,
    now: UnixTime,
    /// The card's: a moment ahead of the core's, now and then.
    card_now: UnixTime,
    flush_at: Option<UnixTime>,
    /// What was written before is gone.
    flushed_at: UnixTime,
    random: Random,
    /// Items that the card has told of, gets, sets that it left, flushes, full bursts.
    counts: [usize; 5],
    id: u16,
}

impl World {
    fn new(seed: u64, segments: usize) -> World {
        let (dma, card) = dma_segments(segments);
        let store = Store::new(8 << 20, 1, SEED).unwrap().spread_by(Spread::Steered);
        store.attach_dma(std::iter::once(dma));
        let (start, random) = (UnixTime(1_000_000), Random(seed * 0x9e37_79b9 + 1));
        World {
            store,
            station: Station::new(US),
            card,
            model: HashMap::new(),
            gets: VecDeque::new(),
            now: start,
            card_now: start,
            flush_at: None,
            flushed_at: start,
            random,
            counts: [0; 5],
            id: 0,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let among = if self.random.below(2) == 0 { 20 } else { 1_500 };
        format!("key:{}", self.random.below(among)).into_bytes()
    }

    fn keep(&mut self, key: &[u8], kept: Option<Kept>) {
        let value = kept.as_ref().map(|(value, _)| value.clone());
        let gets = self.gets.iter_mut().filter(|get| get.key == key);
        gets.for_each(|get| get.found.push(value.clone()));
        match kept {
            Some(kept) => self.model.insert(key.to_vec(), kept),
            None => self.model.remove(key),
        };
    }

    /// All that was written before is gone, whatever a get in the ring may yet have found.
    fn flush(&mut self, at: UnixTime) {
        self.flush_at = None;
        self.model.retain(|_, (_, written)| *written >= at);
        self.gets.iter_mut().for_each(|get| get.found.push(None));
        self.counts[3] += 1;
    }

    /// The card has a request.
    fn send(&mut self) {
        let (core, key) = (self.random.below(CORES), self.key());
        if self.random.below(4) == 0 {
            self.id = self.id.wrapping_add(1);
            let (mac, ip) = (MacAddress([2, 0, 0, 0, 0, 7]), Ipv4Addr::new(10, 9, 0, 1));
            let client = Requester { mac, ip, port: 4000, id: self.id, opaque: [1, 2, 3, 4] };
            if self.card.tell(&encode_get(&client, &key)) {
                let found = vec![self.model.get(&key).map(|(value, _)| value.clone())];
                self.gets.push_back(Get { id: self.id, key, found });
                self.counts[1] += 1;
            }
            return;
        }
        if self.card.under_way[core].is_none() {
            let (len, first) = (self.random.below(1300), self.random.below(256));
            let value: Vec<u8> = (0..len).map(|at| (at * 31 + first) as u8).collect();
            if !self.card.begin(core, &key, &value, self.card_now) {
                self.counts[2] += 1;
                return self.write(&key, &value);
            }
        }
        if self.random.below(3) > 0 {
            let written = self.card.written_at(core);
            if let (Some(written), Some((key, value))) = (written, self.card.finish(core, false)) {
                self.counts[0] += 1;
                if written >= self.flushed_at {
                    self.keep(&key, Some((value, written)));
                }
            }
        }
    }

    /// A request that some core serves as it came.
    fn write(&mut self, key: &[u8], value: &[u8]) {
        let of = set_of(HashedKey::new(key, SEED), value, Expiry::NEVER);
        let written = self.store.locked(0).write(&of, self.now);
        assert!(matches!(written, StoreOutcome::Stored { .. }), "{written:?}");
        self.keep(key, Some((value.to_vec(), self.now)));
    }

    fn request(&mut self) {
        let key = self.key();
        let hashed = HashedKey::new(&key, SEED);
        match self.random.below(3) {
            0 => self.write(&key, b"by a request"),
            1 => {
                let deleted = self.store.locked(0).delete(&hashed, None, self.now);
                assert_eq!(deleted == DeleteOutcome::Done, self.model.contains_key(&key));
                self.keep(&key, None);
            }
            _ => self.look(&key),
        }
    }

    fn look(&self, key: &[u8]) {
        let mut partition = self.store.locked(0);
        let place = partition.find(&HashedKey::new(key, SEED), self.now);
        let found = place.map(|place| partition.item(place).value);
        assert_eq!(found, self.model.get(key).map(|(value, _)| &value[..]), "{key:?}");
    }

    /// The core's turn; how many events there were.
    fn turn(&mut self, most: usize) -> usize {
        let context = Context { store: &self.store, now: self.now, host: &() };
        let mut sent = Sent { frames: Vec::new(), room: usize::MAX };
        let count = self.station.turn(0, most, &context, &mut (), &mut sent);
        self.counts[4] += usize::from(count == BURST);
        for frame in sent.frames {
            let get = self.gets.pop_front().unwrap();
            assert_eq!(frame[42..44], get.id.to_be_bytes());
            let body_len = u32::from_be_bytes(*frame[42 + 8 + 8..].first_chunk().unwrap()) as usize;
            let is_found = frame[42 + 8 + 6..][..2] == [0, 0];
            let found = is_found.then(|| frame[VALUE_AT..][..body_len - 4].to_vec());
            assert!(get.found.contains(&found), "{:?}", get.key);
        }
        count
    }

    /// A second goes by: the card knows it first.
    fn tick(&mut self) {
        self.card_now.0 += 1;
        let is_due = self.flush_at.filter(|at| *at <= self.card_now);
        self.flushed_at = is_due.unwrap_or(self.flushed_at);
        for _ in 0..self.random.below(60) {
            // Sets alone: whether a flush has come hangs on whose clock one asks.
            let (core, key) = (self.random.below(CORES), self.key());
            if self.card.under_way[core].is_none() {
                self.card.begin(core, &key, &key.clone(), self.card_now);
            }
            let written = self.card.written_at(core);
            if let (Some(written), Some((key, value))) = (written, self.card.finish(core, false)) {
                self.counts[0] += 1;
                if written >= self.flushed_at {
                    self.keep(&key, Some((value, written)));
                }
            }
        }
        if let Some(at) = is_due {
            self.flush(at);
        }
        let most = self.random.below(BURST) + 1;
        match self.random.below(3) {
            0 => drop(self.turn(most)),
            1 => self.store.locked(0).catch_up(),
            _ => {}
        }
        self.now = self.card_now;
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..8 => (0..self.random.below(80)).for_each(|_| self.send()),
            8..12 => (0..CORES).for_each(|core| self.card.turn(core)),
            12..18 => {
                let most =
                    if self.random.below(3) == 0 { 1 + self.random.below(BURST) } else { BURST };
                while self.turn(most) == most && self.random.below(4) > 0 {}
            }
            18 => self.request(),
            _ => match self.random.below(10) {
                0 if self.flush_at.is_none() => {
                    let at = UnixTime(self.now.0 + 1 + self.random.below(2) as u32);
                    self.store.flush(at, self.now);
                    self.flush_at = Some(at);
                }
                1 if self.random.below(10) == 0 => {
                    self.store.flush(self.now, self.now);
                    self.flush(UnixTime(u32::MAX));
                }
                2..6 => self.tick(),
                _ => {}
            },
        }
        let now = self.store.statistics();
        assert!(now.memory_bytes <= now.limit_maxbytes && now.unfit == 0, "{now:?}");
    }
}

#[test]
fn turns_of_a_core_serve_the_same_items_as_a_map() {
    for seed in 0..6 {
        let mut world = World::new(seed, 2 + seed as usize % 2);
        for _ in 0..6_000 {
            world.step();
        }
        while world.turn(BURST) > 0 {}
        let keys: Vec<Vec<u8>> = world.model.keys().cloned().collect();
        keys.iter().for_each(|key| world.look(key));
        let statistics = world.store.statistics();
        assert_eq!(statistics.curr_items, world.model.len() as u64);
        let [reported, gets, left, flushes, bursts] = world.counts;
        assert!(reported > 10_000 && gets > 5_000 && flushes > 10, "{:?}", world.counts);
        assert!(left > 0 && bursts > 100, "{:?}", world.counts);
        assert!(statistics.counters.items_moved > 100 && statistics.counters.evictions == 0);
    }
}
