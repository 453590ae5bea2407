//! Rules that change under a reader at full speed on another core: updates by rule id one by one,
//! in bulk and in transactions, and rules destroyed and created.
//!
//! What a rule does says which rule it is and which version of it, so that a reader that is shown
//! half of a change, another rule's action or none at all cannot take it for good: a queue is the
//! version and four bits that follow from rule and version. The peer of the reader's row is the
//! reader in slices without updates.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Rule};
use niclab_nic::{Nic, NicConfig, Operation, RuleError, RuleId, TemplateTable, Worker};
use niclab_pairing::{Pairs, alternate, pin};
use niclab_peer::Answer;

use crate::frames::Frames;
use crate::insert::{self, line, pattern, tuple};
use crate::keys::{indices, mix};
use crate::{Bench, BenchError, Figures, Measured, Slices};

/// Operations in a call of `Nic::run`.
const BULK: usize = 256;
/// Rules in the order in which they are changed, round and round.
const ORDER: usize = 1 << 18;
/// Versions of a rule.
const VERSIONS: usize = 16;

/// How rules are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleChangeKind {
    /// Updated in bulk.
    Bulk,
    /// Destroyed and created anew, in bulk; an operation is both.
    Renew,
    /// Updated one by one.
    Single,
    /// Updated in transactions of so many.
    Transaction(usize),
}

/// The rows of changes: how many a second, beside a reader.
pub fn changes(bench: &Bench, rules: u32, change: RuleChangeKind) -> Result<Measured, BenchError> {
    let Some(UpdateCounts { rates, reader, looked }) = beside(bench, rules, change)? else {
        return Ok(no_core(bench));
    };
    let kept = Figures::new(&reader).map_or(String::new(), |figures| {
        let (ours, ratio) = (figures.ours / 1e6, figures.ratio.median);
        format!("the reader: {ours:.1} M packets/s, {ratio:.2} of what it does alone; ")
    });
    let note = format!("{kept}0 of {looked} look-ups torn");
    Ok(Measured::of(Slices::Single(rates)).with(note))
}

/// The row of the reader: its packets beside updates in bulk, and without.
pub fn reader(bench: &Bench, rules: u32) -> Result<Measured, BenchError> {
    let Some(UpdateCounts { reader, looked, .. }) = beside(bench, rules, RuleChangeKind::Bulk)?
    else {
        return Ok(no_core(bench));
    };
    Ok(Measured::of(Slices::Paired(reader)).with(format!("0 of {looked} look-ups torn")))
}

fn no_core(bench: &Bench) -> Measured {
    Measured::of(Slices::NotSupported(format!("a second core beside core {}", bench.core)))
}

/// What both threads did.
struct UpdateCounts {
    /// Changes a second, one for each slice with them.
    rates: Vec<f64>,
    /// The reader's packets, with changes and without.
    reader: Pairs,
    looked: u64,
}

/// What the reader shows.
#[derive(Default)]
struct ReaderCounts {
    looked: AtomicU64,
    torn: AtomicU64,
    started: AtomicBool,
    nowhere: AtomicBool,
    done: AtomicBool,
}

/// Slices with changes and without in turn; `None` without a second core.
fn beside(
    bench: &Bench,
    rules: u32,
    change: RuleChangeKind,
) -> Result<Option<UpdateCounts>, BenchError> {
    let mut control = Control::new(rules, change)?;
    let reader = control.reader(if change == RuleChangeKind::Renew { rules / 2 } else { rules })?;
    let shown = ReaderCounts::default();
    let core = if bench.core == 0 { 1 } else { 0 };
    let measured = std::thread::scope(|scope| {
        let thread = scope.spawn(|| reader.run(core, &shown));
        while !shown.started.load(Relaxed) && !thread.is_finished() {
            std::thread::yield_now();
        }
        let measured = control.in_turn(bench, &shown);
        shown.done.store(true, Relaxed);
        measured
    });
    if shown.nowhere.load(Relaxed) {
        return Ok(None);
    }
    let (rates, reader) = measured?;
    let (looked, torn) = (shown.looked.load(Relaxed), shown.torn.load(Relaxed));
    match torn {
        0 => Ok(Some(UpdateCounts { rates, reader, looked })),
        torn => Err(BenchError::Torn { torn, looked }),
    }
}

/// The four bits of each version of a rule.
fn checks(rule: u32) -> u64 {
    mix(u64::from(rule))
}

/// The queue that says rule and version.
fn queue(checks: u64, version: usize) -> u16 {
    (version << 4) as u16 | (checks >> (4 * version) & 0xf) as u16
}

