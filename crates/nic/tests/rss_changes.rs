//! RSS changes at full speed while workers classify: every burst is spread by one state.
//!
//! Each state has a number. All entries of its indirection table name a queue that says it, and
//! key, types and hash function are its own; so hash and queue of every packet must be those of one
//! state, the same for all packets of a burst, no older than what was set before the burst, nor
//! than what this worker saw before, and no newer than what had been begun after it. What the hash
//! is, the definition says. In the second test every other packet meets a rule, which a transaction
//! changes together with RSS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use niclab_nic::definition::{Definition, Packet, Verdict};
use niclab_nic::limits::BURST;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleId, Worker};

const DURATION: Duration = Duration::from_millis(1_500);
const WORKERS: usize = 2;
/// Packets that must have been spread at least, by all workers together, and changes of state that
/// each must have seen.
const PACKETS_MIN: u64 = 3_000_000;
const SEEN_MIN: u64 = 200;
/// States that have the same hashes: the table alone changes.
const ALIKE: u64 = 4;
/// Keys; it takes this many times [`ALIKE`] states for hashes to come again.
const KEYS: u64 = 61;
/// Queues that say a state.
const QUEUES: u64 = 253;

fn queue(state: u64) -> u16 {
    1 + (state % QUEUES) as u16
}

fn rss(state: u64) -> Rss {
    let round = state / ALIKE % KEYS;
    let byte = |at: u64| (((round + 1) * (at + 3) * 0x9e37_79b9) >> 13) as u8;
    let function = match round % 2 {
        0 => HashFunction::Toeplitz,
        _ => HashFunction::SymmetricToeplitz,
    };
    let with_ports = HashTypes::IP | HashTypes::TCP | HashTypes::UDP;
    let types = if round.is_multiple_of(3) { HashTypes::IP } else { with_ports };
    Rss {
        function,
        indirection: evenly([queue(state)]),
        key: (0..40).map(byte).collect(),
        types,
        ..Rss::default()
    }
}

fn frame(flow: usize) -> Vec<u8> {
    let mut frame = vec![0; 80];
    let protocol = if flow.is_multiple_of(3) { 6 } else { 17 };
    let ports = [4, 0, 1, flow as u8];
    if flow % 4 < 3 {
        (frame[12], frame[14], frame[23]) = (8, 0x45, protocol);
        frame[26..34].copy_from_slice(&[10, 1, 2, flow as u8, 10, 9, 9, 9]);
        frame[34..38].copy_from_slice(&ports);
    } else {
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        (frame[20], frame[37], frame[53]) = (protocol, flow as u8, 7);
        frame[54..58].copy_from_slice(&ports);
    }
    frame
}

/// The hash of each flow by each key.
fn hashes() -> Vec<Vec<u32>> {
    let of_round = |round: u64| {
        let mut definition = Definition { rss: rss(round * ALIKE), ..Definition::default() };
        let hash = |flow| match definition.classify(&mut Packet::new(&frame(flow))) {
            Verdict::Rss { hash, .. } => hash,
            other => panic!("{other:?} without rules"),
        };
        (0..BURST).map(hash).collect()
    };
    (0..KEYS).map(of_round).collect()
}

/// What the threads see.
#[derive(Default)]
struct Stage {
    /// States begun and set.
    begun: AtomicU64,
    done: AtomicU64,
    packets: AtomicU64,
    /// Changes of state that each worker has seen.
    seen: [AtomicU64; WORKERS],
    stop: AtomicBool,
}

/// Which flows a rule decides about, where rules change too.
fn has_rule(flow: usize) -> bool {
    flow % 2 == 1
}

/// Goes from state to state; with a rule if there is one.
struct Control {
    nic: Nic,
    state: u64,
    rules: Vec<RuleId>,
}

impl Control {
    fn new(with_rules: bool) -> Control {
        let mut nic = Nic::new(&NicConfig { queues: 256, ..NicConfig::default() }).unwrap();
        nic.set_rss(&rss(0)).unwrap();
        let mut rules = Vec::new();
        for flow in (0..BURST).filter(|flow| with_rules && has_rule(*flow)) {
            let ip = if flow % 4 < 3 { Pattern::ipv4() } else { Pattern::ipv6() };
            let pattern = if flow.is_multiple_of(3) { ip.tcp() } else { ip.udp() };
            let pattern = pattern.sport(0x400).dport(0x100 | flow as u16);
            let actions = &[Action::Queue(queue(0))];
            rules.push(nic.create(&Rule { group: 0, priority: 0, pattern, actions }).unwrap());
        }
        Control { nic, state: 0, rules }
    }

