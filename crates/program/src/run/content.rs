//! What the control side knows of a table: its entries under their masks, the numbers that they
//! have, and the filter of its masks.
//!
//! A mask comes with its first entry. With its last one it is *vacant*: no worker can see an entry
//! under it, its rank is none, and it goes when it is in the way, or when there is time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use niclab_table::{Config, CreateError, Domain, KEY_WORDS_MAX};

use super::keyed::{Keyed, keyed, words_of};
use super::plan::{Engine, Look, Piece};
use super::prune::{Parts, Pruner, Ranks, SLOTS_MAX};
use super::record::Rank;
use super::tables::{Masked, View};
use crate::entry::Key;
use crate::form::{Kind, Match, Table};
use crate::limits::{ENTRIES_MAX, MASKS_MAX};

/// Masks without an entry that are kept, for the next entry may be under one of them again.
const VACANT_MAX: usize = 64;

/// What the control side knows of a table.
#[derive(Debug)]
pub(super) struct Content {
    key: Vec<Piece>,
    words: usize,
    size: usize,
    live: usize,
    pub how: Engine,
    /// Tables by mask, each at its slot; of a table without masks, one.
    pub masks: Vec<Option<Mask>>,
    /// Slots of masks; but of prefixes, whose slot is their length.
    slots: HashMap<Box<[u64]>, usize>,
    /// Masks with entries.
    live_masks: usize,
    /// Slots of those without.
    vacant: BTreeSet<usize>,
    pub pruner: Pruner,
    pub ranks: Arc<Ranks>,
    /// Workers see the masks and the filter as they were before.
    pub is_hidden: bool,
    /// Entries have numbers, for which the program asks.
    is_numbered: bool,
    /// Numbers of entries that were given back.
    free: BTreeSet<u32>,
    /// Numbers from here on were never used.
    fresh: u32,
    /// Entries that were ever added.
    pub sequence: u64,
}

/// The entries under one mask.
#[derive(Debug)]
pub(super) struct Mask {
    pub mask: Vec<u64>,
    pub entries: Box<dyn Keyed>,
    /// Entries that are not deleted, whatever workers still see.
    live: usize,
    shown: Arc<Masked>,
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
}

/// Why there is no room for a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MaskError {
    #[error("its entries have {MASKS_MAX} different masks at most")]
    Masks,
    #[error("too many masks that no entry has any more are not given up by all workers yet")]
    Slots,
    #[error(transparent)]
    Memory(#[from] CreateError),
}

impl Mask {
    fn new(mask: Vec<u64>, content: &Content, domain: &Domain) -> Result<Mask, CreateError> {
        // Entries that are to go stay until workers have passed.
        let max = (2 * content.size as u64 + 64).min(ENTRIES_MAX) as usize;
        let entries = keyed(content.words, Config::growing(max, seed()), domain)?;
        let shown = Arc::new(Masked { mask: mask.clone(), entries: entries.reader() });
        Ok(Mask { mask, entries, live: 0, shown })
    }
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
        domain: &Domain,
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
        let is_masked = |piece: &Piece| masked.iter().any(|of| of.contains(&piece.at));
        let parts = Parts::of(&key, is_masked);
        let slots_max = match how {
            Engine::Wildcard => SLOTS_MAX,
            Engine::Prefix => masked.iter().map(|of| of.len()).sum::<usize>() + 1,
            _ => 0,
        };
        let mut content = Content {
            key,
            words: words_of(bits),
            size: table.size,
            live: 0,
            how,
            masks: Vec::new(),
            slots: HashMap::new(),
            live_masks: 0,
            vacant: BTreeSet::new(),
            pruner: Pruner::new(parts, slots_max),
            ranks: Arc::new(Ranks::new(slots_max)),
            is_hidden: false,
            is_numbered,
            free: BTreeSet::new(),
            fresh: 0,
            sequence: 0,
        };
        if how == Engine::Exact {
            content.masks.push(Some(Mask::new(Vec::new(), &content, domain)?));
        }
        Ok(content)
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

    /// The slot of a prefix: the longest first. Other fields of such a key count whole.
    fn slot_of_prefix(&self, mask: &[u64]) -> usize {
        let ones: u32 = mask.iter().map(|word| word.count_ones()).sum();
        let bits: u32 = self.key.iter().map(|piece| piece.bits).sum();
        (bits - ones) as usize
    }

    /// Where the mask of an entry is.
    pub(super) fn slot_of(&self, packed: &Packed) -> Option<usize> {
        let mask = &packed.mask[..packed.words];
        match self.how {
            Engine::Exact => Some(0),
            Engine::Prefix => Some(self.slot_of_prefix(mask)).filter(|&of| self.mask(of).is_some()),
            _ => self.slots.get(mask).copied(),
        }
    }

    pub(super) fn mask(&self, slot: usize) -> Option<&Mask> {
        self.masks.get(slot)?.as_ref()
    }

    pub(super) fn mask_mut(&mut self, slot: usize) -> Option<&mut Mask> {
        self.masks.get_mut(slot)?.as_mut()
    }

