//! Exact-match tables of a group: one for each key width, shared by all masks of the group.
//!
//! A key consists of the words that a mask picks, masked, and of the mask's number in the last
//! word. So packets that are looked up under different masks share one bulk look-up, and a mask of
//! few rules needs no table of its own.

use std::ops::Deref;

use niclab_packet::key::{KEY_WORDS, Key};
use niclab_table::{
    Config, CreateError, Exact, Hasher, InsertError, Participant, QsbrDomain, Reader, SlotHandle,
};

use crate::bounds::Bounds;
use crate::limits::{BURST, PATTERN_WORDS_MAX};
use crate::parsed_headers::ParsedHeaders;
use crate::raw::RawWords;
use crate::rule::Pattern;

/// The words of a key that its mask picks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactKey {
    /// Zero beyond `len`.
    words: [u64; PATTERN_WORDS_MAX],
    len: usize,
}

impl CompactKey {
    /// A key of these words, at most [`PATTERN_WORDS_MAX`].
    pub(crate) fn new(picked: &[u64]) -> CompactKey {
        let mut key = CompactKey { len: picked.len(), ..CompactKey::default() };
        key.words[..picked.len()].copy_from_slice(picked);
        key
    }
}

impl Deref for CompactKey {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

/// The most words of a key in each table: an IPv4 5-tuple takes two, an IPv6 5-tuple five.
const WORDS: [usize; 3] = [2, 5, PATTERN_WORDS_MAX];

/// Number of widths.
pub(crate) const WIDTHS: usize = WORDS.len();

/// One value for each key width.
pub(crate) type ByWidth<T> = [T; WIDTHS];

/// Which words of a packet's header keys a mask picks, and which bits of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Selector {
    len: u8,
    /// Ascending; each is a place among the words of all header keys.
    places: [u8; PATTERN_WORDS_MAX],
    /// Whether other keys than the outer one are needed, or there are ranges.
    is_deep: bool,
    masks: [u64; PATTERN_WORDS_MAX],
    /// Where the bytes of the raw key are.
    raw: RawWords,
    /// Ranges that packets have to lie in.
    bounds: Bounds,
}

/// A key with all bits set.
const ALL: [u64; PATTERN_WORDS_MAX] = [u64::MAX; PATTERN_WORDS_MAX];

impl Selector {
    /// Bytes at the start of a selector that hold all that selectors of four words need.
    pub(crate) const FOUR_WORDS: usize = std::mem::offset_of!(Selector, masks) + 4 * 8;

    /// The selector of a pattern. Words beyond [`PATTERN_WORDS_MAX`] are left out; a compiled
    /// pattern has none.
    pub(crate) fn new(pattern: &Pattern) -> Selector {
        let (raw, bounds) = (pattern.raw(), pattern.bounds());
        let is_deep = !bounds.is_empty();
        let mut selector = Selector { raw, bounds, is_deep, ..Selector::default() };
        selector.add(0, &pattern.mask().0);
        for (at, key) in pattern.deep_keys().iter().enumerate() {
            selector.add(1 + at, &key.mask.0);
        }
        selector
    }

    /// Picks the words of a header key in which bits count.
    #[inline]
    fn add(&mut self, key: usize, mask: &[u64; KEY_WORDS]) {
        for (at, &bits) in mask.iter().enumerate() {
            let len = usize::from(self.len);
            if bits != 0 && len < PATTERN_WORDS_MAX {
                self.places[len] = (key * KEY_WORDS + at) as u8;
                self.masks[len] = bits;
                self.len += 1;
                self.is_deep |= key > 0;
            }
        }
    }

    /// Number of words. The empty mask picks none, and every packet matches it.
    pub(crate) fn words(&self) -> usize {
        usize::from(self.len)
    }

    /// The table of the keys; `None` for the empty mask, which has no key.
    #[inline]
    pub(crate) fn width(&self) -> Option<usize> {
        let fits = || WORDS.iter().position(|&words| self.words() <= words);
        if self.len == 0 { None } else { fits() }
    }

