//! The rules of the soft device's NIC, as the carrier of a plan calls for them.

use niclab_nic::rule::{Pattern, Rule};
use niclab_nic::{
    Nic, Operation, OperationQueue, RuleError, RuleId, Template, TemplateAction, TemplateActions,
    TemplateRule, TemplateTable, Transaction,
};
use niclab_packet::key::Key;

use super::broken;
use crate::control::{BATCH_MAX, CallResult, PlannedRule, RuleOperation, RuleTarget, Steps, bad};
use crate::face::DeviceError;
use crate::plan::CallMode;
use crate::{Action, RulesPlan};

/// Operations that an operation queue takes at a time: the two halves of replacements.
const QUEUE_SIZE: usize = 2 * BATCH_MAX;

/// The mark of the first half of a replacement in the queue.
const GONE: u64 = u64::MAX;

/// How the NIC is called.
pub(super) enum NicRules<'n> {
    /// Each operation by a call of its own.
    Single(&'n mut Nic),
    /// Through an operation queue.
    Queue {
        nic: &'n mut Nic,
        queue: OperationQueue,
        /// The templates of the rules that it brings.
        tables: Option<TemplateTables>,
    },
    /// Until it is committed.
    Transaction(Option<Transaction<'n>>),
}

impl<'n> NicRules<'n> {
    /// The calls that a plan asks for, of these operations.
    pub(super) fn of(
        plan: &RulesPlan,
        nic: &'n mut Nic,
        steps: &Steps<'_, RuleId>,
    ) -> Result<NicRules<'n>, DeviceError> {
        Ok(match plan.calls {
            CallMode::Single => NicRules::Single(nic),
            CallMode::Queue => {
                let queue = nic.operation_queue(QUEUE_SIZE).map_err(broken)?;
                let tables = TemplateTables::of(&steps.samples(), nic).map_err(untabled)?;
                NicRules::Queue { nic, queue, tables }
            }
            CallMode::Transaction => NicRules::Transaction(Some(nic.transaction())),
        })
    }
}

