//! Transactions: any number of operations that packets see at one instant.
//!
//! Each operation of a transaction works on the newest state, so that a later one may undo an
//! earlier one. Workers see nothing of it before [`Transaction::commit`], which is one store. A
//! refused operation changes nothing: the transaction can go on without it, or be dropped, which
//! undoes all of it.

use std::sync::atomic::Ordering;

use niclab_table::is_reference;

use crate::action_word::{ActionWord, Fate};
use crate::age::Age;
use crate::control::{Nic, RuleId, RuleRecord};
use crate::counters::Counts;
use crate::error::{Refused, RuleError};
use crate::limits::PRIORITY_MAX;
use crate::priority_list::{Target, order_of};
use crate::reclaim::{RetiredResources, resources_of};
use crate::rss::Rss;
use crate::rule::{Action, Rule};
use crate::template::{TemplateActions, TemplateRule};

/// A step of the open transaction, as its undo log has it.
#[derive(Clone, Copy)]
pub(crate) enum LoggedStep {
    /// A rule was put into its priority list; `created` if it is new, else it came from another
    /// list.
    Linked { index: u32, created: bool },
    /// A rule was removed from its priority list; `destroyed` if it is not put into another list.
    Unlinked { index: u32, old: RuleRecord, destroyed: bool },
    /// A rule began to age; its last hit before, and when it began.
    Aged { index: u32, former_ns: u64, begun_ns: u64 },
    /// The fate of packets that no rule matches changed; the old fate.
    Isolated { old: u64 },
    /// The port's RSS changed; number of the old context.
    RssChanged { old: u16 },
    /// The action word of a rule changed; the old word.
    Updated { index: u32, old: ActionWord },
}

/// Operations that become visible at once; see [`Nic::transaction`].
///
/// Dropping it undoes everything. The root group's limit applies to the rules after the commit:
/// creates may come before the destroys that make room for them.
pub struct Transaction<'a> {
    nic: &'a mut Nic,
}

impl Transaction<'_> {
    /// [`Nic::create`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::create`]; the transaction is then as it was before this call.
    pub fn create(&mut self, rule: &Rule<'_>) -> Result<RuleId, RuleError> {
        self.nic.create(rule)
    }

    /// [`Nic::create_in`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::create_in`]; the transaction is then as it was before this call.
    pub fn create_in(&mut self, rule: &TemplateRule) -> Result<RuleId, RuleError> {
        self.nic.create_in(rule)
    }

    /// [`Nic::update_in`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::update_in`]; the transaction is then as it was before this call.
    pub fn update_in(&mut self, id: RuleId, actions: &TemplateActions) -> Result<(), RuleError> {
        self.nic.update_in(id, actions)
    }

    /// [`Nic::update`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::update`]; the transaction is then as it was before this call.
    pub fn update(&mut self, id: RuleId, actions: &[Action]) -> Result<(), RuleError> {
        self.nic.update(id, actions)
    }

    /// [`Nic::modify`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::modify`]; the transaction is then as it was before this call.
    pub fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError> {
        self.nic.modify(id, rule)
    }

    /// [`Nic::destroy`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::destroy`]; the transaction is then as it was before this call.
    pub fn destroy(&mut self, id: RuleId) -> Result<(), RuleError> {
        self.nic.destroy(id)
    }

    /// [`Nic::isolate`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::isolate`].
    pub fn isolate(&mut self, on: bool) -> Result<(), RuleError> {
        self.nic.isolate(on)
    }

    /// [`Nic::set_rss`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::set_rss`]; the transaction is then as it was before this call.
    pub fn set_rss(&mut self, rss: &Rss) -> Result<(), RuleError> {
        self.nic.set_rss(rss)
    }

    /// [`Nic::move_entries`], from the commit on.
    ///
    /// # Errors
    /// As [`Nic::move_entries`]; the transaction is then as it was before this call.
    pub fn move_entries(&mut self, entries: &[(usize, u16)]) -> Result<(), RuleError> {
        self.nic.move_entries(entries)
    }

    /// Checks that [`Transaction::create`] would create this rule and that group 0 has room for it.
    ///
    /// # Errors
    /// As [`Nic::create`].
    pub fn validate(&mut self, rule: &Rule<'_>) -> Result<(), RuleError> {
        let start = self.nic.deferred.logged_count();
        self.nic.create(rule)?;
        let fits = self.check();
        self.nic.take_back(start);
        fits
    }

    /// Checks that the transaction could be committed as it is.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn check(&self) -> Result<(), RuleError> {
        self.nic.groups.check_root().map_err(RuleError::from)
    }

    /// [`Nic::query`], without the changes of the transaction.
    ///
    /// # Errors
    /// As [`Nic::query`].
    pub fn query(&self, id: RuleId) -> Result<Counts, RuleError> {
        self.nic.query(id)
    }

    /// [`Nic::age`], with the changes of the transaction.
    ///
    /// # Errors
    /// As [`Nic::age`].
    pub fn age(&self, id: RuleId) -> Result<Option<Age>, RuleError> {
        self.nic.age(id)
    }

    /// Makes all operations visible at one instant: a burst sees all of them or none.
    ///
    /// # Errors
    /// [`RuleError::GroupFull`] if the root group would have too many rules. Everything is then
    /// undone.
    pub fn commit(self) -> Result<(), RuleError> {
        self.check()?;
        self.nic.commit();
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.nic.transactions.is_open() {
            self.nic.roll_back();
        }
    }
}

