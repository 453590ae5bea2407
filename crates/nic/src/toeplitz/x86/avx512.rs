//! AVX-512: 16 tuples at once, products by GFNI or by half-byte tables.
//!
//! The burst is turned to rows with one byte permutation per input word: 12-byte tuples are
//! blended first (each position of three vectors holds each word of the tuple in exactly one of
//! them), 8-byte tuples come from two vectors at once, longer ones in columns of 16 bytes.

use std::arch::x86_64::*;

use super::super::groups::by_groups;
use super::super::tables::{LANES, Matrices, Nibbles};
use super::{BYTES_FROM_WORDS, COLUMN, WORDS_FROM_BYTES, column_of};

/// Hashes `tuples` into `out`, which is as long.
///
/// # Safety
///
/// `N` is at least 8 and divides by 4.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
pub(super) unsafe fn hash_bulk_gfni<const N: usize>(
    matrices: &[Matrices],
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    by_groups(tuples, out, |tuples, out| {
        // SAFETY: `by_groups` promises tuples and room for 16, the caller what `N` is.
        unsafe { _mm512_storeu_si512(out.cast(), gfni_16::<N>(matrices, tuples)) }
    });
}

/// Hashes `tuples` into `out`, which is as long.
///
/// # Safety
///
/// `N` is at least 8 and divides by 4.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn hash_bulk_bw<const N: usize>(
    nibbles: &[Nibbles],
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    by_groups(tuples, out, |tuples, out| {
        // SAFETY: `by_groups` promises tuples and room for 16, the caller what `N` is.
        unsafe { _mm512_storeu_si512(out.cast(), nibbles_16::<N>(nibbles, tuples)) }
    });
}

/// Hashes 16 tuples with one matrix product per word and turn.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `N` is at least 8 and divides by 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
unsafe fn gfni_16<const N: usize>(matrices: &[Matrices], tuples: *const [u8; N]) -> __m512i {
    let mut acc = [_mm512_setzero_si512(); LANES];
    for (column, matrices) in matrices[..N / 4].chunks(COLUMN).enumerate() {
        // SAFETY: as the caller promises.
        let rows = unsafe { rows_vbmi::<N>(tuples, column) };
        for (row, Matrices(turns)) in rows[COLUMN - matrices.len()..].iter().zip(matrices) {
            for (acc, turn) in acc.iter_mut().zip(turns) {
                let product = _mm512_gf2p8affine_epi64_epi8::<0>(*row, load(turn));
                *acc = _mm512_xor_si512(*acc, product);
            }
        }
    }
    _mm512_permutexvar_epi8(load(&INTERLEAVE), gather_lanes(acc))
}

/// Hashes 16 tuples with two half-byte look-ups per word and turn.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `N` is at least 8 and divides by 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibbles_16<const N: usize>(nibbles: &[Nibbles], tuples: *const [u8; N]) -> __m512i {
    let mask = _mm512_set1_epi8(0x0f);
    let mut acc = [_mm512_setzero_si512(); LANES];
    for (column, nibbles) in nibbles[..N / 4].chunks(COLUMN).enumerate() {
        // SAFETY: as the caller promises.
        let words = unsafe { words::<N>(tuples, column) };
        for (word, nibbles) in words[COLUMN - nibbles.len()..].iter().zip(nibbles) {
            let row = words_to_rows(*word);
            let low = _mm512_and_si512(row, mask);
            let high = _mm512_and_si512(_mm512_srli_epi16::<4>(row), mask);
            for (turn, acc) in acc.iter_mut().enumerate() {
                let low = _mm512_shuffle_epi8(load(&nibbles.low[turn]), low);
                let high = _mm512_shuffle_epi8(load(&nibbles.high[turn]), high);
                *acc = _mm512_ternarylogic_epi64::<XOR_3>(*acc, low, high);
            }
        }
    }
    let bytes = _mm512_permutexvar_epi32(load(&TRANSPOSE_WORDS), gather_lanes(acc));
    _mm512_shuffle_epi8(bytes, load_lanes(&WORDS_FROM_BYTES))
}

/// The truth table of an exclusive or of three.
const XOR_3: i32 = 0x96;

