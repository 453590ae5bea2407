//! The filter of a tuple space and its replacement, for the writer.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{MaskSource, MaskView, SharedSlots};
use crate::limits::{
    ADDED_IDLE_MIN, ADDED_MIN, FILTER_ENTRIES_MIN, FILTER_SLOTS_MIN, JOIN_PLACES, NEW_IDLE_MIN,
    NEW_MIN, REST_MIN, SETS_SPARE, STEP_SPANS, TABLES_LIMIT,
};
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, Joined, Joining, Progress, Span};
use crate::sync::{Acquire, Release};

/// The slot of a mask that has none.
const NONE: u16 = u16::MAX;

const _: () = assert!(TABLES_LIMIT < NONE as usize, "no slot has this number");

/// When the filter is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// With an operation of the user: only what pays now.
    Operation,
    /// In idle time: all that makes look-ups cheaper.
    Idle,
}

/// How far the entries of a mask were visited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryCursor {
    /// The number of the array that was visited last, if the entries are in more than one.
    pub array: u32,
    /// The next place.
    pub at: usize,
}

/// The filter of a tuple space, and its replacement: the writing end.
#[derive(Debug)]
pub struct MaskFilter<const F: usize, S> {
    fields: [Bits; F],
    shown: Option<Built<F, S>>,
    next: Option<Building<F, S>>,
    /// Whether there was no memory for a filter.
    pub(super) is_refused: bool,
}

/// A filter with the slots of masks.
#[derive(Debug)]
struct Built<const F: usize, S> {
    filter: Filter<F>,
    slots: Arc<SharedSlots<F, S>>,
    /// The slot of each mask, by its number.
    by_number: Vec<u16>,
    /// Slots in use, which includes those of removed masks; a slot is never reused.
    used: usize,
    /// Slots of removed masks.
    retired: usize,
    /// Whether a mask found no free slot.
    is_full: bool,
    /// Additions and lowered bounds so far; the build counts the entries that it visited.
    changes: usize,
    /// Additions that changed the filter; during the build, all of them.
    new: usize,
    /// Entries that existed when the build began.
    begun_with: usize,
    /// The number of new entries at the last step, and the steps since it changed.
    new_before: usize,
    rested: usize,
    /// The intersections of its sets, and their replacement.
    joined: Option<Arc<Joined<F>>>,
    joining: Option<Joining<F>>,
    /// Number of sets when their intersections were too many.
    too_many: usize,
}

/// A filter that does not have all entries yet.
#[derive(Debug)]
struct Building<const F: usize, S> {
    built: Built<F, S>,
    /// Masks whose entries are still missing, and how far those of the first were visited.
    missing: VecDeque<u16>,
    cursor: EntryCursor,
}

impl<const F: usize, S> Built<F, S> {
    /// An empty filter with slots for the existing masks, best first. `None` without memory.
    fn begin(
        fields: [Bits; F],
        source: &impl MaskSource<F, Slot = S>,
    ) -> Option<(Self, VecDeque<u16>)> {
        let mut best_first: Vec<(u64, u16)> = source.masks().collect();
        best_first.sort_unstable();
        let slots_max = (4 * best_first.len()).next_power_of_two();
        let tables_max = slots_max.clamp(FILTER_SLOTS_MIN, TABLES_LIMIT);
        let begun_with = source.entries();
        let rules_max = FILTER_ENTRIES_MIN.max(5 * begun_with);
        let config = FilterConfig { fields, tables_max, rules_max, pages: Pages::Huge };
        let filter = Filter::new(config).ok()?;
        let slots = Arc::new(SharedSlots::new(filter.reader(), tables_max));
        let mut built = Self {
            filter,
            slots,
            by_number: Vec::new(),
            used: 0,
            retired: 0,
            is_full: false,
            changes: 0,
            new: 0,
            begun_with,
            new_before: 0,
            rested: 0,
            joined: None,
            joining: None,
            too_many: 0,
        };
        let numbers: VecDeque<u16> = best_first.into_iter().map(|(_, number)| number).collect();
        for &number in &numbers {
            if let Some(slot) = source.slot(number) {
                built.ensure_slot(number, || slot);
            }
        }
        Some((built, numbers))
    }

    /// The slot of a mask, which gets the next one if it has none; `None` if all are in use.
    fn ensure_slot(&mut self, number: u16, make: impl FnOnce() -> S) -> Option<usize> {
        let at = usize::from(number);
        if self.by_number.len() <= at {
            self.by_number.resize(at + 1, NONE);
        }
        if self.by_number[at] == NONE {
            let Some(entry) = self.slots.entries.get(self.used) else {
                self.is_full = true;
                return None;
            };
            // Empty: no slot is used twice.
            let _ = entry.content.set(make());
            self.by_number[at] = self.used as u16;
            self.used += 1;
            self.slots.used.store(self.used, Release);
        }
        Some(usize::from(self.by_number[at]))
    }

