//! The control side of the soft device: carries out a plan's operations while packets flow.

use std::ops::Range;

use niclab_load::clock::Clock;
use niclab_load::{Control, FLOWS_PROBED_MAX, Latency};
use niclab_nic::rule::Rule;
use niclab_nic::{Nic, Operation, OperationQueue, RuleError, RuleId, Transaction};
use rtrb::Consumer;

use super::operation_requests::{OperationRequester, requester};
use super::steps::{RuleOperation, Steps, TemplateTables};
use super::{InstalledBlock, broken};
use crate::face::DeviceError;
use crate::plan::{CallMode, RulesPlan};

/// Operations that are handed over at a time: as many as an application has room for in a burst's
/// work, and few enough to stay in the cache.
const QUEUED_MAX: usize = 256;

/// Operations that an operation queue takes at a time: the two halves of replacements.
const QUEUE_SIZE: usize = 2 * QUEUED_MAX;

/// The mark of the first half of a replacement in the queue.
const GONE: u64 = u64::MAX;

/// A plan that is being carried out.
pub(super) struct Carrier<'a> {
    caller: Caller<'a>,
    steps: Steps<'a>,
    /// When the other core asked for each, where it is another that does.
    asked: Option<Consumer<u64>>,
    /// Operations carried out.
    at: usize,
    /// Operations in a turn.
    slice: usize,
    start_ns: u64,
    /// Least time from one slice to the next.
    pause_ns: u64,
    /// When the next slice may begin.
    next_ns: u64,
    /// Length of the measured part.
    duration_ns: u64,
    clock: Clock,
    opened_ns: Option<u64>,
    /// What the last turn took.
    turn_ns: u64,
    control: Control,
}

