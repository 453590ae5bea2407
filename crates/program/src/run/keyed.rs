//! Tables under keys whose length is known when a program is loaded: a tuple space
//! (`niclab_table::TupleSpace`) each.

use niclab_table::{
    CreateError, Hasher, InsertError, KEY_WORDS_MAX, QsbrDomain, TernaryError, TupleConfig,
    TupleReader, TupleSpace,
};

use super::burst::LaneValues;
use super::plan::Engine;
use super::tables::Reading;

/// The reading end: keys one behind the other, in words.
pub(super) trait Lookup: Send + std::fmt::Debug {
    /// Words of a key.
    fn words(&self) -> usize;
    /// Looks up as many keys as there are, at most a burst: bit `i` of the result says whether
    /// there is a word for key `i`, which is then in `words[i]`.
    fn find(&mut self, keys: &[u64], how: Engine, of: &Reading<'_>, words: &mut LaneValues) -> u64;
    /// As [`TupleReader::release_view`].
    fn release_view(&mut self);
}

/// Takes a mask, a key and its word.
pub(super) type See<'a> = dyn FnMut(&[u64], &[u64], u64) + 'a;

/// The writing end, as [`TupleSpace`] has it.
pub(super) trait Keyed: Send + std::fmt::Debug {
    fn number(&self, mask: &[u64]) -> Option<usize>;
    fn number_for(&mut self, mask: &[u64]) -> Result<usize, TernaryError>;
    fn word(&self, number: usize, key: &[u64]) -> u64;
    fn admit(&mut self, at: (usize, &[u64]), current: u64, bound: u64);
    fn store(&mut self, at: (usize, &[u64]), current: u64, word: u64) -> Result<(), InsertError>;
    fn advance_filter(&mut self, steps: usize, bound_of: &dyn Fn(u64, u64) -> u64);
    fn run_housekeeping(&mut self, steps: usize, bound_of: &dyn Fn(u64, u64) -> u64) -> bool;
    fn reader(&self) -> Box<dyn Lookup>;
    /// Shows all masks, keys and words, in no order.
    fn each(&self, see: &mut See<'_>);
}

/// A key of the wrong length is none: whoever makes keys knows the length.
fn fixed<const W: usize>(key: &[u64]) -> &[u64; W] {
    key.first_chunk().unwrap_or(const { &[0; W] })
}

impl<const W: usize> Lookup for TupleReader<W> {
    fn words(&self) -> usize {
        W
    }

    fn find(&mut self, keys: &[u64], how: Engine, of: &Reading<'_>, words: &mut LaneValues) -> u64 {
        let (keys, participant) = (keys.as_chunks::<W>().0, of.participant);
        match how {
            Engine::Wildcard => {
                let rank_of = |word, _| {
                    let word = of.now(word);
                    (word != 0).then(|| (word, of.records.rank_of(word)))
                };
                TupleReader::find(self, participant, keys, rank_of, words)
            }
            // All entries under one mask are of one rank.
            _ => {
                let rank_of = |word, bound: u64| {
                    let word = of.now(word);
                    (word != 0).then_some((word, bound))
                };
                TupleReader::find(self, participant, keys, rank_of, words)
            }
        }
    }

    fn release_view(&mut self) {
        TupleReader::release_view(self);
    }
}

impl<const W: usize> Keyed for TupleSpace<W> {
    fn number(&self, mask: &[u64]) -> Option<usize> {
        TupleSpace::number(self, fixed(mask))
    }

    fn number_for(&mut self, mask: &[u64]) -> Result<usize, TernaryError> {
        TupleSpace::number_for(self, fixed(mask))
    }

    fn word(&self, number: usize, key: &[u64]) -> u64 {
        TupleSpace::word(self, number, fixed(key))
    }

    fn admit(&mut self, (number, key): (usize, &[u64]), current: u64, bound: u64) {
        TupleSpace::admit(self, number, fixed(key), current, bound);
    }

    fn store(
        &mut self,
        (number, key): (usize, &[u64]),
        current: u64,
        word: u64,
    ) -> Result<(), InsertError> {
        TupleSpace::store(self, number, fixed(key), current, word)
    }

    fn advance_filter(&mut self, steps: usize, bound_of: &dyn Fn(u64, u64) -> u64) {
        TupleSpace::advance_filter(self, steps, bound_of);
    }

    fn run_housekeeping(&mut self, steps: usize, bound_of: &dyn Fn(u64, u64) -> u64) -> bool {
        TupleSpace::run_housekeeping(self, steps, bound_of)
    }

    fn reader(&self) -> Box<dyn Lookup> {
        Box::new(TupleSpace::reader(self))
    }

    fn each(&self, see: &mut See<'_>) {
        self.iter().for_each(|(_, mask, key, word)| see(&mask, &key, word));
    }
}

/// Words of keys that there are tables for; a key gets the next.
const WIDTHS: [usize; 8] = [1, 2, 3, 4, 6, 8, 12, KEY_WORDS_MAX];

/// How many words a key of so many bits gets.
pub(super) fn words_of(bits: u32) -> usize {
    let words = bits.div_ceil(64) as usize;
    WIDTHS.into_iter().find(|width| *width >= words).unwrap_or(KEY_WORDS_MAX)
}

/// The hash of a key of so many words.
pub(super) fn hash(hasher: &Hasher, key: &[u64]) -> u64 {
    match key.len() {
        1 => hasher.hash::<1>(fixed(key)),
        2 => hasher.hash::<2>(fixed(key)),
        3 => hasher.hash::<3>(fixed(key)),
        4 => hasher.hash::<4>(fixed(key)),
        6 => hasher.hash::<6>(fixed(key)),
        8 => hasher.hash::<8>(fixed(key)),
        12 => hasher.hash::<12>(fixed(key)),
        _ => hasher.hash::<KEY_WORDS_MAX>(fixed(key)),
    }
}

/// A table for keys of so many words, one of [`WIDTHS`].
pub(super) fn keyed(
    words: usize,
    config: &TupleConfig<'_>,
    domain: &QsbrDomain,
) -> Result<Box<dyn Keyed>, CreateError> {
    Ok(match words {
        1 => Box::new(TupleSpace::<1>::new(config, domain)?),
        2 => Box::new(TupleSpace::<2>::new(config, domain)?),
        3 => Box::new(TupleSpace::<3>::new(config, domain)?),
        4 => Box::new(TupleSpace::<4>::new(config, domain)?),
        6 => Box::new(TupleSpace::<6>::new(config, domain)?),
        8 => Box::new(TupleSpace::<8>::new(config, domain)?),
        12 => Box::new(TupleSpace::<12>::new(config, domain)?),
        _ => Box::new(TupleSpace::<KEY_WORDS_MAX>::new(config, domain)?),
    })
}
