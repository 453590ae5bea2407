//! Exact-match tables of a group: one for each width of key, shared by all its masks.
//!
//! A key is the words that a mask picks, masked, and last the number of the mask. So packets that
//! are to be looked up under different masks go into one bulk look-up, and a mask of few rules
//! costs no table of its own.

use std::ops::Deref;

use niclab_packet::key::{KEY_WORDS, Key};
use niclab_table::{
    Config, CreateError, Domain, Exact, Hasher, InsertError, Participant, Reader, Spot,
};

use crate::bounds::Bounds;
use crate::limits::{BURST, PATTERN_WORDS_MAX};
use crate::lines::Lines;
use crate::raw::RawWords;
use crate::rule::Pattern;

/// The picked words of a key, as many as the mask picks.
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

/// Words that the keys of each table have at most: IPv4's 5-tuple takes two, IPv6's five.
const WORDS: [usize; 3] = [2, 5, PATTERN_WORDS_MAX];

/// How many widths there are.
pub(crate) const WIDTHS: usize = WORDS.len();

/// Something for each width of key.
pub(crate) type ByWidth<T> = [T; WIDTHS];

/// Which words of a packet's lines a mask picks, and which bits of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct Selector {
    len: u8,
    /// Ascending, by place among the words of all lines.
    places: [u8; PATTERN_WORDS_MAX],
    /// Whether more than the outer line is looked at, or there are bounds.
    is_deep: bool,
    masks: [u64; PATTERN_WORDS_MAX],
    /// Where the words are that are bytes by their offset.
    raw: RawWords,
    /// Ranges that packets have to lie in.
    bounds: Bounds,
}

/// The words of a key with all of its bits.
const ALL: [u64; PATTERN_WORDS_MAX] = [u64::MAX; PATTERN_WORDS_MAX];

impl Selector {
    /// Bytes of it that those need who pick four words.
    pub(crate) const FOUR_WORDS: usize = std::mem::offset_of!(Selector, masks) + 4 * 8;

    /// The words that a pattern looks at; those beyond [`PATTERN_WORDS_MAX`], of which there are
    /// none in a pattern that was compiled, are left out.
    pub(crate) fn new(pattern: &Pattern) -> Selector {
        let (raw, bounds) = (pattern.raw(), pattern.bounds());
        let is_deep = !bounds.is_empty();
        let mut selector = Selector { raw, bounds, is_deep, ..Selector::default() };
        selector.add(0, &pattern.mask().0);
        for (at, line) in pattern.deep_lines().iter().enumerate() {
            selector.add(1 + at, &line.mask.0);
        }
        selector
    }

    /// Picks the words of a line in which bits count.
    #[inline]
    fn add(&mut self, line: usize, mask: &[u64; KEY_WORDS]) {
        for (at, &bits) in mask.iter().enumerate() {
            let len = usize::from(self.len);
            if bits != 0 && len < PATTERN_WORDS_MAX {
                self.places[len] = (line * KEY_WORDS + at) as u8;
                self.masks[len] = bits;
                self.len += 1;
                self.is_deep |= line > 0;
            }
        }
    }

    /// Words that are picked; the empty mask picks none and every packet matches it.
    pub(crate) fn words(&self) -> usize {
        usize::from(self.len)
    }

    /// Which table the keys are in; `None` for the empty mask, which has no key.
    #[inline]
    pub(crate) fn width(&self) -> Option<usize> {
        let fits = || WORDS.iter().position(|&words| self.words() <= words);
        if self.len == 0 { None } else { fits() }
    }

    /// Whether it picks words that are not in the outer line, or has bounds: then
    /// [`Selector::admits`] is to be asked before it picks.
    #[inline]
    pub(crate) fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Whether packet `i`, whose other lines are filled, lies within its bounds and has the bytes
    /// that it looks at, which are then in the raw line.
    pub(crate) fn admits(&self, lines: &mut Lines, i: usize, frame: &[u8]) -> bool {
        self.bounds.hold(|place| lines.word(i, place))
            && (self.raw.is_empty() || lines.read_raw(i, frame, &self.raw))
    }

    /// The picked words of a packet, masked; zeros behind them.
    #[inline]
    fn pick<const W: usize>(&self, lines: &Lines, i: usize) -> [u64; W] {
        std::array::from_fn(|at| {
            let at = at % PATTERN_WORDS_MAX;
            lines.word(i, self.places[at]) & self.masks[at]
        })
    }

