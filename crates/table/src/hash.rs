//! The seeded hash of a key: pairs of words multiplied to 128 bits and folded.
//!
//! The high bits of a hash select the home group. The low 16 bits are the tag, whose highest bit is
//! always set. Each word is combined with a secret drawn from the seed, so that without the seed
//! nobody can aim keys at one group. It is not a cryptographic hash.

use std::hash::{BuildHasher, RandomState};

use crate::limits::KEY_WORDS_MAX;
use crate::tags::{LIVE_MIN, tag_of};

/// The hash function of a table, made from its seed: 19 secret words. A clone holds no part of the
/// table.
#[derive(Debug, Clone)]
pub struct Hasher {
    words: [u64; KEY_WORDS_MAX],
    last: [u64; 2],
}

impl Hasher {
    /// The function of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            splitmix(state) | 1
        };
        Self { words: std::array::from_fn(|_| draw()), last: [draw(), draw()] }
    }

    /// The hash of `key`: one multiplication per pair of words and one more to finish.
    #[inline(always)]
    #[must_use]
    pub fn hash<const W: usize>(&self, key: &[u64; W]) -> u64 {
        self.live(key).word()
    }

    /// [`Hasher::hash`], as look-ups need it.
    #[inline(always)]
    pub(crate) fn live<const W: usize>(&self, key: &[u64; W]) -> LiveHash {
        let mut folded = 0u64;
        let mut word = 0;
        while word < W {
            let left = key[word] ^ self.words[word];
            let right = match word + 1 < W {
                true => key[word + 1] ^ self.words[word + 1],
                false => self.last[1],
            };
            folded = folded.rotate_left(23) ^ fold(left, right);
            word += 2;
        }
        LiveHash::of(fold(folded ^ self.last[0], self.last[1]))
    }
}

/// A hash with the tag of a live entry, whatever its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveHash(u64);

impl LiveHash {
    /// The hash of zero, a placeholder for arrays.
    pub(crate) const ZERO: Self = Self(LIVE_MIN as u64);

    /// `hash` with the bit that every tag has.
    #[inline(always)]
    pub(crate) fn of(hash: u64) -> Self {
        Self(hash | u64::from(LIVE_MIN))
    }

    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        tag_of(self.0)
    }
}

/// Both halves of the 128-bit product, xored.
#[inline(always)]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hashes the keys of the writer's own maps: one multiplication for each eight bytes, from a random
/// seed.
#[derive(Debug, Clone)]
pub(crate) struct Mixing(u64);

impl Default for Mixing {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Mixing {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        Mix(self.0)
    }
}

/// A hash in progress.
#[derive(Debug)]
pub(crate) struct Mix(u64);

impl std::hash::Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for eight in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..eight.len()].copy_from_slice(eight);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(self.0 ^ word, 0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ word;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.0, 0xbf58_476d_1ce4_e5b9)
    }
}

/// The output function of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
fn splitmix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Packs bytes into the words of a key, little end first, padded with zeros: byte `n` is bits
/// `8 * (n % 8)` to `8 * (n % 8) + 7` of word `n / 8`.
///
/// `None` when `bytes` are more than `8 * W`. Padding makes `[1]` and `[1, 0]` the same key, so
/// one table takes keys of one length only; [`pack_bytes`] is for keys of any length.
///
/// ```
/// assert_eq!(niclab_table::pack_key(&[1, 2, 0, 0, 0, 0, 0, 0, 3]), Some([0x201, 3]));
/// assert_eq!(niclab_table::pack_key::<1>(&[0; 9]), None);
/// ```
#[inline]
pub fn pack_key<const W: usize>(bytes: &[u8]) -> Option<[u64; W]> {
    if bytes.len() > 8 * W {
        return None;
    }
    let mut key = [0; W];
    for (word, chunk) in key.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(padded);
    }
    Some(key)
}

/// The most bytes that [`pack_bytes`] packs into `words` words: one less than they have.
#[must_use]
pub const fn key_bytes_max(words: usize) -> usize {
    8 * words - 1
}

