//! The pruning filter of a tuple space, for its writer.
//!
//! A filter only grows. When three times as many entries were added as it began with, it is rebuilt
//! from the existing entries, a few with each operation, and shown when it is complete. The bounds
//! of masks then rise to those of the existing entries.

use super::writer::Mask;
use super::{F, Fields, Filters, WIDTHS};
use crate::error::FilterError;
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Bits, Filter, FilterConfig, FilterReader, Span};

/// With fewer masks there is no filter, and all masks are searched.
const MASKS_MIN: usize = 3;

/// Numbers of masks that filters have room for: the fewer, the less a look-up costs. A filter
/// without room for a new number is dropped, and all masks are searched until the next filter is
/// complete.
const NUMBERS: [usize; 5] = [64, 128, 256, 512, TABLES_LIMIT];

/// The least number of added entries before a filter is rebuilt.
const SPARE_MIN: usize = if cfg!(miri) { 16 } else { 4_096 };

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

type Made = Filters<Filter<1>, Filter<F>>;

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
    fn new(fields: &Fields, numbers: usize, entries: usize) -> Result<Self, FilterError> {
        Ok(match fields.only() {
            Some(_) => Self::One(Filter::new(config([Bits::ThirtyTwo], numbers, entries))?),
            None => Self::All(Filter::new(config(WIDTHS, numbers, entries))?),
        })
    }

    /// Adds an entry; an error says that the filter has no room for the number.
    fn add(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        match self {
            Self::One(filter) => filter.add(number, &[spans[0]]),
            Self::All(filter) => filter.add(number, spans),
        }
    }

    /// Gathers an entry, to be inserted when all entries are gathered.
    fn gather(&mut self, number: usize, spans: &[Span; F]) -> Result<(), FilterError> {
        match self {
            Self::One(filter) => filter.gather(number, &[spans[0]]),
            Self::All(filter) => filter.gather(number, spans),
        }
    }

    /// Inserts some gathered spans; true if there may be more.
    fn insert_gathered(&mut self, spans: usize) -> bool {
        match self {
            Self::One(filter) => filter.insert_gathered(spans),
            Self::All(filter) => filter.insert_gathered(spans),
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

    /// The filter for readers.
    pub(super) fn reader(&self) -> Option<Filters<FilterReader<1>, FilterReader<F>>> {
        self.shown.as_ref().map(|made| match made {
            Filters::One(filter) => Filters::One(filter.reader()),
            Filters::All(filter) => Filters::All(filter.reader()),
        })
    }

    /// Adds an entry, before readers can see it. True if readers have to see that the filter was
    /// dropped.
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

    /// Lowers the bound of a mask for a new word.
    #[inline]
    pub(super) fn lower(&mut self, number: usize, bound: u64) {
        if let Some(next) = &mut self.next {
            next.lower(number, bound);
        }
    }

    /// Whether a filter is being built.
    pub(super) fn is_busy(&self) -> bool {
        self.next.is_some()
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
