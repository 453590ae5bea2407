//! A seeded bijection of `0..space`, computed for one number at a time.
//!
//! An alternating Feistel network over two digits, `high` below `a` and `low` below `b`, with
//! `a * b >= space` and both near its root; the rare result outside is put through again until it
//! is inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, §4 and §5).
//! A round adds a hash of one digit to the other modulo its size, so it can be undone: distinct
//! numbers stay distinct. `a` exceeds the root by less than one, so about one number in `sqrt
//! (space)` goes through twice.

/// Rounds; four suffice to look random here, six leave a margin and cost some 10 ns.
const ROUNDS: usize = 6;

/// A bijection of `0..space`; `space` may be anything up to 2^126.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    space: u128,
    high_count: u64,
    low_count: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    pub(super) fn new(space: u128, seed: u64) -> Self {
        let high_count = ceil_sqrt(space);
        let low_count = space.div_ceil(high_count.into()) as u64;
        let mut state = seed;
        let keys = std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15); // SplitMix64
            mix(state)
        });
        Self { space, high_count, low_count, keys }
    }

    /// The image of `index`, which must be below the space.
    pub(super) fn apply(&self, index: u32) -> u128 {
        let index = u64::from(index);
        let mut image = self.rounds(index / self.low_count, index % self.low_count);
        while image >= self.space {
            let low_count = u128::from(self.low_count);
            image = self.rounds((image / low_count) as u64, (image % low_count) as u64);
        }
        image
    }

    fn rounds(&self, mut high: u64, mut low: u64) -> u128 {
        for keys in self.keys.chunks_exact(2) {
            high = add_below(high, mix(low ^ keys[0]), self.high_count);
            low = add_below(low, mix(high ^ keys[1]), self.low_count);
        }
        u128::from(high) * u128::from(self.low_count) + u128::from(low)
    }
}

/// `digit + hash` modulo `count`, the hash scaled down to `0..count` first.
fn add_below(digit: u64, hash: u64, count: u64) -> u64 {
    let scaled = ((u128::from(hash) * u128::from(count)) >> 64) as u64;
    let sum = digit + scaled; // both below 2^63
    if sum >= count { sum - count } else { sum }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The least number whose square is at least `value`.
fn ceil_sqrt(value: u128) -> u64 {
    let root = value.isqrt();
    (root + u128::from(root * root < value)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_spaces_are_permuted() {
        for space in 1..200u128 {
            let permutation = Permutation::new(space, 7);
            let mut images: Vec<u128> = (0..space as u32).map(|i| permutation.apply(i)).collect();
            images.sort_unstable();
            assert!(images.iter().copied().eq(0..space), "space {space}");
        }
    }

    #[test]
    fn images_are_spread() {
        // One dimension only: the hard case for a Feistel network over the dimensions.
        let permutation = Permutation::new(1 << 24, 1);
        let mut buckets = [0u32; 256];
        for index in 0..65_536 {
            buckets[(permutation.apply(index) >> 16) as usize] += 1;
        }
        // Mean 256, standard deviation 16: six of them.
        assert!(buckets.iter().all(|n| (160..352).contains(n)), "{buckets:?}");
    }

    #[test]
    fn roots() {
        for (value, root) in [(1, 1), (2, 2), (4, 2), (5, 3), (1 << 126, 1 << 63)] {
            assert_eq!(ceil_sqrt(value), root);
        }
    }
}
