//! The filter for sixteen packets at once, with AVX-512: each step through the tree and to the
//! precomputed intersections is a gather, one instruction that loads from sixteen places.
//!
//! The results are those of one packet by itself (`tree.rs`, `join.rs`); tests compare them.
//! Prefetching the sets' lines, as the plain implementation does, made it no faster.
//!
//! One of the modules that may use `unsafe`: intrinsics.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use super::Bits;
use super::join::{CHUNK, Chunk, END, FilterPass, Joined, PLACES, SETS};
use super::reader::{Burst, FilterReader};
use super::tree::{self, FAN, KIND_SHIFT, LINE_WORDS, LIST, Shape, low_bits};
use crate::limits::{BURST_MAX, FAN_BITS};
use crate::sync::{Acquire, AtomicU64, fence};

/// Packets of a vector.
const LANES: usize = 16;

/// Vectors of a burst.
const VECTORS: usize = BURST_MAX / LANES;

/// Proof that the processor supports the instructions of the functions here.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    /// Whether this processor supports them, and is not one whose gathers are slowed by microcode
    /// (Gather Data Sampling): bfloat16 excludes all of those but Cooper Lake. Measured only on an
    /// Intel Xeon (family 6 model 167).
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
            && is_x86_feature_detected!("bmi2");
        found.then_some(Self(()))
    }
}

impl<const F: usize> FilterPass<F> for Avx512 {
    fn numbers(&self, reader: &FilterReader<F>, burst: &mut Burst<F>, count: usize) {
        // SAFETY: a value of the type proves that the processor supports the instructions; all that
        // have BMI2 have BMI1.
        unsafe {
            match reader.shared.wide {
                0 => walk::<F, 0>(reader, burst, count),
                1 => walk::<F, 1>(reader, burst, count),
                _ => walk::<F, 2>(reader, burst, count),
            }
        }
    }

    fn place(&self, joined: &Joined<F>, wide: usize, burst: &mut Burst<F>, count: usize) -> bool {
        // SAFETY: as in `numbers`.
        unsafe {
            match wide {
                0 => place::<F, 0>(joined, burst, count),
                1 => place::<F, 1>(joined, burst, count),
                _ => place::<F, 2>(joined, burst, count),
            }
        }
    }

    fn first(&self, joined: &Joined<F>, burst: &mut Burst<F>, count: usize) {
        // SAFETY: as in `numbers`.
        unsafe { first(joined, burst, count) }
    }
}

/// All packets take one step before any takes the next, as in [`FilterReader::walk`], so that their
/// cache misses overlap.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
fn walk<const F: usize, const WIDE: usize>(
    reader: &FilterReader<F>,
    burst: &mut Burst<F>,
    count: usize,
) {
    let (tree, shapes) = (reader.shared.tree.words(), &reader.shared.shapes);
    let Burst { values, numbers, .. } = burst;
    let vectors = count.div_ceil(LANES).min(VECTORS);
    let mut steps = [[_mm512_setzero_si512(); WIDE]; VECTORS];
    for (at, steps) in steps.iter_mut().enumerate().take(vectors) {
        for field in 0..WIDE {
            let block = _mm512_srli_epi32::<16>(load(&values[field], at));
            steps[field] = halves(tree, add(block, shapes[field].root as u32), ALL);
        }
    }
    for (at, steps) in steps.iter_mut().enumerate().take(vectors) {
        for field in 0..WIDE {
            steps[field] = behind_fan(tree, steps[field], load(&values[field], at));
        }
    }
    for field in WIDE..F {
        let (shape, values, numbers) = (&shapes[field], &values[field], &mut numbers[field]);
        for at in 0..vectors {
            narrow(tree, shape, values, numbers, at);
        }
    }
    for (at, steps) in steps.iter().enumerate().take(vectors) {
        for field in 0..WIDE {
            let value = load(&values[field], at);
            store(&mut numbers[field], at, sets_of(tree, steps[field], value));
        }
    }
}

