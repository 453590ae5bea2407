//! A doorbell and its file between two threads; `tests/wake.rs` tries every order of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::wake::Doorbell;

/// Each round one side gives the other a number and waits until it comes back; a lost wake
/// shows as a sleep that its time limit ends.
#[test]
fn a_core_that_is_given_work_wakes() {
    const ROUNDS: u64 = 20_000;
    let limit = Timespec { tv_sec: 2, tv_nsec: 0 };
    let (doorbell, given, taken) = (Doorbell::new().unwrap(), AtomicU64::new(0), AtomicU64::new(0));
    let slept = std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let (mut longest, mut observed) = (Duration::ZERO, 0);
            while observed < ROUNDS {
                let begun = Instant::now();
                let has_work = || given.load(Ordering::Acquire) > observed;
                doorbell.sleep_unless(has_work, |event| {
                    let _ = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&limit));
                });
                longest = longest.max(begun.elapsed());
                observed = given.load(Ordering::Acquire);
                taken.store(observed, Ordering::Release);
            }
            longest
        });
        for round in 1..=ROUNDS {
            given.store(round, Ordering::Release);
            doorbell.ring();
            while taken.load(Ordering::Acquire) < round {
                std::thread::yield_now();
            }
        }
        sleeper.join().unwrap()
    });
    assert!(slept < Duration::from_secs(2), "a sleep of {slept:?}");
}
