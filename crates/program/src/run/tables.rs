//! Tables, for one worker: look-ups of a burst, and the learners that are its own.

use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::{Generation, Participant, Segments, VersionedValues, is_reference};

use super::burst::{BURST, Burst, LaneValues, NO_ACTION, bits, each_of};
use super::keyed::Lookup;
use super::learner::Learner;
use super::packets::Packets;
use super::plan::{Engine, Look, Piece, Plan, Wide};
use super::record::{Does, HEAD, Records, Word};
use crate::hash::crc32c;

/// What a burst reads tables by.
pub(super) struct Reading<'a> {
    pub participant: &'a Participant,
    pub generation: Generation,
    pub versions: &'a VersionedValues,
    pub records: &'a Records,
    /// Words of default actions, by table.
    pub defaults: &'a [AtomicU64],
    /// Words of the groups of selectors, by table.
    pub groups: &'a [Option<Segments<1>>],
}

impl Reading<'_> {
    /// What a word stands for in this burst.
    #[inline(always)]
    pub(super) fn now(&self, word: u64) -> u64 {
        if is_reference(word) { self.versions.resolve(word, self.generation) } else { word }
    }
}

/// The tables of one worker.
#[derive(Debug)]
pub(super) struct Tables {
    /// Entries that the control side puts there, by table.
    readers: Vec<Box<dyn Lookup>>,
    learners: Vec<Option<Learner>>,
    /// Keys of a burst, one behind the other.
    keys: Vec<u64>,
}

/// Answers to a burst.
struct Answers {
    /// Packets that have one.
    found: u64,
    words: LaneValues,
}

impl Tables {
    pub(super) fn new(
        plan: &Plan,
        program: &crate::form::Program,
        readers: Vec<Box<dyn Lookup>>,
    ) -> Tables {
        let learner = |(of, look): (&crate::form::Table, &Look)| match look {
            Look::Learner { bits, .. } => Learner::new(program, of, *bits),
            _ => None,
        };
        let learners = program.tables.iter().zip(&plan.tables).map(learner).collect();
        let keys = vec![0; BURST * niclab_table::KEY_WORDS_MAX];
        Tables { readers, learners, keys }
    }

    /// Lets go of what the control side may have replaced.
    pub(super) fn release_view(&mut self) {
        self.readers.iter_mut().for_each(|reader| reader.release_view());
    }

    /// Tells how much each learner has learnt, by table.
    #[inline]
    pub(super) fn learnt(&self, mut tell: impl FnMut(usize, usize)) {
        for (table, learner) in self.learners.iter().enumerate() {
            if let Some(learner) = learner {
                tell(table, learner.len());
            }
        }
    }

    /// Looks packets up; what they found is in the burst then.
    pub(super) fn look<P: Packets>(
        &mut self,
        table: usize,
        packets: P,
        burst: &mut Burst,
        plan: &Plan,
        now_ns: u64,
        reading: &Reading<'_>,
    ) {
        let active = packets.mask();
        let answers = match &plan.tables[table] {
            Look::Match { how: Engine::Nothing, .. } | Look::Selector { .. } => {
                burst.hit &= !active;
                return self.default(table, active, burst, plan, reading);
            }
            Look::Match { key, how, .. } => self.find(table, key, *how, packets, burst, reading),
            Look::Learner { key, .. } => {
                self.learned(table, key, packets, burst, plan, now_ns);
                let found = burst.hit & active;
                self.default(table, active & !found, burst, plan, reading);
                return;
            }
        };
        burst.hit = burst.hit & !active | answers.found;
        each_of(answers.found, |i| {
            if let Does::Record(_, number) = Word(answers.words[i]).does() {
                reading.records.prefetch(number);
            }
        });
        each_of(answers.found, |i| take(answers.words[i], i, burst, plan, reading));
        self.default(table, active & !answers.found, burst, plan, reading);
    }

    /// The default action, for packets that found nothing.
    fn default(
        &self,
        table: usize,
        missed: u64,
        burst: &mut Burst,
        plan: &Plan,
        reading: &Reading<'_>,
    ) {
        if missed != 0 {
            let word = reading.now(reading.defaults[table].load(Ordering::Acquire));
            for i in bits(missed) {
                take(word, i, burst, plan, reading);
                burst.entry[i] = 0;
            }
        }
    }

    /// The entries that win for packets.
    fn find<P: Packets>(
        &mut self,
        table: usize,
        key: &[Piece],
        how: Engine,
        packets: P,
        burst: &Burst,
        reading: &Reading<'_>,
    ) -> Answers {
        let active = packets.mask();
        let reader = &mut self.readers[table];
        let words = reader.words();
        let count = pack(&mut self.keys, words, key, packets, burst);
        let mut by_key = [0; BURST];
        let found = reader.find(&self.keys[..count * words], how, reading, &mut by_key);
        if active == u64::MAX {
            return Answers { found, words: by_key };
        }
        let mut answers = Answers { found: 0, words: [0; BURST] };
        for (at, i) in bits(active).enumerate() {
            answers.words[i] = by_key[at];
            answers.found |= (found >> at & 1) << i;
        }
        answers
    }

