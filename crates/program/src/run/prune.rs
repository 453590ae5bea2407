//! Which masks of a table can have an entry for a packet: the table's filter.
//!
//! Each mask has a *slot*. A packet is looked up in the slots that the filter
//! (`niclab_table::Filter`) names for it, in their order, until no later one can have a better
//! entry. Slots of prefixes are in the order of their length, so the first entry that is found is
//! the best one; those of other masks are the lowest that were free, and each knows the best rank
//! that it and those behind it can have.
//!
//! What a worker sees is there before the word of an entry is stored: the slot of its mask, its
//! rank, and its spans in the filter. So no entry is missed.
//!
//! A filter only grows. Where three times as many entries have come as there were, it is made anew
//! from those that are left, a few with each that comes, and workers see it when it is complete.
//! Ranks rise then to what they are, and those of a mask as soon as nobody can see an entry of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::{
    Bits, Burst as Walk, Filter, FilterConfig, FilterReader, Pages, Span, TABLES_LIMIT,
};

use super::burst::{BURST, Lane, bits};
use super::content::Mask;
use super::plan::Piece;
use super::record::Rank;
use super::tables::Masked;

/// The parts of a key that the filter looks at: two of 32 bits, two of 16.
const FIELDS: [Bits; 4] = [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen];
const F: usize = FIELDS.len();
/// Slots of one table.
pub(super) const SLOTS_MAX: usize = TABLES_LIMIT;
/// Slots that filters are made for: the fewer, the less they take. One that does not know a slot is
/// given up, and all slots are asked until there is another.
const SLOTS: [usize; 5] = [64, 128, 256, 512, SLOTS_MAX];
/// A table of fewer masks is asked in all of them.
const FILTER_MASKS_MIN: usize = 3;
/// Entries that may come before a filter is made anew, at least.
const SPARE_MIN: usize = 4_096;
/// Groups of entries that a filter takes in with each entry that comes while it is made, and then
/// spans that it lays out: it is complete when a fifth as many have come as there are.
const STEP_GROUPS: usize = 2;
const STEP_SPANS: usize = 16;

/// Bits of a key that the filter looks at.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    at: u32,
    /// None is not looked at.
    bits: u32,
}

/// What of a key the filter looks at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts([Part; F]);

/// What workers see of a table with masks.
#[derive(Debug)]
pub(super) struct Slots {
    /// By slot.
    masks: Vec<Option<Arc<Masked>>>,
    ranks: Arc<Ranks>,
    filter: Option<Reader>,
    parts: Parts,
}

/// A filter of one field of 32 bits, as most tables of prefixes need, or of all.
#[derive(Debug)]
enum Either<A, B> {
    One(A),
    All(B),
}

type Reader = Either<FilterReader<1>, FilterReader<F>>;

/// A bound of the best rank of each slot, and of those behind it.
#[derive(Debug)]
pub(super) struct Ranks {
    best: Box<[AtomicU64]>,
    rest: Box<[AtomicU64]>,
}

/// The filter of a table, for the control side.
#[derive(Debug)]
pub(super) struct Pruner {
    parts: Parts,
    /// Slots there can be.
    slots_max: usize,
    shown: Option<Made>,
    next: Option<Making>,
    /// Entries that came since the filter was begun, and how many there were then.
    taken: usize,
    made_with: usize,
}

/// A filter, and the slots it knows.
#[derive(Debug)]
struct Made {
    filter: Either<Filter<1>, Filter<F>>,
    slots: usize,
}

/// A filter that does not have all entries yet.
#[derive(Debug)]
struct Making {
    made: Made,
    /// Slots whose entries it does not have yet; the last is under way:
    slots: Vec<usize>,
    /// these are the array that was begun, and the next group of it.
    array: u32,
    group: usize,
    /// Bounds of the ranks it has seen, by slot.
    best: Vec<u64>,
}