/// Brings the turns together: lane `j` becomes output byte `j` of 16 tuples.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather_lanes(acc: [__m512i; LANES]) -> __m512i {
    // In turn `c` output byte `j` stands in lane `j ^ c`.
    let one = _mm512_shuffle_i64x2::<0b10_11_00_01>(acc[1], acc[1]);
    let two = _mm512_shuffle_i64x2::<0b01_00_11_10>(acc[2], acc[2]);
    let three = _mm512_shuffle_i64x2::<0b00_01_10_11>(acc[3], acc[3]);
    _mm512_ternarylogic_epi64::<XOR_3>(acc[0], _mm512_xor_si512(one, two), three)
}

/// Returns a vector of rows per word of a column, the last ones where it has less than four: lane
/// `i` has byte `i` of the word of 16 tuples.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `N` is at least 8 and divides by 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn rows_vbmi<const N: usize>(tuples: *const [u8; N], column: usize) -> [__m512i; COLUMN] {
    let base = tuples.cast::<u8>();
    match N {
        8 => {
            // SAFETY: 16 tuples of 8 bytes are two vectors.
            let [a, b] = unsafe { [load_at(base, 0), load_at(base, 1)] };
            let row = |word: usize| _mm512_permutex2var_epi8(a, load(&ROWS_8[word]), b);
            [a, a, row(0), row(1)]
        }
        12 => {
            // SAFETY: 16 tuples of 12 bytes are three vectors.
            let words = unsafe { blend_12(base) };
            let row = |word: usize| _mm512_permutexvar_epi8(load(&ROWS_12[word]), words[word]);
            [words[0], row(0), row(1), row(2)]
        }
        _ => {
            // SAFETY: as the caller promises.
            let words = unsafe { words::<N>(tuples, column) };
            words.map(|word| _mm512_permutexvar_epi8(load(&ROWS), word))
        }
    }
}

/// Returns the word vectors of a column, the last ones where it has less than four: element `t`
/// has the word of tuple `t`.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `N` is at least 8 and divides by 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn words<const N: usize>(tuples: *const [u8; N], column: usize) -> [__m512i; COLUMN] {
    let base = tuples.cast::<u8>();
    match N {
        8 => {
            // SAFETY: 16 tuples of 8 bytes are two vectors.
            let [a, b] = unsafe { [load_at(base, 0), load_at(base, 1)] };
            let word = |word: usize| _mm512_permutex2var_epi32(a, load(&WORDS_8[word]), b);
            [a, a, word(0), word(1)]
        }
        12 => {
            // SAFETY: 16 tuples of 12 bytes are three vectors.
            let words = unsafe { blend_12(base) };
            let word = |word: usize| _mm512_permutexvar_epi32(load(&WORDS_12[word]), words[word]);
            [words[0], word(0), word(1), word(2)]
        }
        _ => {
            // SAFETY: as the caller promises, for each of the four.
            let quads = [0, 1, 2, 3].map(|first| unsafe { quad::<N>(tuples, column, first) });
            transpose_4x4(quads)
        }
    }
}

/// Returns a column of tuples `first`, `first + 4`, `first + 8` and `first + 12`.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `first` is at most 3; `N` is at least 8 and
/// divides by 4.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn quad<const N: usize>(tuples: *const [u8; N], column: usize, first: usize) -> __m512i {
    // SAFETY: as the caller promises, `at` is at most 15.
    let part = |at: usize| unsafe { column_of(tuples, at, column) };
    let parts = _mm512_castsi128_si512(part(first));
    let parts = _mm512_inserti32x4::<1>(parts, part(first + 4));
    let parts = _mm512_inserti32x4::<2>(parts, part(first + 8));
    _mm512_inserti32x4::<3>(parts, part(first + 12))
}

