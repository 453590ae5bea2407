//! Which tuples of a group can hold a rule for a packet: the group's filter, and what it needs to
//! stay good while rules come and go.
//!
//! A group of few tuples probes them all, best first. One of many has a filter
//! (`niclab_table::Filter`): each of its tuples has a *slot*, and a packet is looked up in the
//! slots that the filter names, in their order, until no later one can hold a better rule.
//!
//! A filter is made beside the packets: it gathers a few keys with each operation until it has all,
//! then lays out a few of their spans, and only then do workers see it. As it only grows, and as
//! slots are in the order of priority only when it is begun, it is made anew when as many keys have
//! come as there were; where nothing else is to be done, much earlier.
//!
//! A filter that rests is joined (`niclab_table::Joined`), again a few sets with each operation.
//! What was joined may be older than the filter: it knows what it does not know.
//!
//! # Why no worker misses a rule
//!
//! - *A tuple is either in the list of those that are probed anyway, or it has a slot*, in every
//!   [`Pruned`] that workers see with that list: a slot is given, the filter grown and the list
//!   published before a rule's word is stored.
//! - *A filter under way gets every new key too*, and the keys that were there when it was begun
//!   before it is shown.
//! - *`best` and `rest` are lowered before the word is stored*, and never raised while the tuple
//!   lives, so no worker stops too early.
//! - *The slot of a tuple that is gone* has no best order any more and is passed over; the tuple's
//!   number is used again only after a grace period that began behind that store.

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

/// Keys of rules that a new filter has room for, at least.
const KEYS_MIN: usize = 1 << 15;

/// New sets or slots beside which a joined filter may stay as it is, at least.
const SPARE_MIN: usize = 16;

/// A tuple without a slot.
const NONE: u16 = u16::MAX;

/// What workers see of a group's filter.
#[derive(Debug)]
pub(crate) struct Pruned {
    pub(crate) reader: FilterReader<F>,
    seats: Box<[Seat; TABLES_LIMIT]>,
    /// Slots given away.
    used: AtomicUsize,
    /// Best order of each slot and those behind it, or better.
    rest: Box<[AtomicU64; TABLES_LIMIT]>,
}

/// A place for a slot.
#[derive(Debug)]
struct Seat {
    /// In a box: it begins with a line of its own, and which are given away is together.
    slot: OnceLock<Box<Slot>>,
    /// Its best order, or better.
    best: AtomicU64,
}

/// A tuple as packets are looked up in it; what most of them need is in the first line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) number: u16,
    /// Which table its keys are in.
    pub(crate) width: u8,
    pub(crate) shape: Shape,
}

const _: () = assert!(std::mem::offset_of!(Slot, shape) + Shape::FOUR_WORDS <= 64);

impl Pruned {
    fn new(reader: FilterReader<F>) -> Pruned {
        let none = || AtomicU64::new(u64::MAX);
        let seat = |_| Seat { slot: OnceLock::new(), best: none() };
        let seats = Box::new(std::array::from_fn(seat));
        let rest = Box::new(std::array::from_fn(|_| none()));
        Pruned { reader, seats, used: AtomicUsize::new(0), rest }
    }

    /// Slots given away.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// The tuple of a slot, if it may have a rule that is better; none in one that is not yet given
    /// away.
    #[inline]
    pub(crate) fn better(&self, slot: usize, order: u64) -> Option<&Slot> {
        let seat = &self.seats[slot % TABLES_LIMIT];
        if seat.best.load(Ordering::Acquire) >= order {
            return None;
        }
        seat.slot.get().map(|slot| &**slot)
    }

    /// No rule of this slot or of one behind it is better. Behind the last slot there may be that
    /// of any.
    #[inline]
    pub(crate) fn rest(&self, slot: usize) -> u64 {
        self.rest[slot % TABLES_LIMIT].load(Ordering::Acquire)
    }

