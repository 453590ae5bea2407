//! Threads that work at once, each on its core: a barrier, and the time that others had the core.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Rounds of waiting for the other cores after which they may have this one.
const SPINS_MAX: u32 = 10_000;

/// Waits until the other cores are here, too.
pub(super) fn wait_at_barrier(waiting: &AtomicUsize) {
    waiting.fetch_sub(1, Ordering::AcqRel);
    let mut spins = 0;
    while waiting.load(Ordering::Acquire) > 0 {
        spins += 1;
        match spins % SPINS_MAX {
            0 => thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Time that this thread could have run and something else had its core, nanoseconds: waiting for
/// the other cores is none of it (the kernel's sched-stats.rst). 0 where the kernel does not count.
pub(super) fn delayed_ns() -> u64 {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counted.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}
