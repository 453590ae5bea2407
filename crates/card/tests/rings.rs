//! What a program gives to a core that sleeps, by a ring that a service reads or by a queue: who is
//! woken, and the fate of a ring that nobody reads.

mod made;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_apps::service::{Answers, Service};
use niclab_card::{Application, Card, CardConfig, CardWorkload, Grant, Receive};
use niclab_nic::dma::Reader;
use niclab_nic::memory::{Desc, Region};
use niclab_program::{Pipeline, Program};
use rustix::event::{EventfdFlags, eventfd};

const PATIENCE: Duration = Duration::from_secs(20);

/// Entries of a ring.
const ENTRIES: u64 = 64;

/// Time after a frame, or its answer, until the next one comes: a core without work is asleep by
/// then.
const PAUSE: Duration = Duration::from_millis(2);

/// What the program does with a frame that names this number.
const FILL: &str = "dma_write events m.ring m.ring\n drop";
const STEER: &str = "emit h.h\n steer m.ring";

/// Whose program it is.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Card,
    Application,
}

/// Frames come to the first core alone; each names the ring of its event, or the queue.
struct World {
    /// Never readable: nobody sends to the second core.
    silent: OwnedFd,
    /// Frames that are to come, and the rings that they are for, in turn.
    frames: u64,
    rings: &'static [u32],
    /// So many of those for the second core come before their answers.
    window: u64,
    /// Each comes a while after the last.
    is_paced: bool,
    last: Mutex<Instant>,
    /// Times that the second core was about to sleep.
    rests: AtomicU64,
    made: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    times: Mutex<Vec<Instant>>,
    /// Whether each core's service reads its ring.
    reads: [bool; 2],
}

impl World {
    fn new(
        frames: u64,
        rings: &'static [u32],
        (window, is_paced): (u64, bool),
        reads: [bool; 2],
    ) -> Arc<World> {
        Arc::new(World {
            silent: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
            frames,
            rings,
            window,
            is_paced,
            last: Mutex::new(Instant::now()),
            rests: AtomicU64::new(0),
            made: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            times: Mutex::new(vec![Instant::now()]),
            reads,
        })
    }

    fn wait_for(&self, what: impl Fn() -> bool) {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < PATIENCE, "{:?} of {:?}", self.answered, self.made);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl made::World for World {
    /// The place of the queue pair.
    type Own = u32;

    const HELD: usize = 64;

    fn own(&self, place: u32, _: u32) -> u32 {
        place
    }

    fn make(&self, place: &mut u32, _: usize, slot: &mut [u8]) -> Option<u16> {
        let made = self.made.load(Ordering::Relaxed);
        let may = *place == 0 && made < self.frames;
        let ring = self.rings[made as usize % self.rings.len()];
        let under_way = self.asked.load(Ordering::Relaxed) - self.answered.load(Ordering::Relaxed);
        let is_time = || !self.is_paced || self.last.lock().unwrap().elapsed() > PAUSE;
        if !may || under_way >= self.window || !is_time() {
            return None;
        }
        self.asked.fetch_add(u64::from(ring == 1), Ordering::Relaxed);
        slot[..60].fill(0);
        slot[..4].copy_from_slice(&ring.to_be_bytes());
        *self.last.lock().unwrap() = Instant::now();
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(60)
    }

    fn waits_on(&self, place: &u32) -> Option<BorrowedFd<'_>> {
        (*place == 1).then(|| self.silent.as_fd())
    }

