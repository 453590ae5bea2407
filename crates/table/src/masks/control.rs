//! The filter of a tuple space and its replacement, for the writer.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{MaskSource, MaskView, SharedSlots};
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, Joined, Joining, Progress, Span};
use crate::sync::{Acquire, Release};

/// The least number of entries that a new filter has room for.
const ENTRIES_MIN: usize = if cfg!(miri) { 1 << 6 } else { 1 << 15 };

/// The least number of slots of a filter: the fewer, the less a look-up costs.
const SLOTS_MIN: usize = 256;

/// The least number of new entries for which a filter is rebuilt.
const SPARE_NEW: usize = if cfg!(miri) { 16 } else { 1 << 12 };

/// The least number of added entries, new or not, for which a filter is rebuilt.
const SPARE_ADDED: usize = if cfg!(miri) { 64 } else { 1 << 16 };

/// The least number of new entries, sets or slots for which work is done again in idle time.
const SPARE_MIN: usize = 16;

/// Spans that one step of a build inserts.
const STEP_SPANS: usize = 8;

/// Places of a filter that one step visits to intersect its sets; each set counts as sixteen
/// places. Takes a microsecond or two.
const JOIN_PLACES: usize = 256;

/// Operations without a new entry after which a filter rests.
const REST_MIN: usize = 64;

/// The slot of a mask that has none.
const NONE: u16 = u16::MAX;

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
    is_refused: bool,
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
    retired: usize,
    /// Entries that were added, with those that existed when the build began, and those of them
    /// that the filter had not had before.
    added: usize,
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
        let tables_max = slots_max.clamp(SLOTS_MIN, TABLES_LIMIT);
        let begun_with = source.entries();
        let rules_max = ENTRIES_MIN.max(5 * begun_with);
        let config = FilterConfig { fields, tables_max, rules_max, pages: Pages::Huge };
        let filter = Filter::new(config).ok()?;
        let slots = Arc::new(SharedSlots::new(filter.reader(), tables_max));
        let mut built = Self {
            filter,
            slots,
            by_number: Vec::new(),
            used: 0,
            retired: 0,
            added: 0,
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
                built.slot(number, || slot);
            }
        }
        Some((built, numbers))
    }

    /// The slot of a mask, which gets the next one if it has none; `None` if all are in use.
    fn slot(&mut self, number: u16, make: impl FnOnce() -> S) -> Option<usize> {
        let at = usize::from(number);
        if self.by_number.len() <= at {
            self.by_number.resize(at + 1, NONE);
        }
        if self.by_number[at] == NONE {
            let entry = self.slots.entries.get(self.used)?;
            // Empty: no slot is used twice.
            let _ = entry.slot.set(make());
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

    fn lower(&self, number: u16, bound: u64) {
        if let Some(slot) = self.slot_of(number) {
            self.slots.lower(slot, bound);
        }
    }

    /// Adds an entry, so that its packets find the mask; if `later`, when all entries are gathered.
    fn add(&mut self, number: u16, spans: &[Span; F], later: bool, make: impl FnOnce() -> S) {
        if let Some(slot) = self.slot(number, make) {
            self.added += 1;
            // Cannot fail: the filter has all slots in use.
            let is_new = match later {
                true => self.filter.gather(slot, spans).is_ok(),
                false => self.filter.add(slot, spans) == Ok(true),
            };
            self.new += usize::from(is_new);
        }
    }

    fn retire(&mut self, number: u16) {
        if let Some(slot) = self.slot_of(number) {
            self.by_number[usize::from(number)] = NONE;
            self.slots.entries[slot].bound.store(u64::MAX, Release);
            self.retired += 1;
        }
    }

    /// Whether new intersections would be worth their cost. `idle` is true in idle time; otherwise
    /// a few new sets are awaited.
    fn wants_join(&self, idle: bool) -> bool {
        if self.too_many > 0 && self.filter.sets_count() < 2 * self.too_many {
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

    /// Computes a few more intersections, or begins to if they are worth it. True if readers have
    /// to see the result.
    fn join(&mut self, steps: usize, idle: bool) -> bool {
        if self.new == self.new_before {
            self.rested = self.rested.saturating_add(1);
        } else {
            (self.new_before, self.rested) = (self.new, 0);
            // Intersections of sets that change are out of date before they are complete.
            self.joining.take_if(|joining| !joining.holds(&self.filter));
        }
        let Some(joining) = &mut self.joining else {
            if (idle || self.rested >= REST_MIN) && self.wants_join(idle) {
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
    /// built from all of them. And its bounds only fall, whether entries are new or not. `idle` is
    /// true in idle time, when less is enough.
    fn is_stale(&self, source: &impl MaskSource<F, Slot = S>, idle: bool) -> bool {
        let begun_with = self.begun_with;
        let is_grown = match idle {
            true => {
                self.new > begun_with + begun_with / 8 + SPARE_MIN
                    || self.added > 2 * begun_with + SPARE_ADDED / 16
                    || self.retired > self.used / 2 + SPARE_MIN
            }
            false => {
                self.new > 4 * begun_with + SPARE_NEW || self.added > 4 * begun_with + SPARE_ADDED
            }
        };
        let is_full = self.used == self.slots.entries.len();
        is_grown || is_full && source.masks().any(|(_, number)| !self.has(number))
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
            next.built.add(number, spans, true, &make);
            next.built.lower(number, bound);
        }
        let Some(shown) = &mut self.shown else { return false };
        let had = shown.has(number);
        shown.add(number, spans, false, &make);
        shown.lower(number, bound);
        shown.has(number) != had
    }

    /// Prepares for a new word of an entry that is there.
    #[inline]
    pub fn lower(&mut self, number: u16, bound: u64) {
        if let Some(next) = &self.next {
            next.built.lower(number, bound);
        }
        if let Some(shown) = &self.shown {
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
    /// it. True if readers have to see another filter. `wanted` says whether the space needs a
    /// filter; `idle` is true in idle time.
    #[inline]
    pub fn advance(
        &mut self,
        source: &mut impl MaskSource<F, Slot = S>,
        wanted: bool,
        steps: usize,
        idle: bool,
    ) -> bool {
        match (&self.next, &mut self.shown) {
            (Some(_), _) => return self.build(source, steps),
            (None, Some(shown)) if !shown.is_stale(source, idle) => return shown.join(steps, idle),
            (None, None) if !wanted => {}
            _ if self.is_refused => {}
            _ => self.begin(source),
        }
        false
    }

    /// Whether a filter is being built, should be rebuilt, or intersections have to be computed.
    pub fn is_busy(&self, source: &impl MaskSource<F, Slot = S>) -> bool {
        let joins = |built: &Built<F, S>| {
            built.joining.is_some()
                || built.is_stale(source, true) && !self.is_refused
                || built.wants_join(true)
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
                    (built.added, built.new) = (built.added + 1, built.new + 1);
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
