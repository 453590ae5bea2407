//! Operations of several control threads, each with an operation queue of its own.
//!
//! The calling thread is the first of them and carries out what all have asked for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use niclab_load::Control;
use niclab_nic::rule::Pattern;
use niclab_nic::{Nic, Operation, OperationQueue, RuleError, RuleId};

use super::nic_rules::{TemplateTables, untabled};
use super::{HOUSEKEEPING_STEPS, broken};
use crate::control::threads::{StartBarrier, StartGuard};
use crate::control::{Patterns, Steps, bad};
use crate::cores::{self, Pinned};
use crate::face::DeviceError;
use crate::plan::{CallMode, RuleWork, RulesPlan};

/// Operations of a thread that are under way at most.
const UNDER_WAY_MAX: usize = 256;

/// What became of an operation, by its place.
type OperationResult = (usize, Result<RuleId, RuleError>);

/// Makes the operation at a place, on the thread that asks for it.
type MakeOperation<'a> = &'a (dyn Fn(usize) -> Result<Operation<'static>, RuleError> + Sync);

/// Creates the rules of a plan by so many threads without packets, and takes them out again in the
/// same way. A thread has a core of its own where `pinned`.
pub(super) fn operate(
    nic: &mut Nic,
    plan: &RulesPlan,
    threads: u32,
    pinned: bool,
) -> Result<Control, DeviceError> {
    let threads = threads as usize;
    let (RuleWork::Create(block), CallMode::Queue) = (&plan.work, plan.calls) else {
        return Err(DeviceError::lacks("control threads but for creates through queues"));
    };
    let cores = cores::allowed();
    if threads == 0 || threads > cores.len() {
        let capability = format!("{threads} control threads on {} cores", cores.len());
        return Err(DeviceError::lacks(capability));
    }
    let cores: Vec<Option<u32>> =
        cores.into_iter().take(threads).map(|core| Some(core).filter(|_| pinned)).collect();
    let of_block = Patterns::of(block)?;
    let patterns: Vec<Pattern> = (0..of_block.len()).map(|at| of_block.get(at)).collect();
    let steps: Steps<'_, RuleId> = Steps::of(plan, Some(&of_block), &[], u64::MAX)?;
    let made = TemplateTables::of(&steps.samples(), nic);
    let Some(tables) = made.map_err(untabled)? else {
        return Err(bad("there are no rules to create".to_owned()));
    };
    let create = |at: usize| tables.rule(&patterns[at]).map(Operation::CreateIn);
    let (took, became) = carry_out(nic, &cores, patterns.len(), &create)?;
    let mut control = record(took, &became);
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
    let ids: Vec<RuleId> = became.into_iter().filter_map(|(_, result)| result.ok()).collect();
    let destroy = |at: usize| Ok(Operation::Destroy(ids[at]));
    let (took, became) = carry_out(nic, &cores, ids.len(), &destroy)?;
    control.destroyed = Some(Box::new(record(took, &became)));
    // The queues are gone: the card gives their ends up.
    nic.serve(0);
    tables.destroy(nic).map_err(broken)?;
    while !nic.run_housekeeping(HOUSEKEEPING_STEPS) {}
    Ok(control)
}

/// What was done in that time. Single calls there were none.
fn record(took: Duration, became: &[OperationResult]) -> Control {
    let took_ns = took.as_nanos() as u64;
    let refused = became.iter().filter_map(|(_, result)| result.as_ref().err());
    let refusal = refused.clone().next().map(ToString::to_string);
    let refused = refused.count() as u64;
    Control {
        planned: became.len() as u64,
        done: became.len() as u64 - refused,
        refused,
        refusal,
        begun_ns: Some(0),
        ended_ns: Some(took_ns),
        busy_ns: took_ns,
        calls_ns: took_ns,
        ..Control::default()
    }
}

/// Carries out `count` operations, asked for by as many threads as there are `cores` for them
/// (none: wherever there is room), thread by thread in turn; how long it took, and what became of
/// each.
fn carry_out(
    nic: &mut Nic,
    cores: &[Option<u32>],
    count: usize,
    operation: MakeOperation<'_>,
) -> Result<(Duration, Vec<OperationResult>), DeviceError> {
    let step = cores.len();
    let mut asking = Vec::with_capacity(step);
    for at in 0..step {
        let queue = nic.operation_queue(UNDER_WAY_MAX).map_err(broken)?;
        let became = Vec::with_capacity(count / step + 1);
        asking.push(OperationThread { queue, at, step, count, became });
    }
    let (start, busy) = (StartBarrier::default(), AtomicUsize::new(step));
    let mut asking = asking.into_iter().zip(cores);
    let first = asking.next();
    thread::scope(|scope| {
        // However this function ends, nobody waits for it.
        let starting = StartGuard(&start);
        let mut others = Vec::with_capacity(step);
        for (mut asking, core) in asking {
            let (start, busy) = (&start, &busy);
            let ask = move || {
                let _pinned = core.map(Pinned::to);
                let _ended = EndGuard(busy);
                while start.wait() && asking.turn(operation) {}
                asking.became
            };
            let spawned = thread::Builder::new().spawn_scoped(scope, ask);
            others.push(spawned.map_err(|error| broken(format!("a control thread: {error}")))?);
        }
        let mut became = Vec::new();
        let mut took = Duration::ZERO;
        if let Some((mut asking, core)) = first {
            let _pinned = core.map(Pinned::to);
            start.when_ready(others.len());
            let begun = Instant::now();
            let mut ended = Some(EndGuard(&busy));
            while busy.load(Ordering::Acquire) > 0 {
                if !asking.turn(operation) {
                    ended = None;
                }
                nic.serve(UNDER_WAY_MAX);
            }
            drop(ended);
            took = begun.elapsed();
            became = asking.became;
        }
        drop(starting);
        for other in others {
            became.extend(other.join().map_err(|_| broken("a control thread panicked"))?);
        }
        Ok((took, became))
    })
}

/// Says that a thread has come to its end, however it did.
struct EndGuard<'a>(&'a AtomicUsize);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A thread that asks for every `step`th operation.
struct OperationThread {
    queue: OperationQueue,
    /// The next one.
    at: usize,
    step: usize,
    count: usize,
    became: Vec<OperationResult>,
}

impl OperationThread {
    /// Asks for as many as have room, and takes what became of earlier ones; `false` where nothing
    /// is left.
    fn turn(&mut self, operation: MakeOperation<'_>) -> bool {
        while self.at < self.count && self.queue.under_way() < UNDER_WAY_MAX {
            match operation(self.at) {
                // There is room.
                Ok(operation) => drop(self.queue.put(operation, self.at as u64)),
                Err(error) => self.became.push((self.at, Err(error))),
            }
            self.at += self.step;
        }
        self.queue.push();
        while let Ok(Some(done)) = self.queue.pull() {
            self.became.push((done.user as usize, done.result));
        }
        self.at < self.count || self.queue.under_way() > 0
    }
}
