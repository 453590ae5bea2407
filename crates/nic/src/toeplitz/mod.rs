//! The Toeplitz hash that network cards use for receive-side scaling.
//!
//! The hash of an input is the exclusive or of 32-bit windows of the key, one window per input
//! bit that is set: linear over GF(2). Three consequences carry this module:
//!
//! - an input byte adds one of 256 words, so a table per byte position replaces the bit loop;
//! - output byte `j` depends on input byte `i` through an 8x8 bit matrix that is a function of
//!   `i + j` alone, so a burst of tuples, turned to one row per input byte, is a handful of matrix
//!   products (GFNI) or of 16-entry look-ups of half bytes (AVX-512BW, AVX2, NEON);
//! - the order of the products is free, so they are laid out to need no more shuffles than it
//!   takes to turn the tuples to rows and the hashes back.
//!
//! Every SIMD path has the scalar one as its twin, tests compare them, and the choice is made once,
//! when the key is expanded. The module has no packets: inputs are tuples of bytes in network order
//! (addresses, then ports, source first), in the layout of the Microsoft specification of
//! receive-side scaling.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod groups;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::limits::HASH_BULK_MIN;
use tables::Tables;

/// The key of Microsoft's RSS verification suite, the default of most drivers.
pub const MICROSOFT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key that gives both directions of a flow the same hash: `6d5a` repeated.
///
/// A period of 16 bits makes any two input bytes that lie an even distance apart exchangeable, so
/// swapping addresses and ports changes nothing (Woo and Park, *Scalable TCP Session Monitoring
/// with Symmetric Receive-side Scaling*, KAIST 2012).
pub const SYMMETRIC_KEY: [u8; 40] = symmetric_key();

/// Shortest key accepted, in bytes: the IPv6 4-tuple is 36 bytes and the last needs 4 more.
pub const KEY_LEN_MIN: usize = 40;

/// Longest key accepted, in bytes: more than any card has (52), and its tables stay in cache.
pub const KEY_LEN_MAX: usize = 128;

/// Bytes of an IPv4 address pair.
pub const IPV4_2_TUPLE_LEN: usize = 8;

/// Bytes of an IPv4 address pair with ports.
pub const IPV4_4_TUPLE_LEN: usize = 12;

/// Bytes of an IPv6 address pair.
pub const IPV6_2_TUPLE_LEN: usize = 32;

/// Bytes of an IPv6 address pair with ports.
pub const IPV6_4_TUPLE_LEN: usize = 36;

const _: () = assert!(IPV6_4_TUPLE_LEN + 4 <= KEY_LEN_MIN);
const _: () = assert!(KEY_LEN_MIN <= KEY_LEN_MAX);

/// Why a hash could not be set up.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ToeplitzError {
    /// The key is too short for the IPv6 4-tuple, or absurdly long.
    #[error(
        "an RSS key of {len} bytes cannot be used; give {KEY_LEN_MIN} to {KEY_LEN_MAX} bytes \
         (most cards take 40 or 52)"
    )]
    KeyLength {
        /// Bytes that were given.
        len: usize,
    },
    /// The processor lacks the instructions of the path that was asked for.
    #[error("this processor cannot run the {path} hash path; `HashPath::best()` names one it can")]
    PathUnavailable {
        /// The path that was asked for.
        path: HashPath,
    },
}

/// How a burst of tuples is hashed; all paths give the same hashes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum HashPath {
    /// x86-64 with AVX2: half-byte look-ups, 16 tuples at a time.
    Avx2,
    /// x86-64 with AVX2 and GFNI: bit-matrix products, 16 tuples at a time.
    Avx2Gfni,
    /// x86-64 with AVX-512 F and BW: half-byte look-ups, 16 tuples at a time.
    Avx512,
    /// x86-64 with AVX-512 F, BW, VBMI and GFNI: bit-matrix products, 16 tuples at a time.
    Avx512Gfni,
    /// AArch64: half-byte look-ups, 16 tuples at a time.
    Neon,
    /// Any processor: one table of 256 words per input byte.
    Scalar,
}

impl HashPath {
    /// Every path, fastest first.
    pub const ALL: [Self; 6] =
        [Self::Avx512Gfni, Self::Avx512, Self::Avx2Gfni, Self::Avx2, Self::Neon, Self::Scalar];

