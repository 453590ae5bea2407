//! Carries out the operations of a plan while packets flow.

use std::ops::Range;

use niclab_load::clock::Clock;
use niclab_load::{Control, FLOWS_PROBED_MAX, Latency};
use rtrb::Consumer;

use super::requests::{OperationRequester, requester};
use super::{
    BATCH_MAX, CallResult, InstalledBlock, Patterns, PlacedResult, RuleTarget, Steps, bad,
};
use crate::face::DeviceError;
use crate::pair::PlanWork;
use crate::plan::{CallMode, RulesPlan};

/// A plan that is being carried out.
pub struct Carrier<'a, T: RuleTarget<'a>> {
    target: T,
    steps: Steps<'a, T::Id>,
    calls: CallMode,
    /// Room for what is handed over next, by its place, and for what became of it.
    batch: Vec<(usize, T::Call)>,
    results: Vec<PlacedResult<T::Id, T::Error>>,
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

impl<'a, T: RuleTarget<'a>> Carrier<'a, T> {
    /// Prepares a plan for a load of this length, nanoseconds. `patterns` are those of the rules
    /// that it creates ([`Patterns::of_plan`]), `blocks` those of the set-up; `target` makes the
    /// device's side for the operations.
    ///
    /// # Errors
    /// [`DeviceError::BadPlan`] for a plan that does not fit the load or the set-up;
    /// [`DeviceError::NotSupported`]; those of `target`.
    pub fn new(
        plan: &'a RulesPlan,
        (patterns, blocks): (Option<&'a Patterns>, &'a [InstalledBlock<T::Id>]),
        duration_ns: u64,
        target: impl FnOnce(&Steps<'a, T::Id>) -> Result<T, DeviceError>,
    ) -> Result<Carrier<'a, T>, DeviceError> {
        if plan.start_ns >= duration_ns {
            let (start_ns, reason) = (plan.start_ns, "begins when the load has ended");
            return Err(bad(format!("start_ns {start_ns}: it {reason}, after {duration_ns} ns")));
        }
        if let Some(threads) = plan.threads {
            return Err(bad(format!(
                "threads {threads}: beside a load there are none of their own"
            )));
        }
        let steps = Steps::of(plan, patterns, blocks, duration_ns - plan.start_ns)?;
        let target = target(&steps)?;
        Ok(Carrier::carrying(plan, steps, duration_ns, target))
    }

    /// Prepares the end of the rules that were created.
    ///
    /// # Errors
    /// Those of `target`.
    pub fn destroying(
        plan: &'a RulesPlan,
        ids: Vec<Option<T::Id>>,
        target: impl FnOnce(&Steps<'a, T::Id>) -> Result<T, DeviceError>,
    ) -> Result<Carrier<'a, T>, DeviceError> {
        let steps = Steps::destroying(ids);
        let target = target(&steps)?;
        Ok(Carrier::carrying(plan, steps, u64::MAX, target))
    }

    fn carrying(
        plan: &RulesPlan,
        steps: Steps<'a, T::Id>,
        duration_ns: u64,
        target: T,
    ) -> Carrier<'a, T> {
        let count = steps.len();
        Carrier {
            target,
            calls: plan.calls,
            batch: Vec::new(),
            results: Vec::new(),
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
        }
    }

    /// What was done, and the rules that stand where the plan worked. A transaction that was not
    /// committed is taken back.
    pub fn end(mut self) -> (Control, Vec<Option<T::Id>>) {
        if !self.target.end() {
            self.control.done = 0;
            self.steps.take_back();
        }
        (self.control, self.steps.into_ids())
    }

    /// Leaves it to the core that forwards to ask for the operations, where each has a moment at
    /// which it is due.
    pub fn requester(&mut self) -> Option<OperationRequester> {
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
    pub fn alone(&mut self) {
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
    pub fn is_behind(&self) -> bool {
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
        match self.calls {
            CallMode::Single | CallMode::Transaction => {
                (self.at..end).for_each(|at| self.called(at));
            }
            CallMode::Queue => {
                while self.at < end {
                    let some = end.min(self.at + BATCH_MAX).min(self.at + self.steps.places());
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
        let Some(operation) = self.steps.at(at) else { return self.skip() };
        let call = self.target.prepare(operation);
        let begun_ns = self.clock.now_ns();
        let result = self.target.call(call);
        let took_ns = self.clock.now_ns() - begun_ns;
        self.time_lateness(at..at + 1, begun_ns + took_ns);
        if self.control.late.is_some() && at < FLOWS_PROBED_MAX as usize {
            let opened_ns = self.opened_ns.unwrap_or(0);
            self.control.each_begun_ns.push(begun_ns.saturating_sub(opened_ns));
        }
        self.timed(took_ns);
        self.count(at, result);
    }

    /// Makes the operations of a transaction visible.
    fn commit(&mut self) {
        let begun_ns = self.clock.now_ns();
        let Some(committed) = self.target.commit() else { return };
        let took_ns = self.clock.now_ns() - begun_ns;
        self.timed(took_ns);
        let Err(error) = committed else { return };
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
        let (mut batch, mut results) =
            (std::mem::take(&mut self.batch), std::mem::take(&mut self.results));
        for at in self.at..end {
            match self.steps.at(at) {
                Some(operation) => batch.push((at, self.target.prepare(operation))),
                None => self.skip(),
            }
        }
        let begun_ns = self.clock.now_ns();
        self.target.batch(&mut batch, &mut results);
        let took_ns = self.clock.now_ns() - begun_ns;
        self.timed(took_ns);
        self.time_lateness(self.at..end, begun_ns + took_ns);
        for (at, result) in results.drain(..) {
            self.count(at, result);
        }
        (self.batch, self.results) = (batch, results);
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

    /// Counts an operation.
    fn count(&mut self, at: usize, result: CallResult<T::Id, T::Error>) {
        match result.stands {
            Ok(stands) => {
                self.control.done += 1;
                self.steps.set_rule(at, stands);
            }
            Err(error) => {
                self.control.refused += 1;
                self.control.refusal.get_or_insert_with(|| error.to_string());
                if result.is_gone {
                    self.steps.set_rule(at, None);
                }
            }
        }
    }

    /// The measured part has begun, at this time of the process's clock.
    pub fn opened(&mut self, at_ns: u64) {
        self.opened_ns = Some(at_ns);
    }

    /// Carries out what is due; how long that took, nanoseconds.
    #[inline]
    pub fn turn(&mut self) -> u64 {
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

impl<'a, T> PlanWork for Carrier<'a, T>
where
    T: RuleTarget<'a, Id: Send, Call: Send, Error: Send> + Send,
    Steps<'a, T::Id>: Send,
{
    fn opened(&mut self, at_ns: u64) {
        Carrier::opened(self, at_ns);
    }

    #[inline]
    fn turn(&mut self) -> u64 {
        Carrier::turn(self)
    }

    #[inline]
    fn is_behind(&self) -> bool {
        Carrier::is_behind(self)
    }
}
