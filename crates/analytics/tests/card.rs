//! Sources behind a bad network, a card in every mode, and workers that die: the windows are those
//! of a plain count.

#[path = "../../card/tests/made/mod.rs"]
mod made;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use made::Made;
use niclab_analytics::card::{HostReception, RingsSetup, TupleRings};
use niclab_analytics::cost::{StepObserver, WorkStep};
use niclab_analytics::definition::{Query, WindowResult, results};
use niclab_analytics::input::InputSnapshot;
use niclab_analytics::job::{EngineOptions, JobEngine, allowed_cores};
use niclab_analytics::partition;
use niclab_analytics::receiver::ReceiverOptions;
use niclab_analytics::source::{NewTuple, Sender, SenderOptions, SourceFault};
use niclab_analytics::window::Windows;
use niclab_apps::endpoint::Identity;
use niclab_card::{Card, CardConfig, CardWorkload, Core};
use niclab_nic::limits::BURST;
use niclab_packet::stack::{Layer, build};
use niclab_packet::wire::{IpProtocol, MacAddress, ethernet, ipv4, udp};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const US: Identity = Identity {
    mac: MacAddress([2, 0, 10, 9, 0, 2]),
    ip: Ipv4Addr::new(10, 9, 0, 2),
    network_bits: 24,
    port: 9_770,
};
const THEM: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);
/// Bytes before a datagram's content.
const HEADS_LEN: usize = 42;
/// The port of the first source.
const FIRST_PORT: u16 = 4_000;
/// Tuples of each source.
const TUPLES: u64 = 6_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Rss,
    Steer,
    Dma,
}

/// Frames that come to each core's queue pair, and those that have left.
struct Wire {
    coming: Vec<Mutex<VecDeque<Vec<u8>>>>,
    left: Mutex<Vec<Vec<u8>>>,
}

impl made::World for Wire {
    type Own = usize;

    const HELD: usize = 2 * BURST;

    fn own(&self, place: u32, _: u32) -> usize {
        place as usize
    }

    fn make(&self, place: &mut usize, _: usize, slot: &mut [u8]) -> Option<u16> {
        let frame = self.coming[*place].lock().unwrap().pop_front()?;
        slot[..frame.len()].copy_from_slice(&frame);
        Some(frame.len() as u16)
    }

    fn left(&self, _: &mut usize, frame: &[u8]) {
        self.left.lock().unwrap().push(frame.to_vec());
    }
}

/// The receiving side behind the card.
enum Behind {
    Host(Box<HostReception>),
    Rings(Box<TupleRings>),
}

fn frame(source: usize, content: &[u8]) -> Vec<u8> {
    let src_port = FIRST_PORT + source as u16;
    build(&[
        Layer::Ethernet(ethernet::Repr { dst: US.mac, src: THEM, ..ethernet::Repr::default() }),
        Layer::Ipv4(ipv4::Repr {
            src: [10, 9, 0, 1].into(),
            dst: US.ip,
            protocol: IpProtocol::UDP,
            ..ipv4::Repr::default()
        }),
        Layer::Udp(udp::Repr { src_port, dst_port: US.port, ..udp::Repr::default() }),
        Layer::Payload(content.to_vec()),
    ])
    .unwrap()
}

/// The source that an answer is for, and its content.
fn answer(frame: &[u8]) -> (usize, &[u8]) {
    let packet = ipv4::Packet::new_checked(&frame[14..]).unwrap();
    assert!(packet.is_checksum_valid() && packet.src() == US.ip);
    let total_len = packet.total_len();
    let datagram = udp::Datagram::new_unchecked(&frame[34..14 + total_len]);
    assert!(datagram.is_checksum_valid(packet.pseudo(IpProtocol::UDP, datagram.length())));
    (usize::from(datagram.dst_port() - FIRST_PORT), &frame[HEADS_LEN..14 + total_len])
}

/// Frames on their way: when they arrive, and the source that they are from or for.
struct BadNetwork {
    random: Xoshiro256PlusPlus,
    under_way: Vec<(u64, usize, Vec<u8>)>,
}

impl BadNetwork {
    fn new(seed: u64) -> BadNetwork {
        BadNetwork { random: Xoshiro256PlusPlus::seed_from_u64(seed), under_way: Vec::new() }
    }

