//! Forwarding while the same core changes rules: a few operations between two bursts.
//!
//! The core classifies bursts of frames and swaps their addresses, as the function `forward` does.
//! All packets jump from group 0 to group 1 and find one of [`STANDING`] rules there. The peer is
//! the same core without the operations.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use niclab_apps::forward::swap_macs;
use niclab_nic::limits::BURST;
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{Nic, NicConfig, Operation, RuleError, RuleId, TemplateTable, Worker};
use niclab_pairing::alternate;
use niclab_peer::Answer;

use crate::frames::Frames;
use crate::insert::{self, line, pattern, tuple};
use crate::keys::indices;
use crate::{Bench, BenchError, Measured, Slices};

/// Rules that packets find.
pub const STANDING: u32 = 65_536;
/// Operations between two bursts.
const OPERATIONS: usize = 32;
/// Rules that come and go, at any time.
const PASSING: u64 = 16_384;
/// Packets that go round.
const PACKETS: usize = 1 << 16;
/// Slices of 10 ms in a run with a batch, or without.
const SLICES: usize = 10;
const SLICE_NS: u64 = 10_000_000;
/// Descriptors of the wire's ring.
const DEPTH: u64 = 1_024;
const ACTIONS: [Action; 1] = [Action::Queue(0)];

/// The row: `rate` rules a second are created and as many destroyed, the oldest first.
pub fn insert(bench: &Bench, standing: u32, rate: f64) -> Result<Measured, BenchError> {
    let core = std::cell::RefCell::new(Core::new(standing)?);
    core.borrow_mut().pass(PASSING)?;
    let (mut inserted, mut spent_ns) = (0, 0);
    let with = || {
        let (answer, count) = core.borrow_mut().inserting(bench.slice_ms, rate)?;
        (inserted, spent_ns) = (inserted + count, spent_ns + answer.ns);
        Ok::<_, BenchError>(answer)
    };
    let without = || Ok(core.borrow_mut().inserting(bench.slice_ms, 0.0)?.0);
    let pairs = alternate(bench.pairs, with, without)?;
    let reached = inserted as f64 * 1e9 / spent_ns as f64;
    let measured = Measured::of(Slices::Paired(pairs));
    Ok(measured.with(format!("{:.0} k rules/s came, as many went", reached / 1e3)))
}

/// The row of batches: `count` rules into `group`, 32 operations between two bursts where no
/// whole burst waits, while packets come at half the rate that the core can take; the ring of
/// 1,024 descriptors keeps those that have to wait.
pub fn batch(bench: &Bench, standing: u32, group: u32, count: u64) -> Result<Measured, BenchError> {
    let core = std::cell::RefCell::new(Core::new(standing)?);
    let full = core.borrow_mut().inserting(bench.slice_ms, 0.0)?;
    let rate = full.0.rate() / 2.0;
    let mut seen = BatchSlices::default();
    let with = || {
        let mut core = core.borrow_mut();
        let slices = core.offered(rate, group, count)?;
        seen.add(&slices, core.left(count));
        core.clear()?;
        Ok::<_, BenchError>(total(&slices))
    };
    let without = || Ok(total(&core.borrow_mut().offered(rate, group, 0)?));
    let pairs = alternate(bench.pairs, with, without)?;
    let mut measured = Measured::of(Slices::Paired(pairs)).with(seen.to_string());
    measured.broken = seen.is_broken();
    Ok(measured)
}

fn total(slices: &[Slice]) -> Answer {
    let ops = slices.iter().map(|slice| slice.forwarded).sum();
    Answer { ops, ns: slices.len() as u64 * SLICE_NS, rest: Vec::new() }
}

/// 10 ms of a run.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    forwarded: u64,
    lost: u64,
    /// Something kept the core for longer than the ring covers: anything between operations, and
    /// within, where the kernel says so, the machine.
    disturbed: bool,
}

/// All slices with a batch.
#[derive(Debug, Default)]
struct BatchSlices {
    slices: usize,
    undisturbed: usize,
    losing: usize,
    zero: usize,
    /// Runs that ended before the batch.
    unfinished: usize,
}

impl BatchSlices {
    fn add(&mut self, slices: &[Slice], left: u64) {
        self.slices += slices.len();
        let undisturbed = slices.iter().filter(|slice| !slice.disturbed);
        self.undisturbed += undisturbed.clone().count();
        self.losing += undisturbed.clone().filter(|slice| slice.lost > 0).count();
        self.zero += undisturbed.filter(|slice| slice.forwarded == 0).count();
        self.unfinished += usize::from(left > 0);
    }
}

