//! Rules that several control cores create at once.

use std::sync::Barrier;
use std::thread;
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
    T: RuleTarget<'a> + Send,
    Steps<'a, T::Id>: Sync,
{
    let step = targets.len();
    let barrier = &Barrier::new(step);
    let (mut created, mut destroyed) = (Control::default(), Control::default());
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(step);
        for ((at, target), core) in targets.into_iter().enumerate().zip(cores) {
            let mut worker = ControlThread { target, calls, record: Control::default() };
            threads.push(scope.spawn(move || {
                let _pinned = Pinned::to(*core);
                let own: Vec<usize> = (at..steps.len()).step_by(step).collect();
                let mut ids = Vec::with_capacity(own.len());
                barrier.wait();
                for some in own.chunks(BATCH_MAX) {
                    ids.extend(worker.carry_out(some.iter().filter_map(|at| steps.at(*at))));
                }
                let made = std::mem::take(&mut worker.record);
                barrier.wait();
                for some in ids.chunks(BATCH_MAX) {
                    worker.carry_out(some.iter().map(|id| RuleOperation::Destroy(*id)));
                }
                (made, worker.record)
            }));
        }
        for thread in threads {
            let ended = thread.join().map_err(|_| DeviceError::Broken {
                device: "control".into(),
                reason: "a control thread panicked".into(),
            });
            let (made, gone) = ended?;
            add(&mut created, &made);
            add(&mut destroyed, &gone);
        }
        Ok(Control { destroyed: Some(Box::new(destroyed)), ..created })
    })
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
struct ControlThread<T> {
    target: T,
    calls: CallMode,
    record: Control,
}

impl<T> ControlThread<T> {
    /// Carries some operations out; the rules that they leave.
    fn carry_out<'a>(
        &mut self,
        operations: impl Iterator<Item = RuleOperation<'a, T::Id>>,
    ) -> Vec<T::Id>
    where
        T: RuleTarget<'a>,
    {
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