    /// Loses 20 %, repeats 5 %, and delays 5 % behind others.
    fn send(&mut self, now_ns: u64, source: usize, bytes: &[u8]) {
        for _ in 0..1 + usize::from(self.random.random_range(0..20) == 0) {
            if self.random.random_range(0..5) > 0 {
                let is_delayed = self.random.random_range(0..20) == 0;
                let delay_ns = self.random.random_range(0..1_000_000);
                let at_ns = now_ns + 100_000 + if is_delayed { delay_ns } else { 0 };
                self.under_way.push((at_ns, source, bytes.to_vec()));
            }
        }
    }

    fn arrived(&mut self, now_ns: u64) -> Vec<(usize, Vec<u8>)> {
        let (mut arrived, later): (Vec<_>, Vec<_>) =
            self.under_way.drain(..).partition(|of| of.0 <= now_ns);
        self.under_way = later;
        arrived.sort_by_key(|of| of.0);
        arrived.into_iter().map(|(_, source, bytes)| (source, bytes)).collect()
    }
}

/// A source, and what it still has to send: stream, key and time of each.
struct Source {
    sender: Sender,
    tuples: VecDeque<(u16, u64, u64)>,
}

/// Sources whose tuples each have keys of one worker where the card steers by key, and of all
/// otherwise; and all tuples.
fn sources(mode: Mode, workers: usize, seed: u64) -> (Vec<Source>, Vec<(u16, u64, u64)>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut sources, mut all) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let tuples: Vec<(u16, u64, u64)> = (0..TUPLES)
            .map(|at| (random.random_range(0..2), random.random_range(0..90), at * 50_000))
            .collect();
        all.extend(&tuples);
        let parts = if mode == Mode::Steer { workers } else { 1 };
        for part in 0..parts {
            let of_part = |(_, key, _): &&(u16, u64, u64)| partition::worker(*key, parts) == part;
            let tuples = tuples.iter().filter(of_part).copied().collect();
            let id = (number << 8 | part) as u64;
            let batch = [1, 7, 45][number];
            let sender = Sender::new(SenderOptions { batch, ..SenderOptions::new(id) });
            sources.push(Source { sender, tuples });
        }
    }
    (sources, all)
}

impl Source {
    /// Offers what there is room for, and sends what is due.
    fn turn(&mut self, now_ns: u64, place: usize, network: &mut BadNetwork) {
        while let Some(&(stream, key, time_ns)) = self.tuples.front() {
            let payload = &[7; 9][..(key % 10) as usize];
            if self.sender.offer(&NewTuple { stream, key, time_ns, payload }).is_err() {
                break;
            }
            self.tuples.pop_front();
        }
        if self.tuples.is_empty() {
            self.sender.end();
        }
        let mut frame = Vec::new();
        while self.sender.frame(now_ns, &mut frame) {
            network.send(now_ns, place, &frame);
        }
    }
}

/// Panics at every `every`-th step of all workers together; 0: never.
struct Deadly {
    steps: Arc<AtomicU64>,
    every: u64,
}

impl StepObserver for Deadly {
    fn begin(&mut self) {}

    fn passed(&mut self, _: &[WorkStep], _: usize) {}

    fn done(&mut self, step: WorkStep) {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let dies = self.every > 0 && steps.is_multiple_of(self.every);
        assert!(!dies, "this worker dies of step {steps}, {step:?}");
    }
}

fn query() -> Query {
    Query { stream: 1, windows: Windows::new(50_000_000, 10_000_000).unwrap(), top: 5 }
}

/// A card with an engine behind it, and how the engine's results come.
struct Stack {
    engine: JobEngine,
    card: Card,
    cores: Vec<Core>,
    wire: Arc<Wire>,
    behind: Behind,
    results: mpsc::Receiver<WindowResult>,
}

