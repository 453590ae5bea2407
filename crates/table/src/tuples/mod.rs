//! A tuple space: words under keys and masks, and look-ups of the best word for a key.
//!
//! The entries of a mask are an exact-match table of masked keys ("Packet Classification using
//! Tuple Space Search", SIGCOMM 1999). A filter (`masks`) says which masks can have an entry for a
//! key, best masks first. Bounds say when none of the remaining masks can have a better word than
//! the best one so far.
//!
//! The user defines the meaning of a word, and its *rank*: of two words the one with the smaller
//! rank wins. In [`Ternary`](crate::Ternary), a word is its own rank, and the table has its own
//! transactions. In tables of programs, a word leads to a rank, and the tables share transactions.
//!
//! # Why a reader misses no word
//!
//! A look-up reads the list of masks with the filter, then the bounds, then words. The writer goes
//! the other way: [`TupleSpace::admit`] updates the list, the filter, the bound of the mask and the
//! bounds of all slots before it, and only then is the word stored.
//!
//! A bound is raised when no reader can find a word below it, whatever its generation: when a mask
//! has no entry, and when a new filter is complete, because its build visits every word.
//!
//! A mask without entries leaves the list and its slot. Readers with the older list still have its
//! table, which is empty.

mod filter;
mod reader;
mod writer;

pub use reader::TupleReader;
pub use writer::{TupleConfig, TupleSpace};

use crate::prune::{Bits, Span};

/// Decides which of two words wins: the one with the smaller rank.
pub trait Rank: Copy + Ord {
    /// Greater than the rank of any word.
    const LAST: Self;

    /// A mask with a bound of at least this number has no word of a smaller rank. A word of this
    /// rank has a bound ([`TupleSpace::admit`]) below `u64::MAX` and at most this number.
    fn limit(self) -> u64;
}

/// A number is its own bound.
impl Rank for u64 {
    const LAST: Self = Self::MAX;

    #[inline(always)]
    fn limit(self) -> u64 {
        self
    }
}

/// A number in a key that the filter reads, and of which most entries match a prefix.
///
/// Fields do not change results. Choose numbers that distinguish entries under different masks,
/// such as addresses and ports: otherwise look-ups search more tables. A filter reads two fields of
/// up to 32 bits and two of up to 16 bits. Name the fields that differ most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its lowest bit, counted from the lowest bit of the first word.
    at: usize,
    bits: u32,
    /// Whether its bytes are in network order.
    is_network: bool,
}

impl Field {
    /// A number of one to four bytes in network order, from byte `at` of a key that was packed by
    /// [`pack_key`](crate::pack_key).
    #[must_use]
    pub const fn bytes(at: usize, bytes: u32) -> Self {
        Self { at: at.saturating_mul(8), bits: bytes.saturating_mul(8), is_network: true }
    }

    /// A number of 1 to 32 bits in host order, whose lowest bit is bit `at`, counted from the
    /// lowest bit of the first word.
    #[must_use]
    pub const fn number(at: usize, bits: u32) -> Self {
        Self { at, bits, is_network: false }
    }

    /// Whether it has 1 to 32 bits and lies within keys of `words` words.
    pub(crate) fn fits(self, words: usize) -> bool {
        let end = self.at.saturating_add(self.bits as usize);
        (1..=32).contains(&self.bits) && end <= 64 * words
    }

    /// Its value in a key, aligned to the first bit of a number of `width` bits, so that a prefix
    /// stays a prefix.
    #[inline(always)]
    fn value(self, width: Bits, key: &[u64]) -> u32 {
        let (word, shift) = (self.at / 64, self.at % 64);
        let low = key.get(word).map_or(0, |word| word >> shift);
        let high = key.get(word + 1).map_or(0, |next| (next << 1) << (63 - shift));
        let number = (low | high) as u32;
        // Bits after the number are shifted out.
        let first = match self.is_network {
            true => number.swap_bytes() & u32::MAX << (32 - self.bits),
            false => number << (32 - self.bits),
        };
        first >> (32 - width.count())
    }

    /// The values that an entry matches, or a superset: those with the leading ones of its mask.
    fn span(self, width: Bits, key: &[u64], mask: &[u64]) -> Span {
        let ones = (self.value(width, mask) << (32 - width.count())).leading_ones();
        Span::prefix(width, self.value(width, key), ones.min(self.bits))
    }
}

/// The widths of the fields of a filter. They are small under loom, whose models follow few
/// atomics.
const WIDTHS: [Bits; 4] = match cfg!(loom) {
    true => [Bits::Eight; 4],
    false => [Bits::ThirtyTwo, Bits::ThirtyTwo, Bits::Sixteen, Bits::Sixteen],
};
const F: usize = WIDTHS.len();

/// The fields of a key that a filter reads.
#[derive(Debug, Clone, Copy)]
struct Fields([Option<Field>; F]);

