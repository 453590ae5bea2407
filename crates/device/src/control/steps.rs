//! The single operations of a plan.

use niclab_nic::rule::Action;

use super::{InstalledBlock, Patterns, PlannedRule, RuleOperation, bad};
use crate::face::DeviceError;
use crate::plan::{CallMode, OPERATIONS_PER_S_MAX, RuleChangeKind, RuleWork, RulesPlan};

/// Rules that [`Steps::samples`] has, beside the last.
const SAMPLES_MAX: usize = 16;

/// The operations of a plan, and the rules that stand where it works.
pub struct Steps<'a, I> {
    kind: StepKind<'a, I>,
    /// One place a rule. Each operation is on the next place, and after the last on the first.
    ids: Vec<Option<I>>,
    count: usize,
    /// From one operation to the next, where each is due at its own moment.
    interval_ns: Option<f64>,
}

enum StepKind<'a, I> {
    Create { group: u32, priority: u32, patterns: &'a Patterns, actions: &'a [Action] },
    Change { block: &'a InstalledBlock<I>, patterns: &'a Patterns, change: &'a RuleChangeKind },
    Renew { block: &'a InstalledBlock<I>, patterns: &'a Patterns },
    Destroy,
}

impl<'a, I: Copy + PartialEq> Steps<'a, I> {
    /// Those of a plan that has `for_ns` to be carried out. `patterns` are those of the rules that
    /// it creates ([`Patterns::of_plan`]), `blocks` those of the set-up.
    ///
    /// # Errors
    /// [`DeviceError::BadPlan`] for a plan that does not fit the set-up or names a number that is
    /// out of range; [`DeviceError::NotSupported`] for changes of what rules match through a queue.
    pub fn of(
        plan: &'a RulesPlan,
        patterns: Option<&'a Patterns>,
        blocks: &'a [InstalledBlock<I>],
        for_ns: u64,
    ) -> Result<Steps<'a, I>, DeviceError> {
        let standing = |at: usize| match blocks.get(at) {
            None => Err(bad(format!("block {at}: the set-up has {}", blocks.len()))),
            Some(block) => match block.patterns() {
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
        let of = |kind, ids: Vec<Option<I>>| {
            let count = ids.len();
            Steps { kind, ids, count, interval_ns }
        };
        let ids = |block: &InstalledBlock<I>| block.ids().iter().copied().map(Some).collect();
        match &plan.work {
            RuleWork::Create(block) => {
                let patterns = patterns.ok_or_else(|| bad("its rules have no patterns".into()))?;
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
    pub fn destroying(ids: Vec<Option<I>>) -> Steps<'a, I> {
        let ids: Vec<Option<I>> = ids.into_iter().filter(Option::is_some).collect();
        Steps { kind: StepKind::Destroy, count: ids.len(), ids, interval_ns: None }
    }

    /// Operations in all.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Operations after which a place comes again.
    pub fn places(&self) -> usize {
        self.ids.len().max(1)
    }

    /// From one operation to the next, where each is due at its own moment.
    pub(super) fn interval_ns(&self) -> Option<f64> {
        self.interval_ns
    }

    /// The operation at this place; `None` where the rule is not there that it is on.
    pub fn at(&self, at: usize) -> Option<RuleOperation<'a, I>> {
        let places = self.places();
        let old = self.ids.get(at % places).copied().flatten();
        let planned = |(group, priority, actions), patterns, at| PlannedRule {
            group,
            priority,
            actions,
            patterns,
            at,
            is_wide: false,
        };
        match &self.kind {
            StepKind::Create { group, priority, patterns, actions } => {
                let rule = planned((*group, *priority, *actions), *patterns, at);
                Some(RuleOperation::Create(rule))
            }
            StepKind::Destroy => old.map(RuleOperation::Destroy),
            StepKind::Renew { block, patterns } => {
                // The set-up has the first half of the flows.
                let rule = planned(block.place(), *patterns, (places + at) % (2 * places));
                old.map(|old| RuleOperation::Renew(old, rule))
            }
            StepKind::Change { block, patterns, change } => {
                let (group, priority, own) = block.place();
                let rule =
                    |priority, actions, at| planned((group, priority, actions), patterns, at);
                old.map(|old| match change {
                    RuleChangeKind::Actions(actions) => {
                        RuleOperation::Update(old, rule(priority, actions, at))
                    }
                    RuleChangeKind::Values => {
                        RuleOperation::Modify(old, rule(priority, own, places + at))
                    }
                    RuleChangeKind::Mask => {
                        let rule = PlannedRule { is_wide: true, ..rule(priority, own, at) };
                        RuleOperation::Modify(old, rule)
                    }
                    RuleChangeKind::Priority(priority) => {
                        RuleOperation::Modify(old, rule(*priority, own, at))
                    }
                    RuleChangeKind::Anew(actions) => {
                        RuleOperation::Renew(old, rule(priority, actions, at))
                    }
                })
            }
        }
    }

    /// The rule that stands at an operation's place now.
    pub(super) fn set_rule(&mut self, at: usize, id: Option<I>) {
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
                self.ids = block.ids().iter().copied().map(Some).collect();
            }
            StepKind::Destroy => {}
        }
    }

    /// The rules that stand there in the end.
    pub(super) fn into_ids(self) -> Vec<Option<I>> {
        self.ids
    }

    /// The rules of the set-up that the operations are on, as they are before the first.
    pub fn rules_before(&self) -> impl Iterator<Item = (I, PlannedRule<'a>)> {
        let block = match &self.kind {
            StepKind::Change { block, .. } | StepKind::Renew { block, .. } => Some(*block),
            StepKind::Create { .. } | StepKind::Destroy => None,
        };
        block.into_iter().flat_map(InstalledBlock::rules)
    }

    /// Some of the rules that the operations bring, for templates: the first ones and the last.
    /// Empty where none brings a rule.
    pub fn samples(&self) -> Vec<PlannedRule<'a>> {
        let ((group, priority, actions), patterns) = match &self.kind {
            StepKind::Destroy => return Vec::new(),
            StepKind::Create { group, priority, patterns, actions } => {
                ((*group, *priority, *actions), *patterns)
            }
            // The table that its rules are in, so that the card has no other than without a plan.
            StepKind::Renew { block, patterns } => (block.place(), *patterns),
            StepKind::Change { block, patterns, change } => {
                let (group, priority, own) = block.place();
                let actions = match change {
                    RuleChangeKind::Actions(actions) | RuleChangeKind::Anew(actions) => actions,
                    RuleChangeKind::Values | RuleChangeKind::Mask | RuleChangeKind::Priority(_) => {
                        own
                    }
                };
                ((group, priority, actions), *patterns)
            }
        };
        let places = (0..patterns.len().min(SAMPLES_MAX)).chain(patterns.len().checked_sub(1));
        let rule = |at| PlannedRule { group, priority, actions, patterns, at, is_wide: false };
        places.map(rule).collect()
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
