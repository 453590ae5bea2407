//! Records: what an entry does, where its word has no room for it.
//!
//! A table answers with a word, which is stored at once, so that a reader sees one entry or another
//! and never a mixture. A word says the action and either an argument or the number of a record.
//! A record is written before the word that names it is stored (Release), and never changed: who
//! reads the word (Acquire) sees the record. Its memory is used again after a grace period that
//! began when no word named it any more.
//!
//! | bits | content of a word |
//! |---|---|
//! | 0..8 | the action |
//! | 8 | there is a record |
//! | 9 | always set: zero is no word |
//! | 16..63 | number of the record, or the argument |
//! | 63 | never set: it marks a reference (`niclab_table::VersionedValues`) |

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use niclab_table::{QsbrDomain, Segments, Stamp};

/// Words of the smallest record: a cache line.
pub(super) const UNIT: usize = 8;
/// Units there can be: 8 GiB.
const UNITS_MAX: u32 = 1 << 27;
/// Sizes of records: so many powers of two units.
const SIZES: usize = 16;

const HAS_RECORD: u64 = 1 << 8;
const IS_WORD: u64 = 1 << 9;
const ARGUMENT_SHIFT: u32 = 16;
/// The largest argument that a word has room for.
const ARGUMENT_MAX: u64 = (1 << 47) - 1;

/// Words of an entry's record before its arguments.
pub(super) const HEAD: usize = 2;

/// These words: the number of the entry, and its rank.
pub(super) fn head(id: u32, rank: Rank) -> [u64; HEAD] {
    [u64::from(rank.priority) << 32 | u64::from(id), rank.sequence]
}

/// What a table answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub u64);

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// The action, whose argument, if it has one, is this number.
    Plain(u16, u64),
    /// The action, whose arguments are in a record.
    Record(u16, u32),
}

impl Word {
    pub(super) fn plain(action: usize, argument: u64) -> Option<Word> {
        let word = action as u64 | IS_WORD | argument << ARGUMENT_SHIFT;
        (argument <= ARGUMENT_MAX).then_some(Word(word))
    }

    pub(super) fn record(action: usize, number: u32) -> Word {
        Word(action as u64 | IS_WORD | HAS_RECORD | u64::from(number) << ARGUMENT_SHIFT)
    }

    #[inline(always)]
    pub(super) fn does(self) -> Does {
        let (action, argument) = ((self.0 & 0xff) as u16, self.0 >> ARGUMENT_SHIFT);
        match self.0 & HAS_RECORD {
            0 => Does::Plain(action, argument),
            _ => Does::Record(action, argument as u32),
        }
    }
}

/// Which of two entries counts: the one with the lower priority number, and of equal ones the one
/// that was added first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    pub priority: u32,
    /// How many were added before it.
    pub sequence: u64,
}

/// Sequences from here on have one bound.
const SEQUENCE_MAX: u64 = u32::MAX as u64 - 1;

impl Rank {
    pub(super) const FIRST: Rank = Rank { priority: 0, sequence: 0 };

    /// A number that is no larger than that of a rank behind it. Below `u64::MAX`.
    #[inline(always)]
    pub(super) fn bound(self) -> u64 {
        u64::from(self.priority) << 32 | self.sequence.min(SEQUENCE_MAX)
    }
}

impl niclab_table::Rank for Rank {
    const LAST: Rank = Rank { priority: u32::MAX, sequence: u64::MAX };

    /// Ranks whose bound is not below this are behind this one.
    #[inline(always)]
    fn limit(self) -> u64 {
        self.bound() + u64::from(self.sequence >= SEQUENCE_MAX)
    }
}

/// All records, for workers.
#[derive(Debug)]
pub(super) struct Records(Segments<UNIT>);

impl Records {
    pub(super) fn new() -> Records {
        Records(Segments::new(UNITS_MAX))
    }

    /// A word of a record.
    #[inline(always)]
    pub(super) fn word(&self, number: u32, at: usize) -> u64 {
        let unit = self.0.get(number + (at / UNIT) as u32);
        unit.map_or(0, |unit| unit[at % UNIT].load(Relaxed))
    }

    /// The number of the entry that a record is of.
    #[inline(always)]
    pub(super) fn id(&self, number: u32) -> u32 {
        self.word(number, 0) as u32
    }

    /// Its rank.
    #[inline(always)]
    pub(super) fn rank(&self, number: u32) -> Rank {
        let priority = (self.word(number, 0) >> 32) as u32;
        Rank { priority, sequence: self.word(number, 1) }
    }

    /// The rank of the entry that a word is of; one without a record has none.
    #[inline(always)]
    pub(super) fn rank_of(&self, word: u64) -> Rank {
        match Word(word).does() {
            Does::Record(_, number) => self.rank(number),
            Does::Plain(..) => Rank::FIRST,
        }
    }

