//! One group of tags: which of 15 slots may hold a key, read as four atomic words.
//!
//! A group is 16 lanes of 16 bits in four words. Lanes 0 to 14 are the tags of its slots. Lane 15
//! counts the keys whose home is this group or one before it and that found it full; a look-up may
//! stop if the count is zero. The one writer stores words with Release, and readers load them with
//! Acquire. The comparison exists as scalar arithmetic on words; as SSE2 and NEON, which every
//! x86-64 and aarch64 has; and as AVX2, which bulk look-ups choose at run time. A test compares
//! their results.
//!
//! One of the modules that may use `unsafe`: vector instructions.

#![allow(unsafe_code)]

use crate::limits::SLOTS;
use crate::sync::{Acquire, AtomicU64, Relaxed, Release};

/// Words of a group.
pub(crate) const LINE_WORDS: usize = 4;

/// A group of tags. Half a cache line, and aligned so that it never spans two.
pub(crate) type Line = [AtomicU64; LINE_WORDS];

const _: () = assert!(cfg!(loom) || size_of::<Line>() == 32);

/// A slot that was never used or may be reused.
pub(crate) const EMPTY: u16 = 0;
/// A slot whose entry was destroyed and that readers may still read.
pub(crate) const RETIRED: u16 = 1;
/// The smallest tag of a live entry. Overflow counts stay below it, so only a slot's lane can be
/// taken for a tag.
pub(crate) const LIVE_MIN: u16 = 0x8000;

const OVERFLOW_LANE: usize = 15;
const SLOT_MASK: u32 = (1 << SLOTS) - 1;

/// The tag of a hash: its low 16 bits. Every hash has the bit `LIVE_MIN`.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u16 {
    hash as u16
}

/// An implementation of the comparison of a group's tags with one tag.
pub(crate) trait Compare: Copy {
    /// Not zero if a slot has `tag`, a hash's tag; `scaled_slot` returns which slot.
    fn matches(self, line: &Line, tag: u16) -> u32;
    /// The first slot in a mask that is not zero, times `unit`, which is even.
    fn scaled_slot(mask: u32, unit: usize) -> usize;
}

/// The implementation that every machine of this architecture supports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common;

impl Compare for Common {
    #[inline(always)]
    fn matches(self, line: &Line, tag: u16) -> u32 {
        matches(line, tag)
    }

    #[inline(always)]
    fn scaled_slot(mask: u32, unit: usize) -> usize {
        mask.trailing_zeros() as usize * unit
    }
}

/// One bit per slot whose tag is `tag`.
#[inline(always)]
pub(crate) fn matches(line: &Line, tag: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    return sse2::matches(line, tag);
    #[cfg(all(target_arch = "aarch64", target_endian = "little", not(any(loom, miri))))]
    return neon::matches(line, tag);
    #[allow(unreachable_code)]
    scalar(line, tag)
}

/// `matches` on words: a lane of `word ^ pattern` is zero exactly where the tags are equal.
#[inline(always)]
pub(crate) fn scalar(line: &Line, tag: u16) -> u32 {
    const LOW: u64 = 0x7fff_7fff_7fff_7fff;
    /// Moves bits 0, 16, 32 and 48 to bits 48 to 51 without a carry.
    const GATHER: u64 = 1 << 48 | 1 << 33 | 1 << 18 | 1 << 3;
    let pattern = u64::from(tag) * 0x0001_0001_0001_0001;
    let mut mask = 0;
    for (index, word) in line.iter().enumerate() {
        let differ = word.load(Acquire) ^ pattern;
        let zero = !(((differ & LOW) + LOW) | differ | LOW);
        let nibble = ((zero >> 15).wrapping_mul(GATHER) >> 48) & 0xf;
        mask |= (nibble as u32) << (4 * index);
    }
    mask & SLOT_MASK
}

/// Keys that passed this group because it was full.
#[inline(always)]
pub(crate) fn overflow(line: &Line) -> u16 {
    lane(line, OVERFLOW_LANE)
}

/// The tag of `slot`.
#[inline(always)]
pub(crate) fn tag(line: &Line, slot: usize) -> u16 {
    lane(line, slot)
}

/// Writes the tag of `slot`; everything written before is visible to whoever sees it.
#[inline(always)]
pub(crate) fn set_tag(line: &Line, slot: usize, tag: u16) {
    set_lane(line, slot, tag);
}

/// Counts one more (or one less) key that passed this group.
///
/// The count stays between zero and LIVE_MIN, so that no comparison takes it for a tag, even if a
/// key is removed by another hash than it was inserted with.
pub(crate) fn add_overflow(line: &Line, more: bool) {
    let count = overflow(line);
    let next = if more { (count + 1).min(LIVE_MIN - 1) } else { count.saturating_sub(1) };
    set_lane(line, OVERFLOW_LANE, next);
}

#[inline(always)]
fn lane(line: &Line, lane: usize) -> u16 {
    (line[lane / 4].load(Acquire) >> (lane % 4 * 16)) as u16
}

