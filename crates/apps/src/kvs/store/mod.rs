//! The store: partitions of items, each behind a lock of its own.
//!
//! Any thread may serve any key. The store counts how often threads waited for a partition, and how
//! long; only for that it reads a clock.

mod bucket;
mod cleaning;
mod counters;
mod detail;
mod dma;
mod dma_segment;
#[cfg(test)]
mod dma_tests;
mod index;
mod item;
pub mod limits;
mod log;
mod operations;
mod partition;
mod quiescence;
#[cfg(test)]
pub(super) mod simulated_card_tests;
mod sync;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

pub use counters::{DmaItemCounters, Statistics, StoreCounters};
pub(super) use detail::PrefixRequest;
pub use detail::{PrefixCounters, Prefixes};
pub use dma::{DMA_PARTITION_BYTES_MIN, dma_segments_of};
pub use dma_segment::{AppendRegisters, DMA_SEGMENT_LEN, DmaSegments};
pub use item::item_len;
pub(super) use item::{Header, Item, mark};
pub(super) use log::LogAddress;
pub(super) use operations::CountOutcome;
use partition::PartitionConfig;
pub use partition::{NewItem, StoreFailure, Value};
// What it hands out leads to memory that a card writes (`dma_segment`).
pub(super) use partition::Partition;
pub use quiescence::QuiescenceCounters;

use crate::kvs::protocol::hash::{HashedKey, owner, steered};
use crate::kvs::protocol::time::UnixTime;
use limits::{PARTITION_BYTES_MIN, PARTITIONS_MAX};

/// A store cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Less memory than its partitions need.
    #[error(
        "--memory {bytes}: use at least {least} bytes for {partitions} partition{}",
        if *partitions == 1 { "" } else { "s" }
    )]
    Memory {
        /// The requested value.
        bytes: usize,
        /// The least memory.
        least: usize,
        /// How many they are.
        partitions: usize,
    },
    /// No partition, or too many.
    #[error("{partitions} partitions: use 1 to {PARTITIONS_MAX}")]
    Partitions {
        /// The requested value.
        partitions: usize,
    },
}

/// Rounds of looking for a free partition before a thread sleeps until there is one: some tens of
/// microseconds, several times what a group of requests takes.
const SPINS_MAX: u32 = 1_000;

/// A partition behind its lock. Neighbours do not share a cache line.
#[derive(Debug)]
#[repr(align(128))]
struct Locked {
    partition: Mutex<Partition>,
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

/// By what keys are spread over partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By their secret hash.
    #[default]
    Secret,
    /// By what a card can tell of them, too ([`steered`]).
    Steered,
}