/// How the NIC is called.
enum Caller<'a> {
    Single(&'a mut Nic),
    Queue {
        nic: &'a mut Nic,
        queue: OperationQueue,
        /// The templates of the rules that it brings.
        tables: Option<TemplateTables>,
        /// Room for what is handed over next, by its place, and for what became of it.
        steps: Vec<(usize, Option<RuleOperation<'a>>)>,
        became: Vec<Became>,
    },
    /// Until it is committed.
    Transaction(Option<Transaction<'a>>),
}

/// The result of the operation at a place, or of the first half of a replacement.
type Became = (u64, Result<RuleId, RuleError>);

/// Why there are no template tables for the rules of a plan.
pub(super) fn untabled(error: RuleError) -> DeviceError {
    match error {
        RuleError::TemplateUnfit { .. } => {
            let capability = "rules that look into tunnels through an operation queue";
            DeviceError::lacks(capability)
        }
        error => bad(error.to_string()),
    }
}

pub(super) fn bad(reason: String) -> DeviceError {
    DeviceError::BadPlan { reason }
}

impl<'a> Carrier<'a> {
    /// Prepares a plan. `blocks` are those of the set-up.
    pub(super) fn new(
        plan: &'a RulesPlan,
        nic: &'a mut Nic,
        blocks: &'a [InstalledBlock],
        duration_ns: u64,
    ) -> Result<Carrier<'a>, DeviceError> {
        if plan.start_ns >= duration_ns {
            let (start_ns, reason) = (plan.start_ns, "begins when the load has ended");
            return Err(bad(format!("start_ns {start_ns}: it {reason}, after {duration_ns} ns")));
        }
        if let Some(threads) = plan.threads {
            return Err(bad(format!(
                "threads {threads}: beside a load there are none of their own"
            )));
        }
        let steps = Steps::of(plan, blocks, duration_ns - plan.start_ns)?;
        Carrier::carrying(plan, nic, steps, duration_ns)
    }

    /// Prepares the end of the rules that were created.
    pub(super) fn destroying(
        plan: &'a RulesPlan,
        nic: &'a mut Nic,
        ids: Vec<Option<RuleId>>,
    ) -> Result<Carrier<'a>, DeviceError> {
        Carrier::carrying(plan, nic, Steps::destroying(ids), u64::MAX)
    }

    fn carrying(
        plan: &RulesPlan,
        nic: &'a mut Nic,
        steps: Steps<'a>,
        duration_ns: u64,
    ) -> Result<Carrier<'a>, DeviceError> {
        let caller = match plan.calls {
            CallMode::Single => Caller::Single(nic),
            CallMode::Queue => {
                let queue = nic.operation_queue(QUEUE_SIZE).map_err(broken)?;
                let tables = steps.tables(nic).map_err(untabled)?;
                let (steps, became) = (Vec::new(), Vec::new());
                Caller::Queue { nic, queue, tables, steps, became }
            }
            CallMode::Transaction => Caller::Transaction(Some(nic.transaction())),
        };
        let count = steps.len();
        Ok(Carrier {
            caller,
            asked: None,
            at: 0,
            slice: plan.slice.map_or(count, |slice| slice.max(1) as usize),
            start_ns: plan.start_ns,
            pause_ns: plan.pause_ns.unwrap_or(0),
            next_ns: 0,
            duration_ns,
            clock: Clock::new(),
            opened_ns: None,
            turn_ns: 0,
            control: Control {
                planned: count as u64,
                calls: Some(Latency::new()),
                late: steps.interval_ns().map(|_| Latency::new()),
                each_begun_ns: Vec::with_capacity(match steps.interval_ns() {
                    Some(_) => count.min(FLOWS_PROBED_MAX as usize),
                    None => 0,
                }),
                ..Control::default()
            },
            steps,
        })
    }

    /// What was done, and the rules that stand where the plan worked. A transaction that was not
    /// committed is taken back.
    pub(super) fn end(mut self) -> (Control, Vec<Option<RuleId>>) {
        match self.caller {
            Caller::Single(_) | Caller::Transaction(None) => {}
            Caller::Queue { nic, queue, tables, .. } => {
                drop(queue);
                nic.serve(0);
                // They are this control's own and known to the NIC.
                let _ = tables.map(|tables| tables.destroy(nic));
            }
            Caller::Transaction(Some(_)) => {
                self.control.done = 0;
                self.steps.take_back();
            }
        }
        (self.control, self.steps.into_ids())
    }

    /// Leaves it to the core that forwards to ask for the operations, where each has a moment at
    /// which it is due.
    pub(super) fn requester(&mut self) -> Option<OperationRequester> {
        let each_ns = self.steps.interval_ns()?;
        let (asker, asked) = requester(self.steps.len(), self.start_ns, each_ns);
        self.asked = Some(asked);
        self.control.waited = Some(Latency::new());
        Some(asker)
    }

    /// An operation is taken now that the other core asked for.
    fn take(&mut self, now_ns: u64) {
        let asked_ns = self.asked.as_mut().and_then(|asked| asked.pop().ok());
        if let Some((waited, asked_ns)) = self.control.waited.as_mut().zip(asked_ns) {
            waited.record(now_ns.saturating_sub(asked_ns));
        }
    }

    /// Carries everything out at once, without packets. Time runs in calls alone: making the
    /// patterns of rules is left out.
    pub(super) fn alone(&mut self) {
        self.opened(self.clock.now_ns());
        while self.control.ended_ns.is_none() {
            self.turn();
        }
        self.control.begun_ns = Some(0);
        self.control.ended_ns = Some(self.control.calls_ns);
        self.control.busy_ns = self.control.calls_ns;
    }

    /// `true` where a whole turn's operations are due and packets have kept them waiting.
    #[inline]
    pub(super) fn is_behind(&self) -> bool {
        let Some(opened_ns) = self.opened_ns.filter(|_| self.steps.interval_ns().is_some()) else {
            return false;
        };
        let since_ns = self.clock.now_ns().saturating_sub(opened_ns);
        since_ns >= self.next_ns && self.due(since_ns) >= self.at + self.slice
    }

    /// Operations that are due so long after the measured part began.
    fn due(&self, since_ns: u64) -> usize {
        let Some(plan_ns) = since_ns.checked_sub(self.start_ns) else { return 0 };
        if let Some(asked) = &self.asked {
            return self.at + asked.slots();
        }
        match self.steps.interval_ns() {
            None => self.steps.len(),
            Some(each_ns) => self.steps.len().min((plan_ns as f64 / each_ns) as usize + 1),
        }
    }

    fn carry_out(&mut self, since_ns: u64) {
        let end = self.due(since_ns).min(self.at.saturating_add(self.slice));
        match self.caller {
            Caller::Single(_) | Caller::Transaction(_) => {
                (self.at..end).for_each(|at| self.called(at));
            }
            Caller::Queue { .. } => {
                while self.at < end {
                    let some = end.min(self.at + QUEUED_MAX).min(self.at + self.steps.places());
                    self.queued(some);
                    self.at = some;
                }
            }
        }
        self.at = end;
        if self.at == self.steps.len() {
            self.commit();
        }
    }

    /// How long after they were due these operations were done, by now.
    fn time_lateness(&mut self, done: Range<usize>, now_ns: u64) {
        let Some((late, each_ns)) = self.control.late.as_mut().zip(self.steps.interval_ns()) else {
            return;
        };
        let since_ns = now_ns.saturating_sub(self.opened_ns.unwrap_or(0) + self.start_ns);
        for at in done {
            late.record(since_ns.saturating_sub((at as f64 * each_ns) as u64));
        }
    }

    /// One operation by a call of its own, or by one that takes a rule away and one that brings
    /// the new one.
    fn called(&mut self, at: usize) {
        if self.asked.is_some() {
            self.take(self.clock.now_ns());
        }
        let Some(step) = self.steps.at(at) else { return self.skip() };
        let begun_ns = self.clock.now_ns();
        let mut is_gone = false;
        let result = match &mut self.caller {
            Caller::Single(nic) => match step {
                RuleOperation::Create(rule) => nic.create(&rule).map(Some),
                RuleOperation::Update(id, actions) => nic.update(id, actions).map(|()| Some(id)),
                RuleOperation::Modify(id, rule) => nic.modify(id, &rule).map(|()| Some(id)),
                RuleOperation::Destroy(id) => nic.destroy(id).map(|()| None),
                RuleOperation::Renew(id, rule) => nic.destroy(id).and_then(|()| {
                    is_gone = true;
                    nic.create(&rule).map(Some)
                }),
            },
            Caller::Transaction(Some(open)) => match step {
                RuleOperation::Create(rule) => open.create(&rule).map(Some),
                RuleOperation::Update(id, actions) => open.update(id, actions).map(|()| Some(id)),
                RuleOperation::Modify(id, rule) => open.modify(id, &rule).map(|()| Some(id)),
                RuleOperation::Destroy(id) => open.destroy(id).map(|()| None),
                RuleOperation::Renew(id, rule) => open.destroy(id).and_then(|()| {
                    is_gone = true;
                    open.create(&rule).map(Some)
                }),
            },
            Caller::Queue { .. } | Caller::Transaction(None) => return,
        };
        let took_ns = self.clock.now_ns() - begun_ns;
        self.time_lateness(at..at + 1, begun_ns + took_ns);
        if self.control.late.is_some() && at < FLOWS_PROBED_MAX as usize {
            let opened_ns = self.opened_ns.unwrap_or(0);
            self.control.each_begun_ns.push(begun_ns.saturating_sub(opened_ns));
        }
        self.timed(took_ns);
        self.count(at, result, is_gone);
    }

    /// Makes the operations of a transaction visible.
    fn commit(&mut self) {
        let Caller::Transaction(transaction) = &mut self.caller else { return };
        let begun_ns = self.clock.now_ns();
        let committed = transaction.take().map(Transaction::commit);
        let took_ns = self.clock.now_ns() - begun_ns;
        self.timed(took_ns);
        let Some(Err(error)) = committed else { return };
        self.control.refused = self.control.planned;
        self.control.done = 0;
        self.control.refusal.get_or_insert_with(|| error.to_string());
        self.steps.take_back();
    }

    /// Operations up to `end` through the queue: handed over, served, their results taken.
    fn queued(&mut self, end: usize) {
        if self.asked.is_some() {
            let now_ns = self.clock.now_ns();
            (self.at..end).for_each(|_| self.take(now_ns));
        }
        let Caller::Queue { nic, queue, tables, steps, became } = &mut self.caller else { return };
        steps.extend((self.at..end).map(|at| (at, self.steps.at(at))));
        let mut became = std::mem::take(became);
        let begun_ns = self.clock.now_ns();
        let mut skipped = 0;
        for (at, step) in steps.drain(..) {
            let unknown = || RuleError::TemplateUnknown;
            let made = |rule: &Rule<'_>| tables.as_ref().ok_or_else(unknown)?.rule(&rule.pattern);
            let operation = match step {
                None => {
                    skipped += 1;
                    continue;
                }
                Some(RuleOperation::Create(rule)) => made(&rule).map(Operation::CreateIn),
                Some(RuleOperation::Renew(id, rule)) => made(&rule).map(|rule| {
                    // The queue is empty and takes as many as there are.
                    let _ = queue.put(Operation::Destroy(id), GONE);
                    Operation::CreateIn(rule)
                }),
                Some(RuleOperation::Update(id, _)) => {
                    let actions =
                        tables.as_ref().ok_or_else(unknown).and_then(TemplateTables::actions);
                    actions.map(|actions| Operation::UpdateIn(id, actions))
                }
                Some(RuleOperation::Destroy(id)) => Ok(Operation::Destroy(id)),
                // Plans with whole rules for the queue were refused.
                Some(RuleOperation::Modify(..)) => Err(RuleError::TemplateUnknown),
            };
            match operation {
                Ok(operation) => drop(queue.put(operation, at as u64)),
                Err(error) => became.push((at as u64, Err(error))),
            }
        }
        queue.push();
        nic.serve(QUEUE_SIZE);
        while let Ok(Some(done)) = queue.pull() {
            became.push((done.user, done.result));
        }
        let took_ns = self.clock.now_ns() - begun_ns;
        self.timed(took_ns);
        self.time_lateness(self.at..end, begun_ns + took_ns);
        (0..skipped).for_each(|_| self.skip());
        let mut is_gone = false;
        for (user, result) in became.drain(..) {
            if user == GONE {
                is_gone = result.is_ok();
                continue;
            }
            let stands = |id| (!self.steps.only_destroys()).then_some(id);
            let result = result.map(stands);
            self.count(user as usize, result, std::mem::take(&mut is_gone));
        }
        if let Caller::Queue { became: room, .. } = &mut self.caller {
            *room = became;
        }
    }

    /// An operation whose rule is not there: an earlier one of its place was refused.
    fn skip(&mut self) {
        self.control.refused += 1;
    }

    fn timed(&mut self, took_ns: u64) {
        self.control.calls_ns += took_ns;
        match (self.control.first_call_ns, &mut self.control.calls) {
            (Some(_), Some(calls)) => calls.record(took_ns),
            _ => self.control.first_call_ns = Some(took_ns),
        }
    }

    /// Counts an operation; `is_gone` where the rule that it was on went, whatever became of the
    /// rest.
    fn count(&mut self, at: usize, result: Result<Option<RuleId>, RuleError>, is_gone: bool) {
        match result {
            Ok(stands) => {
                self.control.done += 1;
                self.steps.set_rule(at, stands);
            }
            Err(error) => {
                self.control.refused += 1;
                self.control.refusal.get_or_insert_with(|| error.to_string());
                if is_gone {
                    self.steps.set_rule(at, None);
                }
            }
        }
    }
}