/// Packs bytes of any length up to [`key_bytes_max`] into the words of a key: as [`pack_key`] does,
/// with the length in the last byte of the last word. So keys of different lengths differ, also
/// where the longer one ends with zeros.
///
/// `None` when there are more.
///
/// ```
/// use niclab_table::pack_bytes;
///
/// assert_eq!(pack_bytes(b"ab"), Some([0x0200_0000_0000_6261]));
/// assert_ne!(pack_bytes::<1>(&[1]), pack_bytes::<1>(&[1, 0]));
/// assert_eq!(pack_bytes::<1>(&[0; 8]), None);
/// ```
#[inline]
#[must_use]
pub fn pack_bytes<const W: usize>(bytes: &[u8]) -> Option<[u64; W]> {
    if W == 0 || bytes.len() > key_bytes_max(W) {
        return None;
    }
    let mut key = pack_key(bytes)?;
    // 135 at most: see KEY_WORDS_MAX.
    key[W - 1] |= (bytes.len() as u64) << 56;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of 2^16 structured keys over 256 bins stays within six deviations of its mean.
    fn check_spread<const W: usize>(bin: impl Fn(u64) -> usize, make: impl Fn(u64) -> [u64; W]) {
        let hasher = Hasher::new(7);
        let mut bins = [0f64; 256];
        for i in 0..1u64 << 16 {
            bins[bin(hasher.hash(&make(i)))] += 1.0;
        }
        let chi: f64 = bins.iter().map(|n| (n - 256.0).powi(2) / 256.0).sum();
        assert!((chi - 255.0).abs() < 6.0 * (2.0 * 255.0f64).sqrt(), "chi-square {chi}");
    }

    fn check_structures<const W: usize>() {
        for shift in [0, 8, 24, 40, 48] {
            for word in 0..W {
                let make = |i: u64| {
                    let mut key = [0; W];
                    key[word] = i << shift;
                    key
                };
                check_spread::<W>(|h| (h >> 56) as usize, make);
                check_spread::<W>(|h| (h & 255) as usize, make);
                check_spread::<W>(|h| (h >> 7 & 255) as usize, make);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long under Miri")]
    fn spreads_counters_in_any_word() {
        check_structures::<1>();
        check_structures::<2>();
        check_structures::<3>();
        check_structures::<5>();
        check_structures::<8>();
    }

    #[test]
    fn seed_changes_the_hash() {
        assert_ne!(Hasher::new(1).hash(&[5, 6]), Hasher::new(2).hash(&[5, 6]));
    }

    #[test]
    fn every_bit_of_the_key_counts() {
        let hasher = Hasher::new(3);
        let key = [0x0123_4567_89ab_cdef; 8];
        for bit in 0..512 {
            let mut other = key;
            other[bit / 64] ^= 1 << (bit % 64);
            assert_ne!(hasher.hash(&key), hasher.hash(&other), "bit {bit}");
        }
    }

    #[test]
    fn pack_pads_and_refuses() {
        assert_eq!(pack_key(&[0xff; 4]), Some([0xffff_ffff]));
        assert_eq!(pack_key(&[1; 13]), Some([0x0101_0101_0101_0101, 0x01_0101_0101]));
        assert_eq!(pack_key::<2>(&[0; 17]), None);
    }

    #[test]
    fn keys_of_all_lengths_differ() {
        let zeros = [0; 8 * KEY_WORDS_MAX];
        let keys = (0..=key_bytes_max(KEY_WORDS_MAX)).map(|len| pack_bytes(&zeros[..len]));
        let keys: Vec<[u64; KEY_WORDS_MAX]> = keys.collect::<Option<_>>().unwrap();
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!((keys.len(), distinct.len()), (136, 136));
        assert_eq!(pack_bytes::<KEY_WORDS_MAX>(&zeros), None);
        assert_eq!(pack_bytes::<2>(&[0xff; 15]), Some([u64::MAX, u64::MAX >> 8 | 15 << 56]));
    }
}