impl BatchSlices {
    /// Whether packets were lost, or too few slices were undisturbed to say that none were.
    fn is_broken(&self) -> bool {
        self.losing + self.zero + self.unfinished > 0 || 2 * self.undisturbed < self.slices
    }
}

impl std::fmt::Display for BatchSlices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BatchSlices { slices, undisturbed, losing, zero, unfinished } = self;
        write!(f, "{undisturbed} of {slices} slices of 10 ms undisturbed; of them {losing} lost ")?;
        write!(f, "packets, {zero} at zero; {unfinished} runs ended before the batch")
    }
}

/// A card, its packets, and the rules that come and go.
struct Core {
    nic: Nic,
    /// Of the groups 0 and 1.
    tables: [TemplateTable; 2],
    worker: Worker,
    frames: Frames,
    passing: VecDeque<RuleId>,
    next: u64,
    /// Room for operations.
    operations: Vec<Operation<'static>>,
}

impl Core {
    fn new(standing: u32) -> Result<Core, BenchError> {
        let mut nic = Nic::new(&NicConfig { seed: 42, ..NicConfig::default() })?;
        let jump = [Action::Jump(1)];
        let all = Rule { group: 0, priority: 1, pattern: Pattern::any(), actions: &jump };
        nic.create(&all)?;
        for index in 0..u64::from(standing) {
            nic.create(&rule(1, index))?;
        }
        let packets: Vec<_> = indices(standing.into()).take(PACKETS).map(tuple).collect();
        let (worker, frames) = (nic.worker(), Frames::new(&packets)?);
        let tables = [insert::table(&mut nic, 0)?, insert::table(&mut nic, 1)?];
        Ok(Core {
            nic,
            tables,
            worker,
            frames,
            passing: VecDeque::new(),
            next: u64::from(standing),
            operations: Vec::new(),
        })
    }

    /// Creates the first rules that pass.
    fn pass(&mut self, count: u64) -> Result<(), RuleError> {
        for _ in 0..count {
            let id = self.nic.create(&rule(1, self.next))?;
            self.passing.push_back(id);
            self.next += 1;
        }
        Ok(())
    }

    /// Classifies and forwards the first `count` frames of the next burst.
    fn forward(&mut self, count: usize) {
        let (region, burst) = self.frames.burst();
        let burst = &mut burst[..count];
        self.worker.classify(region, burst);
        burst.iter_mut().for_each(|desc| swap_macs(region.frame_mut(desc)));
    }

    /// A slice at full speed; also how many rules came.
    fn inserting(&mut self, slice_ms: u64, rate: f64) -> Result<(Answer, u64), RuleError> {
        let (start, mut frames, mut came) = (Instant::now(), 0, 0);
        loop {
            self.forward(BURST);
            frames += BURST as u64;
            let ns = start.elapsed().as_nanos() as u64;
            if ns >= slice_ms * 1_000_000 {
                return Ok((Answer { ops: frames, ns, rest: Vec::new() }, came));
            }
            if ns as f64 * rate / 1e9 >= (came + OPERATIONS as u64 / 2) as f64 {
                came += self.renew()?;
            }
        }
    }

    /// As many rules go as come.
    fn renew(&mut self) -> Result<u64, RuleError> {
        let count = OPERATIONS / 2;
        let mut operations = std::mem::take(&mut self.operations);
        operations.extend(self.passing.drain(..count).map(Operation::Destroy));
        self.add_new(1, count, &mut operations)?;
        self.run(operations)?;
        Ok(count as u64)
    }

    /// The next rules of a group, to be created.
    fn add_new(
        &mut self,
        group: u32,
        count: usize,
        operations: &mut Vec<Operation<'static>>,
    ) -> Result<(), RuleError> {
        let table = &self.tables[group as usize];
        for index in self.next..self.next + count as u64 {
            operations.push(Operation::CreateIn(table.rule(&line(index), &[0])?));
        }
        self.next += count as u64;
        Ok(())
    }

    /// Carries out operations; rules that are created become the last of those that pass.
    fn run(&mut self, mut operations: Vec<Operation<'static>>) -> Result<(), RuleError> {
        let (mut refused, mut kinds) = (Ok(()), operations.iter());
        self.nic.run(&operations, |result| {
            let creates = matches!(kinds.next(), Some(Operation::CreateIn(_)));
            match result {
                Ok(id) if creates => self.passing.push_back(id),
                Ok(_) => {}
                Err(error) => refused = Err(error),
            }
        });
        operations.clear();
        self.operations = operations;
        refused
    }

