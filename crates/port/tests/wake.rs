//! Sleep in every order that threads can have with up to three preemptions, as the memory model
//! allows them.
//!
//! The very file of the doorbell, over what is the model checker's instead of the system's.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use loom::model::Builder;
use loom::sync::atomic::AtomicU64;
use loom::thread;

#[path = "wake/sync.rs"]
mod sync;
#[allow(dead_code)]
#[path = "../src/wake.rs"]
mod wake;

use sync::BorrowedFd;
use wake::Doorbell;

/// Who has looked so often, and let the other threads run each time, looks for ever: they take
/// fewer steps than that. No more than two threads of a model look, or two would look in turns
/// while the third waits: loom is not fair.
const LOOKS: usize = 50;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    // All orders there are would take minutes.
    builder.preemption_bound = Some(3);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        body();
    });
    let runs = runs.load(Relaxed);
    assert!(runs > 20, "{runs} orders are too few to have tried anything");
}

/// Lets the others run until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        thread::yield_now();
    }
    panic!("{what} for ever");
}

fn sleep(event: BorrowedFd<'_>) {
    until("it sleeps", || event.is_readable());
}

/// One core works until it has had what `givers` others give, so many things each.
fn work(givers: usize, each: u64) {
    let given: Arc<Vec<_>> = Arc::new((0..givers).map(|_| AtomicU64::new(0)).collect());
    let doorbell = Arc::new(Doorbell::new().unwrap());
    for giver in 0..givers {
        let (given, doorbell) = (Arc::clone(&given), Arc::clone(&doorbell));
        thread::spawn(move || {
            for count in 1..=each {
                given[giver].store(count, Relaxed);
                doorbell.ring();
            }
        });
    }
    let had = || given.iter().map(|given| given.load(Relaxed)).sum::<u64>();
    let mut has_had = 0;
    while has_had < givers as u64 * each {
        doorbell.sleep_unless(|| had() > has_had, sleep);
        has_had = had();
        thread::yield_now();
    }
}

#[test]
fn a_core_does_not_sleep_for_ever_with_work_there() {
    model(|| work(1, 2));
    model(|| work(2, 1));
}

#[test]
fn a_core_that_is_given_nothing_more_sleeps() {
    model(|| {
        let (doorbell, given) = (Arc::new(Doorbell::new().unwrap()), Arc::new(AtomicU64::new(0)));
        let (there, giving) = (Arc::clone(&doorbell), Arc::clone(&given));
        let giver = thread::spawn(move || {
            giving.store(1, Relaxed);
            there.ring();
        });
        doorbell.sleep_unless(|| given.load(Relaxed) > 0, sleep);
        giver.join().unwrap();
        // What woke it too late wakes it once.
        let is_readable = Cell::new(false);
        for _ in 0..2 {
            doorbell.sleep_unless(|| false, |event| is_readable.set(event.is_readable()));
        }
        assert!(!is_readable.get(), "it never sleeps again");
    });
}