    /// [`Selector::pick`] where it picks from the outer line alone.
    #[inline]
    fn pick_outer<const W: usize>(&self, key: &Key) -> [u64; W] {
        std::array::from_fn(|at| {
            let at = at % PATTERN_WORDS_MAX;
            key.0[usize::from(self.places[at] & 7)] & self.masks[at]
        })
    }

    /// The picked words of a pattern's values one after the other.
    #[inline]
    pub(crate) fn compact(&self, pattern: &Pattern) -> CompactKey {
        let mut key = CompactKey { len: self.words(), ..CompactKey::default() };
        let places = self.places.iter().zip(&self.masks).take(self.words());
        for (word, (&place, mask)) in key.words.iter_mut().zip(places) {
            *word = pattern.value_word(place) & mask;
        }
        key
    }

    /// The picked words of a packet's outer line, of which it picks alone.
    #[inline]
    pub(crate) fn pick_key(&self, line: &Key) -> CompactKey {
        CompactKey { words: self.pick_outer(line), len: self.words() }
    }

    /// The bits that both pick from the outer line.
    pub(crate) fn common(&self, other: &Selector) -> Selector {
        let [(_, ours), (_, theirs)] = [self, other].map(|selector| selector.spread(&ALL));
        let mut common = Selector::default();
        common.add(0, &std::array::from_fn(|at| ours.0[at] & theirs.0[at]));
        common
    }

    /// Whether it picks three quarters of what `other` picks or more, and nothing else, both from
    /// the outer line alone.
    pub(crate) fn is_most_of(&self, other: &Selector) -> bool {
        if self.is_deep || other.is_deep || self.len == 0 {
            return false;
        }
        let count =
            |selector: &Selector| selector.masks.iter().map(|mask| mask.count_ones()).sum::<u32>();
        self.common(other) == *self && 4 * count(self) >= 3 * count(other)
    }

    /// What is left of a key of `from`, which picks all that this one picks, and more.
    #[inline]
    pub(crate) fn narrow(&self, from: &Selector, key: &CompactKey) -> CompactKey {
        match self == from {
            true => *key,
            false => self.pick_key(&from.spread(key).0),
        }
    }

    /// What the picked words of a key were in the outer line, and which bits of them count.
    pub(crate) fn spread(&self, key: &[u64]) -> (Key, Key) {
        let (mut value, mut mask) = (Key::default(), Key::default());
        let picked = self.places.iter().zip(&self.masks).zip(key);
        let outer = |&((&place, _), _): &((&u8, _), _)| usize::from(place) < KEY_WORDS;
        for ((&place, &bits), &word) in picked.take(self.words()).filter(outer) {
            (value.0[usize::from(place)], mask.0[usize::from(place)]) = (word, bits);
        }
        (value, mask)
    }
}

/// Calls `$body` with the table of whatever width.
macro_rules! each_width {
    ($self:expr, $enum:ident, $table:ident => $body:expr) => {
        match $self {
            $enum::Two($table) => $body,
            $enum::Five($table) => $body,
            $enum::Eight($table) => $body,
        }
    };
}

/// The writing end of a table of some width; one word more than the masks pick.
#[derive(Debug)]
pub(crate) enum Table {
    Two(Exact<3>),
    Five(Exact<6>),
    Eight(Exact<9>),
}

/// The reading end of a table of some width.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Two(Reader<3>),
    Five(Reader<6>),
    Eight(Reader<9>),
}

/// A key of the table: the picked words, zeros, and the number of the mask.
#[inline]
fn whole<const W: usize>(key: &CompactKey, number: u16) -> [u64; W] {
    let last = |at: usize| at + 1 == W;
    std::array::from_fn(|at| if last(at) { u64::from(number) } else { key.words[at] })
}

/// [`Table::hash`] without the table.
#[inline]
pub(crate) fn hash((hasher, width): &(Hasher, usize), key: &CompactKey, number: u16) -> u64 {
    match width {
        0 => hasher.hash(&whole::<3>(key, number)),
        1 => hasher.hash(&whole::<6>(key, number)),
        _ => hasher.hash(&whole::<9>(key, number)),
    }
}