    fn admit(&self, slot: usize, order: u64) {
        let best = &self.seats[slot].best;
        if best.load(Ordering::Relaxed) > order {
            best.store(order, Ordering::Release);
        }
        let worse = |rest: &&AtomicU64| rest.load(Ordering::Relaxed) > order;
        let before = self.rest[..=slot].iter().rev();
        before.take_while(worse).for_each(|rest| rest.store(order, Ordering::Release));
    }
}

/// A filter, with the slots of tuples.
struct Built {
    filter: Filter<F>,
    pruned: Arc<Pruned>,
    /// Slot of each tuple, by its number.
    slots: Vec<u16>,
    /// Slots given away; none is used again.
    used: usize,
    /// Keys it took since it was begun, and how many there were then.
    taken: usize,
    begun_with: usize,
    /// Its sets joined ahead, and what is to take their place.
    joined: Option<Arc<Joined<F>>>,
    joining: Option<Joining<F>>,
    /// Sets there were when they could not be joined.
    refused: usize,
}

/// A filter that does not have all keys yet.
struct Building {
    built: Built,
    /// Numbers of the tuples whose keys it still takes, and the place of the next one.
    tuples: VecDeque<u16>,
    at: u32,
}

/// The filter of one group, for the control side.
#[derive(Default)]
pub(crate) struct Pruner {
    shown: Option<Built>,
    next: Option<Building>,
}

