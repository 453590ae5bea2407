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
    /// Without them, all masks are searched.
    pub(super) slots: Option<Slots>,
}

/// A filter and its slots.
#[derive(Debug)]
pub(super) struct Slots {
    pub(super) filter: Filters<FilterReader<1>, FilterReader<F>>,
    /// The numbers of their masks.
    pub(super) numbers: Vec<u16>,
    /// No word of this slot or of a later one has a smaller bound.
    pub(super) rest: Arc<[AtomicU64]>,
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
    round: Round,
}

/// The look-ups of one round.
#[derive(Debug)]
struct Round {
    /// Masks to search, with their bounds.
    order: Vec<(u64, u16)>,
    /// The keys to look up under each mask, a bit each, by the number of the mask.
    wanted: Vec<u64>,
}

/// From this many keys on, the keys of a mask are looked up in bulk.
const TOGETHER_MIN: u32 = 8;

/// One look-up of a key under a mask.
#[derive(Clone, Copy)]
struct Probe<const W: usize> {
    key: [u64; W],
    hash: u64,
    bound: u64,
    /// The number of the mask.
    number: u16,
    /// The position of the key in the burst.
    at: u8,
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

/// The masks by number, the participant of the thread, and the keys.
type Among<'a, const W: usize> =
    (&'a [Option<Arc<MaskReader<W>>>], &'a Participant, &'a [[u64; W]]);

impl<R: Rank> BestWords<'_, R> {
    /// Keeps a word for a key if it is better than the best one so far.
    #[inline]
    fn take(&mut self, at: usize, word: u64, rank: R) {
        if rank < self.ranks[at] {
            (self.ranks[at], self.limits[at]) = (rank, rank.limit());
            self.words[at] = word;
            self.found |= 1 << at;
        }
    }
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
        let round = Round { order: Vec::with_capacity(masks_max), wanted };
        Self { shared: Arc::clone(shared), view, version, round }
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
        let Self { shared, view, round, .. } = self;
        let fields = &shared.fields;
        round.clear();
        let among = (&view.masks[..], participant, keys);
        match &view.slots {
            None => round.find_in_all(among, &mut rank_of, &mut found),
            Some(slots) => match &slots.filter {
                Filters::One(filter) => {
                    let only = fields.only();
                    let value =
                        |key: &[u64; W]| [only.map_or(0, |of| of.value(super::WIDTHS[0], key))];
                    round.find_in_slots(among, (slots, filter, value), &mut rank_of, &mut found);
                }
                Filters::All(filter) => {
                    let values = |key: &[u64; W]| fields.values(key);
                    round.find_in_slots(among, (slots, filter, values), &mut rank_of, &mut found);
                }
            },
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
            self.round.clear();
            self.round.wanted.resize(self.view.masks.len(), 0);
        }
    }
}

impl Round {
    /// Removes what a look-up that panicked may have left.
    fn clear(&mut self) {
        for (_, number) in self.order.drain(..) {
            self.wanted.get_mut(usize::from(number)).into_iter().for_each(|wanted| *wanted = 0);
        }
    }

    /// Looks up all keys under all masks, best masks first.
    fn find_in_all<R: Rank, const W: usize>(
        &mut self,
        (masks, participant, keys): Among<'_, W>,
        rank_of: &mut impl FnMut(u64, u64) -> Option<(u64, R)>,
        found: &mut BestWords<'_, R>,
    ) {
        let all = u64::MAX.checked_shr((BURST_MAX - keys.len()) as u32).unwrap_or(0);
        let masks_of = masks.iter().enumerate();
        let bound = |(number, of): (usize, &Option<Arc<MaskReader<W>>>)| {
            Some((of.as_ref()?.bound(), number as u16))
        };
        self.order.extend(masks_of.filter_map(bound));
        if self.order.len() > 1 {
            self.order.sort_unstable();
        }
        for (bound, number) in self.order.drain(..) {
            if let Some(Some(under)) = masks.get(usize::from(number)) {
                look_up((under, bound), participant, (keys, all), rank_of, found);
            }
        }
    }