/// An operation with its arguments.
pub(super) enum NicCall<'a> {
    Create(Rule<'a>),
    Update(RuleId, &'a [Action]),
    Modify(RuleId, Rule<'a>),
    Destroy(RuleId),
    /// This rule goes, that one comes.
    Renew(RuleId, Rule<'a>),
}

type NicResult = CallResult<RuleId, RuleError>;

impl<'a> RuleTarget<'a> for NicRules<'_> {
    type Id = RuleId;
    type Call = NicCall<'a>;
    type Error = RuleError;

    fn prepare(&mut self, operation: RuleOperation<'a, RuleId>) -> NicCall<'a> {
        let rule = |planned: PlannedRule<'a>| Rule {
            group: planned.group,
            priority: planned.priority,
            pattern: planned.pattern(),
            actions: planned.actions,
        };
        match operation {
            RuleOperation::Create(planned) => NicCall::Create(rule(planned)),
            RuleOperation::Update(id, planned) => NicCall::Update(id, planned.actions),
            RuleOperation::Modify(id, planned) => NicCall::Modify(id, rule(planned)),
            RuleOperation::Destroy(id) => NicCall::Destroy(id),
            RuleOperation::Renew(id, planned) => NicCall::Renew(id, rule(planned)),
        }
    }

    fn call(&mut self, call: NicCall<'a>) -> NicResult {
        let mut is_gone = false;
        let stands = match self {
            NicRules::Single(nic) => match call {
                NicCall::Create(rule) => nic.create(&rule).map(Some),
                NicCall::Update(id, actions) => nic.update(id, actions).map(|()| Some(id)),
                NicCall::Modify(id, rule) => nic.modify(id, &rule).map(|()| Some(id)),
                NicCall::Destroy(id) => nic.destroy(id).map(|()| None),
                NicCall::Renew(id, rule) => nic.destroy(id).and_then(|()| {
                    is_gone = true;
                    nic.create(&rule).map(Some)
                }),
            },
            NicRules::Transaction(Some(open)) => match call {
                NicCall::Create(rule) => open.create(&rule).map(Some),
                NicCall::Update(id, actions) => open.update(id, actions).map(|()| Some(id)),
                NicCall::Modify(id, rule) => open.modify(id, &rule).map(|()| Some(id)),
                NicCall::Destroy(id) => open.destroy(id).map(|()| None),
                NicCall::Renew(id, rule) => open.destroy(id).and_then(|()| {
                    is_gone = true;
                    open.create(&rule).map(Some)
                }),
            },
            // A plan has calls of one mode, and none after its transaction.
            NicRules::Queue { .. } | NicRules::Transaction(None) => Err(RuleError::TemplateUnknown),
        };
        CallResult { stands, is_gone }
    }

    fn batch(
        &mut self,
        calls: &mut Vec<(usize, NicCall<'a>)>,
        results: &mut Vec<(usize, NicResult)>,
    ) {
        let NicRules::Queue { nic, queue, tables } = self else { return };
        let unknown = || RuleError::TemplateUnknown;
        let made = |rule: &Rule<'_>| tables.as_ref().ok_or_else(unknown)?.rule(&rule.pattern);
        let mut is_destroy = false;
        for (at, call) in calls.drain(..) {
            let operation = match call {
                NicCall::Create(rule) => made(&rule).map(Operation::CreateIn),
                NicCall::Renew(id, rule) => made(&rule).map(|rule| {
                    // The queue is empty and takes as many as there are.
                    let _ = queue.put(Operation::Destroy(id), GONE);
                    Operation::CreateIn(rule)
                }),
                NicCall::Update(id, _) => {
                    let actions =
                        tables.as_ref().ok_or_else(unknown).and_then(TemplateTables::actions);
                    actions.map(|actions| Operation::UpdateIn(id, actions))
                }
                NicCall::Destroy(id) => {
                    is_destroy = true;
                    Ok(Operation::Destroy(id))
                }
                // Plans with whole rules for the queue were refused.
                NicCall::Modify(..) => Err(RuleError::TemplateUnknown),
            };
            match operation {
                Ok(operation) => drop(queue.put(operation, at as u64)),
                Err(error) => results.push((at, CallResult::of(Err(error)))),
            }
        }
        queue.push();
        nic.serve(QUEUE_SIZE);
        let mut is_gone = false;
        while let Ok(Some(done)) = queue.pull() {
            if done.user == GONE {
                is_gone = done.result.is_ok();
                continue;
            }
            // The operations of a plan are of one kind.
            let stands = done.result.map(|id| (!is_destroy).then_some(id));
            let is_gone = std::mem::take(&mut is_gone);
            results.push((done.user as usize, CallResult { stands, is_gone }));
        }
    }

    fn commit(&mut self) -> Option<Result<(), RuleError>> {
        let NicRules::Transaction(transaction) = self else { return None };
        transaction.take().map(Transaction::commit)
    }

    fn end(self) -> bool {
        match self {
            NicRules::Single(_) | NicRules::Transaction(None) => true,
            NicRules::Queue { nic, queue, tables } => {
                drop(queue);
                nic.serve(0);
                // They are this control's own and known to the NIC.
                let _ = tables.map(|tables| tables.destroy(nic));
                true
            }
            NicRules::Transaction(Some(_)) => false,
        }
    }
}

/// Template tables for the rules of a plan, one a mask, and the numbers that each rule gives.
pub(super) struct TemplateTables {
    of: Vec<(Key, TemplateTable)>,
    given: Vec<u32>,
}

impl TemplateTables {
    /// Tables for rules such as these, which have the same actions; `None` where there are none.
    pub(super) fn of(
        samples: &[PlannedRule<'_>],
        nic: &mut Nic,
    ) -> Result<Option<TemplateTables>, RuleError> {
        let Some(first) = samples.first() else { return Ok(None) };
        let mut given = Vec::new();
        let varied = first.actions.iter().map(|action| match action {
            Action::Queue(queue) => {
                given.push(u32::from(*queue));
                TemplateAction::Queue
            }
            other => TemplateAction::Same(other.clone()),
        });
        let actions: Vec<TemplateAction> = varied.collect();
        let mut tables = TemplateTables { of: Vec::new(), given };
        for rule in samples {
            let (group, priority, pattern) = (rule.group, rule.priority, rule.pattern());
            if tables.of.iter().all(|(mask, _)| mask != pattern.mask()) {
                let mask = *pattern.mask();
                let template = Template { group, priority, pattern, actions: &actions };
                tables.of.push((mask, nic.template_table(&template)?));
            }
        }
        Ok(Some(tables))
    }

    /// A rule by the table of its mask.
    #[inline]
    pub(super) fn rule(&self, pattern: &Pattern) -> Result<TemplateRule, RuleError> {
        let table = self.of.iter().find(|(mask, _)| mask == pattern.mask());
        table.ok_or(RuleError::TemplateUnknown)?.1.rule(pattern.value(), &self.given)
    }

    /// The actions of a rule, whatever its mask is.
    #[inline]
    pub(super) fn actions(&self) -> Result<TemplateActions, RuleError> {
        self.of.first().ok_or(RuleError::TemplateUnknown)?.1.actions(&self.given)
    }

    /// Takes them out of the card.
    pub(super) fn destroy(self, nic: &mut Nic) -> Result<(), RuleError> {
        self.of.iter().try_for_each(|(_, table)| nic.destroy_template_table(table))
    }
}

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
