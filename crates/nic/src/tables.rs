//! One exact-match table per mask, whatever the number of words the mask picks.

use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use niclab_packet::key::{KEY_WORDS, Key};
use niclab_table::{Config, CreateError, Domain, Exact, InsertError, Participant, Reader};

use crate::limits::BURST;

/// The picked words of a key, as many as the mask picks.
pub(crate) type CompactKey = ArrayVec<u64, KEY_WORDS>;

/// Which words of a key a mask picks, and which bits of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selector {
    len: u8,
    places: [u8; KEY_WORDS],
    masks: [u64; KEY_WORDS],
}

impl Selector {
    pub(crate) fn new(mask: &Key) -> Selector {
        let mut selector = Selector { len: 0, places: [0; KEY_WORDS], masks: [0; KEY_WORDS] };
        for (place, &bits) in mask.0.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            selector.places[usize::from(selector.len)] = place as u8;
            selector.masks[usize::from(selector.len)] = bits;
            selector.len += 1;
        }
        selector
    }

    /// Words that are picked; the empty mask picks none and every packet matches it.
    pub(crate) fn words(&self) -> usize {
        usize::from(self.len)
    }

    /// The picked words of a key, masked.
    #[inline]
    fn pick<const W: usize>(&self, key: &Key) -> [u64; W] {
        std::array::from_fn(|i| key.0[usize::from(self.places[i] & 7)] & self.masks[i])
    }

    /// The picked words one after the other.
    pub(crate) fn compact(&self, key: &Key) -> CompactKey {
        let picked: [u64; KEY_WORDS] = self.pick(key);
        picked.into_iter().take(self.words()).collect()
    }
}

/// Calls `$body` with the table of whatever width, `$W` bound to it.
macro_rules! each_width {
    ($self:expr, $enum:ident, $table:ident, $W:ident => $body:expr) => {
        match $self {
            $enum::W1($table) => {
                const $W: usize = 1;
                $body
            }
            $enum::W2($table) => {
                const $W: usize = 2;
                $body
            }
            $enum::W3($table) => {
                const $W: usize = 3;
                $body
            }
            $enum::W4($table) => {
                const $W: usize = 4;
                $body
            }
            $enum::W5($table) => {
                const $W: usize = 5;
                $body
            }
            $enum::W6($table) => {
                const $W: usize = 6;
                $body
            }
            $enum::W7($table) => {
                const $W: usize = 7;
                $body
            }
            $enum::W8($table) => {
                const $W: usize = 8;
                $body
            }
        }
    };
}

/// The writing end of a table of some width.
#[derive(Debug)]
pub(crate) enum Table {
    W1(Exact<1>),
    W2(Exact<2>),
    W3(Exact<3>),
    W4(Exact<4>),
    W5(Exact<5>),
    W6(Exact<6>),
    W7(Exact<7>),
    W8(Exact<8>),
}

/// The reading end of a table of some width.
#[derive(Clone, Debug)]
pub(crate) enum View {
    W1(Reader<1>),
    W2(Reader<2>),
    W3(Reader<3>),
    W4(Reader<4>),
    W5(Reader<5>),
    W6(Reader<6>),
    W7(Reader<7>),
    W8(Reader<8>),
}

/// The first `W` words of a compact key, which has at least as many.
fn words<const W: usize>(key: &[u64]) -> [u64; W] {
    std::array::from_fn(|i| key[i])
}

impl Table {
    /// A table for keys of 1 to 8 words.
    pub(crate) fn new(words: usize, config: Config, domain: &Domain) -> Result<Table, CreateError> {
        Ok(match words {
            1 => Table::W1(Exact::new(config, domain)?),
            2 => Table::W2(Exact::new(config, domain)?),
            3 => Table::W3(Exact::new(config, domain)?),
            4 => Table::W4(Exact::new(config, domain)?),
            5 => Table::W5(Exact::new(config, domain)?),
            6 => Table::W6(Exact::new(config, domain)?),
            7 => Table::W7(Exact::new(config, domain)?),
            _ => Table::W8(Exact::new(config, domain)?),
        })
    }

