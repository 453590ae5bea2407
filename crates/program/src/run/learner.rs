//! A table whose entries packets learn, for one worker.
//!
//! Each core learns for itself: the packets of a flow go to one core, so that no lock stands on
//! their way. All memory is set aside when a program is loaded, and nothing here searches through
//! entries: those of one timeout are in the order in which their time runs out, so the first of
//! each is the only one to be asked where room is wanted. For that, time must not go back.

use niclab_table::Hasher;

use super::burst::{BURST, Burst};
use super::content::seed;
use super::keyed::{hash, words_of};
use super::plan::Wide;
use crate::form::{Kind, Program, Table};

/// No entry.
const NONE: u32 = u32::MAX;

/// The entries, and what packets of the burst have asked.
#[derive(Debug)]
pub(super) struct Learner {
    index: Index,
    words: usize,
    /// Keys of entries, one behind the other, by number.
    keys: Vec<u64>,
    /// Arguments likewise.
    arguments: Vec<u64>,
    arguments_words: usize,
    known: Vec<Known>,
    free: Vec<u32>,
    /// Entries from here on were never used.
    fresh: u32,
    timeouts_ns: Vec<u64>,
    /// Of each timeout, the entry whose time runs out first, and the last.
    queues: Vec<(u32, u32)>,
    /// The key of each packet of the burst, and the entry it met.
    asked: Vec<u64>,
    met: [u32; BURST],
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug)]
struct Known {
    expires_ns: u64,
    /// Its neighbours in the queue of its timeout.
    before: u32,
    after: u32,
    timeout: u8,
    action: u8,
}

impl Learner {
    /// An empty one.
    pub(super) fn new(program: &Program, table: &Table, bits: u32) -> Option<Learner> {
        let Kind::Learner { actions, timeouts, .. } = &table.kind else { return None };
        let words = words_of(bits);
        let arguments = |action: usize| -> usize {
            program.arguments(action).iter().map(|of| (of.bits as usize).div_ceil(64)).sum()
        };
        let arguments_words = actions.of.iter().map(|(a, _)| arguments(*a)).max().unwrap_or(0);
        let unknown = Known { expires_ns: 0, before: 0, after: 0, timeout: 0, action: 0 };
        Some(Learner {
            index: Index::new(table.size),
            words,
            keys: vec![0; table.size * words],
            arguments: vec![0; table.size * arguments_words],
            arguments_words,
            known: vec![unknown; table.size],
            free: Vec::with_capacity(table.size),
            fresh: 0,
            timeouts_ns: timeouts.iter().map(|s| u64::from(*s) * 1_000_000_000).collect(),
            queues: vec![(NONE, NONE); timeouts.len()],
            asked: vec![0; BURST * words],
            met: [NONE; BURST],
        })
    }

    /// Entries that it has, with those whose time has run out and whose room nobody wanted yet.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.fresh as usize - self.free.len()
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The entry that a packet meets: its number, and the action.
    pub(super) fn look(&mut self, packet: usize, key: &[u64], now_ns: u64) -> Option<(u64, u16)> {
        self.asked[packet * self.words..][..self.words].copy_from_slice(key);
        self.met[packet] = NONE;
        let entry = self.index.find(key, &self.keys)?;
        let known = self.known[entry as usize];
        if known.expires_ns <= now_ns {
            return None;
        }
        self.met[packet] = entry;
        Some((u64::from(entry), u16::from(known.action)))
    }

    /// A word of an entry's arguments.
    pub(super) fn argument(&self, entry: u64, at: usize) -> u64 {
        self.arguments[entry as usize * self.arguments_words + at]
    }

    /// Which timeout a number means.
    fn timeout(&self, number: u64) -> u8 {
        let count = self.timeouts_ns.len();
        let at = number as usize & (count.next_power_of_two() - 1);
        if at < count { at as u8 } else { 0 }
    }

    /// Keeps what a packet asked, or changes the entry it met.
    pub(super) fn learn(
        &mut self,
        packet: usize,
        action: usize,
        arguments: &[Wide],
        timeout: u64,
        now_ns: u64,
        burst: &Burst,
    ) {
        let met = match self.met[packet] {
            NONE => match self.enter(packet, now_ns) {
                Some(entry) => entry,
                None => return,
            },
            entry => {
                self.unlink(entry);
                entry
            }
        };
        self.met[packet] = met;
        let mut at = met as usize * self.arguments_words;
        for wide in arguments {
            match *wide {
                Wide::Lane { lane, .. } => {
                    self.arguments[at] = burst.lanes[lane][packet];
                    at += 1;
                }
                Wide::Bytes { at: from, len } => {
                    for chunk in burst.stored(packet)[from..from + len].chunks(8) {
                        let mut eight = [0; 8];
                        eight[..chunk.len()].copy_from_slice(chunk);
                        self.arguments[at] = u64::from_le_bytes(eight);
                        at += 1;
                    }
                }
            }
        }
        self.known[met as usize].action = action as u8;
        self.link(met, self.timeout(timeout), now_ns);
    }

    /// Makes an entry for what a packet asked, which is in no queue; none where there is no room.
    fn enter(&mut self, packet: usize, now_ns: u64) -> Option<u32> {
        let asked = packet * self.words..(packet + 1) * self.words;
        // It may be there, with its time run out.
        if let Some(entry) = self.index.find(&self.asked[asked.clone()], &self.keys) {
            self.unlink(entry);
            return Some(entry);
        }
        let entry = match self.free.pop() {
            Some(entry) => entry,
            None if (self.fresh as usize) < self.known.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => {
                let first = self.queues.iter().map(|(first, _)| *first);
                let is_over =
                    |of: &u32| *of != NONE && self.known[*of as usize].expires_ns <= now_ns;
                let entry = first.into_iter().find(is_over)?;
                self.take_out(entry);
                entry
            }
        };
        let at = entry as usize * self.words;
        self.keys[at..at + self.words].copy_from_slice(&self.asked[asked]);
        self.index.insert(&self.keys[at..at + self.words], entry);
        Some(entry)
    }