/// The thread that changes rules.
struct Control {
    nic: Nic,
    change: RuleChangeKind,
    rules: Vec<Live>,
    order: Vec<u32>,
    at: usize,
    actions: Vec<[Action; 1]>,
    table: TemplateTable,
}

struct Live {
    id: RuleId,
    checks: u64,
    version: u8,
}

impl Control {
    fn new(count: u32, change: RuleChangeKind) -> Result<Control, BenchError> {
        let mut nic = Nic::new(&NicConfig { queues: 256, seed: 42, ..NicConfig::default() })?;
        let actions: Vec<[Action; 1]> = (0..256).map(|queue| [Action::Queue(queue)]).collect();
        let rule = |number: u32| -> Result<Live, RuleError> {
            let checks = checks(number);
            let actions = &actions[usize::from(queue(checks, 0))];
            let pattern = pattern(number.into());
            let id = nic.create(&Rule { group: 0, priority: 0, pattern, actions })?;
            Ok(Live { id, checks, version: 0 })
        };
        let rules = (0..count).map(rule).collect::<Result<_, _>>()?;
        // Tables that have grown come to rest, as those of the other rows.
        while !nic.run_housekeeping(1 << 10) {}
        // The reader looks at the first half alone of rules that come and go.
        let first = if change == RuleChangeKind::Renew { count / 2 } else { 0 };
        let order = indices(u64::from(count - first)).take(ORDER);
        let order = order.map(|index| first + index as u32).collect();
        let table = insert::table(&mut nic, 0)?;
        Ok(Control { nic, change, rules, order, at: 0, actions, table })
    }

    /// A reader of the first `count` rules, each as often as any other.
    fn reader(&mut self, count: u32) -> Result<ClassifyingThread, BenchError> {
        let numbers: Vec<u32> = indices(count.into()).map(|n| n as u32).take(1 << 16).collect();
        let packets: Vec<_> = numbers.iter().map(|&n| tuple(n.into())).collect();
        let frames = Frames::new(&packets)?;
        let checks = numbers.into_iter().map(checks).collect();
        Ok(ClassifyingThread { worker: self.nic.worker(), frames, checks })
    }

    fn in_turn(
        &mut self,
        bench: &Bench,
        shown: &ReaderCounts,
    ) -> Result<(Vec<f64>, Pairs), BenchError> {
        let slice = Duration::from_millis(bench.slice_ms);
        let mut rates = Vec::new();
        let looked = |before: u64, start: Instant| Answer {
            ops: shown.looked.load(Relaxed) - before,
            ns: start.elapsed().as_nanos() as u64,
            rest: Vec::new(),
        };
        let with = || {
            let (before, start, mut changed) = (shown.looked.load(Relaxed), Instant::now(), 0);
            while start.elapsed() < slice {
                changed += self.step()?;
            }
            let answer = looked(before, start);
            rates.push(changed as f64 * 1e9 / answer.ns as f64);
            Ok::<_, BenchError>(answer)
        };
        let without = || {
            let (before, start) = (shown.looked.load(Relaxed), Instant::now());
            std::thread::sleep(slice);
            Ok(looked(before, start))
        };
        let pairs = alternate(bench.pairs, with, without)?;
        // The first warmed up.
        rates.remove(0);
        Ok((rates, pairs))
    }

    /// The next rules to change: at most so many.
    fn next(&mut self, count: usize) -> std::ops::Range<usize> {
        let start = self.at;
        let end = (start + count).min(self.order.len());
        self.at = end % self.order.len();
        start..end
    }

    /// A few changes; how many.
    fn step(&mut self) -> Result<u64, RuleError> {
        let size = if let RuleChangeKind::Transaction(size) = self.change { size } else { BULK };
        let range = self.next(size);
        let count = range.len() as u64;
        let (nic, rules, actions) = (&mut self.nic, &mut self.rules, &self.actions);
        let updates = self.order[range.clone()].iter().map(|&number| {
            let rule = &mut rules[number as usize];
            rule.version = (rule.version + 1) % VERSIONS as u8;
            let queue = queue(rule.checks, rule.version.into());
            (rule.id, &actions[usize::from(queue)][..])
        });
        match self.change {
            RuleChangeKind::Bulk => {
                let operations: Vec<Operation<'_>> =
                    updates.map(|(id, actions)| Operation::Update(id, actions)).collect();
                let mut refused = Ok(());
                nic.run(&operations, |result| {
                    if let Err(error) = result {
                        refused = Err(error);
                    }
                });
                refused?;
            }
            RuleChangeKind::Renew => return self.renew(range),
            RuleChangeKind::Single => {
                for (id, actions) in updates {
                    nic.update(id, actions)?;
                }
            }
            RuleChangeKind::Transaction(_) => {
                let mut transaction = nic.transaction();
                for (id, actions) in updates {
                    transaction.update(id, actions)?;
                }
                transaction.commit()?;
            }
        }
        Ok(count)
    }

