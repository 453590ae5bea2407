//! What the control side knows of a table: its entries, and the numbers that they have.

use std::collections::BTreeSet;

use niclab_table::{
    CreateError, Field, KEY_WORDS_MAX, QsbrDomain, TABLES_LIMIT, TernaryError, TupleConfig,
};

use super::keyed::{Keyed, Lookup, keyed, words_of};
use super::plan::{Engine, Look, Piece};
use super::record::Rank;
use crate::entry::Key;
use crate::form::{Kind, Match, Table};
use crate::limits::{ENTRIES_MAX, MASKS_MAX};

/// What the control side knows of a table.
#[derive(Debug)]
pub(super) struct Content {
    key: Vec<Piece>,
    words: usize,
    size: usize,
    live: usize,
    pub how: Engine,
    /// What entries do, by their masks and keys.
    pub entries: Box<dyn Keyed>,
    /// Entries that are not deleted, whatever workers still see, by the number of their mask.
    live_under: Vec<u32>,
    /// Masks that have some.
    live_masks: usize,
    /// Entries have numbers, for which the program asks.
    is_numbered: bool,
    /// Numbers of entries that were given back.
    free: BTreeSet<u32>,
    /// Numbers from here on were never used.
    fresh: u32,
    /// Entries that were ever added.
    pub sequence: u64,
}

/// Key and mask of an entry, in words.
pub(super) struct Packed {
    key: [u64; KEY_WORDS_MAX],
    mask: [u64; KEY_WORDS_MAX],
    words: usize,
}

impl Packed {
    pub(super) fn key(&self) -> &[u64] {
        &self.key[..self.words]
    }

    fn mask(&self) -> &[u64] {
        &self.mask[..self.words]
    }
}

/// Why there is no room for a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MaskError {
    #[error("its entries have {MASKS_MAX} different masks at most")]
    Masks,
    #[error("too many masks that no entry has any more are not given up by all workers yet")]
    Leaving,
    #[error(transparent)]
    Memory(TernaryError),
}

/// A seed for a hash whose keys others may choose.
pub(super) fn seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

impl Content {
    pub(super) fn new(
        table: &Table,
        look: &Look,
        is_numbered: bool,
        domain: &QsbrDomain,
    ) -> Result<Content, CreateError> {
        let (key, bits, how) = match look {
            Look::Match { key, bits, how } => (key.clone(), *bits, *how),
            _ => (Vec::new(), 0, Engine::Nothing),
        };
        // Which bits of the key are of fields that are matched by masks.
        let mut masked = Vec::new();
        if let Kind::Match { key, .. } = &table.kind {
            let mut bit = 0;
            for (place, how) in key {
                masked.extend((*how != Match::Exact).then_some(bit..bit + place.bits));
                bit += place.bits;
            }
        }
        // Those tell masks apart.
        let is_masked = |piece: &&Piece| masked.iter().any(|of| of.contains(&piece.at));
        let (first, rest): (Vec<&Piece>, Vec<&Piece>) = key.iter().partition(is_masked);
        let fields: Vec<Field> = first.into_iter().chain(rest).flat_map(halves).collect();
        // Entries that are to go stay until workers have passed.
        let entries_max = (2 * table.size as u64 + 64).min(ENTRIES_MAX) as usize;
        let masks_max = match how {
            Engine::Wildcard => TABLES_LIMIT,
            // A mask for each length.
            Engine::Prefix => masked.iter().map(|of| of.len()).sum::<usize>() + 1,
            Engine::Exact | Engine::Nothing => 1,
        };
        let words = words_of(bits);
        let config = TupleConfig { entries_max, masks_max, fields: &fields, seed: seed() };
        Ok(Content {
            words,
            size: table.size,
            live: 0,
            how,
            entries: keyed(words, &config, domain)?,
            key,
            live_under: Vec::new(),
            live_masks: 0,
            is_numbered,
            free: BTreeSet::new(),
            fresh: 0,
            sequence: 0,
        })
    }

    /// What workers look up in.
    pub(super) fn reader(&self) -> Box<dyn Lookup> {
        self.entries.reader()
    }

    /// Key and mask of an entry.
    pub(super) fn pack(&self, key: &Key) -> Packed {
        let none = [0; KEY_WORDS_MAX];
        let mut packed = Packed { key: none, mask: none, words: self.words };
        let chunks = key.iter().flat_map(|part| part.value.chunks(8).zip(part.mask.chunks(8)));
        for (piece, (value, mask)) in self.key.iter().zip(chunks) {
            let (word, shift) = (piece.at as usize / 64, piece.at % 64);
            for (words, bytes) in [(&mut packed.key, value), (&mut packed.mask, mask)] {
                let number = crate::value::to_number(bytes);
                words[word] |= number << shift;
                if shift + piece.bits > 64 {
                    words[word + 1] |= number >> (64 - shift);
                }
            }
        }
        packed
    }

