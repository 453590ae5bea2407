//! The pruning filter of a tuple space, for its writer.
//!
//! A filter knows masks by their *slots*: the best ones have the first slots when it is begun, and
//! masks that come later those behind. So readers go through the slots that the filter names in
//! their order, until none behind can have a better word.
//!
//! A filter only grows. Where three times as many entries have come as there were, it is made anew
//! from those that are left, some with each operation, and shown when it is complete; in idle time
//! sooner. The bounds of masks rise then to what the entries that are left have.

use std::sync::Arc;

use super::reader::Slots;
use super::writer::Mask;
use super::{F, Fields, Filters, WIDTHS};
use crate::error::FilterError;
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, Span};
use crate::sync::{Acquire, AtomicU64, Release};

/// With fewer masks there is no filter: all of them are looked up.
const MASKS_MIN: usize = 3;

/// Slots that filters are made with: the fewer, the less a look-up costs. One without a slot for a
/// mask is given up, and keys are looked up under all masks until there is another.
const SLOTS: [usize; 5] = [64, 128, 256, 512, TABLES_LIMIT];

/// Entries that may come before a filter is made anew, at least.
const SPARE_MIN: usize = if cfg!(miri) { 16 } else { 4_096 };

/// Entries that may come before it is made anew in idle time, at least.
const SPARE_IDLE: usize = SPARE_MIN / 16;

/// Groups of entries that a filter takes in with a step, and spans that it lays out.
const STEP_GROUPS: usize = 2;
const STEP_SPANS: usize = 16;

/// The filter that readers see, and the one that is to take its place.
#[derive(Debug)]
pub(super) struct Pruner {
    fields: Fields,
    shown: Option<Made>,
    next: Option<Making>,
    /// Entries that came since the filter was begun, and how many there were then.
    taken: usize,
    made_with: usize,
    /// There was no memory for one.
    is_refused: bool,
}

/// A mask without a slot.
const NONE: u16 = u16::MAX;

/// A filter, with the slots of masks.
#[derive(Debug)]
struct Made {
    filter: Filters<Filter<1>, Filter<F>>,
    /// Number of the mask of each slot that is given away.
    numbers: Vec<u16>,
    /// Slot of each mask, by its number.
    slots: Vec<u16>,
    /// No word of a slot or of one behind it has a smaller bound.
    rest: Arc<[AtomicU64]>,
}

/// A filter that does not have all entries yet.
#[derive(Debug)]
struct Making {
    filter: Made,
    /// Masks whose entries it does not have yet; the last is under way:
    masks: Vec<usize>,
    /// these are the array of its table that was begun, and the next group of that.
    array: u32,
    group: usize,
    /// Bounds of the words that it has seen, by mask.
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

    /// The slot of a mask, which gets one where it has none; `None` where there are no more.
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

    /// Says that there is to be a word with this bound.
    fn lower(&self, number: usize, bound: u64) {
        let Some(slot) = self.slots.get(number).filter(|slot| **slot != NONE) else { return };
        let upto = self.rest[..=usize::from(*slot)].iter().rev();
        let above = upto.take_while(|rest| rest.load(Acquire) > bound);
        above.for_each(|rest| rest.store(bound, Release));
    }

    /// Has an entry found by its keys; an error says that there is no slot for its mask.
    fn add(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        let slot = self.slot(number).unwrap_or(usize::MAX);
        match &mut self.filter {
            Filters::One(filter) => filter.add(slot, &[spans[0]]),
            Filters::All(filter) => filter.add(slot, spans),
        }
    }

    /// The same, when all entries are there.
    fn gather(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        let slot = self.slot(number).unwrap_or(usize::MAX);
        match &mut self.filter {
            Filters::One(filter) => filter.gather(slot, &[spans[0]]),
            Filters::All(filter) => filter.gather(slot, spans),
        }
    }

    /// Lays some spans out; whether there may be more.
    fn lay(&mut self, spans: usize) -> bool {
        match &mut self.filter {
            Filters::One(filter) => filter.lay(spans),
            Filters::All(filter) => filter.lay(spans),
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

    /// What readers are to have.
    pub(super) fn reader(&self) -> Option<Slots> {
        let made = self.shown.as_ref()?;
        let filter = match &made.filter {
            Filters::One(filter) => Filters::One(filter.reader()),
            Filters::All(filter) => Filters::All(filter.reader()),
        };
        Some(Slots { filter, numbers: made.numbers.clone(), rest: Arc::clone(&made.rest) })
    }

    /// Has an entry found by its keys, before they can see it; its bound is said then. True where
    /// readers are to see other slots, or that there is no filter any more.
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

    /// Says that there is to be a word with this bound, of a mask whose entries are taken.
    #[inline]
    pub(super) fn lower(&mut self, number: usize, bound: u64) {
        if let Some(shown) = &self.shown {
            shown.lower(number, bound);
        }
        if let Some(next) = &mut self.next {
            next.lower(number, bound);
        }
    }

    /// Whether the filter is better made anew where nothing else is to be done.
    fn is_stale(&self) -> bool {
        self.shown.is_some() && self.taken > self.made_with / 8 + SPARE_IDLE
    }

    /// Whether a filter is being made, or is to be in idle time.
    pub(super) fn is_busy(&self) -> bool {
        self.next.is_some() || self.is_stale() && !self.is_refused
    }

    /// Lets it ask for memory again.
    pub(super) fn forgive(&mut self) {
        self.is_refused = false;
    }

    /// Takes the making of a filter so many steps further, or begins it where so many masks and
    /// entries want it. True where it is complete, and readers are to see it. `bound_of` is as of
    /// `TupleSpace::tend`.
    pub(super) fn tend<const W: usize>(
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
            // As many as there are have room.
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

    /// Takes some entries in, or lays some spans out; whether that is all.
    fn step<const W: usize>(
        &mut self,
        masks: &mut [Option<Mask<W>>],
        fields: &Fields,
        bound_of: &impl Fn(u64, u64) -> u64,
    ) -> bool {
        let Some(&number) = self.masks.last() else { return !self.filter.lay(STEP_SPANS) };
        let Some(mask) = masks.get_mut(number).and_then(Option::as_mut) else {
            self.next_mask();
            return false;
        };
        // While a table grows its entries are in two places.
        let Some((array, groups)) = mask.entries.array() else {
            mask.entries.advance(STEP_GROUPS);
            return false;
        };
        if array != self.array {
            (self.array, self.group) = (array, 0);
        }
        for _ in 0..STEP_GROUPS {
            for (key, word) in mask.entries.group(self.group) {
                // It knows the number, or it would have been given up.
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
