//! Transactions: any number of operations that packets see at one instant.
//!
//! Within a transaction every operation works on the newest state, so that a later one may undo
//! what an earlier one did; workers see none of it before [`Transaction::commit`], which is one
//! store. An operation that is refused changes nothing, and the transaction can go on without it or
//! be dropped, which takes all of it back.

use std::sync::atomic::Ordering;

use niclab_table::is_reference;

use crate::age::Age;
use crate::chain::{Target, order_of};
use crate::control::{Nic, Record, RuleId};
use crate::counters::Counts;
use crate::error::{Refused, RuleError};
use crate::limits::PRIORITY_MAX;
use crate::rss::Rss;
use crate::rule::{Action, Rule};
use crate::settle::{Leftover, all_of};
use crate::template::{TemplateActions, TemplateRule};
use crate::word::{Fate, Word};

/// A step of the open transaction, for taking it back.
#[derive(Clone, Copy)]
pub(crate) enum Logged {
    /// A rule was put into its chain; `fresh` if it was created, else it came from another chain.
    Linked { index: u32, fresh: bool },
    /// A rule was taken out of its chain; `gone` if it was destroyed.
    Unlinked { index: u32, old: Record, gone: bool },
    /// A rule began to age; when it had met its last packet before, and when it began.
    Aged { index: u32, former_ns: u64, begun_ns: u64 },
    /// Packets that no rule matches met another end.
    Isolated { old: u64 },
    /// The port's RSS is another than in the context of this number.
    Spread { old: u16 },
    /// A rule got another word.
    Updated { index: u32, old: Word },
}

/// Operations that become visible at once; see [`Nic::transaction`].
///
/// Dropping it takes everything back. The root group's limit counts the rules that live after the
/// commit, so that creates may come before the destroys that make room for them.
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

    /// Says whether [`Transaction::create`] would create this rule, and group 0 have room for it.
    ///
    /// # Errors
    /// As [`Nic::create`].
    pub fn validate(&mut self, rule: &Rule<'_>) -> Result<(), RuleError> {
        let start = self.nic.settle.noted();
        self.nic.create(rule)?;
        let fits = self.check();
        self.nic.take_back(start);
        fits
    }

    /// Whether it could be committed as it is.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn check(&self) -> Result<(), RuleError> {
        self.nic.groups.check_root().map_err(RuleError::from)
    }

    /// [`Nic::query`], without what the transaction has changed.
    ///
    /// # Errors
    /// As [`Nic::query`].
    pub fn query(&self, id: RuleId) -> Result<Counts, RuleError> {
        self.nic.query(id)
    }

    /// [`Nic::age`], of the rule as the transaction leaves it.
    ///
    /// # Errors
    /// As [`Nic::age`].
    pub fn age(&self, id: RuleId) -> Result<Option<Age>, RuleError> {
        self.nic.age(id)
    }

    /// Makes all operations visible at one instant: a burst sees all of them or none.
    ///
    /// # Errors
    /// [`RuleError::GroupFull`] if the root group would have more rules than it takes. Everything
    /// is then taken back.
    pub fn commit(self) -> Result<(), RuleError> {
        self.check()?;
        self.nic.commit();
        Ok(())
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.nic.changes.is_open() {
            self.nic.roll_back();
        }
    }
}

