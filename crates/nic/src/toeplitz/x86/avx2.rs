//! AVX2: 16 tuples at once, two rows to a vector, products by GFNI or by half-byte tables.

use std::arch::x86_64::*;

use super::super::groups::by_groups;
use super::super::tables::{LANES, Matrices, Nibbles};
use super::{BYTES_FROM_WORDS, COLUMN, WORDS_FROM_BYTES, column_of};

/// Hashes `tuples` into `out`, which is as long.
///
/// # Safety
///
/// `N` is at least 8 and divides by 4.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn hash_bulk<const N: usize>(
    nibbles: &[Nibbles],
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    by_groups(tuples, out, |tuples, out| {
        // SAFETY: `by_groups` promises tuples and room for 16, the caller what `N` is.
        unsafe { nibbles_16(nibbles, tuples, out) }
    });
}

/// Hashes `tuples` into `out`, which is as long.
///
/// # Safety
///
/// `N` is at least 8 and divides by 4.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn hash_bulk_gfni<const N: usize>(
    matrices: &[Matrices],
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    by_groups(tuples, out, |tuples, out| {
        // SAFETY: `by_groups` promises tuples and room for 16, the caller what `N` is.
        unsafe { gfni_16(matrices, tuples, out) }
    });
}

/// Hashes 16 tuples with one matrix product per pair of rows and turn.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read, `out` to room for 16 hashes; `N` is at least 8
/// and divides by 4.
#[inline]
#[target_feature(enable = "avx2,gfni")]
unsafe fn gfni_16<const N: usize>(matrices: &[Matrices], tuples: *const [u8; N], out: *mut u32) {
    let mut acc = [_mm256_setzero_si256(); LANES];
    for (column, matrices) in matrices[..N / 4].chunks(COLUMN).enumerate() {
        // SAFETY: as the caller promises.
        let words = unsafe { [words::<N, 0>(tuples, column), words::<N, 8>(tuples, column)] };
        for (at, Matrices(turns)) in (COLUMN - matrices.len()..).zip(matrices) {
            let [first, second] = [words[0][at], words[1][at]];
            for (half, rows) in words_to_rows(first, second).into_iter().enumerate() {
                for (turn, matrix) in turns.iter().enumerate() {
                    let product = _mm256_gf2p8affine_epi64_epi8::<0>(rows, load(matrix, half));
                    let acc = &mut acc[row_pair(turn, half)];
                    *acc = _mm256_xor_si256(*acc, product);
                }
            }
        }
    }
    // SAFETY: as the caller promises.
    unsafe { store_hashes(gather_lanes(acc), out) }
}

/// Hashes 16 tuples with two half-byte look-ups per pair of rows and turn.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read, `out` to room for 16 hashes; `N` is at least 8
/// and divides by 4.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn nibbles_16<const N: usize>(nibbles: &[Nibbles], tuples: *const [u8; N], out: *mut u32) {
    let mask = _mm256_set1_epi8(0x0f);
    let mut acc = [_mm256_setzero_si256(); LANES];
    for (column, nibbles) in nibbles[..N / 4].chunks(COLUMN).enumerate() {
        // SAFETY: as the caller promises.
        let words = unsafe { [words::<N, 0>(tuples, column), words::<N, 8>(tuples, column)] };
        for (at, nibbles) in (COLUMN - nibbles.len()..).zip(nibbles) {
            let [first, second] = [words[0][at], words[1][at]];
            for (half, rows) in words_to_rows(first, second).into_iter().enumerate() {
                let low = _mm256_and_si256(rows, mask);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(rows), mask);
                for turn in 0..LANES {
                    let low = _mm256_shuffle_epi8(load(&nibbles.low[turn], half), low);
                    let high = _mm256_shuffle_epi8(load(&nibbles.high[turn], half), high);
                    let acc = &mut acc[row_pair(turn, half)];
                    *acc = _mm256_xor_si256(*acc, _mm256_xor_si256(low, high));
                }
            }
        }
    }
    // SAFETY: as the caller promises.
    unsafe { store_hashes(gather_lanes(acc), out) }
}

