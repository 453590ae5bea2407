//! Applications on one card: each sees its own flows, has its share of the time, and what it does
//! wrong is its own.
//!
//! A queue pair makes frames of two flows, so many of each in a burst, told apart by UDP's
//! destination port, and counts what leaves by it.

mod made;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_apps::service::{Answers, Service};
use niclab_card::{
    Application, ApplicationCounters, ApplicationError, Card, CardConfig, CardError, CardWorkload,
    Grant,
};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_program::{Pipeline, Program};

/// UDP ports of the flows.
const FLOWS: [u16; 2] = [1000, 2000];

/// What a port sees.
#[derive(Default)]
struct World {
    /// Frames of each flow in a burst.
    mix: [AtomicUsize; 2],
    made: [AtomicU64; 2],
    /// Frames of the second flow that may be under way, 0 for any number, and those that are
    /// through, by whichever port.
    second_max: AtomicU64,
    through: Arc<AtomicU64>,
    /// Frames that left by it, by flow.
    left: [AtomicU64; 2],
    makes: AtomicBool,
    /// It takes one burst where it would take all.
    is_slow: AtomicBool,
}

/// Offset of UDP's ports in a frame.
const PORTS: usize = 14 + 20;

fn write_frame(slot: &mut [u8], flow: usize, number: u64) {
    slot[..60].fill(0);
    slot[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    slot[14] = 0x45;
    slot[16..18].copy_from_slice(&46_u16.to_be_bytes());
    (slot[22], slot[23]) = (64, 17);
    slot[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    slot[PORTS..PORTS + 2].copy_from_slice(&FLOWS[flow].to_be_bytes());
    slot[PORTS + 2..PORTS + 4].copy_from_slice(&FLOWS[flow].to_be_bytes());
    slot[PORTS + 4..PORTS + 6].copy_from_slice(&26_u16.to_be_bytes());
    slot[PORTS + 8..PORTS + 12].copy_from_slice(&(number as u32).to_be_bytes());
}

impl made::World for World {
    /// Whether it is the first, which frames come by, and whether it took what was sent last.
    type Own = (bool, bool);

    const HELD: usize = 2 * BURST;

    fn own(&self, place: u32, _: u32) -> (bool, bool) {
        (place == 0, false)
    }

    fn make(&self, (is_first, _): &mut Self::Own, at: usize, slot: &mut [u8]) -> Option<u16> {
        let [first, second] = [0, 1].map(|flow: usize| self.mix[flow].load(Ordering::Relaxed));
        if !*is_first || !self.makes.load(Ordering::Relaxed) || at >= first + second {
            return None;
        }
        let flow = usize::from(at >= first);
        let (max, under_way) = (load(&self.second_max), load(&self.made[1]) - load(&self.through));
        if flow == 1 && max > 0 && under_way >= max {
            return None;
        }
        write_frame(slot, flow, self.made[flow].fetch_add(1, Ordering::Relaxed));
        Some(60)
    }

    fn takes(&self, (_, took): &mut Self::Own) -> bool {
        *took = !*took || !self.is_slow.load(Ordering::Relaxed);
        *took
    }

    fn left(&self, _: &mut Self::Own, frame: &[u8]) {
        let port = u16::from_be_bytes([frame[PORTS + 2], frame[PORTS + 3]]);
        if let Some(flow) = FLOWS.iter().position(|of| *of == port) {
            self.left[flow].fetch_add(1, Ordering::Relaxed);
            self.through.fetch_add(flow as u64, Ordering::Relaxed);
        }
    }
}

/// A program that takes the frame apart; `body` stands before it is put together again.
fn pipeline(more: &str, body: &str) -> Pipeline {
    let text = format!(
        "struct eth_t {{
            bit<48> dst
            bit<48> src
            bit<16> type
        }}
        struct ip_t {{
            bit<64> head
            bit<96> rest
        }}
        struct udp_t {{
            bit<16> src
            bit<16> dst
            bit<32> more
            bit<32> number
        }}
        header eth instanceof eth_t
        header ip instanceof ip_t
        header udp instanceof udp_t
        struct m_t {{
            bit<32> port
            bit<32> a
            bit<32> number
        }}
        metadata instanceof m_t
        countarray by_port size 4096
        {more}
        apply {{
            rx m.port
            extract h.eth
            extract h.ip
            extract h.udp
            mov m.a h.udp.dst
            count by_port m.a
            mov m.number h.udp.number
            emit h.eth
            emit h.ip
            emit h.udp
            {body}
        }}"
    );
    Pipeline::new(Program::read(&text).unwrap_or_else(|error| panic!("{error}"))).unwrap()
}

