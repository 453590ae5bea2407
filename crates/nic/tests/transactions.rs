//! Transactions at full speed while workers classify: every burst sees one state.
//!
//! Each state has a number, and every rule answers with a queue that says it: so each burst's
//! packets must all have the queue of one state, no older than what was committed before the burst,
//! nor older than what this worker saw before, and no newer than what had been begun after it. The
//! control thread leads from state to state in several ways: by other actions, by moving rules to
//! another mask, by destroying and creating, by leading the packets to another group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use niclab_nic::memory::{Desc, Region};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleId, Worker};

const DURATION: Duration = Duration::from_millis(1_500);
const FLOWS: usize = 60;
/// Queues that say a state; 0 is the answer to a miss.
const STATES: u64 = 255;
/// Groups that packets are led to, one after the other.
const GROUPS: u64 = 5;
const WORKERS: usize = 2;

/// Look-ups that all workers together make at least: `NICLAB_LOOKUPS`, or ten million. A thousand
/// million take some minutes in a release build.
fn lookups_min() -> u64 {
    let asked = std::env::var("NICLAB_LOOKUPS").ok();
    asked.and_then(|count| count.parse().ok()).unwrap_or(10_000_000)
}

fn queue(state: u64) -> u16 {
    1 + (state % STATES) as u16
}

fn group(state: u64) -> u32 {
    1 + (state % GROUPS) as u32
}

fn mac(flow: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, flow as u8]
}

/// A pattern that matches this flow alone, with one of three masks.
fn pattern(flow: usize, mask: u64) -> Pattern {
    match mask % 3 {
        0 => Pattern::any().eth_dst(mac(flow)),
        1 => Pattern::any().eth_src(mac(flow)),
        _ => Pattern::any().eth_dst(mac(flow)).eth_src(mac(flow)),
    }
}

/// What the threads see.
#[derive(Default)]
struct Stage {
    /// States begun and committed.
    begun: AtomicU64,
    done: AtomicU64,
    lookups: AtomicU64,
    stop: AtomicBool,
}

/// Half of the flows have their queue in group 0, the others in the group of the state.
struct Control {
    nic: Nic,
    state: u64,
    direct: Vec<RuleId>,
    led: Vec<RuleId>,
    /// The rule of the state's group.
    target: RuleId,
}

impl Control {
    fn new() -> Control {
        let mut nic = Nic::new(&NicConfig { queues: 256, ..NicConfig::default() }).unwrap();
        let all = Rule {
            group: group(0),
            priority: 0,
            pattern: Pattern::any(),
            actions: &[Action::Queue(queue(0))],
        };
        let target = nic.create(&all).unwrap();
        let rules = |nic: &mut Nic, flows: std::ops::Range<usize>, action| -> Vec<RuleId> {
            let actions = [action];
            let create = |flow| {
                let pattern = pattern(flow, 0);
                nic.create(&Rule { group: 0, priority: 0, pattern, actions: &actions }).unwrap()
            };
            flows.map(create).collect()
        };
        let direct = rules(&mut nic, 0..FLOWS / 2, Action::Queue(queue(0)));
        let led = rules(&mut nic, FLOWS / 2..FLOWS, Action::Jump(group(0)));
        Control { nic, state: 0, direct, led, target }
    }

    /// Goes to the next state; some transactions are dropped half-way and done again.
    fn step(&mut self) {
        let next = self.state + 1;
        if next.is_multiple_of(7) {
            let mut dropped = self.nic.transaction();
            for id in &self.direct[..FLOWS / 4] {
                dropped.update(*id, &[Action::Drop]).unwrap();
            }
            dropped.destroy(self.target).unwrap();
        }
        let mut transaction = self.nic.transaction();
        let [direct, led] = [Action::Queue(queue(next)), Action::Jump(group(next))];
        let flows = [(&mut self.direct, 0, direct), (&mut self.led, FLOWS / 2, led)];
        for (ids, first, action) in flows {
            let actions = &[action];
            for (at, id) in ids.iter_mut().enumerate() {
                let pattern = pattern(first + at, next / 4);
                let rule = Rule { group: 0, priority: 0, pattern, actions };
                match (next + at as u64) % 4 {
                    0 | 1 => transaction.modify(*id, &rule).unwrap(),
                    2 => transaction.update(*id, actions).unwrap(),
                    _ => {
                        transaction.destroy(*id).unwrap();
                        *id = transaction.create(&rule).unwrap();
                    }
                }
            }
        }
        let all = [Action::Queue(queue(next))];
        let rule = Rule { group: group(next), priority: 0, pattern: Pattern::any(), actions: &all };
        transaction.destroy(self.target).unwrap();
        self.target = transaction.create(&rule).unwrap();
        transaction.commit().unwrap();
        self.state = next;
    }
}

struct Reader {
    worker: Worker,
    region: Arc<Region>,
    descs: Vec<Desc>,
}

impl Reader {
    fn new(worker: Worker) -> Reader {
        let (region, mut descs) = Region::new(FLOWS, 100).unwrap();
        for (flow, desc) in descs.iter_mut().enumerate() {
            let frame = &mut region.slot_mut(desc)[..60];
            frame.fill(0);
            frame[..6].copy_from_slice(&mac(flow));
            frame[6..12].copy_from_slice(&mac(flow));
            region.set_len(desc, 60);
        }
        Reader { worker, region, descs }
    }

    /// Classifies until told to stop; states seen.
    fn run(mut self, stage: &Stage) -> u64 {
        let (mut last, mut changes) = (0, 0);
        while !stage.stop.load(SeqCst) {
            let from = stage.done.load(SeqCst).max(last);
            let dropped = self.worker.classify(&self.region, &mut self.descs);
            let until = stage.begun.load(SeqCst);
            assert_eq!(dropped, 0, "of a transaction that was dropped");
            let first = self.descs[0].queue;
            let all: Vec<u16> = self.descs.iter().map(|desc| desc.queue).collect();
            assert!(all.iter().all(|&queue| queue == first), "two states in a burst: {all:?}");
            let seen = (from..=until).find(|&state| queue(state) == first);
            let seen = seen.unwrap_or_else(|| panic!("{first} is no state of {from} to {until}"));
            changes += u64::from(seen != last);
            last = seen;
            stage.lookups.fetch_add(FLOWS as u64, SeqCst);
        }
        changes
    }
}

#[test]
fn every_burst_sees_one_state() {
    let mut control = Control::new();
    let readers: Vec<Reader> = (0..WORKERS).map(|_| Reader::new(control.nic.worker())).collect();
    let stage = Stage::default();
    std::thread::scope(|scope| {
        let stage = &stage;
        let running: Vec<_> =
            readers.into_iter().map(|reader| scope.spawn(move || reader.run(stage))).collect();
        let start = Instant::now();
        let lookups_min = lookups_min();
        let enough = || stage.lookups.load(SeqCst) >= lookups_min;
        while (start.elapsed() < DURATION || !enough()) && !running.iter().any(|r| r.is_finished())
        {
            stage.begun.store(control.state + 1, SeqCst);
            control.step();
            stage.done.store(control.state, SeqCst);
        }
        stage.stop.store(true, SeqCst);
        let changes: Vec<u64> = running.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert!(changes.iter().all(|&changes| changes > 100), "{changes:?} states seen");
    });
    assert!(control.nic.run_housekeeping(usize::MAX), "nobody is reading any more");
    assert_eq!(control.nic.len() as usize, FLOWS + 1);
}
