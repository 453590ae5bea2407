//! Migration of flows, in every order that threads can have with up to three preemptions, as the
//! memory model allows them.
//!
//! The very files, over what is the model checker's instead of the system's.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};

use loom::model::Builder;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rss::RssStamp;

#[path = "../../port/tests/wake/sync.rs"]
mod doorbell;
#[allow(dead_code)]
#[path = "../src/flow_migration.rs"]
mod flow_migration;

/// Loom's atomics, and a file of them that wakes.
mod sync {
    pub use loom::sync::atomic::AtomicUsize;

    pub use crate::doorbell::*;
}
#[allow(dead_code)]
#[path = "../../port/src/wake.rs"]
mod wake;

use flow_migration::{Completed, FlowMigration, Progress};
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

/// What both cores see: core 0 receives all frames, some of which it gives to core 1. What a third
/// one does with a frame would come after core 0 gave it, by another ring.
struct World {
    progress: Arc<Progress>,
    /// How many of its frames core 1 was given.
    ring: AtomicU64,
    /// How many frames have left: whoever sends one must see that those before it have. It orders
    /// nothing by itself.
    left: AtomicU64,
}

/// A core, as far as it completes frames, which are numbered as they come.
struct Core {
    completed: Completed,
    backlog: VecDeque<u64>,
    left: u64,
}

impl Core {
    fn new(place: usize) -> Core {
        Core { completed: Completed::new(place, 2, 1), backlog: VecDeque::new(), left: 0 }
    }

    fn take(&mut self, number: u64) {
        self.completed.take(0, 0, 1);
        self.backlog.push_back(number);
    }

    /// Its queue pair takes a frame, if there is any; then it says how far it is.
    fn pass_on(&mut self, world: &World) {
        if let Some(number) = self.backlog.pop_front() {
            assert_eq!(world.left.load(Relaxed), number, "a frame passes another");
            world.left.store(number + 1, Relaxed);
            self.left += 1;
        }
        if world.progress.is_awaited() {
            let queue_pair = (self.left, self.backlog.len() as u64);
            self.completed.publish(&world.progress, |_| queue_pair);
        }
    }
}

/// Core 1, until all frames have left; its own have these numbers.
fn forward(world: &World, numbers: &[u64], count: u64) {
    let (mut core, mut taken) = (Core::new(1), 0);
    until("core 1 works", || {
        let given = world.ring.load(Acquire) as usize;
        numbers[taken..given].iter().for_each(|number| core.take(*number));
        taken = given;
        core.pass_on(world);
        core.left == numbers.len() as u64 && world.left.load(Relaxed) == count
    });
}

/// Core 0: frames of one flow come, and go to `cores`, one after the other. The first that goes to
/// another core than the one before it comes right after the change.
fn receive(world: &World, cores: &[u16], desc: &mut Option<Desc>) {
    let (mut core, mut ring, mut state) = (Core::new(0), 0, 0);
    let mut migration = FlowMigration::new(0, 0, Arc::clone(&world.progress));
    let mut last = None;
    for (number, to) in cores.iter().enumerate() {
        if last.replace(to) != Some(to) {
            state += 1;
            // The second change is one of the hash.
            let stamp = RssStamp { state, hash: state / 3 };
            assert!(migration.update(stamp, &[*to; INDIRECTION_LEN]));
            assert_eq!(migration.is_idle(), number == 0);
        }
        if !migration.is_idle() {
            let held = desc.take().unwrap();
            assert!(migration.must_wait(&held) && migration.hold(held).is_none());
            until("core 0 waits", || {
                core.pass_on(world);
                migration.poll();
                migration.is_releasing()
            });
            *desc = migration.next();
            assert!(migration.next().is_none() && migration.is_idle());
        }
        match to {
            0 => core.take(number as u64),
            _ => {
                ring += 1;
                world.ring.store(ring, Release);
            }
        }
        migration.count_dispatched(usize::from(*to), 1);
    }
    while !core.backlog.is_empty() {
        core.pass_on(world);
    }
}

/// Frames of one flow go to these cores. None of them leaves before those that came before it, and
/// all leave.
fn leave_as_they_came<const COUNT: usize>(cores: [u16; COUNT]) {
    let (_region, mut descs) = Region::new(1, 60).unwrap();
    let desc = Mutex::new(descs.pop());
    model(move || {
        let (ring, left) = Default::default();
        let world = Arc::new(World { progress: Progress::new(2, 1), ring, left });
        let there = Arc::clone(&world);
        let numbers = (0..).zip(cores).filter(|(_, core)| *core == 1);
        let numbers: Vec<u64> = numbers.map(|(number, _)| number).collect();
        let other = thread::spawn(move || forward(&there, &numbers, COUNT as u64));
        receive(&world, &cores, &mut desc.lock().unwrap());
        other.join().unwrap();
        assert_eq!(world.left.load(Relaxed), COUNT as u64);
        assert!(!world.progress.is_awaited());
    });
}

#[test]
fn frames_of_a_flow_that_moves_leave_as_they_came() {
    // Some wait for the queue pair, and some in the ring, when the old core is asked.
    leave_as_they_came([1, 1, 1, 0]);
    leave_as_they_came([0, 0, 1]);
    leave_as_they_came([1, 0, 1]);
}

#[test]
fn a_core_that_is_awaited_does_not_sleep_for_ever() {
    model(|| {
        let (progress, doorbell) = (Progress::new(2, 1), Arc::new(Doorbell::new().unwrap()));
        let mut migration = FlowMigration::new(0, 0, Arc::clone(&progress));
        let mut completed = Completed::new(1, 2, 1);
        assert!(migration.update(RssStamp { state: 1, hash: 1 }, &[1; INDIRECTION_LEN]));
        migration.count_dispatched(1, 1);
        completed.take(0, 0, 1);
        let there = Arc::clone(&doorbell);
        let other = thread::spawn(move || {
            // Its frame has left, and nobody has asked.
            while !progress.is_awaited() {
                there.sleep_unless(|| progress.is_awaited(), sleep);
                thread::yield_now();
            }
            completed.publish(&progress, |_| (1, 0));
        });
        assert!(migration.update(RssStamp { state: 2, hash: 1 }, &[0; INDIRECTION_LEN]));
        doorbell.ring();
        until("core 0 waits", || {
            migration.poll();
            migration.is_releasing()
        });
        other.join().unwrap();
    });
}