impl Parts {
    /// Of fields that are matched by masks first, then of the others.
    pub(super) fn of(key: &[Piece], is_masked: impl Fn(&Piece) -> bool) -> Parts {
        let mut parts = Parts::default();
        let masked = key.iter().filter(|piece| is_masked(piece));
        for piece in masked.chain(key.iter().filter(|piece| !is_masked(piece))) {
            for (at, bits) in halves(piece) {
                // The narrowest that is left and wide enough.
                let mut free = parts.0.iter_mut().zip(FIELDS).rev();
                let fits = |(part, of): &(&mut Part, Bits)| part.bits == 0 && of.count() >= bits;
                if let Some((part, _)) = free.find(fits) {
                    *part = Part { at, bits };
                }
            }
        }
        parts
    }

    /// The only part, where it is one of the wide ones.
    fn only(&self) -> Option<usize> {
        let mut there = (0..F).filter(|at| self.0[*at].bits > 0);
        let only = there.next().filter(|_| there.next().is_none())?;
        (FIELDS[only] == Bits::ThirtyTwo).then_some(only)
    }

    /// The values of a key, each with its bits in front: a prefix stays one.
    #[inline(always)]
    fn values(&self, key: &[u64]) -> [u32; F] {
        let mut values = [0; F];
        for ((value, part), of) in values.iter_mut().zip(&self.0).zip(FIELDS) {
            let (word, shift) = (part.at as usize / 64, part.at % 64);
            let low = key.get(word).map_or(0, |word| word >> shift);
            let high = key.get(word + 1).map_or(0, |next| (next << 1) << (63 - shift));
            let number = (low | high) & u64::MAX.checked_shr(64 - part.bits).unwrap_or(0);
            *value = (number << (of.count() - part.bits)) as u32;
        }
        values
    }

    /// The spans of an entry.
    fn spans(&self, key: &[u64], mask: &[u64]) -> [Span; F] {
        let (values, masks) = (self.values(key), self.values(mask));
        std::array::from_fn(|field| {
            let bits = FIELDS[field];
            let ones = (masks[field] << (32 - bits.count())).leading_ones();
            match self.0[field].bits {
                0 => Span::ALL,
                // All bits of a part that is narrower than its field.
                width if ones >= width => Span::prefix(bits, values[field], width),
                _ => Span::prefix(bits, values[field], ones),
            }
        })
    }
}

/// Where the parts of a field are that can be looked at, and their bits: the first bits first.
fn halves(piece: &Piece) -> impl Iterator<Item = (u32, u32)> {
    let first = piece.bits.min(32);
    let rest = piece.bits - first;
    [(piece.at + rest, first), (piece.at, rest)].into_iter().filter(|(_, bits)| *bits > 0)
}

impl Ranks {
    pub(super) fn new(slots: usize) -> Ranks {
        let none = || (0..slots).map(|_| AtomicU64::new(u64::MAX)).collect();
        Ranks { best: none(), rest: none() }
    }

    /// Says that a slot has an entry of this rank.
    pub(super) fn admit(&self, slot: usize, rank: Rank) {
        let bound = rank.bound();
        if self.best[slot].load(Ordering::Relaxed) <= bound {
            return;
        }
        self.best[slot].store(bound, Ordering::Release);
        for rest in self.rest[..=slot].iter().rev() {
            if rest.load(Ordering::Relaxed) <= bound {
                break;
            }
            rest.store(bound, Ordering::Release);
        }
    }

    /// Says that no worker can see an entry below this bound in a slot, which may be above what it
    /// is.
    pub(super) fn raise(&self, slot: usize, bound: u64) {
        if self.best[slot].load(Ordering::Relaxed) >= bound {
            return;
        }
        self.best[slot].store(bound, Ordering::Release);
        let mut behind = self.rest.get(slot + 1).map_or(u64::MAX, |of| of.load(Ordering::Relaxed));
        for (best, rest) in self.best.iter().zip(&self.rest[..=slot]).rev() {
            behind = behind.min(best.load(Ordering::Relaxed));
            if rest.load(Ordering::Relaxed) == behind {
                break;
            }
            rest.store(behind, Ordering::Release);
        }
    }
}

