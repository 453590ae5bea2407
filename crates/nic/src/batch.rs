//! Bulk operations: while earlier operations run, the memory of later ones is prefetched.
//!
//! A single operation on a large NIC mostly waits for memory: for the rule's record and its entry,
//! or for its key, the tags of the key's home group and the entry. Each of these says where the
//! next one is. In bulk, each later operation has already taken some of these steps, so that their
//! cache misses overlap.

use niclab_table::prefetch;

use crate::control::{Nic, RuleId};
use crate::error::{Refused, RuleError};
use crate::groups::MaskId;
use crate::mask::StoredKey;
use crate::priority_list::Target;
use crate::rule::{Action, Rule};
use crate::template::{TemplateActions, TemplateRule};

/// How many operations ahead the record or the tags are prefetched, and then the entry.
const FIRST: usize = 16;
const THEN: usize = 8;

/// One operation on rules.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// [`Nic::create`].
    Create(&'a Rule<'a>),
    /// [`Nic::create_in`].
    CreateIn(TemplateRule),
    /// [`Nic::destroy`].
    Destroy(RuleId),
    /// [`Nic::modify`].
    Modify(RuleId, &'a Rule<'a>),
    /// [`Nic::update`].
    Update(RuleId, &'a [Action]),
    /// [`Nic::update_in`].
    UpdateIn(RuleId, TemplateActions),
}

impl Nic {
    /// Carries out operations in order, each by itself: a refused operation does not stop the
    /// others. Calls `done` for each operation, in order, with the rule or the reason of the
    /// refusal.
    ///
    /// Has the same effect as single calls, and is faster. Packets see the changes one by one; use
    /// a transaction if they are to see all at once.
    pub fn run(
        &mut self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(Result<RuleId, RuleError>),
    ) {
        self.run_each(operations, |operation| operation, |_, result| done(result));
    }

    /// [`Nic::run`] for the operations of these entries; `done` also gets the entry.
    pub(crate) fn run_each<'a, T>(
        &mut self,
        entries: &[T],
        operation: impl Fn(&T) -> &Operation<'a>,
        mut done: impl FnMut(&T, Result<RuleId, RuleError>),
    ) {
        // Targets of the rules that are created at most `FIRST` operations later.
        let mut targets = std::mem::take(&mut self.targets_ahead);
        targets.resize_with(FIRST, Target::default);
        let mut creates = 0;
        for at in 0..entries.len() + FIRST {
            if let Some(now) = at.checked_sub(FIRST) {
                let (entry, target) = (&entries[now], &targets[now % FIRST]);
                let operation = operation(entry);
                creates -= usize::from(operation.rule().is_none());
                done(entry, self.carry_out(operation, target).map_err(RuleError::from));
            }
            if let Some(operation) = entries.get(at).map(&operation) {
                self.fetch_first(operation, &mut targets[at % FIRST], creates);
                creates += usize::from(operation.rule().is_none());
            }
            let then = (at + THEN).checked_sub(FIRST).filter(|&at| at < entries.len());
            if let Some(then) = then {
                self.fetch_then(operation(&entries[then]), &targets[then % FIRST]);
            }
        }
        self.targets_ahead = targets;
    }

    fn carry_out(&mut self, operation: &Operation<'_>, target: &Target) -> Result<RuleId, Refused> {
        match *operation {
            // Another mask may have got this number since.
            Operation::Create(rule)
                if target.mask_id.is_some_and(|mask_id| self.is_mask_of(mask_id, rule)) =>
            {
                self.create_at(rule.spec(), target)
            }
            Operation::Create(rule) => {
                let target = self.target(rule);
                self.create_at(rule.spec(), &target)
            }
            Operation::CreateIn(ref rule) => self.create_filled(rule),
            Operation::Destroy(id) => self.destroy_rule(id).map(|()| id),
            Operation::Modify(id, rule) => Ok(self.modify(id, rule).map(|()| id)?),
            Operation::Update(id, actions) => self.update_actions(id, actions).map(|()| id),
            Operation::UpdateIn(id, ref actions) => self.update_filled(id, actions).map(|()| id),
        }
    }

    /// Prefetches what a later operation reads first: its record, or the tags of its key. `creates`
    /// is the number of creates between the current operation and this one.
    #[inline]
    fn fetch_first(&mut self, operation: &Operation<'_>, target: &mut Target, creates: usize) {
        match operation {
            Operation::Create(rule) => {
                *target = self.target(rule);
                self.prefetch_tags(target);
                self.fetch_index(creates);
            }
            Operation::CreateIn(rule) => {
                if self.has_template(rule.table_id) {
                    self.prefetch_tags(&rule.target);
                }
                self.fetch_index(creates);
            }
            Operation::Destroy(id)
            | Operation::Modify(id, _)
            | Operation::Update(id, _)
            | Operation::UpdateIn(id, _) => {
                self.records.get(id.index() as usize).into_iter().for_each(prefetch);
            }
        }
    }

    /// Prefetches the record and the order of an index that will be reused soon.
    #[inline]
    fn fetch_index(&self, ahead: usize) {
        if let Some(index) = self.free_indices.upcoming(ahead) {
            self.records.get(index as usize).into_iter().for_each(prefetch);
            self.shared.orders.get(index).into_iter().for_each(prefetch);
        }
    }

    /// Prefetches what the operation reads next: its entry.
    #[inline]
    fn fetch_then(&mut self, operation: &Operation<'_>, target: &Target) {
        match *operation {
            Operation::Create(rule) => {
                // Another mask may have got this number since.
                if target.mask_id.is_some_and(|mask_id| self.is_mask_of(mask_id, rule)) {
                    self.prefetch_entry(target);
                }
            }
            Operation::CreateIn(ref rule) => {
                if self.has_template(rule.table_id) {
                    self.prefetch_entry(&rule.target);
                }
            }
            Operation::Update(id, _) | Operation::UpdateIn(id, _) => {
                if let Some((mask_id, stored)) = self.stored_key_of(id) {
                    self.groups.mask(mask_id).prefetch_value(stored);
                }
            }
            Operation::Destroy(id) | Operation::Modify(id, _) => {
                if let Some((mask_id, stored)) = self.stored_key_of(id) {
                    self.groups.mask(mask_id).prefetch_removal(stored);
                }
            }
        }
    }

    /// The mask and the stored key of a rule.
    #[inline]
    fn stored_key_of(&self, id: RuleId) -> Option<(MaskId, StoredKey)> {
        self.live_record(id).map(|record| (record.mask_id, record.key))
    }
}

impl Operation<'_> {
    /// The rule that the operation changes.
    fn rule(&self) -> Option<RuleId> {
        match *self {
            Operation::Create(_) | Operation::CreateIn(_) => None,
            Operation::Destroy(id)
            | Operation::Modify(id, _)
            | Operation::Update(id, _)
            | Operation::UpdateIn(id, _) => Some(id),
        }
    }
}
