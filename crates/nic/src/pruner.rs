//! The pruning filter of a group: it tells which tuples can have a rule for a packet, and is
//! rebuilt as rules come and go.
//!
//! A group of few tuples probes all of them, best first. A group of many tuples has a filter
//! (`niclab_table::Filter`): each tuple has a *slot*, and a packet is looked up in the slots that
//! the filter selects, in order, until no later slot can have a better rule.
//!
//! A filter is built beside the packets: each operation gathers a few keys until the filter has all
//! of them, and then inserts a few of their spans. Only then do workers see it. A filter only
//! grows, and its slots are in the order of priority only when the build begins. So it is rebuilt
//! when as many keys were added as it began with, and much earlier in idle time.
//!
//! While a filter rests, the intersections of its sets are computed ahead (`niclab_table::Joined`),
//! again a few with each operation. They may be older than the filter: they tell which sets they do
//! not know.
//!
//! # Why no worker misses a rule
//!
//! - *A tuple is either in the list of tuples that are always probed, or it has a slot*, in every
//!   [`PrunedTuples`] that workers see with that list. The tuple gets its slot, the key is added to
//!   the filter, and the list is published before a rule's word is stored.
//! - *A filter that is being built gets every new key too*, and the older keys before workers see
//!   it.
//! - *`best` and `rest` are lowered before the word is stored*, and never raised while the tuple
//!   exists. So no worker stops too early.
//! - *The slot of a removed tuple* has no best order any more, so workers skip it. The tuple's
//!   number is reused only after a grace period that began after that store.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use niclab_table::{
    Filter, FilterConfig, FilterReader, Joined, Joining, Pages, Progress, Span, TABLES_LIMIT,
};

use crate::limits::{JOIN_PLACES, PRUNE_KEYS, PRUNE_TUPLES_MIN};
use crate::mask::Mask;
use crate::tuple::{FIELDS, Shape};

const F: usize = FIELDS.len();

/// The least number of keys that a new filter has room for.
const KEYS_MIN: usize = 1 << 15;

/// The least number of new sets or slots for which the intersections are computed again.
const SPARE_MIN: usize = 16;

/// The slot of a tuple that has none.
const NONE: u16 = u16::MAX;

/// The tuples behind a group's filter, as workers see them.
#[derive(Debug)]
pub(crate) struct PrunedTuples {
    pub(crate) reader: FilterReader<F>,
    entries: Box<[SlotEntry; TABLES_LIMIT]>,
    /// Slots in use.
    used: AtomicUsize,
    /// For each slot, a lower bound of the orders in it and in all later slots.
    rest: Box<[AtomicU64; TABLES_LIMIT]>,
}

/// A slot, if in use, and its best order.
#[derive(Debug)]
struct SlotEntry {
    /// In a box, so that a slot begins with a cache line of its own and the flags of use are
    /// together.
    slot: OnceLock<Box<Slot>>,
    /// A lower bound of the orders in the slot.
    best: AtomicU64,
}

/// A tuple, as packets are looked up in it. The first cache line has what most look-ups need.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) number: u16,
    /// The table of its keys.
    pub(crate) width: u8,
    pub(crate) shape: Shape,
}

const _: () = assert!(std::mem::offset_of!(Slot, shape) + Shape::FOUR_WORDS <= 64);

impl PrunedTuples {
    fn new(reader: FilterReader<F>) -> PrunedTuples {
        let none = || AtomicU64::new(u64::MAX);
        let entry = |_| SlotEntry { slot: OnceLock::new(), best: none() };
        let entries = Box::new(std::array::from_fn(entry));
        let rest = Box::new(std::array::from_fn(|_| none()));
        PrunedTuples { reader, entries, used: AtomicUsize::new(0), rest }
    }

    /// Slots in use.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// The tuple of a slot, if it may have a better rule; `None` for a slot that is not in use yet.
    #[inline]
    pub(crate) fn better(&self, slot: usize, order: u64) -> Option<&Slot> {
        let entry = &self.entries[slot % TABLES_LIMIT];
        if entry.best.load(Ordering::Acquire) >= order {
            return None;
        }
        entry.slot.get().map(|slot| &**slot)
    }

    /// A lower bound of the orders in this slot and all later ones. Past the last slot, the bound
    /// of any slot.
    #[inline]
    pub(crate) fn rest(&self, slot: usize) -> u64 {
        self.rest[slot % TABLES_LIMIT].load(Ordering::Acquire)
    }

    fn admit(&self, slot: usize, order: u64) {
        let best = &self.entries[slot].best;
        if best.load(Ordering::Relaxed) > order {
            best.store(order, Ordering::Release);
        }
        let worse = |rest: &&AtomicU64| rest.load(Ordering::Relaxed) > order;
        let before = self.rest[..=slot].iter().rev();
        before.take_while(worse).for_each(|rest| rest.store(order, Ordering::Release));
    }
}

