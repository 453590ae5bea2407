//! The writing end of a tuple space.

use std::collections::HashMap;
use std::sync::Arc;

use super::filter::{MaskFilters, Source};
use super::reader::{MaskReader, SharedTuples, TupleReader, View};
use super::{Field, Fields};
use crate::error::{CreateError, InsertError, TernaryError};
use crate::exact::{Config, Exact};
use crate::hash::Mixing;
use crate::limits::{CAPACITY_LIMIT, TABLES_LIMIT};
use crate::masks::Pace;
use crate::memory::Pages;
use crate::qsbr::QsbrDomain;

/// The least number of masks without entries that are kept, because a new entry may use them again.
const EMPTY_MAX: usize = 64;

/// The most steps of a filter's build in one call: some milliseconds of work.
const FILTER_STEPS_MAX: usize = 1 << 10;

/// The configuration of a tuple space.
#[derive(Debug, Clone, Copy)]
pub struct TupleConfig<'a> {
    /// The most entries of one mask, 1 to [`CAPACITY_LIMIT`].
    pub entries_max: usize,
    /// The most masks, including masks without entries that a reader may still have; up to
    /// [`TABLES_LIMIT`].
    pub masks_max: usize,
    /// The numbers in a key that distinguish entries under different masks.
    pub fields: &'a [Field],
    /// Seed of its hashes. Draw it at random if an attacker may choose keys.
    pub seed: u64,
}

/// Words under `W`-word keys (1 to 17) and masks: the writing end.
///
/// A word is not zero. A mask keeps its number while it has an entry. The number of a mask without
/// entries is valid until the next call of [`number_for`](Self::number_for) or
/// [`run_housekeeping`](Self::run_housekeeping). All keys are masked keys.
#[derive(Debug)]
pub struct TupleSpace<const W: usize> {
    domain: QsbrDomain,
    entries_max: usize,
    masks_max: usize,
    seed: u64,
    shared: Arc<SharedTuples<W>>,
    /// By number.
    masks: Vec<Option<Mask<W>>>,
    numbers: HashMap<[u64; W], usize, Mixing>,
    /// The number of masks from which on masks without entries are removed.
    masks_soft: usize,
    entries: usize,
    fields: Fields,
    filter: MaskFilters<W>,
    /// Views that readers may still hold, kept so that no reader frees them.
    old: Vec<Arc<View<W>>>,
    /// Whether the published view is out of date.
    is_hidden: bool,
}

/// A mask and the entries under it.
#[derive(Debug)]
pub(super) struct Mask<const W: usize> {
    pub(super) mask: [u64; W],
    pub(super) entries: Exact<W>,
    pub(super) shown: Arc<MaskReader<W>>,
}

impl<const W: usize> TupleSpace<W> {
    /// An empty tuple space, whose readers are participants of `domain`.
    ///
    /// # Errors
    /// [`CreateError::Capacity`] and [`CreateError::Field`].
    pub fn new(config: &TupleConfig<'_>, domain: &QsbrDomain) -> Result<Self, CreateError> {
        let TupleConfig { entries_max, masks_max, fields, seed } = *config;
        if !(1..=CAPACITY_LIMIT).contains(&entries_max) {
            let (capacity_max, limit) = (entries_max, CAPACITY_LIMIT);
            return Err(CreateError::Capacity { capacity_max, limit });
        }
        if let Some(field) = fields.iter().position(|field| !field.fits(W)) {
            return Err(CreateError::Field { field, words: W });
        }
        let (fields, masks_max) = (Fields::new(fields), masks_max.clamp(1, TABLES_LIMIT));
        Ok(Self {
            domain: domain.clone(),
            entries_max,
            masks_max,
            seed,
            shared: Arc::new(SharedTuples::new(fields, masks_max)),
            masks: Vec::new(),
            numbers: HashMap::default(),
            masks_soft: EMPTY_MAX,
            entries: 0,
            fields,
            filter: MaskFilters::new(&fields),
            old: Vec::new(),
            is_hidden: false,
        })
    }

    /// A reading end.
    #[must_use]
    pub fn reader(&self) -> TupleReader<W> {
        TupleReader::new(&self.shared)
    }

    /// The number of a mask, if it has one.
    #[inline]
    #[must_use]
    pub fn number(&self, mask: &[u64; W]) -> Option<usize> {
        match &self.masks[..] {
            // The only mask, as in a table of whole keys.
            [Some(only)] if only.mask == *mask => Some(0),
            _ => self.numbers.get(mask).copied(),
        }
    }

    /// The number of a mask; adds the mask if it has none.
    ///
    /// # Errors
    /// [`TernaryError::Masks`], and [`TernaryError::Create`] without memory.
    pub fn number_for(&mut self, mask: &[u64; W]) -> Result<usize, TernaryError> {
        match self.number(mask) {
            Some(number) => Ok(number),
            None => self.new_mask(mask),
        }
    }

    #[cold]
    fn new_mask(&mut self, mask: &[u64; W]) -> Result<usize, TernaryError> {
        if self.numbers.len() >= self.masks_soft.min(self.masks_max) {
            self.sweep();
        }
        let free = self.masks.iter().position(Option::is_none).unwrap_or(self.masks.len());
        if free >= self.masks_max {
            return Err(TernaryError::Masks { limit: self.masks_max });
        }
        let config = Config {
            capacity_max: self.entries_max,
            pages: Pages::Huge,
            reserve: 0,
            seed: self.seed,
        };
        let entries = Exact::new(config, &self.domain)?;
        let shown = Arc::new(MaskReader::new(*mask, entries.reader()));
        let made = Some(Mask { mask: *mask, entries, shown });
        match self.masks.get_mut(free) {
            Some(place) => *place = made,
            None => self.masks.push(made),
        }
        self.numbers.insert(*mask, free);
        self.is_hidden = true;
        Ok(free)
    }