    /// The word under a key, as it stands there; zero is none.
    pub(super) fn word(&self, slot: usize, key: &[u64]) -> u64 {
        self.mask(slot).and_then(|mask| mask.entries.look_up(key)).unwrap_or(0)
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

    /// A table for entries under a mask that had none; workers are to see it.
    pub(super) fn new_mask(
        &mut self,
        packed: &Packed,
        domain: &Domain,
    ) -> Result<usize, MaskError> {
        if self.vacant.len() > VACANT_MAX {
            self.evict();
        }
        let mask = packed.mask[..packed.words].to_vec();
        let slot = match self.how {
            Engine::Prefix => self.slot_of_prefix(&mask),
            _ if self.live_masks >= MASKS_MAX => return Err(MaskError::Masks),
            _ => self.free_slot().ok_or(MaskError::Slots)?,
        };
        let made = Mask::new(mask.clone(), self, domain)?;
        if self.masks.len() <= slot {
            self.masks.resize_with(slot + 1, || None);
        }
        self.masks[slot] = Some(made);
        self.vacant.insert(slot);
        if self.how == Engine::Wildcard {
            self.slots.insert(mask.into(), slot);
        }
        self.is_hidden = true;
        Ok(slot)
    }

    fn free_slot(&mut self) -> Option<usize> {
        if self.slots.len() >= SLOTS_MAX {
            self.evict();
        }
        let free = self.masks.iter().position(Option::is_none).unwrap_or(self.masks.len());
        (free < SLOTS_MAX).then_some(free)
    }

    /// Has the masks go that no worker can see an entry of.
    pub(super) fn evict(&mut self) {
        let is_gone = |slot: &usize| self.mask(*slot).is_some_and(|mask| mask.entries.is_empty());
        let gone: Vec<usize> = self.vacant.iter().copied().filter(is_gone).collect();
        for slot in gone {
            self.vacant.remove(&slot);
            if let Some(mask) = self.masks[slot].take() {
                self.slots.remove(mask.mask.as_slice());
            }
            self.is_hidden = true;
        }
        let used = self.masks.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.masks.truncate(used);
    }

    /// Makes ready for an entry that comes or changes, before a packet can find it.
    pub(super) fn admit(&mut self, slot: usize, key: &[u64], rank: Rank, moved: Option<Moved>) {
        if self.how == Engine::Exact {
            return;
        }
        let rank = if self.how == Engine::Wildcard { rank } else { Rank::FIRST };
        self.ranks.admit(slot, rank);
        match (moved, &self.masks[slot]) {
            (Some(Moved::Came), Some(mask)) => {
                self.is_hidden |= self.pruner.take(slot, key, &mask.mask, rank);
            }
            _ => self.pruner.admit(slot, rank),
        }
    }

    /// Takes the making of a filter further.
    pub(super) fn tend(&mut self, steps: usize, best_of: impl Fn(u64) -> u64) {
        if self.how == Engine::Exact {
            return;
        }
        let (masks, count) = (&mut self.masks, (self.live_masks, self.live));
        let is_wildcard = self.how == Engine::Wildcard;
        let best_of = |word| if is_wildcard { best_of(word) } else { Rank::FIRST.bound() };
        self.is_hidden |= self.pruner.tend(masks, count, steps, &self.ranks, best_of);
    }

    /// Takes note of an entry that came or went.
    pub(super) fn count(&mut self, moved: Moved, slot: usize, id: u32) {
        let Some(mask) = self.masks.get_mut(slot).and_then(Option::as_mut) else { return };
        match moved {
            Moved::Came => {
                mask.live += 1;
                self.live += 1;
                if mask.live == 1 {
                    self.live_masks += 1;
                    self.vacant.remove(&slot);
                }
                if self.is_numbered && !self.free.remove(&id) {
                    self.fresh = id + 1;
                }
            }
            Moved::Went => {
                mask.live -= 1;
                self.live -= 1;
                if mask.live == 0 {
                    self.live_masks -= 1;
                    self.vacant.extend((self.how != Engine::Exact).then_some(slot));
                }
                if self.is_numbered {
                    self.free.insert(id);
                }
            }
        }
    }

    /// Takes note that a word was taken out.
    pub(super) fn cleared(&mut self, slot: usize) {
        let is_empty = self.mask(slot).is_some_and(|mask| mask.entries.is_empty());
        if is_empty && self.how != Engine::Exact {
            self.ranks.raise(slot, u64::MAX);
        }
    }

    /// Takes growth further, and lets masks go; whether nothing is left of it.
    pub(super) fn rest(&mut self, count: usize) -> bool {
        self.evict();
        let rest = |done, mask: &mut Mask| done & mask.entries.rest(count);
        let is_done = self.masks.iter_mut().flatten().fold(true, rest);
        is_done && self.vacant.is_empty() && !self.pruner.is_busy()
    }

    /// What workers are to see.
    pub(super) fn view(&self) -> Arc<View> {
        if self.how == Engine::Exact {
            let exact = self.mask(0).map(|mask| mask.entries.reader());
            return Arc::new(View { exact, slots: None });
        }
        let shown = |mask: &Option<Mask>| mask.as_ref().map(|mask| Arc::clone(&mask.shown));
        let masks = self.masks.iter().map(shown).collect();
        Arc::new(View { exact: None, slots: Some(self.pruner.slots(masks, &self.ranks)) })
    }
}

/// Whether an entry came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Came,
    Went,
}
