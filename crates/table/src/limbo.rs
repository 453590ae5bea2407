//! Slots of destroyed entries on their way through a grace period.

use crate::chunks::Fifo;
use crate::domain::{Domain, Stamp};
use crate::grid::Position;
use crate::limits::RETIRE_BATCH;

/// Destroyed slots in order, stamped in batches.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    positions: Fifo<Position>,
    /// Stamp and size of each closed batch, oldest first.
    batches: Fifo<(Stamp, usize)>,
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
        self.positions.push(position);
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
            self.batches.push((domain.stamp(), self.open));
            self.open = 0;
        }
    }

    /// Hands the slots of at most two batches whose grace period is over to `reuse`.
    pub(crate) fn reclaim(&mut self, domain: &Domain, mut reuse: impl FnMut(Position)) -> usize {
        let passed = domain.passed();
        let mut reused = 0;
        for _ in 0..2 {
            let Some((_, count)) = self.batches.pop_if(|(stamp, _)| *stamp <= passed) else {
                break;
            };
            (0..count).map_while(|_| self.positions.pop()).for_each(&mut reuse);
            reused += count;
        }
        reused
    }
}