impl Made {
    /// An empty one; `None` without memory.
    fn new(parts: &Parts, slots: usize, rules_max: usize) -> Option<Made> {
        let filter = match parts.only() {
            Some(_) => Filter::new(config([Bits::ThirtyTwo], slots, rules_max)).map(Either::One),
            None => Filter::new(config(FIELDS, slots, rules_max)).map(Either::All),
        };
        Some(Made { filter: filter.ok()?, slots })
    }

    /// Has an entry found by its packets; `later`, when all entries are there.
    fn take(&mut self, slot: usize, spans: &[Span; F], later: bool) {
        // It knows the slot.
        let _ = match (&mut self.filter, later) {
            (Either::One(filter), false) => filter.add(slot, &[only_of(spans)]),
            (Either::One(filter), true) => filter.gather(slot, &[only_of(spans)]),
            (Either::All(filter), false) => filter.add(slot, spans),
            (Either::All(filter), true) => filter.gather(slot, spans),
        };
    }

    /// Lays some spans out; whether there may be more.
    fn lay(&mut self, spans: usize) -> bool {
        match &mut self.filter {
            Either::One(filter) => filter.lay(spans),
            Either::All(filter) => filter.lay(spans),
        }
    }
}

impl Pruner {
    pub(super) fn new(parts: Parts, slots_max: usize) -> Pruner {
        let slots_max = slots_max.min(SLOTS_MAX);
        Pruner { parts, slots_max, shown: None, next: None, taken: 0, made_with: 0 }
    }

    /// Has an entry found by its packets, where there is a filter. True where workers are to see
    /// that there is none any more.
    pub(super) fn take(&mut self, slot: usize, key: &[u64], mask: &[u64], rank: Rank) -> bool {
        if self.shown.is_none() && self.next.is_none() {
            return false;
        }
        self.taken += 1;
        if self.next.as_ref().is_some_and(|next| slot >= next.made.slots) {
            self.next = None;
        }
        let spans = self.parts.spans(key, mask);
        if let Some(next) = &mut self.next {
            next.made.take(slot, &spans, true);
            next.admit(slot, rank.bound());
        }
        match &mut self.shown {
            Some(shown) if slot >= shown.slots => {
                self.shown = None;
                true
            }
            Some(shown) => {
                shown.take(slot, &spans, false);
                false
            }
            None => false,
        }
    }

    /// Says that the rank of an entry that is there is another one.
    pub(super) fn admit(&mut self, slot: usize, rank: Rank) {
        if let Some(next) = &mut self.next {
            next.admit(slot, rank.bound());
        }
    }

    /// Whether a filter is being made.
    pub(super) fn is_busy(&self) -> bool {
        self.next.is_some()
    }

    /// Takes the making of a filter so many steps further, or begins it where so many masks and
    /// entries want it. True where it is complete, and workers are to see it. `best_of` is the
    /// bound of the best rank that a worker may see in a word.
    pub(super) fn tend(
        &mut self,
        masks: &mut [Option<Mask>],
        (live_masks, live): (usize, usize),
        steps: usize,
        ranks: &Ranks,
        best_of: impl Fn(u64) -> u64,
    ) -> bool {
        let is_wanted = match self.shown {
            None => live_masks >= FILTER_MASKS_MIN,
            Some(_) => self.taken > 3 * self.made_with + SPARE_MIN,
        };
        match &mut self.next {
            None if is_wanted => {
                self.begin(masks, live);
                false
            }
            None => false,
            Some(next) => {
                let is_complete = (0..steps).any(|_| next.step(masks, &self.parts, &best_of));
                if is_complete && let Some(next) = self.next.take() {
                    next.best.iter().enumerate().for_each(|(slot, best)| ranks.raise(slot, *best));
                    self.shown = Some(next.made);
                }
                is_complete
            }
        }
    }

