//! Rules that change in place, a call a rule, beside the same rules destroyed and created, while a
//! reader on another core looks up the rules that change in place.
//!
//! A rule changes what it matches (values), how many bits of it (mask) or its priority, forth and
//! back. The reader knows what it is to find at any instant: of two packets for the old and the new
//! values exactly one has the rule, and in one burst; with another mask or priority a packet has
//! its rule at all times. Packets without a rule are dropped.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, RuleError, RuleId, Worker};
use niclab_pairing::{alternate, pin, slice};
use niclab_peer::Answer;

use crate::frames::Frames;
use crate::insert::{pattern, tuple};
use crate::keys::indices;
use crate::{Bench, BenchError, Measured, Slices};

/// Rules that are changed in a slice's step.
const STEP: usize = 64;
/// The queues of 256 rules that follow each other.
const QUEUES: u64 = 256;

/// The part of a rule that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modified {
    /// The values that a rule matches.
    Values,
    /// The source port counts, or it does not.
    Mask,
    /// The priority is 0 or 1.
    Priority,
}

/// The rows: changes a second in place, beside destroy and create.
pub fn modify(bench: &Bench, rules: u64, modified: Modified) -> Result<Measured, BenchError> {
    // The first half changes in place, the second half comes and goes.
    let half = rules / 2;
    let mut changed = Changed::new(rules, modified)?;
    let reader = Reading::new(&mut changed.nic, half, modified)?;
    let shown = Shown::default();
    let core = if bench.core == 0 { 1 } else { 0 };
    let [mut first, mut second] = [0, half].map(|first| Order::new(first, half));
    let pairs = std::thread::scope(|scope| {
        let thread = scope.spawn(|| reader.run(core, &shown));
        while !shown.started.load(Relaxed) && !thread.is_finished() {
            std::thread::yield_now();
        }
        let changed = RefCell::new(&mut changed);
        let pairs = alternate(
            bench.pairs,
            || in_steps(bench.slice_ms, || changed.borrow_mut().in_place(first.next())),
            || in_steps(bench.slice_ms, || changed.borrow_mut().anew(second.next())),
        );
        shown.done.store(true, Relaxed);
        pairs
    })?;
    let (looked, torn) = (shown.looked.load(Relaxed), shown.torn.load(Relaxed));
    match (looked, torn) {
        (_, 1..) => Err(BenchError::Torn { torn, looked }),
        (0, 0) => {
            Ok(Measured::of(Slices::Paired(pairs)).with("no second core: no reader".to_owned()))
        }
        _ => {
            let note = format!("0 of {looked} look-ups torn");
            Ok(Measured::of(Slices::Paired(pairs)).with(note))
        }
    }
}

/// Steps for a slice; the first that is refused ends them.
fn in_steps(
    slice_ms: u64,
    mut step: impl FnMut() -> Result<(), RuleError>,
) -> Result<Answer, BenchError> {
    let mut refused = Ok(());
    let answer = slice(slice_ms, || {
        for _ in 0..STEP {
            if let (Ok(()), Err(error)) = (&refused, step()) {
                refused = Err(error);
            }
        }
        STEP as u64
    });
    refused?;
    Ok(answer)
}

/// Numbers of rules in a random order, round and round.
struct Order {
    first: u64,
    numbers: Vec<u64>,
    at: usize,
}

impl Order {
    fn new(first: u64, count: u64) -> Order {
        let mut seen = vec![false; count as usize];
        let is_new = |number: &u64| !std::mem::replace(&mut seen[*number as usize], true);
        let numbers = indices(count).take(64 * count as usize).filter(is_new).collect();
        Order { first, numbers, at: 0 }
    }

    fn next(&mut self) -> u64 {
        let number = self.first + self.numbers[self.at];
        self.at = (self.at + 1) % self.numbers.len();
        number
    }
}

/// The thread that changes rules.
struct Changed {
    nic: Nic,
    rules: u64,
    modified: Modified,
    /// The rule of each number, and whether it is as it was at first.
    live: Vec<(RuleId, bool)>,
    actions: Vec<[Action; 1]>,
}

impl Changed {
    fn new(rules: u64, modified: Modified) -> Result<Changed, BenchError> {
        let mut nic =
            Nic::new(&NicConfig { queues: QUEUES as u16, seed: 42, ..NicConfig::default() })?;
        nic.isolate(true)?;
        let actions = (0..QUEUES as u16).map(|queue| [Action::Queue(queue)]).collect();
        let mut changed = Changed { nic, rules, modified, live: Vec::new(), actions };
        for number in 0..rules {
            let id = changed.create(number, true)?;
            changed.live.push((id, true));
        }
        // Rules of the other mask are there before the first change.
        let last = changed.in_place_as(rules - 1, false);
        last.and_then(|()| changed.in_place_as(rules - 1, true))?;
        while !changed.nic.run_housekeeping(1 << 10) {}
        Ok(changed)
    }

