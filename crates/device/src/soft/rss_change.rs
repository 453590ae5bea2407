//! Changes of RSS while frames come to the card of several cores by the clock.
//!
//! There is a queue of the wire for each core. A flow keeps to one of them, which its addresses and
//! ports pick and no hash of the card's, so that most frames have another core's queue than that
//! which they came by. The wires judge the order of a flow's frames together, by the order in which
//! cores let them leave.
//!
//! The cores run freely, a thread each, as those of `niclab nic`: the question is about frames that
//! are under way between cores that do not wait for each other. The control side is the thread that
//! measures; it sleeps between two looks.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use niclab_card::{Balance, Card, CardConfig, Counters};
use niclab_load::clock::Clock;
use niclab_load::clocked::{Clocked, observe};
use niclab_load::{Latency, Load, LoadObservation, QueueReaction, Respread};
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use niclab_packet::flow::FiveTuple;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::clocked::{Trial, Wires, enter, settle};
use super::{WIRE_DEPTH, bad_load, broken};
use crate::face::{DeviceError, Setup};
use crate::plan::{Answering, Respreading, SpreadPlan};

/// How often the control side looks whether a change has settled.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long cores are looked at at a time, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// How often the card decides about its spread, as `niclab nic` does, nanoseconds.
const BALANCE_EVERY_NS: u64 = 100_000_000;

/// How long a change may take to settle behind the end of a trial.
const SETTLE: Duration = Duration::from_secs(2);

/// Keys that a card tries which balances by them.
const KEYS: usize = 8;

/// Bytes of a key.
const KEY_LEN: usize = 40;

/// The wire of a flow, of so many: by the bytes of its addresses and ports, without any hash.
fn wire_of(flow: &FiveTuple, wires: usize) -> usize {
    let sum = |address: IpAddr| -> usize {
        match address {
            IpAddr::V4(of) => of.octets().iter().map(|byte| usize::from(*byte)).sum(),
            IpAddr::V6(of) => of.octets().iter().map(|byte| usize::from(*byte)).sum(),
        }
    };
    let ports =
        [flow.sport, flow.dport].map(|port| usize::from(port >> 8) + usize::from(port & 255));
    (sum(flow.src) + sum(flow.dst) + ports.iter().sum::<usize>()) % wires.max(1)
}

/// What the control side does while frames come: changes, answers, and a look at the cores.
struct Beside {
    card: Card,
    plan: SpreadPlan,
    clock: Clock,
    random: Xoshiro256PlusPlus,
    /// Since when there is a measured part; `None` before it.
    opened_ns: Option<u64>,
    /// When the change was asked for that has not settled yet.
    asked_ns: Option<u64>,
    /// When the next one is due, the card decides, and a stretch ends; of the process's clock.
    change_ns: u64,
    balance_ns: u64,
    stretch_ns: u64,
    settled: Latency,
    /// Looks at whether a change has settled.
    looks: u64,
    /// The counters at the last end of a stretch.
    before: Counters,
    seen: Respread,
    refusal: Option<String>,
}

impl Beside {
    fn new(card: Card, plan: SpreadPlan) -> Beside {
        let before = card.counters();
        Beside {
            card,
            plan,
            clock: Clock::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(plan.seed),
            opened_ns: None,
            asked_ns: None,
            change_ns: 0,
            balance_ns: 0,
            stretch_ns: 0,
            settled: Latency::new(),
            looks: 0,
            before,
            seen: Respread { stretch_ns: STRETCH_NS, ..Respread::default() },
            refusal: None,
        }
    }

    /// Sees whether the last change has settled.
    fn look(&mut self, now_ns: u64) {
        if let Some(asked_ns) = self.asked_ns
            && self.card.waits_for(0).is_ok_and(|core| core.is_none())
        {
            self.settled.record(now_ns.saturating_sub(asked_ns));
            self.asked_ns = None;
        }
    }

