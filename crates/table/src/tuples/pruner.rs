//! The pruning filter of a tuple space, for its writer.
//!
//! A filter only grows. Where three times as many entries have come as there were, it is made anew
//! from those that are left, some with each operation, and shown when it is complete. The bounds of
//! masks rise then to what the entries that are left have.

use super::writer::Mask;
use super::{F, Fields, Filters, WIDTHS};
use crate::error::FilterError;
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, FilterReader, Span};

/// With fewer masks there is no filter: all of them are looked up.
const MASKS_MIN: usize = 3;

/// Numbers of masks that filters are made for: the fewer, the less a look-up costs. One that does
/// not know a number is given up, and keys are looked up under all masks until there is another.
const NUMBERS: [usize; 5] = [64, 128, 256, 512, TABLES_LIMIT];

/// Entries that may come before a filter is made anew, at least.
const SPARE_MIN: usize = if cfg!(miri) { 16 } else { 4_096 };

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

type Made = Filters<Filter<1>, Filter<F>>;

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
    fn new(fields: &Fields, numbers: usize, entries: usize) -> Result<Self, FilterError> {
        Ok(match fields.only() {
            Some(_) => Self::One(Filter::new(config([Bits::ThirtyTwo], numbers, entries))?),
            None => Self::All(Filter::new(config(WIDTHS, numbers, entries))?),
        })
    }

    /// Has an entry found by its keys; an error says that it does not know the number.
    fn add(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        match self {
            Self::One(filter) => filter.add(number, &[spans[0]]),
            Self::All(filter) => filter.add(number, spans),
        }
    }

    /// The same, when all entries are there.
    fn gather(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        match self {
            Self::One(filter) => filter.gather(number, &[spans[0]]),
            Self::All(filter) => filter.gather(number, spans),
        }
    }

    /// Lays some spans out; whether there may be more.
    fn lay(&mut self, spans: usize) -> bool {
        match self {
            Self::One(filter) => filter.lay(spans),
            Self::All(filter) => filter.lay(spans),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::One(filter) => filter.bytes(),
            Self::All(filter) => filter.bytes(),
        }
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
    pub(super) fn reader(&self) -> Option<Filters<FilterReader<1>, FilterReader<F>>> {
        self.shown.as_ref().map(|made| match made {
            Filters::One(filter) => Filters::One(filter.reader()),
            Filters::All(filter) => Filters::All(filter.reader()),
        })
    }

    /// Has an entry found by its keys, before they can see it. True where readers are to see that
    /// there is no filter any more.
    pub(super) fn take(&mut self, number: usize, key: &[u64], mask: &[u64]) -> bool {
        if self.shown.is_none() && self.next.is_none() {
            return false;
        }
        self.taken += 1;
        let spans = self.fields.spans(key, mask);
        if self.next.as_mut().is_some_and(|next| next.filter.gather(number, &spans).is_err()) {
            self.next = None;
        }
        let is_given_up =
            self.shown.as_mut().is_some_and(|shown| shown.add(number, &spans).is_err());
        if is_given_up {
            self.shown = None;
        }
        is_given_up
    }

    /// Says that there is to be a word with this bound.
    #[inline]
    pub(super) fn lower(&mut self, number: usize, bound: u64) {
        if let Some(next) = &mut self.next {
            next.lower(number, bound);
        }
    }

    /// Whether a filter is being made.
    pub(super) fn is_busy(&self) -> bool {
        self.next.is_some()
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
        steps: usize,
        bound_of: &impl Fn(u64, u64) -> u64,
    ) -> bool {
        let Some(next) = &mut self.next else {
            let is_wanted = match &self.shown {
                None => live_masks >= MASKS_MIN,
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
        let fits = |numbers: &usize| 2 * masks.len() <= *numbers;
        let numbers = NUMBERS.into_iter().find(fits).unwrap_or(TABLES_LIMIT);
        let Ok(filter) = Made::new(&self.fields, numbers, 5 * live + 2 * SPARE_MIN) else {
            self.is_refused = true;
            return;
        };
        (self.taken, self.made_with) = (0, live);
        let there = (0..masks.len()).filter(|number| masks[*number].is_some()).collect();
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
