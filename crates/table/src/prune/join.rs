//! Precomputed intersections of a filter's sets, which make candidates cheap while the filter
//! rests.
//!
//! A filter alone intersects the sets of all fields for each packet, word by word. A [`Joined`] is
//! a copy of the sets at one moment. In the copy, the sets of the narrow fields (ports, protocol)
//! are joined to one set for each combination. So a packet reads one set for each wide field, and
//! one more.
//!
//! The tree is not copied: a packet goes through the current tree to the numbers of its sets. Then
//! there are three cases:
//!
//! - *All of its sets existed* when the copy was begun. Bits of a set are only ever set, and
//!   changes of bits of tables that the copy knows are counted (`SharedFilter::changes`). While
//!   that count is unchanged, the copy has all tables that it knows.
//! - *One of its sets is newer.* The packet reads the filter's sets.
//! - *The count has changed.* All packets read the filter's sets.
//!
//! Tables that are newer than the copy are searched in the filter's sets, after all others. The
//! count is stored (Release) before the `add` returns that changed a bit, and read (Acquire) before
//! a copy is used: so `add` keeps its promise with a copy too.

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
use super::vectors;
use super::{Burst, Filter, FilterReader, Sets};
use crate::limits::BURST_MAX;
use crate::prefetch::prefetch_at;
use crate::sync::{Acquire, Relaxed};

/// The most wide fields.
pub(super) const WIDE_MAX: usize = 2;

/// Sets that each packet intersects: those of two wide fields, and the joined one of all narrow
/// fields.
pub(super) const PLACES: usize = WIDE_MAX + 1;

/// The most sets there can be, so that an index needs no check.
pub(super) const SETS: usize = 1 << 16;

/// Words that are intersected at a time: a SIMD vector.
pub(super) const CHUNK: usize = 4;

/// Words of a set, aligned for SIMD.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(align(32))]
pub(super) struct Chunk(pub(super) [u64; CHUNK]);

/// The precomputed intersections of a filter's sets; for readers of that filter.
#[derive(Debug)]
pub struct Joined<const F: usize> {
    /// Tables below this number are in the copy.
    pub(super) tables: usize,
    /// The filter's count of changes at the start.
    pub(super) changes: u64,
    /// Sets of the filter with a smaller number are known if values lead to them.
    pub(super) sets_count: usize,
    /// Number of chunks of a set.
    pub(super) chunks: usize,
    pub(super) sets: Vec<Chunk>,
    /// By number of a set: the place of its copy in `sets`, or, for a narrow field, what it adds to
    /// the index in `narrow`. Zero for a set that is not known.
    pub(super) steps: Box<[u32; SETS]>,
    /// Places of joined sets; zero if a set is not known.
    pub(super) narrow: Vec<u32>,
}

impl<const F: usize> Joined<F> {
    /// Tables below this number are known.
    #[must_use]
    pub fn tables(&self) -> usize {
        self.tables
    }

    /// Number of the filter's sets that are known.
    #[must_use]
    pub fn sets_count(&self) -> usize {
        self.sets_count
    }

    /// Memory, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.sets) + 4 * self.sets_count + size_of_val(&*self.narrow)
    }

    /// Number of complete words; the last word is left to the filter if that has more tables.
    #[inline(always)]
    fn whole(&self, tables: usize) -> usize {
        if tables > self.tables { self.tables / 64 } else { self.tables.div_ceil(64) }
    }

    /// Whether it has everything that the filter has.
    #[must_use]
    pub fn is_whole(&self, filter: &Filter<F>, tables: usize) -> bool {
        self.holds(filter) && self.tables == tables && self.sets_count() == filter.sets_count()
    }

    /// Whether it is usable: no set that it knows got a table that it knows.
    #[must_use]
    pub fn holds(&self, filter: &Filter<F>) -> bool {
        filter.shared.changes.load(Relaxed) == self.changes
    }

    /// The places of a packet's sets; some are zero if a set is not known. `WIDE` is the number of
    /// wide fields.
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

    /// Finds the places of a burst's sets from their numbers, and prefetches the first line of
    /// each. False if some set is not known.
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

    /// The first nonzero word of the intersection, from word `from` on.
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

    /// The first nonzero word of the intersection, and whether it is certainly the last one.
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

/// The intersection of some sets.
#[inline(always)]
pub(super) fn joint(sets: [&Chunk; PLACES]) -> [u64; CHUNK] {
    let [one, other, third] = sets.map(|set| &set.0);
    std::array::from_fn(|word| one[word] & other[word] & third[word])
}

/// The first nonzero word with its index, and whether it is certainly the last one.
pub(super) type First = ((u32, u64), bool);

/// After all words.
pub(super) const END: (u32, u64) = (u32::MAX, 0);

/// One implementation of a burst's way through a filter.
pub(super) trait FilterPass<const F: usize> {
    /// Finds the numbers of the sets of the first `count` packets.
    fn numbers(&self, reader: &FilterReader<F>, burst: &mut Burst<F>, count: usize);

    /// Finds the places in the precomputed intersections; false if some set is not known. `wide` is
    /// the number of wide fields.
    fn place(&self, joined: &Joined<F>, wide: usize, burst: &mut Burst<F>, count: usize) -> bool;

    /// Finds the first nonzero word of each packet's intersection, and the packets without any
    /// after it.
    fn first(&self, joined: &Joined<F>, burst: &mut Burst<F>, count: usize);
}

/// One packet after the other, for any processor.
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
    /// Finds the sets of the first `count` packets, and the first nonzero word of each packet's
    /// intersection. The filter has `tables` tables. Uses the precomputed intersections of this
    /// filter, if given.
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

    /// [`FilterReader::find_first`] with one implementation.
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

    /// Moves packet `at` to the next nonzero word of its intersection. The filter has `tables`
    /// tables; `joined` is that of the burst's [`FilterReader::find_first`]. After all words the
    /// packet has no tables.
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

    /// The first nonzero word of the intersection from word `from` on, with its index.
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

    /// The results of a burst by each implementation that the processor supports; all have to equal
    /// those of the plain one.
    fn all_ways<const F: usize>(
        reader: &FilterReader<F>,
        joined: Option<&Joined<F>>,
        tables: usize,
        values: &[[u32; F]],
    ) -> Burst<F> {
        let mut burst = Burst::default();
        // Results of an earlier burst do not matter.
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
            // If the processor supports it, it is the best one.
            if super::super::avx512::Avx512::detect().is_none() {
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

    /// Sets of few tables, so that the first common table is anywhere or does not exist.
    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn packets_find_the_same_first_word_with_and_without_simd() {
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