    /// Whether it picks words outside the outer key, or has ranges. Then call [`Selector::admits`]
    /// before you pick.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Whether packet `i` lies in all ranges and has all raw bytes, which are then in the raw key.
    /// The inner and extra keys of the packet have been read.
    pub(crate) fn admits(&self, headers: &mut ParsedHeaders, i: usize, frame: &[u8]) -> bool {
        self.bounds.hold(|place| headers.word(i, place))
            && (self.raw.is_empty() || headers.read_raw(i, frame, &self.raw))
    }

    /// The picked words of a packet, masked, followed by zeros.
    #[inline]
    fn pick<const W: usize>(&self, headers: &ParsedHeaders, i: usize) -> [u64; W] {
        std::array::from_fn(|at| {
            let at = at % PATTERN_WORDS_MAX;
            headers.word(i, self.places[at]) & self.masks[at]
        })
    }

    /// [`Selector::pick`] for a selector of the outer key alone.
    #[inline]
    fn pick_outer<const W: usize>(&self, key: &Key) -> [u64; W] {
        std::array::from_fn(|at| {
            let at = at % PATTERN_WORDS_MAX;
            key.0[usize::from(self.places[at] & 7)] & self.masks[at]
        })
    }

    /// The picked words of a pattern's values.
    #[inline]
    pub(crate) fn compact(&self, pattern: &Pattern) -> CompactKey {
        let mut key = CompactKey { len: self.words(), ..CompactKey::default() };
        let places = self.places.iter().zip(&self.masks).take(self.words());
        for (word, (&place, mask)) in key.words.iter_mut().zip(places) {
            *word = pattern.value_word(place) & mask;
        }
        key
    }

    /// The picked words of a packet, for a selector of the outer key alone.
    #[inline]
    pub(crate) fn pick_key(&self, outer: &Key) -> CompactKey {
        CompactKey { words: self.pick_outer(outer), len: self.words() }
    }

    /// The bits of the outer key that both pick.
    pub(crate) fn common(&self, other: &Selector) -> Selector {
        let [(_, ours), (_, theirs)] = [self, other].map(|selector| selector.expand(&ALL));
        let mut common = Selector::default();
        common.add(0, &std::array::from_fn(|at| ours.0[at] & theirs.0[at]));
        common
    }

    /// Whether it picks at least three quarters of what `other` picks, and nothing else, both from
    /// the outer key alone.
    pub(crate) fn is_most_of(&self, other: &Selector) -> bool {
        if self.is_deep || other.is_deep || self.len == 0 {
            return false;
        }
        let count =
            |selector: &Selector| selector.masks.iter().map(|mask| mask.count_ones()).sum::<u32>();
        self.common(other) == *self && 4 * count(self) >= 3 * count(other)
    }

    /// Projects a key of `from`, which picks at least what this selector picks, onto this selector.
    #[inline]
    pub(crate) fn project(&self, from: &Selector, key: &CompactKey) -> CompactKey {
        match self == from {
            true => *key,
            false => self.pick_key(&from.expand(key).0),
        }
    }

    /// The outer key with the picked words of a key, and the bits that count.
    pub(crate) fn expand(&self, key: &[u64]) -> (Key, Key) {
        let (mut value, mut mask) = (Key::default(), Key::default());
        let picked = self.places.iter().zip(&self.masks).zip(key);
        let outer = |&((&place, _), _): &((&u8, _), _)| usize::from(place) < KEY_WORDS;
        for ((&place, &bits), &word) in picked.take(self.words()).filter(outer) {
            (value.0[usize::from(place)], mask.0[usize::from(place)]) = (word, bits);
        }
        (value, mask)
    }
}

/// Evaluates `$body` with the table, whatever its width.
macro_rules! each_width {
    ($self:expr, $enum:ident, $table:ident => $body:expr) => {
        match $self {
            $enum::Two($table) => $body,
            $enum::Five($table) => $body,
            $enum::Eight($table) => $body,
        }
    };
}

