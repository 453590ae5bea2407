//! The hash of a key: seeded, eight bytes at a time.
//!
//! Clients choose the keys, so the seed is secret: who does not know it cannot make keys that fall
//! into one bucket.

/// An odd constant with as many ones as zeros: the golden ratio's.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The key itself, at most [`KEY_LEN_MAX`](super::limits::KEY_LEN_MAX) bytes.
    pub bytes: &'a [u8],
    /// Its hash, all 64 bits of which are good.
    pub hash: u64,
}

impl<'a> Key<'a> {
    /// The key under this seed.
    #[inline]
    pub fn new(bytes: &'a [u8], seed: u64) -> Key<'a> {
        Key { bytes, hash: hash(bytes, seed) }
    }

    /// The partition that has this key, of so many. The upper half of a product: it hangs on all
    /// bits, and leaves those that choose the bucket nearly free.
    #[inline]
    pub fn partition(&self, count: usize) -> usize {
        let mixed = self.hash.wrapping_mul(MULTIPLIER) >> 32;
        ((mixed * count as u64) >> 32) as usize
    }
}

/// Both halves of a product, folded into one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of some bytes under a seed.
#[inline]
pub fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        state = fold(state ^ u64::from_le_bytes(eight), MULTIPLIER ^ seed.rotate_left(32));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    state = fold(state ^ u64::from_le_bytes(last), MULTIPLIER ^ seed.rotate_left(17));
    fold(state ^ seed, MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_in_little_are_spread_evenly() {
        for count in [2, 3, 8] {
            let mut partitions = vec![0u32; count];
            let mut buckets = vec![0u32; 64];
            for number in 0..64_000 {
                let text = format!("key:{number}");
                let key = Key::new(text.as_bytes(), 7);
                partitions[key.partition(count)] += 1;
                if key.partition(count) == 0 {
                    buckets[(key.hash % 64) as usize] += 1;
                }
            }
            let even = 64_000 / count as u32;
            assert!(partitions.iter().all(|n| n.abs_diff(even) < even / 20), "{partitions:?}");
            let even = even / 64;
            assert!(buckets.iter().all(|n| n.abs_diff(even) < even / 2), "{buckets:?}");
        }
    }

    #[test]
    fn length_content_and_seed_all_count() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..40 {
            assert!(seen.insert(hash(&vec![0; len], 1)), "zeros, {len}");
            assert!(seen.insert(hash(&vec![0; len], 2)), "zeros, {len}, another seed");
        }
        for bit in 0..24 * 8 {
            let mut bytes = [0u8; 24];
            bytes[bit / 8] |= 1 << (bit % 8);
            assert!(seen.insert(hash(&bytes, 1)), "bit {bit}");
        }
    }
}
