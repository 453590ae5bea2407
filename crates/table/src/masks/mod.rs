//! Masks behind a filter: which masks can have a better rule for a packet, best masks first.
//!
//! A tuple space with few masks searches all of them. One with many has a pruning filter (`prune`).
//! In it, each mask has a *slot*. When the build of a filter begins, the best masks get the first
//! slots; later masks get the next ones. So a look-up visits the slots that the filter selects in
//! order, until no later slot can have a better rule.
//!
//! A filter is built beside the packets: each operation gathers a few entries, until the filter has
//! all of them, and then inserts a few of their spans. Only then do readers see it. A filter only
//! grows, and its slots are in the order of priority only when the build begins. So it is rebuilt
//! when three times as many new entries came as it began with, and much earlier in idle time.
//!
//! While a filter rests, the intersections of its sets are computed ahead ([`Joined`]), again a few
//! with each operation. They may be older than the filter: they mark the sets that they lack, and
//! the search intersects those.
//!
//! The slot of a removed mask keeps what it has, a table for instance, until the filter is rebuilt.
//!
//! # Why no reader misses an entry
//!
//! - *A mask with an entry either has a slot, or it is in the user's list of masks that are always
//!   searched*: in every view that readers see. [`MaskFilter::add`] gives it a slot, the key is
//!   added to the filter, and the user shows the view before it stores the entry's word.
//! - *A filter that is being built has every entry before readers see it.* The build visits the
//!   entries that are stored, and `add` gathers new ones. The user stores an entry before its next
//!   call of [`MaskFilter::advance`]: so a build that began between `add` and the store visits it.
//! - *The bounds of a slot, and of those before it, are lowered before the word is stored*, and not
//!   raised. So no reader stops too early.
//! - *The slot of a mask that was removed* has no bound any more, so readers skip it. The mask had
//!   no entry then, whatever the generation of a reader.
//!
//! # Why the memory orderings are enough
//!
//! There is one writer. The user stores words with Release and reads them with Acquire, and does
//! the same with the view.
//!
//! - *A reader that knows of an entry sees all that was prepared for it.* The writer stores the
//!   content of the slot, the number of slots, the bits of the filter and the lowered bounds before
//!   the word. The reader knows of the entry because it read the word, or something that was stored
//!   later. So this needs no ordering among the places that were prepared.
//! - *A reader that does not know of it may see any part of the preparation.* It then skips a slot
//!   without content, or finds no word.
//! - *A raised bound is a Release store, and readers load it with Acquire.* A reader that skips the
//!   slot of a removed mask thus sees all that came before the removal, such as the entry that took
//!   the place of a removed one. Relaxed is too weak here.
//! - *A slot is never reused.* A mask that gets the number of a removed mask gets another slot. If
//!   words are found by that number, as the card's are, the user waits for a grace period after
//!   [`MaskFilter::retire`]. No reader is in the old slot after that.
//! - *A reader has one view for a whole burst.* `add`, `lower` and `retire` change the filter that
//!   readers use and the one that is being built. So an old view and a new one both have every
//!   entry.
//! - *Nothing is freed under a reader.* A view owns its slots and intersections (`Arc`), and a
//!   search borrows them from the view. The user keeps an old view until it is the only owner, so
//!   that no reader frees memory.
//!
//! `tests/loom/masks.rs` has models of this. `docs/decisions/one-classifier.md` of the repository
//! lists the broken variants in which they fail.

mod control;
mod search;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::prune::{FilterReader, Joined, Span};
use crate::sync::{Acquire, AtomicU64, AtomicUsize, OnceLock, Release};

pub use control::{EntryCursor, MaskFilter, Pace};
pub use search::MaskSearch;

/// The masks of a tuple space, for their filter.
///
/// A mask has a number and entries. A *bound* of a mask is at most the rank of each of its words.
pub trait MaskSource<const F: usize> {
    /// The content of a mask's slot.
    type Slot;

    /// The bounds and the numbers of the masks with entries that have a place in a filter, in no
    /// order.
    fn masks(&self) -> impl Iterator<Item = (u64, u16)>;

    /// At least the number of entries of all masks; places of removed entries may count.
    fn entries(&self) -> usize;