    fn left(&self, place: &mut u32, _: &[u8]) {
        assert_eq!(*place, 1, "the core of the ring answers");
        self.times.lock().unwrap().push(Instant::now());
        *self.last.lock().unwrap() = Instant::now();
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Answers each frame, and each entry of its ring.
struct Reads {
    world: Arc<World>,
    place: usize,
    ring: Option<Reader>,
}

impl Service for Reads {
    fn serve(&mut self, _: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        frames.iter().for_each(|_| answers.frame(60).unwrap().fill(0));
    }

    fn turn(&mut self, answers: &mut dyn Answers) -> bool {
        let reads = self.world.reads[self.place];
        let ring = self.ring.as_mut().filter(|_| reads);
        let taken = ring.is_some_and(|ring| ring.take(|_, _| ()).is_some());
        if taken {
            answers.frame(60).unwrap().fill(0);
        }
        taken
    }

    fn has_work(&self) -> bool {
        self.world.rests.fetch_add(self.place as u64, Ordering::Relaxed);
        let ring = self.ring.as_ref().filter(|_| self.world.reads[self.place]);
        ring.is_some_and(|ring| ring.look(0, |_, _| ()).is_some())
    }
}

fn card(world: &Arc<World>, receive: Receive, (whose, body): (Whose, &str)) -> Card {
    let text = format!(
        "struct h_t {{\n bit<32> ring\n}}
         header h instanceof h_t
         struct m_t {{\n bit<32> port\n bit<32> ring\n}}
         metadata instanceof m_t
         ring events count 2 size {ENTRIES} entry 8
         apply {{
            rx m.port
            extract h.h
            mov m.ring h.h.ring
            {body}
         }}"
    );
    let program = Program::read(&text).unwrap_or_else(|error| panic!("{error}"));
    let mut pipeline = Pipeline::new(program).unwrap();
    let mut service = |place| -> Box<dyn Service> {
        // Of an application nobody here reads the rings.
        let ring = (whose == Whose::Card).then(|| pipeline.reader(0, place).unwrap());
        Box::new(Reads { world: Arc::clone(world), place, ring })
    };
    let services = vec![service(0), service(1)];
    let ports = vec![Made(Arc::clone(world))];
    let config = CardConfig { receive, ..CardConfig::new(ports, 2, vec![0, 1]) };
    let runs = CardWorkload { services, ..CardWorkload::default() };
    let runs = match whose {
        Whose::Card => CardWorkload { program: Some(pipeline.into()), ..runs },
        Whose::Application => CardWorkload { applications: vec![application(pipeline)], ..runs },
    };
    Card::start_with(&config, runs).unwrap()
}

/// Who has all frames.
fn application(pipeline: Pipeline) -> Application {
    let rings = BTreeMap::from([("events".to_owned(), 1 << 20)]);
    Application {
        name: "a".to_owned(),
        pipeline,
        ports: vec![0],
        queues: vec![0, 1],
        flows: vec!["eth / end".to_owned()],
        share: 1,
        grant: Grant { rings, ..Grant::default() },
    }
}

/// A core that nobody wakes sleeps for 100 ms.
fn wakes(whose: Whose, body: &str) {
    const FRAMES: u64 = 61;
    let world = World::new(FRAMES, &[1], (1, true), [true, true]);
    let card = card(&world, Receive::Interrupt, (whose, body));
    world.wait_for(|| world.answered.load(Ordering::Relaxed) == FRAMES);
    let ended = card.shut_down();
    assert_eq!((ended.frames_lost, ended.errors), (0, Vec::new()));
    let times = world.times.lock().unwrap();
    let mut took: Vec<Duration> = times.windows(2).map(|two| two[1] - two[0]).collect();
    took.sort_unstable();
    assert!(took[took.len() / 2] < Duration::from_millis(50), "{took:?}");
}

#[test]
fn a_core_that_sleeps_is_woken_when_another_one_fills_its_ring() {
    wakes(Whose::Card, FILL);
}

#[test]
fn a_core_that_sleeps_is_woken_when_a_program_steers_to_it() {
    wakes(Whose::Card, STEER);
    wakes(Whose::Application, STEER);
}

/// Its ring is for a process of its own, which looks there by itself.
#[test]
fn an_applications_ring_wakes_no_core() {
    const FRAMES: u64 = ENTRIES - 4;
    let world = World::new(FRAMES, &[1], (u64::MAX, true), [true, true]);
    let card = card(&world, Receive::Interrupt, (Whose::Application, FILL));
    world.wait_for(|| world.rests.load(Ordering::Relaxed) > 0);
    let (begun, before) = (Instant::now(), world.rests.load(Ordering::Relaxed));
    let first = world.made.load(Ordering::Relaxed);
    world.wait_for(|| world.made.load(Ordering::Relaxed) == FRAMES);
    let rests = world.rests.load(Ordering::Relaxed) - before;
    // By itself it wakes ten times a second.
    let may = 5 + begun.elapsed().as_millis() as u64 / 50;
    assert!(rests <= may, "{rests} times for {} frames in {:?}", FRAMES - first, begun.elapsed());
    let ended = card.shut_down();
    assert_eq!((ended.frames_lost, ended.errors), (0, Vec::new()));
}

#[test]
fn an_application_that_does_not_read_its_ring_loses_only_its_own_frames() {
    const FRAMES: u64 = 4_000;
    let world = World::new(FRAMES, &[0, 1], (ENTRIES / 2, false), [false, true]);
    let card = card(&world, Receive::BusyPoll, (Whose::Card, FILL));
    // The other one has all of its own answered.
    world.wait_for(|| world.answered.load(Ordering::Relaxed) == FRAMES / 2);
    let ended = card.shut_down();
    assert_eq!(ended.counters.ports[0].program_ring_full, FRAMES / 2 - ENTRIES);
    assert_eq!((ended.frames_lost, ended.errors), (0, Vec::new()));
}