impl Built {
    /// An empty filter with slots for the tuples there are, best first. `None` without memory: the
    /// group then goes on as it is.
    fn begin(masks: &[Mask]) -> Option<Built> {
        let keys: usize = masks.iter().map(|mask| mask.keys.places() as usize).sum();
        let config = FilterConfig {
            fields: FIELDS,
            tables_max: TABLES_LIMIT,
            rules_max: KEYS_MIN.max(4 * keys),
            pages: Pages::Huge,
        };
        let filter = Filter::new(config).ok()?;
        let pruned = Arc::new(Pruned::new(filter.reader()));
        let slots = vec![NONE; masks.len()];
        let (joined, joining) = (None, None);
        let mut built = Built {
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

    /// The slot of a tuple, given to it if it has none; `None` if there is none left.
    fn slot(&mut self, mask: &Mask) -> Option<usize> {
        let number = usize::from(mask.tuple.number);
        if self.slots.len() <= number {
            self.slots.resize(number + 1, NONE);
        }
        if self.slots[number] == NONE {
            let slot = &self.pruned.seats.get(self.used)?.slot;
            let (shape, number) = (mask.tuple.shape, mask.tuple.number);
            // Empty: slots are given away once.
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

    /// Lets the packets of a key find its tuple; `later`, when all keys are there.
    fn take(&mut self, mask: &Mask, key: &[u64], later: bool) {
        if let Some(slot) = self.slot(mask) {
            self.taken += 1;
            let spans: [Span; F] = mask.tuple.shape.spans(key);
            // It knows all slots that are given away.
            let _ = match later {
                true => self.filter.gather(slot, &spans),
                false => self.filter.add(slot, &spans),
            };
        }
    }

    fn retire(&mut self, number: u16) {
        if self.has(number) {
            let slot = std::mem::replace(&mut self.slots[usize::from(number)], NONE);
            self.pruned.seats[usize::from(slot)].best.store(u64::MAX, Ordering::Release);
        }
    }

    /// Whether its sets could be joined to more use. `idle` says that nothing else is to be done:
    /// else a few new ones are waited for.
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

    /// Takes the joining of its sets a few sets further; begins it where it is wanted. True where
    /// workers are to see what came of it.
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

    /// Whether it is to be made anew. One whose keys came one by one is larger than one that knew
    /// them all: `idle` says that nothing else is to be done, and few are enough.
    fn is_stale(&self, masks: &[Mask], idle: bool) -> bool {
        let without = || pruned_of(masks).any(|mask| !self.has(mask.tuple.number));
        let taken_max = match idle {
            true => self.begun_with + self.begun_with / 8 + SPARE_MIN,
            false => 2 * self.begun_with + KEYS_MIN / 64,
        };
        self.taken > taken_max || self.used == TABLES_LIMIT && without()
    }
}

/// The masks whose rules a filter has: all but the empty one and those without rules.
fn pruned_of(masks: &[Mask]) -> impl Iterator<Item = &Mask> {
    masks.iter().filter(|mask| mask.rules > 0 && mask.tuple.shape.selector.words() > 0)
}

impl Pruner {
    /// What workers are to see.
    pub(crate) fn pruned(&self) -> Option<Arc<Pruned>> {
        self.shown.as_ref().map(|built| Arc::clone(&built.pruned))
    }

    /// What workers are to see of its sets joined.
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
        let joined = |built: &Built| built.joined.as_ref().map_or(0, |joined| joined.bytes());
        both.map(|built| built.filter.bytes() + joined(built) + TABLES_LIMIT * size_of::<Slot>())
            .sum()
    }

    /// Makes ready for a rule with this key and order, before it can be found. True where the list
    /// of tuples that are probed without the filter is another now.
    pub(crate) fn admit(&mut self, mask: &Mask, key: &[u64], order: u64) -> bool {
        if mask.tuple.shape.selector.words() == 0 {
            return false;
        }
        if let Some(next) = &mut self.next {
            next.built.admit(mask, order);
            next.built.take(mask, key, true);
        }
        let Some(shown) = &mut self.shown else { return false };
        let had = shown.has(mask.tuple.number);
        shown.take(mask, key, false);
        shown.admit(mask, order);
        shown.has(mask.tuple.number) != had
    }

    /// Says that a tuple has no rule any more.
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

    /// Takes the making of a filter a few keys further, or the joining of its sets; begins it where
    /// it is wanted. True where workers are to see another one than before. `live` is the number of
    /// masks with rules; `idle` says that no rule comes.
    #[inline]
    pub(crate) fn tend(&mut self, masks: &[Mask], live: usize, idle: bool) -> bool {
        match (&self.next, &mut self.shown) {
            (Some(_), _) => self.build(masks),
            (None, Some(shown)) if shown.is_stale(masks, idle) => self.begin(masks),
            (None, Some(shown)) => shown.join(idle),
            (None, None) => live >= PRUNE_TUPLES_MIN && self.begin(masks),
        }
    }

    /// Whether there is no filter, nor one being made.
    #[inline]
    pub(crate) fn is_away(&self) -> bool {
        self.shown.is_none() && self.next.is_none()
    }

    /// Whether a filter is being made, or its sets are to be joined.
    pub(crate) fn is_busy(&self, masks: &[Mask]) -> bool {
        let joins = |built: &Built| {
            built.joining.is_some() || built.is_stale(masks, true) || built.wants_join(true)
        };
        self.next.is_some() || self.shown.as_ref().is_some_and(joins)
    }

    #[cold]
    fn begin(&mut self, masks: &[Mask]) -> bool {
        let tuples = pruned_of(masks).map(|mask| mask.tuple.number).collect();
        self.next = Built::begin(masks).map(|built| Building { built, tuples, at: 0 });
        false
    }

    #[cold]
    fn build(&mut self, masks: &[Mask]) -> bool {
        let Some(next) = &mut self.next else { return false };
        for _ in 0..PRUNE_KEYS {
            let Some(&number) = next.tuples.front() else {
                if next.built.filter.lay(PRUNE_KEYS) {
                    return false;
                }
                self.shown = self.next.take().map(|next| next.built);
                return true;
            };
            let mask = &masks[usize::from(number)];
            if next.at < mask.keys.places() {
                next.built.take(mask, &mask.keys.get(next.at), true);
                next.at += 1;
            } else {
                next.tuples.pop_front();
                next.at = 0;
            }
        }
        false
    }
}
