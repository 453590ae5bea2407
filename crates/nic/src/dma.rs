//! Rings in an application's memory: cores of the card fill them, the application empties them.
//!
//! # Layout
//! `entries` slots of [`Shape::stride`] bytes, one after the other. Each slot has a word that tells
//! its owner, and the entry. In the n-th round through the ring, from 0 on, the word is 2n while
//! the card may fill the slot, and 2n + 1 while the application may read it. The application then
//! sets it to 2n + 2, the next round's value. So memory that is all zeros is an empty ring.
//!
//! # Why it is correct
//!
//! The card keeps the number of the next slot outside of that memory. A core checks that the card
//! owns the slot and then advances the number by compare-and-swap: so no two cores fill one slot.
//! The core that took the slot writes the entry and then its word, with release; the application
//! reads the word with acquire. The application returns the slot with release after its last read,
//! and a core reads the word with acquire before it writes. `tests/dma.rs` runs two cores and an
//! application in every order with up to three preemptions, and checks every access to the entries.
//!
//! An application may write anything there. A core may then take a full slot for a free one or the
//! reverse, which spoils entries of this application only, and goes on. A core tries again only if
//! another core took the slot, so it never waits.

use std::sync::Arc;

use niclab_table::prefetch;

use super::shared_memory::{AtomicU64, Ordering, SharedMemory, WORD};

/// The dimensions of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of entries, a power of two.
    pub entries: u32,
    /// Bytes of an entry.
    pub entry_len: usize,
}

/// The card's end of a ring, which its cores share.
#[derive(Debug)]
pub struct Filler {
    shared: Arc<SharedMemory>,
    shape: Shape,
    /// Number of entries that cores began to fill.
    begun: AtomicU64,
}

/// The application's end of a ring.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<SharedMemory>,
    shape: Shape,
    taken: u64,
}

impl Shape {
    /// Bytes from one entry to the next: whole words.
    #[must_use]
    pub const fn stride(self) -> usize {
        WORD + self.entry_len.next_multiple_of(WORD)
    }

    /// Bytes of the whole ring.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.entries as usize * self.stride()
    }

    /// Offset of the slot of the n-th entry.
    #[inline]
    fn slot(self, number: u64) -> usize {
        (number & u64::from(self.entries - 1)) as usize * self.stride()
    }

    /// The word of the n-th entry while the card may fill it.
    #[inline]
    fn free(self, number: u64) -> u64 {
        2 * (number >> self.entries.trailing_zeros())
    }
}

/// Both ends of a ring, in memory that is all zeros and at least [`Shape::bytes`] long.
///
/// # Panics
/// If the memory is shorter, or the number of entries no power of two.
#[must_use]
pub fn ring(shared: &Arc<SharedMemory>, shape: Shape) -> (Filler, Reader) {
    assert!(shape.entries.is_power_of_two(), "{} entries", shape.entries);
    assert!(shared.len_bytes() >= shape.bytes(), "the memory ends before the ring does");
    let (ours, theirs) = (Arc::clone(shared), Arc::clone(shared));
    let filler = Filler { shared: ours, shape, begun: AtomicU64::new(0) };
    (filler, Reader { shared: theirs, shape, taken: 0 })
}

impl Filler {
    /// The dimensions of the ring.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Calls `write` to fill the next entry at an offset; false if the ring is full.
    #[inline]
    pub fn fill(&self, write: impl FnOnce(&SharedMemory, usize)) -> bool {
        let mut number = self.begun.load(Ordering::Relaxed);
        let (slot, free) = loop {
            let (slot, free) = (self.shape.slot(number), self.shape.free(number));
            if self.shared.word(slot).load(Ordering::Acquire) != free {
                let now = self.begun.load(Ordering::Relaxed);
                if now == number {
                    return false;
                }
                number = now;
                continue;
            }
            match self.begun.compare_exchange_weak(
                number,
                number + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break (slot, free),
                Err(now) => number = now,
            }
        };
        write(&self.shared, slot + WORD);
        self.shared.word(slot).store(free + 1, Ordering::Release);
        true
    }
}

impl Reader {
    /// The dimensions of the ring.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of entries that were taken so far.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Prefetches the entry after `ahead` others.
    #[inline]
    pub fn ask(&self, ahead: u64) {
        prefetch(self.shared.word(self.shape.slot(self.taken + ahead)));
    }

    /// Calls `read` for the entry after `ahead` others, and leaves it in the ring: only this reader
    /// returns it to the card. `None` if the entry is not filled yet.
    #[inline]
    pub fn look<T>(&self, ahead: u64, read: impl FnOnce(&SharedMemory, usize) -> T) -> Option<T> {
        if ahead >= u64::from(self.shape.entries) {
            return None;
        }
        let number = self.taken + ahead;
        let slot = self.shape.slot(number);
        let is_full = self.shared.word(slot).load(Ordering::Acquire) == self.shape.free(number) + 1;
        is_full.then(|| read(&self.shared, slot + WORD))
    }

    /// Calls `read` for the next entry at an offset, and returns its slot to the card. `None` if
    /// the ring is empty.
    #[inline]
    pub fn take<T>(&mut self, read: impl FnOnce(&SharedMemory, usize) -> T) -> Option<T> {
        let slot = self.shape.slot(self.taken);
        let full = self.shape.free(self.taken) + 1;
        if self.shared.word(slot).load(Ordering::Acquire) != full {
            return None;
        }
        let entry = read(&self.shared, slot + WORD);
        self.shared.word(slot).store(full + 1, Ordering::Release);
        self.taken += 1;
        Some(entry)
    }
}
