//! The reading end of a tuple space.

use std::sync::Arc;

use arc_swap::ArcSwap;
use arrayvec::ArrayVec;

use super::{F, Fields, Filters, Rank, masked};
use crate::limits::BURST_MAX;
use crate::masks::{MaskSearch, MaskSlots, MaskView};
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
    /// Masks that are always searched.
    pub(super) always: Vec<Arc<MaskReader<W>>>,
    /// The filter that leads to the others.
    pub(super) filter: Option<MaskViews<W>>,
}

/// The content of a slot: a mask and its entries.
pub(super) type MaskSlot<const W: usize> = Arc<MaskReader<W>>;

/// The filter, for readers.
pub(super) type MaskViews<const W: usize> =
    Filters<MaskView<1, MaskSlot<W>>, MaskView<F, MaskSlot<W>>>;

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
    /// Masks to search, with their bounds.
    order: Vec<(u64, u16)>,
    search: Searches,
}

/// The search of a filter of one field or of all, in memory that bursts share.
type Searches = Filters<Box<MaskSearch<1>>, Box<MaskSearch<F>>>;

/// One look-up of a key under a mask.
struct Probe<'a, const W: usize> {
    key: [u64; W],
    hash: u64,
    bound: u64,
    entries: &'a Reader<W>,
    run: usize,
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

impl<R: Rank> BestWords<'_, R> {
    /// Keeps a word for a key if it is better than the best one so far.
    #[inline]
    fn take(&mut self, at: usize, word: u64, rank: R) -> bool {
        let is_better = rank < self.ranks[at];
        if is_better {
            (self.ranks[at], self.limits[at]) = (rank, rank.limit());
            self.words[at] = word;
            self.found |= 1 << at;
        }
        is_better
    }

    /// Of these keys, a bit each, those that a word with this bound can be better for.
    #[inline]
    fn open(&self, mut keys: u64, bound: u64) -> u64 {
        let mut left = keys & self.found;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            keys &= !(u64::from(self.limits[at as usize] <= bound) << at);
        }
        keys
    }
}

impl<const W: usize> Clone for TupleReader<W> {
    fn clone(&self) -> Self {
        Self::new(&self.shared)
    }
}

impl<const W: usize> TupleReader<W> {
    pub(super) fn new(shared: &Arc<SharedTuples<W>>) -> Self {
        let version = shared.version.load(Acquire);
        let (view, order) = (shared.view.load_full(), Vec::with_capacity(shared.masks_max));
        let search = match shared.fields.only() {
            Some(_) => Filters::One(Box::default()),
            None => Filters::All(Box::default()),
        };
        Self { shared: Arc::clone(shared), view, version, order, search }
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
        let Self { shared, view, order, search, .. } = self;
        let all = u64::MAX.checked_shr((BURST_MAX - keys.len()) as u32).unwrap_or(0);
        match &view.always[..] {
            [] => {}
            [only] => {
                look_up((only, only.bound()), participant, (keys, all), &mut rank_of, &mut found)
            }
            always => {
                order.clear();
                order.extend((0..).zip(always).map(|(at, of)| (of.bound(), at)));
                order.sort_unstable();
                for &(bound, at) in &*order {
                    let under = (&*always[usize::from(at)], bound);
                    look_up(under, participant, (keys, all), &mut rank_of, &mut found);
                }
            }
        }
        let fields = &shared.fields;
        match (&view.filter, search) {
            (Some(Filters::One(view)), Filters::One(search)) => {
                let only = fields.only();
                let value =
                    |at: usize| [only.map_or(0, |field| field.value(super::WIDTHS[0], &keys[at]))];
                let open = found.open(all, view.bound());
                let slots = search.begin(view, open, value);
                find_in_slots(search, slots, (keys, participant), &mut rank_of, &mut found);
            }
            (Some(Filters::All(view)), Filters::All(search)) => {
                let open = found.open(all, view.bound());
                let slots = search.begin(view, open, |at| fields.values(&keys[at]));
                find_in_slots(search, slots, (keys, participant), &mut rank_of, &mut found);
            }
            // No filter. Other pairs do not occur: a space has filters of one kind.
            _ => {}
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
        }
    }
}

/// Looks up each key under the masks that the filter selects, in rounds: each round looks up every
/// key under its next best mask. All look-ups of a round take one step before any takes the next,
/// so that the cache misses of a step overlap.
fn find_in_slots<R: Rank, const N: usize, const W: usize>(
    search: &mut MaskSearch<N>,
    slots: MaskSlots<'_, N, MaskSlot<W>>,
    (keys, participant): (&[[u64; W]], &Participant),
    rank_of: &mut impl FnMut(u64, u64) -> Option<(u64, R)>,
    found: &mut BestWords<'_, R>,
) {
    for run in bits(search.open()) {
        search.set_limit(run, found.limits[search.packet(run)]);
    }
    while search.open() != 0 {
        let mut probes = ArrayVec::<Probe<'_, W>, BURST_MAX>::new();
        for run in bits(search.open()) {
            // The bound of a mask without entries rises at once, that of its slot does not.
            let under = loop {
                match search.next(slots, run) {
                    Some(under) if under.bound() >= search.limit(run) => {}
                    found => break found,
                }
            };
            let Some(under) = under else {
                search.close(run);
                continue;
            };
            let (entries, bound) = (&under.entries, under.bound());
            let key = masked(&keys[search.packet(run)], &under.mask);
            let hash = entries.hash(&key);
            entries.prefetch_tags(participant, hash);
            probes.push(Probe { key, hash, bound, entries, run });
            search.close_last(run);
        }
        for probe in &probes {
            probe.entries.prefetch_entry(participant, probe.hash);
        }
        for &Probe { ref key, hash, bound, entries, run } in &probes {
            let word = entries.lookup_hashed(participant, key, hash);
            let Some((word, rank)) = word.and_then(|word| rank_of(word, bound)) else { continue };
            if found.take(search.packet(run), word, rank) {
                search.accept(slots, run, rank.limit());
            }
        }
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
