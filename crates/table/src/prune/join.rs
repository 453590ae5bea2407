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
use super::{Burst, Filter, FilterReader, Sets};
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
    fn places<const WIDE: usize>(&self, number: impl Fn(usize) -> u32) -> [u32; PLACES] {
        let step = |field: usize| self.steps[number(field) as usize % SETS];
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
    fn place<const WIDE: usize>(&self, burst: &mut Burst<F>, count: usize) -> bool {
        let mut least = u32::MAX;
        for at in 0..count.min(BURST_MAX) {
            let places = self.places::<WIDE>(|field| burst.numbers[field][at]);
            for (all, place) in burst.places.iter_mut().zip(places) {
                all[at] = place;
                least = least.min(place);
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

    /// The first word with common tables, and whether it is the last one for sure.
    #[inline(always)]
    fn first(&self, places: &[u32; PLACES]) -> First {
        for at in 0..self.chunks {
            let all = joint(self.sets_at(places, at));
            if let Some(word) = (0..CHUNK).find(|&word| all[word] != 0) {
                let is_last = at + 1 == self.chunks && all[word + 1..] == [0; CHUNK][word + 1..];
                return (((CHUNK * at + word) as u32, all[word]), is_last);
            }
        }
        (END, true)
    }
}

/// Tables that are in all of some sets.
#[inline(always)]
pub(super) fn joint(sets: [&Chunk; PLACES]) -> [u64; CHUNK] {
    let [one, other, third] = sets.map(|set| &set.0);
    std::array::from_fn(|word| one[word] & other[word] & third[word])
}

/// The first word with common tables and which, and whether it is the last one for sure.
pub(super) type First = ((u32, u64), bool);

/// Behind all words.
pub(super) const END: (u32, u64) = (u32::MAX, 0);

/// How a burst goes through a filter.
pub(super) trait FilterPass<const F: usize> {
    /// Finds the numbers of the sets of the first `count` packets.
    fn numbers(&self, reader: &FilterReader<F>, burst: &mut Burst<F>, count: usize);

    /// From there to places in what was joined; whether all are known. `wide` fields are wide.
    fn place(&self, joined: &Joined<F>, wide: usize, burst: &mut Burst<F>, count: usize) -> bool;

    /// From there to the first word of common tables; and who has none behind it.
    fn first(&self, joined: &Joined<F>, burst: &mut Burst<F>, count: usize);
}

/// One packet after the other, as every processor can.
pub(super) struct Plain;

impl<const F: usize> FilterPass<F> for Plain {
    #[inline(always)]
    fn numbers(&self, reader: &FilterReader<F>, burst: &mut Burst<F>, count: usize) {
        reader.numbers(burst, count);
    }

    #[inline(always)]
    fn place(&self, joined: &Joined<F>, wide: usize, burst: &mut Burst<F>, count: usize) -> bool {
        match wide {
            0 => joined.place::<0>(burst, count),
            1 => joined.place::<1>(burst, count),
            _ => joined.place::<2>(burst, count),
        }
    }

    #[inline(always)]
    fn first(&self, joined: &Joined<F>, burst: &mut Burst<F>, count: usize) {
        burst.take_firsts(count, |places| joined.first(places));
    }
}

impl<const F: usize> FilterReader<F> {
    /// Finds the sets of the values of the first `count` packets, and the first word of each that
    /// has common tables; of `tables` tables that there are. With the help of what was joined of
    /// this filter.
    #[inline]
    pub fn find_first(
        &self,
        joined: Option<&Joined<F>>,
        tables: usize,
        burst: &mut Burst<F>,
        count: usize,
    ) {
        let count = count.min(BURST_MAX);
        #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
        if vectors::find_first(self, joined, tables, burst, count) {
            return;
        }
        self.find_burst(&Plain, joined, tables, burst, count);
    }

    /// [`FilterReader::find_first`] in a way.
    #[inline(always)]
    pub(super) fn find_burst(
        &self,
        way: &impl FilterPass<F>,
        joined: Option<&Joined<F>>,
        tables: usize,
        burst: &mut Burst<F>,
        count: usize,
    ) {
        way.numbers(self, burst, count);
        burst.last = 0;
        let holds = |joined: &&Joined<F>| self.shared.changes.load(Acquire) == joined.changes;
        let Some(joined) = joined.filter(holds) else {
            self.prefetch(burst, count);
            for at in 0..count {
                burst.places.iter_mut().for_each(|places| places[at] = 0);
                burst.set_left(at, self.next_live(&burst.sets_at(at), 0, tables));
            }
            return;
        };
        let known = way.place(joined, self.shared.wide, burst, count);
        way.first(joined, burst, count);
        if !known || tables > joined.tables {
            burst.last = 0;
            let whole = joined.whole(tables) as u32;
            for at in 0..count {
                if burst.is_new(at) || burst.words[at % BURST_MAX] >= whole {
                    burst.set_left(at, self.word_from(Some(joined), burst, at, 0, tables));
                }
            }
        }
    }

    /// Takes packet `at` on to the next word that has common tables; of `tables` tables that there
    /// are. With `joined`, by which the burst was found. Behind all words there is none, and it has
    /// no tables.
    #[inline]
    pub fn next_word(
        &self,
        joined: Option<&Joined<F>>,
        burst: &mut Burst<F>,
        at: usize,
        tables: usize,
    ) {
        let (word, _) = burst.left(at);
        let next = self.word_from(joined, burst, at, (word as usize).saturating_add(1), tables);
        burst.set_left(at, next);
    }

    /// The first word that has common tables, from word `from` on, and which.
    fn word_from(
        &self,
        joined: Option<&Joined<F>>,
        burst: &Burst<F>,
        at: usize,
        from: usize,
        tables: usize,
    ) -> (u32, u64) {
        let mut from = from;
        if let Some(joined) = joined.filter(|_| !burst.is_new(at)) {
            let whole = joined.whole(tables);
            if let Some((word, bits)) = joined.next(&burst.places_at(at), from)
                && word < whole
            {
                return (word as u32, bits);
            }
            from = from.max(whole);
        }
        self.next_live(&burst.sets_at(at), from, tables)
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

    const FIELDS: [Bits; 5] =
        [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen, Bits::Eight];

    fn config<const F: usize>(fields: [Bits; F], tables_max: usize) -> FilterConfig<F> {
        FilterConfig { fields, tables_max, rules_max: 20_000, pages: Pages::Small }
    }

    fn draws(seed: u32) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(0x915f_77f5).wrapping_add(1);
            (state >> 8) % below
        }
    }

    fn join<const F: usize>(filter: &mut Filter<F>, tables: usize) -> Joined<F> {
        let mut joining = filter.join(tables).unwrap();
        while joining.proceed(filter, 1_000) == Progress::Open {}
        joining.into_joined()
    }

    /// What is found of a burst by each way that the processor has and by the plain one, which is
    /// to be the same.
    fn all_ways<const F: usize>(
        reader: &FilterReader<F>,
        joined: Option<&Joined<F>>,
        tables: usize,
        values: &[[u32; F]],
    ) -> Burst<F> {
        let mut burst = Burst::default();
        // What an earlier burst left does not count.
        (0..BURST_MAX).for_each(|at| burst.set(at, [u32::MAX; F]));
        values.iter().enumerate().for_each(|(at, values)| burst.set(at, *values));
        let mut plain = burst.clone();
        reader.find_burst(&Plain, joined, tables, &mut plain, values.len());
        let some = u64::MAX.checked_shr((BURST_MAX - values.len()) as u32).unwrap_or(0);
        let mut best = burst.clone();
        reader.find_first(joined, tables, &mut best, values.len());
        let mut ways = vec![("the best way", best)];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let mut found = burst.clone();
            match vectors::find_by_avx2(reader, joined, tables, &mut found, values.len()) {
                true => ways.push(("AVX2", found)),
                false => println!("SKIP the filter by AVX2: the processor cannot"),
            }
            // Where it can it is the best way.
            if super::super::sixteen::Sixteen::detect().is_none() {
                println!("SKIP the filter by sixteen at once: the processor cannot");
            }
        }
        for (way, found) in ways {
            for at in 0..values.len() {
                let all = |burst: &Burst<F>| {
                    (burst.sets_at(at).numbers, burst.places_at(at), burst.left(at))
                };
                let count = values.len();
                assert_eq!(all(&found), all(&plain), "{way}, {at} of {count}: {values:x?}");
            }
            assert_eq!(found.last & some, plain.last & some, "{way}");
        }
        plain
    }

    /// Sets of few tables, so that the first common one is anywhere or there is none.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn packets_find_the_same_first_word_with_and_without_vectors() {
        let mut filter =
            Filter::new(config([Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen], 700)).unwrap();
        let mut draw = draws(1);
        for table in 0..700 {
            let span = Span::one(draw(12));
            filter.add(table, &[span, Span::one(draw(12)), Span::one(draw(7))]).unwrap();
        }
        let (joined, reader) = (join(&mut filter, 700), filter.reader());
        let values: Vec<[u32; 3]> = (0..BURST_MAX).map(|_| [draw(12), draw(12), draw(7)]).collect();
        for count in [0, 1, 63, 64] {
            let found = all_ways(&reader, Some(&joined), 700, &values[..count]);
            let some = (0..count).filter(|at| found.left(*at).0 < 11).count();
            assert!(count < 63 || (20..count).contains(&some), "{some} of {count}");
        }
        // Newer sets, and newer tables.
        filter.add(3, &[Span::one(5), Span::one(100), Span::one(5)]).unwrap();
        all_ways(&reader, Some(&joined), 700, &values);
        all_ways(&reader, Some(&join(&mut filter, 640)), 700, &values);
    }

    /// A span of values near a few places, so that blocks have one range, some, or very many.
    fn near(bits: Bits, draw: &mut impl FnMut(u32) -> u32) -> Span {
        let place = [0, 0x0001_0000, 0x0a01_0000, 0x0a02_0300, 0xc0a8_0100, 0xffff_0000];
        let value = match bits {
            Bits::ThirtyTwo => place[draw(6) as usize] + draw(0x100) * (draw(2) * 0xfe + 1),
            _ => 0x1234 + draw(3) * 0xff,
        };
        match draw(12) {
            0 => Span::ALL,
            1 => Span { low: value & bits.value_max(), high: u32::MAX },
            _ => Span::prefix(bits, value, bits.count() - draw(9)),
        }
    }

    /// Every kind of node, in a group whose words of tables fill one chunk or more.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn packets_take_the_same_steps_with_and_without_vectors() {
        for (seed, tables) in [(1, 60), (2, 250), (3, 700)] {
            let mut filter = Filter::new(config(FIELDS, tables)).unwrap();
            let mut draw = draws(seed);
            for rule in 0..1500 {
                let spans = FIELDS.map(|bits| near(bits, &mut draw));
                filter.add(rule % tables, &spans).unwrap();
            }
            let (joined, reader) = (filter.join(tables), filter.reader());
            let joined = joined.and_then(|mut joining| {
                while joining.proceed(&filter, 1_000) == Progress::Open {}
                (joining.proceed(&filter, 1_000) == Progress::Done).then(|| joining.into_joined())
            });
            let mut found = 0;
            for _ in 0..500 {
                let mut value = |bits| {
                    let Span { low, high } = near(bits, &mut draw);
                    [low, high, low.wrapping_sub(1), high.wrapping_add(1)][draw(4) as usize]
                        & bits.value_max()
                };
                let values: Vec<_> = (0..BURST_MAX).map(|_| FIELDS.map(&mut value)).collect();
                let count = 1 + value(Bits::Eight) as usize % BURST_MAX;
                let burst = all_ways(&reader, joined.as_ref(), tables, &values[..count]);
                found += (0..count).filter(|at| burst.left(*at).1 != 0).count();
            }
            assert!(joined.is_some() && found > 1_000, "{found}");
        }
    }
}