    /// The first words of a record.
    #[inline(always)]
    pub(super) fn first(&self, number: u32) -> Option<&[AtomicU64; UNIT]> {
        self.0.get(number)
    }

    /// Asks for the first words of a record.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        if let Some(unit) = self.0.get(number) {
            niclab_table::prefetch(unit);
        }
    }
}

/// Where records are put: the control side's part.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Numbers that were given back, oldest first, by size.
    free: [VecDeque<(Stamp, u32)>; SIZES],
    /// Numbers from here on were never used.
    fresh: u32,
    passed: Stamp,
}

fn size_of_words(words: usize) -> usize {
    words.div_ceil(UNIT).next_power_of_two().trailing_zeros() as usize
}

impl Shelf {
    /// Writes a record; its number. `None` where there is no room.
    pub(super) fn put(
        &mut self,
        records: &Records,
        words: &[u64],
        domain: &QsbrDomain,
    ) -> Option<u32> {
        let size = size_of_words(words.len());
        let oldest = self.free.get(size)?.front().map(|(stamp, _)| *stamp);
        if oldest.is_some_and(|stamp| stamp > self.passed) {
            self.passed = self.passed.max(domain.passed());
        }
        let number = match self.free[size].pop_front_if(|(stamp, _)| *stamp <= self.passed) {
            Some((_, number)) => number,
            None if UNITS_MAX - self.fresh >= 1 << size => {
                self.fresh += 1 << size;
                self.fresh - (1 << size)
            }
            None => return None,
        };
        for (at, word) in words.iter().enumerate() {
            let unit = records.0.ensure(number + (at / UNIT) as u32);
            unit[at % UNIT].store(*word, Relaxed);
        }
        Some(number)
    }

    /// Takes back a record of so many words, which no word names any more at this moment.
    pub(super) fn give_back(&mut self, number: u32, words: usize, stamp: Stamp) {
        self.free[size_of_words(words)].push_back((stamp, number));
    }

    /// Units that are in use.
    #[cfg(test)]
    pub(super) fn units_used(&self) -> u32 {
        let units = |(size, free): (usize, &VecDeque<_>)| (free.len() as u32) << size;
        self.fresh - self.free.iter().enumerate().map(units).sum::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use niclab_table::Rank as _;

    use super::*;

    #[test]
    fn a_word_says_what_it_was_made_of() {
        assert_eq!(Word::plain(255, ARGUMENT_MAX).unwrap().does(), Does::Plain(255, ARGUMENT_MAX));
        assert_eq!(Word::plain(0, ARGUMENT_MAX + 1), None);
        let record = Word::record(7, UNITS_MAX - 1);
        assert_eq!(record.does(), Does::Record(7, UNITS_MAX - 1));
        for word in [Word::plain(0, 0).unwrap(), Word::plain(255, ARGUMENT_MAX).unwrap(), record] {
            assert!(word.0 != 0 && word.0 >> 63 == 0, "{word:?}");
        }
    }

    #[test]
    fn a_bound_never_hides_a_better_rank() {
        let sequences = [0, 1, SEQUENCE_MAX - 1, SEQUENCE_MAX, SEQUENCE_MAX + 1, u64::MAX - 1];
        let rank = |priority| sequences.map(|sequence| Rank { priority, sequence });
        let ranks = [rank(0), rank(7), rank(u32::MAX)].concat();
        for one in &ranks {
            assert!(one.bound() < u64::MAX && *one < Rank::LAST);
            // What a worker passes over is behind what it has found.
            let passed = ranks.iter().filter(|other| other.bound() >= one.limit());
            passed.for_each(|other| assert!(other >= one, "{other:?} {one:?}"));
        }
        let [a, b] = [3, 4].map(|sequence| Rank { priority: 1, sequence });
        assert!(b.bound() >= a.limit(), "that is what bounds are for");
    }

    #[test]
    fn a_record_is_used_again_after_a_grace_period_and_for_its_size_alone() {
        let (records, mut shelf, domain) = (Records::new(), Shelf::default(), QsbrDomain::new());
        let mut worker = domain.register_reader();
        let put = |shelf: &mut Shelf, len: u64| {
            let words: Vec<u64> = (1..=len).collect();
            shelf.put(&records, &words, &domain).unwrap()
        };
        let (small, large) = (put(&mut shelf, 8), put(&mut shelf, 9));
        assert_eq!(shelf.units_used(), 3);
        let read: Vec<u64> = (0..9).map(|at| records.word(large, at)).collect();
        assert_eq!(read, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        shelf.give_back(small, 8, domain.stamp());
        assert_ne!(put(&mut shelf, 3), small, "the worker may read it");
        worker.quiescent();
        assert_ne!(put(&mut shelf, 16), small, "it is too small");
        assert_eq!(put(&mut shelf, 5), small);
        assert_eq!(shelf.units_used(), 6);
    }
}