    /// Removes masks without entries.
    fn sweep(&mut self) {
        for (number, place) in self.masks.iter_mut().enumerate() {
            if let Some(mask) = place.take_if(|mask| mask.entries.is_empty()) {
                self.numbers.remove(&mask.mask);
                self.filter.retire(number);
                self.is_hidden = true;
            }
        }
        if self.numbers.is_empty() {
            self.filter = MaskFilters::new(&self.fields);
        }
        let used = self.masks.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.masks.truncate(used);
        self.masks_soft = 2 * self.numbers.len() + EMPTY_MAX;
    }

    /// The word of a masked key under the mask of this number; zero if there is none.
    #[inline]
    #[must_use]
    pub fn word(&self, number: usize, key: &[u64; W]) -> u64 {
        let mask = self.masks.get(number).and_then(Option::as_ref);
        mask.and_then(|mask| mask.entries.get(key)).unwrap_or(0)
    }

    /// Prepares for a word under a key that has the word `current`: call it before you store the
    /// word, or a reference to it. The bound of the word has to be at most the limit of its rank,
    /// and below `u64::MAX`.
    #[inline]
    pub fn admit(&mut self, number: usize, key: &[u64; W], current: u64, bound: u64) {
        let Some(Some(mask)) = self.masks.get(number) else { return };
        mask.shown.lower(bound);
        match current {
            0 => self.is_hidden |= self.filter.add(&self.fields, (number, mask), key, bound),
            _ => self.filter.lower(number, bound),
        }
        self.show();
    }

    /// Stores a word under a key that has the word `current`; zero means no word for both. Does
    /// nothing if no mask has this number.
    ///
    /// # Errors
    /// If the key is new and there is no room for it; nothing is then changed.
    #[inline]
    pub fn store(
        &mut self,
        number: usize,
        key: &[u64; W],
        current: u64,
        word: u64,
    ) -> Result<(), InsertError> {
        let Some(Some(mask)) = self.masks.get_mut(number) else { return Ok(()) };
        match (current, word) {
            (0, 0) => {}
            (0, word) => {
                mask.entries.insert(key, word)?;
                self.entries += 1;
            }
            (_, 0) => {
                self.entries -= usize::from(mask.entries.remove(key).is_some());
                if mask.entries.is_empty() {
                    mask.shown.raise(u64::MAX);
                }
            }
            (_, word) => _ = mask.entries.update(key, word),
        }
        Ok(())
    }

    /// Builds the filter up to `steps` steps further: the housekeeping of one operation.
    ///
    /// `bound_of` gets a word and the bound of its mask. It returns a lower bound of all words that
    /// a reader may resolve this word to, with any generation.
    #[inline]
    pub fn advance_filter(&mut self, steps: usize, bound_of: impl Fn(u64, u64) -> u64) {
        self.advance((steps, Pace::Operation), bound_of);
    }

    #[inline]
    fn advance(&mut self, (steps, pace): (usize, Pace), bound_of: impl Fn(u64, u64) -> u64) {
        let Self { fields, masks, entries, filter, .. } = self;
        let mut source = Source { fields, masks, entries: *entries, bound_of };
        self.is_hidden |= filter.advance(&mut source, self.numbers.len(), steps, pace);
        self.show();
    }

    /// Does up to `steps` steps of each kind of housekeeping in idle time, which makes look-ups
    /// cheaper: removes masks without entries, builds the filter, finishes the growth of tables.
    /// True if nothing is left to do. Does not wait for readers.
    pub fn run_housekeeping(&mut self, steps: usize, bound_of: impl Fn(u64, u64) -> u64) -> bool {
        self.sweep();
        self.filter.allow_retry();
        self.advance((steps.min(FILTER_STEPS_MAX), Pace::Idle), bound_of);
        let tables = self.masks.iter_mut().flatten();
        let are_grown = tables.fold(true, |all, mask| mask.entries.finish_growth(steps) & all);
        are_grown && !self.filter.is_busy()
    }

    /// Publishes the masks and the filter.
    #[inline]
    fn show(&mut self) {
        if self.is_hidden {
            let masks = self.masks.iter().enumerate();
            let always = masks.filter(|(number, _)| !self.filter.has(*number));
            let always = always.filter_map(|(_, mask)| Some(Arc::clone(&mask.as_ref()?.shown)));
            let view = View { always: always.collect(), filter: self.filter.view() };
            self.old.push(self.shared.show(view));
            self.is_hidden = false;
        }
        if !self.old.is_empty() {
            self.old.retain(|view| Arc::strong_count(view) > 1);
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Number of masks with a table: those of all entries, and of some removed entries.
    #[must_use]
    pub fn masks_count(&self) -> usize {
        self.numbers.len()
    }

    /// Memory of the tables and the filter, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tables = self.masks.iter().flatten().map(|mask| mask.entries.bytes()).sum::<usize>();
        tables + self.filter.bytes()
    }

    /// All entries, in no order: the number of the mask, the mask, the key and the word.
    pub fn iter(&self) -> impl Iterator<Item = (usize, [u64; W], [u64; W], u64)> + '_ {
        let masks = (0..).zip(&self.masks).filter_map(|(at, mask)| Some((at, mask.as_ref()?)));
        masks.flat_map(|(number, mask)| {
            mask.entries.iter().map(move |(key, word)| (number, mask.mask, key, word))
        })
    }
}