/// The writing end of a table; its keys have one word more than masks pick.
#[derive(Debug)]
pub(crate) enum Table {
    Two(Exact<3>),
    Five(Exact<6>),
    Eight(Exact<9>),
}

/// The reading end of a table.
#[derive(Clone, Debug)]
pub(crate) enum TableReader {
    Two(Reader<3>),
    Five(Reader<6>),
    Eight(Reader<9>),
}

/// A key of a table: the picked words, zeros, and the mask's number.
#[inline]
fn table_key<const W: usize>(key: &CompactKey, number: u16) -> [u64; W] {
    let last = |at: usize| at + 1 == W;
    std::array::from_fn(|at| if last(at) { u64::from(number) } else { key.words[at] })
}

/// [`Table::hash`] without the table.
#[inline]
pub(crate) fn hash((hasher, width): &(Hasher, usize), key: &CompactKey, number: u16) -> u64 {
    match width {
        0 => hasher.hash(&table_key::<3>(key, number)),
        1 => hasher.hash(&table_key::<6>(key, number)),
        _ => hasher.hash(&table_key::<9>(key, number)),
    }
}

impl Table {
    /// A table for the masks of a width.
    pub(crate) fn new(
        width: usize,
        config: Config,
        domain: &QsbrDomain,
    ) -> Result<Table, CreateError> {
        Ok(match width {
            0 => Table::Two(Exact::new(config, domain)?),
            1 => Table::Five(Exact::new(config, domain)?),
            _ => Table::Eight(Exact::new(config, domain)?),
        })
    }

    pub(crate) fn reader(&self) -> TableReader {
        match self {
            Table::Two(t) => TableReader::Two(t.reader()),
            Table::Five(t) => TableReader::Five(t.reader()),
            Table::Eight(t) => TableReader::Eight(t.reader()),
        }
    }

    /// The hash function of its keys, and their width.
    pub(crate) fn hasher(&self) -> (Hasher, usize) {
        match self {
            Table::Two(t) => (t.hasher(), 0),
            Table::Five(t) => (t.hasher(), 1),
            Table::Eight(t) => (t.hasher(), 2),
        }
    }

    /// The hash of a key, for the functions that take it.
    #[inline]
    pub(crate) fn hash(&self, key: &CompactKey, number: u16) -> u64 {
        each_width!(self, Table, t => t.hash(&table_key(key, number)))
    }

    /// See [`Exact::insert_hashed`].
    #[inline]
    pub(crate) fn insert(
        &mut self,
        (key, hash): (&CompactKey, u64),
        number: u16,
        value: u64,
    ) -> Result<SlotHandle, InsertError> {
        each_width!(self, Table, t => t.insert_hashed(hash, &table_key(key, number), value))
    }

    pub(crate) fn get(&self, key: &CompactKey, number: u16) -> Option<u64> {
        each_width!(self, Table, t => t.get(&table_key(key, number)))
    }

    pub(crate) fn update(&mut self, key: &CompactKey, number: u16, value: u64) {
        each_width!(self, Table, t => { t.update(&table_key(key, number), value); })
    }

    /// See [`Exact::value_of`].
    #[inline]
    pub(crate) fn value_of(&self, handle: SlotHandle) -> Option<u64> {
        each_width!(self, Table, t => t.value_of(handle))
    }

    /// See [`Exact::set_at`].
    #[inline]
    pub(crate) fn set_at(&mut self, handle: SlotHandle, value: u64) -> bool {
        each_width!(self, Table, t => t.set_at(handle, value))
    }

    /// See [`Exact::is_current`].
    #[inline]
    pub(crate) fn is_current(&self, handle: SlotHandle) -> bool {
        each_width!(self, Table, t => t.is_current(handle))
    }

    /// See [`Exact::finish_growth`].
    pub(crate) fn finish_growth(&mut self, groups: usize) -> bool {
        each_width!(self, Table, t => t.finish_growth(groups))
    }

