//! The software NIC on several cores under memory wires, as `niclab nic` runs it: the card, with
//! lanes whose other ends are the generator's and the sink's.
//!
//! There is a wire for each core. A flow keeps to one of them, which its addresses and ports pick
//! and no hash of the card's: nobody sorts frames beforehand. Their order is that in which the
//! card let them leave, whatever wire that was by ([`niclab_port::memory`]).
//!
//! Its cores sleep while nothing comes, so that their processor time tells what was to be done.
//! Where the process has no core left for the tester, that shares one with the card, and looks for
//! frames some thousand times a second: latency then tells of that as well, and a reason says so.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use niclab_card::{Balance, Card, CardConfig, Counters, Opens, PortError, Receive};
use niclab_load::clock::Clock;
use niclab_load::lane::{BURST, Inlet, Outlet, Window};
use niclab_load::{Latency, Load, Observation, QueueReaction, Respread, drive};
use niclab_nic::limits::INDIRECTION_LEN;
use niclab_nic::memory::{Desc, Region};
use niclab_nic::rss::{HashFunction, HashTypes, Rss, evenly};
use niclab_port::lane::Lane;
use niclab_port::memory::{FarLane, lanes};
use niclab_port::wire::Burst;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::clocked::enter;
use super::{WIRE_DEPTH, bad_load, broken};
use crate::cores::Pinned;
use crate::face::DeviceError;
use crate::pair::count_late;
use crate::plan::{Answering, Respreading, SpreadPlan};

/// How often a tester looks for frames that shares its core.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// How long cores are looked at at a time, nanoseconds.
const STRETCH_NS: u64 = 10_000_000;

/// How often the card decides about its spread, as `niclab nic` does, nanoseconds.
const BALANCE_EVERY_NS: u64 = 100_000_000;

/// How long a change may take to settle behind the end of a trial, and a frame to come back.
const SETTLE: Duration = Duration::from_secs(2);

/// Keys that a card tries which balances by them.
const KEYS: usize = 8;

/// Bytes of a key.
const KEY_LEN: usize = 40;

/// The card's ends of the wires, until it opens them.
#[derive(Clone)]
struct Wires {
    frame_len: usize,
    /// The other ends, once they are open.
    far: Arc<Mutex<Vec<FarLane>>>,
}

impl fmt::Display for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory wires")
    }
}

impl Opens for Wires {
    fn lane_frames(&self) -> usize {
        // What waits for the sink, and what it has looked at.
        3 * WIRE_DEPTH as usize
    }

    fn open(&self, count: u32, region: &Arc<Region>) -> Result<Vec<Box<dyn Lane>>, PortError> {
        let made = lanes(count, WIRE_DEPTH as usize, self.frame_len, region);
        let made = made.map_err(|source| PortError::System {
            what: "make",
            name: self.to_string(),
            source,
        })?;
        let mut far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let boxed = |(other, lane)| -> Box<dyn Lane> {
            far.push(other);
            Box::new(lane)
        };
        Ok(made.into_iter().map(boxed).collect())
    }

    fn comes_back(&self) -> bool {
        false
    }
}

/// The far ends of all wires, which the generator and the sink of one thread share.
type Far = Rc<RefCell<Vec<FarLane>>>;

/// Towards the card.
struct Out {
    far: Far,
    /// Frames of the next burst, in memory of its own until their wires are known.
    frames: Vec<u8>,
    frame_len: usize,
    burst: Burst,
}

impl Outlet for Out {
    fn frame_len_max(&self) -> u16 {
        self.frame_len as u16
    }

    fn reserve(&mut self, want: usize) -> usize {
        // Whether there is room hangs on the wire, and that on the frame: `commit` knows.
        want.min(BURST)
    }

    fn slot(&mut self, i: usize) -> &mut [u8] {
        &mut self.frames[i * self.frame_len..(i + 1) * self.frame_len]
    }

    fn commit(&mut self, lens: &[u16]) -> usize {
        let mut far = self.far.borrow_mut();
        let wires = far.len();
        let frames = self.frames.chunks_exact(self.frame_len).zip(lens);
        let frames = frames.map(|(frame, len)| &frame[..usize::from(*len)]);
        let mut sent = 0;
        for (wire, lane) in far.iter_mut().enumerate() {
            let region = Arc::clone(lane.far.region());
            let own = frames.clone().filter(|frame| wire_of(frame, wires) == wire);
            // Those that find their wire full are missed, whatever room others have.
            lane.far.reserve(own.clone().count(), &mut self.burst);
            for (desc, frame) in self.burst.iter_mut().zip(own) {
                region.slot_mut(desc)[..frame.len()].copy_from_slice(frame);
                region.set_len(desc, frame.len() as u16);
            }
            sent += lane.send(&mut self.burst);
        }
        sent
    }
}

