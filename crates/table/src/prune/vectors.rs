//! SIMD code of the filter for x86-64; `avx512` has the code for sixteen packets at once.
//!
//! One of the modules that may use `unsafe`: intrinsics.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16,
    _mm_setzero_si128, _mm_subs_epu16, _mm256_and_si256, _mm256_castsi256_pd, _mm256_cmpeq_epi64,
    _mm256_movemask_pd, _mm256_set_epi64x, _mm256_setzero_si256,
};

use super::avx512::Avx512;
use super::join::{CHUNK, Chunk, END, FilterPass, First, Joined, PLACES, Plain};
use super::reader::{Burst, FilterReader};
use super::tree::LINE_WORDS;
use crate::sync::{Acquire, AtomicU64, fence};

/// A half of a word, by its place.
#[inline(always)]
pub(super) fn half(tree: &[AtomicU64], at: usize) -> u32 {
    assert!(at < 2 * tree.len());
    let half: u32;
    // SAFETY: reads the half at `at`, which exists. As an instruction it may race with the writer's
    // stores: reads of x86 are never torn, and no later load comes before it.
    unsafe {
        asm!(
            "mov {half:e}, dword ptr [{tree} + 4 * {at}]",
            half = lateout(reg) half,
            tree = in(reg) tree.as_ptr(),
            at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    fence(Acquire);
    half
}

/// A quarter of a word, by its place.
#[inline(always)]
pub(super) fn quarter(tree: &[AtomicU64], at: usize) -> u16 {
    assert!(at < 4 * tree.len());
    let quarter: u32;
    // SAFETY: as in `half`.
    unsafe {
        asm!(
            "movzx {quarter:e}, word ptr [{tree} + 2 * {at}]",
            quarter = lateout(reg) quarter,
            tree = in(reg) tree.as_ptr(),
            at = in(reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    fence(Acquire);
    quarter as u16
}

/// A quarter of a line, which is there.
#[inline(always)]
pub(super) fn line_quarter(line: &[AtomicU64; LINE_WORDS], at: u32) -> u16 {
    let quarter: u32;
    // SAFETY: as in `half`; the place is within the line.
    unsafe {
        asm!(
            "movzx {quarter:e}, word ptr [{line} + 2 * {at}]",
            quarter = lateout(reg) quarter,
            line = in(reg) line,
            at = in(reg) at as usize % (4 * LINE_WORDS),
            options(nostack, preserves_flags, readonly)
        );
    }
    fence(Acquire);
    quarter as u16
}

/// The first of the last values of a node's ranges that is not below `value`: compares sixteen at
/// once. The values after those of a small node do not matter, because the largest value comes
/// before them.
#[inline(always)]
pub(super) fn first_not_below(line: &[AtomicU64; LINE_WORDS], code: u32, value: u16) -> u32 {
    // A node of four ranges may end with its line; to read more would take another line.
    let second = (code & 2) as usize;
    let (low, high): (__m128i, __m128i);
    // SAFETY: reads the first 32 bytes of the line; as in `half`, each of its words is read whole.
    // SSE2 is part of x86-64.
    unsafe {
        asm!(
            "movdqu {low}, xmmword ptr [{line}]",
            "movdqu {high}, xmmword ptr [{line} + 8 * {second}]",
            low = out(xmm_reg) low,
            high = lateout(xmm_reg) high,
            line = in(reg) line,
            second = in(reg) second,
            options(nostack, preserves_flags, readonly)
        );
        let value = _mm_set1_epi16(value.cast_signed());
        let below = [low, high].map(|ends| _mm_subs_epu16(value, ends));
        let [low, high] = below.map(|below| _mm_cmpeq_epi16(below, _mm_setzero_si128()));
        let not_below = _mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned();
        not_below.trailing_zeros() & 15
    }
}

/// [`FilterReader::find_burst`] with the best SIMD of this processor. False, and nothing is done,
/// if there is none.
#[inline]
pub(super) fn find_first<const F: usize>(
    reader: &FilterReader<F>,
    joined: Option<&Joined<F>>,
    tables: usize,
    burst: &mut Burst<F>,
    count: usize,
) -> bool {
    if let Some(avx512) = Avx512::detect() {
        reader.find_burst(&avx512, joined, tables, burst, count);
        return true;
    }
    find_by_avx2(reader, joined, tables, burst, count)
}

/// [`find_first`] with AVX2, if the processor supports it.
#[inline]
pub(super) fn find_by_avx2<const F: usize>(
    reader: &FilterReader<F>,
    joined: Option<&Joined<F>>,
    tables: usize,
    burst: &mut Burst<F>,
    count: usize,
) -> bool {
    let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2");
    if found {
        // SAFETY: the processor was just found to support the instructions; all that have BMI2 have
        // BMI1.
        unsafe { find_first_avx2(reader, joined, tables, burst, count) };
    }
    found
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn find_first_avx2<const F: usize>(
    reader: &FilterReader<F>,
    joined: Option<&Joined<F>>,
    tables: usize,
    burst: &mut Burst<F>,
    count: usize,
) {
    let first = |joined: &Joined<F>, places: &_| first_avx2(joined, places);
    reader.find_burst(&ByFirst(first), joined, tables, burst, count);
}

/// The plain implementation with another way to find a packet's first word: a closure, which is
/// compiled for the instructions of the function around it.
struct ByFirst<T>(T);

impl<const F: usize, T: Fn(&Joined<F>, &[u32; PLACES]) -> First> FilterPass<F> for ByFirst<T> {
    #[inline(always)]
    fn numbers(&self, reader: &FilterReader<F>, burst: &mut Burst<F>, count: usize) {
        Plain.numbers(reader, burst, count);
    }

    #[inline(always)]
    fn place(&self, joined: &Joined<F>, wide: usize, burst: &mut Burst<F>, count: usize) -> bool {
        Plain.place(joined, wide, burst, count)
    }

    #[inline(always)]
    fn first(&self, joined: &Joined<F>, burst: &mut Burst<F>, count: usize) {
        burst.take_firsts(count, |places| self.0(joined, places));
    }
}

/// [`Joined::first`], with SIMD.
#[target_feature(enable = "avx2,bmi1,bmi2")]
#[inline]
fn first_avx2<const F: usize>(joined: &Joined<F>, places: &[u32; PLACES]) -> First {
    for at in 0..joined.chunks {
        let sets = joined.sets_at(places, at);
        let [one, other, third] = sets.map(|set| vector(set));
        let all = _mm256_and_si256(_mm256_and_si256(one, other), third);
        let none = _mm256_cmpeq_epi64(all, _mm256_setzero_si256());
        let none = _mm256_movemask_pd(_mm256_castsi256_pd(none)).cast_unsigned();
        if none != 0b1111 {
            let word = none.trailing_ones();
            let [one, other, third] = sets.map(|set| set.0[word as usize % CHUNK]);
            let is_last = at + 1 == joined.chunks && (none | 1 << word) == 0b1111;
            return (((CHUNK * at) as u32 + word, one & other & third), is_last);
        }
    }
    (END, true)
}

#[target_feature(enable = "avx2")]
#[inline]
fn vector(chunk: &Chunk) -> __m256i {
    let [a, b, c, d] = chunk.0.map(u64::cast_signed);
    _mm256_set_epi64x(d, c, b, a)
}