    /// Without memory there is none, and all masks are asked.
    #[cold]
    fn begin(&mut self, masks: &[Option<Mask>], live: usize) {
        (self.taken, self.made_with) = (0, live);
        let fits = |slots: &usize| 2 * masks.len() <= *slots;
        let slots = SLOTS.into_iter().find(fits).unwrap_or(SLOTS_MAX).min(self.slots_max);
        let made = Made::new(&self.parts, slots, 5 * live + 2 * SPARE_MIN);
        self.next = made.map(|made| Making {
            made,
            slots: (0..masks.len()).filter(|slot| masks[*slot].is_some()).collect(),
            array: 0,
            group: 0,
            best: vec![u64::MAX; masks.len()],
        });
    }

    pub(super) fn slots(&self, masks: Vec<Option<Arc<Masked>>>, ranks: &Arc<Ranks>) -> Slots {
        let filter = self.shown.as_ref().map(|made| match &made.filter {
            Either::One(filter) => Either::One(filter.reader()),
            Either::All(filter) => Either::All(filter.reader()),
        });
        Slots { masks, ranks: Arc::clone(ranks), filter, parts: self.parts }
    }
}

impl Making {
    fn admit(&mut self, slot: usize, bound: u64) {
        if self.best.len() <= slot {
            self.best.resize(slot + 1, u64::MAX);
        }
        self.best[slot] = self.best[slot].min(bound);
    }

    /// Takes some entries in, or lays some spans out; whether that is all.
    fn step(
        &mut self,
        masks: &mut [Option<Mask>],
        parts: &Parts,
        best_of: impl Fn(u64) -> u64,
    ) -> bool {
        let Some(&slot) = self.slots.last() else { return !self.made.lay(STEP_SPANS) };
        let Some(mask) = masks.get_mut(slot).and_then(Option::as_mut) else {
            self.done();
            return false;
        };
        // While it grows its entries are in two places.
        let Some((array, groups)) = mask.entries.array() else {
            mask.entries.advance(STEP_GROUPS);
            return false;
        };
        if array != self.array {
            (self.array, self.group) = (array, 0);
        }
        for _ in 0..STEP_GROUPS {
            let mut best = u64::MAX;
            let made = &mut self.made;
            mask.entries.visit(self.group, &mut |key, word| {
                made.take(slot, &parts.spans(key, &mask.mask), true);
                best = best.min(best_of(word));
            });
            self.admit(slot, best);
            self.group += 1;
            if self.group >= groups {
                self.done();
                break;
            }
        }
        false
    }

    /// Goes on with the next slot.
    fn done(&mut self) {
        self.slots.pop();
        (self.array, self.group) = (0, 0);
    }
}

fn config<const N: usize>(fields: [Bits; N], slots: usize, rules_max: usize) -> FilterConfig<N> {
    FilterConfig { fields, tables_max: slots, rules_max, pages: Pages::Huge }
}

/// The span of the only part that is looked at: the others are of all values.
fn only_of(spans: &[Span; F]) -> Span {
    spans.iter().copied().find(|span| *span != Span::ALL).unwrap_or(Span::ALL)
}

/// Packets on their way through the slots of a table, by the place of their keys.
#[derive(Debug)]
pub(super) struct Course {
    one: Walk<1>,
    all: Walk<F>,
    /// The word of slots that a packet is at, and which are left of it.
    words: [usize; BURST],
    left: Lane,
    /// The rank of what was found, and its limit.
    ranks: [Rank; BURST],
    limits: Lane,
    /// The slot that a packet is to be asked in next.
    slots: [usize; BURST],
}

impl Course {
    pub(super) fn new() -> Course {
        Course {
            one: Walk::default(),
            all: Walk::default(),
            words: [0; BURST],
            left: [0; BURST],
            ranks: [Rank::LAST; BURST],
            limits: [u64::MAX; BURST],
            slots: [0; BURST],
        }
    }

    /// Takes note of an entry for a packet; whether it is better than what was found before.
    #[inline(always)]
    pub(super) fn found(&mut self, at: usize, rank: Rank) -> bool {
        let is_better = rank < self.ranks[at];
        if is_better {
            (self.ranks[at], self.limits[at]) = (rank, rank.limit());
        }
        is_better
    }

