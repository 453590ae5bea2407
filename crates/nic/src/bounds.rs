//! Ranges of values that rules ask for beside bits: those of other fields than outer ports, which
//! have theirs in the tuple (`tuple::Ranges`).
//!
//! The bits that all values of a range have are matched as bits; whether a packet lies in the range
//! is looked at before it is looked up. A range is part of what a rule's mask picks: it is looked
//! at under that mask alone, and each range counts as of another mask.

/// Ranges that one pattern has at most.
pub(crate) const BOUNDS_MAX: usize = 4;

/// The values that a field of the lines may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bound {
    /// Of its word, among the words of all lines.
    place: u8,
    /// Bits of the word behind the field, as they are on the wire.
    behind: u8,
    /// Of the field, 1 to 32; 0 where there is no bound.
    bits: u8,
    /// The least value and the greatest.
    first: u32,
    last: u32,
}

/// The ranges of a pattern, in an order that follows from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds([Bound; BOUNDS_MAX]);

impl Bound {
    /// Values from `first` to `last` of a field of at most 32 bits that begins with this bit,
    /// counted through all lines, and lies within a word.
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
    /// No more of it than there is: most patterns have none.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bounds().for_each(|bound| bound.hash(state));
    }
}

impl Bounds {
    /// These; `None` where they are too many.
    pub(crate) fn new(bounds: &[Bound]) -> Option<Bounds> {
        let mut all = Bounds::default();
        all.0.get_mut(..bounds.len())?.copy_from_slice(bounds);
        all.0[..bounds.len()].sort_unstable();
        Some(all)
    }

    fn bounds(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter().take_while(|bound| bound.bits > 0)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].bits == 0
    }

    /// Whether a packet with these words, by place, lies in all of them.
    pub(crate) fn hold(&self, word: impl Fn(u8) -> u64) -> bool {
        self.bounds().all(|bound| bound.holds(word(bound.place)))
    }
}