    fn change(&mut self, now_ns: u64) {
        let Some(change) = self.plan.change else { return };
        if now_ns < self.change_ns || self.asked_ns.is_some() {
            return;
        }
        let Some(rss) = self.card.rss(0) else { return };
        let queues = self.before.ports.first().map_or(1, |port| port.queues.len() as u16);
        let rss = changed(rss, change, queues, &mut self.random);
        match self.card.set_rss(0, &rss) {
            Ok(()) => {
                self.seen.changes += 1;
                self.asked_ns = Some(now_ns);
                self.change_ns = now_ns + 1_000_000_000 / u64::from(self.plan.per_s.max(1));
            }
            Err(error) => self.refusal = Some(error.to_string()),
        }
    }

    /// Lets the card decide, where it may, and notes what it did.
    fn balance(&mut self, now_ns: u64, opened_ns: u64) {
        if now_ns < self.balance_ns {
            return;
        }
        self.balance_ns = now_ns + BALANCE_EVERY_NS;
        self.card.tend();
        for balanced in self.card.balance() {
            self.asked_ns = Some(now_ns);
            let moved_entries = balanced.moved_entries.map(|count| count as u64);
            let at_ns = now_ns.saturating_sub(opened_ns);
            self.seen.answers.push(QueueReaction { at_ns, moved_entries });
        }
    }

    /// What each core did in the stretches that have ended: several, where this thread was away,
    /// and of what it finds behind that each has the same share.
    fn end_stretches(&mut self, count: u64, now: Counters) {
        let share = |sum: u64, at: u64| sum * (at + 1) / count - sum * at / count;
        self.seen.cpu_ns.resize_with(now.cores.len(), Vec::new);
        self.seen.frames.resize_with(now.cores.len(), Vec::new);
        let lists = self.seen.cpu_ns.iter_mut().zip(&mut self.seen.frames);
        for ((cpu_ns, frames), (now, before)) in lists.zip(now.cores.iter().zip(&self.before.cores))
        {
            // The cores look for frames all the time, so that their processor time says nothing.
            let ran_ns = now.busy_ns.saturating_sub(before.busy_ns);
            let dealt_with = now.frames.saturating_sub(before.frames);
            cpu_ns.extend((0..count).map(|at| share(ran_ns, at)));
            frames.extend((0..count).map(|at| share(dealt_with, at)));
        }
        self.before = now;
    }
}

/// A spread of which something was changed by chance.
fn changed(rss: &Rss, change: Respreading, queues: u16, random: &mut Xoshiro256PlusPlus) -> Rss {
    use Respreading::{Any, Entries, Fields, Function, Key, Queues};
    let mut rss = rss.clone();
    match change {
        Any => {
            let one = [Entries, Queues, Key, Function, Fields][random.random_range(0..5)];
            return changed(&rss, one, queues, random);
        }
        Entries => {
            for _ in 0..random.random_range(1..=ENTRIES_MAX) {
                let entry = random.random_range(0..INDIRECTION_LEN);
                rss.indirection[entry] = random.random_range(0..queues);
            }
        }
        Queues => rss.indirection = evenly(0..random.random_range(1..=queues)),
        Key => rss.key = key(random),
        Function => {
            rss.function = match rss.function {
                HashFunction::Toeplitz => HashFunction::SymmetricToeplitz,
                HashFunction::SymmetricToeplitz => HashFunction::Toeplitz,
            }
        }
        Fields => {
            let addresses = rss.types == HashTypes::IP;
            rss.types = if addresses { HashTypes::IP | HashTypes::UDP } else { HashTypes::IP };
        }
    }
    rss
}

/// Most entries of the table that one change gives other queues.
const ENTRIES_MAX: usize = 40;

fn key(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    (0..KEY_LEN).map(|_| random.random()).collect()
}

impl Beside {
    fn open(&mut self, at_ns: u64) {
        self.before = self.card.counters();
        self.opened_ns = Some(at_ns);
        (self.change_ns, self.stretch_ns) = (at_ns, at_ns + STRETCH_NS);
        self.balance_ns = at_ns + BALANCE_EVERY_NS;
    }

