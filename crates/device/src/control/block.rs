//! The rules of a block that stand in a device.

use std::time::Instant;

use niclab_nic::rule::Action;

use super::{CallResult, Patterns, PlannedRule, RuleOperation, RuleTarget};
use crate::face::{DeviceError, RuleBlock, SetupReport};

/// Operations that are prepared at most before they are carried out, so that only the calls are
/// timed.
pub const PREPARED_MAX: usize = 1_024;

/// The rules of a block, in the order of their patterns.
pub struct InstalledBlock<I> {
    group: u32,
    priority: u32,
    /// None of a file.
    patterns: Option<Patterns>,
    /// As many as the device took.
    ids: Vec<I>,
    actions: Vec<Action>,
}

impl<I> Default for InstalledBlock<I> {
    fn default() -> InstalledBlock<I> {
        let (patterns, ids, actions) = (None, Vec::new(), Vec::new());
        InstalledBlock { group: 0, priority: 0, patterns, ids, actions }
    }
}

impl<I: Copy + PartialEq> InstalledBlock<I> {
    /// Creates the rules of a block one by one; a file has none here. The first refusal ends it:
    /// the rest counts as refused, too.
    ///
    /// # Errors
    /// As [`Patterns::of`].
    pub fn install<T>(
        block: &RuleBlock,
        mut target: T,
        report: &mut SetupReport,
    ) -> Result<InstalledBlock<I>, DeviceError>
    where
        T: for<'b> RuleTarget<'b, Id = I>,
    {
        let Some((group, priority, actions)) = block.place() else {
            return Ok(InstalledBlock::default());
        };
        let patterns = Patterns::of(block)?;
        let mut made = InstalledBlock {
            group,
            priority,
            patterns: Some(patterns),
            ids: Vec::with_capacity(block.count() as usize),
            actions: actions.to_vec(),
        };
        made.create_all(&mut target, report);
        Ok(made)
    }

    fn create_all<T>(&mut self, target: &mut T, report: &mut SetupReport)
    where
        T: for<'b> RuleTarget<'b, Id = I>,
    {
        let mut ids = std::mem::take(&mut self.ids);
        let total = self.len();
        while ids.len() < total {
            let end = total.min(ids.len() + PREPARED_MAX);
            let rules = (ids.len()..end).filter_map(|at| self.rule(at));
            let calls: Vec<_> =
                rules.map(|rule| target.prepare(RuleOperation::Create(rule))).collect();
            let begun = Instant::now();
            let refused = calls.into_iter().find_map(|call| match target.call(call).stands {
                Ok(id) => {
                    ids.extend(id);
                    None
                }
                Err(error) => Some(error),
            });
            report.install += begun.elapsed();
            if let Some(error) = refused {
                report.rules_refused += (total - ids.len()) as u64;
                report.refusal.get_or_insert_with(|| error.to_string());
                break;
            }
        }
        report.rules_installed += ids.len() as u64;
        self.ids = ids;
    }

    /// Rules that there were to be.
    fn len(&self) -> usize {
        self.patterns.as_ref().map_or(0, Patterns::len)
    }

    /// Its group, its priority and its actions.
    pub(crate) fn place(&self) -> (u32, u32, &[Action]) {
        (self.group, self.priority, &self.actions)
    }

    /// The patterns of its rules; `None` of a file.
    pub(super) fn patterns(&self) -> Option<&Patterns> {
        self.patterns.as_ref()
    }

    /// The rules that stand there.
    pub fn ids(&self) -> &[I] {
        &self.ids
    }

    /// Its rules, and their names.
    pub(super) fn rules(&self) -> impl Iterator<Item = (I, PlannedRule<'_>)> {
        self.ids.iter().enumerate().filter_map(|(at, id)| Some((*id, self.rule(at)?)))
    }

    fn rule(&self, at: usize) -> Option<PlannedRule<'_>> {
        let (group, priority, actions) = self.place();
        let patterns = self.patterns.as_ref()?;
        Some(PlannedRule { group, priority, actions, patterns, at, is_wide: false })
    }

    /// Gives the block its rules back; `ids` are those that stand in their places now.
    ///
    /// # Errors
    /// The first refusal; the device has not all of its rules then.
    pub fn restore<'a, T>(&'a mut self, target: &mut T, ids: &[Option<I>]) -> Result<(), T::Error>
    where
        T: RuleTarget<'a, Id = I>,
    {
        let InstalledBlock { group, priority, patterns, ids: own, actions } = self;
        let Some(patterns) = patterns else { return Ok(()) };
        let (group, priority, actions, patterns) = (*group, *priority, &actions[..], &*patterns);
        let mut call = |operation| {
            let call = target.prepare(operation);
            let CallResult { stands, .. } = target.call(call);
            stands
        };
        let others = ids.iter().zip(&*own).filter(|(now, then)| **now != Some(**then));
        for id in others.filter_map(|(now, _)| *now) {
            call(RuleOperation::Destroy(id))?;
        }
        for (at, (now, id)) in ids.iter().zip(own).enumerate() {
            let rule = PlannedRule { group, priority, actions, patterns, at, is_wide: false };
            let stands = match *now == Some(*id) {
                true => call(RuleOperation::Modify(*id, rule))?,
                false => call(RuleOperation::Create(rule))?,
            };
            *id = stands.unwrap_or(*id);
        }
        Ok(())
    }
}