/// The application of a flow.
fn application(flow: usize, pipeline: Pipeline) -> Application {
    Application {
        name: ["a", "b"][flow].to_owned(),
        pipeline,
        ports: vec![0],
        queues: vec![flow as u16],
        flows: vec![format!("eth / ipv4 / udp dst is {} / end", FLOWS[flow])],
        share: 1,
        grant: Grant {
            windows: BTreeMap::from([("w".to_owned(), 999)]),
            rings: BTreeMap::from([("q".to_owned(), 1 << 20)]),
            // What `pipeline` has counters for, on two cores.
            memory: 2 * 16 * 4_096,
        },
    }
}

/// A card with two ports that only forwards what is nobody's.
fn start(applications: Vec<Application>, mix: [usize; 2]) -> (Card, [Arc<World>; 2]) {
    start_on(vec![0], vec![], worlds(), (applications, mix))
}

/// Two ports that make nothing yet.
fn worlds() -> [Arc<World>; 2] {
    let through = Arc::<AtomicU64>::default();
    [0, 1].map(|_| Arc::new(World { through: Arc::clone(&through), ..World::default() }))
}

/// Sends each frame back, and takes so long for it.
struct SlowEcho(Duration);

impl Service for SlowEcho {
    fn serve(&mut self, region: &Region, frames: &[Desc], answers: &mut dyn Answers) {
        for frame in frames.iter().map(|desc| region.frame(desc)) {
            let until = Instant::now() + self.0;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            if let Some(answer) = answers.frame(frame.len()) {
                answer.copy_from_slice(frame);
            }
        }
    }
}

/// The same on these cores, with these services.
fn start_on(
    cores: Vec<u32>,
    services: Vec<Box<dyn Service>>,
    worlds: [Arc<World>; 2],
    (applications, mix): (Vec<Application>, [usize; 2]),
) -> (Card, [Arc<World>; 2]) {
    let ports = worlds.iter().map(|world| Made(Arc::clone(world))).collect();
    let config = CardConfig::new(ports, 2, cores);
    let runs = CardWorkload { applications, services, ..CardWorkload::default() };
    let card = Card::start_with(&config, runs).unwrap();
    for (place, count) in worlds[0].mix.iter().zip(mix) {
        place.store(count, Ordering::Relaxed);
    }
    worlds[0].makes.store(true, Ordering::Relaxed);
    (card, worlds)
}

/// Waits until it is so, or for as long as nobody would wait.
fn run_until(card: &mut Card, is_so: impl Fn(&[ApplicationCounters]) -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so(&card.counters().applications) {
        assert!(Instant::now() < until, "{:?}", card.counters().applications);
        card.run_housekeeping();
        thread::sleep(Duration::from_millis(5));
    }
}

/// Stops making frames, ends the card, and says what its applications counted.
fn end(card: Card, world: &World) -> Vec<ApplicationCounters> {
    world.makes.store(false, Ordering::Relaxed);
    let ended = card.shut_down();
    assert_eq!((ended.frames_lost, ended.errors), (0, vec![]));
    ended.counters.applications
}

fn load(of: &AtomicU64) -> u64 {
    of.load(Ordering::Relaxed)
}

/// All frames that were made of a flow, by what became of them.
fn all(counters: &ApplicationCounters) -> u64 {
    counters.frames + counters.missed
}

#[test]
fn each_sees_its_own_flows_and_nobody_elses() {
    let own = |flow| application(flow, pipeline("", "reply"));
    let (mut card, [world, other]) = start(vec![own(0), own(1)], [20, 20]);
    run_until(&mut card, |of| of.iter().all(|of| of.frames > 5_000));
    world.makes.store(false, Ordering::Relaxed);
    run_until(&mut card, |of| (0..2).all(|flow| all(&of[flow]) == load(&world.made[flow])));
    let observed = |card: &mut Card, name: &str, port: u16| {
        card.application(name).unwrap().counter(0, port.into()).unwrap().0
    };
    let both = [observed(&mut card, "a", FLOWS[0]), observed(&mut card, "b", FLOWS[1])];
    assert_eq!([observed(&mut card, "a", FLOWS[1]), observed(&mut card, "b", FLOWS[0])], [0, 0]);
    let counters = end(card, &world);
    for flow in [0, 1] {
        let of = &counters[flow];
        assert!(of.frames > 1_000, "{of:?}");
        assert_eq!(
            [all(of), of.frames, of.frames],
            [load(&world.made[flow]), both[flow], load(&world.left[flow])]
        );
        assert_eq!([of.drops, of.faults, of.outside, of.ring_full], [0; 4]);
        assert_eq!(load(&other.left[flow]), 0, "it came back where it came from");
    }
}

