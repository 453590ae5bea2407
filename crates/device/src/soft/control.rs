//! The control side of the soft device: carries out a plan's operations while packets flow.

use niclab_load::clock::Clock;
use niclab_load::{Control as Record, Latency};
use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{
    Nic, Operation, OperationQueue, RuleError, RuleId, Template, TemplateAction, TemplateTable,
    Transaction,
};

use super::{Installed, Patterns, broken};
use crate::face::DeviceError;
use crate::pair::Beside;
use crate::plan::{Calls, RulesPlan, Work};

/// Operations that an operation queue takes at a time.
const QUEUE_SIZE: usize = 4_096;

/// A plan that is being carried out.
pub(super) struct Control<'a> {
    caller: Caller<'a>,
    steps: Steps<'a>,
    /// Operations carried out.
    at: usize,
    /// Operations in a turn.
    slice: usize,
    start_ns: u64,
    /// Length of the measured part.
    duration_ns: u64,
    clock: Clock,
    opened_ns: Option<u64>,
    /// What the last turn took.
    turn_ns: u64,
    record: Record,
    /// Rules that were created.
    made: Vec<RuleId>,
}

/// How the NIC is called.
enum Caller<'a> {
    Single(&'a mut Nic),
    Queue {
        nic: &'a mut Nic,
        queue: OperationQueue,
        table: TemplateTable,
        given: Vec<u32>,
    },
    /// Until it is committed.
    Transaction(Option<Transaction<'a>>),
}

fn bad(reason: String) -> DeviceError {
    DeviceError::BadPlan { reason }
}

/// What is done, operation by operation.
enum Steps<'a> {
    Create { group: u32, priority: u32, patterns: Patterns, actions: &'a [Action] },
    Update { block: &'a Installed, actions: &'a [Action] },
}

impl<'a> Steps<'a> {
    fn of(work: &'a Work, blocks: &'a [Installed]) -> Result<Steps<'a>, DeviceError> {
        match work {
            Work::Create(block) => {
                let patterns = Patterns::of(block)?;
                let (group, priority, actions) = block.place().unwrap_or((0, 0, &[]));
                Ok(Steps::Create { group, priority, patterns, actions })
            }
            Work::Update { block: at, actions } => match blocks.get(*at) {
                Some(block) if block.patterns.is_some() => Ok(Steps::Update { block, actions }),
                Some(_) => Err(bad(format!("block {at}: the rules of a file are not changed"))),
                None => Err(bad(format!("block {at}: the set-up has {}", blocks.len()))),
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Steps::Create { patterns, .. } => patterns.len(),
            Steps::Update { block, .. } => block.ids.len(),
        }
    }

    fn step(&self, at: usize) -> Operation<'a> {
        match self {
            Steps::Create { group, priority, patterns, actions } => Operation::Create(Rule {
                group: *group,
                priority: *priority,
                pattern: patterns.get(at),
                actions,
            }),
            Steps::Update { block, actions } => Operation::Update(block.ids[at], actions),
        }
    }

    /// The template of all steps, and the numbers that each rule gives.
    fn template(&self, nic: &mut Nic) -> Result<(TemplateTable, Vec<u32>), RuleError> {
        let (group, priority, patterns, actions) = match self {
            Steps::Create { group, priority, patterns, actions } => {
                (*group, *priority, Some(patterns), actions)
            }
            // The table that its rules are in, so that the card has no other than without a plan.
            Steps::Update { block, actions } => {
                (block.group, block.priority, block.patterns.as_ref(), actions)
            }
        };
        let some = patterns.filter(|patterns| patterns.len() > 0);
        let pattern = some.map_or_else(Pattern::any, |patterns| patterns.get(0));
        let mut given = Vec::new();
        let varied = actions.iter().map(|action| match action {
            Action::Queue(queue) => {
                given.push(u32::from(*queue));
                TemplateAction::Queue
            }
            other => TemplateAction::Same(other.clone()),
        });
        let actions: Vec<TemplateAction> = varied.collect();
        let template = Template { group, priority, pattern, actions: &actions };
        Ok((nic.template_table(&template)?, given))
    }
}

