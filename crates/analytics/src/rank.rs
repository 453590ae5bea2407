//! The order of keys: count descending, then key ascending.

use serde::{Deserialize, Serialize};

/// A key and its count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCount {
    /// The key.
    pub key: u64,
    /// Tuples with this key.
    pub count: u64,
}

impl KeyCount {
    /// Smaller for a better rank.
    fn rank(&self) -> (std::cmp::Reverse<u64>, u64) {
        (std::cmp::Reverse(self.count), self.key)
    }
}

/// The best `top` of some keys, the best first. Each key occurs once.
pub fn best(counts: impl Iterator<Item = KeyCount>, top: usize) -> Vec<KeyCount> {
    let mut all: Vec<KeyCount> = counts.filter(|of| of.count > 0).collect();
    if all.len() > top && top > 0 {
        all.select_nth_unstable_by_key(top - 1, KeyCount::rank);
    }
    all.truncate(top);
    all.sort_unstable_by_key(KeyCount::rank);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_counts_rank_by_key() {
        let of = |pairs: &[(u64, u64)], top| {
            let counts = pairs.iter().map(|&(key, count)| KeyCount { key, count });
            best(counts, top).iter().map(|of| of.key).collect::<Vec<_>>()
        };
        assert_eq!(of(&[(9, 1), (4, 3), (2, 1), (7, 3), (1, 0)], 3), [4, 7, 2]);
        assert_eq!(of(&[(9, 1), (4, 3)], 10), [4, 9]);
        assert_eq!(of(&[(9, 1)], 0), [0; 0]);
    }
}