    fn slot_of(&self, number: u16) -> Option<usize> {
        let slot = self.by_number.get(usize::from(number)).filter(|slot| **slot != NONE);
        slot.copied().map(usize::from)
    }

    fn has(&self, number: u16) -> bool {
        self.slot_of(number).is_some()
    }

    fn lower(&mut self, number: u16, bound: u64) {
        if let Some(slot) = self.slot_of(number) {
            self.changes += usize::from(self.slots.lower(slot, bound));
        }
    }

    /// Adds an entry, so that its packets find the mask.
    fn add(&mut self, number: u16, spans: &[Span; F], bound: u64, make: impl FnOnce() -> S) {
        if let Some(slot) = self.ensure_slot(number, make) {
            self.changes += 1;
            // Cannot fail: the filter has all slots in use.
            self.new += usize::from(self.filter.add(slot, spans) == Ok(true));
            self.slots.lower(slot, bound);
        }
    }

    /// Adds an entry to a filter that is being built: it is inserted when all are gathered.
    fn gather(&mut self, number: u16, spans: &[Span; F], bound: u64, make: impl FnOnce() -> S) {
        if let Some(slot) = self.ensure_slot(number, make) {
            (self.changes, self.new) = (self.changes + 1, self.new + 1);
            // Cannot fail: the filter has all slots in use.
            let _ = self.filter.gather(slot, spans);
            self.slots.lower(slot, bound);
        }
    }

    fn retire(&mut self, number: u16) {
        if let Some(slot) = self.slot_of(number) {
            self.by_number[usize::from(number)] = NONE;
            self.slots.entries[slot].bound.store(u64::MAX, Release);
            self.retired += 1;
        }
    }

    /// Whether new intersections would be worth their cost.
    fn wants_join(&self, pace: Pace) -> bool {
        if self.too_many > 0 && self.filter.sets_count() < 2 * self.too_many {
            return false;
        }
        let Some(joined) = &self.joined else { return true };
        let (sets, tables) = (joined.sets_count(), joined.tables());
        match pace {
            Pace::Idle => !joined.is_whole(&self.filter, self.used),
            // A few new sets are awaited.
            Pace::Operation => {
                let spare = |count: usize| count + count / 2 + SETS_SPARE;
                let many = self.filter.sets_count() > spare(sets) || self.used > spare(tables);
                many || !joined.holds(&self.filter)
            }
        }
    }

    /// Computes a few more intersections, or begins to if they are worth it. True if readers have
    /// to see the result.
    fn join(&mut self, steps: usize, pace: Pace) -> bool {
        if self.new == self.new_before {
            self.rested = self.rested.saturating_add(1);
        } else {
            (self.new_before, self.rested) = (self.new, 0);
            // Intersections of sets that change are out of date before they are complete.
            self.joining.take_if(|joining| !joining.holds(&self.filter));
        }
        let Some(joining) = &mut self.joining else {
            let rests = pace == Pace::Idle || self.rested >= REST_MIN;
            if rests && self.wants_join(pace) {
                self.joining = self.filter.join(self.used);
                if self.joining.is_none() {
                    // Its fields cannot be joined, and more sets change nothing.
                    self.too_many = usize::MAX / 2;
                }
            }
            return false;
        };
        match joining.proceed(&self.filter, JOIN_PLACES.saturating_mul(steps)) {
            Progress::Done => {
                self.joined = self.joining.take().map(|joining| Arc::new(joining.into_joined()));
                true
            }
            Progress::Refused => {
                (self.joining, self.too_many) = (None, self.filter.sets_count());
                false
            }
            Progress::Open => false,
        }
    }

    /// Whether to rebuild the filter. One whose entries came one by one is larger than one that was
    /// built from all of them. And its bounds only fall. In idle time less is enough.
    fn is_stale(&self, pace: Pace) -> bool {
        let begun_with = self.begun_with;
        let is_grown = match pace {
            Pace::Idle => {
                self.new > begun_with + begun_with / 8 + NEW_IDLE_MIN
                    || self.changes > 2 * begun_with + ADDED_IDLE_MIN
                    || self.retired > self.used / 2
            }
            Pace::Operation => {
                self.new > 4 * begun_with + NEW_MIN || self.changes > 4 * begun_with + ADDED_MIN
            }
        };
        is_grown || self.is_full
    }

    fn bytes(&self) -> usize {
        let slots = size_of_val(&*self.slots.entries) + size_of_val(&*self.slots.rest);
        self.filter.bytes() + slots + self.joined.as_ref().map_or(0, |joined| joined.bytes())
    }
}

impl<const F: usize, S> MaskFilter<F, S> {
    /// No filter yet.
    #[must_use]
    pub const fn new(fields: [Bits; F]) -> Self {
        Self { fields, shown: None, next: None, is_refused: false }
    }