/// Transposes 4x4 words within each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_4x4([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let ab_low = _mm512_unpacklo_epi32(a, b);
    let cd_low = _mm512_unpacklo_epi32(c, d);
    let ab_high = _mm512_unpackhi_epi32(a, b);
    let cd_high = _mm512_unpackhi_epi32(c, d);
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Returns three vectors, each with one word of 16 tuples of 12 bytes, in the order of memory
/// modulo 16 words.
///
/// # Safety
///
/// `base` points to 192 bytes that may be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn blend_12(base: *const u8) -> [__m512i; 3] {
    // SAFETY: three vectors are 192 bytes.
    let [a, b, c] = unsafe { [load_at(base, 0), load_at(base, 1), load_at(base, 2)] };
    [0, 1, 2].map(|word: usize| {
        let from_b = _mm512_mask_blend_epi32(every_third(word + 2), a, b);
        _mm512_mask_blend_epi32(every_third(word + 1), from_b, c)
    })
}

/// Returns the mask of the positions that equal `first` modulo 3.
const fn every_third(first: usize) -> u16 {
    0x9249_u16 << (first % 3)
}

/// Turns a word vector to rows without VBMI.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn words_to_rows(word: __m512i) -> __m512i {
    let bytes = _mm512_shuffle_epi8(word, load_lanes(&BYTES_FROM_WORDS));
    _mm512_permutexvar_epi32(load(&TRANSPOSE_WORDS), bytes)
}

/// Loads a constant or table of 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: the reference is good for 64 bytes, and the load asks for no alignment.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(from).cast()) }
}

/// Loads the vector `at` vectors behind `base`.
///
/// # Safety
///
/// `base` points to `64 * (at + 1)` bytes that may be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_at(base: *const u8, at: usize) -> __m512i {
    // SAFETY: as the caller promises; the load asks for no alignment.
    unsafe { _mm512_loadu_si512(base.add(64 * at).cast()) }
}

/// Loads an index of one lane to all four.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_lanes(from: &[u8; 16]) -> __m512i {
    // SAFETY: the reference is good for 16 bytes, and the load asks for no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}

/// Byte `i` of each word of a word vector to lane `i`.
const ROWS: [u8; 64] = row_index(4, 0, 64);

/// The same for each word of 16 tuples of 8 bytes, from two vectors.
const ROWS_8: [[u8; 64]; 2] = [row_index(8, 0, 128), row_index(8, 4, 128)];

/// The same for each word of 16 tuples of 12 bytes, from what [`blend_12`] returns.
const ROWS_12: [[u8; 64]; 3] = [row_index(12, 0, 64), row_index(12, 4, 64), row_index(12, 8, 64)];

/// Each word of 16 tuples of 8 bytes, from two vectors.
const WORDS_8: [[u32; 16]; 2] = [word_index(2, 0, 32), word_index(2, 1, 32)];

/// Each word of 16 tuples of 12 bytes, from what [`blend_12`] returns.
const WORDS_12: [[u32; 16]; 3] = [word_index(3, 0, 16), word_index(3, 1, 16), word_index(3, 2, 16)];

/// Hashes from their bytes: lane `j` has byte `j` of 16 hashes, the most significant first.
const INTERLEAVE: [u8; 64] = {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        index[at] = (16 * (3 - at % 4) + at / 4) as u8;
        at += 1;
    }
    index
};

/// Word `b` of lane `a` from word `a` of lane `b`.
const TRANSPOSE_WORDS: [u32; 16] = {
    let mut index = [0; 16];
    let mut at = 0;
    while at < 16 {
        index[at] = (4 * (at % 4) + at / 4) as u32;
        at += 1;
    }
    index
};

/// Returns where byte `i` of the word at `offset` of tuple `t` lies, for place `16 * i + t`,
/// in tuples of `stride` bytes, counted modulo `modulus`.
const fn row_index(stride: usize, offset: usize, modulus: usize) -> [u8; 64] {
    let mut index = [0; 64];
    let mut at = 0;
    while at < 64 {
        index[at] = ((stride * (at % 16) + offset + at / 16) % modulus) as u8;
        at += 1;
    }
    index
}

/// Returns where word `word` of tuple `t` lies, for place `t`, in tuples of `stride` words,
/// counted modulo `modulus`.
const fn word_index(stride: usize, word: usize, modulus: usize) -> [u32; 16] {
    let mut index = [0; 16];
    let mut tuple = 0;
    while tuple < 16 {
        index[tuple] = ((stride * tuple + word) % modulus) as u32;
        tuple += 1;
    }
    index
}