impl Nic {
    /// Begins a transaction.
    pub fn transaction(&mut self) -> Transaction<'_> {
        if self.changes.is_open() {
            // One that was leaked.
            self.roll_back();
        }
        self.changes.open();
        Transaction { nic: self }
    }

    /// Gives a rule another pattern, priority, group and actions at one instant: no packet meets
    /// neither or both. It keeps its id, what it has counted, and its place among rules of its
    /// priority. By itself it is a transaction of one.
    ///
    /// # Errors
    /// As [`Nic::create`] and [`Nic::update`]; nothing is then changed.
    pub fn modify(&mut self, id: RuleId, rule: &Rule<'_>) -> Result<(), RuleError> {
        let target = self.target(rule);
        if self.changes.is_open() {
            let modified = self.modify_open(id, rule, &target, false).map_err(RuleError::from);
            self.tend();
            return modified;
        }
        if self.modify_priority(id, rule, &target) {
            return Ok(());
        }
        let transaction = self.transaction();
        transaction.nic.modify_open(id, rule, &target, true)?;
        transaction.commit()
    }

    /// Gives a rule that has its key for itself another priority and leaves the rest as it is: one
    /// store. Whether it did; nothing is changed otherwise.
    fn modify_priority(&mut self, id: RuleId, rule: &Rule<'_>, target: &Target) -> bool {
        let Some(old) = self.live_record(id).copied() else { return false };
        if target.seat != Some(old.seat) || rule.priority > PRIORITY_MAX || old.next.is_some() {
            return false;
        }
        let (index, fate) = (id.index(), self.plain_fate(rule.actions));
        if fate.is_none_or(|fate| old.word != Word::new(fate, false, index)) {
            return false;
        }
        let mask = self.groups.mask(old.seat);
        if !mask.has(old.kept, &target.key) || mask.word_at(old.kept) != old.word.0 {
            return false;
        }
        let [order] = self.board.orders.reach(index);
        if is_reference(order.load(Ordering::Relaxed)) {
            return false;
        }
        let order = order_of(rule.priority, old.order);
        self.groups.admit(old.seat, &target.key, order);
        self.set_order(index, order);
        self.groups.publish();
        self.records[index as usize].order = order;
        self.tend();
        true
    }

    /// As the next operation of the open transaction, or as its only one: that is neither taken
    /// back nor followed by another, and nothing is logged.
    fn modify_open(
        &mut self,
        id: RuleId,
        rule: &Rule<'_>,
        target: &Target,
        is_only: bool,
    ) -> Result<(), Refused> {
        let (index, old) = (id.index(), self.record(id)?);
        let checked = self.check(rule.wanted())?;
        self.check_cells()?;
        let start = self.settle.noted();
        self.unlink(index, &old);
        self.groups.retire(old.seat);
        let moved = self.enter(index, rule.wanted(), checked, target, &old);
        match (&moved, is_only) {
            (Ok(()), true) => {
                self.settle.leave(Leftover { index: None, ..all_of(index, &old) });
            }
            (Ok(()), false) => {
                self.note(Logged::Unlinked { index, old, gone: false });
                self.note(Logged::Linked { index, fresh: false });
            }
            (Err(_), _) => {
                self.take_back(start);
                self.groups.revive(old.seat);
                self.relink(index, old);
            }
        }
        moved
    }

    /// Logs a step of the open transaction; of a single operation, lets go of what it leaves.
    #[inline]
    pub(crate) fn note(&mut self, step: Logged) {
        if self.changes.is_open() {
            self.settle.note(step);
        } else if let Some(leftover) = left_by(&step) {
            self.discard(leftover);
        }
    }

    fn commit(&mut self) {
        let stamp = self.changes.commit();
        self.put_off(stamp);
        self.tend();
    }

    fn roll_back(&mut self) {
        self.take_back(0);
        self.restore_open();
    }

    /// Takes the steps of the open transaction from `start` on back, the last first.
    fn take_back(&mut self, start: usize) {
        while self.settle.noted() > start
            && let Some(step) = self.settle.take_noted()
        {
            match step {
                Logged::Linked { index, fresh } => {
                    let record = self.records[index as usize];
                    self.unlink(index, &record);
                    self.groups.retire(record.seat);
                    if fresh {
                        self.bury(index);
                    }
                    let whole = all_of(index, &record);
                    let index = whole.index.filter(|_| fresh);
                    self.settle.leave(Leftover { index, ..whole });
                }
                Logged::Unlinked { index, old, gone } => {
                    self.groups.revive(old.seat);
                    self.relink(index, old);
                    self.live += u32::from(gone);
                }
                Logged::Aged { index, former_ns, begun_ns } => {
                    self.restore_age(index, former_ns, begun_ns);
                }
                Logged::Isolated { old } => self.set_misses(old),
                Logged::Spread { old } => {
                    let leftover = self.restore_rss(old);
                    self.settle.leave(leftover);
                }
                Logged::Updated { index, old } => {
                    let record = self.records[index as usize];
                    let (fate, seat) = (record.word.fate(), None);
                    self.records[index as usize].word = old;
                    self.show_if_first(index, &record, old);
                    self.settle.leave(Leftover { fate, seat, index: None });
                }
            }
        }
    }
}

/// What is left of a rule as it was before a step, once the step holds.
pub(crate) fn left_by(step: &Logged) -> Option<Leftover> {
    match step {
        Logged::Aged { .. } | Logged::Linked { .. } | Logged::Isolated { .. } => None,
        Logged::Unlinked { index, old, gone } => {
            let whole = all_of(*index, old);
            Some(Leftover { index: whole.index.filter(|_| *gone), ..whole })
        }
        Logged::Spread { old } => Some(Leftover { fate: Fate::Rss(*old), seat: None, index: None }),
        Logged::Updated { old, .. } => match old.fate() {
            fate @ (Fate::Jump(_) | Fate::Program(_) | Fate::Rss(_)) => {
                Some(Leftover { fate, seat: None, index: None })
            }
            Fate::Queue(_) | Fate::Drop | Fate::Port(_) => None,
        },
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
