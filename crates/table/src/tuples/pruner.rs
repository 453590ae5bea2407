//! The pruning filter of a tuple space, for its writer.
//!
//! A filter numbers masks by *slots*. When its build begins, the best masks get the first slots;
//! later masks get the next ones. So readers visit the slots that the filter selects in order,
//! until no later slot can have a better word.
//!
//! A filter only grows. When three times as many entries were added as it began with, it is rebuilt
//! from the existing entries, a few with each operation, and shown when it is complete. In idle
//! time it is rebuilt sooner. The bounds of masks then rise to those of the existing entries.

use std::sync::Arc;

use super::reader::Slots;
use super::writer::Mask;
use super::{F, Fields, Filters, WIDTHS};
use crate::error::FilterError;
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, Span};
use crate::sync::{Acquire, AtomicU64, Release};

/// With fewer masks there is no filter, and all masks are searched.
const MASKS_MIN: usize = 3;

/// Slots that filters have: the fewer, the less a look-up costs. A filter without a slot for a new
/// mask is dropped, and all masks are searched until the next filter is complete.
const SLOTS: [usize; 5] = [64, 128, 256, 512, TABLES_LIMIT];

/// The least number of added entries before a filter is rebuilt.
const SPARE_MIN: usize = if cfg!(miri) { 16 } else { 4_096 };

/// The least number of added entries before a filter is rebuilt in idle time.
const SPARE_IDLE: usize = SPARE_MIN / 16;

/// Groups of entries, and spans, that one step adds to a filter.
const STEP_GROUPS: usize = 2;
const STEP_SPANS: usize = 16;

/// The filter that readers see, and its replacement.
#[derive(Debug)]
pub(super) struct Pruner {
    fields: Fields,
    shown: Option<Made>,
    next: Option<Making>,
    /// Entries that were added since the build began, and entries that existed then.
    taken: usize,
    made_with: usize,
    /// Whether there was no memory for a filter.
    is_refused: bool,
}

/// A mask without a slot.
const NONE: u16 = u16::MAX;

/// A filter, with the slots of masks.
#[derive(Debug)]
struct Made {
    filter: Filters<Filter<1>, Filter<F>>,
    /// The number of the mask of each used slot.
    numbers: Vec<u16>,
    /// The slot of each mask, by its number.
    slots: Vec<u16>,
    /// No word of this slot or of a later one has a smaller bound.
    rest: Arc<[AtomicU64]>,
}

/// A filter that does not have all entries yet.
#[derive(Debug)]
struct Making {
    filter: Made,
    /// Masks whose entries are missing; the last one is in progress.
    masks: Vec<usize>,
    /// The array of its table that was begun, and the next group of it.
    array: u32,
    group: usize,
    /// Bounds of the words that were visited, by mask.
    bounds: Vec<u64>,
}

impl Made {
    fn new(fields: &Fields, slots_max: usize, entries: usize) -> Result<Self, FilterError> {
        let filter = match fields.only() {
            Some(_) => Filters::One(Filter::new(config([Bits::ThirtyTwo], slots_max, entries))?),
            None => Filters::All(Filter::new(config(WIDTHS, slots_max, entries))?),
        };
        let rest = (0..slots_max).map(|_| AtomicU64::new(u64::MAX)).collect();
        Ok(Self { filter, numbers: Vec::new(), slots: Vec::new(), rest })
    }

    /// The slot of a mask, which gets the next one if it has none; `None` if no slot is left.
    fn slot(&mut self, number: usize) -> Option<usize> {
        if self.slots.len() <= number {
            self.slots.resize(number + 1, NONE);
        }
        if self.slots[number] == NONE {
            if self.numbers.len() >= self.rest.len() {
                return None;
            }
            self.slots[number] = self.numbers.len() as u16;
            self.numbers.push(number as u16);
        }
        Some(usize::from(self.slots[number]))
    }