impl<'a> Control<'a> {
    /// Prepares a plan. `blocks` are those of the set-up.
    pub(super) fn new(
        plan: &'a RulesPlan,
        nic: &'a mut Nic,
        blocks: &'a [Installed],
        duration_ns: u64,
    ) -> Result<Control<'a>, DeviceError> {
        if plan.start_ns >= duration_ns {
            let (start_ns, reason) = (plan.start_ns, "begins when the load has ended");
            return Err(bad(format!("start_ns {start_ns}: it {reason}, after {duration_ns} ns")));
        }
        let steps = Steps::of(&plan.work, blocks)?;
        let caller = match plan.calls {
            Calls::Single => Caller::Single(nic),
            Calls::Queue => {
                let queue = nic.operation_queue(QUEUE_SIZE).map_err(broken)?;
                let (table, given) = steps.template(nic).map_err(|error| bad(error.to_string()))?;
                Caller::Queue { nic, queue, table, given }
            }
            Calls::Transaction => Caller::Transaction(Some(nic.transaction())),
        };
        let count = steps.len();
        Ok(Control {
            caller,
            at: 0,
            slice: plan.slice.map_or(count, |slice| slice.max(1) as usize),
            start_ns: plan.start_ns,
            duration_ns,
            clock: Clock::new(),
            opened_ns: None,
            turn_ns: 0,
            record: Record {
                planned: count as u64,
                calls: Some(Latency::new()),
                ..Record::default()
            },
            made: Vec::with_capacity(if matches!(steps, Steps::Create { .. }) { count } else { 0 }),
            steps,
        })
    }

    /// What was done, and the rules that were created. A transaction that was not committed is
    /// taken back.
    pub(super) fn end(mut self) -> (Record, Vec<RuleId>) {
        match self.caller {
            Caller::Single(_) | Caller::Transaction(None) => {}
            Caller::Queue { nic, queue, table, .. } => {
                drop(queue);
                nic.serve(0);
                // It is this control's own and known to the NIC.
                let _ = nic.destroy_template_table(&table);
            }
            Caller::Transaction(Some(_)) => {
                self.record.done = 0;
                self.made.clear();
            }
        }
        (self.record, self.made)
    }

    /// A turn without operations.
    pub(super) fn pass(&mut self) {
        self.turn_ns = 0;
    }

    /// Time of the last turn.
    pub(super) fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    fn carry_out(&mut self) {
        let end = self.steps.len().min(self.at + self.slice);
        match self.caller {
            Caller::Single(_) | Caller::Transaction(_) => {
                (self.at..end).for_each(|at| self.called(at));
            }
            Caller::Queue { .. } => {
                while self.at < end {
                    let some = end.min(self.at + QUEUE_SIZE);
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

    /// One operation by a call of its own.
    fn called(&mut self, at: usize) {
        let step = self.steps.step(at);
        let begun_ns = self.clock.now_ns();
        let result = match (&mut self.caller, &step) {
            (Caller::Single(nic), Operation::Create(rule)) => nic.create(rule),
            (Caller::Single(nic), Operation::Update(id, actions)) => {
                nic.update(*id, actions).map(|()| *id)
            }
            (Caller::Transaction(Some(open)), Operation::Create(rule)) => open.create(rule),
            (Caller::Transaction(Some(open)), Operation::Update(id, actions)) => {
                open.update(*id, actions).map(|()| *id)
            }
            _ => return,
        };
        self.timed(begun_ns);
        self.count(result);
    }

    /// Makes the operations of a transaction visible.
    fn commit(&mut self) {
        let Caller::Transaction(transaction) = &mut self.caller else { return };
        let Some(Err(error)) = transaction.take().map(Transaction::commit) else { return };
        self.record.refused = self.record.planned;
        self.record.done = 0;
        self.record.refusal.get_or_insert_with(|| error.to_string());
        self.made.clear();
    }

    /// Operations up to `end` through the queue: handed over, served, their results taken.
    fn queued(&mut self, end: usize) {
        let Caller::Queue { nic, queue, table, given } = &mut self.caller else { return };
        let begun_ns = self.clock.now_ns();
        let mut results = Vec::with_capacity(end - self.at);
        for at in self.at..end {
            let operation = match self.steps.step(at) {
                Operation::Create(rule) => {
                    table.rule(rule.pattern.value(), given).map(Operation::CreateIn)
                }
                Operation::Update(id, _) => {
                    table.actions(given).map(|actions| Operation::UpdateIn(id, actions))
                }
                _ => continue,
            };
            match operation {
                // The queue is empty and takes as many as there are.
                Ok(operation) => drop(queue.put(operation, at as u64)),
                Err(error) => results.push(Err(error)),
            }
        }
        queue.push();
        nic.serve(end - self.at);
        while let Ok(Some(done)) = queue.pull() {
            results.push(done.result);
        }
        self.timed(begun_ns);
        results.into_iter().for_each(|result| self.count(result));
    }

    fn timed(&mut self, begun_ns: u64) {
        let took_ns = self.clock.now_ns() - begun_ns;
        if let Some(calls) = &mut self.record.calls {
            calls.record(took_ns);
        }
    }

    fn count(&mut self, result: Result<RuleId, RuleError>) {
        match result {
            Ok(made) => {
                self.record.done += 1;
                self.made.extend(matches!(self.steps, Steps::Create { .. }).then_some(made));
            }
            Err(error) => {
                self.record.refused += 1;
                self.record.refusal.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

impl Beside for Control<'_> {
    fn opened(&mut self, at_ns: u64) {
        self.opened_ns = Some(at_ns);
    }

    #[inline]
    fn turn(&mut self) -> u64 {
        self.turn_ns = 0;
        let Some(opened_ns) = self.opened_ns.filter(|_| self.record.ended_ns.is_none()) else {
            return 0;
        };
        let begun_ns = self.clock.now_ns();
        let since_ns = begun_ns.saturating_sub(opened_ns);
        if (self.start_ns..self.duration_ns).contains(&since_ns) {
            self.record.begun_ns.get_or_insert(since_ns);
            self.carry_out();
            let ended_ns = self.clock.now_ns();
            self.turn_ns = ended_ns - begun_ns;
            self.record.busy_ns += self.turn_ns;
            if self.at == self.steps.len() {
                self.record.ended_ns = Some(ended_ns - opened_ns);
            }
        }
        self.turn_ns
    }
}