impl Stack {
    fn new(mode: Mode, (workers, cores): (usize, usize), awaited: usize, every: u64) -> Stack {
        let on = allowed_cores().into_iter().cycle().take(workers).collect();
        let options = EngineOptions { lanes: cores, ..EngineOptions::new(query(), on) };
        let (sender, results) = mpsc::channel();
        let sender = Mutex::new(sender);
        let emit = Box::new(move |result| sender.lock().unwrap().send(result).unwrap());
        let steps = Arc::new(AtomicU64::new(0));
        let observers = Box::new(move |_| {
            Box::new(Deadly { steps: Arc::clone(&steps), every }) as Box<dyn StepObserver>
        });
        let receiver = ReceiverOptions { sources_awaited: awaited, ..ReceiverOptions::default() };
        let (engine, program, services, behind) = match mode {
            Mode::Dma => {
                let setup = TupleRings::setup(US, (workers, cores), query().windows, receiver);
                let RingsSetup { rings, program, services, inboxes } = setup.unwrap();
                let engine = JobEngine::start_on(inboxes, options, emit, observers).unwrap();
                (engine, Some(program), services, Behind::Rings(Box::new(rings)))
            }
            Mode::Rss | Mode::Steer => {
                let engine = JobEngine::start(options, emit, observers).unwrap();
                let shape = (cores, mode == Mode::Steer);
                let nobody = |_| Box::new(()) as _;
                let mut host = HostReception::new(&engine, US, shape, receiver, &nobody).unwrap();
                let services = std::mem::take(&mut host.services);
                (engine, host.program.take(), services, Behind::Host(Box::new(host)))
            }
        };
        let coming = (0..cores).map(|_| Mutex::default()).collect();
        let wire = Arc::new(Wire { coming, left: Mutex::default() });
        let ports = vec![Made(Arc::clone(&wire))];
        let config = CardConfig::new(ports, cores as u16, (0..cores as u32).collect());
        let program = program.map(Into::into);
        let runs = CardWorkload { program, services, ..CardWorkload::default() };
        let (card, cores) = Card::driven(&config, runs).unwrap();
        Stack { engine, card, cores, wire, behind, results }
    }

    fn turn(&mut self) {
        for _ in 0..4 {
            self.cores.iter_mut().for_each(|core| _ = core.turn());
        }
        if let Behind::Rings(rings) = &mut self.behind {
            rings.tend(self.card.program().unwrap());
        }
    }

    fn is_closed(&mut self) -> bool {
        match &mut self.behind {
            Behind::Host(host) => host.is_finished() && host.close(),
            Behind::Rings(rings) => {
                rings.is_finished() && rings.close(self.card.program().unwrap())
            }
        }
    }

    fn received(&self) -> InputSnapshot {
        match &self.behind {
            Behind::Host(host) => host.received(),
            Behind::Rings(rings) => rings.received(),
        }
    }

