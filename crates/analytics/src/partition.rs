//! Which worker has a key: by a hash that a program of a card computes, too.

use niclab_apps::kvs::protocol::hash::steering;

/// Parts of the keys that a card distinguishes.
pub const PARTS: usize = 256;

/// The hash of a key, below [`PARTS`]: the lowest byte of the CRC-32C of its bytes in network
/// order, from 0 without inversion, as `hash crc32` in programs of a card.
#[inline]
pub fn part(key: u64) -> usize {
    steering(&key.to_be_bytes()) as usize % PARTS
}

/// The worker that has a key, of so many.
///
/// # Panics
/// If there is no worker.
#[inline]
pub fn worker(key: u64, workers: usize) -> usize {
    part(key) % workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_divided_evenly() {
        for workers in 1..=5 {
            let mut keys = vec![0_u32; workers];
            (0..64_000).for_each(|key| keys[worker(key, workers)] += 1);
            let even = 64_000 / workers as u32;
            assert!(keys.iter().all(|count| count.abs_diff(even) < even / 20), "{keys:?}");
        }
    }
}
