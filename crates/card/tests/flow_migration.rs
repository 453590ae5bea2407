//! RSS changes while frames flow: none is lost, and those of a flow keep their order.
//!
//! Each queue pair makes frames of its own flows, numbered flow by flow, as long as fewer than a
//! window are under way, and looks at the numbers of what leaves by it. A frame that leaves after a
//! later one of its flow was overtaken: the mark of each flow is moved as the queue pair takes the
//! frame. What does not leave at all was lost: with a window that fits a ring, by the change.

mod made;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use made::Made;
use niclab_card::{Balance, Card, CardConfig, CardCounters, ChangeError, Receive};
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const FLOWS: usize = 512;
const QUEUES: u16 = 8;
/// Less than a ring between cores holds: what is lost is lost by the change.
const WINDOW: usize = 700;
const CHANGES: usize = 1_000;

/// What all queue pairs see.
struct World {
    /// By flow: the number that left last.
    last: Vec<AtomicU64>,
    overtaken: AtomicU64,
    made: AtomicU64,
    left: AtomicU64,
    under_way: AtomicUsize,
    /// Frames that may be.
    window: usize,
    makes: AtomicBool,
    /// Every so many calls a queue pair sends nothing.
    stalls: AtomicBool,
}

/// One of so many ports, each of which has flows of its own.
struct Port {
    world: Arc<World>,
    port: usize,
    ports: usize,
}

/// What a queue pair has of its own.
struct Own {
    /// Flows, and the number that the last frame of each had.
    next: VecDeque<(usize, u64)>,
    random: Xoshiro256PlusPlus,
}

impl made::World for Port {
    type Own = Own;

    const HELD: usize = WINDOW;

    fn own(&self, place: u32, count: u32) -> Own {
        let first = place as usize * self.ports + self.port;
        let flows = (first..FLOWS).step_by(count as usize * self.ports);
        let random = Xoshiro256PlusPlus::seed_from_u64(place.into());
        Own { next: flows.map(|flow| (flow, 0)).collect(), random }
    }

    fn make(&self, own: &mut Own, _: usize, slot: &mut [u8]) -> Option<u16> {
        let world = &self.world;
        let is_full = world.under_way.load(Ordering::Relaxed) >= world.window;
        if !world.makes.load(Ordering::Relaxed) || is_full {
            return None;
        }
        let (flow, number) = own.next.pop_front()?;
        own.next.push_back((flow, number + 1));
        write(slot, flow, number + 1);
        world.under_way.fetch_add(1, Ordering::Relaxed);
        world.made.fetch_add(1, Ordering::Relaxed);
        Some(60)
    }

    fn takes(&self, own: &mut Own) -> bool {
        !(self.world.stalls.load(Ordering::Relaxed) && own.random.random_ratio(9, 10))
    }

