//! Quiescence counters: each core of a card counts the turns that it has ended. When every core has
//! ended one since then, nobody is still writing to a place that he was given before.
//!
//! Each core adds two to its own counter at the end of a turn, with release behind all that it did
//! in the turn. The store keeps all counts when it begins to wait, and waits until each of them has
//! changed.
//!
//! **The store does not wait for a core that rests**: such a core has nothing under way, and its
//! count is odd. When the core wakes, it changes its count, and a fence follows. The store has a
//! fence, too, before it looks who rests. One of the two fences comes first:
//! - the core's: the store sees that the core is awake, and waits for it;
//! - the store's: the core sees all that was so before. So its places are in the new segment, and
//!   its events are behind those of all cores that had ended their turns.
//!
//! `tests/quiescence.rs` tries the orders of a store and a core that the memory model allows.

use super::sync::{AtomicU64, Ordering, fence};

/// Twice the number of turns that each core of a card has ended; one more while the core rests.
#[derive(Debug)]
pub struct QuiescenceCounters(Box<[QuiescenceCounter]>);

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct QuiescenceCounter(AtomicU64);

impl QuiescenceCounters {
    /// Counters of `cores` cores.
    pub fn new(cores: usize) -> QuiescenceCounters {
        QuiescenceCounters((0..cores).map(|_| QuiescenceCounter::default()).collect())
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.0.len()
    }

    /// A core says that no burst of its own is under way.
    #[inline]
    pub fn end(&self, core: usize) {
        self.add(core, 2);
    }

    /// A core says that it begins none from here on, until [`QuiescenceCounters::wake`].
    pub fn sleep(&self, core: usize) {
        self.add(core, 1);
    }

    /// A core that rested says that it may begin one.
    pub fn wake(&self, core: usize) {
        self.add(core, 1);
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn add(&self, core: usize, count: u64) {
        if let Some(QuiescenceCounter(turns)) = self.0.get(core) {
            turns.store(turns.load(Ordering::Relaxed) + count, Ordering::Release);
        }
    }

    /// Copies all counters, to wait for them.
    pub(super) fn snapshot(&self, since: &mut [u64]) {
        fence(Ordering::SeqCst);
        for (since, QuiescenceCounter(turns)) in since.iter_mut().zip(&self.0) {
            *since = turns.load(Ordering::Acquire);
        }
    }

    /// Every core has ended a turn since they had counted so much, or rested then.
    pub(super) fn have_passed(&self, since: &[u64]) -> bool {
        let now = self.0.iter().map(|QuiescenceCounter(turns)| turns.load(Ordering::Acquire));
        now.zip(since).all(|(now, since)| now != *since || since % 2 == 1)
    }
}
