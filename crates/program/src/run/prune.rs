//! Which masks of a table can have an entry for a packet: the table's filter.
//!
//! Each mask has a *slot*. A packet is looked up in the slots that the filter
//! (`niclab_table::Filter`) names for it, in their order, until no later one can have a better
//! entry. Slots of prefixes are in the order of their length, so the first entry that is found is
//! the best one; those of other masks are in the order in which the masks came, and each knows the
//! best rank that it and those behind it can have.
//!
//! What a worker sees is there before the word of an entry is stored: the slot of its mask, its
//! rank, and its spans in the filter. So no entry is missed. The filter only grows; where as many
//! entries have come as there were, it is made anew from those that are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use niclab_table::{
    Bits, Burst as Walk, Filter, FilterConfig, FilterReader, FilterRule, Pages, Span,
};

use super::burst::{BURST, Lane, bits};
use super::plan::Piece;
use super::tables::Masked;

/// The parts of a key that the filter looks at: two of 32 bits, two of 16.
const FIELDS: [Bits; 4] = [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen];
const F: usize = FIELDS.len();
/// Masks of one table.
pub(super) const SLOTS_MAX: usize = 1_024;
/// A table of fewer masks is asked in all of them.
const FILTER_MASKS_MIN: usize = 3;
/// Entries that may come before a filter is made anew, at least.
const SPARE_MIN: usize = 4_096;

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

/// The best rank of each slot and those behind it, or better.
#[derive(Debug)]
pub(super) struct Ranks {
    best: Box<[AtomicU64]>,
    rest: Box<[AtomicU64]>,
}

/// The filter of a table, for the control side.
#[derive(Debug, Default)]
pub(super) struct Pruner {
    filter: Option<Either<Filter<1>, Filter<F>>>,
    /// Entries it took since it was made, and how many there were then.
    taken: usize,
    made_with: usize,
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
    pub(super) fn new() -> Ranks {
        let none = || (0..SLOTS_MAX).map(|_| AtomicU64::new(u64::MAX)).collect();
        Ranks { best: none(), rest: none() }
    }

    /// Says that a slot has an entry of this rank.
    pub(super) fn admit(&self, slot: usize, rank: u64) {
        self.best[slot].fetch_min(rank, Ordering::Release);
        for rest in self.rest[..=slot].iter().rev() {
            if rest.fetch_min(rank, Ordering::Release) <= rank {
                break;
            }
        }
    }
}

impl Pruner {
    /// Has an entry found by its packets, where there is a filter.
    pub(super) fn take(&mut self, slot: usize, spans: [Span; F]) {
        let Some(filter) = &mut self.filter else { return };
        self.taken += 1;
        // It knows all slots there can be.
        let _ = match filter {
            Either::One(filter) => filter.add(slot, &[only_of(&spans)]),
            Either::All(filter) => filter.add(slot, &spans),
        };
    }

    /// Whether the filter of so many masks is to be made, or made anew.
    pub(super) fn is_wanted(&self, masks: usize) -> bool {
        match self.filter {
            None => masks >= FILTER_MASKS_MIN,
            Some(_) => self.taken > self.made_with + SPARE_MIN,
        }
    }

    /// Makes the filter of all entries: slot, key and mask of each. Without memory there is none,
    /// and all masks are asked.
    pub(super) fn make(&mut self, parts: &Parts, entries: Vec<(usize, Vec<u64>, &[u64])>) {
        (self.taken, self.made_with) = (0, entries.len());
        let rules_max = 4 * entries.len() + SPARE_MIN;
        let spans = entries.into_iter().map(|(table, key, mask)| (table, parts.spans(&key, mask)));
        self.filter = match parts.only() {
            Some(_) => {
                let rules =
                    spans.map(|(table, spans)| FilterRule { table, spans: [only_of(&spans)] });
                Filter::build(config([Bits::ThirtyTwo], rules_max), rules).ok().map(Either::One)
            }
            None => {
                let rules = spans.map(|(table, spans)| FilterRule { table, spans });
                Filter::build(config(FIELDS, rules_max), rules).ok().map(Either::All)
            }
        };
    }

    pub(super) fn spans(parts: &Parts, key: &[u64], mask: &[u64]) -> [Span; F] {
        parts.spans(key, mask)
    }

    pub(super) fn slots(
        &self,
        masks: Vec<Option<Arc<Masked>>>,
        ranks: &Arc<Ranks>,
        parts: Parts,
    ) -> Slots {
        let filter = self.filter.as_ref().map(|filter| match filter {
            Either::One(filter) => Either::One(filter.reader()),
            Either::All(filter) => Either::All(filter.reader()),
        });
        Slots { masks, ranks: Arc::clone(ranks), filter, parts }
    }
}

fn config<const N: usize>(fields: [Bits; N], rules_max: usize) -> FilterConfig<N> {
    FilterConfig { fields, tables_max: SLOTS_MAX, rules_max, pages: Pages::Huge }
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
    /// The rank of what was found.
    pub ranks: Lane,
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
            ranks: [u64::MAX; BURST],
            slots: [0; BURST],
        }
    }
}

impl Course {
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
        course.ranks = [u64::MAX; BURST];
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
        let rank = course.ranks[at];
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
            if slot >= self.masks.len() || self.ranks.rest[slot].load(Ordering::Acquire) >= rank {
                return false;
            }
            let may = self.ranks.best[slot].load(Ordering::Acquire) < rank;
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