    /// Destroys rules and creates them anew. One that is drawn twice is renewed once.
    fn renew(&mut self, range: std::ops::Range<usize>) -> Result<u64, RuleError> {
        let mut numbers = self.order[range].to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let destroy = |&number: &u32| Operation::Destroy(self.rules[number as usize].id);
        let mut operations: Vec<Operation<'_>> = Vec::with_capacity(2 * numbers.len());
        operations.extend(numbers.iter().map(destroy));
        for &number in &numbers {
            let queue = queue(self.rules[number as usize].checks, 0);
            let rule = self.table.rule(&line(number.into()), &[queue.into()])?;
            operations.push(Operation::CreateIn(rule));
        }
        let mut results = Vec::with_capacity(operations.len());
        self.nic.run(&operations, |result| results.push(result));
        let created = results.split_off(numbers.len());
        results.into_iter().collect::<Result<Vec<_>, _>>()?;
        for (&number, id) in numbers.iter().zip(created) {
            self.rules[number as usize].id = id?;
        }
        Ok(numbers.len() as u64)
    }
}

/// The thread that classifies.
struct ClassifyingThread {
    worker: Worker,
    frames: Frames,
    /// Of each frame's rule.
    checks: Vec<u64>,
}

impl ClassifyingThread {
    fn run(mut self, core: usize, shown: &ReaderCounts) {
        if pin(core).is_err() {
            shown.nowhere.store(true, Relaxed);
            return;
        }
        shown.started.store(true, Relaxed);
        let (mut looked, mut at) = (0, 0);
        while !shown.done.load(Relaxed) {
            let (region, burst) = self.frames.burst();
            let dropped = self.worker.classify(region, burst);
            let checks = &self.checks[at..at + BURST];
            at = (at + BURST) % self.checks.len();
            let fits = |(desc, &checks): (&niclab_nic::memory::Desc, &u64)| {
                desc.queue == queue(checks, usize::from(desc.queue >> 4))
            };
            let fit = burst.iter().zip(checks).filter(|&pair| fits(pair)).count();
            if dropped != 0 || fit != BURST {
                shown.torn.fetch_add((BURST - fit).max(1) as u64, Relaxed);
            }
            looked += BURST as u64;
            shown.looked.store(looked, Relaxed);
        }
        self.worker.offline();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        Bench { core: 0, pairs: 6, slice_ms: 5, ..Bench::default() }
    }

    #[test]
    fn a_queue_says_its_rule_and_version() {
        let fits = |checks, queue: u16| self::queue(checks, usize::from(queue >> 4)) == queue;
        let of_another = (1..1000).filter(|&rule| fits(checks(rule), queue(checks(0), 3))).count();
        assert!((40..90).contains(&of_another), "one in 16: {of_another}");
        let versions: std::collections::HashSet<u16> =
            (0..VERSIONS).map(|version| queue(checks(7), version)).collect();
        assert_eq!(versions.len(), VERSIONS);
        assert!(versions.iter().all(|&queue| fits(checks(7), queue)));
        let mixed = (queue(checks(7), 3) & 0xf0) | (queue(checks(7), 4) & 0xf);
        assert!(!fits(checks(7), mixed), "half of one version and half of the next");
    }

    #[test]
    fn each_way_of_changing_rules_gives_its_slices() {
        let kinds = [
            RuleChangeKind::Bulk,
            RuleChangeKind::Renew,
            RuleChangeKind::Single,
            RuleChangeKind::Transaction(64),
        ];
        for change in kinds {
            match changes(&bench(), 1_000, change).unwrap().slices {
                Slices::Single(rates) => {
                    assert!(rates.len() == 6 && rates.iter().all(|&rate| rate > 0.0), "{change:?}");
                }
                Slices::NotSupported(why) => {
                    println!("SKIP each_way_of_changing_rules_gives_its_slices: {why}");
                }
                other => panic!("{change:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_a_reader_should_not_see_fails_the_row() {
        let mut control = Control::new(100, RuleChangeKind::Bulk).unwrap();
        let reader = control.reader(100).unwrap();
        let wrong = control.rules[7].id;
        control.rules[8].id = wrong;
        let shown = ReaderCounts::default();
        let seen = std::thread::scope(|scope| {
            let thread = scope.spawn(|| reader.run(0, &shown));
            let measured = control.in_turn(&bench(), &shown);
            shown.done.store(true, Relaxed);
            thread.join().unwrap();
            measured
        });
        assert!(seen.is_ok() && shown.torn.load(Relaxed) > 0);
    }
}