/// The wire of a frame: by the bytes of its network and transport addresses, without any hash.
fn wire_of(frame: &[u8], wires: usize) -> usize {
    let addresses = match frame.get(12..14) {
        Some([0x86, 0xdd]) => frame.get(22..58),
        _ => frame.get(26..38),
    };
    let sum: usize = addresses.unwrap_or_default().iter().map(|byte| usize::from(*byte)).sum();
    sum % wires.max(1)
}

/// From the card.
struct In {
    far: Far,
    region: Arc<Region>,
    /// By wire: frames that are there, in the order of their numbers.
    waiting: Vec<Burst>,
    /// The number that left next.
    next: u32,
    /// Frames that are looked at, and their wires.
    taken: Vec<(usize, Desc)>,
    done: Burst,
}

impl Inlet for In {
    fn poll(&mut self) -> usize {
        let mut far = self.far.borrow_mut();
        for (lane, waiting) in far.iter_mut().zip(&mut self.waiting) {
            lane.receive(waiting);
        }
        while self.taken.len() < BURST {
            let is_next = |waiting: &Burst| waiting.first().is_some_and(|d| d.hash == self.next);
            let Some(wire) = self.waiting.iter().position(is_next) else { break };
            self.taken.push((wire, self.waiting[wire].remove(0)));
            self.next = self.next.wrapping_add(1);
        }
        self.taken.len()
    }

    fn frame(&self, i: usize) -> &[u8] {
        self.region.frame(&self.taken[i].1)
    }

    fn release(&mut self) {
        for (wire, lane) in self.far.borrow_mut().iter_mut().enumerate() {
            let of = self.taken.extract_if(.., |(of, _)| *of == wire);
            self.done.extend(of.map(|(_, desc)| desc));
            lane.release(&mut self.done);
        }
    }
}

/// From the card when nothing is offered any more: a poll finds less than a burst only where no
/// more is under way, however long others have a core that would send it back.
struct Last<'a> {
    back: &'a mut In,
    card: &'a Card,
    /// Frames that the sink has not had yet, those that the card dropped included.
    missing: u64,
    until: Instant,
}

impl Last<'_> {
    fn is_under_way(&self) -> bool {
        let of = |port: &niclab_card::PortCounters| {
            let missed: u64 = port.queues.iter().map(|queue| queue.rx_missed).sum();
            missed + port.held_drops + port.rule_drops + port.tx_dropped
        };
        let dropped: u64 = self.card.counters().ports.iter().map(of).sum();
        self.missing > dropped + self.back.taken.len() as u64 && Instant::now() < self.until
    }
}

impl Inlet for Last<'_> {
    fn poll(&mut self) -> usize {
        loop {
            let found = self.back.poll();
            if found == BURST || !self.is_under_way() {
                self.missing = self.missing.saturating_sub(found as u64);
                return found;
            }
            thread::yield_now();
        }
    }

    fn frame(&self, i: usize) -> &[u8] {
        self.back.frame(i)
    }

    fn release(&mut self) {
        self.back.release();
    }
}

