//! Slots of destroyed entries on their way through a grace period.

use std::collections::VecDeque;

use crate::domain::{Domain, Stamp};
use crate::grid::Position;
use crate::limits::RETIRE_BATCH;

/// Destroyed slots in order, stamped in batches.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    positions: VecDeque<Position>,
    /// Stamp and size of each closed batch, oldest first.
    batches: VecDeque<(Stamp, usize)>,
    /// Newest positions that belong to no batch yet.
    open: usize,
}

impl Limbo {
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes a slot in. True when enough have come to look for free ones.
    pub(crate) fn push(&mut self, position: Position, domain: &Domain) -> bool {
        self.positions.push_back(position);
        self.open += 1;
        let full = self.open >= RETIRE_BATCH;
        if full {
            self.close(domain);
        }
        full
    }

    /// Stamps what is open, so that it can become free.
    pub(crate) fn close(&mut self, domain: &Domain) {
        if self.open > 0 {
            self.batches.push_back((domain.stamp(), self.open));
            self.open = 0;
        }
    }

    /// Hands the slots of at most two batches whose grace period is over to `reuse`.
    pub(crate) fn reclaim(&mut self, domain: &Domain, mut reuse: impl FnMut(Position)) -> usize {
        let passed = domain.passed();
        let mut reused = 0;
        for _ in 0..2 {
            let Some(&(stamp, count)) = self.batches.front() else {
                break;
            };
            if stamp > passed {
                break;
            }
            self.batches.pop_front();
            self.positions.drain(..count).for_each(&mut reuse);
            reused += count;
        }
        reused
    }
}
