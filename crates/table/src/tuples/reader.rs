//! The reading end of a tuple space.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{F, Fields, Filters, Rank, masked};
use crate::limits::BURST_MAX;
use crate::prune::{FilterReader, Sets};
use crate::qsbr::Participant;
use crate::reader::Reader;
use crate::sync::{Acquire, AtomicU64, Release};

/// The part that the writer and all readers share.
#[derive(Debug)]
pub(super) struct SharedTuples<const W: usize> {
    view: ArcSwap<View<W>>,
    /// How often the view was replaced, plus one.
    version: AtomicU64,
    fields: Fields,
    /// The most masks.
    masks_max: usize,
}

/// The masks, for one burst.
#[derive(Debug, Default)]
pub(super) struct View<const W: usize> {
    /// By number.
    pub(super) masks: Vec<Option<Arc<MaskReader<W>>>>,
    /// Without a filter, all masks are searched.
    pub(super) filter: Option<Filters<FilterReader<1>, FilterReader<F>>>,
}

/// A mask and its entries, for readers.
#[derive(Debug)]
pub(super) struct MaskReader<const W: usize> {
    mask: [u64; W],
    entries: Reader<W>,
    /// No word of the mask has a smaller bound.
    bound: AtomicU64,
}

impl<const W: usize> MaskReader<W> {
    pub(super) fn new(mask: [u64; W], entries: Reader<W>) -> Self {
        Self { mask, entries, bound: AtomicU64::new(u64::MAX) }
    }

    #[inline]
    pub(super) fn bound(&self) -> u64 {
        self.bound.load(Acquire)
    }

    /// Lowers the bound for a word that will be stored. For the writer only.
    pub(super) fn lower(&self, bound: u64) {
        if bound < self.bound() {
            self.bound.store(bound, Release);
        }
    }

    /// Raises the bound, which no reader can find a word below; a higher bound stays. For the
    /// writer only.
    pub(super) fn raise(&self, bound: u64) {
        if bound > self.bound() {
            self.bound.store(bound, Release);
        }
    }
}

impl<const W: usize> SharedTuples<W> {
    pub(super) fn new(fields: Fields, masks_max: usize) -> Self {
        Self { view: ArcSwap::default(), version: AtomicU64::new(1), fields, masks_max }
    }

    /// Publishes another view; returns the old one, which readers may hold.
    pub(super) fn show(&self, view: View<W>) -> Arc<View<W>> {
        let old = self.view.swap(Arc::new(view));
        self.version.store(self.version.load(Acquire) + 1, Release);
        old
    }
}

/// A reading end of a [`TupleSpace`](crate::TupleSpace). Clone it into any number of threads.
///
/// Look-ups never wait and allocate nothing. They write nothing that other threads read, except a
/// counter after a change of the masks or the filter. They borrow the thread's [`Participant`],
/// which must be online and of the space's domain: otherwise they may panic.
#[derive(Debug)]
pub struct TupleReader<const W: usize> {
    shared: Arc<SharedTuples<W>>,
    view: Arc<View<W>>,
    version: u64,
    /// Keys of the burst to look up under each mask, a bit each.
    wanted: Vec<u64>,
    /// Masks to search, with their bounds.
    order: Vec<(u64, u16)>,
}

/// The best words so far for the keys of a burst.
struct BestWords<'a, R> {
    ranks: [R; BURST_MAX],
    /// The limits of the ranks.
    limits: [u64; BURST_MAX],
    words: &'a mut [u64],
    /// Keys with a word, a bit each.
    found: u64,
}

impl<const W: usize> Clone for TupleReader<W> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<const W: usize> TupleReader<W> {
    pub(super) fn new(shared: &Arc<SharedTuples<W>>) -> Self {
        let (masks_max, version) = (shared.masks_max, shared.version.load(Acquire));
        let (view, mut wanted) = (shared.view.load_full(), Vec::with_capacity(masks_max));
        wanted.resize(view.masks.len(), 0);
        let (shared, order) = (Arc::clone(shared), Vec::with_capacity(masks_max));
        Self { shared, view, version, wanted, order }
    }

    /// Looks up a burst: bit `i` of the result says whether there is a word for `keys[i]`, which is
    /// then in `words[i]`. `rank_of` gets a word and the bound of its mask; it returns the resolved
    /// word and its rank, or `None`.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys or fewer words than keys; or the participant is
    /// offline or of another domain.
    #[inline]
    pub fn find<R: Rank>(
        &mut self,
        participant: &Participant,
        keys: &[[u64; W]],
        mut rank_of: impl FnMut(u64, u64) -> Option<(u64, R)>,
        words: &mut [u64],
    ) -> u64 {
        assert!(keys.len() <= BURST_MAX && keys.len() <= words.len(), "burst too long");
        self.look();
        let (ranks, limits) = ([R::LAST; BURST_MAX], [u64::MAX; BURST_MAX]);
        let mut found = BestWords { ranks, limits, words, found: 0 };
        self.note(keys);
        for &(bound, number) in &self.order {
            let wanted = std::mem::take(&mut self.wanted[usize::from(number)]);
            if let Some(Some(under)) = self.view.masks.get(usize::from(number)) {
                look_up((under, bound), participant, (keys, wanted), &mut rank_of, &mut found);
            }
        }
        found.found
    }