    /// The bytes of fields of these lengths that words of a key or of a mask were made of.
    pub(super) fn unpack(&self, words: &[u64], lens: &[usize]) -> Vec<Vec<u8>> {
        let mut pieces = self.key.iter().map(|piece| {
            let (word, shift) = (piece.at as usize / 64, piece.at % 64);
            let mut number = words[word] >> shift;
            if shift + piece.bits > 64 {
                number |= words[word + 1] << (64 - shift);
            }
            (number.to_be_bytes(), piece.bits as usize / 8)
        });
        let field = |len: &usize| {
            let mut bytes = Vec::with_capacity(*len);
            let more = pieces.by_ref().take(len.div_ceil(8));
            more.for_each(|(number, len)| bytes.extend_from_slice(&number[8 - len..]));
            bytes
        };
        lens.iter().map(field).collect()
    }

    /// The number of an entry's mask, where it has one.
    pub(super) fn number(&self, packed: &Packed) -> Option<usize> {
        self.entries.number(packed.mask())
    }

    /// The number of an entry's mask, which gets one where `known` is none.
    pub(super) fn number_for(
        &mut self,
        packed: &Packed,
        known: Option<usize>,
    ) -> Result<usize, MaskError> {
        let is_live = |number: usize| self.live_under.get(number).is_some_and(|live| *live > 0);
        match known {
            Some(number) if is_live(number) => return Ok(number),
            _ if self.how == Engine::Wildcard && self.live_masks >= MASKS_MAX => {
                return Err(MaskError::Masks);
            }
            _ => {}
        }
        let number = self.entries.number_for(packed.mask()).map_err(|error| match error {
            TernaryError::Masks { .. } => MaskError::Leaving,
            error => MaskError::Memory(error),
        })?;
        if self.live_under.len() <= number {
            self.live_under.resize(number + 1, 0);
        }
        Ok(number)
    }

    /// The word under a key, as it stands there; zero is none.
    pub(super) fn word(&self, mask: usize, key: &[u64]) -> u64 {
        self.entries.word(mask, key)
    }

    /// Whether there is room for an entry; else how many there can be.
    pub(super) fn has_room(&self) -> Result<(), usize> {
        if self.live < self.size { Ok(()) } else { Err(self.size) }
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// The number that an entry gets that comes now.
    pub(super) fn id(&self) -> u32 {
        self.free.first().copied().unwrap_or(self.fresh)
    }

    /// Makes ready for an entry that comes or changes, before a packet can find it.
    pub(super) fn admit(&mut self, mask: usize, packed: &Packed, current: u64, rank: Rank) {
        let bound = match self.how {
            Engine::Wildcard => rank.bound(),
            // Entries under one mask have one bound.
            _ if current != 0 => return,
            // The longest prefix counts; other fields of such a key count whole.
            _ => packed.mask().iter().map(|word| u64::from(word.count_zeros())).sum(),
        };
        self.entries.admit((mask, packed.key()), current, bound);
    }

    /// Takes the making of a filter further. `bound_of` gives a lower bound of every rank that a
    /// worker may find in a word.
    pub(super) fn advance_filter(&mut self, steps: usize, bound_of: impl Fn(u64) -> u64) {
        // One mask needs no filter.
        if self.how == Engine::Exact {
            return;
        }
        let is_ranked = self.how == Engine::Wildcard;
        self.entries
            .advance_filter(steps, &|word, all| if is_ranked { bound_of(word) } else { all });
    }

    /// Takes growth further, and lets masks go; whether nothing is left of it.
    pub(super) fn run_housekeeping(&mut self, steps: usize, bound_of: impl Fn(u64) -> u64) -> bool {
        let is_ranked = self.how == Engine::Wildcard;
        self.entries
            .run_housekeeping(steps, &|word, all| if is_ranked { bound_of(word) } else { all })
    }

    /// Takes note of an entry that came or went.
    pub(super) fn count(&mut self, moved: Moved, mask: usize, id: u32) {
        let under = &mut self.live_under[mask];
        match moved {
            Moved::Came => {
                *under += 1;
                self.live += 1;
                self.live_masks += usize::from(*under == 1);
                if self.is_numbered && !self.free.remove(&id) {
                    self.fresh = id + 1;
                }
            }
            Moved::Went => {
                *under -= 1;
                self.live -= 1;
                self.live_masks -= usize::from(*under == 0);
                if self.is_numbered {
                    self.free.insert(id);
                }
            }
        }
    }
}

/// The fields of a filter for a part of a key: its first bits first.
fn halves(piece: &Piece) -> impl Iterator<Item = Field> {
    let first = piece.bits.min(32);
    let rest = piece.bits - first;
    let halves = [(piece.at + rest, first), (piece.at, rest)];
    let halves = halves.into_iter().filter(|(_, bits)| *bits > 0);
    halves.map(|(at, bits)| Field::number(at as usize, bits))
}

/// Whether an entry came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Came,
    Went,
}
