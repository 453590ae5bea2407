//! The reading end of a ternary table.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{Field, Hit, masked};
use crate::domain::Participant;
use crate::limits::BURST_MAX;
use crate::prune::{FilterReader, Sets};
use crate::reader::Reader;
use crate::sync::{Acquire, AtomicU64, Release};
use crate::versions::{Generation, Versions};

/// What the writer and all readers hold.
#[derive(Debug)]
pub(super) struct Shared<const W: usize, const F: usize> {
    view: ArcSwap<View<W, F>>,
    /// How often the view was replaced.
    version: AtomicU64,
    pub(super) versions: Arc<Versions>,
    pub(super) fields: [Field; F],
}

/// The masks as a burst sees them.
#[derive(Debug, Default)]
pub(super) struct View<const W: usize, const F: usize> {
    /// By number.
    pub(super) masks: Vec<Option<Arc<Masked<W>>>>,
    /// Without one, all masks are asked.
    pub(super) filter: Option<FilterReader<F>>,
}

/// A mask and the rules under it.
#[derive(Debug)]
pub(super) struct Masked<const W: usize> {
    mask: [u64; W],
    entries: Reader<W>,
    /// No word under it is smaller, nor was.
    best: AtomicU64,
}

impl<const W: usize> Masked<W> {
    pub(super) fn new(mask: [u64; W], entries: Reader<W>) -> Self {
        Self { mask, entries, best: AtomicU64::new(u64::MAX) }
    }

    /// Says that this word is about to be there. For the writer only.
    pub(super) fn admit(&self, word: u64) {
        if word < self.best.load(Acquire) {
            self.best.store(word, Release);
        }
    }
}

impl<const W: usize, const F: usize> Shared<W, F> {
    pub(super) fn new(versions: Arc<Versions>, fields: [Field; F]) -> Self {
        let view = View { masks: Vec::new(), filter: None };
        Self { view: ArcSwap::from_pointee(view), version: AtomicU64::new(0), versions, fields }
    }

    /// Shows readers another view; the one before, which some may hold.
    pub(super) fn show(&self, view: View<W, F>) -> Arc<View<W, F>> {
        let old = self.view.swap(Arc::new(view));
        self.version.store(self.version.load(Acquire) + 1, Release);
        old
    }
}

/// A reading end of a [`Ternary`](crate::Ternary) table. Clone it into any number of threads.
///
/// Look-ups never wait and write nothing that others read, but for a counter when masks have come
/// or gone. They borrow the thread's [`Participant`], which must be online and of the table's
/// domain: they may panic otherwise.
#[derive(Debug, Clone)]
pub struct TernaryReader<const W: usize, const F: usize> {
    shared: Arc<Shared<W, F>>,
    view: Arc<View<W, F>>,
    version: u64,
    /// Keys of the burst that are to be asked under each mask, a bit each.
    asked: Vec<u64>,
    /// Masks of which some are.
    order: Vec<u16>,
}

impl<const W: usize, const F: usize> TernaryReader<W, F> {
    pub(super) fn new(shared: &Arc<Shared<W, F>>) -> Self {
        let version = shared.version.load(Acquire);
        let view = shared.view.load_full();
        let (asked, order) = (vec![0; view.masks.len()], Vec::new());
        Self { shared: Arc::clone(shared), view, version, asked, order }
    }

    /// The rule that wins for a key.
    ///
    /// # Panics
    /// As [`lookup_bulk`](Self::lookup_bulk).
    #[must_use]
    pub fn lookup(&mut self, participant: &Participant, key: &[u64; W]) -> Option<Hit> {
        let mut hits = [None];
        self.lookup_bulk(participant, std::slice::from_ref(key), &mut hits);
        hits[0]
    }