/// All partitions.
#[derive(Debug)]
pub struct Store {
    partitions: Vec<Locked>,
    seed: u64,
    spread: Spread,
    flushes: AtomicU64,
    verbosity: AtomicU32,
    is_detailed: AtomicBool,
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
        let shape = |number| PartitionConfig {
            budget_bytes: bytes / partitions,
            number,
            count: partitions,
        };
        let locked = |number| Locked {
            partition: Mutex::new(Partition::new(shape(number))),
            waits: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        };
        let partitions = (0..partitions).map(locked).collect();
        let spread = Spread::default();
        let (flushes, verbosity, is_detailed) = Default::default();
        Ok(Store { partitions, seed, spread, flushes, verbosity, is_detailed })
    }

    /// The same, empty, with its keys spread in this way.
    pub fn spread_by(self, spread: Spread) -> Store {
        Store { spread, ..self }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// A key as this store hashes it.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> HashedKey<'a> {
        HashedKey::new(bytes, self.seed)
    }

    /// The partition of a key, alone.
    #[inline]
    pub(super) fn partition(&self, key: &HashedKey<'_>) -> MutexGuard<'_, Partition> {
        self.locked(self.partition_of(key))
    }

    /// Which partition has a key.
    #[inline]
    pub fn partition_of(&self, key: &HashedKey<'_>) -> usize {
        match self.spread {
            Spread::Secret => key.partition(self.partitions.len()),
            Spread::Steered => owner(steered(key.bytes), self.partitions.len()),
        }
    }

    /// A partition, alone; what a card has written is in it.
    #[inline]
    pub(super) fn locked(&self, number: usize) -> MutexGuard<'_, Partition> {
        let mut partition = self.partitions[number].lock();
        partition.catch_up();
        partition
    }

    /// A partition, alone, for whoever takes what a card tells event by event.
    #[inline]
    pub(super) fn own(&self, number: usize) -> MutexGuard<'_, Partition> {
        self.partitions[number].lock()
    }

    /// Stores an item under a key, in place of the one that is there.
    ///
    /// # Errors
    /// [`StoreFailure`].
    pub fn put(
        &self,
        key: &HashedKey<'_>,
        new: NewItem,
        value: Value<'_>,
        now: UnixTime,
    ) -> Result<(), StoreFailure> {
        self.partition(key).put(key, new, value, now).map(drop)
    }

    /// Has a partition link what its card has told of, and give it a segment where it has none.
    pub fn catch_up(&self, number: usize) {
        drop(self.locked(number));
    }

    /// Gives each partition its DMA segments, in their order, before anything is stored. The card
    /// and the store spread keys in the same way.
    ///
    /// # Panics
    /// If keys are not spread so ([`Spread::Steered`]), or not every partition gets segments: items
    /// would be linked where nobody looks for them.
    pub fn attach_dma(&self, segments: impl ExactSizeIterator<Item = DmaSegments>) {
        assert_eq!(self.spread, Spread::Steered, "a store with DMA segments is steered");
        assert_eq!(segments.len(), self.partitions.len(), "DMA segments for each partition");
        for (locked, dma) in self.partitions.iter().zip(segments) {
            locked.lock().attach_dma(dma, self.seed);
        }
    }

    /// One of these partitions, alone, the first that is free, and which of them; `None` where
    /// these are none.
    #[inline]
    pub(super) fn any(&self, numbers: &[u16]) -> Option<(usize, MutexGuard<'_, Partition>)> {
        let (at, mut partition) = self.free(numbers).or_else(|| self.wait_for_any(numbers))?;
        partition.catch_up();
        Some((at, partition))
    }

    #[inline]
    fn free(&self, numbers: &[u16]) -> Option<(usize, MutexGuard<'_, Partition>)> {
        numbers.iter().enumerate().find_map(|(at, &number)| {
            match self.partitions[usize::from(number)].partition.try_lock() {
                Ok(partition) => Some((at, partition)),
                Err(TryLockError::Poisoned(poisoned)) => Some((at, poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => None,
            }
        })
    }

    /// Whoever has them is about to be done: to sleep and be woken would take longer.
    #[cold]
    fn wait_for_any(&self, numbers: &[u16]) -> Option<(usize, MutexGuard<'_, Partition>)> {
        let first = &self.partitions[usize::from(*numbers.first()?)];
        let start = Instant::now();
        for _ in 0..SPINS_MAX {
            std::hint::spin_loop();
            if let Some(found) = self.free(numbers) {
                first.waited(start);
                return Some(found);
            }
        }
        let partition = first.partition.lock().unwrap_or_else(PoisonError::into_inner);
        first.waited(start);
        Some((0, partition))
    }

    /// Empties it, now or at a time to come.
    pub fn flush(&self, at: UnixTime, now: UnixTime) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        for number in 0..self.partitions.len() {
            self.locked(number).flush(at, now);
        }
    }

    /// Times that it was to be emptied.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Verbosity as a client set it. It only shows in `stats settings`.
    pub fn verbosity(&self) -> u32 {
        self.verbosity.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_verbosity(&self, verbosity: u32) {
        self.verbosity.store(verbosity, Ordering::Relaxed);
    }

    /// Whether it is counted by prefix what is asked for.
    pub fn is_detailed(&self) -> bool {
        self.is_detailed.load(Ordering::Relaxed)
    }

    /// Has it counted from now on, or not any more.
    pub fn set_detailed(&self, is_detailed: bool) {
        self.is_detailed.store(is_detailed, Ordering::Relaxed);
        for locked in &self.partitions {
            locked.lock().detail.is_on = is_detailed;
        }
    }

    /// Counters by prefix.
    pub fn prefixes(&self) -> Prefixes {
        let mut all = Prefixes::new();
        self.partitions.iter().for_each(|locked| locked.lock().detail.add_to(&mut all));
        all
    }

    /// The statistics of all partitions.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        for locked in &self.partitions {
            let mut partition = locked.lock();
            partition.catch_up();
            let statistics = partition.statistics();
            drop(partition);
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
        self.waited(start);
        partition
    }

    /// Counts that somebody waited.
    fn waited(&self, start: Instant) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let waited_ns = start.elapsed().as_nanos() as u64;
        self.wait_ns.fetch_add(waited_ns, Ordering::Relaxed);
    }
}