    pub(crate) fn handle_of(&self, key: &CompactKey, number: u16) -> Option<SlotHandle> {
        each_width!(self, Table, t => t.handle_of(&table_key(key, number)))
    }

    pub(crate) fn prefetch_at(&self, handle: SlotHandle) {
        each_width!(self, Table, t => t.prefetch_at(handle));
    }

    pub(crate) fn prefetch_tags_at(&self, handle: SlotHandle) {
        each_width!(self, Table, t => t.prefetch_tags_at(handle));
    }

    #[inline]
    pub(crate) fn prefetch_tags(&self, hash: u64) {
        each_width!(self, Table, t => t.prefetch_tags(hash));
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        each_width!(self, Table, t => t.prefetch_entry(hash));
    }

    /// See [`Exact::remove_at`]; false if the handle is not current.
    #[inline]
    pub(crate) fn remove_at(&mut self, handle: SlotHandle) -> bool {
        each_width!(self, Table, t => t.remove_at(handle).is_some())
    }

    pub(crate) fn remove(&mut self, key: &CompactKey, number: u16) {
        each_width!(self, Table, t => { t.remove(&table_key(key, number)); })
    }

    pub(crate) fn bytes(&self) -> usize {
        each_width!(self, Table, t => t.bytes())
    }
}

/// Keys for one bulk look-up of each width, each under a mask of its own.
#[derive(Default)]
pub(crate) struct LookupKeys {
    two: PackedKeys<3>,
    five: PackedKeys<6>,
    eight: PackedKeys<9>,
}

/// Keys of one width, and the run of each.
struct PackedKeys<const W: usize> {
    keys: [[u64; W]; BURST],
    runs: [u8; BURST],
    count: usize,
}

impl<const W: usize> Default for PackedKeys<W> {
    fn default() -> PackedKeys<W> {
        PackedKeys { keys: [[0; W]; BURST], runs: [0; BURST], count: 0 }
    }
}

impl<const W: usize> PackedKeys<W> {
    #[inline]
    fn push(&mut self, run: usize, key: [u64; W]) {
        let at = self.count % BURST;
        (self.keys[at], self.runs[at]) = (key, run as u8);
        self.count += 1;
    }

    fn look_up(
        &self,
        reader: &Reader<W>,
        participant: &Participant,
        values: &mut [u64; BURST],
    ) -> u64 {
        reader.lookup_bulk(participant, &self.keys[..self.count.min(BURST)], values)
    }
}

impl LookupKeys {
    pub(crate) fn clear(&mut self) {
        (self.two.count, self.five.count, self.eight.count) = (0, 0, 0);
    }

    pub(crate) fn is_empty(&self, width: usize) -> bool {
        [self.two.count, self.five.count, self.eight.count][width % WIDTHS] == 0
    }

    /// The run of a key.
    #[inline]
    pub(crate) fn run(&self, width: usize, at: usize) -> usize {
        let runs = [&self.two.runs, &self.five.runs, &self.eight.runs][width % WIDTHS];
        usize::from(runs[at % BURST])
    }

    /// Adds a packet's key under a mask that picks from the outer key alone; at most [`BURST`]
    /// keys.
    #[inline]
    pub(crate) fn push(
        &mut self,
        width: u8,
        run: usize,
        (selector, number): (&Selector, u16),
        outer: &Key,
    ) {
        match width {
            0 => self.two.push(run, with_mask_number(selector.pick_outer(outer), number)),
            1 => self.five.push(run, with_mask_number(selector.pick_outer(outer), number)),
            _ => self.eight.push(run, with_mask_number(selector.pick_outer(outer), number)),
        }
    }

    /// [`LookupKeys::push`] for a mask that picks from other keys as well.
    #[cold]
    #[inline(never)]
    pub(crate) fn push_deep(
        &mut self,
        width: u8,
        run: usize,
        (selector, number): (&Selector, u16),
        headers: &ParsedHeaders,
        i: usize,
    ) {
        match width {
            0 => self.two.push(run, with_mask_number(selector.pick(headers, i), number)),
            1 => self.five.push(run, with_mask_number(selector.pick(headers, i), number)),
            _ => self.eight.push(run, with_mask_number(selector.pick(headers, i), number)),
        }
    }
}

