//! Quiescence counters of a card's cores, in every order of threads with up to four preemptions
//! that the memory model allows.
//!
//! The file is the store's own; the atomics are the model checker's in place of the system's.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;

mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
}
#[allow(dead_code)]
#[path = "../src/kvs/store/quiescence.rs"]
mod quiescence;

use quiescence::QuiescenceCounters;

/// Who has looked so often, and let the other threads run each time, looks for ever: they take
/// fewer steps than that.
const LOOKS: usize = 50;

/// What an event tells: an item of the old segment, or something else.
const STORED: u64 = 1;
const OTHER: u64 = 2;

fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    // All orders there are would take minutes.
    builder.preemption_bound = Some(4);
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        body();
    });
    let runs = runs.load(Relaxed);
    assert!(runs > 20, "{runs} orders are too few to have tried anything");
}

/// A card's memory, as far as a segment that is full has to do with it.
struct World {
    turns: QuiescenceCounters,
    /// Where items go: an even number is the old segment, an odd one the next.
    next: AtomicU64,
    /// The bytes of an item in the old segment: two who have them at once are found.
    item: UnsafeCell<()>,
    /// Whether it was written.
    is_written: AtomicBool,
    /// Places of the ring that were taken, and what stands in those that were filled.
    begun: AtomicU64,
    ring: [AtomicU64; 4],
}

impl World {
    // Loom's own would be one more thing to be tried in every order.
    #[allow(clippy::arc_with_non_send_sync)]
    fn new(cores: usize) -> Arc<World> {
        Arc::new(World {
            turns: QuiescenceCounters::new(cores),
            next: AtomicU64::new(0),
            item: UnsafeCell::new(()),
            is_written: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            ring: Default::default(),
        })
    }

    fn tell(&self, event: u64) {
        let place = self.begun.fetch_add(1, Relaxed);
        self.ring[place as usize].store(event, Release);
    }

    /// A core is given a place; where that is in the old segment, it writes its item there, and
    /// tells of it.
    fn set(&self) {
        if self.next.fetch_add(2, AcqRel).is_multiple_of(2) {
            self.item.with_mut(|_| ());
            self.is_written.store(true, Relaxed);
            self.tell(STORED);
        }
    }

    /// The store gives the card another segment, and waits so often until all have ended a turn.
    fn seal(&self, rounds: usize) {
        // The cores may be in the middle of a turn.
        thread::yield_now();
        self.next.store(1, Release);
        let mut since = vec![0; self.turns.cores()];
        for _ in 0..rounds {
            self.turns.snapshot(&mut since);
            let has_ended = |_| {
                thread::yield_now();
                self.turns.have_passed(&since)
            };
            assert!((0..LOOKS).any(has_ended), "a core is waited for for ever");
        }
    }

    /// The old segment is emptied, and the card may have it again: nobody writes there any more.
    fn empty(&self) {
        self.item.with_mut(|_| ());
    }
}

/// A core that rested comes back while the store begins to wait.
#[test]
fn a_returning_core_writes_nothing_if_nobody_waits() {
    model(|| {
        let world = World::new(1);
        world.turns.sleep(0);
        let there = Arc::clone(&world);
        let core = thread::spawn(move || {
            there.turns.wake(0);
            there.set();
            there.turns.end(0);
            there.turns.sleep(0);
        });
        world.seal(1);
        world.empty();
        core.join().unwrap();
    });
}

/// What a core told of in the old segment stands before the first empty place of the ring, once
/// all have ended two turns; whatever another core tells meanwhile.
#[test]
fn events_of_two_turns_ago_lie_before_the_first_empty_entry() {
    model(|| {
        let world = World::new(2);
        let core = |place| {
            let there = Arc::clone(&world);
            thread::spawn(move || {
                for turn in 0..2 {
                    match (place, turn) {
                        (0, 0) => there.set(),
                        (0, _) => {}
                        _ => there.tell(OTHER),
                    }
                    there.turns.end(place);
                }
                there.turns.sleep(place);
            })
        };
        let cores = [core(0), core(1)];
        world.seal(2);
        let ring = world.ring.iter().map(|place| place.load(Acquire));
        let is_reported = ring.take_while(|event| *event != 0).any(|event| event == STORED);
        world.empty();
        cores.into_iter().for_each(|core| core.join().unwrap());
        assert_eq!(
            is_reported,
            world.is_written.load(Relaxed),
            "it would be told of a segment too late"
        );
    });
}