    fn learned<P: Packets>(
        &mut self,
        table: usize,
        key: &[Piece],
        packets: P,
        burst: &mut Burst,
        plan: &Plan,
        now_ns: u64,
    ) {
        let active = packets.mask();
        burst.hit &= !active;
        let Some(learner) = &mut self.learners[table] else { return };
        let words = learner.words();
        pack(&mut self.keys, words, key, packets, burst);
        for (at, i) in bits(active).enumerate() {
            let key = &self.keys[at * words..][..words];
            if let Some((entry, action)) = learner.look(i, key, now_ns) {
                burst.hit |= 1 << i;
                burst.ran[i] = action;
                burst.entry[i] = entry + 1;
                let mut at = 0;
                for argument in &plan.arguments[usize::from(action)] {
                    let word = |n: usize| learner.argument(entry, at + n);
                    give(argument.to, i, burst, word);
                    at += argument.words;
                }
            }
        }
    }

    /// Keeps the key that a packet missed.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn learn(
        &mut self,
        table: usize,
        packet: usize,
        action: usize,
        arguments: &[Wide],
        timeout: u64,
        now_ns: u64,
        burst: &Burst,
    ) {
        if let Some(learner) = &mut self.learners[table] {
            learner.learn(packet, action, arguments, timeout, now_ns, burst);
        }
    }

    pub(super) fn rearm(&mut self, table: usize, packet: usize, timeout: Option<u64>, now_ns: u64) {
        if let Some(learner) = &mut self.learners[table] {
            learner.rearm(packet, timeout, now_ns);
        }
    }

    pub(super) fn forget(&mut self, table: usize, packet: usize) {
        if let Some(learner) = &mut self.learners[table] {
            learner.forget(packet);
        }
    }

    /// As `crate::select::pick`, in a record of members: their number and the sum of all weights,
    /// then each one's number and the sum of the weights up to it.
    pub(super) fn pick(&self, table: usize, group: u64, key: &[u8], reading: &Reading<'_>) -> u32 {
        let groups = reading.groups[table].as_ref();
        let word = u32::try_from(group).ok().and_then(|group| groups?.get(group));
        let word = reading.now(word.map_or(0, |[word]| word.load(Ordering::Acquire)));
        let Does::Record(_, number) = Word(word).does() else { return 0 };
        let Some(first) = reading.records.first(number) else { return 0 };
        let word = |at: usize| match first.get(at) {
            Some(word) => word.load(Ordering::Relaxed),
            None => reading.records.word(number, at),
        };
        let head = word(0);
        let (count, weights) = (head >> 32, head & 0xffff_ffff);
        let point = (u64::from(crc32c(key)) * weights) >> 32;
        let (mut low, mut high) = (0, count as usize);
        while low < high {
            let middle = (low + high) / 2;
            match word(1 + middle) & 0xffff_ffff > point {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        if low < count as usize { (word(1 + low) >> 32) as u32 } else { 0 }
    }
}

/// Has a packet run what a word says.
#[inline(always)]
fn take(word: u64, i: usize, burst: &mut Burst, plan: &Plan, reading: &Reading<'_>) {
    match Word(word).does() {
        Does::Plain(action, argument) => {
            burst.ran[i] = action;
            burst.entry[i] = 0;
            if let Some(only) = plan.arguments[usize::from(action)].first() {
                give(only.to, i, burst, |_| argument);
            }
        }
        Does::Record(action, number) => {
            burst.ran[i] = action;
            let Some(first) = reading.records.first(number) else { return };
            burst.entry[i] = u64::from(first[0].load(Ordering::Relaxed) as u32) + 1;
            let mut at = HEAD;
            for argument in &plan.arguments[usize::from(action)] {
                give(argument.to, i, burst, |n| match first.get(at + n) {
                    Some(word) => word.load(Ordering::Relaxed),
                    None => reading.records.word(number, at + n),
                });
                at += argument.words;
            }
        }
    }
    if word == 0 {
        burst.ran[i] = NO_ACTION;
    }
}

/// Gives a packet an argument.
#[inline(always)]
fn give(to: Wide, i: usize, burst: &mut Burst, word: impl Fn(usize) -> u64) {
    match to {
        Wide::Lane { lane, .. } => burst.lanes[lane][i] = word(0),
        Wide::Bytes { at, len } => {
            let store = burst.store_of(i);
            for (n, chunk) in store[at..at + len].chunks_mut(8).enumerate() {
                chunk.copy_from_slice(&word(n).to_le_bytes()[..chunk.len()]);
            }
        }
    }
}

/// Packs the keys of the packets of a mask, one behind the other; how many there are.
#[inline(always)]
fn pack<P: Packets>(
    keys: &mut [u64],
    words: usize,
    pieces: &[Piece],
    packets: P,
    burst: &Burst,
) -> usize {
    let count = packets.mask().count_ones() as usize;
    keys[..count * words].fill(0);
    for piece in pieces {
        let (word, shift) = (piece.at as usize / 64, piece.at % 64);
        let is_split = shift + piece.bits > 64;
        let numbers = packets.load(burst, piece.from);
        let mut at = 0;
        packets.each(|i| {
            let (key, number) = (&mut keys[at * words..][..words], P::number(&numbers, i));
            key[word] |= number << shift;
            if is_split {
                key[word + 1] |= number >> (64 - shift);
            }
            at += 1;
        });
    }
    count
}
