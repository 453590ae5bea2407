//! The loop of the vector paths: a burst in groups of 16 tuples.
//!
//! A path is one function that hashes exactly [`GROUP`] tuples and reads nothing else. The last
//! group of a burst overlaps the one before, and a burst of less than a group is hashed in a
//! padded copy, so no path has a second, masked form to go wrong.

/// Tuples a path hashes at once: a row of one input byte each fills a lane of 128 bits.
pub(super) const GROUP: usize = 16;

/// Calls `hash_16` for all of `tuples`: it may read 16 tuples at its first argument and must write
/// 16 hashes at its second.
#[inline(always)]
pub(super) fn by_groups<const N: usize>(
    tuples: &[[u8; N]],
    out: &mut [u32],
    hash_16: impl Fn(*const [u8; N], *mut u32),
) {
    assert_eq!(tuples.len(), out.len());
    let Some(last) = tuples.len().checked_sub(GROUP) else {
        let mut padded = [[0; N]; GROUP];
        let mut hashes = [0; GROUP];
        padded[..tuples.len()].copy_from_slice(tuples);
        hash_16(padded.as_ptr(), hashes.as_mut_ptr());
        return out.copy_from_slice(&hashes[..out.len()]);
    };
    let mut at = 0;
    loop {
        hash_16(tuples[at..].as_ptr(), out[at..].as_mut_ptr());
        if at == last {
            break;
        }
        at = last.min(at + GROUP);
    }
}
