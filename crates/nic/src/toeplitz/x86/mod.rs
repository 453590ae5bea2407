//! The x86-64 paths: feature detection and dispatch.

mod avx2;
mod avx512;

use std::arch::x86_64::*;

use super::HashPath;
use super::tables::Tables;

/// Returns whether the processor has AVX2 and GFNI.
pub(super) fn has_avx2_gfni() -> bool {
    std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("gfni")
}

/// Returns whether the processor has AVX-512 F and BW.
pub(super) fn has_avx512() -> bool {
    std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("avx512bw")
}

/// Returns whether the processor has AVX-512 F, BW and VBMI, and GFNI.
pub(super) fn has_avx512_gfni() -> bool {
    has_avx512()
        && std::is_x86_feature_detected!("avx512vbmi")
        && std::is_x86_feature_detected!("gfni")
}

/// Hashes `tuples` into `out`, which is as long; `N` is within the key's reach.
///
/// # Safety
///
/// This processor can run the path ([`HashPath::is_available`]); `N` is at least 8 and divides by
/// 4.
pub(super) unsafe fn hash_bulk<const N: usize>(
    path: HashPath,
    tables: &Tables,
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    debug_assert!(path.is_available());
    match path {
        // SAFETY: `N` as promised; the path is available: the processor has GFNI, VBMI, BW and F.
        HashPath::Avx512Gfni => unsafe { avx512::hash_bulk_gfni(&tables.matrices, tuples, out) },
        // SAFETY: `N` as promised; the path is available: the processor has AVX-512 BW and F.
        HashPath::Avx512 => unsafe { avx512::hash_bulk_bw(&tables.nibbles, tuples, out) },
        // SAFETY: `N` as promised; the path is available: the processor has GFNI and AVX2.
        HashPath::Avx2Gfni => unsafe { avx2::hash_bulk_gfni(&tables.matrices, tuples, out) },
        // SAFETY: `N` as promised; the path is available: the processor has AVX2.
        _ => unsafe { avx2::hash_bulk(&tables.nibbles, tuples, out) },
    }
}

/// Words in a column: a tuple is read in pieces of 16 bytes.
const COLUMN: usize = 4;

/// Returns the 16 bytes of tuple `at` whose last words are those of `column`; what a column of
/// less than four words leaves over at the front has no meaning.
///
/// # Safety
///
/// `tuples` points to more than `at` tuples that may be read; `N` is at least 8, and the column
/// begins within it.
#[inline(always)]
unsafe fn column_of<const N: usize>(tuples: *const [u8; N], at: usize, column: usize) -> __m128i {
    let tuple = tuples.wrapping_add(at).cast::<u8>();
    // SAFETY: all three stay within the tuples: the first 8 bytes of one; 16 bytes that end with
    // one of 12 or, of the first, 16 that start with it; 16 that lie within one of 16 or more.
    unsafe {
        match (N, at) {
            (8, _) => _mm_slli_si128::<8>(_mm_loadl_epi64(tuple.cast())),
            (12, 0) => _mm_slli_si128::<4>(_mm_loadu_si128(tuple.cast())),
            (12, _) => _mm_loadu_si128(tuple.sub(4).cast()),
            _ => _mm_loadu_si128(tuple.add((16 * column).min(N - 16)).cast()),
        }
    }
}

/// Within a lane: byte `i` of each of four words to word `i`.
const BYTES_FROM_WORDS: [u8; 16] = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15];

/// Within a lane: four hashes from four words that each hold one byte of them, the most
/// significant first.
const WORDS_FROM_BYTES: [u8; 16] = [12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3];