    fn step(&mut self) {
        self.state += 1;
        let whole = self.state.is_multiple_of(ALIKE);
        let rss = rss(self.state);
        let all: Vec<(usize, u16)> = rss.indirection.iter().copied().enumerate().collect();
        if self.rules.is_empty() {
            return match whole {
                true => self.nic.set_rss(&rss).unwrap(),
                false => self.nic.move_entries(&all).unwrap(),
            };
        }
        if self.state.is_multiple_of(7) {
            let mut dropped = self.nic.transaction();
            dropped.set_rss(&Rss { indirection: evenly([0]), ..rss.clone() }).unwrap();
            dropped.update(self.rules[0], &[Action::Drop]).unwrap();
        }
        let mut transaction = self.nic.transaction();
        let (first, rest) = self.rules.split_at(self.rules.len() / 2);
        let actions = [Action::Queue(queue(self.state))];
        first.iter().for_each(|id| transaction.update(*id, &actions).unwrap());
        match whole {
            true => transaction.set_rss(&rss).unwrap(),
            false => transaction.move_entries(&all).unwrap(),
        }
        rest.iter().for_each(|id| transaction.update(*id, &actions).unwrap());
        transaction.commit().unwrap();
    }
}

struct Reader {
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
    hashes: Arc<Vec<Vec<u32>>>,
    with_rules: bool,
}

impl Reader {
    fn new(worker: Worker, hashes: &Arc<Vec<Vec<u32>>>, with_rules: bool) -> Reader {
        let (region, mut descs) = Region::new(BURST, 100).unwrap();
        for (flow, desc) in descs.iter_mut().enumerate() {
            let frame = frame(flow);
            region.slot_mut(desc)[..frame.len()].copy_from_slice(&frame);
            region.set_len(desc, frame.len() as u16);
        }
        Reader { worker, region, descs, hashes: Arc::clone(hashes), with_rules }
    }

    /// Classifies until told to stop.
    fn run(mut self, stage: &Stage, number: usize) {
        let mut last = 0;
        while !stage.stop.load(SeqCst) {
            // Bursts of all lengths: hashed at once, in part, and one by one.
            let len = 1 + last as usize % BURST;
            let from = stage.done.load(SeqCst).max(last);
            let dropped = self.worker.classify(&self.region, &mut self.descs[..len]);
            let until = stage.begun.load(SeqCst);
            assert_eq!(dropped, 0, "of a transaction that was dropped");
            // No rule decides about the first.
            let (first, hash) = (self.descs[0].queue, self.descs[0].hash);
            let of = |state: u64| &self.hashes[(state / ALIKE % KEYS) as usize];
            let is_seen = |state: &u64| queue(*state) == first && of(*state)[0] == hash;
            let seen = (from..=until).find(is_seen).unwrap_or_else(|| {
                panic!("queue {first} and hash {hash:#x} are no state of {from} to {until}")
            });
            let hashes = of(seen);
            for (flow, desc) in self.descs[..len].iter().enumerate() {
                assert_eq!(desc.queue, first, "two states in a burst: flow {flow}");
                if !(self.with_rules && has_rule(flow)) {
                    assert_eq!(desc.hash, hashes[flow], "another state's hash: flow {flow}");
                }
            }
            stage.seen[number].fetch_add(u64::from(seen != last), SeqCst);
            last = seen;
            stage.packets.fetch_add(len as u64, SeqCst);
        }
    }
}

fn change_while_packets_flow(with_rules: bool) {
    let mut control = Control::new(with_rules);
    let hashes = Arc::new(hashes());
    let readers = (0..WORKERS).map(|_| Reader::new(control.nic.worker(), &hashes, with_rules));
    let readers: Vec<Reader> = readers.collect();
    let stage = Stage::default();
    std::thread::scope(|scope| {
        let stage = &stage;
        let started = readers.into_iter().enumerate();
        let running: Vec<_> =
            started.map(|(at, reader)| scope.spawn(move || reader.run(stage, at))).collect();
        let start = Instant::now();
        let enough = || {
            stage.packets.load(SeqCst) >= PACKETS_MIN
                && stage.seen.iter().all(|seen| seen.load(SeqCst) >= SEEN_MIN)
        };
        while (start.elapsed() < DURATION || !enough()) && !running.iter().any(|r| r.is_finished())
        {
            stage.begun.store(control.state + 1, SeqCst);
            control.step();
            stage.done.store(control.state, SeqCst);
        }
        stage.stop.store(true, SeqCst);
        running.into_iter().for_each(|reader| reader.join().unwrap());
        println!("{} states set, {:?} seen", control.state, stage.seen);
        assert!(enough());
    });
    assert!(control.nic.run_housekeeping(usize::MAX), "nobody is reading any more");
}

#[test]
fn every_burst_uses_one_rss_state() {
    change_while_packets_flow(false);
}

#[test]
fn a_transaction_changes_rss_and_rules_at_one_instant() {
    change_while_packets_flow(true);
}