impl Carrier<'_> {
    /// The measured part has begun, at this time of the process's clock.
    pub(super) fn opened(&mut self, at_ns: u64) {
        self.opened_ns = Some(at_ns);
    }

    /// Carries out what is due; how long that took, nanoseconds.
    #[inline]
    pub(super) fn turn(&mut self) -> u64 {
        self.turn_ns = 0;
        let Some(opened_ns) = self.opened_ns.filter(|_| self.control.ended_ns.is_none()) else {
            return 0;
        };
        let begun_ns = self.clock.now_ns();
        let since_ns = begun_ns.saturating_sub(opened_ns);
        let open_ns = self.start_ns.max(self.next_ns);
        let is_open = (open_ns..self.duration_ns).contains(&since_ns);
        if is_open && (self.due(since_ns) > self.at || self.steps.len() == self.at) {
            // Where each operation has a moment of its own, late ones count from theirs.
            let from_ns = if self.control.late.is_some() { self.start_ns } else { since_ns };
            self.control.begun_ns.get_or_insert(from_ns);
            self.carry_out(since_ns);
            let ended_ns = self.clock.now_ns();
            self.turn_ns = ended_ns - begun_ns;
            self.next_ns = ended_ns - opened_ns + self.pause_ns;
            self.control.busy_ns += self.turn_ns;
            if self.at == self.steps.len() {
                self.control.ended_ns = Some(ended_ns - opened_ns);
            }
        }
        self.turn_ns
    }
}