    /// A run at `rate` packets a second, with a batch of `count` rules into `group`.
    fn offered(&mut self, rate: f64, group: u32, count: u64) -> Result<Vec<Slice>, BenchError> {
        let mut slices = [Slice::default(); SLICES];
        let covered_ns = (DEPTH as f64 * 1e9 / rate) as u64;
        let (start, end) = (Instant::now(), SLICES as u64 * SLICE_NS);
        let elapsed_ns = || start.elapsed().as_nanos() as u64;
        let (mut taken, mut left, mut rested_ns) = (0, count, 0);
        let mut gaps = Gaps::new(covered_ns);
        loop {
            let ns = elapsed_ns();
            gaps.pass(&mut slices, rested_ns..ns);
            if ns >= end {
                return Ok(slices.into());
            }
            let waiting = (ns as f64 * rate / 1e9) as u64 - taken;
            let lost = waiting.saturating_sub(DEPTH);
            let burst = (waiting - lost).min(BURST as u64);
            if burst > 0 {
                self.forward(burst as usize);
            }
            taken += lost + burst;
            let slice = &mut slices[slice_at(ns)];
            slice.forwarded += burst;
            slice.lost += lost;
            rested_ns = ns;
            // Packets come first: operations are for when no whole burst waits.
            if left > 0 && waiting - lost - burst < BURST as u64 {
                gaps.begin();
                let begun_ns = elapsed_ns();
                gaps.pass(&mut slices, ns..begun_ns);
                left -= self.install(group, left)?;
                rested_ns = elapsed_ns();
                gaps.end(&mut slices, begun_ns..rested_ns);
            }
        }
    }

    /// The next rules of a batch; how many.
    fn install(&mut self, group: u32, left: u64) -> Result<u64, RuleError> {
        let count = left.min(OPERATIONS as u64);
        let mut operations = std::mem::take(&mut self.operations);
        self.add_new(group, count as usize, &mut operations)?;
        self.run(operations)?;
        Ok(count)
    }

    /// How many rules of a batch are not there.
    fn left(&self, count: u64) -> u64 {
        count - self.passing.len() as u64
    }

    /// Destroys the batch.
    fn clear(&mut self) -> Result<(), RuleError> {
        while let Some(id) = self.passing.pop_front() {
            self.nic.destroy(id)?;
            if self.passing.len().is_multiple_of(BURST) {
                self.forward(BURST);
            }
        }
        while !self.nic.run_housekeeping(1 << 10) {
            self.forward(BURST);
        }
        Ok(())
    }
}

/// The slice of a moment of a run.
fn slice_at(ns: u64) -> usize {
    ((ns / SLICE_NS) as usize).min(SLICES - 1)
}

/// What tells the machine's gaps from the card's.
struct Gaps {
    /// What the ring covers.
    covered_ns: u64,
    /// The second number: nanoseconds that this thread has waited for a core. Nothing is known of
    /// that where the kernel does not count it.
    schedstat: Option<File>,
    /// As they were when operations began.
    waited_ns: u64,
}

impl Gaps {
    fn new(covered_ns: u64) -> Gaps {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        Gaps { covered_ns, schedstat, waited_ns: 0 }
    }

    /// Operations begin.
    fn begin(&mut self) {
        self.waited_ns = self.waited_ns().unwrap_or(0);
    }

    /// Operations have ended: a gap is the machine's where it is no longer than the ring covers
    /// without what this thread has waited for the core.
    fn end(&self, slices: &mut [Slice], time_ns: Range<u64>) {
        let gap_ns = time_ns.end.saturating_sub(time_ns.start);
        if gap_ns > self.covered_ns {
            let waited_ns = self.waited_ns().unwrap_or(0).saturating_sub(self.waited_ns);
            if gap_ns.saturating_sub(waited_ns) <= self.covered_ns {
                disturb(slices, time_ns);
            }
        }
    }

    /// Time went by without operations: any gap is taken for the machine's.
    fn pass(&self, slices: &mut [Slice], time_ns: Range<u64>) {
        if time_ns.end.saturating_sub(time_ns.start) > self.covered_ns {
            disturb(slices, time_ns);
        }
    }

    fn waited_ns(&self) -> Option<u64> {
        let mut text = [0; 80];
        let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        str::from_utf8(&text[..len]).ok()?.split_whitespace().nth(1)?.parse().ok()
    }
}

fn disturb(slices: &mut [Slice], time_ns: Range<u64>) {
    let gap = slice_at(time_ns.start)..=slice_at(time_ns.end);
    slices[gap].iter_mut().for_each(|slice| slice.disturbed = true);
}