/// A pruning filter with the slots of its tuples.
struct GroupFilter {
    filter: Filter<F>,
    pruned: Arc<PrunedTuples>,
    /// Slot of each tuple, by its number.
    slots: Vec<u16>,
    /// Slots in use; a slot is never reused.
    used: usize,
    /// Keys that were added since the build began, and keys that existed then.
    taken: usize,
    begun_with: usize,
    /// The intersections of its sets, and their replacement.
    joined: Option<Arc<Joined<F>>>,
    joining: Option<Joining<F>>,
    /// Number of sets when their intersections were too many.
    refused: usize,
}

/// A filter that does not have all keys yet.
struct GroupFilterBuild {
    built: GroupFilter,
    /// Numbers of the tuples whose keys are still missing, and the place of the next key.
    tuples: VecDeque<u16>,
    at: u32,
}

/// The filter of one group, for the control side.
#[derive(Default)]
pub(crate) struct Pruner {
    shown: Option<GroupFilter>,
    next: Option<GroupFilterBuild>,
}

impl GroupFilter {
    /// An empty filter with slots for the existing tuples, best first. `None` without memory: the
    /// group then goes on without a new filter.
    fn begin(masks: &[Mask]) -> Option<GroupFilter> {
        let keys: usize = masks.iter().map(|mask| mask.keys.places() as usize).sum();
        let config = FilterConfig {
            fields: FIELDS,
            tables_max: TABLES_LIMIT,
            rules_max: KEYS_MIN.max(4 * keys),
            pages: Pages::Huge,
        };
        let filter = Filter::new(config).ok()?;
        let pruned = Arc::new(PrunedTuples::new(filter.reader()));
        let slots = vec![NONE; masks.len()];
        let (joined, joining) = (None, None);
        let mut built = GroupFilter {
            filter,
            pruned,
            slots,
            used: 0,
            taken: 0,
            begun_with: keys,
            joined,
            joining,
            refused: 0,
        };
        let mut best_first: Vec<&Mask> = pruned_of(masks).collect();
        best_first.sort_by_key(|mask| mask.tuple.best());
        for mask in best_first {
            built.admit(mask, mask.tuple.best());
        }
        Some(built)
    }

    /// The slot of a tuple, which gets one if it has none; `None` if all slots are in use.
    fn slot(&mut self, mask: &Mask) -> Option<usize> {
        let number = usize::from(mask.tuple.number);
        if self.slots.len() <= number {
            self.slots.resize(number + 1, NONE);
        }
        if self.slots[number] == NONE {
            let slot = &self.pruned.entries.get(self.used)?.slot;
            let (shape, number) = (mask.tuple.shape, mask.tuple.number);
            // Empty: no slot is used twice.
            let width = shape.selector.width().unwrap_or(0) as u8;
            let _ = slot.set(Box::new(Slot { number, width, shape }));
            self.slots[usize::from(number)] = self.used as u16;
            self.used += 1;
            self.pruned.used.store(self.used, Ordering::Release);
        }
        Some(usize::from(self.slots[number]))
    }

    fn has(&self, number: u16) -> bool {
        self.slots.get(usize::from(number)).is_some_and(|&slot| slot != NONE)
    }

    fn admit(&mut self, mask: &Mask, order: u64) {
        if let Some(slot) = self.slot(mask) {
            self.pruned.admit(slot, order);
        }
    }

    /// Adds a key, so that its packets find the tuple; if `later`, when all keys are gathered.
    fn add_key(&mut self, mask: &Mask, key: &[u64], later: bool) {
        if let Some(slot) = self.slot(mask) {
            self.taken += 1;
            let spans: [Span; F] = mask.tuple.shape.spans(key);
            // Cannot fail: the filter has all slots in use.
            let _ = match later {
                true => self.filter.gather(slot, &spans),
                false => self.filter.add(slot, &spans),
            };
        }
    }

    fn retire(&mut self, number: u16) {
        if self.has(number) {
            let slot = std::mem::replace(&mut self.slots[usize::from(number)], NONE);
            self.pruned.entries[usize::from(slot)].best.store(u64::MAX, Ordering::Release);
        }
    }

    /// Whether new intersections would be worth their cost. `idle` is true in idle time; otherwise
    /// a few new sets are awaited.
    fn wants_join(&self, idle: bool) -> bool {
        if self.refused > 0 && self.filter.sets_count() < 2 * self.refused {
            return false;
        }
        let Some(joined) = &self.joined else { return true };
        let (sets, tables) = (joined.sets_count(), joined.tables());
        match idle {
            true => !joined.is_whole(&self.filter, self.used),
            false => {
                let spare = |count: usize| count + count / 2 + 4 * SPARE_MIN;
                let many = self.filter.sets_count() > spare(sets) || self.used > spare(tables);
                many || !joined.holds(&self.filter)
            }
        }
    }

    /// Computes a few more intersections, or begins to if they are worth it. True if workers have
    /// to see the result.
    fn join(&mut self, idle: bool) -> bool {
        let Some(joining) = &mut self.joining else {
            if self.wants_join(idle) {
                self.joining = self.filter.join(self.used);
            }
            return false;
        };
        match joining.proceed(&self.filter, JOIN_PLACES) {
            Progress::Done => {
                self.joined = self.joining.take().map(|joining| Arc::new(joining.into_joined()));
                true
            }
            Progress::Refused => {
                (self.joining, self.refused) = (None, self.filter.sets_count());
                false
            }
            _ => false,
        }
    }

