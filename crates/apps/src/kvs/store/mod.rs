//! The store: partitions of items, each behind a lock of its own.
//!
//! Any thread may serve any key; who has to wait for a partition is counted, with how long it took.
//! The only clock that is read here is the one that measures this waiting.

mod cleaning;
mod counters;
mod index;
mod item;
mod log;
mod operations;
mod partition;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

pub use counters::{Counters, Statistics};
pub use item::{Header, Item, mark};
pub use log::Place;
pub use operations::{Count, CountWay, Counted, Deleted, Mode, Write, Written, decimal};
pub use partition::{New, Partition, Shape, Unstored, Value};

use super::hash::Key;
use super::limits::{PARTITION_BYTES_MIN, PARTITIONS_MAX};
use super::time::Moment;

/// A store cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Less memory than its partitions need.
    #[error("--memory {bytes}: use at least {least} bytes for {partitions} partitions")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What they need.
        least: usize,
        /// How many they are.
        partitions: usize,
    },
    /// No partition, or too many.
    #[error("{partitions} partitions: use 1 to {PARTITIONS_MAX}")]
    Partitions {
        /// What was asked for.
        partitions: usize,
    },
}

/// A partition behind its lock. Neighbours do not share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Locked {
    partition: Mutex<Partition>,
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

/// All partitions.
#[derive(Debug)]
pub struct Store {
    partitions: Vec<Locked>,
    seed: u64,
    flushes: AtomicU64,
}

impl Store {
    /// An empty store that never has more memory than `bytes` for items and index together.
    ///
    /// # Errors
    /// [`StoreError`]: too little memory, or a number of partitions that cannot be.
    pub fn new(bytes: usize, partitions: usize, seed: u64) -> Result<Store, StoreError> {
        if !(1..=PARTITIONS_MAX).contains(&partitions) {
            return Err(StoreError::Partitions { partitions });
        }
        let least = partitions * PARTITION_BYTES_MIN;
        if bytes < least {
            return Err(StoreError::Memory { bytes, least, partitions });
        }
        let shape = |number| Shape { budget_bytes: bytes / partitions, number, count: partitions };
        let locked = |number| Locked {
            partition: Mutex::new(Partition::new(shape(number))),
            waits: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        };
        let partitions = (0..partitions).map(locked).collect();
        Ok(Store { partitions, seed, flushes: AtomicU64::new(0) })
    }

    /// A key as this store hashes it.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key::new(bytes, self.seed)
    }

    /// The partition of a key, alone.
    #[inline]
    pub fn partition(&self, key: &Key<'_>) -> MutexGuard<'_, Partition> {
        self.partitions[key.partition(self.partitions.len())].lock()
    }

    /// Empties it, now or at a time to come.
    pub fn flush(&self, at: Moment, now: Moment) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        for locked in &self.partitions {
            locked.lock().flush(at, now);
        }
    }

    /// Times that it was to be emptied.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// What all partitions have and have counted.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        for locked in &self.partitions {
            let statistics = locked.lock().statistics();
            all.add(&statistics);
            all.lock_waits += locked.waits.load(Ordering::Relaxed);
            all.lock_wait_ns += locked.wait_ns.load(Ordering::Relaxed);
        }
        all
    }

    /// Begins to count anew.
    pub fn reset_counters(&self) {
        self.flushes.store(0, Ordering::Relaxed);
        for locked in &self.partitions {
            locked.lock().reset_counters();
            locked.waits.store(0, Ordering::Relaxed);
            locked.wait_ns.store(0, Ordering::Relaxed);
        }
    }
}

impl Locked {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Partition> {
        match self.partition.try_lock() {
            Ok(partition) => partition,
            // A thread that broke off left a partition in which every step was whole.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, Partition> {
        let start = Instant::now();
        let partition = self.partition.lock().unwrap_or_else(PoisonError::into_inner);
        self.waits.fetch_add(1, Ordering::Relaxed);
        let waited_ns = start.elapsed().as_nanos() as u64;
        self.wait_ns.fetch_add(waited_ns, Ordering::Relaxed);
        partition
    }
}