fn rule(group: u32, index: u64) -> Rule<'static> {
    Rule { group, priority: 0, pattern: pattern(index), actions: &ACTIONS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rules_go_as_come() {
        let mut core = Core::new(100).unwrap();
        core.pass(64).unwrap();
        let first = core.passing[0];
        let (answer, came) = core.inserting(20, 500e3).unwrap();
        assert!(answer.ops > 0 && came > 0);
        assert_eq!(core.nic.len(), 1 + 100 + 64);
        assert_eq!(core.passing.len(), 64);
        assert!(!core.passing.contains(&first), "the oldest went");
        assert!(core.passing.iter().all(|&id| core.nic.query(id).is_ok()));
    }

    #[test]
    fn a_batch_is_there_at_the_end_and_then_gone() {
        let mut core = Core::new(100).unwrap();
        let slices = core.offered(1e5, 0, 500).unwrap();
        assert_eq!((core.left(500), core.nic.len()), (0, 601));
        let [forwarded, lost] = [0, 1].map(|which| {
            slices.iter().map(|slice| [slice.forwarded, slice.lost][which]).sum::<u64>()
        });
        let offered = (1e5 * SLICES as f64 * SLICE_NS as f64 / 1e9) as u64;
        assert!((offered - DEPTH..=offered).contains(&(forwarded + lost)), "{forwarded} {lost}");
        core.clear().unwrap();
        assert_eq!(core.nic.len(), 101);
    }

    #[test]
    fn only_undisturbed_slices_count() {
        let mut seen = BatchSlices::default();
        let fine = Slice { forwarded: 5, ..Slice::default() };
        let lost = Slice { forwarded: 5, lost: 1, disturbed: false };
        let zero = Slice::default();
        let disturbed = Slice { forwarded: 0, lost: 9, disturbed: true };
        seen.add(&[fine, lost, zero, disturbed], 0);
        assert_eq!(
            seen.to_string(),
            "3 of 4 slices of 10 ms undisturbed; of them 1 lost packets, 1 at zero; \
             0 runs ended before the batch"
        );
        assert!(seen.is_broken());
    }

    #[test]
    fn disturbed_slices_decide_nothing() {
        let disturbed = Slice { disturbed: true, ..Slice::default() };
        let fine = Slice { forwarded: 5, ..Slice::default() };
        let mut seen = BatchSlices::default();
        seen.add(&[fine, disturbed, disturbed], 0);
        assert!(seen.is_broken());
        seen.add(&[fine], 0);
        assert!(!seen.is_broken());
        seen.add(&[fine], 1);
        assert!(seen.is_broken(), "the batch did not end");
    }

    fn disturbed(say: impl FnOnce(&mut [Slice])) -> usize {
        let mut slices = [Slice::default(); SLICES];
        say(&mut slices);
        slices.iter().filter(|slice| slice.disturbed).count()
    }

    #[test]
    fn a_gap_without_operations_is_the_machines() {
        let gaps = Gaps::new(1_000);
        assert_eq!(disturbed(|slices| gaps.pass(slices, 0..1_000)), 0, "the ring covers it");
        assert_eq!(disturbed(|slices| gaps.pass(slices, 0..1_001)), 1);
        let long = SLICE_NS - 1..2 * SLICE_NS;
        assert_eq!(disturbed(|slices| gaps.pass(slices, long)), 3, "all that it touches");
    }

    #[test]
    fn a_gap_within_operations_is_the_cards_but_for_what_the_thread_waited() {
        let mut gaps = Gaps::new(1_000);
        gaps.begin();
        assert_eq!(disturbed(|slices| gaps.end(slices, 0..1_000_000_000)), 0, "it had the core");
        gaps.schedstat = None;
        assert_eq!(disturbed(|slices| gaps.end(slices, 0..1_001)), 0, "nothing is known");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schedstat");
        std::fs::write(&path, "580720 131702 14\n").unwrap();
        gaps = Gaps { schedstat: File::open(&path).ok(), ..gaps };
        gaps.begin();
        std::fs::write(&path, "580920 132703 15\n").unwrap();
        assert_eq!(disturbed(|slices| gaps.end(slices, 0..2_001)), 1, "it waited for 1,001");
        assert_eq!(disturbed(|slices| gaps.end(slices, 0..2_002)), 0, "it had 1,001");
    }

    #[test]
    fn both_rows_give_their_pairs() {
        let bench = Bench { pairs: 2, slice_ms: 5, ..Bench::default() };
        for measured in [insert(&bench, 100, 100e3), batch(&bench, 100, 1, 1000)] {
            let Slices::Paired(pairs) = measured.unwrap().slices else { panic!() };
            assert!(pairs.ours.len() == 2 && pairs.theirs.iter().all(|&rate| rate > 0.0));
        }
    }
}
