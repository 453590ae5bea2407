//! The filter of a tuple space, for its writer: which entries it visits.

use super::reader::{MaskSlot, MaskViews};
use super::writer::Mask;
use super::{F, Fields, Filters, WIDTHS};
use crate::limits::{MASKS_MIN, STEP_GROUPS};
use crate::masks::{EntryCursor, MaskFilter, MaskSource, Pace};
use crate::prune::Span;

/// A filter of one field, or of all.
pub(super) type MaskFilters<const W: usize> =
    Filters<MaskFilter<1, MaskSlot<W>>, MaskFilter<F, MaskSlot<W>>>;

/// Evaluates `$body` with the filter, whatever its fields.
macro_rules! each_filter {
    ($self:expr, $filter:ident => $body:expr) => {
        match $self {
            Filters::One($filter) => $body,
            Filters::All($filter) => $body,
        }
    };
}

impl<const W: usize> MaskFilters<W> {
    pub(super) const fn new(fields: &Fields) -> Self {
        match fields.only() {
            Some(_) => Filters::One(MaskFilter::new([WIDTHS[0]])),
            None => Filters::All(MaskFilter::new(WIDTHS)),
        }
    }

    /// The filter for readers.
    pub(super) fn view(&self) -> Option<MaskViews<W>> {
        match self {
            Filters::One(filter) => filter.view().map(Filters::One),
            Filters::All(filter) => filter.view().map(Filters::All),
        }
    }

    /// As [`MaskFilter::has`].
    pub(super) fn has(&self, number: usize) -> bool {
        each_filter!(self, filter => filter.has(number as u16))
    }

    /// As [`MaskFilter::add`].
    pub(super) fn add(
        &mut self,
        fields: &Fields,
        (number, mask): (usize, &Mask<W>),
        key: &[u64; W],
        bound: u64,
    ) -> bool {
        each_filter!(self, filter => {
            // With few masks there is no filter, and nothing to compute for it.
            !filter.is_absent() && {
                let spans = fields.spans(key, &mask.mask);
                filter.add(number as u16, &spans, bound, || mask.shown.clone())
            }
        })
    }

    /// As [`MaskFilter::lower`].
    #[inline]
    pub(super) fn lower(&mut self, number: usize, bound: u64) {
        each_filter!(self, filter => filter.lower(number as u16, bound));
    }

    /// As [`MaskFilter::retire`].
    pub(super) fn retire(&mut self, number: usize) {
        each_filter!(self, filter => filter.retire(number as u16));
    }

    /// As [`MaskFilter::allow_retry`].
    pub(super) fn allow_retry(&mut self) {
        each_filter!(self, filter => filter.allow_retry());
    }

    /// As [`MaskFilter::advance`].
    #[inline]
    pub(super) fn advance<B: Fn(u64, u64) -> u64>(
        &mut self,
        source: &mut Source<'_, W, B>,
        live_masks: usize,
        steps: usize,
        pace: Pace,
    ) -> bool {
        let is_wanted = live_masks >= MASKS_MIN && source.fields.has_one();
        each_filter!(self, filter => {
            (is_wanted || !filter.is_absent()) && filter.advance(source, steps, pace)
        })
    }

    /// As [`MaskFilter::is_busy`].
    pub(super) fn is_busy(&self) -> bool {
        each_filter!(self, filter => filter.is_busy())
    }

    /// As [`MaskFilter::bytes`].
    pub(super) fn bytes(&self) -> usize {
        each_filter!(self, filter => filter.bytes())
    }
}

/// The masks of a tuple space; `bound_of` is that of `TupleSpace::advance_filter`.
pub(super) struct Source<'a, const W: usize, B> {
    pub(super) fields: &'a Fields,
    /// By number.
    pub(super) masks: &'a mut [Option<Mask<W>>],
    /// Entries of all masks.
    pub(super) entries: usize,
    pub(super) bound_of: B,
}

impl<const N: usize, const W: usize, B: Fn(u64, u64) -> u64> MaskSource<N> for Source<'_, W, B> {
    type Slot = MaskSlot<W>;

    fn masks(&self) -> impl Iterator<Item = (u64, u16)> {
        let masks = (0..).zip(&*self.masks);
        masks.filter_map(|(number, mask)| Some((mask.as_ref()?.shown.bound(), number)))
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn slot(&self, number: u16) -> Option<MaskSlot<W>> {
        let mask = self.masks.get(usize::from(number)).and_then(Option::as_ref);
        mask.map(|mask| mask.shown.clone())
    }

    fn visit(
        &mut self,
        number: u16,
        cursor: &mut EntryCursor,
        visit: &mut dyn FnMut(&[Span; N], u64),
    ) -> bool {
        let mask = self.masks.get_mut(usize::from(number)).and_then(Option::as_mut);
        let Some(mask) = mask else { return false };
        // While a table grows, its entries are in two arrays.
        let Some((array, groups)) = mask.entries.array() else {
            mask.entries.advance(STEP_GROUPS);
            return true;
        };
        if array != cursor.array {
            *cursor = EntryCursor { array, at: 0 };
        }
        let end = groups.min(cursor.at + STEP_GROUPS);
        for group in cursor.at..end {
            for (key, word) in mask.entries.group(group) {
                let bound = (self.bound_of)(word, mask.shown.bound());
                visit(&self.fields.spans(&key, &mask.mask), bound);
            }
        }
        cursor.at = end;
        end < groups
    }

    fn raise(&mut self, number: u16, bound: u64) {
        let mask = self.masks.get(usize::from(number)).and_then(Option::as_ref);
        mask.into_iter().for_each(|mask| mask.shown.raise(bound));
    }
}
