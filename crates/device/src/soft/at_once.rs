//! Threads that work at once, each on its core: a barrier, and the time that others had the core.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::broken;
use crate::cores::Pinned;
use crate::face::DeviceError;

/// Rounds of waiting for the other cores after which they may have this one.
const SPINS_MAX: u32 = 10_000;

/// Where the threads of all cores wait for each other, any number of times.
pub(super) struct Barrier {
    threads: usize,
    /// Threads that have come, over all times.
    arrived: AtomicUsize,
    /// Whether a thread is missing: then none waits.
    is_broken: AtomicBool,
}

impl Barrier {
    fn new(threads: usize) -> Barrier {
        Barrier { threads, arrived: AtomicUsize::new(0), is_broken: AtomicBool::new(false) }
    }

    /// Waits until the other threads are here, too.
    pub(super) fn wait(&self) {
        // No thread comes again before all have come, so the number tells how often it has come.
        let number = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (number / self.threads + 1) * self.threads;
        let mut spins = 0;
        while self.arrived.load(Ordering::Acquire) < all && !self.is_broken.load(Ordering::Relaxed)
        {
            spins += 1;
            match spins % SPINS_MAX {
                0 => thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn break_off(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }
}

/// Breaks a barrier if its thread panics.
struct BreaksOnPanic<'a>(&'a Barrier);

impl Drop for BreaksOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.break_off();
        }
    }
}

/// Has a thread for each core do its part of `parts`. It keeps to its core of `pinned`; none:
/// wherever there is room. Returns the results in the same order.
///
/// # Errors
/// [`DeviceError::Broken`] if a thread cannot be started, or panics.
pub(super) fn on_cores<P: Send, R: Send>(
    pinned: &[Option<u32>],
    parts: impl Iterator<Item = P>,
    work: impl Fn(P, &Barrier) -> R + Sync,
) -> Result<Vec<R>, DeviceError> {
    let (barrier, work) = (Barrier::new(pinned.len()), &work);
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(pinned.len());
        let mut failed = None;
        for (&pinned, part) in pinned.iter().zip(parts) {
            let barrier = &barrier;
            let started = thread::Builder::new().spawn_scoped(scope, move || {
                let _breaks = BreaksOnPanic(barrier);
                let _pinned = pinned.map(Pinned::to);
                work(part, barrier)
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    barrier.break_off();
                    failed = Some(broken(format!("no thread for a core: {error}")));
                    break;
                }
            }
        }
        // All are joined before any is judged.
        let ended: Vec<Option<R>> = threads.into_iter().map(|thread| thread.join().ok()).collect();
        match failed {
            Some(error) => Err(error),
            None => ended
                .into_iter()
                .collect::<Option<_>>()
                .ok_or_else(|| broken("the thread of a core panicked")),
        }
    })
}

/// Time that this thread could have run and something else had its core, nanoseconds: waiting for
/// the other cores is none of it (the kernel's sched-stats.rst). 0 where the kernel does not count.
pub(super) fn delayed_ns() -> u64 {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    counted.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_are_there_before_any_goes_on() {
        let come = AtomicUsize::new(0);
        let seen = on_cores(&[None; 4], 0..4, |part, barrier| {
            (0..50)
                .map(|_| {
                    come.fetch_add(1, Ordering::AcqRel);
                    barrier.wait();
                    let seen = come.load(Ordering::Acquire);
                    barrier.wait();
                    (part, seen)
                })
                .collect::<Vec<_>>()
        });
        for (part, of) in seen.unwrap().into_iter().enumerate() {
            let expected: Vec<_> = (1..=50).map(|round| (part, 4 * round)).collect();
            assert_eq!(of, expected);
        }
    }

    #[test]
    fn a_thread_that_panics_leaves_no_other_one_waiting() {
        let ended = on_cores(&[None; 3], 0..3, |part, barrier| {
            assert_ne!(part, 1, "this panic is wanted");
            barrier.wait();
        });
        assert!(ended.unwrap_err().to_string().contains("the thread of a core panicked"));
    }
}
