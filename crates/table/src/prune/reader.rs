//! What readers do: values of a packet to sets of tables, in bulk; common tables of the sets.

use std::sync::Arc;

use super::Shared;
use super::join::{END, PLACES};
use super::tree::{self, Entry};
use crate::limits::BURST_MAX;
use crate::prefetch::prefetch_at;
use crate::sync::Relaxed;

/// A reader of a [`Filter`](super::Filter). Clones are cheap; a thread may have one or share one.
#[derive(Debug, Clone)]
pub struct FilterReader<const F: usize> {
    pub(super) shared: Arc<Shared<F>>,
}

/// The sets of tables that a packet's values lead to, one for each field; for the filter that made
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Sets<const F: usize> {
    pub(super) numbers: [u16; F],
    /// Where they are in what was joined ahead; with a zero among them, nowhere.
    pub(super) places: [u32; PLACES],
    /// The first word that has common tables, and which.
    pub(super) word: u32,
    pub(super) bits: u64,
}

impl<const F: usize> Default for Sets<F> {
    fn default() -> Self {
        let (word, bits) = END;
        Self { numbers: [0; F], places: [0; PLACES], word, bits }
    }
}

impl<const F: usize> Sets<F> {
    /// What [`FilterReader::find_first`] found: the first word that has common tables, and which.
    #[inline]
    #[must_use]
    pub fn first(&self) -> (u32, u64) {
        (self.word, self.bits)
    }

    /// Whether one of them is newer than what was joined ahead.
    #[inline(always)]
    pub(super) fn is_new(&self) -> bool {
        self.places.contains(&0)
    }
}

impl<const F: usize> FilterReader<F> {
    pub(super) fn new(shared: Arc<Shared<F>>) -> Self {
        Self { shared }
    }

    /// Finds the sets of each packet's values, and asks for the lines that
    /// [`FilterReader::candidates`] reads first. As many as there are of the shorter slice.
    ///
    /// In bursts of `BURST_MAX`: all packets take one step before any takes the next, so that
    /// the lines of a step come together.
    pub fn find(&self, values: &[[u32; F]], sets: &mut [Sets<F>]) {
        for (values, sets) in values.chunks(BURST_MAX).zip(sets.chunks_mut(BURST_MAX)) {
            self.numbers(values, sets);
            self.prefetch(sets);
        }
    }

    /// The numbers of the sets, of at most `BURST_MAX` packets.
    #[inline(always)]
    pub(super) fn numbers(&self, values: &[[u32; F]], sets: &mut [Sets<F>]) {
        // A constant saves each packet a few instructions a field.
        match self.shared.wide {
            0 => self.walk::<0>(values, sets),
            1 => self.walk::<1>(values, sets),
            _ => self.walk::<2>(values, sets),
        }
    }

    /// All packets take one step in the first `WIDE` fields before any takes the next, so that the
    /// lines of a step come together. What other fields need is in the first cache.
    #[inline(always)]
    fn walk<const WIDE: usize>(&self, values: &[[u32; F]], sets: &mut [Sets<F>]) {
        let (tree, shapes) = (self.shared.tree.words(), &self.shared.shapes);
        let mut steps = [[Entry::of_set(0); WIDE]; BURST_MAX];
        for (steps, values) in steps.iter_mut().zip(values) {
            for field in 0..WIDE {
                steps[field] = tree::slot(tree, shapes[field].wide_slot(values[field]));
                tree::prefetch_step(tree, steps[field], values[field]);
            }
        }
        for ((steps, values), sets) in steps.iter_mut().zip(values).zip(&mut *sets) {
            for field in 0..WIDE {
                steps[field] = tree::behind_fan(tree, steps[field], values[field]);
                prefetch_at(tree.as_ptr().wrapping_add(tree::place(steps[field], values[field])));
            }
            for field in WIDE..F {
                sets.numbers[field] = tree::number(tree, shapes[field], values[field]);
            }
        }
        for ((steps, values), sets) in steps.iter().zip(values).zip(sets) {
            for field in 0..WIDE {
                sets.numbers[field] = tree::set_of(tree, steps[field], values[field]);
            }
        }
    }

    /// Asks for the lines that [`FilterReader::candidates`] reads first.
    pub(super) fn prefetch(&self, sets: &[Sets<F>]) {
        let bitmaps = self.shared.sets.words();
        for sets in sets {
            for number in sets.numbers {
                prefetch_at(bitmaps.as_ptr().wrapping_add(self.shared.set_at(number)));
            }
        }
    }

    /// The tables in all sets, in order of their numbers. Sets are joined 64 tables at a time when
    /// the iterator comes there: to stop early saves the rest.
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

    /// Words that [`FilterReader::word`] has tables in.
    #[must_use]
    pub fn words(&self) -> usize {
        self.shared.set_words
    }
}

/// Tables that may hold a rule for a packet, the first ones first.
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
