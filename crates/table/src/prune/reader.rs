//! The reading end of a pruning filter: from the values of packets to sets of tables, in bulk, and
//! to the intersection of the sets.

use std::sync::Arc;

use super::SharedFilter;
use super::join::{END, First, PLACES};
use super::tree::{self, TreeEntry};
use crate::limits::BURST_MAX;
use crate::prefetch::prefetch_at;
use crate::sync::Relaxed;

/// A reading end of a [`Filter`](super::Filter). Clones are cheap; threads may share one.
#[derive(Debug, Clone)]
pub struct FilterReader<const F: usize> {
    pub(super) shared: Arc<SharedFilter<F>>,
}

/// The sets of tables of a packet's values, one for each field. Valid for the filter that found
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Sets<const F: usize> {
    pub(super) numbers: [u16; F],
}

impl<const F: usize> Default for Sets<F> {
    fn default() -> Self {
        Self { numbers: [0; F] }
    }
}

/// The packets of a burst: their values, and the results of a filter. Stored by field and packet,
/// so that SIMD instructions process many packets at once.
///
/// It is as large as a page: reuse it for each burst.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Burst<const F: usize> {
    pub(super) values: [[u32; BURST_MAX]; F],
    /// Numbers of the sets of the values.
    pub(super) numbers: [[u32; BURST_MAX]; F],
    /// Places of the sets in the precomputed intersections; a zero means that one of them is not
    /// there.
    pub(super) places: [[u32; BURST_MAX]; PLACES],
    /// The current word of each packet's intersection, and its remaining bits.
    pub(super) words: [u32; BURST_MAX],
    pub(super) bits: [u64; BURST_MAX],
    /// Packets that certainly have no tables after that word.
    pub(super) last: u64,
}

impl<const F: usize> Default for Burst<F> {
    fn default() -> Self {
        let (word, bits) = END;
        let (values, numbers) = ([[0; BURST_MAX]; F], [[0; BURST_MAX]; F]);
        let (words, bits) = ([word; BURST_MAX], [bits; BURST_MAX]);
        Self { values, numbers, places: [[0; BURST_MAX]; PLACES], words, bits, last: 0 }
    }
}

impl<const F: usize> Burst<F> {
    /// Sets the values of packet `at`, which is below [`BURST_MAX`].
    #[inline]
    pub fn set(&mut self, at: usize, values: [u32; F]) {
        for (field, value) in values.into_iter().enumerate() {
            self.values[field][at % BURST_MAX] = value;
        }
    }

    /// A value of packet `at`.
    #[inline]
    #[must_use]
    pub fn value(&self, at: usize, field: usize) -> u32 {
        self.values[field][at % BURST_MAX]
    }

    /// The current word of the intersection of packet `at`, and its remaining bits.
    #[inline]
    #[must_use]
    pub fn left(&self, at: usize) -> (u32, u64) {
        (self.words[at % BURST_MAX], self.bits[at % BURST_MAX])
    }

    /// Removes the first remaining table from the word.
    #[inline]
    pub fn drop_first(&mut self, at: usize) {
        let bits = &mut self.bits[at % BURST_MAX];
        *bits &= bits.wrapping_sub(1);
    }

    /// Whether packet `at` certainly has no tables after the current word.
    #[inline]
    #[must_use]
    pub fn is_last(&self, at: usize) -> bool {
        self.last >> (at % BURST_MAX) & 1 == 1
    }

    /// Whether a set of packet `at` is newer than the precomputed intersections.
    #[inline(always)]
    pub(super) fn is_new(&self, at: usize) -> bool {
        self.places.iter().any(|places| places[at % BURST_MAX] == 0)
    }

    /// Stores the first word of each of `count` packets.
    #[inline(always)]
    pub(super) fn take_firsts(&mut self, count: usize, first: impl Fn(&[u32; PLACES]) -> First) {
        let mut last = 0;
        for at in 0..count.min(BURST_MAX) {
            let (left, is_last) = first(&self.places_at(at));
            (self.words[at], self.bits[at]) = left;
            last |= u64::from(is_last) << at;
        }
        self.last = last;
    }

    pub(super) fn set_left(&mut self, at: usize, (word, bits): (u32, u64)) {
        (self.words[at % BURST_MAX], self.bits[at % BURST_MAX]) = (word, bits);
    }

    #[inline(always)]
    pub(super) fn places_at(&self, at: usize) -> [u32; PLACES] {
        std::array::from_fn(|place| self.places[place][at % BURST_MAX])
    }

    pub(super) fn sets_at(&self, at: usize) -> Sets<F> {
        let number = |field: usize| self.numbers[field][at % BURST_MAX] as u16;
        Sets { numbers: std::array::from_fn(number) }
    }
}

impl<const F: usize> FilterReader<F> {
    pub(super) fn new(shared: Arc<SharedFilter<F>>) -> Self {
        Self { shared }
    }

