//! Cores that sleep while no frame comes, and those that wake them.
//!
//! A core that is about to sleep says so, and then looks once more whether there is anything to do;
//! whoever gives it something does so, and then looks whether it sleeps. Between the two steps of
//! each lies a sequentially consistent fence, so at least one of them sees what the other did: the
//! core does not sleep, or it is woken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// Wakes one core.
pub(crate) struct Bed {
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Bed {
    pub(crate) fn new() -> io::Result<Bed> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bed { is_asleep: AtomicBool::new(false), event })
    }

    /// Wakes the core, if it sleeps, after it was given something.
    #[inline]
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            // Were the counter full, it would be readable as well.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    /// Lets the core sleep by `sleep`, which ends once what it is given is readable, unless
    /// `has_work` says that there is something to do.
    pub(crate) fn rest(&self, has_work: impl FnOnce() -> bool, sleep: impl FnOnce(BorrowedFd<'_>)) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            sleep(self.event.as_fd());
        }
        if !self.is_asleep.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Each round one side gives the other a number and waits until it comes back; a lost wake
    /// shows as a sleep that its time limit ends.
    #[test]
    fn whoever_is_given_something_wakes() {
        const ROUNDS: u64 = 20_000;
        let limit = Timespec { tv_sec: 2, tv_nsec: 0 };
        let (bed, given, taken) = (Bed::new().unwrap(), AtomicU64::new(0), AtomicU64::new(0));
        let slept = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let (mut longest, mut seen) = (Duration::ZERO, 0);
                while seen < ROUNDS {
                    let begun = Instant::now();
                    let has_work = || given.load(Ordering::Acquire) > seen;
                    bed.rest(has_work, |event| {
                        let _ = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&limit));
                    });
                    longest = longest.max(begun.elapsed());
                    seen = given.load(Ordering::Acquire);
                    taken.store(seen, Ordering::Release);
                }
                longest
            });
            for round in 1..=ROUNDS {
                given.store(round, Ordering::Release);
                bed.wake();
                while taken.load(Ordering::Acquire) < round {
                    std::thread::yield_now();
                }
            }
            sleeper.join().unwrap()
        });
        assert!(slept < Duration::from_secs(2), "a sleep of {slept:?}");
    }
}