    /// Whether to rebuild the filter. A filter whose keys came one by one is larger than one that
    /// was built from all keys. `idle` is true in idle time, when fewer added keys are enough.
    fn is_stale(&self, masks: &[Mask], idle: bool) -> bool {
        let without = || pruned_of(masks).any(|mask| !self.has(mask.tuple.number));
        let taken_max = match idle {
            true => self.begun_with + self.begun_with / 8 + SPARE_MIN,
            false => 2 * self.begun_with + KEYS_MIN / 64,
        };
        self.taken > taken_max || self.used == TABLES_LIMIT && without()
    }
}

/// The masks in a filter: all but the empty mask and those without rules.
fn pruned_of(masks: &[Mask]) -> impl Iterator<Item = &Mask> {
    masks.iter().filter(|mask| mask.rules > 0 && mask.tuple.shape.selector.words() > 0)
}

impl Pruner {
    /// The filter for workers.
    pub(crate) fn pruned(&self) -> Option<Arc<PrunedTuples>> {
        self.shown.as_ref().map(|built| Arc::clone(&built.pruned))
    }

    /// The intersections for workers.
    pub(crate) fn joined(&self) -> Option<Arc<Joined<F>>> {
        self.shown.as_ref()?.joined.clone()
    }

    /// Whether workers find a tuple by the filter.
    pub(crate) fn has(&self, number: u16) -> bool {
        self.shown.as_ref().is_some_and(|built| built.has(number))
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        let both = self.shown.iter().chain(self.next.as_ref().map(|next| &next.built));
        let joined = |built: &GroupFilter| built.joined.as_ref().map_or(0, |joined| joined.bytes());
        both.map(|built| built.filter.bytes() + joined(built) + TABLES_LIMIT * size_of::<Slot>())
            .sum()
    }

    /// Prepares for a rule with this key and order; call it before a packet can match the rule.
    /// True if the list of tuples that are probed without the filter changes.
    pub(crate) fn admit(&mut self, mask: &Mask, key: &[u64], order: u64) -> bool {
        if mask.tuple.shape.selector.words() == 0 {
            return false;
        }
        if let Some(next) = &mut self.next {
            next.built.admit(mask, order);
            next.built.add_key(mask, key, true);
        }
        let Some(shown) = &mut self.shown else { return false };
        let had = shown.has(mask.tuple.number);
        shown.add_key(mask, key, false);
        shown.admit(mask, order);
        shown.has(mask.tuple.number) != had
    }

    /// Removes a tuple, which has no rule any more.
    pub(crate) fn retire(&mut self, number: u16) {
        self.shown.iter_mut().for_each(|built| built.retire(number));
        if let Some(next) = &mut self.next {
            next.built.retire(number);
            if next.tuples.front() == Some(&number) {
                next.at = 0;
            }
            next.tuples.retain(|tuple| *tuple != number);
        }
    }

    /// Builds the filter or its intersections a few keys further, or begins to if that is worth it.
    /// True if workers have to see another filter. `live` is the number of masks with rules. `idle`
    /// is true in idle time.
    #[inline]
    pub(crate) fn advance(&mut self, masks: &[Mask], live: usize, idle: bool) -> bool {
        match (&self.next, &mut self.shown) {
            (Some(_), _) => self.build(masks),
            (None, Some(shown)) if shown.is_stale(masks, idle) => self.begin(masks),
            (None, Some(shown)) => shown.join(idle),
            (None, None) => live >= PRUNE_TUPLES_MIN && self.begin(masks),
        }
    }

    /// Whether there is no filter and none is being built.
    #[inline]
    pub(crate) fn is_absent(&self) -> bool {
        self.shown.is_none() && self.next.is_none()
    }

    /// Whether a filter is being built, or intersections have to be computed.
    pub(crate) fn is_busy(&self, masks: &[Mask]) -> bool {
        let joins = |built: &GroupFilter| {
            built.joining.is_some() || built.is_stale(masks, true) || built.wants_join(true)
        };
        self.next.is_some() || self.shown.as_ref().is_some_and(joins)
    }

    #[cold]
    fn begin(&mut self, masks: &[Mask]) -> bool {
        let tuples = pruned_of(masks).map(|mask| mask.tuple.number).collect();
        self.next =
            GroupFilter::begin(masks).map(|built| GroupFilterBuild { built, tuples, at: 0 });
        false
    }

    #[cold]
    fn build(&mut self, masks: &[Mask]) -> bool {
        let Some(next) = &mut self.next else { return false };
        for _ in 0..PRUNE_KEYS {
            let Some(&number) = next.tuples.front() else {
                if next.built.filter.insert_gathered(PRUNE_KEYS) {
                    return false;
                }
                self.shown = self.next.take().map(|next| next.built);
                return true;
            };
            let mask = &masks[usize::from(number)];
            if next.at < mask.keys.places() {
                next.built.add_key(mask, &mask.keys.get(next.at), true);
                next.at += 1;
            } else {
                next.tuples.pop_front();
                next.at = 0;
            }
        }
        false
    }
}
