//! How often each core of a card has ended a turn: so is known that whoever was given a place is
//! done with it.
//!
//! A core counts for itself, up by two at the end of each turn, with release behind all that it did
//! in it. Who waits keeps what all have counted when he began, and waits until each count is
//! another one.
//!
//! **A core that rests counts as having turned**, for it has nothing under way: its count is odd
//! meanwhile. When it comes back, it says so, and a fence follows; when the store begins to wait,
//! it looks who rests behind a fence, too. Either its fence is the first of both, and what the core
//! said is seen: it is waited for. Or the store's is, and whatever was so before it, the core sees:
//! its places are in the new segment, and its events behind those of all who had ended their turns.
//!
//! `tests/turns.rs` has the orders of a store and a core, as the memory model allows them.

use super::sync::{AtomicU64, Ordering, fence};

/// How often each core of a card has ended a turn, twice; and one more while it rests.
#[derive(Debug)]
pub struct Turns(Box<[Turn]>);

/// On a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Turn(AtomicU64);

impl Turns {
    /// Of so many cores.
    pub fn new(cores: usize) -> Turns {
        Turns((0..cores).map(|_| Turn::default()).collect())
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

    /// A core says that it begins none from here on, until [`Turns::wake`].
    pub fn rest(&self, core: usize) {
        self.add(core, 1);
    }

    /// A core that rested says that it may begin one.
    pub fn wake(&self, core: usize) {
        self.add(core, 1);
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn add(&self, core: usize, count: u64) {
        if let Some(Turn(turns)) = self.0.get(core) {
            turns.store(turns.load(Ordering::Relaxed) + count, Ordering::Release);
        }
    }

    /// What all have counted, to be waited for.
    pub(super) fn look(&self, since: &mut [u64]) {
        fence(Ordering::SeqCst);
        for (since, Turn(turns)) in since.iter_mut().zip(&self.0) {
            *since = turns.load(Ordering::Acquire);
        }
    }

    /// Every core has ended a turn since they had counted so much, or rested then.
    pub(super) fn have_ended(&self, since: &[u64]) -> bool {
        let now = self.0.iter().map(|Turn(turns)| turns.load(Ordering::Acquire));
        now.zip(since).all(|(now, since)| now != *since || since % 2 == 1)
    }
}