#[test]
fn frames_of_no_application_pass_as_without_applications() {
    let own = application(0, pipeline("", "drop"));
    let (mut card, [world, other]) = start(vec![own], [3, 30]);
    run_until(&mut card, |of| of[0].frames > 2_000);
    let counters = end(card, &world);
    assert_eq!([load(&world.left[0]), load(&other.left[0]), load(&world.left[1])], [0; 3]);
    assert_eq!([all(&counters[0]), counters[0].drops], [load(&world.made[0]); 2]);
    assert!(load(&other.left[1]) > 1_000 && load(&other.left[1]) <= load(&world.made[1]));
}

/// Instructions that take long.
fn long(count: usize) -> String {
    "regadd m.a work m.a 1\n".repeat(count)
}

const WORK: &str = "regarray work size 16 initval 0";

#[test]
fn a_greedy_one_slows_nobody_beyond_its_share() {
    // Of the first flow far more comes than its program, some 10 us a frame, can take.
    let greedy = application(0, pipeline(WORK, &format!("{}drop", long(2_000))));
    let modest = application(1, pipeline("", "reply"));
    let (mut card, [world, _]) = start(vec![greedy, modest], [60, 4]);
    run_until(&mut card, |of| of[1].frames > 10_000 && of[0].missed > 1_000);
    let counters = end(card, &world);
    let [greedy, modest] = &counters[..] else { panic!("{counters:?}") };
    assert!(greedy.missed > greedy.frames, "{greedy:?}");
    assert_eq!(modest.missed, 0, "{modest:?}");
    assert_eq!(load(&world.left[1]), load(&world.made[1]));
}

#[test]
fn an_application_that_answers_too_much_loses_only_its_own_answers() {
    let both = [0, 1].map(|flow| application(flow, pipeline("", "reply"))).into();
    let worlds = worlds();
    worlds[0].is_slow.store(true, Ordering::Relaxed);
    // Of a turn's four bursts the port takes one.
    let (mut card, [world, _]) = start_on(vec![0], vec![], worlds, (both, [60, 4]));
    run_until(&mut card, |of| of[0].tx_dropped > 5_000 && of[1].frames > 5_000);
    let counters = end(card, &world);
    let [greedy, modest] = &counters[..] else { panic!("{counters:?}") };
    assert_eq!([modest.tx_dropped, modest.missed], [0, 0], "{modest:?}");
    assert_eq!([load(&world.left[1]); 2], [load(&world.made[1]), modest.frames]);
    assert_eq!(greedy.frames - greedy.tx_dropped, load(&world.left[0]), "{greedy:?}");
}

#[test]
fn an_application_that_steers_too_much_loses_only_its_own_frames() {
    let steers =
        |flow| Application { queues: vec![1], ..application(flow, pipeline("", "steer 1")) };
    let (worlds, work) = (worlds(), Duration::from_micros(5));
    // Of the second, one frame follows another.
    worlds[0].second_max.store(4, Ordering::Relaxed);
    let both = (vec![steers(0), steers(1)], [60, 4]);
    let services = [work; 2].map(|work| Box::new(SlowEcho(work)) as Box<dyn Service>).into();
    let (mut card, [world, _]) = start_on(vec![0, 1], services, worlds, both);
    run_until(&mut card, |of| of[0].queue_missed > 5_000 && of[1].frames > 2_000);
    let missed = |card: &Card| card.counters().ports[0].queues[1].rx_missed;
    assert!(missed(&card) > 5_000);
    let counters = end(card, &world);
    let [greedy, modest] = &counters[..] else { panic!("{counters:?}") };
    assert_eq!([modest.queue_missed, modest.tx_dropped, modest.missed], [0; 3], "{modest:?}");
    assert_eq!([load(&world.left[1]); 2], [load(&world.made[1]), modest.frames]);
    // On a busy machine the other core's transmit ring may fill, too.
    let left = greedy.frames - greedy.queue_missed - greedy.tx_dropped;
    assert_eq!(left, load(&world.left[0]), "{greedy:?}");
    // The other core works on it: what the system took of that is nobody's.
    let worked_ns = load(&world.left[0]) * work.as_nanos() as u64;
    assert!(greedy.busy_ns > worked_ns / 2, "{greedy:?}");
}