impl Table {
    /// A table for the masks of a width.
    pub(crate) fn new(width: usize, config: Config, domain: &Domain) -> Result<Table, CreateError> {
        Ok(match width {
            0 => Table::Two(Exact::new(config, domain)?),
            1 => Table::Five(Exact::new(config, domain)?),
            _ => Table::Eight(Exact::new(config, domain)?),
        })
    }

    pub(crate) fn view(&self) -> View {
        match self {
            Table::Two(t) => View::Two(t.reader()),
            Table::Five(t) => View::Five(t.reader()),
            Table::Eight(t) => View::Eight(t.reader()),
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

    /// The hash of a key, for the functions that want it.
    #[inline]
    pub(crate) fn hash(&self, key: &CompactKey, number: u16) -> u64 {
        each_width!(self, Table, t => t.hash(&whole(key, number)))
    }

    /// See [`Exact::insert_hashed`].
    #[inline]
    pub(crate) fn insert(
        &mut self,
        (key, hash): (&CompactKey, u64),
        number: u16,
        value: u64,
    ) -> Result<Spot, InsertError> {
        each_width!(self, Table, t => t.insert_hashed(hash, &whole(key, number), value))
    }

    pub(crate) fn get(&self, key: &CompactKey, number: u16) -> Option<u64> {
        each_width!(self, Table, t => t.get(&whole(key, number)))
    }

    pub(crate) fn update(&mut self, key: &CompactKey, number: u16, value: u64) {
        each_width!(self, Table, t => { t.update(&whole(key, number), value); })
    }

    /// See [`Exact::at`].
    #[inline]
    pub(crate) fn at(&self, spot: Spot) -> Option<u64> {
        each_width!(self, Table, t => t.at(spot))
    }

    /// See [`Exact::set_at`].
    #[inline]
    pub(crate) fn set_at(&mut self, spot: Spot, value: u64) -> bool {
        each_width!(self, Table, t => t.set_at(spot, value))
    }

    /// See [`Exact::knows`].
    #[inline]
    pub(crate) fn knows(&self, spot: Spot) -> bool {
        each_width!(self, Table, t => t.knows(spot))
    }

    /// See [`Exact::rest`].
    pub(crate) fn rest(&mut self, groups: usize) -> bool {
        each_width!(self, Table, t => t.rest(groups))
    }

    pub(crate) fn spot_of(&self, key: &CompactKey, number: u16) -> Option<Spot> {
        each_width!(self, Table, t => t.spot_of(&whole(key, number)))
    }

    pub(crate) fn prefetch_at(&self, spot: Spot) {
        each_width!(self, Table, t => t.prefetch_at(spot));
    }

    pub(crate) fn prefetch_tags_at(&self, spot: Spot) {
        each_width!(self, Table, t => t.prefetch_tags_at(spot));
    }

    #[inline]
    pub(crate) fn prefetch_tags(&self, hash: u64) {
        each_width!(self, Table, t => t.prefetch_tags(hash));
    }

    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        each_width!(self, Table, t => t.prefetch_entry(hash));
    }

    /// See [`Exact::remove_at`]; whether the table knew the spot.
    #[inline]
    pub(crate) fn remove_at(&mut self, spot: Spot) -> bool {
        each_width!(self, Table, t => t.remove_at(spot).is_some())
    }

    pub(crate) fn remove(&mut self, key: &CompactKey, number: u16) {
        each_width!(self, Table, t => { t.remove(&whole(key, number)); })
    }

    pub(crate) fn bytes(&self) -> usize {
        each_width!(self, Table, t => t.bytes())
    }
}

/// Keys to be looked up at once, each under a mask of its own, by the table that they are in.
#[derive(Default)]
pub(crate) struct Keys {
    two: Packed<3>,
    five: Packed<6>,
    eight: Packed<9>,
}

/// Keys of one width, and what each look-up is remembered by.
struct Packed<const W: usize> {
    keys: [[u64; W]; BURST],
    runs: [u8; BURST],
    count: usize,
}

impl<const W: usize> Default for Packed<W> {
    fn default() -> Packed<W> {
        Packed { keys: [[0; W]; BURST], runs: [0; BURST], count: 0 }
    }
}

impl<const W: usize> Packed<W> {
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

impl Keys {
    pub(crate) fn clear(&mut self) {
        (self.two.count, self.five.count, self.eight.count) = (0, 0, 0);
    }

