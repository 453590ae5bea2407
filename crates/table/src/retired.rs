//! Retired items, which are reused after a grace period.
//!
//! A reader may still use an item that the writer has removed, such as the slot of an entry. So the
//! item is reused only when every reader has passed a quiescent state since. Items get their stamps
//! in batches, because a stamp is a read-modify-write on a cache line that readers read.

use crate::chunks::Fifo;
use crate::limits::RETIRE_BATCH;
use crate::qsbr::{QsbrDomain, Stamp};

/// Retired items, oldest first. All calls have to use the same [`QsbrDomain`].
#[derive(Debug)]
pub struct Retired<T> {
    /// Oldest first.
    items: Fifo<T>,
    /// Oldest items whose grace period is over.
    ready: usize,
    /// Stamp and size of each later batch that is closed, oldest first.
    batches: Fifo<(Stamp, usize)>,
    /// Newest items, which belong to no batch yet.
    open: usize,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self { items: Fifo::default(), ready: 0, batches: Fifo::default(), open: 0 }
    }
}

impl<T: Copy> Retired<T> {
    /// Number of items, including those whose grace period is over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets all items.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds an item that no reader can find from now on. True if that closed a batch.
    #[inline]
    pub fn push(&mut self, item: T, domain: &QsbrDomain) -> bool {
        self.items.push(item);
        self.open += 1;
        let is_full = self.open >= RETIRE_BATCH;
        if is_full {
            self.close(domain);
        }
        is_full
    }

    /// Stamps the newest items, so that their grace period begins.
    pub fn close(&mut self, domain: &QsbrDomain) {
        if self.open > 0 {
            self.batches.push((domain.stamp(), self.open));
            self.open = 0;
        }
    }

    /// The oldest item, if its grace period is over. It stays until [`Retired::take`].
    #[inline]
    #[must_use]
    pub fn oldest(&mut self, domain: &QsbrDomain) -> Option<T> {
        if self.ready == 0 {
            self.update_ready(domain);
        }
        self.items.get(0).copied().filter(|_| self.ready > 0)
    }

    /// As [`Retired::oldest`], and stamps the newest items too; for a caller that needs any item.
    #[cold]
    #[must_use]
    pub fn any(&mut self, domain: &QsbrDomain) -> Option<T> {
        self.close(domain);
        self.oldest(domain)
    }

    /// Removes the oldest item, if its grace period is over.
    #[inline]
    pub fn take(&mut self, domain: &QsbrDomain) -> Option<T> {
        self.oldest(domain)?;
        self.ready -= 1;
        self.items.pop()
    }

    /// Number of items whose grace period is over.
    #[must_use]
    pub fn ready(&mut self, domain: &QsbrDomain) -> usize {
        self.update_ready(domain);
        self.ready
    }

    /// The item that is reused after `ahead` others.
    #[must_use]
    pub fn upcoming(&self, ahead: usize) -> Option<T> {
        self.items.get(ahead).copied()
    }

    /// Passes the items of at most two batches whose grace period is over to `reuse`.
    pub fn reclaim(&mut self, domain: &QsbrDomain, mut reuse: impl FnMut(T)) -> usize {
        let passed = domain.passed();
        for _ in 0..2 {
            let Some((_, count)) = self.batches.pop_if(|(stamp, _)| *stamp <= passed) else {
                break;
            };
            self.ready += count;
        }
        let count = std::mem::take(&mut self.ready);
        (0..count).map_while(|_| self.items.pop()).for_each(&mut reuse);
        count
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.items.bytes() + self.batches.bytes()
    }

    fn update_ready(&mut self, domain: &QsbrDomain) {
        if self.batches.is_empty() {
            return;
        }
        let passed = domain.passed();
        while let Some((_, count)) = self.batches.pop_if(|(stamp, _)| *stamp <= passed) {
            self.ready += count;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_used_again_when_every_reader_has_passed() {
        let (domain, mut retired) = (QsbrDomain::new(), Retired::default());
        let mut reader = domain.register_reader();
        for item in 0..RETIRE_BATCH + 3 {
            assert_eq!(retired.push(item, &domain), item + 1 == RETIRE_BATCH);
        }
        assert_eq!(retired.oldest(&domain), None, "a burst may be on its way");
        reader.quiescent();
        assert_eq!(retired.ready(&domain), RETIRE_BATCH);
        for item in 0..RETIRE_BATCH {
            assert_eq!((retired.upcoming(0), retired.upcoming(1)), (Some(item), Some(item + 1)));
            assert_eq!(retired.take(&domain), Some(item));
        }
        assert_eq!(retired.take(&domain), None, "not stamped yet");
        assert_eq!(retired.any(&domain), None, "stamped now");
        reader.quiescent();
        assert_eq!(retired.any(&domain), Some(RETIRE_BATCH));
        assert_eq!((retired.len(), retired.is_empty()), (3, false));
    }

    #[test]
    fn a_reader_that_passes_later_frees_nothing_that_came_before_it_looked() {
        let (domain, mut retired) = (QsbrDomain::new(), Retired::default());
        let (mut one, mut two) = (domain.register_reader(), domain.register_reader());
        (0..RETIRE_BATCH).for_each(|item| _ = retired.push(item, &domain));
        one.quiescent();
        assert_eq!(retired.oldest(&domain), None, "the other reader has not");
        two.quiescent();
        assert_eq!(retired.oldest(&domain), Some(0));
    }

    #[test]
    fn two_batches_are_reclaimed_at_once() {
        let (domain, mut retired) = (QsbrDomain::new(), Retired::default());
        (0..3 * RETIRE_BATCH).for_each(|item| _ = retired.push(item, &domain));
        let mut reclaimed = Vec::new();
        let mut reclaim =
            |retired: &mut Retired<usize>| retired.reclaim(&domain, |item| reclaimed.push(item));
        assert_eq!(
            [reclaim(&mut retired), reclaim(&mut retired)],
            [2 * RETIRE_BATCH, RETIRE_BATCH]
        );
        assert_eq!(reclaim(&mut retired), 0);
        assert!(reclaimed.into_iter().eq(0..3 * RETIRE_BATCH));
    }
}