    /// Looks up each key under the masks that the filter selects, in rounds: each round looks up
    /// every key under its next best mask.
    fn find_in_slots<R: Rank, const N: usize, const W: usize>(
        &mut self,
        among: Among<'_, W>,
        (slots, filter, values_of): (&Slots, &FilterReader<N>, impl Fn(&[u64; W]) -> [u32; N]),
        rank_of: &mut impl FnMut(u64, u64) -> Option<(u64, R)>,
        found: &mut BestWords<'_, R>,
    ) {
        let (masks, _, keys) = among;
        let (mut values, mut sets) = ([[0; N]; BURST_MAX], [Sets::default(); BURST_MAX]);
        for (values, key) in values.iter_mut().zip(keys) {
            *values = values_of(key);
        }
        let sets = &mut sets[..keys.len()];
        filter.find(&values[..keys.len()], sets);
        let mut candidates: [_; BURST_MAX] =
            std::array::from_fn(|at| sets.get(at).map(|sets| filter.candidates(sets)));
        let mut open = u64::MAX.checked_shr((BURST_MAX - keys.len()) as u32).unwrap_or(0);
        while open != 0 {
            for at in bits(open) {
                let candidates = candidates[at].iter_mut().flatten();
                match slots.best(candidates, masks, found.limits[at]) {
                    Some(mask) => self.want(mask, at),
                    None => open &= !(1 << at),
                }
            }
            self.look_up(among, rank_of, found);
        }
    }

    /// Adds the look-up of a key under a mask, given by its bound and number.
    #[inline]
    fn want(&mut self, (bound, number): (u64, u16), at: usize) {
        let wanted = &mut self.wanted[usize::from(number)];
        if *wanted == 0 {
            self.order.push((bound, number));
        }
        *wanted |= 1 << at;
    }

    /// Does the look-ups of the round, at most one for each key. All of them take one step before
    /// any takes the next, so that the cache misses of a step overlap. Many keys under one mask are
    /// looked up in bulk.
    fn look_up<R: Rank, const W: usize>(
        &mut self,
        (masks, participant, keys): Among<'_, W>,
        rank_of: &mut impl FnMut(u64, u64) -> Option<(u64, R)>,
        found: &mut BestWords<'_, R>,
    ) {
        let mut probes = [Probe { key: [0; W], hash: 0, bound: 0, number: 0, at: 0 }; BURST_MAX];
        let mut count = 0;
        for (bound, number) in self.order.drain(..) {
            let here = std::mem::take(&mut self.wanted[usize::from(number)]);
            let Some(Some(under)) = masks.get(usize::from(number)) else { continue };
            if here.count_ones() >= TOGETHER_MIN {
                look_up((under, bound), participant, (keys, here), rank_of, found);
                continue;
            }
            for at in bits(here) {
                let key = masked(&keys[at], &under.mask);
                let hash = under.entries.hash(&key);
                under.entries.prefetch_tags(participant, hash);
                probes[count % BURST_MAX] = Probe { key, hash, bound, number, at: at as u8 };
                count += 1;
            }
        }
        let probes = &probes[..count.min(BURST_MAX)];
        let under = |probe: &Probe<W>| masks[usize::from(probe.number)].as_deref();
        for probe in probes {
            if let Some(under) = under(probe) {
                under.entries.prefetch_entry(participant, probe.hash);
            }
        }
        for probe in probes {
            let Some(under) = under(probe) else { continue };
            let word = under.entries.lookup_hashed(participant, &probe.key, probe.hash);
            if let Some((word, rank)) = word.and_then(|word| rank_of(word, probe.bound)) {
                found.take(usize::from(probe.at), word, rank);
            }
        }
    }
}

impl Slots {
    /// The bound and number of the next mask that can have a word with a rank below `limit`.
    #[inline]
    fn best<const W: usize>(
        &self,
        candidates: impl Iterator<Item = usize>,
        masks: &[Option<Arc<MaskReader<W>>>],
        limit: u64,
    ) -> Option<(u64, u16)> {
        for slot in candidates {
            // A filter may have slots that are newer than the view.
            let number = *self.numbers.get(slot)?;
            if self.rest[slot].load(Acquire) >= limit {
                return None;
            }
            let bound =
                masks.get(usize::from(number)).and_then(Option::as_ref).map(|of| of.bound());
            if let Some(bound) = bound.filter(|bound| *bound < limit) {
                return Some((bound, number));
            }
        }
        None
    }
}

/// The positions of the bits that are set, in ascending order.
#[inline]
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (at < BURST_MAX).then_some(at)
    })
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
        if let Some((word, rank)) = rank_of(words[place], bound) {
            best.take(at, word, rank);
        }
    }
}
