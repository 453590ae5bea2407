//! The pipeline of one core: parse, rule groups, actions, RSS; a burst at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use niclab_packet::key::Key;
use niclab_table::Participant;

use crate::control::Board;
use crate::counters::Counters;
use crate::limits::BURST;
use crate::memory::{Desc, Region};
use crate::tables::{Shared, bits};
use crate::word::{Fate, Word};

/// Bytes of the frame check sequence, which counters include and frames in memory do not have.
const FCS_LEN: u64 = 4;

/// What the NIC decided about a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver to this queue.
    Queue(u16),
    /// Discard: a rule said so.
    #[default]
    Drop,
}

/// The pipeline for one core. It reads what the control side shows and waits for nobody.
pub struct Worker {
    board: Arc<Board>,
    version: u64,
    groups: Arc<Vec<Vec<Arc<Shared>>>>,
    participant: Participant,
    counters: Arc<Counters>,
    keys: Box<[Key; BURST]>,
}

impl Worker {
    pub(crate) fn new(board: Arc<Board>, counters: Arc<Counters>) -> Worker {
        let version = board.version.load(Ordering::Acquire);
        Worker {
            version,
            groups: board.groups.load_full(),
            participant: board.domain.reader_slot(),
            counters,
            keys: Box::new([Key::default(); BURST]),
            board,
        }
    }

    /// Decides about a burst of at most [`BURST`] frames of `region`; fills in their queue and hash.
    /// Memory of destroyed rules is reused only after a call of this on every online worker.
    #[inline]
    pub fn classify(&mut self, region: &Region, burst: &mut [Desc], verdicts: &mut [Verdict]) {
        self.participant.quiescent();
        self.refresh();
        for desc in burst.iter() {
            region.prefetch(desc);
        }
        for (key, desc) in self.keys.iter_mut().zip(burst.iter()) {
            *key = Key::parse(region.frame(desc));
        }
        self.match_groups(burst, verdicts);
    }

    /// Says that this worker will not run for a while: what it held may be reused.
    pub fn offline(&mut self) {
        self.participant.offline();
    }

    /// Takes up work again after [`Worker::offline`].
    pub fn online(&mut self) {
        self.participant.online();
    }

    #[inline]
    fn refresh(&mut self) {
        let version = self.board.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.groups = self.board.groups.load_full();
        }
    }

    /// From group to group, in ascending order of place within each jump, until every packet has its
    /// fate.
    #[inline]
    fn match_groups(&mut self, burst: &mut [Desc], verdicts: &mut [Verdict]) {
        let count = burst.len();
        let mut open = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        let mut places = [0u16; BURST];
        let mut words = [0; BURST];
        while open != 0 {
            let place = places[open.trailing_zeros() as usize];
            let same = |&i: &usize| places[i] == place;
            let here = bits(open).filter(same).fold(0, |mask, i| mask | 1 << i);
            let found = self.match_group(usize::from(place), count, here, &mut words);
            for i in bits(here & !found) {
                let (hash, queue) = self.board.rss.spread(&self.keys[i]);
                (burst[i].hash, burst[i].queue) = (hash, queue);
                verdicts[i] = Verdict::Queue(queue);
            }
            let mut jumped = 0;
            for i in bits(found) {
                let word = Word(words[i]);
                if word.counts() {
                    self.counters.add(word.rule(), u64::from(burst[i].len()) + FCS_LEN);
                }
                match word.fate() {
                    Fate::Queue(queue) => {
                        burst[i].queue = queue;
                        verdicts[i] = Verdict::Queue(queue);
                    }
                    Fate::Drop => verdicts[i] = Verdict::Drop,
                    Fate::Jump(to) => {
                        places[i] = to;
                        jumped |= 1 << i;
                    }
                }
            }
            open = open & !here | jumped;
        }
    }

    /// Matches the packets in `wanted` against one group; returns which of them found a rule, the
    /// word of the best one in `words`.
    #[inline]
    fn match_group(
        &self,
        place: usize,
        count: usize,
        wanted: u64,
        words: &mut [u64; BURST],
    ) -> u64 {
        let tables = self.groups.get(place).map_or(&[][..], |group| group);
        let (mut found, mut open, mut worst) = (0, wanted, 0);
        for (at, table) in tables.iter().enumerate() {
            if open == 0 {
                break;
            }
            let mut values = [0; BURST];
            let hits = self.look_up(table, count, open, &mut values);
            let beaten = bits(hits & found).filter(|&i| !self.better(values[i], words[i]));
            let better = hits & !beaten.fold(0, |mask, i| mask | 1 << i);
            for i in bits(better) {
                words[i] = values[i];
            }
            found |= hits;
            let rest_best = tables[at + 1..].iter().map(|t| t.best()).min().unwrap_or(u64::MAX);
            worst = worst.max(table.worst());
            open &= !self.settled(found & open, words, worst, rest_best);
        }
        found
    }

    #[inline]
    fn look_up(
        &self,
        table: &Shared,
        count: usize,
        wanted: u64,
        values: &mut [u64; BURST],
    ) -> u64 {
        match &table.view {
            Some(view) => {
                let keys = &self.keys[..count];
                view.look_up(&self.participant, &table.selector, keys, wanted, values)
            }
            None => {
                let word = table.any.load(Ordering::Acquire);
                values.fill(word);
                if word == 0 { 0 } else { wanted }
            }
        }
    }

    /// Order of the rule behind a word.
    fn order(&self, word: u64) -> u64 {
        let order = self.board.orders.get(Word(word).rule());
        order.map_or(u64::MAX, |order| order.load(Ordering::Acquire))
    }

    fn better(&self, word: u64, than: u64) -> bool {
        self.order(word) < self.order(than)
    }

    /// Which packets have a rule that no later table can beat; `worst` is the worst order among the
    /// tables so far, `rest_best` the best among those to come.
    #[inline]
    fn settled(&self, found: u64, words: &[u64; BURST], worst: u64, rest_best: u64) -> u64 {
        if worst <= rest_best {
            return found;
        }
        let last = |&i: &usize| self.order(words[i]) <= rest_best;
        bits(found).filter(last).fold(0, |mask, i| mask | 1 << i)
    }
}
