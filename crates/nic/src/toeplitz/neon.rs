//! NEON: 16 tuples at once by half-byte tables, one row to a register.

use std::arch::aarch64::*;

use super::groups::{GROUP, by_groups};
use super::tables::{LANES, Nibbles, Tables};

/// Hashes `tuples` into `out`, which is as long; `N` is within the key's reach.
///
/// # Safety
///
/// The processor has NEON; `N` divides by 4.
pub(super) unsafe fn hash_bulk<const N: usize>(
    tables: &Tables,
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    by_groups(tuples, out, |tuples, out| {
        // SAFETY: `by_groups` promises 16 tuples and room for 16 hashes, the caller the rest.
        unsafe { hash_16(&tables.nibbles, tuples, out) }
    });
}

/// Hashes 16 tuples with two half-byte look-ups per row and hash byte.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read, `out` to room for 16 hashes; `N` divides by 4.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn hash_16<const N: usize>(nibbles: &[Nibbles], tuples: *const [u8; N], out: *mut u32) {
    let mut acc = [vdupq_n_u8(0); LANES];
    for (word, nibbles) in nibbles[..N / 4].iter().enumerate() {
        // SAFETY: as the caller promises.
        let rows = unsafe { rows(tuples, word) };
        for (lane, row) in rows.into_iter().enumerate() {
            let low = vandq_u8(row, vdupq_n_u8(0x0f));
            let high = vshrq_n_u8::<4>(row);
            for turn in 0..LANES {
                let low = vqtbl1q_u8(load(&nibbles.low[turn][lane]), low);
                let high = vqtbl1q_u8(load(&nibbles.high[turn][lane]), high);
                let acc = &mut acc[turn ^ lane];
                *acc = veorq_u8(*acc, veorq_u8(low, high));
            }
        }
    }
    let [a, b, c, d] = acc;
    // SAFETY: four interleaved rows are the 16 hashes the caller has room for, least significant
    // byte first.
    unsafe { vst4q_u8(out.cast(), uint8x16x4_t(d, c, b, a)) };
}

/// Returns the four rows of a word: byte `i` of it of 16 tuples.
///
/// # Safety
///
/// `tuples` points to 16 tuples that may be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn rows<const N: usize>(tuples: *const [u8; N], word: usize) -> [uint8x16_t; LANES] {
    let mut words = [0_u32; GROUP];
    for (at, slot) in words.iter_mut().enumerate() {
        // SAFETY: the word lies within tuple `at` of the 16.
        *slot = unsafe { tuples.add(at).cast::<u32>().add(word).read_unaligned() };
    }
    // SAFETY: 16 words are 64 bytes.
    let uint8x16x4_t(a, b, c, d) = unsafe { vld4q_u8(words.as_ptr().cast()) };
    [a, b, c, d]
}

/// Loads the half-byte table of one row and hash byte.
#[inline]
#[target_feature(enable = "neon")]
fn load(table: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the reference is good for 16 bytes.
    unsafe { vld1q_u8(table.as_ptr()) }
}