    /// Drops the view, for a thread that does not look up for a while.
    pub fn release_view(&mut self) {
        (self.view, self.version) = (Arc::default(), 0);
    }

    /// Takes the newest view.
    #[inline]
    fn look(&mut self) {
        let version = self.shared.version.load(Acquire);
        if version != self.version {
            (self.view, self.version) = (self.shared.view.load_full(), version);
            self.wanted.clear();
            self.wanted.resize(self.view.masks.len(), 0);
        }
    }

    /// Notes which keys to look up under which masks, best masks first.
    #[inline]
    fn note(&mut self, keys: &[[u64; W]]) {
        let Self { shared, view, wanted, order, .. } = self;
        // A look-up that panicked may have left some.
        for (_, number) in order.drain(..) {
            wanted.get_mut(usize::from(number)).into_iter().for_each(|wanted| *wanted = 0);
        }
        let (fields, masks) = (&shared.fields, &view.masks[..]);
        match &view.filter {
            Some(Filters::One(filter)) => {
                let only = fields.only();
                let value = |key: &[u64; W]| only.map_or(0, |of| of.value(super::WIDTHS[0], key));
                candidates(filter, keys, |key| [value(key)], masks, wanted, order);
            }
            Some(Filters::All(filter)) => {
                candidates(filter, keys, |key| fields.values(key), masks, wanted, order);
            }
            None => {
                wanted.fill(u64::MAX.checked_shr((BURST_MAX - keys.len()) as u32).unwrap_or(0));
                let masks = masks.iter().enumerate();
                let bound = |(number, of): (usize, &Option<Arc<MaskReader<W>>>)| {
                    Some((of.as_ref()?.bound(), number as u16))
                };
                order.extend(masks.filter_map(bound));
            }
        }
        if order.len() > 1 {
            order.sort_unstable();
        }
    }
}

/// Notes the masks that can have an entry for each key.
#[inline]
fn candidates<const W: usize, const N: usize>(
    filter: &FilterReader<N>,
    keys: &[[u64; W]],
    values_of: impl Fn(&[u64; W]) -> [u32; N],
    masks: &[Option<Arc<MaskReader<W>>>],
    wanted: &mut [u64],
    order: &mut Vec<(u64, u16)>,
) {
    let (mut values, mut sets) = ([[0; N]; BURST_MAX], [Sets::default(); BURST_MAX]);
    for (values, key) in values.iter_mut().zip(keys) {
        *values = values_of(key);
    }
    let (values, sets) = (&values[..keys.len()], &mut sets[..keys.len()]);
    filter.find(values, sets);
    for (at, sets) in sets.iter().enumerate() {
        for number in filter.candidates(sets) {
            // A filter may know masks that are newer than the view.
            let (Some(wanted), Some(Some(of))) = (wanted.get_mut(number), masks.get(number)) else {
                continue;
            };
            if *wanted == 0 {
                order.push((of.bound(), number as u16));
            }
            *wanted |= 1 << at;
        }
    }
}

/// Looks up the keys in `wanted` under a mask.
#[inline]
fn look_up<const W: usize, R: Rank>(
    (under, bound): (&MaskReader<W>, u64),
    participant: &Participant,
    (keys, wanted): (&[[u64; W]], u64),
    rank_of: &mut impl FnMut(u64, u64) -> Option<(u64, R)>,
    best: &mut BestWords<'_, R>,
) {
    let (mut packed, mut places) = ([[0; W]; BURST_MAX], [0_u8; BURST_MAX]);
    let (mut count, mut left) = (0, wanted);
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        if bound < best.limits[at] {
            (packed[count], places[count]) = (masked(&keys[at], &under.mask), at as u8);
            count += 1;
        }
    }
    if count == 0 {
        return;
    }
    let mut words = [0; BURST_MAX];
    let mut hits = under.entries.lookup_bulk(participant, &packed[..count], &mut words);
    while hits != 0 {
        let place = hits.trailing_zeros() as usize;
        hits &= hits - 1;
        let at = usize::from(places[place]);
        if let Some((word, rank)) = rank_of(words[place], bound)
            && rank < best.ranks[at]
        {
            (best.ranks[at], best.limits[at]) = (rank, rank.limit());
            best.words[at] = word;
            best.found |= 1 << at;
        }
    }
}