    /// Carries all tuples of sources to the workers; the results, the counters, and how often
    /// workers were started again.
    fn carry(
        mut self,
        sources: &mut [Source],
        seed: u64,
    ) -> (Vec<WindowResult>, InputSnapshot, u64) {
        let mut network = BadNetwork::new(seed);
        let mut answers = BadNetwork::new(seed + 1);
        let mut now_ns = 0;
        while !sources.iter().all(|source| source.sender.is_finished()) {
            assert!(now_ns < 600_000_000_000, "ten minutes are enough: {:?}", self.received());
            now_ns += 100_000;
            for (place, source) in sources.iter_mut().enumerate() {
                source.turn(now_ns, place, &mut network);
            }
            for (source, content) in network.arrived(now_ns) {
                let place = source % self.cores.len();
                let coming = &self.wire.coming[place];
                coming.lock().unwrap().push_back(frame(source, &content));
            }
            self.turn();
            for frame in self.wire.left.lock().unwrap().drain(..) {
                let (source, content) = answer(&frame);
                answers.send(now_ns, source, content);
            }
            for (source, content) in answers.arrived(now_ns) {
                sources[source].sender.acknowledge(now_ns, &content).unwrap();
            }
        }
        while !self.is_closed() {
            self.turn();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let received = self.received();
        let Stack { engine, card, cores, results, .. } = self;
        engine.close();
        while !engine.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let restarts = engine.status().restarts;
        engine.join().unwrap();
        let (ended, _) = card.shut_down_driven(cores);
        assert_eq!(ended.frames_lost, 0);
        (results.iter().collect(), received, restarts)
    }
}

fn windows_are_exact(mode: Mode, shape: (usize, usize), every: u64) {
    let (workers, _) = shape;
    let (mut sources, all) = sources(mode, workers, 3);
    let stack = Stack::new(mode, shape, sources.len(), every);
    let (found, received, restarts) = stack.carry(&mut sources, 5);
    let expected = results(&query(), all.into_iter());
    assert!(found == expected, "{mode:?} {shape:?}: {} of {}", found.len(), expected.len());
    let counters = received.counters;
    assert_eq!((counters.taken, counters.late), (3 * TUPLES, 0), "{mode:?} {shape:?}");
    assert!(counters.duplicates > 0 && counters.malformed == 0, "{counters:?}");
    assert_eq!(restarts > 0, every > 0, "{mode:?} {shape:?}");
}

#[test]
fn a_card_that_spreads_sources_gives_exact_windows() {
    [(1, 1), (2, 2), (3, 2)].into_iter().for_each(|shape| windows_are_exact(Mode::Rss, shape, 0));
    windows_are_exact(Mode::Rss, (2, 2), 200);
}

#[test]
fn a_card_that_steers_by_key_gives_exact_windows() {
    [(1, 1), (2, 2), (3, 2)].into_iter().for_each(|shape| windows_are_exact(Mode::Steer, shape, 0));
    windows_are_exact(Mode::Steer, (2, 2), 200);
}

#[test]
fn a_source_with_keys_of_several_cores_is_refused_with_the_reason() {
    let mut stack = Stack::new(Mode::Steer, (2, 2), 1, 0);
    let mut sender = Sender::new(SenderOptions { batch: 1, ..SenderOptions::new(1) });
    let (mut bytes, mut now_ns, mut key) = (Vec::new(), 0, 0);
    while sender.fault().is_none() {
        assert!(now_ns < 1_000_000_000, "{:?}", stack.received());
        now_ns += 100_000;
        key += 1;
        // One for which there is no room yet comes again as another one.
        let _ = sender.offer(&NewTuple { stream: 1, key, time_ns: 0, payload: &[] });
        while sender.frame(now_ns, &mut bytes) {
            // As the card's program does: progress by the lowest byte of the id, tuples by key.
            let place = match bytes[5] {
                1 => partition::worker(u64::from_be_bytes(bytes[24..32].try_into().unwrap()), 2),
                _ => 1,
            };
            stack.wire.coming[place].lock().unwrap().push_back(frame(0, &bytes));
        }
        stack.turn();
        for frame in stack.wire.left.lock().unwrap().drain(..) {
            sender.acknowledge(now_ns, answer(&frame).1).unwrap();
        }
    }
    assert_eq!(sender.fault(), Some(SourceFault::Foreign));
    assert!(stack.received().counters.foreign > 0);
    assert_eq!(stack.received().seen_sources, 1);
}

#[test]
fn a_used_id_is_reported_by_a_card_that_writes_into_rings() {
    let mut stack = Stack::new(Mode::Dma, (1, 1), 1, 0);
    let mut senders = [0, 1].map(|_| Sender::new(SenderOptions::new(7)));
    let mut bytes = Vec::new();
    for (place, sender) in senders.iter_mut().enumerate() {
        for turn in 1..2_000_u64 {
            let now_ns = turn * 1_000_000;
            while sender.frame(now_ns, &mut bytes) {
                stack.wire.coming[0].lock().unwrap().push_back(frame(place, &bytes));
            }
            stack.turn();
            for frame in stack.wire.left.lock().unwrap().drain(..) {
                sender.acknowledge(now_ns, answer(&frame).1).unwrap();
            }
        }
    }
    assert_eq!(senders.map(|of| of.fault()), [None, Some(SourceFault::IdUsed)]);
}

#[test]
fn a_card_that_writes_into_rings_gives_exact_windows() {
    [(1, 1), (2, 1), (2, 2), (3, 2)]
        .into_iter()
        .for_each(|shape| windows_are_exact(Mode::Dma, shape, 0));
}

#[test]
fn workers_that_die_find_their_tuples_in_the_ring_again() {
    [60, 200, 500].into_iter().for_each(|every| windows_are_exact(Mode::Dma, (2, 2), every));
}
