//! The single operations of a plan on the soft device.

use niclab_nic::rule::{Action, Pattern, Rule};
use niclab_nic::{
    Nic, RuleError, RuleId, Template, TemplateAction, TemplateActions, TemplateRule, TemplateTable,
};
use niclab_packet::key::Key;

use super::control::bad;
use super::{InstalledBlock, Patterns};
use crate::face::DeviceError;
use crate::plan::{CallMode, OPERATIONS_PER_S_MAX, RuleChangeKind, RuleWork, RulesPlan};

/// One operation.
pub(super) enum RuleOperation<'a> {
    Create(Rule<'a>),
    Update(RuleId, &'a [Action]),
    Modify(RuleId, Rule<'a>),
    Destroy(RuleId),
    /// This rule goes, that one comes.
    Renew(RuleId, Rule<'a>),
}

/// Template tables for the rules of a plan, one a mask, and the numbers that each rule gives.
pub(super) struct TemplateTables {
    of: Vec<(Key, TemplateTable)>,
    given: Vec<u32>,
}

impl TemplateTables {
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

/// Patterns that are looked at for their masks, beside the last.
const MASKED_MAX: usize = 16;

/// The operations of a plan, and the rules that stand where it works.
pub(super) struct Steps<'a> {
    kind: StepKind<'a>,
    /// One place a rule. Each operation is on the next place, and after the last on the first.
    ids: Vec<Option<RuleId>>,
    count: usize,
    /// From one operation to the next, where each is due at its own moment.
    interval_ns: Option<f64>,
}

enum StepKind<'a> {
    Create { group: u32, priority: u32, patterns: Patterns, actions: &'a [Action] },
    Change { block: &'a InstalledBlock, patterns: &'a Patterns, change: &'a RuleChangeKind },
    Renew { block: &'a InstalledBlock, patterns: &'a Patterns },
    Destroy,
}

impl<'a> Steps<'a> {
    /// Those of a plan that has `for_ns` to be carried out.
    pub(super) fn of(
        plan: &'a RulesPlan,
        blocks: &'a [InstalledBlock],
        for_ns: u64,
    ) -> Result<Steps<'a>, DeviceError> {
        let standing = |at: usize| match blocks.get(at) {
            None => Err(bad(format!("block {at}: the set-up has {}", blocks.len()))),
            Some(block) => match &block.patterns {
                Some(patterns) => Ok((block, patterns)),
                None => Err(bad(format!("block {at}: the rules of a file are not changed"))),
            },
        };
        let interval_ns = match plan.per_s {
            None => None,
            Some(per_s) if (1..=OPERATIONS_PER_S_MAX).contains(&per_s) => {
                Some(1e9 / f64::from(per_s))
            }
            Some(per_s) => {
                return Err(bad(format!("per_s {per_s}: use 1 to {OPERATIONS_PER_S_MAX}")));
            }
        };
        let of = |kind, ids: Vec<Option<RuleId>>| {
            let count = ids.len();
            Steps { kind, ids, count, interval_ns }
        };
        let ids = |block: &InstalledBlock| block.ids.iter().copied().map(Some).collect();
        match &plan.work {
            RuleWork::Create(block) => {
                let patterns = Patterns::of(block)?;
                let (group, priority, actions) = block.place().unwrap_or((0, 0, &[]));
                let places = vec![None; patterns.len()];
                Ok(of(StepKind::Create { group, priority, patterns, actions }, places))
            }
            RuleWork::Change { block: at, change } => {
                let (block, patterns) = standing(*at)?;
                if *change == RuleChangeKind::Values {
                    has_room(*at, patterns)?;
                }
                if *change == RuleChangeKind::Mask && !matches!(patterns, Patterns::FiveTuples(..))
                {
                    return Err(bad(format!("block {at}: a mask is changed of flows alone")));
                }
                let whole = matches!(
                    change,
                    RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_)
                );
                if whole && plan.calls == CallMode::Queue {
                    let capability = "changes of what rules match through an operation queue";
                    return Err(DeviceError::lacks(capability));
                }
                Ok(of(StepKind::Change { block, patterns, change }, ids(block)))
            }
            RuleWork::Renew { block: at } => {
                let (block, patterns) = standing(*at)?;
                has_room(*at, patterns)?;
                if plan.calls == CallMode::Transaction {
                    let reason = "rules are renewed as long as the load lasts, and a transaction \
                                  has an end: use single calls or a queue";
                    return Err(bad(reason.to_owned()));
                }
                let each_ns = interval_ns.ok_or_else(|| {
                    bad("per_s: rules are renewed at a rate, and there is none".to_owned())
                })?;
                let count = (for_ns as f64 / each_ns) as usize;
                Ok(Steps { count, ..of(StepKind::Renew { block, patterns }, ids(block)) })
            }
        }
    }

    /// The end of rules.
    pub(super) fn destroying(ids: Vec<Option<RuleId>>) -> Steps<'a> {
        let ids: Vec<Option<RuleId>> = ids.into_iter().filter(Option::is_some).collect();
        Steps { kind: StepKind::Destroy, count: ids.len(), ids, interval_ns: None }
    }

    /// Operations in all.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Operations after which a place comes again.
    pub(super) fn places(&self) -> usize {
        self.ids.len().max(1)
    }

    /// `true` where the operations leave no rule.
    pub(super) fn only_destroys(&self) -> bool {
        matches!(self.kind, StepKind::Destroy)
    }

    /// From one operation to the next, where each is due at its own moment.
    pub(super) fn interval_ns(&self) -> Option<f64> {
        self.interval_ns
    }

    /// The operation at this place; `None` where the rule is not there that it is on.
    pub(super) fn at(&self, at: usize) -> Option<RuleOperation<'a>> {
        let places = self.places();
        let old = self.ids.get(at % places).copied().flatten();
        match &self.kind {
            StepKind::Create { group, priority, patterns, actions } => {
                let (group, priority) = (*group, *priority);
                Some(RuleOperation::Create(Rule {
                    group,
                    priority,
                    pattern: patterns.get(at),
                    actions,
                }))
            }
            StepKind::Destroy => old.map(RuleOperation::Destroy),
            StepKind::Renew { block, patterns } => {
                // The set-up has the first half of the flows.
                let pattern = patterns.get((places + at) % (2 * places));
                let (group, priority, actions) = (block.group, block.priority, &block.actions);
                old.map(|old| RuleOperation::Renew(old, Rule { group, priority, pattern, actions }))
            }
            StepKind::Change { block, patterns, change } => {
                let rule = |priority, pattern, actions| Rule {
                    group: block.group,
                    priority,
                    pattern,
                    actions,
                };
                let (priority, own) = (block.priority, &block.actions[..]);
                old.map(|old| match change {
                    RuleChangeKind::Actions(actions) => RuleOperation::Update(old, actions),
                    RuleChangeKind::Values => {
                        RuleOperation::Modify(old, rule(priority, patterns.get(places + at), own))
                    }
                    RuleChangeKind::Mask => {
                        RuleOperation::Modify(old, rule(priority, patterns.wider(at), own))
                    }
                    RuleChangeKind::Priority(priority) => {
                        RuleOperation::Modify(old, rule(*priority, patterns.get(at), own))
                    }
                    RuleChangeKind::Anew(actions) => {
                        RuleOperation::Renew(old, rule(priority, patterns.get(at), actions))
                    }
                })
            }
        }
    }

    /// The rule that stands at an operation's place now.
    pub(super) fn set_rule(&mut self, at: usize, id: Option<RuleId>) {
        let places = self.places();
        if let Some(place) = self.ids.get_mut(at % places) {
            *place = id;
        }
    }

    /// Nothing of it was done.
    pub(super) fn take_back(&mut self) {
        match &self.kind {
            StepKind::Create { .. } => self.ids.fill(None),
            StepKind::Change { block, .. } | StepKind::Renew { block, .. } => {
                self.ids = block.ids.iter().copied().map(Some).collect();
            }
            StepKind::Destroy => {}
        }
    }

    /// The rules that stand there in the end.
    pub(super) fn into_ids(self) -> Vec<Option<RuleId>> {
        self.ids
    }

    /// Template tables for all operations; `None` where none brings a rule.
    pub(super) fn tables(&self, nic: &mut Nic) -> Result<Option<TemplateTables>, RuleError> {
        let (group, priority, patterns, actions) = match &self.kind {
            StepKind::Destroy => return Ok(None),
            StepKind::Create { group, priority, patterns, actions } => {
                (*group, *priority, patterns, *actions)
            }
            // The table that its rules are in, so that the card has no other than without a plan.
            StepKind::Renew { block, patterns } => {
                (block.group, block.priority, *patterns, &block.actions[..])
            }
            StepKind::Change { block, patterns, change } => {
                let actions = match change {
                    RuleChangeKind::Actions(actions) | RuleChangeKind::Anew(actions) => actions,
                    RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_) => {
                        &block.actions
                    }
                };
                (block.group, block.priority, *patterns, &actions[..])
            }
        };
        let mut given = Vec::new();
        let varied = actions.iter().map(|action| match action {
            Action::Queue(queue) => {
                given.push(u32::from(*queue));
                TemplateAction::Queue
            }
            other => TemplateAction::Same(other.clone()),
        });
        let actions: Vec<TemplateAction> = varied.collect();
        let mut tables = TemplateTables { of: Vec::new(), given };
        let last = patterns.len().checked_sub(1);
        for at in (0..patterns.len().min(MASKED_MAX)).chain(last) {
            let pattern = patterns.get(at);
            if tables.of.iter().all(|(mask, _)| mask != pattern.mask()) {
                let mask = *pattern.mask();
                let template = Template { group, priority, pattern, actions: &actions };
                tables.of.push((mask, nic.template_table(&template)?));
            }
        }
        Ok(Some(tables))
    }
}

/// Refuses a block that has no second half of flows to go on with.
fn has_room(at: usize, patterns: &Patterns) -> Result<(), DeviceError> {
    let (count, flows) = (patterns.len(), patterns.flows());
    if count > 0 && 2 * count <= flows {
        return Ok(());
    }
    Err(bad(format!("block {at}: {count} rules of {flows} flows; it takes twice as many flows")))
}