    fn turn(&mut self, opened_ns: u64) {
        let begun_ns = self.clock.now_ns();
        self.looks += 1;
        self.look(begun_ns);
        self.change(begun_ns);
        self.balance(begun_ns, opened_ns);
        if let Some(late_ns) = begun_ns.checked_sub(self.stretch_ns) {
            let count = 1 + late_ns / STRETCH_NS;
            self.end_stretches(count, self.card.counters());
            self.stretch_ns += count * STRETCH_NS;
        }
    }

    /// Carries the plan out in the measured part, and waits until the last frame has come.
    fn work(&mut self, load: &Load, trial: &Trial, wires: usize) {
        let opened_ns = trial.begin() + load.warmup_ns;
        let closed_ns = opened_ns + load.duration_ns;
        thread::sleep(Duration::from_nanos(opened_ns.saturating_sub(self.clock.now_ns())));
        self.open(opened_ns);
        while self.clock.now_ns() < closed_ns {
            self.turn(opened_ns);
            thread::sleep(LOOK_EVERY);
        }
        self.seen.look_ns = self.clock.now_ns().saturating_sub(opened_ns) / self.looks.max(1);
        trial.drain(wires);
        let until = Instant::now() + SETTLE;
        while self.asked_ns.is_some() && Instant::now() < until {
            self.look(self.clock.now_ns());
            thread::yield_now();
        }
    }

    /// Ends the card, and adds what it counted to what the wires saw.
    fn end(self, trial: &Trial) -> Result<LoadObservation, DeviceError> {
        let is_settled = self.asked_ns.is_none();
        let ended = self.card.end();
        if let Some(trouble) = ended.trouble.first() {
            return Err(broken(trouble));
        }
        let mut seen = observe(trial.wires());
        let queues = ended.counters.ports.first().map_or(0, |port| port.queues.len() as u16);
        enter(&mut seen, &ended, &(0..queues).map(|queue| (0, queue)).collect::<Vec<_>>());
        let reasons = &mut seen.honesty.reasons;
        reasons.extend(self.refusal.map(|refusal| format!("a change was refused: {refusal}")));
        reasons.extend((!is_settled).then(|| "the last change has not settled".to_owned()));
        let held_drops = ended.counters.ports.iter().map(|port| port.held_drops).sum();
        let settled = Some(self.settled).filter(|settled| !settled.0.is_empty());
        seen.respread = Some(Respread { settled, held_drops, ..self.seen });
        Ok(seen)
    }
}

/// Offers a load to a card on these cores while RSS changes.
pub(super) fn run(
    (load, plan): (&Load, SpreadPlan),
    setup: &Setup,
    cores: Vec<u32>,
) -> Result<LoadObservation, DeviceError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!plan.seed);
    let balance = plan.answer.map(|answer| match answer {
        Answering::Moves => Balance::Moves { save_cores: false },
        Answering::SaveCores => Balance::Moves { save_cores: true },
        Answering::Keys => Balance::Keys((0..KEYS).map(|_| key(&mut random)).collect()),
    });
    let count = cores.len();
    let of_flow = |flow: &FiveTuple| wire_of(flow, count);
    let wires = Clocked::several(load, WIRE_DEPTH, setup.frame_len_max, count, of_flow);
    let work = Duration::from_nanos(plan.work_ns.into());
    let (trial, wires) = Wires::moving(wires.map_err(bad_load)?, work);
    let config = CardConfig { balance, ..CardConfig::new(vec![wires], setup.queues, cores) };
    let mut card = Card::start(&config, "").map_err(broken)?;
    // All cores work before the first frame comes.
    settle(&mut card, 0)?;
    let mut beside = Beside::new(card, plan);
    beside.work(load, &trial, count);
    beside.end(&trial)
}

#[cfg(test)]
#[path = "rss_change_tests.rs"]
mod tests;
