//! Rules that several control cores create at once.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use niclab_device::control::{BATCH_MAX, Patterns, RuleOperation, RuleTarget, Steps};
use niclab_device::cores::Pinned;
use niclab_device::{CallMode, Control, DeviceError, RuleWork, RulesPlan};

use crate::rules::{self, PortCall, PortCalls, PortRules};
use crate::shim::flow::{FlowId, FlowRefusal, Flows};

/// Creates the rules of a plan by one thread for each of `flows`, on these cores, without packets;
/// and takes them out again in the same way. Each thread has every n-th rule. What they take is the
/// time in the calls of the slowest thread.
///
/// # Errors
/// [`DeviceError::NotSupported`] for other work, and for more threads than the port has operation
/// queues, where they call through these.
pub fn operate(
    flows: Vec<Flows>,
    port: u16,
    plan: &RulesPlan,
    cores: &[u32],
    queues: Result<u16, FlowRefusal>,
) -> Result<Control, DeviceError> {
    let count = flows.len();
    let RuleWork::Create(_) = plan.work else {
        return Err(DeviceError::lacks("control threads but for creates"));
    };
    if let (CallMode::Queue, Ok(queues)) = (plan.calls, &queues)
        && count > usize::from(*queues)
    {
        return Err(DeviceError::lacks(format!("{count} operation queues: the port has {queues}")));
    }
    let patterns = Patterns::of_plan(plan)?;
    let plan = &RulesPlan { start_ns: 0, per_s: None, threads: None, ..plan.clone() };
    let steps: Steps<'_, FlowId> = Steps::of(plan, patterns.as_ref(), &[], u64::MAX)?;
    let mut workers = Vec::with_capacity(count);
    for (at, mut flows) in flows.into_iter().enumerate() {
        // Before the time begins: each thread has templates of its own.
        rules::target(&mut flows, port, plan, &steps, queues.clone().map(drop))?;
        let calls = match plan.calls {
            CallMode::Queue => PortCalls::Queue(at as u32),
            CallMode::Single | CallMode::Transaction => PortCalls::Single,
        };
        workers.push(ControlWorker {
            flows,
            port,
            calls,
            at,
            step: count,
            record: Control::default(),
        });
    }
    let barrier = Barrier::new(count);
    let (mut created, mut destroyed) = (Control::default(), Control::default());
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(count);
        for (mut worker, core) in workers.into_iter().zip(cores) {
            let (steps, barrier) = (&steps, &barrier);
            threads.push(scope.spawn(move || {
                let _pinned = Pinned::to(*core);
                barrier.wait();
                let ids = worker.create(steps);
                let made = std::mem::take(&mut worker.record);
                barrier.wait();
                worker.destroy(&ids);
                (made, worker.record)
            }));
        }
        for thread in threads {
            let ended = thread.join().map_err(|_| DeviceError::Broken {
                device: "dpdk".into(),
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
struct ControlWorker {
    flows: Flows,
    port: u16,
    calls: PortCalls,
    at: usize,
    step: usize,
    record: Control,
}

impl ControlWorker {
    fn create(&mut self, steps: &Steps<'_, FlowId>) -> Vec<FlowId> {
        let mut ids = Vec::with_capacity(steps.len() / self.step + 1);
        let places: Vec<usize> = (self.at..steps.len()).step_by(self.step).collect();
        self.flows.reserve(places.len());
        for some in places.chunks(BATCH_MAX) {
            let operations = some.iter().filter_map(|at| steps.at(*at));
            ids.extend(self.carry_out(operations));
        }
        ids
    }

    fn destroy(&mut self, ids: &[FlowId]) {
        for some in ids.chunks(BATCH_MAX) {
            self.carry_out(some.iter().map(|id| RuleOperation::Destroy(*id)));
        }
    }

    /// Carries some operations out; the rules that they leave.
    fn carry_out<'a>(
        &mut self,
        operations: impl Iterator<Item = RuleOperation<'a, FlowId>>,
    ) -> Vec<FlowId> {
        let mut target = PortRules::new(&mut self.flows, self.port, self.calls);
        let mut calls: Vec<(usize, PortCall)> =
            operations.map(|operation| target.prepare(operation)).enumerate().collect();
        let mut results = Vec::with_capacity(calls.len());
        self.record.planned += calls.len() as u64;
        let begun = Instant::now();
        match self.calls {
            PortCalls::Queue(_) => target.batch(&mut calls, &mut results),
            PortCalls::Single => {
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
