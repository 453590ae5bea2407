//! Operations in bulk: what later ones will look at is fetched while earlier ones are carried out.
//!
//! A single operation on a large NIC mostly waits for memory: for the rule's record and its entry,
//! or for its key, the tags of the key's home and the entry, each of which says where the next one
//! is. Here the operations ahead are each some steps further on that way, so that their waits
//! overlap.

use niclab_table::prefetch;

use crate::chain::Target;
use crate::control::{Nic, RuleId};
use crate::error::{Refused, RuleError};
use crate::groups::Seat;
use crate::mask::Kept;
use crate::rule::{Action, Rule};
use crate::template::{TemplateActions, TemplateRule};

/// Operations ahead whose record is fetched, or their tags, and their entry.
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
    /// Carries out operations one after the other, each by itself: what one of them is refused for
    /// keeps no other back. `done` is told of each, in order: the rule, or why not.
    ///
    /// Does what single calls do, and faster: packets meet them one by one. Use a transaction where
    /// they are to meet all at once.
    pub fn run(
        &mut self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(Result<RuleId, RuleError>),
    ) {
        self.run_each(operations, |operation| operation, |_, result| done(result));
    }

    /// [`Nic::run`] for the operations of these entries; `done` is told which entry's it was.
    pub(crate) fn run_each<'a, T>(
        &mut self,
        entries: &[T],
        operation: impl Fn(&T) -> &Operation<'a>,
        mut done: impl FnMut(&T, Result<RuleId, RuleError>),
    ) {
        // Targets of the rules that are created `FIRST` ahead or less.
        let mut targets = std::mem::take(&mut self.ahead);
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
        self.ahead = targets;
    }

    fn carry_out(&mut self, operation: &Operation<'_>, target: &Target) -> Result<RuleId, Refused> {
        match *operation {
            // Another mask may have come to the place since.
            Operation::Create(rule) if target.seat.is_some_and(|seat| self.is_seat(seat, rule)) => {
                self.create_at(rule.wanted(), target)
            }
            Operation::Create(rule) => {
                let target = self.target(rule);
                self.create_at(rule.wanted(), &target)
            }
            Operation::CreateIn(ref rule) => self.create_filled(rule),
            Operation::Destroy(id) => self.take_away(id).map(|()| id),
            Operation::Modify(id, rule) => Ok(self.modify(id, rule).map(|()| id)?),
            Operation::Update(id, actions) => self.update_actions(id, actions).map(|()| id),
            Operation::UpdateIn(id, ref actions) => self.update_filled(id, actions).map(|()| id),
        }
    }

    /// Asks for what an operation ahead looks at first: its record, or the tags of its key.
    /// `creates` are between it and the one that is carried out now.
    #[inline]
    fn fetch_first(&mut self, operation: &Operation<'_>, target: &mut Target, creates: usize) {
        match operation {
            Operation::Create(rule) => {
                *target = self.target(rule);
                self.prefetch_tags(target);
                self.fetch_index(creates);
            }
            Operation::CreateIn(rule) => {
                if self.has_template(rule.place) {
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

    /// Asks for the record and the order of an index that will be used again soon.
    #[inline]
    fn fetch_index(&self, ahead: usize) {
        if let Some(index) = self.freed.upcoming(ahead) {
            self.records.get(index as usize).into_iter().for_each(prefetch);
            self.board.orders.get(index).into_iter().for_each(prefetch);
        }
    }

    /// Asks for what it looks at then: its entry.
    #[inline]
    fn fetch_then(&mut self, operation: &Operation<'_>, target: &Target) {
        match *operation {
            Operation::Create(rule) => {
                // Another mask may have come to the seat since.
                if target.seat.is_some_and(|seat| self.is_seat(seat, rule)) {
                    self.prefetch_entry(target);
                }
            }
            Operation::CreateIn(ref rule) => {
                if self.has_template(rule.place) {
                    self.prefetch_entry(&rule.target);
                }
            }
            Operation::Update(id, _) | Operation::UpdateIn(id, _) => {
                if let Some((seat, kept)) = self.kept_of(id) {
                    self.groups.mask(seat).prefetch_kept(kept);
                }
            }
            Operation::Destroy(id) | Operation::Modify(id, _) => {
                if let Some((seat, kept)) = self.kept_of(id) {
                    self.groups.mask(seat).prefetch_taking(kept);
                }
            }
        }
    }

    /// How the key of a rule is kept.
    #[inline]
    fn kept_of(&self, id: RuleId) -> Option<(Seat, Kept)> {
        self.live_record(id).map(|record| (record.seat, record.kept))
    }
}

impl Operation<'_> {
    /// The rule it changes.
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
