//! Precomputes the intersections of a filter's sets, beside the packets, a few places at a time.
//!
//! First it goes through the tree for the sets that values lead to: most sets were only used for a
//! moment. It copies sets of wide fields when it finds them. Then it intersects the sets of the
//! narrow fields, for each combination, and stores equal results once.

use std::collections::HashMap;

use super::join::{CHUNK, Chunk, Joined, SETS};
use super::tree::{self, Shape};
use super::{Bits, Filter, SharedFilter};
use crate::hash::Mixing;
use crate::limits::NARROW_MAX;
use crate::sync::Relaxed;

/// Number of places that one set counts as.
const SET_PLACES: usize = 16;

/// A [`Joined`] in progress.
#[derive(Debug)]
pub struct Joining<const F: usize> {
    joined: Joined<F>,
    /// The sets of each field that values lead to; those of wide fields are already copied.
    found: [Vec<u16>; F],
    /// Number of combinations of the narrow fields' sets.
    combinations: usize,
    /// Places of the results so far.
    known: HashMap<Box<[Chunk]>, u32, Mixing>,
    /// Progress: slots of the roots, then combinations.
    done: usize,
}

/// The progress of a [`Joining`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// There is more to do.
    Open,
    /// All is done.
    Done,
    /// Impossible: there are too many combinations.
    Refused,
}

impl<const F: usize> Filter<F> {
    /// Begins to precompute intersections, of tables below `tables`; `None` if the filter has more
    /// than two wide fields, or a wide field after a narrow one.
    pub fn join(&mut self, tables: usize) -> Option<Joining<F>> {
        let is_wide = |shape: &Shape| shape.bits == Bits::ThirtyTwo;
        if self.shared.shapes[self.shared.wide..].iter().any(is_wide) {
            return None;
        }
        self.sets.guard(tables);
        let chunks = tables.div_ceil(64 * CHUNK).max(1);
        // A place that means no set, then a set of all tables for missing fields.
        let mut sets = vec![Chunk::default(); chunks];
        sets.resize(2 * chunks, Chunk([u64::MAX; CHUNK]));
        let steps = vec![0; SETS].into_boxed_slice().try_into().ok()?;
        let (sets_count, changes) = (self.sets.count(), self.shared.changes.load(Relaxed));
        let narrow = Vec::new();
        let joined = Joined { tables, changes, sets_count, chunks, sets, steps, narrow };
        let found = [const { Vec::new() }; F];
        Some(Joining { joined, found, combinations: 0, known: HashMap::default(), done: 0 })
    }
}

impl<const F: usize> Joining<F> {
    /// Visits about `places` more places of the tree and sets. Pass the filter that it was begun
    /// with.
    pub fn proceed(&mut self, filter: &Filter<F>, places: usize) -> Progress {
        let shared = &*filter.shared;
        let slots = shared.shapes.iter().map(|shape| shape.root_slots()).sum::<usize>();
        let mut seen = 0;
        while seen < places {
            if self.done < slots {
                seen += self.find(shared, self.done);
            } else if self.done == slots && !self.arrange(shared) {
                return Progress::Refused;
            } else if self.done - slots == self.combinations {
                return Progress::Done;
            } else {
                self.combine(shared, self.done - slots);
                seen += SET_PLACES;
            }
            self.done += 1;
        }
        Progress::Open
    }

    /// Whether the result will be usable: see [`Joined::holds`].
    #[must_use]
    pub fn holds(&self, filter: &Filter<F>) -> bool {
        self.joined.holds(filter)
    }

    /// The result.
    #[must_use]
    pub fn into_joined(self) -> Joined<F> {
        self.joined
    }

    /// Finds the sets that the values of a slot lead to; returns the number of visited places.
    fn find(&mut self, shared: &SharedFilter<F>, at: usize) -> usize {
        let Self { joined, found, .. } = self;
        let fields = shared.shapes.iter().zip(found).rev();
        let Some((shape, found)) = fields.into_iter().find(|(shape, _)| shape.root <= at) else {
            return 1;
        };
        let mut places = 0;
        tree::visit(shared.tree.words(), at, shape.block_bits, &mut |set| {
            places += 1;
            // Newer sets are left out.
            let step = &mut joined.steps[usize::from(set)];
            if *step != 0 || usize::from(set) >= joined.sets_count {
                return;
            }
            found.push(set);
            if shape.bits == Bits::ThirtyTwo {
                *step = joined.sets.len() as u32;
                let chunk = |at| chunk(shared, joined.tables, at, &[set]);
                joined.sets.extend((0..joined.chunks).map(chunk));
                places += SET_PLACES;
            } else {
                *step = 1;
            }
        });
        places
    }

    /// Gives the sets of narrow fields their steps, once all are found.
    fn arrange(&mut self, shared: &SharedFilter<F>) -> bool {
        let narrow = || (0..F).filter(|field| shared.shapes[*field].bits != Bits::ThirtyTwo);
        // In each field, one more index stands for sets that are left out.
        let lens = narrow().map(|field| self.found[field].len() + 1);
        let len = lens.fold(1, usize::saturating_mul);
        if len > NARROW_MAX {
            return false;
        }
        let mut step = 1;
        for field in narrow() {
            for (at, set) in self.found[field].iter().enumerate() {
                self.joined.steps[usize::from(*set)] = (at as u32 + 1) * step;
            }
            step *= self.found[field].len() as u32 + 1;
        }
        self.combinations = narrow().map(|field| self.found[field].len()).product();
        self.joined.narrow = vec![0; len];
        true
    }

    fn combine(&mut self, shared: &SharedFilter<F>, mut combination: usize) {
        let Self { joined, found, known, .. } = self;
        let (mut index, mut numbers, mut count) = (0, [0; F], 0);
        for (shape, sets) in shared.shapes.iter().zip(found) {
            if shape.bits != Bits::ThirtyTwo {
                let set = sets[combination % sets.len()];
                combination /= sets.len();
                index += joined.steps[usize::from(set)];
                (numbers[count], count) = (set, count + 1);
            }
        }
        let chunk = |at| chunk(shared, joined.tables, at, &numbers[..count]);
        let set: Box<[Chunk]> = (0..joined.chunks).map(chunk).collect();
        let next = joined.sets.len() as u32;
        let place = *known.entry(set).or_insert_with_key(|set| {
            joined.sets.extend_from_slice(set);
            next
        });
        joined.narrow[index as usize] = place;
    }
}

/// Four words of the intersection of these sets, of tables below `tables`.
fn chunk<const F: usize>(
    shared: &SharedFilter<F>,
    tables: usize,
    at: usize,
    numbers: &[u16],
) -> Chunk {
    Chunk(std::array::from_fn(|word| {
        let word = CHUNK * at + word;
        if word >= tables.div_ceil(64) {
            return 0;
        }
        let known = match tables - 64 * word {
            tables @ 0..64 => (1 << tables) - 1,
            _ => u64::MAX,
        };
        let words = shared.sets.words();
        let set = |number: &u16| words[shared.set_at(*number) + word].load(Relaxed);
        numbers.iter().fold(known, |all, number| all & set(number))
    }))
}
