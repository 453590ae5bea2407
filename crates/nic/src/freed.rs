//! Indices of destroyed rules, on their way to be used again.
//!
//! One may be used again when every worker has passed a burst since the rule was destroyed: until
//! then a packet may be on its way with the old rule's word in hand. They are stamped in batches,
//! because a stamp is a read-modify-write on a line that workers read.

use niclab_table::{Domain, Fifo, Stamp};

/// Indices that get one stamp.
const BATCH: usize = 32;

#[derive(Default)]
pub(crate) struct Freed {
    /// Oldest first.
    indices: Fifo<u32>,
    /// How many of them may be used again.
    ready: usize,
    /// Those behind, in batches; the rest is not stamped.
    batches: Fifo<(Stamp, usize)>,
    open: usize,
}

impl Freed {
    pub(crate) fn push(&mut self, index: u32, domain: &Domain) {
        self.indices.push(index);
        self.open += 1;
        if self.open == BATCH {
            self.close(domain);
        }
    }

    /// The oldest index, if it may be used again; it stays until [`Freed::take`].
    #[inline]
    pub(crate) fn oldest(&mut self, domain: &Domain) -> Option<u32> {
        if self.ready == 0 {
            self.ripen(domain);
        }
        self.indices.get(0).copied().filter(|_| self.ready > 0)
    }

    /// [`Freed::oldest`] where every index is wanted: those of a batch that is not full, too, once
    /// the workers have passed.
    #[cold]
    pub(crate) fn any(&mut self, domain: &Domain) -> Option<u32> {
        if self.open > 0 {
            self.close(domain);
        }
        self.oldest(domain)
    }

    /// Takes the oldest one out.
    pub(crate) fn take(&mut self) {
        debug_assert!(self.ready > 0, "asked for before");
        self.indices.pop();
        self.ready -= 1;
    }

    /// One that will be used soon, `ahead` behind the oldest.
    pub(crate) fn upcoming(&self, ahead: usize) -> Option<u32> {
        self.indices.get(ahead).copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.indices.bytes() + self.batches.bytes()
    }

    fn close(&mut self, domain: &Domain) {
        self.batches.push((domain.stamp(), self.open));
        self.open = 0;
    }

    fn ripen(&mut self, domain: &Domain) {
        if self.batches.is_empty() {
            return;
        }
        let passed = domain.passed();
        while let Some((_, count)) = self.batches.pop_if(|(stamp, _)| *stamp <= passed) {
            self.ready += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_used_again_when_every_worker_has_passed() {
        let (domain, mut freed) = (Domain::new(), Freed::default());
        let mut worker = domain.reader_slot();
        for index in 0..BATCH as u32 + 3 {
            freed.push(index, &domain);
        }
        assert_eq!(freed.oldest(&domain), None, "a burst may be on its way");
        worker.quiescent();
        for index in 0..BATCH as u32 {
            assert_eq!(freed.oldest(&domain), Some(index));
            freed.take();
        }
        assert_eq!(freed.oldest(&domain), None, "not stamped yet");
        assert_eq!(freed.any(&domain), None, "stamped now");
        worker.quiescent();
        assert_eq!(freed.any(&domain), Some(BATCH as u32));
    }

    #[test]
    fn a_worker_that_passes_later_frees_nothing_that_came_before_it_looked() {
        let (domain, mut freed) = (Domain::new(), Freed::default());
        let (mut one, mut two) = (domain.reader_slot(), domain.reader_slot());
        (0..BATCH as u32).for_each(|index| freed.push(index, &domain));
        one.quiescent();
        assert_eq!(freed.oldest(&domain), None, "the other worker has not");
        two.quiescent();
        assert_eq!(freed.oldest(&domain), Some(0));
    }
}