/// As [`tree::behind_fan`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn behind_fan(tree: &[AtomicU64], entry: __m512i, value: __m512i) -> __m512i {
    let is_fan = _mm512_cmpeq_epu32_mask(code(entry), all(FAN));
    if is_fan == 0 {
        return entry;
    }
    let block = and(_mm512_srli_epi32::<FAN_BITS>(value), low_bits(FAN_BITS));
    let child = _mm512_add_epi32(_mm512_slli_epi32::<1>(word(entry)), block);
    _mm512_mask_blend_epi32(is_fan, entry, halves(tree, child, is_fan))
}

/// As [`tree::set_of`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn sets_of(tree: &[AtomicU64], entry: __m512i, value: __m512i) -> __m512i {
    let (code, word) = (code(entry), word(entry));
    let is_node = _mm512_cmpneq_epu32_mask(code, all(0));
    let is_list = _mm512_cmpeq_epu32_mask(code, all(LIST));
    let below = ends_below(tree, (code, word), value, is_node & !is_list);
    let in_ranges = _mm512_add_epi32(_mm512_sllv_epi32(all(2), code), below);
    let in_node = _mm512_mask_blend_epi32(is_list, in_ranges, and(value, low_bits(FAN_BITS)));
    let at = _mm512_add_epi32(_mm512_slli_epi32::<2>(word), in_node);
    and(_mm512_mask_blend_epi32(is_node, entry, quarters(tree, at, is_node)), 0xffff)
}

/// How many of the last values of ranges are below a value, which is the index of the first that is
/// not: they ascend, and the last one is the largest value.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn ends_below(
    tree: &[AtomicU64],
    (code, word): (__m512i, __m512i),
    value: __m512i,
    is_ranges: __mmask16,
) -> __m512i {
    let has_eight = _mm512_mask_cmpge_epu32_mask(is_ranges, code, all(2));
    let has_sixteen = _mm512_mask_cmpge_epu32_mask(is_ranges, code, all(3));
    let has = [is_ranges, has_eight, has_sixteen, has_sixteen];
    let low = _mm512_castsi512_si256;
    let below = half_below(tree, low(word), low(value), has.map(|has| has as __mmask8));
    let high = _mm512_extracti64x4_epi64::<1>;
    let has = has.map(|has| (has >> 8) as __mmask8);
    let above = match has[0] {
        0 => _mm256_setzero_si256(),
        _ => half_below(tree, high(word), high(value), has),
    };
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(below), above)
}

/// [`ends_below`] for eight packets; `has` says which have the first four last values, the next
/// four, and so on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn half_below(tree: &[AtomicU64], word: __m256i, value: __m256i, has: [__mmask8; 4]) -> __m256i {
    // Each value four times in the eight bytes that it has.
    const FOUR: [i64; 2] = [0x0100_0100_0100_0100, 0x0908_0908_0908_0908];
    let four = _mm512_broadcast_i32x4(_mm_set_epi64x(FOUR[1], FOUR[0]));
    let value = _mm512_shuffle_epi8(_mm512_cvtepu32_epi64(value), four);
    let mut below = _mm512_setzero_si512();
    for (at, has) in has.into_iter().enumerate().take_while(|(_, has)| *has != 0) {
        let ends = words(tree, _mm256_add_epi32(word, _mm256_set1_epi32(at as i32)), has);
        let is_below = _mm512_cmplt_epu16_mask(ends, value);
        below = _mm512_mask_add_epi16(below, is_below, below, _mm512_set1_epi16(1));
    }
    _mm512_cvtepi64_epi32(_mm512_sad_epu8(below, _mm512_setzero_si512()))
}

