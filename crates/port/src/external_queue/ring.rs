//! Rings between a card and a client, which need not trust each other.
//!
//! A ring has a producer and a consumer, each with an index that counts entries and wraps at 2^32;
//! the entry of a count is the one that its low bits name. What lies between the consumer's index
//! and the producer's is the consumer's, the rest is the producer's (as of AF_XDP:
//! Documentation/networking/af_xdp.rst).
//!
//! **Order.** An index is stored with release ordering by the one end and loaded with acquire
//! ordering by the other. So whoever sees the producer's index also sees the entries before it, and
//! in the frames what was written before it was stored. Whoever sees the consumer's index knows
//! that all was read that lies before: a release store comes after the loads before it, too.
//! Entries and frames need no order of their own.
//!
//! **Sleep.** A client that has found nothing stores 1 into a word, and looks once more before it
//! sleeps. The card stores an index and then looks at the word. Between the two stands, on either
//! side, a sequentially consistent fence: of the two, one at least sees what the other has stored.
//! So either the client finds the entry, or the card finds it asleep and rings.
//!
//! **Trust.** An end keeps its own index for itself and never reads it back. Of the other's it
//! keeps what it saw last: the next must be that or later, and not beyond what there is, else the
//! other is at fault ([`Jump`]). An entry is loaded once; what it says is checked on the copy.

use std::sync::atomic::Ordering;

// `tests/rings.rs` has other ones under this file, to try every order of two threads.
use super::shared::{SharedMemory, WORD, fence};

/// Where the parts of a ring are in the shared memory.
#[derive(Clone, Copy, Debug)]
pub struct RingAt {
    pub name: &'static str,
    pub producer: usize,
    pub consumer: usize,
    pub entries: usize,
    /// Entries, a power of two.
    pub count: u32,
}

impl RingAt {
    #[inline]
    fn entry<const WORDS: usize>(&self, count: u32) -> usize {
        self.entries + (count & (self.count - 1)) as usize * WORDS * WORD
    }
}

/// The other end's index went back, or further than there are entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its index of the {ring} ring went from {from} to {to}: there it may be {most} at most")]
pub struct Jump {
    /// Which of the four rings.
    pub ring: &'static str,
    /// The index at the last look.
    pub from: u32,
    /// The index now.
    pub to: u32,
    /// How far it may go; indices wrap.
    pub most: u32,
}

/// Takes over an index that the other end has stored: `from` was seen last, and it may have come
/// `ahead` further.
#[inline]
fn entries_ahead(ring: &'static str, (from, to): (u32, u32), ahead: u32) -> Result<u32, Jump> {
    match to.wrapping_sub(from) <= ahead {
        true => Ok(to),
        false => Err(Jump { ring, from, to, most: from.wrapping_add(ahead) }),
    }
}

/// The end that puts entries of so many words in.
#[derive(Clone, Debug)]
pub struct Producer<const WORDS: usize> {
    at: RingAt,
    /// Entries before it are written; the other end sees them once they are published.
    produced: u32,
    /// The other's index when it was last looked at.
    consumed: u32,
}

impl<const WORDS: usize> Producer<WORDS> {
    /// The end of an empty ring whose indices are both `start`.
    pub fn new(at: RingAt, start: u32) -> Producer<WORDS> {
        Producer { at, produced: start, consumed: start }
    }

    /// Entries that can be put in; looks again where they are fewer than `want`.
    #[inline]
    pub fn room(&mut self, shared: &SharedMemory, want: u32) -> Result<u32, Jump> {
        let waiting = self.produced.wrapping_sub(self.consumed);
        if self.at.count - waiting < want {
            let to = shared.index(self.at.consumer, Ordering::Acquire);
            self.consumed = entries_ahead(self.at.name, (self.consumed, to), waiting)?;
        }
        Ok(self.at.count - self.produced.wrapping_sub(self.consumed))
    }

    /// Puts an entry in, for which there is room.
    #[inline]
    pub fn put(&mut self, shared: &SharedMemory, entry: [u64; WORDS]) {
        debug_assert!(self.produced.wrapping_sub(self.consumed) < self.at.count);
        let at = self.at.entry::<WORDS>(self.produced);
        for (number, word) in entry.into_iter().enumerate() {
            shared.word(at + number * WORD).store(word, Ordering::Relaxed);
        }
        self.produced = self.produced.wrapping_add(1);
    }

    /// Shows the other end what was put in.
    #[inline]
    pub fn publish(&self, shared: &SharedMemory) {
        shared.set_index(self.at.producer, self.produced, Ordering::Release);
    }
}

/// The end that takes entries of so many words out.
#[derive(Clone, Debug)]
pub struct Consumer<const WORDS: usize> {
    at: RingAt,
    /// Entries before it are taken; the other end may reuse their places once they are released.
    consumed: u32,
    /// The other's index when it was last looked at.
    produced: u32,
}

impl<const WORDS: usize> Consumer<WORDS> {
    /// The end of an empty ring whose indices are both `start`.
    pub fn new(at: RingAt, start: u32) -> Consumer<WORDS> {
        Consumer { at, consumed: start, produced: start }
    }

    /// Entries that can be taken; looks again where they are fewer than `want`.
    #[inline]
    pub fn available(&mut self, shared: &SharedMemory, want: u32) -> Result<u32, Jump> {
        let known = self.produced.wrapping_sub(self.consumed);
        if known < want {
            let to = shared.index(self.at.producer, Ordering::Acquire);
            self.produced =
                entries_ahead(self.at.name, (self.produced, to), self.at.count - known)?;
        }
        Ok(self.produced.wrapping_sub(self.consumed))
    }

    /// Takes an entry that is available, whatever stands in it.
    #[inline]
    pub fn take(&mut self, shared: &SharedMemory) -> [u64; WORDS] {
        debug_assert!(self.produced != self.consumed);
        let at = self.at.entry::<WORDS>(self.consumed);
        self.consumed = self.consumed.wrapping_add(1);
        std::array::from_fn(|number| shared.word(at + number * WORD).load(Ordering::Relaxed))
    }

    /// Gives the places of what was taken back.
    #[inline]
    pub fn release(&self, shared: &SharedMemory) {
        shared.set_index(self.at.consumer, self.consumed, Ordering::Release);
    }
}

/// Whether the client sleeps, now that indices were stored for it; it has to be woken then, and is
/// not found asleep again.
#[inline]
pub fn found_asleep(shared: &SharedMemory, asleep: usize) -> bool {
    fence(Ordering::SeqCst);
    let is_asleep = shared.index(asleep, Ordering::Relaxed) != 0;
    if is_asleep {
        shared.set_index(asleep, 0, Ordering::Relaxed);
    }
    is_asleep
}

/// Takes back that the client was found asleep, for it could not be woken.
#[cold]
pub fn leave_asleep(shared: &SharedMemory, asleep: usize) {
    shared.set_index(asleep, 1, Ordering::Relaxed);
}
