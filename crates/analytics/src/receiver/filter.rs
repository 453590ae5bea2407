//! Which sequences of a source were taken: all below one, and some of the window above it.

/// Sequences of a window at most; it is a multiple of 64.
pub const WINDOW_MAX: u32 = 8_192;

/// What a filter says of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceVerdict {
    /// It was not taken yet, and may be.
    New,
    /// It was taken before.
    Duplicate,
    /// It is so far ahead that the filter has no memory for it.
    Beyond,
}

/// The sequences of one source that were taken.
#[derive(Clone, Debug)]
pub struct SequenceFilter {
    /// All sequences below this one were taken, and it was not.
    next: u64,
    /// A bit for each sequence from `next` on, at the sequence modulo the length.
    bits: Box<[u64]>,
}

impl SequenceFilter {
    /// Nothing was taken. The window is rounded up to a multiple of 64, at most [`WINDOW_MAX`].
    pub fn new(window: u32) -> SequenceFilter {
        let words = window.clamp(1, WINDOW_MAX).div_ceil(64) as usize;
        SequenceFilter { next: 0, bits: vec![0; words].into_boxed_slice() }
    }

    /// The lowest sequence that was not taken.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Sequences of the window.
    pub fn window(&self) -> u64 {
        64 * self.bits.len() as u64
    }

    /// Word and bit of a sequence.
    #[inline]
    fn place(&self, sequence: u64) -> (usize, u32) {
        let at = sequence % self.window();
        ((at / 64) as usize, (at % 64) as u32)
    }

    /// Whether a sequence may be taken.
    #[inline]
    pub fn check(&self, sequence: u64) -> SequenceVerdict {
        if sequence < self.next {
            return SequenceVerdict::Duplicate;
        }
        if sequence - self.next >= self.window() {
            return SequenceVerdict::Beyond;
        }
        let (word, bit) = self.place(sequence);
        match self.bits[word] >> bit & 1 {
            0 => SequenceVerdict::New,
            _ => SequenceVerdict::Duplicate,
        }
    }

    /// Takes a sequence that is [`SequenceVerdict::New`].
    #[inline]
    pub fn take(&mut self, sequence: u64) {
        debug_assert_eq!(self.check(sequence), SequenceVerdict::New);
        let (word, bit) = self.place(sequence);
        self.bits[word] |= 1 << bit;
        let (mut word, mut bit) = self.place(self.next);
        while self.bits[word] >> bit & 1 == 1 {
            self.bits[word] &= !(1 << bit);
            self.next += 1;
            (word, bit) = self.place(self.next);
        }
    }

    /// The sequences above [`SequenceFilter::next`] that were taken, as words of an acknowledgement
    /// ([`crate::tuple`]) up to the last that is not 0.
    pub fn selective(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.bits.len();
        // The bit of `next` itself is 0, so the last word ends with nothing of the next round.
        let word = move |at: usize| {
            let (first, bit) = self.place(self.next.wrapping_add(1 + 64 * at as u64));
            match bit {
                0 => self.bits[first],
                bit => self.bits[first] >> bit | self.bits[(first + 1) % words] << (64 - bit),
            }
        };
        let last = (0..words).rev().find(|at| word(*at) != 0);
        (0..last.map_or(0, |last| last + 1)).map(word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_filter_is_a_set_with_an_end(sequences in prop::collection::vec(0_u64..400, 0..600)) {
            let (mut filter, mut taken) = (SequenceFilter::new(100), BTreeSet::new());
            for sequence in sequences {
                let next = (0..).find(|next| !taken.contains(next)).unwrap();
                let expected = match sequence {
                    sequence if taken.contains(&sequence) => SequenceVerdict::Duplicate,
                    sequence if sequence >= next + 128 => SequenceVerdict::Beyond,
                    _ => SequenceVerdict::New,
                };
                prop_assert_eq!(filter.check(sequence), expected);
                if expected == SequenceVerdict::New {
                    filter.take(sequence);
                    taken.insert(sequence);
                }
                let next = (0..).find(|next| !taken.contains(next)).unwrap();
                prop_assert_eq!(filter.next(), next);
                let words: Vec<u64> = filter.selective().collect();
                prop_assert!(words.last() != Some(&0));
                let above: Vec<u64> = taken.iter().copied().filter(|of| *of > next).collect();
                let read: Vec<u64> = (0..64 * words.len() as u64)
                    .filter(|at| words[*at as usize / 64] >> (at % 64) & 1 == 1)
                    .map(|at| next + 1 + at)
                    .collect();
                prop_assert_eq!(read, above);
            }
        }
    }

    #[test]
    fn the_last_sequences_overflow_nothing() {
        let mut filter = SequenceFilter::new(64);
        filter.next = u64::MAX - 1;
        assert_eq!(filter.check(u64::MAX), SequenceVerdict::New);
        assert_eq!(filter.check(u64::MAX - 2), SequenceVerdict::Duplicate);
        filter.next = 5;
        assert_eq!(filter.check(u64::MAX), SequenceVerdict::Beyond);
    }
}