/// As [`tree::number`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn narrow(
    tree: &[AtomicU64],
    shape: &Shape,
    values: &[u32; BURST_MAX],
    numbers: &mut [u32; BURST_MAX],
    at: usize,
) {
    let root = shape.root as u32;
    match shape.bits {
        Bits::Eight => {
            let slot = add(and(load(values, at), low_bits(8)), root);
            store(numbers, at, and(halves(tree, slot, ALL), 0xffff));
        }
        Bits::Sixteen => {
            let value = load(values, at);
            let block = and(_mm512_srli_epi32::<FAN_BITS>(value), low_bits(FAN_BITS));
            let entry = halves(tree, add(block, root), ALL);
            let is_list = _mm512_cmpeq_epu32_mask(code(entry), all(LIST));
            let first = _mm512_slli_epi32::<2>(word(entry));
            let in_list = _mm512_add_epi32(first, and(value, low_bits(FAN_BITS)));
            let set = quarters(tree, in_list, is_list);
            store(numbers, at, and(_mm512_mask_blend_epi32(is_list, entry, set), 0xffff));
        }
        Bits::ThirtyTwo => {
            for at in at * LANES..(at + 1) * LANES {
                numbers[at] = tree::number(tree, *shape, values[at]).into();
            }
        }
    }
}

/// From numbers of sets to places.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
fn place<const F: usize, const WIDE: usize>(
    joined: &Joined<F>,
    burst: &mut Burst<F>,
    count: usize,
) -> bool {
    let Burst { numbers, places, .. } = burst;
    let (mut unknown, narrow_len) = (0, joined.narrow.len().min(1 << 31) as u32);
    for at in 0..count.div_ceil(LANES).min(VECTORS) {
        let lanes = low_bits((count - at * LANES).min(LANES) as u32) as __mmask16;
        let step = |field: usize| {
            let number = and(load(&numbers[field], at), SETS as u32 - 1);
            // SAFETY: there is a step for each number.
            unsafe { _mm512_i32gather_epi32::<4>(number, joined.steps.as_ptr().cast()) }
        };
        let add = |index, field| _mm512_add_epi32(index, step(field));
        let index = (WIDE..F).fold(_mm512_setzero_si512(), add);
        let is_known = _mm512_cmplt_epu32_mask(index, all(narrow_len));
        let none = _mm512_setzero_si512();
        // SAFETY: places beyond the end are left out.
        let narrow = unsafe {
            _mm512_mask_i32gather_epi32::<4>(none, is_known, index, joined.narrow.as_ptr().cast())
        };
        for (field, places) in places.iter_mut().enumerate() {
            let place = match field {
                field if field < WIDE => step(field),
                field if field == WIDE => narrow,
                _ => all(joined.chunks as u32),
            };
            unknown |= _mm512_mask_cmpeq_epu32_mask(lanes, place, none);
            store(places, at, place);
        }
    }
    unknown == 0
}

/// From places to the first nonzero word of the intersection.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
fn first<const F: usize>(joined: &Joined<F>, burst: &mut Burst<F>, count: usize) {
    let Burst { places, words, bits, last, .. } = burst;
    let (count, chunks) = (count.min(BURST_MAX), joined.chunks);
    let most = |places: &[u32; BURST_MAX]| places[..count].iter().fold(0, |most, at| most.max(*at));
    let most = places.iter().map(most).fold(0, u32::max);
    assert!(most as usize + chunks <= joined.sets.len());
    let all_at = |at: usize, chunk: usize| {
        let set = |place: usize| {
            let start = joined.sets.as_ptr().wrapping_add(places[place][at] as usize + chunk);
            // SAFETY: the sets of all places were just found to exist, each of `chunks` chunks,
            // which are aligned for SIMD.
            unsafe { _mm256_load_si256(start.cast()) }
        };
        _mm256_and_si256(_mm256_and_si256(set(0), set(1)), set(2))
    };
    *last = 0;
    for at in 0..count {
        let mut chunk = 0;
        let (mut joint, mut some) = (_mm256_setzero_si256(), 0);
        while chunk < chunks {
            joint = all_at(at, chunk);
            some = _mm256_test_epi64_mask(joint, joint);
            if some != 0 {
                break;
            }
            chunk += 1;
        }
        let is_last = some & some.wrapping_sub(1) == 0 && chunk + 1 >= chunks;
        *last |= u64::from(is_last) << at;
        let word = (chunk * CHUNK) as u32 + some.trailing_zeros();
        words[at] = if some == 0 { END.0 } else { word };
        let first = _mm256_castsi256_si128(_mm256_maskz_compress_epi64(some, joint));
        bits[at] = _mm_cvtsi128_si64(first).cast_unsigned();
    }
}