    /// Returns the fastest path this processor can run.
    pub fn best() -> Self {
        Self::ALL.into_iter().find(|path| path.is_available()).unwrap_or(Self::Scalar)
    }

    /// Returns whether this processor can run the path.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => std::is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Gfni => x86::has_avx2_gfni(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::has_avx512(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Gfni => x86::has_avx512_gfni(),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Scalar => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }
}

impl std::fmt::Display for HashPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Avx2 => "AVX2",
            Self::Avx2Gfni => "AVX2 GFNI",
            Self::Avx512 => "AVX-512",
            Self::Avx512Gfni => "AVX-512 GFNI",
            Self::Neon => "NEON",
            Self::Scalar => "scalar",
        })
    }
}

/// A key, expanded to the tables its hashes are computed from.
///
/// Immutable: a key change builds a new one and publishes it. For a 40-byte key the tables take
/// 36 KiB for single hashes and 7 KiB for bulk ones, of which a 12-byte tuple uses a third.
#[derive(Clone)]
pub struct Toeplitz {
    key: Box<[u8]>,
    path: HashPath,
    tables: Tables,
}

impl Toeplitz {
    /// Expands `key` (40 to 128 bytes) for the fastest path of this processor.
    pub fn new(key: &[u8]) -> Result<Self, ToeplitzError> {
        Self::with_path(key, HashPath::best())
    }

    /// Expands `key` for one path, for tests and measurements that compare them.
    pub fn with_path(key: &[u8], path: HashPath) -> Result<Self, ToeplitzError> {
        if !(KEY_LEN_MIN..=KEY_LEN_MAX).contains(&key.len()) {
            return Err(ToeplitzError::KeyLength { len: key.len() });
        }
        if !path.is_available() {
            return Err(ToeplitzError::PathUnavailable { path });
        }
        Ok(Self { key: key.into(), path, tables: Tables::new(key) })
    }

    /// Returns the key this was made from.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the longest input the key reaches, in bytes: its length less 4.
    pub fn input_len_max(&self) -> usize {
        self.key.len() - 4
    }

    /// Returns how bulk hashes are computed.
    pub fn path(&self) -> HashPath {
        self.path
    }

    /// Memory of the tables, bytes.
    pub fn bytes(&self) -> usize {
        self.key.len() + self.tables.bytes()
    }

    /// Hashes one input in network byte order.
    ///
    /// # Panics
    ///
    /// If `input` is longer than [`Self::input_len_max`]; every key reaches 36 bytes.
    pub fn hash(&self, input: &[u8]) -> u32 {
        scalar::hash(&self.tables.bytes[..input.len()], input)
    }

    /// Hashes `tuples`, each in network byte order, into `out` at the same indices.
    ///
    /// The tuples lie one after another, as a parser leaves them: turning them for the vector
    /// unit is part of the work. Lengths of 8 bytes and more that divide by 4 take the vector
    /// path, others the scalar one; bursts of 16 and more tuples are the fastest.
    ///
    /// # Panics
    ///
    /// If `out` is not as long as `tuples`, or `N` is greater than [`Self::input_len_max`].
    pub fn hash_bulk<const N: usize>(&self, tuples: &[[u8; N]], out: &mut [u32]) {
        assert_eq!(tuples.len(), out.len(), "one hash per tuple");
        assert!(N <= self.input_len_max(), "the key does not reach {N} bytes");
        if tuples.len() < HASH_BULK_MIN || N < 8 || !N.is_multiple_of(4) {
            return scalar::hash_bulk(&self.tables.bytes, tuples, out);
        }
        match self.path {
            #[cfg(target_arch = "x86_64")]
            HashPath::Avx2 | HashPath::Avx2Gfni | HashPath::Avx512 | HashPath::Avx512Gfni => {
                // SAFETY: `with_path` saw that the path is available; `N` was just checked.
                unsafe { x86::hash_bulk(self.path, &self.tables, tuples, out) }
            }
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            HashPath::Neon => unsafe { neon::hash_bulk(&self.tables, tuples, out) },
            _ => scalar::hash_bulk(&self.tables.bytes, tuples, out),
        }
    }
}

impl std::fmt::Debug for Toeplitz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toeplitz")
            .field("key", &self.key)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

const fn symmetric_key() -> [u8; 40] {
    let mut key = [0x6d; 40];
    let mut at = 1;
    while at < key.len() {
        key[at] = 0x5a;
        at += 2;
    }
    key
}
