//! The pruning filter of a ternary table, for its writer.
//!
//! A filter only grows. Where three times as many rules have come as there were, it is made anew
//! from those that are left, some with each operation, and shown when it is complete.

use super::Field;
use super::writer::Mask;
use crate::limits::TABLES_LIMIT;
use crate::memory::Pages;
use crate::prune::{Filter, FilterConfig, FilterReader};

/// Fewer masks are all asked.
const MASKS_MIN: usize = 3;

/// Numbers of masks that filters are made for: the fewer, the less a look-up costs. One that does
/// not know a number is given up, and all masks are asked until there is another.
const NUMBERS: [usize; 5] = [64, 128, 256, 512, TABLES_LIMIT];

/// Rules that may come before a filter is made anew, at least.
const SPARE_MIN: usize = if cfg!(miri) { 16 } else { 4_096 };

/// Groups of rules that a filter takes in with a step, and spans that it lays out.
const STEP_GROUPS: usize = 2;
const STEP_SPANS: usize = 16;

/// The filter that readers see, and the one that is to take its place.
#[derive(Debug)]
pub(super) struct Pruner<const W: usize, const F: usize> {
    fields: [Field; F],
    shown: Option<Filter<F>>,
    next: Option<Making<F>>,
    /// Rules that came since the filter was begun, and how many there were then.
    taken: usize,
    made_with: usize,
    /// There was no memory for one.
    is_refused: bool,
}

/// A filter that does not have all rules yet.
#[derive(Debug)]
struct Making<const F: usize> {
    filter: Filter<F>,
    /// Masks whose rules it does not have yet; the last is under way:
    masks: Vec<usize>,
    /// these are the array of its table that was begun, and the next group of that.
    array: u32,
    group: usize,
}

impl<const W: usize, const F: usize> Pruner<W, F> {
    pub(super) fn new(fields: [Field; F]) -> Self {
        let (taken, made_with) = (0, 0);
        Self { fields, shown: None, next: None, taken, made_with, is_refused: false }
    }

    /// What readers are to have.
    pub(super) fn reader(&self) -> Option<FilterReader<F>> {
        self.shown.as_ref().map(Filter::reader)
    }

    /// Has a rule found by its keys, before they can see it. True where readers are to see that
    /// there is no filter any more.
    pub(super) fn take(&mut self, number: usize, key: &[u64; W], mask: &[u64; W]) -> bool {
        if self.shown.is_none() && self.next.is_none() {
            return false;
        }
        self.taken += 1;
        let spans = self.fields.map(|field| field.span(key, mask));
        // An error says that it does not know the number.
        let missed = self.next.as_mut().map(|next| next.filter.gather(number, &spans));
        if missed.is_some_and(|done| done.is_err()) {
            self.next = None;
        }
        let missed = self.shown.as_mut().map(|shown| shown.add(number, &spans));
        let is_given_up = missed.is_some_and(|done| done.is_err());
        if is_given_up {
            self.shown = None;
        }
        is_given_up
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
    /// rules want it. True where it is complete, and readers are to see it.
    pub(super) fn tend(
        &mut self,
        masks: &mut [Option<Mask<W>>],
        (live_masks, live): (usize, usize),
        steps: usize,
    ) -> bool {
        let Some(next) = &mut self.next else {
            let is_wanted = match &self.shown {
                None => live_masks >= MASKS_MIN,
                Some(_) => self.taken > 3 * self.made_with + SPARE_MIN,
            };
            if is_wanted && !self.is_refused {
                self.begin(masks, live);
            }
            return false;
        };
        let is_complete = (0..steps).any(|_| next.step(masks, &self.fields));
        if is_complete {
            self.shown = self.next.take().map(|next| next.filter);
        }
        is_complete
    }

    #[cold]
    fn begin(&mut self, masks: &[Option<Mask<W>>], live: usize) {
        (self.taken, self.made_with) = (0, live);
        let fits = |numbers: &usize| 2 * masks.len() <= *numbers;
        let tables_max = NUMBERS.into_iter().find(fits).unwrap_or(TABLES_LIMIT);
        let (fields, rules_max) = (self.fields.map(|field| field.bits), 5 * live + 2 * SPARE_MIN);
        let config = FilterConfig { fields, tables_max, rules_max, pages: Pages::Huge };
        let Ok(filter) = Filter::new(config) else {
            self.is_refused = true;
            return;
        };
        let there = (0..masks.len()).filter(|number| masks[*number].is_some()).collect();
        self.next = Some(Making { filter, masks: there, array: 0, group: 0 });
    }

    /// Memory of the filters, bytes.
    pub(super) fn bytes(&self) -> usize {
        let next = self.next.as_ref().map(|next| &next.filter);
        self.shown.iter().chain(next).map(Filter::bytes).sum()
    }
}

impl<const F: usize> Making<F> {
    /// Takes some rules in, or lays some spans out; whether that is all.
    fn step<const W: usize>(&mut self, masks: &mut [Option<Mask<W>>], fields: &[Field; F]) -> bool {
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
            for (key, _) in mask.entries.group(self.group) {
                // It knows the number, or it would have been given up.
                let spans = fields.map(|field| field.span(&key, &mask.mask));
                let _ = self.filter.gather(number, &spans);
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