/// Returns which of the sums a product belongs to: the rows of half 1 are lanes 2 and 3, for which
/// the turns that make hash bytes 0 and 1 are those that make bytes 2 and 3 of lanes 0 and 1.
#[inline(always)]
fn row_pair(turn: usize, half: usize) -> usize {
    turn ^ (2 * half)
}

/// Brings the turns together: hash bytes 0 and 1 of 16 tuples, and bytes 2 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn gather_lanes(acc: [__m256i; LANES]) -> [__m256i; 2] {
    let swap = |rows| _mm256_permute2x128_si256::<0x01>(rows, rows);
    [_mm256_xor_si256(acc[0], swap(acc[1])), _mm256_xor_si256(acc[2], swap(acc[3]))]
}

/// Interleaves the hash bytes and stores 16 hashes.
///
/// # Safety
///
/// `out` points to room for 16 hashes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_hashes([bytes_01, bytes_23]: [__m256i; 2], out: *mut u32) {
    // Words of four tuples each: lane 0 has bytes 0 and 2 of the hash, lane 1 bytes 1 and 3.
    let low = _mm256_unpacklo_epi32(bytes_01, bytes_23);
    let high = _mm256_unpackhi_epi32(bytes_01, bytes_23);
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let index = load_lanes(&WORDS_FROM_BYTES);
    for (at, words) in [low, high].into_iter().enumerate() {
        let bytes = _mm256_permutevar8x32_epi32(words, order);
        let hashes = _mm256_shuffle_epi8(bytes, index);
        // SAFETY: two vectors of 8 hashes are what the caller has room for.
        unsafe { _mm256_storeu_si256(out.add(8 * at).cast(), hashes) };
    }
}

/// Returns the word vectors of a column, the last ones where it has less than four: element `t`
/// has the word of tuple `FIRST + t`, of 8.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read; `FIRST` is 0 or 8; `N` is at least 8 and divides
/// by 4.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn words<const N: usize, const FIRST: usize>(
    tuples: *const [u8; N],
    column: usize,
) -> [__m256i; COLUMN] {
    // SAFETY: as the caller promises; `at` is at most 3.
    let pair = |at: usize| unsafe {
        let low = column_of(tuples, FIRST + at, column);
        _mm256_inserti128_si256::<1>(
            _mm256_castsi128_si256(low),
            column_of(tuples, FIRST + at + 4, column),
        )
    };
    let [a, b, c, d] = [pair(0), pair(1), pair(2), pair(3)];
    let ab_low = _mm256_unpacklo_epi32(a, b);
    let cd_low = _mm256_unpacklo_epi32(c, d);
    let ab_high = _mm256_unpackhi_epi32(a, b);
    let cd_high = _mm256_unpackhi_epi32(c, d);
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Turns words of tuples 0..8 and 8..16 to rows: bytes 0 and 1 of each, and bytes 2 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn words_to_rows(first: __m256i, second: __m256i) -> [__m256i; 2] {
    let index = load_lanes(&BYTES_FROM_WORDS);
    let first = _mm256_shuffle_epi8(first, index);
    let second = _mm256_shuffle_epi8(second, index);
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    [
        _mm256_permutevar8x32_epi32(_mm256_unpacklo_epi32(first, second), order),
        _mm256_permutevar8x32_epi32(_mm256_unpackhi_epi32(first, second), order),
    ]
}

/// Loads the tables or matrices of two lanes: 0 and 1, or 2 and 3.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T>(lanes: &[T; LANES], half: usize) -> __m256i {
    const { assert!(size_of::<T>() == 16) };
    let pair = &lanes[2 * half..][..2];
    // SAFETY: two lanes are 32 bytes, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(pair.as_ptr().cast()) }
}

/// Loads an index of one lane to both.
#[inline]
#[target_feature(enable = "avx2")]
fn load_lanes(from: &[u8; 16]) -> __m256i {
    // SAFETY: the reference is good for 16 bytes, and the load asks for no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
}
