//! The sets of a filter joined ahead: what makes a packet's candidates cheap while a filter rests.
//!
//! A filter alone joins the sets of all fields when a packet comes, word by word. A [`Joined`] is a
//! copy of the sets as they were at one moment, in which those of the narrow fields (ports,
//! protocol) are joined to one set for each combination there is; so that a packet takes as many
//! sets as there are wide fields, and one more.
//!
//! The tree is not copied: a packet goes through it as it is now, to the numbers of its sets. Then
//! one of three is true:
//!
//! - *All of its sets were there* when the copy was begun. Bits of a set are only ever set, and
//!   bits of tables that the copy knows are counted (`Shared::changes`); while that count is what
//!   it was, the copy has all tables that it knows.
//! - *One of its sets is newer.* The packet takes the filter's sets.
//! - *The count is another.* All packets take the filter's sets.
//!
//! Tables that are newer than the copy are looked for in the filter's sets, behind all others. The
//! count is stored (Release) before the `add` returns that changed a bit, and read (Acquire) before
//! a copy is used: so `add` promises what it does without a copy.

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
use super::vectors;
use super::{Filter, FilterReader, Sets};
use crate::limits::BURST_MAX;
use crate::prefetch::prefetch_at;
use crate::sync::{Acquire, Relaxed};

/// Wide fields at most.
pub(super) const WIDE_MAX: usize = 2;

/// Sets that are joined when a packet comes: of two wide fields, and of all narrow ones.
pub(super) const PLACES: usize = WIDE_MAX + 1;

/// Numbers of sets: all that there can be, so that an index needs no check.
pub(super) const SETS: usize = 1 << 16;

/// Words that are joined at a time: a vector.
pub(super) const CHUNK: usize = 4;

/// Words of a set, aligned as vectors want them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(align(32))]
pub(super) struct Chunk(pub(super) [u64; CHUNK]);

/// A filter's sets, joined; for readers of that filter.
#[derive(Debug)]
pub struct Joined<const F: usize> {
    /// Tables below this number are in the copy.
    pub(super) tables: usize,
    /// What the count of changes was.
    pub(super) changes: u64,
    /// Sets of the filter with a smaller number are known, if values lead to them.
    pub(super) sets_count: usize,
    /// Chunks of a set.
    pub(super) chunks: usize,
    pub(super) sets: Vec<Chunk>,
    /// By number of a set: the place of its copy in `sets`, or, of a narrow field, what it adds to
    /// the index in `narrow`. Zero for a set that is not known.
    pub(super) steps: Box<[u32; SETS]>,
    /// Places of joined sets; zero where a set is not known.
    pub(super) narrow: Vec<u32>,
}

impl<const F: usize> Joined<F> {
    /// Tables below this number are known.
    #[must_use]
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Sets of the filter that are known.
    #[must_use]
    pub fn sets_count(&self) -> usize {
        self.sets_count
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets) + 4 * self.sets_count + size_of_val(&*self.narrow)
    }

    /// Words of which all is known: a last one is left to the filter where that has more tables.
    #[inline(always)]
    fn whole(&self, tables: usize) -> usize {
        if tables > self.tables { self.tables / 64 } else { self.tables.div_ceil(64) }
    }

    /// Whether it has all that the filter has.
    #[must_use]
    pub fn is_whole(&self, filter: &Filter<F>, tables: usize) -> bool {
        self.holds(filter) && self.tables == tables && self.sets_count() == filter.sets_count()
    }

    /// Whether it is of use: no set that it knows got a table that it knows.
    #[must_use]
    pub fn holds(&self, filter: &Filter<F>) -> bool {
        filter.shared.changes.load(Relaxed) == self.changes
    }

    /// Where the sets are that a packet takes; zeros among them if one is not known. `WIDE` is how
    /// many fields are wide.
    #[inline(always)]
    fn places<const WIDE: usize>(&self, numbers: &[u16; F]) -> [u32; PLACES] {
        let step = |field: usize| self.steps[usize::from(numbers[field])];
        let index = (WIDE..F).fold(0, |index, field| index + step(field));
        let mut places = [self.chunks as u32; PLACES];
        for (field, place) in places.iter_mut().enumerate().take(WIDE) {
            *place = step(field);
        }
        places[WIDE] = self.narrow.get(index as usize).copied().unwrap_or(0);
        places
    }

    /// From the numbers of a burst's sets to places, of whose sets the first lines are asked for.
    /// Whether all are known.
    #[inline(always)]
    fn place<const WIDE: usize>(&self, sets: &mut [Sets<F>]) -> bool {
        let mut least = u32::MAX;
        for sets in sets {
            sets.places = self.places::<WIDE>(&sets.numbers);
            least = sets.places.into_iter().fold(least, u32::min);
            for place in sets.places {
                prefetch_at(self.sets.as_ptr().wrapping_add(place as usize));
            }
        }
        least != 0
    }

    /// The first word with common tables, from chunk `at` on, without those before word `from`.
    #[inline(always)]
    fn next(&self, places: &[u32; PLACES], from: usize) -> Option<(usize, u64)> {
        let (mut at, mut skip) = (from / CHUNK, from % CHUNK);
        while at < self.chunks {
            let all = joint(self.sets_at(places, at));
            if let Some(word) = (skip..CHUNK).find(|&word| all[word] != 0) {
                return Some((CHUNK * at + word, all[word]));
            }
            (at, skip) = (at + 1, 0);
        }
        None
    }

    #[inline(always)]
    pub(super) fn sets_at(&self, places: &[u32; PLACES], at: usize) -> [&Chunk; PLACES] {
        places.map(|place| &self.sets[place as usize + at])
    }

    /// The first word with common tables.
    #[inline(always)]
    pub(super) fn first(&self, places: &[u32; PLACES]) -> (u32, u64) {
        self.next(places, 0).map_or(END, |(word, bits)| (word as u32, bits))
    }
}