impl TableReader {
    /// Looks up the packets in `wanted` under one mask; `values` is indexed as the burst is.
    /// Returns the packets that were found.
    #[inline]
    pub(crate) fn look_up(
        &self,
        participant: &Participant,
        (selector, number): (&Selector, u16),
        headers: &ParsedHeaders,
        wanted: (u64, usize),
        values: &mut [u64; BURST],
    ) -> u64 {
        if selector.is_deep() {
            return each_width!(self, TableReader, t => {
                let key = |i: usize| with_mask_number(selector.pick(headers, i), number);
                look_up(t, participant, key, wanted, values)
            });
        }
        // With one header key alone, the place is known: 1.2 ns a packet in the pipeline.
        let outer = headers.outer();
        each_width!(self, TableReader, t => {
            let key = |i: usize| with_mask_number(selector.pick_outer(&outer[i % BURST]), number);
            look_up(t, participant, key, wanted, values)
        })
    }

    /// The hash of a packet's key under a mask that picks from the outer key alone. Prefetches what
    /// the look-up reads first.
    #[inline]
    pub(crate) fn fetch(
        &self,
        participant: &Participant,
        (selector, number): (&Selector, u16),
        outer: &Key,
    ) -> u64 {
        each_width!(self, TableReader, t => {
            let hash = t.hash(&with_mask_number(selector.pick_outer(outer), number));
            t.prefetch_tags(participant, hash);
            hash
        })
    }

    /// Prefetches what the look-up reads next; call it when the tags have arrived.
    #[inline]
    pub(crate) fn fetch_entry(&self, participant: &Participant, hash: u64) {
        each_width!(self, TableReader, t => t.prefetch_entry(participant, hash));
    }

    /// Looks up the keys of this width; `values` is indexed as they are. Returns the keys that were
    /// found.
    #[inline]
    pub(crate) fn look_up_keys(
        &self,
        participant: &Participant,
        keys: &LookupKeys,
        values: &mut [u64; BURST],
    ) -> u64 {
        match self {
            TableReader::Two(t) => keys.two.look_up(t, participant, values),
            TableReader::Five(t) => keys.five.look_up(t, participant, values),
            TableReader::Eight(t) => keys.eight.look_up(t, participant, values),
        }
    }
}

/// The key of a packet under a mask: the picked words, and the mask's number last.
#[inline]
fn with_mask_number<const W: usize>(mut picked: [u64; W], number: u16) -> [u64; W] {
    picked[W - 1] = u64::from(number);
    picked
}

/// [`TableReader::look_up`] for one width: packs the wanted keys, looks them up in bulk, and puts
/// the values where they belong.
#[inline]
fn look_up<const W: usize>(
    reader: &Reader<W>,
    participant: &Participant,
    key: impl Fn(usize) -> [u64; W],
    (wanted, count): (u64, usize),
    values: &mut [u64; BURST],
) -> u64 {
    let mut packed = [[0; W]; BURST];
    let all = wanted.count_ones() as usize == count;
    if all {
        for (i, packed) in packed.iter_mut().enumerate().take(count) {
            *packed = key(i);
        }
        return reader.lookup_bulk(participant, &packed[..count], values);
    }
    let (mut places, mut count) = ([0u8; BURST], 0);
    for i in bits(wanted) {
        packed[count] = key(i);
        places[count] = i as u8;
        count += 1;
    }
    let mut found_values = [0; BURST];
    let hits = reader.lookup_bulk(participant, &packed[..count], &mut found_values);
    let mut found = 0;
    for at in bits(hits) {
        let place = places[at];
        values[usize::from(place)] = found_values[at];
        found |= 1 << place;
    }
    found
}

/// The indices of the set bits, ascending.
#[inline]
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (place < 64).then_some(place)
    })
}
