//! Keys and probe order, drawn by the same rule as the peers draw theirs.
//!
//! `mix(x)` is the output function of splitmix64 on `x + 0x9e3779b97f4a7c15`; key `i` of two
//! words is `mix(2i)` and the low 40 bits of `mix(2i + 1)`: a random 5-tuple of 13 bytes.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random indices drawn beforehand and used round and round.
pub const PROBES: usize = 1 << 20;

/// The output function of splitmix64 on `x` plus its increment.
pub fn mix(x: u64) -> u64 {
    finish(x.wrapping_add(STEP))
}

fn finish(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Key `index`; for other widths than two every word is random.
pub fn key<const W: usize>(index: u64) -> [u64; W] {
    let word = |word: usize| mix(W as u64 * index + word as u64);
    let mut key = std::array::from_fn(word);
    if W == 2 {
        key[1] &= 0xff_ffff_ffff;
    }
    key
}

/// `PROBES` random keys of the `count` that start at `first`.
pub fn probes<const W: usize>(first: u64, count: u64) -> Vec<[u64; W]> {
    indices(count).map(|index| key(first + index)).collect()
}

/// `PROBES` random numbers below `count`.
pub fn indices(count: u64) -> impl Iterator<Item = u64> {
    (1..=PROBES as u64).map(move |draw| {
        let random = finish(1u64.wrapping_add(draw.wrapping_mul(STEP)));
        ((u128::from(random) * u128::from(count)) >> 64) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `key_of` and `draw` of `benches/peers/rte_hash.c` give.
    #[test]
    fn the_peers_keys_and_order() {
        assert_eq!(key::<2>(0), [0xe220_a839_7b1d_cdaf, 0xec_8902_5cc1]);
        assert_eq!(indices(1 << 32).next(), Some(0x910a_2dec));
        assert!(indices(7).all(|index| index < 7));
    }
}