    /// The content of a mask's slot, if the mask exists.
    fn slot(&self, number: u16) -> Option<Self::Slot>;

    /// Shows some more entries of a mask to `visit`: the values of each in the fields of the
    /// filter, and its bound. False if there are no more. A new cursor begins. An entry that exists
    /// from the first call to the last is shown at least once; removed entries may be shown too.
    fn visit(
        &mut self,
        number: u16,
        cursor: &mut EntryCursor,
        visit: &mut dyn FnMut(&[Span; F], u64),
    ) -> bool;

    /// A new filter has seen all entries of a mask, and none has a smaller bound.
    fn raise(&mut self, number: u16, bound: u64);
}

/// The slots of a filter, as readers see them.
#[derive(Debug)]
pub struct SharedSlots<const F: usize, S> {
    reader: FilterReader<F>,
    entries: Box<[SlotEntry<S>]>,
    /// Slots in use.
    used: AtomicUsize,
    /// For each slot, a lower bound of the bounds in it and in all later slots.
    rest: Box<[AtomicU64]>,
}

/// A slot, if in use, and its bound.
#[derive(Debug)]
struct SlotEntry<S> {
    content: OnceLock<S>,
    bound: AtomicU64,
}

impl<const F: usize, S> SharedSlots<F, S> {
    fn new(reader: FilterReader<F>, slots_max: usize) -> Self {
        let none = || AtomicU64::new(u64::MAX);
        let entry = |_| SlotEntry { content: OnceLock::new(), bound: none() };
        let entries = (0..slots_max).map(entry).collect();
        let rest = (0..slots_max).map(|_| none()).collect();
        Self { reader, entries, used: AtomicUsize::new(0), rest }
    }

    /// The slot, if it may have a word with a rank below `limit`; `None` for a slot that is not in
    /// use yet.
    #[inline]
    fn slot_below(&self, slot: usize, limit: u64) -> Option<&S> {
        let entry = self.entries.get(slot)?;
        if entry.bound.load(Acquire) >= limit {
            return None;
        }
        entry.content.get()
    }

    /// A lower bound of this slot and all later ones; zero past the last slot.
    #[inline]
    fn bound_from(&self, slot: usize) -> u64 {
        self.rest.get(slot).map_or(0, |rest| rest.load(Acquire))
    }

    /// Lowers the bounds of a slot and of those before it, for a new word; false if they are low
    /// enough. For the writer only.
    fn lower(&self, slot: usize, bound: u64) -> bool {
        let lower = |place: &AtomicU64| {
            let is_lower = place.load(Acquire) > bound;
            if is_lower {
                place.store(bound, Release);
            }
            is_lower
        };
        let is_lower = lower(&self.entries[slot].bound);
        // Those before it are at most as high.
        let _ = self.rest[..=slot].iter().rev().all(lower);
        is_lower
    }
}

/// A filter with its slots and its intersections, for readers.
#[derive(Debug)]
pub struct MaskView<const F: usize, S> {
    slots: Arc<SharedSlots<F, S>>,
    joined: Option<Arc<Joined<F>>>,
}

impl<const F: usize, S> Clone for MaskView<F, S> {
    fn clone(&self) -> Self {
        Self { slots: Arc::clone(&self.slots), joined: self.joined.clone() }
    }
}

impl<const F: usize, S> MaskView<F, S> {
    /// A lower bound of all masks behind the filter.
    #[inline]
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.slots.bound_from(0)
    }

    /// The slots in use now, for one burst.
    #[inline]
    fn slots_now(&self) -> MaskSlots<'_, F, S> {
        let used = self.slots.used.load(Acquire);
        MaskSlots { slots: &self.slots, joined: self.joined.as_deref(), used }
    }
}

/// The slots of a filter, for one burst.
#[derive(Debug)]
pub struct MaskSlots<'a, const F: usize, S> {
    slots: &'a SharedSlots<F, S>,
    joined: Option<&'a Joined<F>>,
    /// Slots in use.
    used: usize,
}

impl<const F: usize, S> Clone for MaskSlots<'_, F, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const F: usize, S> Copy for MaskSlots<'_, F, S> {}
