//! Ranges of values of fields other than outer ports. The ranges of outer ports are part of the
//! tuple (`tuple::Ranges`).
//!
//! The leading bits that all values of a range share are matched as bits. The packet's value is
//! compared with the range before the look-up. A range is part of a rule's mask: rules with
//! different ranges have different masks.

/// Ranges that one pattern has at most.
pub(crate) const BOUNDS_MAX: usize = 4;

/// A range of values of a field in the header keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bound {
    /// Place of the field's word among the words of all header keys.
    place: u8,
    /// Bits of the word after the field, in network order.
    behind: u8,
    /// Bits of the field, 1 to 32; 0 if there is no range.
    bits: u8,
    /// The least value and the greatest.
    first: u32,
    last: u32,
}

/// The ranges of a pattern, sorted, so that equal sets of ranges are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds([Bound; BOUNDS_MAX]);

impl Bound {
    /// Values from `first` to `last` of a field of at most 32 bits. `bit` is its first bit, counted
    /// through all header keys. The field lies within one word.
    pub(crate) fn new(bit: usize, bits: usize, first: u32, last: u32) -> Bound {
        let (place, bits) = ((bit / 64) as u8, bits as u8);
        Bound { place, behind: 64 - (bit % 64) as u8 - bits, bits, first, last }
    }

    #[inline]
    fn holds(&self, word: u64) -> bool {
        let ones = u64::MAX >> (64 - self.bits);
        let value = word.swap_bytes() >> self.behind & ones;
        (u64::from(self.first)..=u64::from(self.last)).contains(&value)
    }
}

impl std::hash::Hash for Bounds {
    /// Hashes only the ranges that are used: most patterns have none.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bounds().for_each(|bound| bound.hash(state));
    }
}

impl Bounds {
    /// These ranges; `None` if they are too many.
    pub(crate) fn new(bounds: &[Bound]) -> Option<Bounds> {
        let mut all = Bounds::default();
        all.0.get_mut(..bounds.len())?.copy_from_slice(bounds);
        all.0[..bounds.len()].sort_unstable();
        Some(all)
    }

    fn bounds(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter().take_while(|bound| bound.bits > 0)
    }

    /// Whether there are no ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].bits == 0
    }

    /// Whether a packet with these words, by place, lies in all ranges.
    pub(crate) fn hold(&self, word: impl Fn(u8) -> u64) -> bool {
        self.bounds().all(|bound| bound.holds(word(bound.place)))
    }
}