    pub(crate) fn is_empty(&self, width: usize) -> bool {
        [self.two.count, self.five.count, self.eight.count][width % WIDTHS] == 0
    }

    /// What the look-up at a place of a width is remembered by.
    #[inline]
    pub(crate) fn run(&self, width: usize, at: usize) -> usize {
        let runs = [&self.two.runs, &self.five.runs, &self.eight.runs][width % WIDTHS];
        usize::from(runs[at % BURST])
    }

    /// Takes in a packet's key under a mask of a width, which picks from the outer line alone;
    /// [`BURST`] of them at most.
    #[inline]
    pub(crate) fn push(
        &mut self,
        width: u8,
        run: usize,
        (selector, number): (&Selector, u16),
        line: &Key,
    ) {
        match width {
            0 => self.two.push(run, numbered(selector.pick_outer(line), number)),
            1 => self.five.push(run, numbered(selector.pick_outer(line), number)),
            _ => self.eight.push(run, numbered(selector.pick_outer(line), number)),
        }
    }

    /// [`Keys::push`] for a mask that picks from other lines as well.
    #[cold]
    #[inline(never)]
    pub(crate) fn push_deep(
        &mut self,
        width: u8,
        run: usize,
        (selector, number): (&Selector, u16),
        lines: &Lines,
        i: usize,
    ) {
        match width {
            0 => self.two.push(run, numbered(selector.pick(lines, i), number)),
            1 => self.five.push(run, numbered(selector.pick(lines, i), number)),
            _ => self.eight.push(run, numbered(selector.pick(lines, i), number)),
        }
    }
}

impl View {
    /// Looks up those packets of a burst whose bit is set in `wanted` under one mask; `values` is
    /// indexed as the burst is. Returns which of them were found.
    #[inline]
    pub(crate) fn look_up(
        &self,
        participant: &Participant,
        (selector, number): (&Selector, u16),
        lines: &Lines,
        wanted: (u64, usize),
        values: &mut [u64; BURST],
    ) -> u64 {
        if selector.is_deep() {
            return each_width!(self, View, t => {
                let key = |i: usize| numbered(selector.pick(lines, i), number);
                look_up(t, participant, key, wanted, values)
            });
        }
        // One line alone is a known place: 1.2 ns a packet in the pipeline.
        let outer = lines.outer();
        each_width!(self, View, t => {
            let key = |i: usize| numbered(selector.pick_outer(&outer[i % BURST]), number);
            look_up(t, participant, key, wanted, values)
        })
    }

    /// The hash of a packet's key under a mask that picks from the outer line alone; asks for what
    /// its look-up looks at first.
    #[inline]
    pub(crate) fn fetch(
        &self,
        participant: &Participant,
        (selector, number): (&Selector, u16),
        line: &Key,
    ) -> u64 {
        each_width!(self, View, t => {
            let hash = t.hash(&numbered(selector.pick_outer(line), number));
            t.prefetch_tags(participant, hash);
            hash
        })
    }

    /// Asks for what the look-up of a hash looks at then; to be called when that has come.
    #[inline]
    pub(crate) fn fetch_entry(&self, participant: &Participant, hash: u64) {
        each_width!(self, View, t => t.prefetch_entry(participant, hash));
    }

    /// Looks up the keys that are in this table; `values` is indexed as they are. Returns which of
    /// them were found.
    #[inline]
    pub(crate) fn look_up_keys(
        &self,
        participant: &Participant,
        keys: &Keys,
        values: &mut [u64; BURST],
    ) -> u64 {
        match self {
            View::Two(t) => keys.two.look_up(t, participant, values),
            View::Five(t) => keys.five.look_up(t, participant, values),
            View::Eight(t) => keys.eight.look_up(t, participant, values),
        }
    }
}

/// The key of a packet under a mask: what was picked, and the mask's number last.
#[inline]
fn numbered<const W: usize>(mut picked: [u64; W], number: u16) -> [u64; W] {
    picked[W - 1] = u64::from(number);
    picked
}

/// [`View::look_up`] for one width: the wanted keys are packed, looked up at once, and spread
/// again.
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

/// The places of the set bits, ascending.
#[inline]
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (place < 64).then_some(place)
    })
}