impl Nic {
    /// Begins a transaction.
    pub fn transaction(&mut self) -> Transaction<'_> {
        if self.transactions.is_open() {
            // The last transaction was leaked.
            self.roll_back();
        }
        self.transactions.open();
        Transaction { nic: self }
    }

    /// Replaces pattern, priority, group and actions of a rule at one instant: each packet matches
    /// either the old or the new rule. The rule keeps its id, its counts, and its rank among rules
    /// of its priority. By itself this is a transaction of one operation.
    ///
    /// # Errors
    /// As [`Nic::create`] and [`Nic::update`]; nothing is then changed.
    pub fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError> {
        let target = self.target(rule);
        if self.transactions.is_open() {
            let modified = self.modify_open(id, rule, &target, false).map_err(RuleError::from);
            self.reclaim_some();
            return modified;
        }
        if self.modify_priority(id, rule, &target) {
            return Ok(());
        }
        let transaction = self.transaction();
        transaction.nic.modify_open(id, rule, &target, true)?;
        transaction.commit()
    }

    /// Changes only the priority of a rule that is alone in its list: one store. False, and nothing
    /// is changed, if the rule needs more than that.
    fn modify_priority(&mut self, id: RuleId, rule: &Rule<'_>, target: &Target) -> bool {
        let Some(old) = self.live_record(id).copied() else { return false };
        if target.mask_id != Some(old.mask_id) || rule.priority > PRIORITY_MAX || old.next.is_some()
        {
            return false;
        }
        let (index, fate) = (id.index(), self.plain_fate(rule.actions));
        if fate.is_none_or(|fate| old.word != ActionWord::new(fate, false, index)) {
            return false;
        }
        let mask = self.groups.mask(old.mask_id);
        if !mask.has(old.key, &target.key) || mask.word_at(old.key) != old.word.0 {
            return false;
        }
        let [order] = self.shared.orders.ensure(index);
        if is_reference(order.load(Ordering::Relaxed)) {
            return false;
        }
        let order = order_of(rule.priority, old.order);
        self.groups.admit(old.mask_id, &target.key, order);
        self.set_order(index, order);
        self.groups.publish();
        self.records[index as usize].order = order;
        self.reclaim_some();
        true
    }

    /// Modifies a rule as the next operation of the open transaction, or as its only one. The only
    /// one is neither undone nor followed by another, so nothing is logged.
    fn modify_open(
        &mut self,
        id: RuleId,
        rule: &Rule<'_>,
        target: &Target,
        is_only: bool,
    ) -> Result<(), Refused> {
        let (index, old) = (id.index(), self.record(id)?);
        let checked = self.check(rule.spec())?;
        self.check_transaction_room()?;
        let start = self.deferred.logged_count();
        self.unlink(index, &old);
        self.groups.retire_rule(old.mask_id);
        let moved = self.insert_rule(index, rule.spec(), checked, target, &old);
        match (&moved, is_only) {
            (Ok(()), true) => {
                self.deferred.defer(RetiredResources { index: None, ..resources_of(index, &old) });
            }
            (Ok(()), false) => {
                self.log(LoggedStep::Unlinked { index, old, destroyed: false });
                self.log(LoggedStep::Linked { index, created: false });
            }
            (Err(_), _) => {
                self.take_back(start);
                self.groups.restore_rule(old.mask_id);
                self.relink(index, old);
            }
        }
        moved
    }

    /// Logs a step of the open transaction; outside a transaction, frees what the step retired.
    #[inline]
    pub(crate) fn log(&mut self, step: LoggedStep) {
        if self.transactions.is_open() {
            self.deferred.log(step);
        } else if let Some(resources) = resources_retired_by(&step) {
            self.retire(resources);
        }
    }

    fn commit(&mut self) {
        let stamp = self.transactions.commit();
        self.defer_until(stamp);
        self.reclaim_some();
    }

    fn roll_back(&mut self) {
        self.take_back(0);
        self.restore_open();
    }

    /// Undoes the steps of the open transaction from `start` on, the last first.
    fn take_back(&mut self, start: usize) {
        while self.deferred.logged_count() > start
            && let Some(step) = self.deferred.pop_logged()
        {
            match step {
                LoggedStep::Linked { index, created } => {
                    let record = self.records[index as usize];
                    self.unlink(index, &record);
                    self.groups.retire_rule(record.mask_id);
                    if created {
                        self.invalidate_id(index);
                    }
                    let whole = resources_of(index, &record);
                    let index = whole.index.filter(|_| created);
                    self.deferred.defer(RetiredResources { index, ..whole });
                }
                LoggedStep::Unlinked { index, old, destroyed } => {
                    self.groups.restore_rule(old.mask_id);
                    self.relink(index, old);
                    self.live += u32::from(destroyed);
                }
                LoggedStep::Aged { index, former_ns, begun_ns } => {
                    self.restore_age(index, former_ns, begun_ns);
                }
                LoggedStep::Isolated { old } => self.set_misses(old),
                LoggedStep::RssChanged { old } => {
                    let resources = self.restore_rss(old);
                    self.deferred.defer(resources);
                }
                LoggedStep::Updated { index, old } => {
                    let record = self.records[index as usize];
                    let (fate, mask_id) = (record.word.fate(), None);
                    self.records[index as usize].word = old;
                    self.update_if_head(index, &record, old);
                    self.deferred.defer(RetiredResources { fate, mask_id, index: None });
                }
            }
        }
    }
}

/// The resources that are freed once a step is final.
pub(crate) fn resources_retired_by(step: &LoggedStep) -> Option<RetiredResources> {
    match step {
        LoggedStep::Aged { .. } | LoggedStep::Linked { .. } | LoggedStep::Isolated { .. } => None,
        LoggedStep::Unlinked { index, old, destroyed } => {
            let whole = resources_of(*index, old);
            Some(RetiredResources { index: whole.index.filter(|_| *destroyed), ..whole })
        }
        LoggedStep::RssChanged { old } => {
            Some(RetiredResources { fate: Fate::Rss(*old), mask_id: None, index: None })
        }
        LoggedStep::Updated { old, .. } => match old.fate() {
            fate @ (Fate::Jump(_) | Fate::ActionList(_) | Fate::Rss(_)) => {
                Some(RetiredResources { fate, mask_id: None, index: None })
            }
            Fate::Queue(_) | Fate::Drop | Fate::Port(_) => None,
        },
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