impl Fields {
    fn new(fields: &[Field]) -> Self {
        if let [only] = fields {
            return Self([Some(*only), None, None, None]);
        }
        let mut places = [None; F];
        for field in fields {
            // The narrowest free place that is wide enough.
            let mut free = places.iter_mut().zip(WIDTHS).rev();
            let fits = |(place, width): &(&mut Option<Field>, Bits)| {
                place.is_none() && width.count() >= field.bits
            };
            if let Some((place, _)) = free.find(fits) {
                *place = Some(*field);
            }
        }
        Self(places)
    }

    /// Whether a filter has any field.
    fn has_one(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    /// The first field, if it is the only one.
    const fn only(&self) -> Option<Field> {
        match self.0 {
            [only, None, None, None] => only,
            _ => None,
        }
    }

    #[inline(always)]
    fn values(&self, key: &[u64]) -> [u32; F] {
        let mut values = [0; F];
        for ((value, field), width) in values.iter_mut().zip(self.0).zip(WIDTHS) {
            *value = field.map_or(0, |field| field.value(width, key));
        }
        values
    }

    /// The values that an entry matches in the first `N` fields, or a superset.
    fn spans<const N: usize>(&self, key: &[u64], mask: &[u64]) -> [Span; N] {
        std::array::from_fn(|at| {
            self.0[at].map_or(Span::ALL, |field| field.span(WIDTHS[at], key, mask))
        })
    }
}

/// A filter of one field, which most tables of prefixes have, or of all fields.
#[derive(Debug)]
enum Filters<One, All> {
    One(One),
    All(All),
}

/// The bits of a key under a mask.
#[inline]
pub(crate) fn masked<const W: usize>(key: &[u64; W], mask: &[u64; W]) -> [u64; W] {
    std::array::from_fn(|word| key[word] & mask[word])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hash::pack_key;

    #[test]
    fn a_field_is_a_number_in_either_order_also_across_words() {
        let key: [u64; 2] = pack_key(&[0, 1, 2, 3, 4, 5, 10, 1, 2, 3, 0x1f, 0x90]).unwrap();
        assert_eq!(Field::bytes(6, 4).value(Bits::ThirtyTwo, &key), 0x0a01_0203);
        assert_eq!(Field::bytes(10, 2).value(Bits::Sixteen, &key), 8080);
        assert_eq!(Field::bytes(10, 2).value(Bits::ThirtyTwo, &key), 8080 << 16);
        assert_eq!(Field::bytes(7, 3).value(Bits::ThirtyTwo, &key), 0x0102_0300);
        assert_eq!(Field::bytes(5, 1).value(Bits::Sixteen, &key), 0x0500);
        let key = [0xdd00_0000_0000_0000, 0x00aa_bbcc];
        assert_eq!(Field::number(56, 32).value(Bits::ThirtyTwo, &key), 0xaabb_ccdd);
        assert_eq!(Field::number(64, 16).value(Bits::Sixteen, &key), 0xbbcc);
        assert_eq!(Field::number(64, 12).value(Bits::Sixteen, &key), 0xbcc0);
        assert!(Field::bytes(12, 4).fits(2) && Field::number(127, 1).fits(2));
        assert!(!Field::bytes(13, 4).fits(2) && !Field::bytes(usize::MAX, 1).fits(2));
        assert!(!Field::number(0, 0).fits(2) && !Field::bytes(0, 5).fits(2));
    }

    #[test]
    fn a_span_has_the_leading_ones_of_the_mask() {
        let of = |field: Field, key: [u8; 4], mask: [u8; 4]| {
            field.span(
                Bits::ThirtyTwo,
                &pack_key::<1>(&key).unwrap(),
                &pack_key::<1>(&mask).unwrap(),
            )
        };
        let (all, span) = (Field::bytes(0, 4), |low, high| Span { low, high });
        assert_eq!(of(all, [10, 1, 2, 3], [255, 255, 0, 0]), span(0x0a01_0000, 0x0a01_ffff));
        assert_eq!(of(all, [10, 1, 2, 3], [255, 0, 255, 0]), span(0x0a00_0000, 0x0aff_ffff));
        assert_eq!(of(all, [10, 1, 2, 3], [255; 4]), Span::one(0x0a01_0203));
        assert_eq!(of(all, [10, 1, 2, 3], [0, 255, 255, 255]), Span::ALL);
        // A narrow number is aligned to the first bit, so the bits after it are free.
        assert_eq!(of(Field::bytes(0, 1), [10, 1, 2, 3], [255; 4]), span(0x0a00_0000, 0x0aff_ffff));
    }

    #[test]
    fn fields_take_the_narrowest_place_and_those_without_one_are_left_out() {
        let of = |bits: &[u32]| {
            let fields: Vec<Field> = bits.iter().map(|bits| Field::number(0, *bits)).collect();
            Fields::new(&fields).0.map(|field| field.map_or(0, |field| field.bits))
        };
        assert_eq!(of(&[16]), [16, 0, 0, 0]);
        assert_eq!(of(&[32, 16, 8]), [0, 32, 8, 16]);
        assert_eq!(of(&[16, 16, 16, 16, 8]), [16, 16, 16, 16]);
        assert_eq!(of(&[32, 24, 20]), [24, 32, 0, 0]);
    }
}
