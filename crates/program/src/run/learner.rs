//! A table whose entries packets learn, for one worker.
//!
//! Each core learns for itself: the packets of a flow go to one core, so that no lock stands on
//! their way.

use niclab_table::{Config, Domain};

use super::burst::{BURST, Burst};
use super::keyed::{Keyed, keyed, words_of};
use super::plan::Wide;
use crate::form::{Kind, Program, Table};

/// Entries that are looked at with each that is learnt, whether their time has run out: all are,
/// while half as many are learnt as there is room for.
const SEEN_PER_LEARN: usize = 2;
/// Entries that are looked at where there is no room, before it is said that there is none.
const SEEN_WHEN_FULL: usize = 64;

/// The entries, and what packets of the burst have asked.
#[derive(Debug)]
pub(super) struct Learner {
    entries: Box<dyn Keyed>,
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
    /// The entry that is looked at next.
    hand: u32,
    timeouts_ns: Vec<u64>,
    /// The key of each packet of the burst, and the entry it met.
    asked: Vec<u64>,
    met: [Option<u32>; BURST],
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    expires_ns: u64,
    timeout: u8,
    action: u8,
    is_live: bool,
}

impl Learner {
    /// An empty one; `None` where there is no memory.
    pub(super) fn new(program: &Program, table: &Table, bits: u32) -> Option<Learner> {
        let Kind::Learner { actions, timeouts, .. } = &table.kind else { return None };
        let words = words_of(bits);
        let arguments = |action: usize| -> usize {
            program.arguments(action).iter().map(|of| (of.bits as usize).div_ceil(64)).sum()
        };
        let arguments_words = actions.of.iter().map(|(a, _)| arguments(*a)).max().unwrap_or(0);
        let config = Config::growing(table.size, super::content::seed());
        Some(Learner {
            entries: keyed(words, config, &Domain::new()).ok()?,
            words,
            keys: vec![0; table.size * words],
            arguments: vec![0; table.size * arguments_words],
            arguments_words,
            known: vec![Known::default(); table.size],
            free: Vec::with_capacity(table.size),
            fresh: 0,
            hand: 0,
            timeouts_ns: timeouts.iter().map(|s| u64::from(*s) * 1_000_000_000).collect(),
            asked: vec![0; BURST * words],
            met: [None; BURST],
        })
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The entry that a packet meets: its number, and the action.
    pub(super) fn look(&mut self, packet: usize, key: &[u64], now_ns: u64) -> Option<(u64, u16)> {
        self.asked[packet * self.words..][..self.words].copy_from_slice(key);
        self.met[packet] = None;
        let entry = self.entries.look_up(key)? as u32;
        let known = self.known[entry as usize];
        if known.expires_ns <= now_ns {
            return None;
        }
        self.met[packet] = Some(entry);
        Some((u64::from(entry), u16::from(known.action)))
    }

    /// A word of an entry's arguments.
    pub(super) fn argument(&self, entry: u64, at: usize) -> u64 {
        self.arguments[entry as usize * self.arguments_words + at]
    }

    fn timeout_ns(&self, timeout: u8) -> u64 {
        let at = usize::from(timeout) & (self.timeouts_ns.len().next_power_of_two() - 1);
        self.timeouts_ns.get(at).or(self.timeouts_ns.last()).copied().unwrap_or(0)
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
            Some(entry) => entry,
            None => match self.enter(packet, now_ns) {
                Some(entry) => entry,
                None => return,
            },
        };
        self.met[packet] = Some(met);
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
        let timeout = timeout as u8;
        let expires_ns = now_ns.saturating_add(self.timeout_ns(timeout));
        self.known[met as usize] =
            Known { expires_ns, timeout, action: action as u8, is_live: true };
    }

    /// Makes an entry for what a packet asked; none where there is no room.
    fn enter(&mut self, packet: usize, now_ns: u64) -> Option<u32> {
        let asked = packet * self.words..(packet + 1) * self.words;
        // It may be there, with its time run out.
        if let Some(entry) = self.entries.look_up(&self.asked[asked.clone()]) {
            return Some(entry as u32);
        }
        self.expire(SEEN_PER_LEARN, now_ns);
        if self.free.is_empty() && self.fresh as usize == self.known.len() {
            self.expire(SEEN_WHEN_FULL, now_ns);
        }
        let entry = match self.free.pop() {
            Some(entry) => entry,
            None if (self.fresh as usize) < self.known.len() => self.fresh,
            None => return None,
        };
        if self.entries.insert(&self.asked[asked.clone()], u64::from(entry)).is_err() {
            self.free.extend((entry != self.fresh).then_some(entry));
            return None;
        }
        self.fresh += u32::from(entry == self.fresh);
        let at = entry as usize * self.words;
        self.keys[at..at + self.words].copy_from_slice(&self.asked[asked]);
        Some(entry)
    }

    /// Looks at so many entries, and lets those go whose time has run out.
    fn expire(&mut self, count: usize, now_ns: u64) {
        for _ in 0..count.min(self.fresh as usize) {
            let entry = self.hand;
            self.hand = if entry + 1 < self.fresh { entry + 1 } else { 0 };
            let known = self.known[entry as usize];
            if known.is_live && known.expires_ns <= now_ns {
                self.let_go(entry);
            }
        }
    }

    fn let_go(&mut self, entry: u32) {
        let at = entry as usize * self.words;
        self.entries.remove(&self.keys[at..at + self.words]);
        self.known[entry as usize].is_live = false;
        self.free.push(entry);
    }

    /// Has the entry that a packet met stay for its timeout again.
    pub(super) fn rearm(&mut self, packet: usize, timeout: Option<u64>, now_ns: u64) {
        let Some(entry) = self.met[packet] else { return };
        let timeout = timeout.map_or(self.known[entry as usize].timeout, |timeout| timeout as u8);
        let expires_ns = now_ns.saturating_add(self.timeout_ns(timeout));
        let known = &mut self.known[entry as usize];
        if known.is_live {
            (known.timeout, known.expires_ns) = (timeout, expires_ns);
        }
    }

    /// Lets the entry go that a packet met.
    pub(super) fn forget(&mut self, packet: usize) {
        if let Some(entry) = self.met[packet].take() {
            self.let_go(entry);
        }
    }
}