    /// Has an entry stay for a timeout, from now on.
    fn link(&mut self, entry: u32, timeout: u8, now_ns: u64) {
        let (first, last) = &mut self.queues[usize::from(timeout)];
        let before = std::mem::replace(last, entry);
        match before {
            NONE => *first = entry,
            before => self.known[before as usize].after = entry,
        }
        let expires_ns = now_ns.saturating_add(self.timeouts_ns[usize::from(timeout)]);
        let known = &mut self.known[entry as usize];
        *known = Known { expires_ns, before, after: NONE, timeout, ..*known };
    }

    /// Takes an entry out of its queue.
    fn unlink(&mut self, entry: u32) {
        let Known { before, after, timeout, .. } = self.known[entry as usize];
        let (first, last) = &mut self.queues[usize::from(timeout)];
        match before {
            NONE => *first = after,
            before => self.known[before as usize].after = after,
        }
        match after {
            NONE => *last = before,
            after => self.known[after as usize].before = before,
        }
    }

    /// Takes an entry out of its queue and of the index.
    fn take_out(&mut self, entry: u32) {
        self.unlink(entry);
        let at = entry as usize * self.words;
        self.index.remove(&self.keys[at..at + self.words], &self.keys);
    }

    /// Has the entry that a packet met stay for its timeout again.
    pub(super) fn rearm(&mut self, packet: usize, timeout: Option<u64>, now_ns: u64) {
        let entry = self.met[packet];
        if entry != NONE {
            let known = self.known[entry as usize].timeout;
            let timeout = timeout.map_or(known, |number| self.timeout(number));
            self.unlink(entry);
            self.link(entry, timeout, now_ns);
        }
    }

    /// Lets the entry go that a packet met.
    pub(super) fn forget(&mut self, packet: usize) {
        let entry = std::mem::replace(&mut self.met[packet], NONE);
        if entry != NONE {
            self.take_out(entry);
            // It has room for all there are.
            self.free.push(entry);
        }
    }
}

/// Where entries are by their keys: an open table of at least twice as many places, which never
/// grows. A key stands at its home or behind it, with no empty place between.
#[derive(Debug)]
struct Index {
    hasher: Hasher,
    /// Half of the hash, and one more than the number of the entry; zero is empty.
    places: Vec<u64>,
}

impl Index {
    fn new(entries: usize) -> Index {
        let places = vec![0; (2 * entries).next_power_of_two()];
        Index { hasher: Hasher::new(seed()), places }
    }

    /// The upper half of a key's hash.
    fn hash(&self, key: &[u64]) -> u64 {
        hash(&self.hasher, key) >> 32
    }

    fn home(&self, hash: u64) -> usize {
        ((hash * self.places.len() as u64) >> 32) as usize
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// Where a key stands, and its entry; `keys` are those of all entries.
    fn place(&self, key: &[u64], keys: &[u64]) -> Option<(usize, u32)> {
        let hash = self.hash(key);
        let mut place = self.home(hash);
        loop {
            let of = self.places[place];
            if of == 0 {
                return None;
            }
            let entry = of as u32 - 1;
            if of >> 32 == hash && keys[entry as usize * key.len()..].starts_with(key) {
                return Some((place, entry));
            }
            place = self.next(place);
        }
    }

    fn find(&self, key: &[u64], keys: &[u64]) -> Option<u32> {
        self.place(key, keys).map(|(_, entry)| entry)
    }

    /// Takes a key in that it has not got.
    fn insert(&mut self, key: &[u64], entry: u32) {
        let hash = self.hash(key);
        let mut place = self.home(hash);
        while self.places[place] != 0 {
            place = self.next(place);
        }
        self.places[place] = hash << 32 | u64::from(entry + 1);
    }

    /// Takes a key out, and moves up what stands behind it.
    fn remove(&mut self, key: &[u64], keys: &[u64]) {
        let Some((mut hole, _)) = self.place(key, keys) else { return };
        let (mut place, mask) = (hole, self.places.len() - 1);
        loop {
            place = self.next(place);
            let of = self.places[place];
            if of == 0 {
                break;
            }
            // It may move where its home is not between the hole and its place.
            let home = self.home(of >> 32);
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.places[hole] = of;
                hole = place;
            }
        }
        self.places[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn an_index_finds_what_is_in_it_and_nothing_else() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for entries in [1, 3, 64] {
            let mut index = Index::new(entries);
            let (mut keys, mut free) = (vec![0; entries], (0..entries as u32).collect::<Vec<_>>());
            let mut model = HashMap::new();
            for _ in 0..20_000 {
                let key = [rng.random_range(0..3 * entries as u64)];
                assert_eq!(index.find(&key, &keys), model.get(&key).copied());
                match model.remove(&key) {
                    Some(entry) => {
                        index.remove(&key, &keys);
                        free.push(entry);
                    }
                    None => {
                        if let Some(entry) = free.pop() {
                            keys[entry as usize] = key[0];
                            index.insert(&key, entry);
                            model.insert(key, entry);
                        }
                    }
                }
            }
            let used = index.places.iter().filter(|place| **place != 0).count();
            assert_eq!(used, model.len());
        }
    }
}