    fn pattern(&self, number: u64, is_first: bool) -> (Pattern, u32) {
        match (self.modified, is_first) {
            (Modified::Values, false) => (pattern(number + self.rules), 0),
            (Modified::Mask, false) => (wider(number), 0),
            (Modified::Priority, false) => (pattern(number), 1),
            (_, true) => (pattern(number), 0),
        }
    }

    fn create(&mut self, number: u64, is_first: bool) -> Result<RuleId, RuleError> {
        let (pattern, priority) = self.pattern(number, is_first);
        let actions = &self.actions[(number % QUEUES) as usize];
        self.nic.create(&Rule { group: 0, priority, pattern, actions })
    }

    fn in_place_as(&mut self, number: u64, is_first: bool) -> Result<(), RuleError> {
        let (pattern, priority) = self.pattern(number, is_first);
        let actions = &self.actions[(number % QUEUES) as usize];
        let id = self.live[number as usize].0;
        self.nic.modify(id, &Rule { group: 0, priority, pattern, actions })
    }

    fn in_place(&mut self, number: u64) -> Result<(), RuleError> {
        let is_first = !self.live[number as usize].1;
        self.in_place_as(number, is_first)?;
        self.live[number as usize].1 = is_first;
        Ok(())
    }

    fn anew(&mut self, number: u64) -> Result<(), RuleError> {
        let (id, was_first) = self.live[number as usize];
        self.nic.destroy(id)?;
        self.live[number as usize] = (self.create(number, !was_first)?, !was_first);
        Ok(())
    }
}

/// The pattern of a number without its source port.
fn wider(number: u64) -> Pattern {
    let [src, dst, _, dport, _] = tuple(number);
    let address = |bits: u32| Ipv4Addr::from_bits(bits).into();
    Pattern::any().src(address(src)).dst(address(dst)).udp().dport(dport as u16)
}

/// Counts of the reader, which the other thread reads.
#[derive(Default)]
struct Shown {
    looked: AtomicU64,
    torn: AtomicU64,
    started: AtomicBool,
    done: AtomicBool,
}

/// The thread that looks up the rules that change in place.
struct Reading {
    worker: Worker,
    frames: Frames,
    /// The queue of the rule of each frame.
    queues: Vec<u16>,
    modified: Modified,
}

impl Reading {
    fn new(nic: &mut Nic, half: u64, modified: Modified) -> Result<Reading, BenchError> {
        let numbers: Vec<u64> = indices(half).take(1 << 15).collect();
        let other = |number: u64| match modified {
            Modified::Values => number + 2 * half,
            Modified::Mask | Modified::Priority => number,
        };
        let both = numbers.iter().flat_map(|&number| [tuple(number), tuple(other(number))]);
        let frames = Frames::new(&both.collect::<Vec<_>>())?;
        let queues = numbers.iter().flat_map(|number| [(number % QUEUES) as u16; 2]).collect();
        Ok(Reading { worker: nic.worker(), frames, queues, modified })
    }

    fn run(mut self, core: usize, shown: &Shown) {
        if pin(core).is_err() {
            self.worker.offline();
            return;
        }
        shown.started.store(true, Relaxed);
        let (mut looked, mut at) = (0, 0);
        while !shown.done.load(Relaxed) {
            let (region, burst) = self.frames.burst();
            let dropped = self.worker.classify(region, burst);
            let queues = &self.queues[at..at + BURST];
            at = (at + BURST) % self.queues.len();
            let fits = |at: usize| dropped >> at & 1 == 1 || burst[at].queue == queues[at];
            let torn = match self.modified {
                Modified::Values => {
                    // Exactly one of two neighbours.
                    let both = dropped ^ dropped >> 1;
                    (!both & 0x5555_5555_5555_5555).count_ones()
                }
                Modified::Mask | Modified::Priority => dropped.count_ones(),
            };
            let torn = torn as usize + (0..BURST).filter(|at| !fits(*at)).count();
            shown.torn.fetch_add(torn as u64, Relaxed);
            looked += BURST as u64;
            shown.looked.store(looked, Relaxed);
        }
        self.worker.offline();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_change_in_place_and_the_reader_finds_each_at_all_times() {
        let bench = Bench { core: 0, pairs: 4, slice_ms: 5, ..Bench::default() };
        for modified in [Modified::Values, Modified::Mask, Modified::Priority] {
            let Slices::Paired(pairs) = modify(&bench, 1_000, modified).unwrap().slices else {
                panic!("{modified:?}");
            };
            assert!(pairs.ours.iter().chain(&pairs.theirs).all(|rate| *rate > 0.0), "{modified:?}");
        }
    }

    #[test]
    fn a_reader_that_finds_neither_rule_fails_the_row() {
        let mut changed = Changed::new(1_000, Modified::Values).unwrap();
        let reader = Reading::new(&mut changed.nic, 500, Modified::Values).unwrap();
        let shown = Shown::default();
        changed.nic.destroy(changed.live[7].0).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| reader.run(0, &shown));
            while shown.looked.load(Relaxed) < 100_000 && !thread.is_finished() {
                std::thread::yield_now();
            }
            shown.done.store(true, Relaxed);
        });
        assert!(shown.torn.load(Relaxed) > 0);
    }
}
