//! Rules that several control cores create at once.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use niclab_load::Control;

use super::{BATCH_MAX, RuleOperation, RuleTarget, Steps};
use crate::cores::Pinned;
use crate::face::DeviceError;
use crate::plan::CallMode;

/// Creates the rules of a plan with one thread for each of `targets`, on these cores, without
/// packets; and destroys them in the same way. Each thread has every n-th rule. The record has the
/// time in the calls of the slowest thread.
///
/// # Errors
/// [`DeviceError::Broken`] where a thread panicked.
pub fn operate<'a, T>(
    targets: Vec<T>,
    steps: &Steps<'a, T::Id>,
    calls: CallMode,
    cores: &[u32],
) -> Result<Control, DeviceError>
where
    T: RuleTarget<'a, Id: Send> + Send,
    Steps<'a, T::Id>: Sync,
{
    let step = targets.len();
    let workers = targets.into_iter().enumerate().map(|(at, target)| ControlThread {
        target,
        calls,
        own: (at..steps.len()).step_by(step).collect(),
        made: Vec::new(),
        record: Control::default(),
    });
    let mut workers =
        together(workers.collect(), cores, |worker: &mut ControlThread<T, T::Id>| {
            for some in std::mem::take(&mut worker.own).chunks(BATCH_MAX) {
                let left = worker.carry_out(some.iter().filter_map(|at| steps.at(*at)));
                worker.made.extend(left);
            }
        })?;
    let mut created = Control::default();
    for worker in &mut workers {
        add(&mut created, &std::mem::take(&mut worker.record));
    }
    let workers = together(workers, cores, |worker: &mut ControlThread<T, T::Id>| {
        for some in std::mem::take(&mut worker.made).chunks(BATCH_MAX) {
            worker.carry_out(some.iter().map(|id| RuleOperation::Destroy(*id)));
        }
    })?;
    let mut destroyed = Control::default();
    workers.iter().for_each(|worker| add(&mut destroyed, &worker.record));
    Ok(Control { destroyed: Some(Box::new(destroyed)), ..created })
}

/// Lets all workers begin at one moment, each on a thread and a core of its own, and waits for
/// them.
///
/// # Errors
/// [`DeviceError::Broken`] where there is no thread, or one panicked.
fn together<W: Send>(
    workers: Vec<W>,
    cores: &[u32],
    work: impl Fn(&mut W) + Sync,
) -> Result<Vec<W>, DeviceError> {
    let broken = |reason: String| DeviceError::Broken { device: "control".into(), reason };
    let (start, work) = (&StartBarrier::default(), &work);
    thread::scope(|scope| {
        // However this function ends, nobody waits for it.
        let starting = StartGuard(start);
        let mut threads = Vec::with_capacity(workers.len());
        for (mut worker, core) in workers.into_iter().zip(cores) {
            let run = move || {
                let _pinned = Pinned::to(*core);
                if start.wait() {
                    work(&mut worker);
                }
                worker
            };
            let spawned = thread::Builder::new().name("control".into()).spawn_scoped(scope, run);
            threads.push(spawned.map_err(|error| broken(format!("a control thread: {error}")))?);
        }
        start.when_ready(threads.len());
        drop(starting);
        let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        let ended = ended.into_iter().collect::<Result<Vec<W>, _>>();
        ended.map_err(|_| broken("a control thread panicked".into()))
    })
}

/// Threads wait for each other, and begin at one moment or never.
#[derive(Default)]
pub(crate) struct StartBarrier {
    ready: AtomicUsize,
    /// [`GO`], [`NEVER`], or neither yet.
    word: AtomicU8,
}

const GO: u8 = 1;
const NEVER: u8 = 2;

impl StartBarrier {
    /// Waits for the word; `true` where it is to begin.
    pub(crate) fn wait(&self) -> bool {
        match self.word.load(Ordering::Acquire) {
            GO => return true,
            NEVER => return false,
            _ => self.ready.fetch_add(1, Ordering::Release),
        };
        loop {
            match self.word.load(Ordering::Acquire) {
                GO => return true,
                NEVER => return false,
                _ => thread::yield_now(),
            }
        }
    }

    /// Says the word when so many others wait for it.
    pub(crate) fn when_ready(&self, others: usize) {
        while self.ready.load(Ordering::Acquire) < others {
            thread::yield_now();
        }
        self.word.store(GO, Ordering::Release);
    }
}

/// Says that there is nothing to begin, where nothing has begun.
pub(crate) struct StartGuard<'a>(pub(crate) &'a StartBarrier);

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        let _ = self.0.word.compare_exchange(0, NEVER, Ordering::Release, Ordering::Relaxed);
    }
}

/// Adds the record of a thread that worked at the same time.
fn add(sum: &mut Control, one: &Control) {
    sum.planned += one.planned;
    sum.done += one.done;
    sum.refused += one.refused;
    if sum.refusal.is_none() {
        sum.refusal.clone_from(&one.refusal);
    }
    sum.calls_ns = sum.calls_ns.max(one.calls_ns);
    (sum.busy_ns, sum.begun_ns, sum.ended_ns) = (sum.calls_ns, Some(0), Some(sum.calls_ns));
}

/// One thread.
struct ControlThread<T, I> {
    target: T,
    calls: CallMode,
    /// Its operations that are still to be carried out.
    own: Vec<usize>,
    /// The rules that it has created.
    made: Vec<I>,
    record: Control,
}

impl<'a, T: RuleTarget<'a>> ControlThread<T, T::Id> {
    /// Carries some operations out; the rules that they leave.
    fn carry_out(
        &mut self,
        operations: impl Iterator<Item = RuleOperation<'a, T::Id>>,
    ) -> Vec<T::Id> {
        let target = &mut self.target;
        let mut calls: Vec<(usize, T::Call)> =
            operations.map(|operation| target.prepare(operation)).enumerate().collect();
        let mut results = Vec::with_capacity(calls.len());
        self.record.planned += calls.len() as u64;
        let begun = Instant::now();
        match self.calls {
            CallMode::Queue => target.batch(&mut calls, &mut results),
            CallMode::Single | CallMode::Transaction => {
                results.extend(calls.into_iter().map(|(at, call)| (at, target.call(call))));
            }
        }
        self.record.calls_ns += begun.elapsed().as_nanos() as u64;
        let mut left = Vec::with_capacity(results.len());
        for (_, result) in results {
            match result.stands {
                Ok(stands) => {
                    self.record.done += 1;
                    left.extend(stands);
                }
                Err(refusal) => {
                    self.record.refused += 1;
                    self.record.refusal.get_or_insert_with(|| refusal.to_string());
                }
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_panics_ends_the_others_and_is_an_error() {
        let done = together(vec![1, 2], &[0, 0], |worker| *worker += 1).unwrap();
        assert_eq!(done, [2, 3]);
        let ended = together(vec![1, 2], &[0, 0], |worker| assert_eq!(*worker, 1));
        assert!(matches!(ended, Err(DeviceError::Broken { .. })), "{ended:?}");
    }

    #[test]
    fn threads_start_together_or_not_at_all() {
        for is_said in [true, false] {
            let start = StartBarrier::default();
            let went = thread::scope(|scope| {
                let starting = StartGuard(&start);
                let wait = || scope.spawn(|| start.wait());
                let others = [wait(), wait(), wait()];
                if is_said {
                    start.when_ready(others.len());
                }
                drop(starting);
                others.map(|other| other.join().unwrap())
            });
            assert_eq!(went, [is_said; 3]);
        }
    }
}
