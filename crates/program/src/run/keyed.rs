//! Exact-match tables under keys whose length is known when a program is loaded.

use std::sync::Arc;

use niclab_table::{
    Config, CreateError, Domain, Exact, Hasher, InsertError, KEY_WORDS_MAX, Participant, Reader,
};

/// The reading end: keys one behind the other, in words.
pub(super) trait Lookup: Send + Sync + std::fmt::Debug {
    /// Words of a key.
    fn words(&self) -> usize;
    /// Looks up as many keys as there are, at most a burst: bit `i` of the result says whether key
    /// `i` was found; its word is then in `values[i]`.
    fn look(&self, participant: &Participant, keys: &[u64], values: &mut [u64]) -> u64;
}

/// The writing end.
pub(super) trait Keyed: Send + std::fmt::Debug {
    fn insert(&mut self, key: &[u64], word: u64) -> Result<(), InsertError>;
    fn look_up(&self, key: &[u64]) -> Option<u64>;
    fn update(&mut self, key: &[u64], word: u64);
    fn remove(&mut self, key: &[u64]);
    fn is_empty(&self) -> bool;
    /// Takes growth further; whether nothing is left of it.
    fn rest(&mut self, groups: usize) -> bool;
    /// The same, and nothing else.
    fn advance(&mut self, groups: usize) -> bool;
    fn reader(&self) -> Arc<dyn Lookup>;
    /// As [`Exact::array`].
    fn array(&self) -> Option<(u32, usize)>;
    /// Shows all entries, in no order.
    fn each(&self, see: &mut dyn FnMut(&[u64], u64));
    /// Shows the entries of a group of that array.
    fn visit(&self, group: usize, see: &mut dyn FnMut(&[u64], u64));
}

/// A key of the wrong length is none: whoever makes keys knows the length.
fn fixed<const W: usize>(key: &[u64]) -> &[u64; W] {
    key.first_chunk().unwrap_or(const { &[0; W] })
}

impl<const W: usize> Lookup for Reader<W> {
    fn words(&self) -> usize {
        W
    }

    fn look(&self, participant: &Participant, keys: &[u64], values: &mut [u64]) -> u64 {
        self.lookup_bulk(participant, keys.as_chunks::<W>().0, values)
    }
}

impl<const W: usize> Keyed for Exact<W> {
    fn insert(&mut self, key: &[u64], word: u64) -> Result<(), InsertError> {
        Exact::insert(self, fixed(key), word).map(|_| ())
    }

    fn look_up(&self, key: &[u64]) -> Option<u64> {
        self.get(fixed(key))
    }

    fn update(&mut self, key: &[u64], word: u64) {
        Exact::update(self, fixed(key), word);
    }

    fn remove(&mut self, key: &[u64]) {
        Exact::remove(self, fixed(key));
    }

    fn is_empty(&self) -> bool {
        Exact::is_empty(self)
    }

    fn rest(&mut self, groups: usize) -> bool {
        Exact::rest(self, groups)
    }

    fn advance(&mut self, groups: usize) -> bool {
        Exact::advance(self, groups)
    }

    fn reader(&self) -> Arc<dyn Lookup> {
        Arc::new(Exact::reader(self))
    }

    fn array(&self) -> Option<(u32, usize)> {
        Exact::array(self)
    }

    fn each(&self, see: &mut dyn FnMut(&[u64], u64)) {
        self.iter().for_each(|(key, word)| see(&key, word));
    }

    fn visit(&self, group: usize, see: &mut dyn FnMut(&[u64], u64)) {
        self.group(group).for_each(|(key, word)| see(&key, word));
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
    config: Config,
    domain: &Domain,
) -> Result<Box<dyn Keyed>, CreateError> {
    Ok(match words {
        1 => Box::new(Exact::<1>::new(config, domain)?),
        2 => Box::new(Exact::<2>::new(config, domain)?),
        3 => Box::new(Exact::<3>::new(config, domain)?),
        4 => Box::new(Exact::<4>::new(config, domain)?),
        6 => Box::new(Exact::<6>::new(config, domain)?),
        8 => Box::new(Exact::<8>::new(config, domain)?),
        12 => Box::new(Exact::<12>::new(config, domain)?),
        _ => Box::new(Exact::<KEY_WORDS_MAX>::new(config, domain)?),
    })
}
