//! Rings in an application's memory: cores of the card fill them, the application empties them.
//!
//! # Layout
//! `entries` slots of [`Shape::stride`] bytes, one behind the other: a word that says whose the
//! slot is, and the entry. In the n-th round through the ring, from 0 on, the word is 2n while
//! the card may fill the slot and 2n + 1 while the application may read it, which makes it 2n +
//! 2, the next round's. So memory that is all zeros is an empty ring.
//!
//! # Why it is right
//! Which slot is filled next is one number of the card's, outside of that memory, which a core
//! moves on by compare-and-swap after it has seen that the slot is the card's: so no two cores
//! fill one slot. The word of a slot is written by the core that took it, with release, behind
//! the bytes of the entry, and whatever else this core wrote before; the application reads it
//! with acquire. It gives the slot back with release behind its last read, and a core looks
//! with acquire before it writes. `tests/dma.rs` has the orders of two cores and an application
//! with up to three preemptions, over entries whose every access it watches.
//!
//! An application may write anything there: a core then takes a slot for full or for free,
//! which spoils entries of this application, and goes on. It tries again only when another core
//! took the slot, and so waits for nobody.

use std::sync::Arc;

use niclab_table::prefetch;

use super::shared::{AtomicU64, Ordering, Shared, WORD};

/// What a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Entries that it has room for, a power of two.
    pub entries: u32,
    /// Bytes of an entry.
    pub entry_len: usize,
}

/// Where the card fills a ring; cores share it.
#[derive(Debug)]
pub struct Filler {
    shared: Arc<Shared>,
    shape: Shape,
    /// Entries that were begun.
    begun: AtomicU64,
}

/// Where an application empties a ring.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    shape: Shape,
    taken: u64,
}

impl Shape {
    /// Bytes from an entry to the next: whole words.
    #[must_use]
    pub const fn stride(self) -> usize {
        WORD + self.entry_len.next_multiple_of(WORD)
    }

    /// Bytes of the whole ring.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.entries as usize * self.stride()
    }

    /// Where the slot of the n-th entry begins.
    #[inline]
    fn slot(self, number: u64) -> usize {
        (number & u64::from(self.entries - 1)) as usize * self.stride()
    }

    /// What the word of the n-th entry is while the card may fill it.
    #[inline]
    fn free(self, number: u64) -> u64 {
        2 * (number >> self.entries.trailing_zeros())
    }
}

/// Both ends of a ring in memory that is all zeros and has [`Shape::bytes`] at least.
///
/// # Panics
/// If the memory is shorter, or the number of entries no power of two.
#[must_use]
pub fn ring(shared: &Arc<Shared>, shape: Shape) -> (Filler, Reader) {
    assert!(shape.entries.is_power_of_two(), "{} entries", shape.entries);
    assert!(shared.len_bytes() >= shape.bytes(), "the memory ends before the ring does");
    let (ours, theirs) = (Arc::clone(shared), Arc::clone(shared));
    let filler = Filler { shared: ours, shape, begun: AtomicU64::new(0) };
    (filler, Reader { shared: theirs, shape, taken: 0 })
}

impl Filler {
    /// What the ring is.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Has `write` fill the next entry, which begins at the offset that it is told; `false` where
    /// the ring is full.
    #[inline]
    pub fn fill(&self, write: impl FnOnce(&Shared, usize)) -> bool {
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
    /// What the ring is.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Entries that were taken so far.
    #[inline]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Asks for the entry that so many others come before, ahead of its use.
    #[inline]
    pub fn ask(&self, ahead: u64) {
        prefetch(self.shared.word(self.shape.slot(self.taken + ahead)));
    }

    /// Has `read` read the entry that so many others come before, and leaves it there: nobody but
    /// this reader gives it back. `None` where it is not there yet.
    #[inline]
    pub fn look<T>(&self, ahead: u64, read: impl FnOnce(&Shared, usize) -> T) -> Option<T> {
        if ahead >= u64::from(self.shape.entries) {
            return None;
        }
        let number = self.taken + ahead;
        let slot = self.shape.slot(number);
        let is_full = self.shared.word(slot).load(Ordering::Acquire) == self.shape.free(number) + 1;
        is_full.then(|| read(&self.shared, slot + WORD))
    }

    /// Has `read` read the next entry, which begins at the offset that it is told; `None` where
    /// there is none.
    #[inline]
    pub fn take<T>(&mut self, read: impl FnOnce(&Shared, usize) -> T) -> Option<T> {
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