    /// Finds the sets of each packet's values, and prefetches the lines that
    /// [`FilterReader::candidates`] reads first. Processes as many packets as the shorter slice
    /// has.
    ///
    /// In bursts of `BURST_MAX`, all packets take one step before any takes the next, so that their
    /// cache misses overlap.
    pub fn find(&self, values: &[[u32; F]], sets: &mut [Sets<F>]) {
        let mut burst = Burst::default();
        for (values, sets) in values.chunks(BURST_MAX).zip(sets.chunks_mut(BURST_MAX)) {
            let count = values.len().min(sets.len());
            values.iter().enumerate().for_each(|(at, values)| burst.set(at, *values));
            self.numbers(&mut burst, count);
            self.prefetch(&burst, count);
            sets.iter_mut().enumerate().for_each(|(at, sets)| *sets = burst.sets_at(at));
        }
    }

    /// The numbers of the sets of the first `count` packets.
    #[inline(always)]
    pub(super) fn numbers(&self, burst: &mut Burst<F>, count: usize) {
        // A constant saves each packet a few instructions a field.
        match self.shared.wide {
            0 => self.walk::<0>(burst, count),
            1 => self.walk::<1>(burst, count),
            _ => self.walk::<2>(burst, count),
        }
    }

    /// In the first `WIDE` fields, all packets take one step before any takes the next, so that
    /// their cache misses overlap. The memory of other fields is in the first-level cache.
    #[inline(always)]
    fn walk<const WIDE: usize>(&self, burst: &mut Burst<F>, count: usize) {
        let (tree, shapes) = (self.shared.tree.words(), &self.shared.shapes);
        let Burst { values, numbers, .. } = burst;
        let mut steps = [[TreeEntry::of_set(0); WIDE]; BURST_MAX];
        let steps = &mut steps[..count.min(BURST_MAX)];
        for (at, steps) in steps.iter_mut().enumerate() {
            for field in 0..WIDE {
                let value = values[field][at];
                steps[field] = tree::slot(tree, shapes[field].wide_slot(value));
                tree::prefetch_step(tree, steps[field], value);
            }
        }
        for (at, steps) in steps.iter_mut().enumerate() {
            for field in 0..WIDE {
                let value = values[field][at];
                steps[field] = tree::behind_fan(tree, steps[field], value);
                prefetch_at(tree.as_ptr().wrapping_add(tree::place(steps[field], value)));
            }
            for field in WIDE..F {
                let number = tree::number(tree, shapes[field], values[field][at]);
                numbers[field][at] = number.into();
            }
        }
        for (at, steps) in steps.iter().enumerate() {
            for field in 0..WIDE {
                numbers[field][at] = tree::set_of(tree, steps[field], values[field][at]).into();
            }
        }
    }

    /// Prefetches the lines that [`FilterReader::candidates`] reads first.
    pub(super) fn prefetch(&self, burst: &Burst<F>, count: usize) {
        let bitmaps = self.shared.sets.words();
        for at in 0..count {
            for number in burst.sets_at(at).numbers {
                prefetch_at(bitmaps.as_ptr().wrapping_add(self.shared.set_at(number)));
            }
        }
    }

    /// The tables in all sets, in order of their numbers. The iterator intersects 64 tables at a
    /// time when it gets there: to stop early saves the rest.
    #[inline]
    #[must_use]
    pub fn candidates<'a>(&'a self, sets: &'a Sets<F>) -> Candidates<'a, F> {
        let bits = self.word(sets, 0);
        Candidates { reader: self, sets, word: 0, bits }
    }

    /// The tables in all sets from `64 * word` on, a bit for each; zero beyond the last table.
    #[inline]
    #[must_use]
    pub fn word(&self, sets: &Sets<F>, word: usize) -> u64 {
        if word >= self.shared.set_words {
            return 0;
        }
        let bitmaps = self.shared.sets.words();
        let at = |number: &u16| self.shared.set_at(*number) + word;
        sets.numbers.iter().fold(u64::MAX, |all, number| all & bitmaps[at(number)].load(Relaxed))
    }

    /// Number of words for [`FilterReader::word`].
    #[must_use]
    pub fn words(&self) -> usize {
        self.shared.set_words
    }
}

/// Tables that may have a rule for a packet, in order of their numbers.
#[derive(Debug, Clone)]
pub struct Candidates<'a, const F: usize> {
    reader: &'a FilterReader<F>,
    sets: &'a Sets<F>,
    word: usize,
    bits: u64,
}

impl<const F: usize> Iterator for Candidates<'_, F> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            self.word += 1;
            if self.word >= self.reader.shared.set_words {
                return None;
            }
            self.bits = self.reader.word(self.sets, self.word);
        }
        let table = 64 * self.word + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(table)
    }
}