    /// Lowers the bounds of a mask's slot and of those before it, for a new word.
    fn lower(&self, number: usize, bound: u64) {
        let Some(slot) = self.slots.get(number).filter(|slot| **slot != NONE) else { return };
        let upto = self.rest[..=usize::from(*slot)].iter().rev();
        let above = upto.take_while(|rest| rest.load(Acquire) > bound);
        above.for_each(|rest| rest.store(bound, Release));
    }

    /// Adds an entry; an error says that there is no slot for its mask.
    fn add(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        let slot = self.slot(number).unwrap_or(usize::MAX);
        match &mut self.filter {
            Filters::One(filter) => filter.add(slot, &[spans[0]]),
            Filters::All(filter) => filter.add(slot, spans),
        }
    }

    /// Gathers an entry, to be inserted when all entries are gathered.
    fn gather(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        let slot = self.slot(number).unwrap_or(usize::MAX);
        match &mut self.filter {
            Filters::One(filter) => filter.gather(slot, &[spans[0]]),
            Filters::All(filter) => filter.gather(slot, spans),
        }
    }

    /// Inserts some gathered spans; true if there may be more.
    fn insert_gathered(&mut self, spans: usize) -> bool {
        match &mut self.filter {
            Filters::One(filter) => filter.insert_gathered(spans),
            Filters::All(filter) => filter.insert_gathered(spans),
        }
    }

    fn bytes(&self) -> usize {
        let filter = match &self.filter {
            Filters::One(filter) => filter.bytes(),
            Filters::All(filter) => filter.bytes(),
        };
        filter + size_of_val(&*self.rest)
    }
}

fn config<const N: usize>(fields: [Bits; N], numbers: usize, entries: usize) -> FilterConfig<N> {
    FilterConfig { fields, tables_max: numbers, rules_max: entries, pages: Pages::Huge }
}

impl Pruner {
    pub(super) fn new(fields: Fields) -> Self {
        let (taken, made_with) = (0, 0);
        Self { fields, shown: None, next: None, taken, made_with, is_refused: false }
    }

    /// The filter and its slots, for readers.
    pub(super) fn reader(&self) -> Option<Slots> {
        let made = self.shown.as_ref()?;
        let filter = match &made.filter {
            Filters::One(filter) => Filters::One(filter.reader()),
            Filters::All(filter) => Filters::All(filter.reader()),
        };
        Some(Slots { filter, numbers: made.numbers.clone(), rest: Arc::clone(&made.rest) })
    }

    /// Adds an entry, before readers can see it; its bound is lowered afterwards. True if readers
    /// have to see a new slot, or that the filter was dropped.
    pub(super) fn take(&mut self, number: usize, key: &[u64], mask: &[u64]) -> bool {
        if self.shown.is_none() && self.next.is_none() {
            return false;
        }
        self.taken += 1;
        let spans = self.fields.spans(key, mask);
        if self.next.as_mut().is_some_and(|next| next.filter.gather(number, &spans).is_err()) {
            self.next = None;
        }
        let Some(shown) = &mut self.shown else { return false };
        let slots = shown.numbers.len();
        if shown.add(number, &spans).is_err() {
            self.shown = None;
            return true;
        }
        shown.numbers.len() > slots
    }

    /// Lowers the bounds of a mask for a new word, after its entry was added.
    #[inline]
    pub(super) fn lower(&mut self, number: usize, bound: u64) {
        if let Some(shown) = &self.shown {
            shown.lower(number, bound);
        }
        if let Some(next) = &mut self.next {
            next.lower(number, bound);
        }
    }

    /// Whether an idle control thread should rebuild the filter.
    fn is_stale(&self) -> bool {
        self.shown.is_some() && self.taken > self.made_with / 8 + SPARE_IDLE
    }

    /// Whether a filter is being built, or should be in idle time.
    pub(super) fn is_busy(&self) -> bool {
        self.next.is_some() || self.is_stale() && !self.is_refused
    }

    /// Allows another try to allocate memory.
    pub(super) fn allow_retry(&mut self) {
        self.is_refused = false;
    }

