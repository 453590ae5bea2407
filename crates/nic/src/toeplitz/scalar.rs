//! The hash by one table look-up per input byte: the twin every vector path is compared with.

/// Hashes `input` with the tables of its positions; both have the same length.
#[inline]
pub(super) fn hash(tables: &[[u32; 256]], input: &[u8]) -> u32 {
    tables.iter().zip(input).fold(0, |acc, (table, &byte)| acc ^ table[usize::from(byte)])
}

/// Hashes `tuples` into `out`, which is as long.
pub(super) fn hash_bulk<const N: usize>(
    tables: &[[u32; 256]],
    tuples: &[[u8; N]],
    out: &mut [u32],
) {
    let tables = &tables[..N];
    for (tuple, out) in tuples.iter().zip(out) {
        *out = hash(tables, tuple);
    }
}