    fn left(&self, _: &mut Own, frame: &[u8]) {
        let (flow, number) = read(frame);
        let before = self.world.last[flow].swap(number, Ordering::AcqRel);
        self.world.overtaken.fetch_add(u64::from(before > number), Ordering::Relaxed);
        self.world.left.fetch_add(1, Ordering::Relaxed);
        self.world.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

fn made(world: &Arc<World>, port: usize, ports: usize) -> Made<Port> {
    Made(Arc::new(Port { world: Arc::clone(world), port, ports }))
}

/// A frame of IPv4 and UDP, of a flow, with its number behind the headers.
fn write(frame: &mut [u8], flow: usize, number: u64) {
    frame[..60].fill(0);
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
    (frame[22], frame[23]) = (64, 17);
    frame[26..30].copy_from_slice(&[10, 0, (flow >> 8) as u8, flow as u8]);
    frame[30..34].copy_from_slice(&[10, 1, 0, 1]);
    frame[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    frame[36..40].copy_from_slice(&[0, 53, 0, 26]);
    frame[42..44].copy_from_slice(&(flow as u16).to_be_bytes());
    frame[44..52].copy_from_slice(&number.to_be_bytes());
}

fn read(frame: &[u8]) -> (usize, u64) {
    let flow = u16::from_be_bytes(frame[42..44].try_into().unwrap());
    (flow.into(), u64::from_be_bytes(frame[44..52].try_into().unwrap()))
}

/// One of all changes that there are, by chance.
fn changed(rss: &Rss, random: &mut Xoshiro256PlusPlus) -> Rss {
    let mut rss = rss.clone();
    match random.random_range(0..5) {
        0 => rss.key = (0..40).map(|_| random.random()).collect(),
        1 => {
            rss.function = match rss.function {
                HashFunction::Toeplitz => HashFunction::SymmetricToeplitz,
                HashFunction::SymmetricToeplitz => HashFunction::Toeplitz,
            }
        }
        2 => {
            let some = [HashTypes::IP, HashTypes::IP | HashTypes::UDP, HashTypes::IPV4_UDP];
            rss.types = some[random.random_range(0..some.len())];
        }
        3 => rss.indirection = evenly(0..random.random_range(1..=QUEUES)),
        _ => {
            for _ in 0..random.random_range(1..40) {
                let entry = random.random_range(0..INDIRECTION_LEN);
                rss.indirection[entry] = random.random_range(0..QUEUES);
            }
        }
    }
    rss
}

fn world(window: usize) -> Arc<World> {
    Arc::new(World {
        window,
        last: (0..FLOWS).map(|_| AtomicU64::new(0)).collect(),
        overtaken: AtomicU64::new(0),
        made: AtomicU64::new(0),
        left: AtomicU64::new(0),
        under_way: AtomicUsize::new(0),
        makes: AtomicBool::new(true),
        stalls: AtomicBool::new(false),
    })
}

fn settle(card: &mut Card, port: u16) {
    let until = Instant::now() + Duration::from_secs(20);
    while let Some(core) = card.core_without_rss(port).unwrap() {
        assert!(Instant::now() < until, "core {core} does not follow: {:?}", card.counters());
        thread::yield_now();
    }
}

/// Changes RSS of all ports by chance, and holds what comes out against what went in.
fn change(ports: usize, cores: u32, changes: usize, stalls: bool) -> CardCounters {
    change_by(Receive::BusyPoll, ports, cores, changes, stalls)
}

fn change_by(
    receive: Receive,
    ports: usize,
    cores: u32,
    changes: usize,
    stalls: bool,
) -> CardCounters {
    let world = world(WINDOW);
    world.stalls.store(stalls, Ordering::Relaxed);
    let ports = (0..ports).map(|port| made(&world, port, ports)).collect();
    let cores_used = (0..cores).collect();
    let config = CardConfig { receive, ..CardConfig::new(ports, QUEUES, cores_used) };
    let mut card = Card::start(&config, "").unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    (0..config.ports.len()).for_each(|port| settle(&mut card, port as u16));
    let mut refused = 0;
    for round in 0..changes {
        let port = (round % config.ports.len()) as u16;
        let rss = changed(card.rss(port).unwrap(), &mut random);
        let is_new = rss != *card.rss(port).unwrap();
        card.set_rss(port, &rss).unwrap();
        // The next one comes before this one is over.
        match card.set_rss(port, &changed(&rss, &mut random)) {
            Err(ChangeError::UnderWay { .. }) => {
                assert!(is_new, "nothing is under way");
                refused += 1;
            }
            other => other.unwrap(),
        }
        settle(&mut card, port);
        card.run_housekeeping();
    }
    assert!(cores == 1 || refused > changes / 10, "{refused} of {changes} met another");
    world.makes.store(false, Ordering::Relaxed);
    let until = Instant::now() + Duration::from_secs(20);
    while world.under_way.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        thread::yield_now();
    }
    let ended = card.shut_down();
    let [made, left] = [&world.made, &world.left].map(|count| count.load(Ordering::Relaxed));
    assert_eq!((made - left, ended.frames_lost), (0, 0), "of {made}: {:?}", ended.counters);
    assert_eq!(world.overtaken.load(Ordering::Relaxed), 0, "of {made}");
    assert!(made as usize > 20 * changes, "{made} frames");
    println!("{changes} changes, {made} frames: none lost, none passed another");
    let of_ports = |of: fn(&niclab_card::PortCounters) -> u64| -> u64 {
        ended.counters.ports.iter().map(of).sum()
    };
    assert_eq!(of_ports(|port| port.held_drops + port.tx_dropped + port.rule_drops), 0);
    assert_eq!(of_ports(|port| port.rx_frames), made);
    ended.counters
}

#[test]
fn a_thousand_changes_lose_no_frame_and_let_none_pass_another() {
    let counters = change(1, 2, CHANGES, false);
    assert!(counters.cores.iter().all(|core| core.frames > 0), "{counters:?}");
}

#[test]
fn flows_keep_their_order_where_queue_pairs_are_full_and_ports_are_pairs() {
    change(2, 2, CHANGES / 5, true);
    change(1, 3, CHANGES / 10, true);
    change(2, 1, CHANGES / 10, false);
    change_by(Receive::Interrupt, 1, 2, CHANGES / 5, false);
}

/// Runs a card whose flows all go to queue 0, more than its ring holds, until what balances has
/// made both cores busy.
fn balance(how: Balance) {
    let world = world(usize::MAX);
    let ports = vec![made(&world, 0, 1)];
    let balance = Some(how.clone());
    let config = CardConfig { balance, ..CardConfig::new(ports, QUEUES, vec![0, 1]) };
    let mut card = Card::start(&config, "").unwrap();
    settle(&mut card, 0);
    let indirection = evenly([0]);
    card.set_rss(0, &Rss { indirection, ..card.rss(0).unwrap().clone() }).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let mut moved = 0;
    loop {
        assert!(Instant::now() < until, "{how:?}: {:?}", card.counters());
        let before = card.counters();
        let grew = |card: &Card, core: usize| {
            card.counters().cores[core].frames - before.cores[core].frames
        };
        // Cores show their counters now and then: long enough that it does not matter when.
        while grew(&card, 0) + grew(&card, 1) < 300_000 && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        let [here, there] = [0, 1].map(|core| grew(&card, core));
        let done = card.balance();
        settle(&mut card, 0);
        match &how {
            // A core that was held up has made fewer frames of its flows than it does now: what was
            // decided then may not fit any more, and is looked at again.
            Balance::Moves { .. } => {
                moved += done.iter().filter_map(|one| one.moved_entries).sum::<usize>();
                let share = there as f64 / (here + there) as f64;
                if moved > 100 && (0.35..0.65).contains(&share) {
                    break;
                }
            }
            // Whatever the key, the table names one queue.
            Balance::Keys(keys) => {
                if let [one] = done[..] {
                    assert_eq!(one.moved_entries, None);
                    assert_eq!(card.rss(0).unwrap().key, keys[0]);
                    break;
                }
            }
        }
    }
    assert_eq!(world.overtaken.load(Ordering::Relaxed), 0);
    assert_eq!(card.shut_down().frames_lost, 0);
}

#[test]
fn a_queue_that_fills_gives_flows_away() {
    balance(Balance::Moves { save_cores: false });
    balance(Balance::Keys(vec![vec![7; 40], vec![9; 40]]));
}

#[test]
fn a_change_that_cannot_be_changes_nothing() {
    let world = world(WINDOW);
    let ports = vec![made(&world, 0, 1)];
    let config = CardConfig { receive: Receive::Interrupt, ..CardConfig::new(ports, 2, vec![0]) };
    let mut card = Card::start(&config, "").unwrap();
    settle(&mut card, 0);
    let before = card.rss(0).unwrap().clone();
    let refused = card.set_rss(0, &Rss { indirection: evenly([2]), ..before.clone() });
    let refused = refused.unwrap_err().to_string();
    assert!(refused.starts_with("port 0: ") && refused.contains("queue 2"), "{refused}");
    assert!(card.set_rss(1, &before).unwrap_err().to_string().contains("ports 0 to 0"));
    assert_eq!(*card.rss(0).unwrap(), before);
    let short = Some(Balance::Keys(vec![vec![1; 40], vec![2; 7]]));
    let refused = Card::start(&CardConfig { balance: short, ..config.clone() }, "").err().unwrap();
    assert!(refused.to_string().contains("an RSS key of 7 bytes"), "{refused}");
    settle(&mut card, 0);
}