#[test]
fn memory_of_each_core_counts_against_the_grant() {
    let own = || application(0, pipeline("", "reply"));
    drop(start_on(vec![0, 1], vec![], worlds(), (vec![own()], [1, 0])));
    let grant = Grant { memory: 131_071, ..own().grant };
    let runs = CardWorkload {
        applications: vec![Application { grant, ..own() }],
        ..CardWorkload::default()
    };
    let poor = Card::start_with(&CardConfig::new(worlds().map(Made).into(), 2, vec![0, 1]), runs);
    let error = poor.err().unwrap().to_string();
    assert!(error.ends_with("its program takes 131072 bytes, and it has 131071"), "{error}");
    let learner = "struct m_t {\nbit<32> a\n}\nmetadata instanceof m_t\nregarray r size 8 \
        initval 0\naction x args none {\nreturn\n}\nlearner l {\nkey {\nm.a\n}\nactions \
        {\nx\n}\ndefault_action x args none\nsize 100\ntimeout {\n1\n}\n}\napply {\nrx \
        m.a\ntable l\ndrop\n}\n";
    let program = Program::read(learner).unwrap();
    let room = program.room();
    assert_eq!(room.shared, 64);
    assert!(room.each >= 100 * 64, "{room:?}");
    let grant = Grant { memory: room.of(2) as u64, ..Grant::default() };
    assert!(grant.check("a", &program, 2).is_ok() && grant.check("a", &program, 3).is_err());
}

#[test]
fn those_who_ask_for_more_than_there_is_have_time_by_their_shares() {
    let of = |flow, share| {
        let pipeline = pipeline(WORK, &format!("{}drop", long(500)));
        Application { share, ..application(flow, pipeline) }
    };
    let (mut card, [world, _]) = start(vec![of(0, 1), of(1, 3)], [32, 32]);
    run_until(&mut card, |of| of.iter().all(|of| of.busy_ns > 200_000_000));
    let counters = end(card, &world);
    let ratio = counters[1].busy_ns as f64 / counters[0].busy_ns as f64;
    assert!((2.0..4.0).contains(&ratio), "{ratio}: {counters:?}");
    assert!(counters.iter().all(|of| of.missed > 0), "{counters:?}");
}

#[test]
fn a_hostile_one_reaches_nothing_that_is_not_its_own() {
    // By turns: a port, a queue, a place behind its window and a ring that it has not.
    let body = "and m.number 3
        jmpeq PORT m.number 0
        jmpeq QUEUE m.number 1
        jmpeq WINDOW m.number 2
        dma_write q m.a m.number
        drop
        PORT : mov m.port 1
        tx m.port
        QUEUE : mov m.port 1
        steer m.port
        WINDOW : dma_write_at w m.a m.number
        drop";
    let hostile =
        application(0, pipeline("window w size 999\nring q count 1 size 4 entry 8", body));
    let modest = application(1, pipeline("", "reply"));
    let (mut card, [world, other]) = start(vec![hostile, modest], [20, 10]);
    run_until(&mut card, |of| of.iter().all(|of| of.frames > 2_000));
    let shared = card.application("a").unwrap().window(0).unwrap();
    let mut bytes = vec![0; 999];
    shared.copy_out(0, &mut bytes);
    let counters = end(card, &world);
    let [hostile, modest] = &counters[..] else { panic!("{counters:?}") };
    assert_eq!([hostile.outside, hostile.drops, hostile.faults], [hostile.frames, 0, 0]);
    assert!(hostile.frames > 1_000 && bytes.iter().all(|byte| *byte == 0));
    assert_eq!([load(&world.left[0]), load(&other.left[0])], [0; 2]);
    assert_eq!([modest.frames, modest.missed], [load(&world.left[1]), 0]);
}

