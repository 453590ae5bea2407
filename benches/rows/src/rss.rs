//! Toeplitz hashes of 12-byte tuples against DPDK's.
//!
//! Ours hashes arrays of structures in bursts of 64, transposes included; the peers get theirs in
//! the form they like best (see `benches/peers/softrss.c`). Both checksums must agree.

use std::hint::black_box;

use niclab_nic::toeplitz::{HashPath, MICROSOFT_KEY, Toeplitz};
use niclab_pairing::{PairingError, slice};
use niclab_peer::{Answer, Peer};

use crate::keys::mix;
use crate::{Bench, BenchError, Measured};

/// Tuples per call of ours.
const BURST: usize = 64;

/// Hashes between two looks at the clock, at least, on both sides.
const CLOCK_STRIDE: usize = 65_536;

/// Tuples that go round in the bar's row.
const TUPLES: usize = 65_536;

/// The row: our best path against the documented fast one.
pub fn best(bench: &Bench) -> Result<Measured, BenchError> {
    compare(bench, HashPath::best(), "be", TUPLES)
}

/// A path of ours against a variant of the peer, `count` tuples going round.
pub fn compare(
    bench: &Bench,
    path: HashPath,
    variant: &str,
    count: usize,
) -> Result<Measured, BenchError> {
    let peer = bench.peer("softrss", &[variant]);
    let mut work = HashWork::new(path, count)?;
    let command = format!("hash {count} {}", bench.slice_ms);
    work.run();
    let checksum = work.checksum();
    let ours = || Ok(slice(bench.slice_ms, || work.run()));
    bench.compare(bench.pairs, peer, ours, |peer| Ok(check(&command, checksum, peer)?))
}

/// Tuples and room for their hashes.
struct HashWork {
    toeplitz: Toeplitz,
    tuples: Vec<[u8; 12]>,
    hashes: Vec<u32>,
}

impl HashWork {
    fn new(path: HashPath, count: usize) -> Result<Self, BenchError> {
        let toeplitz = Toeplitz::with_path(&MICROSOFT_KEY, path)?;
        Ok(Self { toeplitz, tuples: (0..count).map(tuple).collect(), hashes: vec![0; count] })
    }

    /// Hashes all tuples often enough for the clock, and returns how many hashes that made.
    fn run(&mut self) -> u64 {
        let passes = (CLOCK_STRIDE / self.tuples.len()).max(1);
        for _ in 0..passes {
            let bursts = self.tuples.chunks(BURST).zip(self.hashes.chunks_mut(BURST));
            for (tuples, hashes) in bursts {
                self.toeplitz.hash_bulk(black_box(tuples), black_box(hashes));
            }
        }
        (passes * self.tuples.len()) as u64
    }

    /// FNV-1a over the hashes as 64-bit units, as the peer has it.
    fn checksum(&self) -> u64 {
        self.hashes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &hash| {
            (sum ^ u64::from(hash)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// The tuple both sides have at `index`.
fn tuple(index: usize) -> [u8; 12] {
    let mut tuple = [0; 12];
    tuple[..8].copy_from_slice(&mix(2 * index as u64).to_le_bytes());
    tuple[8..].copy_from_slice(&(mix(2 * index as u64 + 1) as u32).to_le_bytes());
    tuple
}

/// Returns the peer's answer if it computed the same hashes.
fn check(command: &str, ours: u64, peer: &mut Peer) -> Result<Answer, PairingError> {
    let answer = peer.ask(command)?;
    match answer.rest.first() {
        Some(&theirs) if theirs == ours => Ok(answer),
        theirs => Err(PairingError::Checksum {
            peer: peer.name().to_owned(),
            ours,
            theirs: theirs.copied().unwrap_or_default(),
        }),
    }
}