/// What the control side does in the tester's thread: changes, answers, and a look at the cores.
struct Beside {
    card: Card,
    plan: SpreadPlan,
    clock: Clock,
    /// The tester has no core of its own.
    shares: bool,
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
    fn new(card: Card, plan: SpreadPlan, shares: bool) -> Beside {
        let before = card.counters();
        Beside {
            card,
            plan,
            clock: Clock::new(),
            shares,
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

    /// What each core did in the stretches that have ended: several, where the tester was away, and
    /// of what it finds behind that each has the same share.
    fn end_stretches(&mut self, count: u64, now: Counters) {
        let share = |sum: u64, at: u64| sum * (at + 1) / count - sum * at / count;
        self.seen.cpu_ns.resize_with(now.cores.len(), Vec::new);
        self.seen.frames.resize_with(now.cores.len(), Vec::new);
        let lists = self.seen.cpu_ns.iter_mut().zip(&mut self.seen.frames);
        for ((cpu_ns, frames), (now, before)) in lists.zip(now.cores.iter().zip(&self.before.cores))
        {
            let ran_ns = now.cpu_ns.saturating_sub(before.cpu_ns);
            let dealt_with = now.frames.saturating_sub(before.frames);
            cpu_ns.extend((0..count).map(|at| share(ran_ns, at)));
            frames.extend((0..count).map(|at| share(dealt_with, at)));
        }
        self.before = now;
    }
}

impl Window for Beside {
    fn opened(&mut self, at_ns: u64) {
        self.before = self.card.counters();
        self.opened_ns = Some(at_ns);
        (self.change_ns, self.stretch_ns) = (at_ns, at_ns + STRETCH_NS);
        self.balance_ns = at_ns + BALANCE_EVERY_NS;
    }

    fn turn(&mut self) -> u64 {
        let begun_ns = self.clock.now_ns();
        if let Some(opened_ns) = self.opened_ns {
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
        let worked_ns = self.clock.now_ns().saturating_sub(begun_ns);
        if !self.shares {
            return worked_ns;
        }
        thread::sleep(LOOK_EVERY);
        // Who wakes later than that was kept from looking: that is a stall.
        worked_ns + LOOK_EVERY.as_nanos() as u64
    }

    fn closed(&mut self) {
        let Some(opened_ns) = self.opened_ns.take() else { return };
        self.seen.look_ns = self.clock.now_ns().saturating_sub(opened_ns) / self.looks.max(1);
    }
}

impl Beside {
    /// Ends the card, behind its last change, and adds to what the tester saw what it counted.
    fn end(
        mut self,
        driven: Result<Observation, DeviceError>,
        back: &mut In,
    ) -> Result<Observation, DeviceError> {
        let until = Instant::now() + SETTLE;
        while self.asked_ns.is_some() && Instant::now() < until {
            self.look(self.clock.now_ns());
            thread::yield_now();
        }
        let driven = driven.map(|mut seen| {
            let offered = seen.generator.total().tx_frames - seen.generator.rx_missed;
            let missing = offered.saturating_sub(seen.sink.total().rx_frames);
            let (card, until) = (&self.card, Instant::now() + SETTLE);
            count_late(&mut seen, &mut Last { back, card, missing, until });
            seen
        });
        while back.poll() > 0 {
            back.release();
        }
        let is_settled = self.asked_ns.is_none();
        let ended = self.card.end();
        let mut seen = driven?;
        let queues = ended.counters.ports.first().map_or(0, |port| port.queues.len() as u16);
        enter(&mut seen, &ended, &(0..queues).map(|queue| (0, queue)).collect::<Vec<_>>());
        let reasons = &mut seen.honesty.reasons;
        if self.shares {
            reasons
                .push("the tester shares a core with the card: latency tells of both".to_owned());
        }
        reasons.extend(self.refusal.map(|refusal| format!("a change was refused: {refusal}")));
        reasons.extend((!is_settled).then(|| "the last change has not settled".to_owned()));
        let held_drops = ended.counters.ports.iter().map(|port| port.held_drops).sum();
        let settled = Some(self.settled).filter(|settled| !settled.0.is_empty());
        seen.respread = Some(Respread { settled, held_drops, ..self.seen });
        Ok(seen)
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

/// Offers a load to a card on these cores.
pub(super) fn run(
    (load, plan): (&Load, SpreadPlan),
    (queues, frame_len): (u16, u16),
    (cores, tester): (Vec<u32>, Option<u32>),
) -> Result<Observation, DeviceError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(!plan.seed);
    let balance = plan.answer.map(|answer| match answer {
        Answering::Moves => Balance::Moves { save_cores: false },
        Answering::SaveCores => Balance::Moves { save_cores: true },
        Answering::Keys => Balance::Keys((0..KEYS).map(|_| key(&mut random)).collect()),
    });
    let wires = Wires { frame_len: frame_len.into(), far: Arc::default() };
    let (count, work_ns) = (cores.len(), plan.work_ns);
    let config = CardConfig {
        receive: Receive::Interrupt,
        balance,
        work_ns,
        ..CardConfig::new(vec![wires.clone()], queues, cores)
    };
    let card = Card::start(&config, "").map_err(broken)?;
    let far = std::mem::take(&mut *wires.far.lock().unwrap_or_else(PoisonError::into_inner));
    let far = Rc::new(RefCell::new(far));
    let mut out = Out {
        far: Rc::clone(&far),
        frames: vec![0; BURST * usize::from(frame_len)],
        frame_len: frame_len.into(),
        burst: Burst::new(),
    };
    let mut back = In {
        far,
        region: Arc::clone(card.region()),
        waiting: (0..count).map(|_| Burst::new()).collect(),
        next: 0,
        taken: Vec::with_capacity(BURST),
        done: Burst::new(),
    };
    let mut beside = Beside::new(card, plan, tester.is_none());
    let _pinned = tester.map(Pinned::to);
    let driven = drive(load, WIRE_DEPTH, &mut out, &mut back, &mut beside).map_err(bad_load);
    beside.end(driven, &mut back)
}

#[cfg(test)]
#[path = "carded_tests.rs"]
mod tests;