#[test]
fn one_that_reads_no_more_loses_its_own_frames_alone() {
    let ring = "ring q count 1 size 64 entry 8";
    let body = "dma_write q 0 m.number\n reply";
    let dies = application(0, pipeline(ring, body));
    let modest = application(1, pipeline("", "reply"));
    let (mut card, [world, _]) = start(vec![dies, modest], [8, 8]);
    let mut reader = card.application("a").unwrap().reader(0, 0).unwrap();
    let mut last = None;
    let mut read = 0_u64;
    let until = Instant::now() + Duration::from_secs(60);
    while read < 1_000 && Instant::now() < until {
        let number = reader.take(|shared, at| {
            let mut four = [0; 4];
            shared.copy_out(at, &mut four);
            u32::from_le_bytes(four)
        });
        if let Some(number) = number {
            assert!(last.is_none_or(|last| last < number), "{last:?} {number}");
            (last, read) = (Some(number), read + 1);
        }
    }
    // It dies: nobody reads any more, with its flow as strong as before.
    drop(reader);
    run_until(&mut card, |of| of[0].ring_full > 1_000);
    let before = card.counters().applications;
    let text = pipeline("", "reply");
    card.set_application("a", text).unwrap();
    let answered = |of: &[ApplicationCounters]| of[0].frames - of[0].ring_full;
    run_until(&mut card, |of| answered(of) > answered(&before) + 1_000);
    let counters = end(card, &world);
    assert_eq!(read, 1_000);
    let replied = counters[0].frames - counters[0].ring_full;
    assert_eq!(replied, load(&world.left[0]), "{counters:?}");
    assert_eq!([counters[1].frames, counters[1].missed], [load(&world.left[1]), 0]);
    assert_eq!(load(&world.left[1]), load(&world.made[1]));
}

/// Why these applications cannot be had.
fn refused(applications: Vec<Application>) -> String {
    let ports = [(); 2].map(|()| Made(Arc::<World>::default())).into();
    let config = CardConfig::new(ports, 2, vec![0]);
    match Card::start_with(&config, CardWorkload { applications, ..CardWorkload::default() }) {
        Err(CardError::Application(error)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn programs_that_use_ports_of_others_are_refused_at_load_time() {
    let plain = |flow| application(flow, pipeline("", "reply"));
    let with = |body: &str| vec![application(0, pipeline("", body))];
    let cases = [
        (with("tx 1"), "application a: the program names port 1, which the application has not"),
        (with("steer 1"), "application a: the program names queue 1, which the application"),
        (vec![plain(0), Application { name: "a".to_owned(), ..plain(1) }], "there is another"),
        (vec![Application { ports: vec![2], ..plain(0) }], "application a: the card has no port 2"),
        (vec![Application { queues: vec![7], ..plain(0) }], "application a: the card has no queue"),
        (vec![Application { flows: vec![], ..plain(0) }], "application a: give at least one flow"),
        (vec![Application { share: 0, ..plain(0) }], "application a: give at least one flow"),
        (vec![Application { share: 101, ..plain(0) }], "application a: give at least one flow"),
        (
            vec![application(0, pipeline("window w size 1000", "reply"))],
            "application a: window w: its program takes 1000 bytes, and it has 999",
        ),
        (
            vec![application(0, pipeline("ring r count 2 size 4 entry 8", "reply"))],
            "application a: ring r: its program takes 128 bytes, and it has 0",
        ),
        (
            vec![application(
                0,
                pipeline("countarray c size 4096\nregarray r size 1 initval 0", "reply"),
            )],
            "application a: memory of arrays, learners and digests (cores: 1): its program takes \
             131080 bytes, and it has 131072",
        ),
        (
            vec![Application { flows: vec!["eth / ipx / end".to_owned()], ..plain(0) }],
            "application a: flow `eth / ipx / end`: expected ",
        ),
        (
            vec![Application {
                flows: vec!["eth / end actions drop / end".to_owned()],
                ..plain(0)
            }],
            "application a: flow `eth / end actions drop / end`: give a pattern alone",
        ),
        (
            vec![plain(0), Application { flows: plain(0).flows, ..plain(1) }],
            "application b: flow `eth / ipv4 / udp dst is 1000 / end`: another application has it",
        ),
    ];
    for (applications, message) in cases {
        let reason = refused(applications);
        assert!(reason.starts_with(message), "{reason}\nin place of {message}");
        assert!(!reason.contains("flow create"), "{reason}: nobody has written that");
    }
    let (mut card, [world, _]) = start(vec![plain(0)], [1, 0]);
    let wrong = card.set_application("a", pipeline("regarray r size 16384 initval 0", "reply"));
    assert!(matches!(wrong, Err(ApplicationError::Memory { most: 131_072, .. })), "{wrong:?}");
    let wrong = card.set_application("a", pipeline("", "tx 1"));
    assert!(matches!(wrong, Err(ApplicationError::Outside { number: 1, .. })), "{wrong:?}");
    let unknown = card.set_application("c", pipeline("", "reply"));
    assert_eq!(unknown.unwrap_err().to_string(), "no application c; there are: a");
    assert!(end(card, &world)[0].outside == 0);
}