    /// Builds the filter `steps` steps further, or begins to if the number of masks and entries
    /// requires it. True if the filter is complete and readers have to see it. `bound_of` is that
    /// of `TupleSpace::advance_filter`.
    pub(super) fn advance<const W: usize>(
        &mut self,
        masks: &mut [Option<Mask<W>>],
        (live_masks, live): (usize, usize),
        (steps, is_idle): (usize, bool),
        bound_of: &impl Fn(u64, u64) -> u64,
    ) -> bool {
        let Some(next) = &mut self.next else {
            let is_wanted = match &self.shown {
                None => live_masks >= MASKS_MIN,
                Some(_) if is_idle => self.is_stale(),
                Some(_) => self.taken > 3 * self.made_with + SPARE_MIN,
            };
            if is_wanted && !self.is_refused && self.fields.has_one() {
                self.begin(masks, live);
            }
            return false;
        };
        let is_complete = (0..steps).any(|_| next.step(masks, &self.fields, bound_of));
        if is_complete && let Some(next) = self.next.take() {
            for (mask, bound) in masks.iter().zip(&next.bounds) {
                mask.iter().for_each(|mask| mask.shown.raise(*bound));
            }
            self.shown = Some(next.filter);
        }
        is_complete
    }

    #[cold]
    fn begin<const W: usize>(&mut self, masks: &[Option<Mask<W>>], live: usize) {
        let mut best_first: Vec<(u64, usize)> = (0..)
            .zip(masks)
            .filter_map(|(number, mask)| Some((mask.as_ref()?.shown.bound(), number)))
            .collect();
        best_first.sort_unstable();
        let fits = |slots: &usize| 2 * best_first.len() <= *slots;
        let slots_max = SLOTS.into_iter().find(fits).unwrap_or(TABLES_LIMIT);
        let Ok(mut filter) = Made::new(&self.fields, slots_max, 5 * live + 2 * SPARE_MIN) else {
            self.is_refused = true;
            return;
        };
        (self.taken, self.made_with) = (0, live);
        let there: Vec<usize> = best_first.into_iter().map(|(_, number)| number).collect();
        for number in &there {
            // There are more slots than masks.
            let _ = filter.slot(*number);
        }
        let bounds = vec![u64::MAX; masks.len()];
        self.next = Some(Making { filter, masks: there, array: 0, group: 0, bounds });
    }

    /// Memory of the filters, bytes.
    pub(super) fn bytes(&self) -> usize {
        let next = self.next.as_ref().map(|next| &next.filter);
        self.shown.iter().chain(next).map(Made::bytes).sum()
    }
}

impl Making {
    fn lower(&mut self, number: usize, bound: u64) {
        if self.bounds.len() <= number {
            self.bounds.resize(number + 1, u64::MAX);
        }
        self.bounds[number] = self.bounds[number].min(bound);
        self.filter.lower(number, bound);
    }

    /// Gathers some entries, or inserts some spans; true if the filter is complete.
    fn step<const W: usize>(
        &mut self,
        masks: &mut [Option<Mask<W>>],
        fields: &Fields,
        bound_of: &impl Fn(u64, u64) -> u64,
    ) -> bool {
        let Some(&number) = self.masks.last() else {
            return !self.filter.insert_gathered(STEP_SPANS);
        };
        let Some(mask) = masks.get_mut(number).and_then(Option::as_mut) else {
            self.next_mask();
            return false;
        };
        // While a table grows, its entries are in two arrays.
        let Some((array, groups)) = mask.entries.array() else {
            mask.entries.advance(STEP_GROUPS);
            return false;
        };
        if array != self.array {
            (self.array, self.group) = (array, 0);
        }
        for _ in 0..STEP_GROUPS {
            for (key, word) in mask.entries.group(self.group) {
                // Cannot fail: a filter without room for the number would have been dropped.
                let _ = self.filter.gather(number, &fields.spans(&key, &mask.mask));
                self.lower(number, bound_of(word, mask.shown.bound()));
            }
            self.group += 1;
            if self.group >= groups {
                self.next_mask();
                break;
            }
        }
        false
    }

    fn next_mask(&mut self) {
        self.masks.pop();
        (self.array, self.group) = (0, 0);
    }
}
