//! The two hashes of a key: the store's, which is seeded, and the network card's.
//!
//! Clients choose the keys. The seed is secret, so that no client can make keys that fall into one
//! bucket. The card's hash has no secret and only chooses the partition: a client that makes keys
//! for one partition keeps one core busy, no more.

/// An odd constant with as many ones as zeros: the golden ratio's.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key with its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashedKey<'a> {
    /// The key itself, at most [`KEY_LEN_MAX`](super::limits::KEY_LEN_MAX) bytes.
    pub bytes: &'a [u8],
    /// Its hash, all 64 bits of which are good.
    pub hash: u64,
}

impl<'a> HashedKey<'a> {
    /// The key under this seed.
    #[inline]
    pub fn new(bytes: &'a [u8], seed: u64) -> HashedKey<'a> {
        HashedKey { bytes, hash: hash(bytes, seed) }
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

/// Parts of the keys that a card distinguishes: the lowest byte of [`steering`].
pub const STEERED: usize = 256;

/// The part of the keys that a card steers by: of [`STEERED`].
#[inline]
pub fn steered(bytes: &[u8]) -> usize {
    steering(bytes) as usize % STEERED
}

/// The partition of a part of the keys, of so many partitions. The card is set up with it, and the
/// store goes by it where a card steers.
#[inline]
pub fn owner(part: usize, partitions: usize) -> usize {
    part * partitions / STEERED
}

/// The contribution of a byte to a CRC-32C, by the number of bytes that follow it.
static CRC32C: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut behind = 1;
    while behind < 8 {
        byte = 0;
        while byte < 256 {
            let last = tables[behind - 1][byte];
            tables[behind][byte] = last >> 8 ^ tables[0][last as usize & 0xff];
            byte += 1;
        }
        behind += 1;
    }
    tables
};

/// CRC-32C from 0 without inversion, as programs of a card have it (`hash crc32`).
pub fn steering(bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut crc = 0;
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(crc);
        let part = |at: usize| CRC32C[7 - at][(word >> (8 * at)) as usize & 0xff];
        crc = (0..8).fold(0, |crc, at| crc ^ part(at));
    }
    rest.iter().fold(crc, |crc, byte| crc >> 8 ^ CRC32C[0][usize::from(crc as u8 ^ byte)])
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
                let key = HashedKey::new(text.as_bytes(), 7);
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
    fn a_card_steers_by_crc_32c() {
        // RFC 3720, B.4: its CRC begins with ones and is inverted at the end. Bytes whose effect is
        // that of a beginning with ones stand before.
        let standard = |bytes: &[u8]| {
            let mut all = bytes.to_vec();
            all[..4].iter_mut().for_each(|byte| *byte ^= 0xff);
            !steering(&all)
        };
        assert_eq!(standard(&[0; 32]), 0x8a91_36aa);
        assert_eq!(standard(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(standard(&rising), 0x46dd_794e);
        assert_eq!(standard(b"123456789"), 0xe306_9283);
        assert_eq!(steering(b""), 0);
    }

    #[test]
    fn parts_of_keys_are_spread_over_all_partitions() {
        for partitions in [1, 2, 3, 8, 256] {
            let mut counts = vec![0; partitions];
            (0..STEERED).for_each(|part| counts[owner(part, partitions)] += 1);
            let (least, most) = (STEERED / partitions, STEERED.div_ceil(partitions));
            assert!(counts.iter().all(|count| (least..=most).contains(count)), "{counts:?}");
        }
        let mut counts = vec![0_u32; 2];
        for number in 0..64_000 {
            counts[owner(steered(format!("key:{number}").as_bytes()), 2)] += 1;
        }
        assert!(counts[0].abs_diff(32_000) < 1_600, "{counts:?}");
    }

    #[test]
    fn length_content_and_seed_all_count() {
        let mut observed = std::collections::HashSet::new();
        for len in 0..40 {
            assert!(observed.insert(hash(&vec![0; len], 1)), "zeros, {len}");
            assert!(observed.insert(hash(&vec![0; len], 2)), "zeros, {len}, another seed");
        }
        for bit in 0..24 * 8 {
            let mut bytes = [0u8; 24];
            bytes[bit / 8] |= 1 << (bit % 8);
            assert!(observed.insert(hash(&bytes, 1)), "bit {bit}");
        }
    }
}
