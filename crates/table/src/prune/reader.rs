//! What readers do: values of a packet to sets of tables, in bulk; common tables of the sets.

use std::sync::Arc;

use super::tree::{self, Entry, Shape};
use super::{Bits, Shared};
use crate::limits::{BURST_MAX, FAN_BITS};
use crate::prefetch::prefetch_at;
use crate::sync::{AtomicU64, Relaxed};

/// A reader of a [`Filter`](super::Filter). Clones are cheap; a thread may have one or share one.
#[derive(Debug, Clone)]
pub struct FilterReader<const F: usize> {
    shared: Arc<Shared<F>>,
}

/// The sets of tables that a packet's values lead to, one for each field; for the filter that made
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Sets<const F: usize>(
    /// Where each bitmap starts; on the way there, the entry that was reached.
    [u32; F],
);

impl<const F: usize> Default for Sets<F> {
    fn default() -> Self {
        Self([0; F])
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
            self.find_burst(values, sets);
        }
    }

    fn find_burst(&self, values: &[[u32; F]], sets: &mut [Sets<F>]) {
        let (tree, bitmaps) = (self.shared.tree.words(), self.shared.sets.words());
        let count = values.len().min(sets.len());
        let (values, sets) = (&values[..count], &mut sets[..count]);
        for (field, shape) in self.shared.shapes.iter().enumerate() {
            // The roots of narrow fields are small and stay in the first cache.
            if shape.bits == Bits::ThirtyTwo {
                for packet in values {
                    prefetch_at(tree.as_ptr().wrapping_add(shape.slot(packet[field]) / 2));
                }
            }
        }
        for (field, shape) in self.shared.shapes.iter().enumerate() {
            let mut walk = Walk::enter(tree, *shape, values.iter().map(|packet| packet[field]));
            let block_bits = shape.block_bits;
            if block_bits > 0 {
                walk.step(block_bits);
            }
            // What a fan led to.
            if block_bits > FAN_BITS {
                walk.step(FAN_BITS);
            }
            for (sets, entry) in sets.iter_mut().zip(walk.entries) {
                let at = self.shared.set_at(entry.set());
                prefetch_at(bitmaps.as_ptr().wrapping_add(at));
                sets.0[field] = at as u32;
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
        sets.0.iter().fold(u64::MAX, |all, at| all & bitmaps[*at as usize + word].load(Relaxed))
    }

    /// Words that [`FilterReader::word`] has tables in.
    #[must_use]
    pub fn words(&self) -> usize {
        self.shared.set_words
    }
}

/// The packets of a burst on their way to the sets of one field.
struct Walk<'a> {
    tree: &'a [AtomicU64],
    values: [u32; BURST_MAX],
    entries: [Entry; BURST_MAX],
    count: usize,
}

impl<'a> Walk<'a> {
    /// To the entries of the root, for at most `BURST_MAX` values.
    #[inline(always)]
    fn enter(tree: &'a [AtomicU64], shape: Shape, values: impl Iterator<Item = u32>) -> Self {
        let (entries, count) = ([Entry::of_set(0); BURST_MAX], 0);
        let mut walk = Self { tree, values: [0; BURST_MAX], entries, count };
        for (index, value) in values.take(BURST_MAX).enumerate() {
            let entry = tree::slot(tree, shape.slot(value));
            tree::prefetch_step(tree, entry, shape.rest(value));
            (walk.entries[index], walk.values[index]) = (entry, value);
            walk.count = index + 1;
        }
        walk
    }

    /// One step, in blocks of as many bits. Packets at nodes of one kind go after those of another:
    /// which kind comes next in the order of packets is what a branch predictor cannot learn.
    #[inline(always)]
    fn step(&mut self, block_bits: u32) {
        let mut order = [[0u8; BURST_MAX]; tree::CODES];
        let mut counts = [0; tree::CODES];
        for (index, entry) in self.entries[..self.count].iter().enumerate() {
            let code = entry.code();
            order[code][counts[code] % BURST_MAX] = index as u8;
            counts[code] += 1;
        }
        let rest_mask = tree::low_bits(block_bits);
        let of = |code: usize| &order[code][..counts[code].min(BURST_MAX)];
        self.step_kind::<1>(of(1), rest_mask);
        self.step_kind::<2>(of(2), rest_mask);
        self.step_kind::<3>(of(3), rest_mask);
        self.step_kind::<{ tree::FAN }>(of(tree::FAN as usize), rest_mask);
        self.step_kind::<{ tree::LIST }>(of(tree::LIST as usize), rest_mask);
    }

    #[inline(always)]
    fn step_kind<const CODE: u32>(&mut self, packets: &[u8], rest_mask: u32) {
        for index in packets {
            let index = usize::from(*index) % BURST_MAX;
            let value = self.values[index];
            let entry = tree::step::<CODE>(self.tree, self.entries[index], value & rest_mask);
            if CODE == tree::FAN {
                tree::prefetch_step(self.tree, entry, value & tree::low_bits(FAN_BITS));
            }
            self.entries[index] = entry;
        }
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