    /// Looks up a burst: the rule that wins for `keys[i]` is in `hits[i]`, `None` where there is
    /// none. All of the burst sees each transaction wholly or not at all.
    ///
    /// # Panics
    /// If there are more than [`BURST_MAX`] keys or fewer hits than keys; or the participant is
    /// offline or of another domain.
    pub fn lookup_bulk(
        &mut self,
        participant: &Participant,
        keys: &[[u64; W]],
        hits: &mut [Option<Hit>],
    ) {
        assert!(keys.len() <= BURST_MAX && keys.len() <= hits.len(), "burst too long");
        // The generation first, then the view: see the module.
        let generation = self.shared.versions.generation();
        self.look();
        let mut best = [u64::MAX; BURST_MAX];
        match &self.view.filter {
            Some(filter) => {
                note_candidates(
                    filter,
                    &self.shared.fields,
                    keys,
                    &mut self.asked,
                    &mut self.order,
                );
            }
            None => {
                let all = u64::MAX.checked_shr((BURST_MAX - keys.len()) as u32).unwrap_or(0);
                self.asked.fill(all);
                self.order.clear();
                self.order.extend(0..self.asked.len() as u16);
            }
        }
        for number in &self.order {
            let asked = std::mem::take(&mut self.asked[usize::from(*number)]);
            if let Some(masked) = &self.view.masks[usize::from(*number)] {
                let at = (&*self.shared.versions, generation);
                ask(masked, participant, at, keys, asked, &mut best);
            }
        }
        for (hit, best) in hits.iter_mut().zip(&best[..keys.len()]) {
            *hit = (*best != u64::MAX).then(|| Hit::of(*best));
        }
    }

    /// Takes the newest view.
    #[inline]
    fn look(&mut self) {
        let version = self.shared.version.load(Acquire);
        if version != self.version {
            (self.view, self.version) = (self.shared.view.load_full(), version);
            self.asked.clear();
            self.asked.resize(self.view.masks.len(), 0);
        }
    }
}

/// Notes the masks that can have a rule for each key: `asked` has a bit for each key, and `order`
/// the masks of which some are asked.
fn note_candidates<const W: usize, const F: usize>(
    filter: &FilterReader<F>,
    fields: &[Field; F],
    keys: &[[u64; W]],
    asked: &mut [u64],
    order: &mut Vec<u16>,
) {
    let (mut values, mut sets) = ([[0; F]; BURST_MAX], [Sets::default(); BURST_MAX]);
    for (values, key) in values.iter_mut().zip(keys) {
        *values = fields.map(|field| field.value(key));
    }
    let (values, sets) = (&values[..keys.len()], &mut sets[..keys.len()]);
    filter.find(values, sets);
    order.clear();
    for (at, sets) in sets.iter().enumerate() {
        for number in filter.candidates(sets) {
            // A filter may know masks that came after the view.
            if let Some(asked) = asked.get_mut(number) {
                if *asked == 0 {
                    order.push(number as u16);
                }
                *asked |= 1 << at;
            }
        }
    }
}

/// Looks up those keys of a burst under a mask that have a bit in `asked`; `best` has the best word
/// of each key so far.
fn ask<const W: usize>(
    under: &Masked<W>,
    participant: &Participant,
    (versions, generation): (&Versions, Generation),
    keys: &[[u64; W]],
    asked: u64,
    best: &mut [u64; BURST_MAX],
) {
    let bound = under.best.load(Acquire);
    let (mut packed, mut places) = ([[0; W]; BURST_MAX], [0_u8; BURST_MAX]);
    let (mut count, mut left) = (0, asked);
    while left != 0 {
        let at = left.trailing_zeros() as usize;
        left &= left - 1;
        if bound < best[at] {
            (packed[count], places[count]) = (masked(&keys[at], &under.mask), at as u8);
            count += 1;
        }
    }
    let mut words = [0; BURST_MAX];
    let mut found = under.entries.lookup_bulk(participant, &packed[..count], &mut words);
    while found != 0 {
        let place = found.trailing_zeros() as usize;
        found &= found - 1;
        let word = versions.at(words[place], generation);
        let best = &mut best[usize::from(places[place])];
        if word != 0 && word < *best {
            *best = word;
        }
    }
}
