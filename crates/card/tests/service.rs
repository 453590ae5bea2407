//! A service on a card: which core gets which frames, where answers go, and that no frame is lost.

mod made;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_apps::service::{Answers, Service};
use niclab_card::{Card, CardConfig, CardError, CardWorkload, ExternalQueueConfig, Receive};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_program::{Pipeline, Program};

/// Frames that each queue pair makes: a number, and the queue that it is steered to.
const FRAMES: u32 = 5_000;
const QUEUES: u32 = 4;

#[derive(Default)]
struct World {
    makes: AtomicBool,
    made: AtomicU64,
    /// What left: numbers of frames, and how often each was answered.
    left: Mutex<Vec<u32>>,
    /// Frames that a core was given of a queue that is not its own.
    strayed: AtomicU64,
    served: [AtomicU64; 2],
    /// How often each core was about to sleep.
    rested: [AtomicU64; 2],
}

impl made::World for World {
    /// Numbers of frames that are to come.
    type Own = std::ops::Range<u32>;

    const HELD: usize = BURST;

    fn own(&self, place: u32, _: u32) -> std::ops::Range<u32> {
        place * FRAMES..(place + 1) * FRAMES
    }

    fn make(&self, own: &mut Self::Own, _: usize, slot: &mut [u8]) -> Option<u16> {
        let makes = self.makes.load(Ordering::Relaxed);
        let number = if makes { own.next() } else { None }?;
        slot[..4].copy_from_slice(&number.to_be_bytes());
        slot[4..8].copy_from_slice(&(number % QUEUES).to_be_bytes());
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(60)
    }

    fn left(&self, _: &mut Self::Own, frame: &[u8]) {
        assert_eq!(frame.len(), 64, "as long as it was asked for");
        let number = u32::from_be_bytes(*frame.first_chunk().unwrap());
        self.left.lock().unwrap().push(number);
    }
}

/// Answers each frame twice, and asks for one that is too long.
struct Twice {
    world: Arc<World>,
    place: usize,
}

impl Service for Twice {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        assert!((1..=BURST).contains(&frames.len()));
        for desc in frames {
            let frame = region.frame(desc);
            let queue = u32::from_be_bytes(*frame[4..].first_chunk().unwrap());
            let is_own = queue == u32::from(desc.queue) && queue as usize % 2 == self.place;
            self.world.strayed.fetch_add(u64::from(!is_own), Ordering::Relaxed);
            for _ in 0..2 {
                if let Some(answer) = answers.frame(64) {
                    answer.fill(0);
                    answer[..4].copy_from_slice(&frame[..4]);
                }
            }
            assert!(answers.frame(1 << 16).is_none());
        }
        self.world.served[self.place].fetch_add(frames.len() as u64, Ordering::Relaxed);
    }

    /// It is asked before its core sleeps.
    fn has_work(&self) -> bool {
        self.world.rested[self.place].fetch_add(1, Ordering::Relaxed);
        false
    }
}

fn steering() -> Pipeline {
    let text = "struct h_t {\n bit<32> number\n bit<32> queue\n}
        header h instanceof h_t
        struct m_t {\n bit<32> port\n bit<32> queue\n}
        metadata instanceof m_t
        apply {\n rx m.port\n extract h.h\n mov m.queue h.h.queue\n emit h.h\n steer m.queue\n}";
    Pipeline::new(Program::read(text).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

fn services(world: &Arc<World>, count: usize) -> Vec<Box<dyn Service>> {
    let of = |place| -> Box<dyn Service> { Box::new(Twice { world: Arc::clone(world), place }) };
    (0..count).map(of).collect()
}

fn runs(program: Option<Pipeline>, services: Vec<Box<dyn Service>>) -> CardWorkload<'static> {
    CardWorkload { program: program.map(Pipeline::into), services, ..CardWorkload::default() }
}

#[test]
fn each_core_serves_its_queues_and_every_answer_leaves() {
    for receive in [Receive::BusyPoll, Receive::Interrupt] {
        let world = Arc::new(World::default());
        let ports = vec![Made(Arc::clone(&world))];
        let config = CardConfig { receive, ..CardConfig::new(ports, QUEUES as u16, vec![0, 1]) };
        let services = services(&world, 2);
        let card = Card::start_with(&config, runs(Some(steering()), services)).unwrap();
        let begun = Instant::now();
        // Who sleeps has said so.
        let rested = || world.rested.iter().all(|of| of.load(Ordering::Relaxed) > 0);
        while receive == Receive::Interrupt && !rested() {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody rests");
            thread::sleep(Duration::from_millis(1));
        }
        world.makes.store(true, Ordering::Relaxed);
        let served = || world.served.iter().map(|of| of.load(Ordering::Relaxed)).sum::<u64>();
        let missed = || {
            let counters = card.counters();
            counters.ports[0].queues.iter().map(|queue| queue.rx_missed).sum::<u64>()
        };
        while served() + missed() < 2 * u64::from(FRAMES) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{} served", served());
            thread::sleep(Duration::from_millis(1));
        }
        let ended = card.shut_down();
        assert_eq!((ended.frames_lost, ended.errors), (0, Vec::new()));
        assert_eq!(world.strayed.load(Ordering::Relaxed), 0);
        let mut left = world.left.lock().unwrap().clone();
        left.sort_unstable();
        let (port, served) = (&ended.counters.ports[0], served());
        // Whatever found no room is counted, and so is each answer that was too long.
        assert_eq!(left.len() as u64, port.tx_frames);
        assert_eq!(port.tx_frames + port.tx_dropped, 3 * served);
        assert!(port.tx_frames > served, "{port:?}");
        assert!(left.chunk_by(|a, b| a == b).all(|same| same.len() <= 2));
        assert!(world.served.iter().all(|of| of.load(Ordering::Relaxed) > 0));
        assert_eq!(rested(), receive == Receive::Interrupt);
    }
}

#[test]
fn a_service_for_each_core_or_none() {
    let world = Arc::new(World::default());
    let config = CardConfig::new(vec![Made(Arc::clone(&world))], 2, vec![0, 1]);
    let refused = Card::start_with(&config, runs(None, services(&world, 1))).err().unwrap();
    assert!(matches!(refused, CardError::Services { services: 1, cores: 2, external_queues: 0 }));
    let external_queues = vec![ExternalQueueConfig { port: 0, queue: 0, path: "none".into() }];
    let config = CardConfig { external_queues, ..config };
    let refused = Card::start_with(&config, runs(None, services(&world, 2))).err().unwrap();
    assert!(
        refused.to_string().contains("one service for each core, and no external queues"),
        "{refused}"
    );
}