/// Only the one writer stores, so load and store need not be one atomic operation.
#[inline(always)]
fn set_lane(line: &Line, lane: usize, value: u16) {
    let (word, shift) = (&line[lane / 4], lane % 4 * 16);
    let rest = word.load(Relaxed) & !(0xffff << shift);
    word.store(rest | u64::from(value) << shift, Release);
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod sse2 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set_epi64x, _mm_set1_epi16,
    };

    use super::{Acquire, Line, SLOT_MASK};

    #[inline(always)]
    pub(super) fn matches(line: &Line, tag: u16) -> u32 {
        let [a, b, c, d] = line.each_ref().map(|word| word.load(Acquire).cast_signed());
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            let pattern = _mm_set1_epi16(tag.cast_signed());
            let low = _mm_cmpeq_epi16(_mm_set_epi64x(b, a), pattern);
            let high = _mm_cmpeq_epi16(_mm_set_epi64x(d, c), pattern);
            _mm_movemask_epi8(_mm_packs_epi16(low, high)) as u32 & SLOT_MASK
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
pub(crate) mod avx2 {
    use std::arch::asm;
    use std::arch::x86_64::{__m256i, _mm256_movemask_epi8, _mm256_set1_epi16};

    use super::{Acquire, Compare, Line};
    use crate::sync::fence;

    /// Proof that this processor has AVX2.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        #[inline(always)]
        pub(crate) fn detect() -> Option<Self> {
            let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
            found.then_some(Self(()))
        }
    }

    impl Compare for Avx2 {
        #[inline(always)]
        fn matches(self, line: &Line, tag: u16) -> u32 {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe { matches(line, tag) }
        }

        #[inline(always)]
        fn scaled_slot(mask: u32, unit: usize) -> usize {
            mask.trailing_zeros() as usize * (unit / 2)
        }
    }

    /// Two bits per slot; the overflow count is no tag of a hash.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn matches(line: &Line, tag: u16) -> u32 {
        let pattern = _mm256_set1_epi16(tag.cast_signed());
        let equal: __m256i;
        // SAFETY: reads the 32 bytes of `line`. As an instruction rather than a plain load it
        // may meet the writer's stores: it stands for four relaxed loads (x86 never tears an
        // aligned word of eight bytes), which the fence makes acquiring.
        unsafe {
            asm!(
                "vpcmpeqw {equal}, {pattern}, ymmword ptr [{line}]",
                equal = lateout(ymm_reg) equal,
                pattern = in(ymm_reg) pattern,
                line = in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        fence(Acquire);
        _mm256_movemask_epi8(equal).cast_unsigned()
    }
}

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(any(loom, miri))))]
mod neon {
    use std::arch::aarch64::{
        vaddvq_u16, vandq_u16, vceqq_u16, vcombine_u64, vcreate_u64, vdupq_n_u16, vld1q_u16,
        vreinterpretq_u16_u64,
    };

    use super::{Acquire, Line, SLOT_MASK};

    const BITS: [u16; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

    #[inline(always)]
    pub(super) fn matches(line: &Line, tag: u16) -> u32 {
        let [a, b, c, d] = line.each_ref().map(|word| word.load(Acquire));
        // SAFETY: NEON is part of aarch64; BITS has the eight lanes that are loaded.
        unsafe {
            let pattern = vdupq_n_u16(tag);
            let bits = vld1q_u16(BITS.as_ptr());
            let half = |low, high| {
                let lanes =
                    vreinterpretq_u16_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
                u32::from(vaddvq_u16(vandq_u16(vceqq_u16(lanes, pattern), bits)))
            };
            (half(a, b) | half(c, d) << 8) & SLOT_MASK
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line_of(lanes: &[u16; 16]) -> Line {
        let line = Line::default();
        for (index, value) in lanes.iter().enumerate() {
            set_lane(&line, index, *value);
        }
        line
    }

    fn check(lanes: &[u16; 16], tag: u16) {
        let line = line_of(lanes);
        let expected = (0..SLOTS).fold(0, |mask, i| mask | u32::from(lanes[i] == tag) << i);
        assert_eq!(scalar(&line, tag), expected, "scalar {lanes:x?} {tag:x}");
        assert_eq!(matches(&line, tag), expected, "vector {lanes:x?} {tag:x}");
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if let Some(wide) = avx2::Avx2::detect().filter(|_| tag != lanes[OVERFLOW_LANE]) {
            let pairs = (0..SLOTS as u32).filter(|slot| expected >> slot & 1 == 1);
            let expected = pairs.fold(0, |mask, slot| mask | 3 << (2 * slot));
            assert_eq!(wide.matches(&line, tag), expected, "AVX2 {lanes:x?} {tag:x}");
        }
    }

    proptest! {
        #[test]
        fn vector_equals_scalar(lanes: [u16; 16], tag: u16, pick in 0usize..16) {
            check(&lanes, tag);
            check(&lanes, lanes[pick]);
        }

        #[test]
        fn vector_equals_scalar_near_borders(lanes in prop::array::uniform16(
            prop::sample::select(vec![0u16, 1, 2, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff])
        ), pick in 0usize..16) {
            check(&lanes, lanes[pick]);
        }
    }

    #[test]
    fn every_lane_stands_alone() {
        for lane in 0..16 {
            let mut lanes = [0xffff; 16];
            lanes[lane] = 0x8000;
            check(&lanes, 0x8000);
            check(&lanes, 0xffff);
        }
    }

    #[test]
    fn overflow_counts_beside_the_tags() {
        let line = line_of(&[5; 16]);
        add_overflow(&line, true);
        assert_eq!(overflow(&line), 6);
        add_overflow(&line, false);
        assert_eq!((overflow(&line), matches(&line, 5)), (5, 0x7fff));
    }

    #[test]
    fn an_overflow_count_is_never_taken_for_a_tag() {
        let line = line_of(&[0; 16]);
        add_overflow(&line, false);
        assert_eq!(overflow(&line), 0);
        set_lane(&line, OVERFLOW_LANE, LIVE_MIN - 1);
        add_overflow(&line, true);
        assert_eq!(overflow(&line), LIVE_MIN - 1);
    }
}