    /// The filter for readers.
    #[must_use]
    pub fn view(&self) -> Option<MaskView<F, S>> {
        let view = |built: &Built<F, S>| MaskView {
            slots: Arc::clone(&built.slots),
            joined: built.joined.clone(),
        };
        self.shown.as_ref().map(view)
    }

    /// Whether readers find a mask by the filter.
    #[inline]
    #[must_use]
    pub fn has(&self, number: u16) -> bool {
        self.shown.as_ref().is_some_and(|built| built.has(number))
    }

    /// Whether there is no filter and none is being built.
    #[inline]
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.shown.is_none() && self.next.is_none()
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let next = self.next.as_ref().map(|next| &next.built);
        self.shown.iter().chain(next).map(Built::bytes).sum()
    }

    /// Prepares for a new entry of a mask; call it before readers can see its word. `make` makes
    /// the slot of a mask that has none. True if the list of masks that are always searched
    /// changes.
    pub fn add(
        &mut self,
        number: u16,
        spans: &[Span; F],
        bound: u64,
        make: impl Fn() -> S,
    ) -> bool {
        if let Some(next) = &mut self.next {
            next.built.gather(number, spans, bound, &make);
        }
        let Some(shown) = &mut self.shown else { return false };
        let had = shown.has(number);
        shown.add(number, spans, bound, &make);
        shown.has(number) != had
    }

    /// Prepares for a new word of an entry that is there.
    #[inline]
    pub fn lower(&mut self, number: u16, bound: u64) {
        if let Some(next) = &mut self.next {
            next.built.lower(number, bound);
        }
        if let Some(shown) = &mut self.shown {
            shown.lower(number, bound);
        }
    }

    /// Removes a mask, which has no entry any more.
    pub fn retire(&mut self, number: u16) {
        self.shown.iter_mut().for_each(|built| built.retire(number));
        if let Some(next) = &mut self.next {
            next.built.retire(number);
            if next.missing.front() == Some(&number) {
                next.cursor = EntryCursor::default();
            }
            next.missing.retain(|missing| *missing != number);
        }
    }

    /// Allows another try to allocate memory.
    pub fn allow_retry(&mut self) {
        self.is_refused = false;
    }

    /// Builds the filter or its intersections `steps` steps further, or begins to if that is worth
    /// it. True if readers have to see another filter. An entry that was added has to be stored
    /// before this is called again.
    #[inline]
    pub fn advance(
        &mut self,
        source: &mut impl MaskSource<F, Slot = S>,
        steps: usize,
        pace: Pace,
    ) -> bool {
        match (&self.next, &mut self.shown) {
            (Some(_), _) => return self.build(source, steps),
            (None, Some(shown)) if self.is_refused || !shown.is_stale(pace) => {
                return shown.join(steps, pace);
            }
            _ if self.is_refused => {}
            _ => self.begin(source),
        }
        false
    }

    /// Whether a filter is being built, should be rebuilt, or intersections have to be computed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let joins = |built: &Built<F, S>| {
            built.joining.is_some()
                || built.is_stale(Pace::Idle) && !self.is_refused
                || built.wants_join(Pace::Idle)
        };
        self.next.is_some() || self.shown.as_ref().is_some_and(joins)
    }

    /// Without memory, the space goes on without a new filter.
    #[cold]
    fn begin(&mut self, source: &impl MaskSource<F, Slot = S>) {
        let begun = Built::begin(self.fields, source);
        self.is_refused = begun.is_none();
        self.next = begun.map(|(built, missing)| Building {
            built,
            missing,
            cursor: EntryCursor::default(),
        });
    }

    #[cold]
    fn build(&mut self, source: &mut impl MaskSource<F, Slot = S>, steps: usize) -> bool {
        let Some(Building { built, missing, cursor }) = &mut self.next else { return false };
        for _ in 0..steps {
            let Some(&number) = missing.front() else {
                if built.filter.insert_gathered(STEP_SPANS) {
                    continue;
                }
                for (number, slot) in (0..).zip(&built.by_number) {
                    if *slot != NONE {
                        let entry = &built.slots.entries[usize::from(*slot)];
                        source.raise(number, entry.bound.load(Acquire));
                    }
                }
                self.shown = self.next.take().map(|next| next.built);
                return true;
            };
            let slot = built.slot_of(number);
            let mut visit = |spans: &[Span; F], bound| {
                if let Some(slot) = slot {
                    (built.changes, built.new) = (built.changes + 1, built.new + 1);
                    // Cannot fail: the filter has all slots in use.
                    let _ = built.filter.gather(slot, spans);
                    built.slots.lower(slot, bound);
                }
            };
            if !source.visit(number, cursor, &mut visit) {
                missing.pop_front();
                *cursor = EntryCursor::default();
            }
        }
        false
    }
}