    /// Takes a word of slots that a packet is led to.
    #[inline(always)]
    fn take(&mut self, at: usize, (word, left): (u32, u64)) {
        (self.words[at], self.left[at]) = (word as usize, left);
    }
}

impl Slots {
    /// Keys of a packet.
    pub(super) fn words(&self) -> Option<usize> {
        self.masks.iter().flatten().next().map(|masked| masked.entries.words())
    }

    /// Takes packets in whose keys are these, one behind the other; those that have a slot to be
    /// asked in.
    pub(super) fn begin(
        &self,
        course: &mut Course,
        keys: &[u64],
        words: usize,
        count: usize,
    ) -> u64 {
        course.ranks = [Rank::LAST; BURST];
        course.limits = [u64::MAX; BURST];
        course.words = [0; BURST];
        let slots = self.masks.len();
        let keys = keys.chunks_exact(words).take(count).enumerate();
        match &self.filter {
            Some(Either::One(filter)) => {
                let only = self.parts.only().unwrap_or(0);
                keys.for_each(|(at, key)| course.one.set(at, [self.parts.values(key)[only]]));
                filter.find_first(None, slots, &mut course.one, count);
                (0..count).for_each(|at| course.take(at, course.one.left(at)));
            }
            Some(Either::All(filter)) => {
                keys.for_each(|(at, key)| course.all.set(at, self.parts.values(key)));
                filter.find_first(None, slots, &mut course.all, count);
                (0..count).for_each(|at| course.take(at, course.all.left(at)));
            }
            None => course.left = [self.word(0); BURST],
        }
        let all = u64::MAX.checked_shr(64 - count as u32).unwrap_or(0);
        bits(all).filter(|&at| self.next(course, at)).fold(0, |mask, at| mask | 1 << at)
    }

    /// All slots of a word, without a filter.
    fn word(&self, word: usize) -> u64 {
        let count = self.masks.len().saturating_sub(64 * word).min(64);
        u64::MAX.checked_shr(64 - count as u32).unwrap_or(0)
    }

    /// Finds the next slot that may have a better entry than was found for a packet.
    #[inline]
    pub(super) fn next(&self, course: &mut Course, at: usize) -> bool {
        let limit = course.limits[at];
        loop {
            if course.left[at] == 0 {
                if 64 * (course.words[at] + 1) >= self.masks.len() {
                    return false;
                }
                let slots = self.masks.len();
                match &self.filter {
                    Some(Either::One(filter)) => {
                        filter.next_word(None, &mut course.one, at, slots);
                        course.take(at, course.one.left(at));
                    }
                    Some(Either::All(filter)) => {
                        filter.next_word(None, &mut course.all, at, slots);
                        course.take(at, course.all.left(at));
                    }
                    None => {
                        course.words[at] += 1;
                        course.left[at] = self.word(course.words[at]);
                    }
                }
                if course.left[at] == 0 {
                    return false;
                }
                continue;
            }
            let slot = 64 * course.words[at] + course.left[at].trailing_zeros() as usize;
            course.left[at] &= course.left[at] - 1;
            if slot >= self.masks.len() || self.ranks.rest[slot].load(Ordering::Acquire) >= limit {
                return false;
            }
            let may = self.ranks.best[slot].load(Ordering::Acquire) < limit;
            if may && self.masks[slot].is_some() {
                course.slots[at] = slot;
                return true;
            }
        }
    }

    /// Of the packets that are open, those that are to be asked in the same slot as the first, and
    /// its mask.
    #[inline]
    pub(super) fn together(&self, course: &Course, open: u64) -> (u64, Option<&Arc<Masked>>) {
        let slot = course.slots[open.trailing_zeros() as usize % BURST];
        let same = bits(open).filter(|&at| course.slots[at] == slot);
        let masked = self.masks.get(slot).and_then(Option::as_ref);
        (same.fold(0, |mask, at| mask | 1 << at), masked)
    }
}
