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

use niclab_card::{Balance, Card, CardCounters, CardResult};
use niclab_load::clock::Clock;
use niclab_load::{Latency, LoadObservation, QueueReaction, RssChanges};
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_packet::flow::FiveTuple;

use super::broken;
use crate::control::RandomRss;
use crate::face::DeviceError;
use crate::plan::{BalanceMode, Plan, RssPlan};

/// How often the control side looks whether a change has settled.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long cores are looked at at a time, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// How often the card decides about its RSS, as `niclab nic` does, nanoseconds.
const BALANCE_EVERY_NS: u64 = 100_000_000;

/// How long a core may take to work before frames come.
const STARTED: Duration = Duration::from_secs(10);

/// How long a change may take to settle behind the end of a trial.
const SETTLE: Duration = Duration::from_secs(2);

/// Keys that a card tries which balances by them.
const KEYS: usize = 8;

/// The wire of a flow, of so many: by the bytes of its addresses and ports, without any hash.
pub(super) fn wire_of(flow: &FiveTuple, wires: usize) -> usize {
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
pub(super) struct RssControl<'a> {
    card: &'a mut Card,
    plan: RssPlan,
    clock: Clock,
    random: RandomRss,
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
    before: CardCounters,
    changes: RssChanges,
    refusal: Option<String>,
}

impl<'a> RssControl<'a> {
    pub(super) fn new(card: &'a mut Card, plan: RssPlan) -> RssControl<'a> {
        let before = card.counters();
        let queues = before.ports.first().map_or(1, |port| port.queues.len() as u16);
        RssControl {
            card,
            plan,
            clock: Clock::new(),
            random: RandomRss::new(plan.seed, queues, INDIRECTION_LEN),
            opened_ns: None,
            asked_ns: None,
            change_ns: 0,
            balance_ns: 0,
            stretch_ns: 0,
            settled: Latency::new(),
            looks: 0,
            before,
            changes: RssChanges { stretch_ns: STRETCH_NS, ..RssChanges::default() },
            refusal: None,
        }
    }

    /// Sees whether the last change has settled.
    fn look(&mut self, now_ns: u64) {
        if let Some(asked_ns) = self.asked_ns
            && self.card.core_without_rss(0).is_ok_and(|core| core.is_none())
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
        let rss = self.random.changed(rss, change);
        match self.card.set_rss(0, &rss) {
            Ok(()) => {
                self.changes.changes += 1;
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
        self.card.run_housekeeping();
        for balanced in self.card.balance() {
            self.asked_ns = Some(now_ns);
            let moved_entries = balanced.moved_entries.map(|count| count as u64);
            let at_ns = now_ns.saturating_sub(opened_ns);
            self.changes.answers.push(QueueReaction { at_ns, moved_entries });
        }
    }

    /// What each core did in the stretches that have ended: several, where this thread was away,
    /// and of what it finds behind that each has the same share.
    fn end_stretches(&mut self, count: u64, now: CardCounters) {
        let share = |sum: u64, at: u64| sum * (at + 1) / count - sum * at / count;
        self.changes.cpu_ns.resize_with(now.cores.len(), Vec::new);
        self.changes.frames.resize_with(now.cores.len(), Vec::new);
        let lists = self.changes.cpu_ns.iter_mut().zip(&mut self.changes.frames);
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

impl RssControl<'_> {
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

    /// Waits until all cores work: they follow RSS as it is.
    pub(super) fn settle(&self) -> Result<(), DeviceError> {
        let until = Instant::now() + STARTED;
        while let Some(core) = self.card.core_without_rss(0).map_err(broken)? {
            if Instant::now() > until {
                return Err(broken(format!("core {core} of the card does not run")));
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Carries the plan out in the measured part.
    pub(super) fn work(&mut self, opened_ns: u64, closed_ns: u64) {
        self.open(opened_ns);
        while self.clock.now_ns() < closed_ns {
            self.turn(opened_ns);
            thread::sleep(LOOK_EVERY);
        }
        self.changes.look_ns = self.clock.now_ns().saturating_sub(opened_ns) / self.looks.max(1);
    }

    /// Waits until the last change has settled.
    pub(super) fn await_last(&mut self) {
        let until = Instant::now() + SETTLE;
        while self.asked_ns.is_some() && Instant::now() < until {
            self.look(self.clock.now_ns());
            thread::yield_now();
        }
    }

    pub(super) fn end(self) -> RssPlanResult {
        let refusal = self.refusal.map(|refusal| format!("a change was refused: {refusal}"));
        let unsettled = self.asked_ns.map(|_| "the last change has not settled".to_owned());
        let settled = Some(self.settled).filter(|settled| !settled.0.is_empty());
        let reasons = refusal.into_iter().chain(unsettled).collect();
        RssPlanResult { seen: RssChanges { settled, ..self.changes }, reasons }
    }
}

/// What was done while the card worked, and why it is not to be trusted.
pub(super) struct RssPlanResult {
    seen: RssChanges,
    reasons: Vec<String>,
}

impl RssPlanResult {
    /// Adds it to what was seen of a card that has ended.
    pub(super) fn enter(self, seen: &mut LoadObservation, ended: &CardResult) {
        let held_drops = ended.counters.ports.iter().map(|port| port.held_drops).sum();
        seen.rss_changes = Some(RssChanges { held_drops, ..self.seen });
        seen.honesty.reasons.extend(self.reasons);
    }
}

/// What the card does by itself about a queue that fills.
pub(super) fn balance(plan: &Plan) -> Option<Balance> {
    let Plan::Rss(plan) = plan else { return None };
    let mut random = RandomRss::new(!plan.seed, 1, INDIRECTION_LEN);
    plan.answer.map(|answer| match answer {
        BalanceMode::Moves => Balance::Moves { save_cores: false },
        BalanceMode::SaveCores => Balance::Moves { save_cores: true },
        BalanceMode::Keys => Balance::Keys((0..KEYS).map(|_| random.key(0)).collect()),
    })
}

#[cfg(test)]
#[path = "rss_change_tests.rs"]
mod tests;