    pub(crate) fn view(&self) -> View {
        match self {
            Table::W1(t) => View::W1(t.reader()),
            Table::W2(t) => View::W2(t.reader()),
            Table::W3(t) => View::W3(t.reader()),
            Table::W4(t) => View::W4(t.reader()),
            Table::W5(t) => View::W5(t.reader()),
            Table::W6(t) => View::W6(t.reader()),
            Table::W7(t) => View::W7(t.reader()),
            Table::W8(t) => View::W8(t.reader()),
        }
    }

    pub(crate) fn insert(&mut self, key: &[u64], value: u64) -> Result<(), InsertError> {
        each_width!(self, Table, t, W => t.insert(&words::<W>(key), value))
    }

    pub(crate) fn get(&self, key: &[u64]) -> Option<u64> {
        each_width!(self, Table, t, W => t.get(&words::<W>(key)))
    }

    #[inline]
    pub(crate) fn update_with(
        &mut self,
        key: &[u64],
        next: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<u64> {
        each_width!(self, Table, t, W => t.update_with(&words::<W>(key), next))
    }

    pub(crate) fn prefetch_tags(&self, key: &[u64]) {
        each_width!(self, Table, t, W => t.prefetch_tags(&words::<W>(key)));
    }

    pub(crate) fn prefetch_entry(&self, key: &[u64]) {
        each_width!(self, Table, t, W => t.prefetch_entry(&words::<W>(key)));
    }

    pub(crate) fn remove(&mut self, key: &[u64]) {
        each_width!(self, Table, t, W => { t.remove(&words::<W>(key)); })
    }

    pub(crate) fn bytes(&self) -> usize {
        each_width!(self, Table, t, W => { const { assert!(W <= KEY_WORDS) }; t.bytes() })
    }
}

impl View {
    /// Looks up those packets of a burst whose bit is set in `wanted`; `values` is indexed as the
    /// burst is. Returns which of them were found.
    #[inline]
    pub(crate) fn look_up(
        &self,
        participant: &Participant,
        selector: &Selector,
        keys: &[Key],
        wanted: u64,
        values: &mut [u64; BURST],
    ) -> u64 {
        each_width!(self, View, t, W =>
            look_up::<W>(t, participant, selector, keys, wanted, values))
    }
}

/// [`View::look_up`] for one width: the wanted keys are packed, looked up at once, and spread
/// again.
#[inline]
fn look_up<const W: usize>(
    reader: &Reader<W>,
    participant: &Participant,
    selector: &Selector,
    keys: &[Key],
    wanted: u64,
    values: &mut [u64; BURST],
) -> u64 {
    let mut packed = [[0; W]; BURST];
    let all = wanted.count_ones() as usize == keys.len();
    if all {
        for (packed, key) in packed.iter_mut().zip(keys) {
            *packed = selector.pick(key);
        }
        return reader.lookup_bulk(participant, &packed[..keys.len()], values);
    }
    let (mut places, mut count) = ([0u8; BURST], 0);
    for i in bits(wanted) {
        packed[count] = selector.pick(&keys[i]);
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

/// What workers see of the table of one mask in one group.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) selector: Selector,
    /// `None` for the empty mask, which has no key to look up.
    pub(crate) view: Option<View>,
    /// The word of the only rule an empty mask can have in effect.
    pub(crate) any: AtomicU64,
    /// Best order among its rules, or better: lowered before a rule appears, never raised.
    best: AtomicU64,
    /// Worst order among its rules, or worse: raised before a rule appears, never lowered.
    worst: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared::new(Selector::default(), None)
    }
}

impl Shared {
    pub(crate) fn new(selector: Selector, view: Option<View>) -> Shared {
        let (best, worst) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Shared { selector, view, any: AtomicU64::new(0), best, worst }
    }

    /// Widens the range of orders; to be called before the rule can be found. Returns whether the
    /// best order is another now.
    ///
    /// For the control side, which alone writes them.
    pub(crate) fn admit(&self, order: u64) -> bool {
        if self.worst.load(Ordering::Relaxed) < order {
            self.worst.store(order, Ordering::Release);
        }
        let better = self.best.load(Ordering::Relaxed) > order;
        if better {
            self.best.store(order, Ordering::Release);
        }
        better
    }

    #[inline]
    pub(crate) fn best(&self) -> u64 {
        self.best.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn worst(&self) -> u64 {
        self.worst.load(Ordering::Acquire)
    }
}