/// Tables that are in all of some sets.
#[inline(always)]
pub(super) fn joint(sets: [&Chunk; PLACES]) -> [u64; CHUNK] {
    let [one, other, third] = sets.map(|set| &set.0);
    std::array::from_fn(|word| one[word] & other[word] & third[word])
}

/// Behind all words.
pub(super) const END: (u32, u64) = (u32::MAX, 0);

impl<const F: usize> FilterReader<F> {
    /// [`FilterReader::find`], and the first word of each packet that has common tables; of
    /// `tables` tables that there are. With the help of what was joined of this filter.
    #[inline]
    pub fn find_first(
        &self,
        joined: Option<&Joined<F>>,
        tables: usize,
        values: &[[u32; F]],
        sets: &mut [Sets<F>],
    ) {
        for (values, sets) in values.chunks(BURST_MAX).zip(sets.chunks_mut(BURST_MAX)) {
            #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
            if vectors::find_first(self, joined, tables, values, sets) {
                continue;
            }
            self.find_burst(Joined::first, joined, tables, values, sets);
        }
    }

    /// [`FilterReader::find_first`] for a burst; `first` finds a packet's first word.
    #[inline(always)]
    pub(super) fn find_burst(
        &self,
        first: impl Fn(&Joined<F>, &[u32; PLACES]) -> (u32, u64),
        joined: Option<&Joined<F>>,
        tables: usize,
        values: &[[u32; F]],
        sets: &mut [Sets<F>],
    ) {
        self.numbers(values, sets);
        let holds = |joined: &&Joined<F>| self.shared.changes.load(Acquire) == joined.changes;
        let Some(joined) = joined.filter(holds) else {
            self.prefetch(sets);
            for sets in sets {
                sets.places = [0; PLACES];
                (sets.word, sets.bits) = self.next_live(sets, 0, tables);
            }
            return;
        };
        let known = match self.shared.wide {
            0 => joined.place::<0>(sets),
            1 => joined.place::<1>(sets),
            _ => joined.place::<2>(sets),
        };
        for sets in &mut *sets {
            (sets.word, sets.bits) = first(joined, &sets.places);
        }
        if !known || tables > joined.tables {
            let whole = joined.whole(tables) as u32;
            for sets in sets.iter_mut().filter(|sets| sets.is_new() || sets.word >= whole) {
                (sets.word, sets.bits) = self.next_word(Some(joined), sets, 0, tables);
            }
        }
    }

    /// The first word that has common tables, from word `from` on, and which; of `tables` tables
    /// that there are. With `joined`, by which the sets were found. Behind all words there is
    /// none, and it has no tables.
    #[inline]
    pub fn next_word(
        &self,
        joined: Option<&Joined<F>>,
        sets: &Sets<F>,
        from: usize,
        tables: usize,
    ) -> (u32, u64) {
        let mut from = from;
        if let Some(joined) = joined.filter(|_| !sets.is_new()) {
            let whole = joined.whole(tables);
            if let Some((word, bits)) = joined.next(&sets.places, from)
                && word < whole
            {
                return (word as u32, bits);
            }
            from = from.max(whole);
        }
        self.next_live(sets, from, tables)
    }

    fn next_live(&self, sets: &Sets<F>, from: usize, tables: usize) -> (u32, u64) {
        let words = (from..tables.div_ceil(64)).map(|word| (word as u32, self.word(sets, word)));
        words.into_iter().find(|(_, tables)| *tables != 0).unwrap_or(END)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::Pages;
    use crate::prune::{Bits, FilterConfig, Progress, Span};

    /// Sets of few tables, so that the first common one is anywhere or there is none.
    #[test]
    fn packets_find_the_same_first_word_with_and_without_vectors() {
        let fields = [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen];
        let config = FilterConfig { fields, tables_max: 700, rules_max: 700, pages: Pages::Small };
        let mut filter = Filter::<3>::new(config).unwrap();
        let mut state = 1_u32;
        let mut draw = |below: u32| {
            state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
            (state >> 8) % below
        };
        for table in 0..700 {
            let span = Span::one(draw(12));
            filter.add(table, &[span, Span::one(draw(12)), Span::one(draw(7))]).unwrap();
        }
        let mut joining = filter.join(700).unwrap();
        while joining.proceed(&filter, 1_000) == Progress::Open {}
        let (joined, reader) = (joining.into_joined(), filter.reader());
        let values: Vec<[u32; 3]> = (0..BURST_MAX).map(|_| [draw(12), draw(12), draw(7)]).collect();
        for count in [0, 1, 63, 64] {
            let (mut by_all, mut scalar) = ([Sets::default(); 64], [Sets::default(); 64]);
            reader.find_first(Some(&joined), 700, &values[..count], &mut by_all[..count]);
            let sets = &mut scalar[..count];
            reader.find_burst(Joined::first, Some(&joined), 700, &values[..count], sets);
            let firsts = |sets: [Sets<3>; 64]| sets.map(|sets| (sets.first(), sets.places));
            assert_eq!(firsts(by_all), firsts(scalar));
            let some = scalar[..count].iter().filter(|sets| sets.word < 11).count();
            assert!(count < 63 || (20..count).contains(&some), "{some} of {count}");
        }
    }
}