const _: () = assert!(PLACES == 3 && CHUNK == 4 && size_of::<Chunk>() == size_of::<__m256i>());

// ---- lanes ------------------------------------------------------------------------------------

const ALL: __mmask16 = !0;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn load(values: &[u32; BURST_MAX], at: usize) -> __m512i {
    let values: &[u32] = &values[at * LANES..][..LANES];
    // SAFETY: there are as many values as lanes.
    unsafe { _mm512_loadu_si512(values.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn store(values: &mut [u32; BURST_MAX], at: usize, lanes: __m512i) {
    let values: &mut [u32] = &mut values[at * LANES..][..LANES];
    // SAFETY: there are as many values as lanes.
    unsafe { _mm512_storeu_si512(values.as_mut_ptr().cast(), lanes) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn all(value: u32) -> __m512i {
    _mm512_set1_epi32(value.cast_signed())
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn and(lanes: __m512i, mask: u32) -> __m512i {
    _mm512_and_si512(lanes, all(mask))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn add(lanes: __m512i, value: u32) -> __m512i {
    _mm512_add_epi32(lanes, all(value))
}

/// The kind of an entry.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn code(entry: __m512i) -> __m512i {
    _mm512_srli_epi32::<KIND_SHIFT>(entry)
}

/// The first word of an entry's node.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn word(entry: __m512i) -> __m512i {
    _mm512_slli_epi32::<1>(and(entry, low_bits(KIND_SHIFT)))
}

/// Halves of words, by their places; zeros beyond the end, and in lanes that are left out.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn halves(tree: &[AtomicU64], at: __m512i, lanes: __mmask16) -> __m512i {
    let len = (2 * tree.len()).min(1 << 31) as u32;
    let mut lanes = _mm512_mask_cmplt_epu32_mask(lanes, at, all(len));
    let mut found = _mm512_setzero_si512();
    // SAFETY: reads the halves of words that are there. As an instruction it may meet the writer's
    // stores: each half is read at once, for it is aligned (Intel SDM, volume 3, "Guaranteed Atomic
    // Operations"), and no later load comes before it.
    unsafe {
        asm!(
            "vpgatherdd {found}{{{lanes}}}, dword ptr [{tree} + 4 * {at}]",
            found = inout(zmm_reg) found,
            lanes = inout(kreg) lanes,
            tree = in(reg) tree.as_ptr(),
            at = in(zmm_reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    let _ = lanes;
    fence(Acquire);
    found
}

/// Quarters of words, by their places; something else above their 16 bits. Zeros as in [`halves`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn quarters(tree: &[AtomicU64], at: __m512i, lanes: __mmask16) -> __m512i {
    let half = halves(tree, _mm512_srli_epi32::<1>(at), lanes);
    _mm512_srlv_epi32(half, _mm512_slli_epi32::<4>(and(at, 1)))
}

/// Words, by their places; ones beyond the end, and in lanes that are left out.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,bmi1,bmi2")]
#[inline]
fn words(tree: &[AtomicU64], at: __m256i, lanes: __mmask8) -> __m512i {
    let len = tree.len().min(1 << 31) as u32;
    let len = _mm256_set1_epi32(len.cast_signed());
    let mut lanes = _mm256_mask_cmplt_epu32_mask(lanes, at, len);
    let mut found = _mm512_set1_epi64(-1);
    // SAFETY: as in `halves`, but for whole words.
    unsafe {
        asm!(
            "vpgatherdq {found}{{{lanes}}}, qword ptr [{tree} + 8 * {at}]",
            found = inout(zmm_reg) found,
            lanes = inout(kreg) lanes,
            tree = in(reg) tree.as_ptr(),
            at = in(ymm_reg) at,
            options(nostack, preserves_flags, readonly)
        );
    }
    let _ = lanes;
    fence(Acquire);
    found
}

const _: () = assert!(LINE_WORDS * size_of::<AtomicU64>() == 64);
