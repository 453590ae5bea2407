//! Operations in bulk: what later ones will look at is fetched while earlier ones are carried out.
//!
//! A single operation on a large NIC mostly waits for memory: for the rule's record and its entry,
//! or for its key, the tags of the key's home and the entry, each of which says where the next one
//! is. Here the operations ahead are each some steps further on that way, so that their waits
//! overlap.

use niclab_table::prefetch;

use crate::chain::Target;
use crate::control::{Nic, Record, RuleId};
use crate::error::RuleError;
use crate::groups::Seat;
use crate::mask::Kept;
use crate::rule::{Action, Rule};
use crate::tables::CompactKey;

/// Operations ahead whose record is fetched, their key, their tags, and their entry.
const RECORD: usize = 24;
const KEY: usize = 18;
const TAGS: usize = 12;
const ENTRY: usize = 6;

/// One operation on rules.
#[derive(Clone, Debug)]
pub enum Operation<'a> {
    /// [`Nic::create`].
    Create(Rule<'a>),
    /// [`Nic::destroy`].
    Destroy(RuleId),
    /// [`Nic::modify`].
    Modify(RuleId, Rule<'a>),
    /// [`Nic::update`].
    Update(RuleId, &'a [Action]),
}

/// Where an operation ahead will look.
type Ahead = Option<(Seat, CompactKey)>;

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
        let mut ahead: [Ahead; TAGS] = std::array::from_fn(|_| None);
        for at in 0..operations.len() + RECORD {
            self.fetch(operations, at, &mut ahead);
            let Some(operation) = at.checked_sub(RECORD).map(|at| &operations[at]) else {
                continue;
            };
            done(match *operation {
                Operation::Create(ref rule) => self.create(rule),
                Operation::Destroy(id) => self.destroy(id).map(|()| id),
                Operation::Modify(id, ref rule) => self.modify(id, rule).map(|()| id),
                Operation::Update(id, actions) => self.update(id, actions).map(|()| id),
            });
        }
    }

    /// Takes the operations ahead of `at - RECORD` a step further.
    fn fetch(&mut self, operations: &[Operation<'_>], at: usize, ahead: &mut [Ahead; TAGS]) {
        if let Some(record) = operations.get(at).and_then(|it| self.record_of(it)) {
            prefetch(record);
        }
        let step = |distance: usize| (at + distance).checked_sub(RECORD);
        if let Some((seat, kept)) = step(KEY).and_then(|at| self.kept_of(operations.get(at)?)) {
            let mask = self.groups.mask(seat);
            mask.prefetch_kept(kept);
            mask.mask.prefetch_key(kept.place);
        }
        if let Some(at) = step(TAGS).filter(|&at| at < operations.len()) {
            let place = self.key_of(&operations[at]);
            if let Some((seat, key)) = &place {
                self.groups.mask(*seat).prefetch_tags(key);
            }
            ahead[at % TAGS] = place;
        }
        let at = step(ENTRY).filter(|&at| at < operations.len());
        if let Some((seat, key)) = at.and_then(|at| ahead[at % TAGS].take()) {
            // Another mask may have come to the place since.
            if self.groups.fits(seat, key.len()) {
                self.groups.mask(seat).prefetch_entry(&key);
            }
        }
    }

    /// The record of an operation's rule, which may be gone.
    fn record_of(&self, operation: &Operation<'_>) -> Option<&Record> {
        self.records.get(operation.rule()?.index() as usize)
    }

    /// How the key of an operation's rule is kept.
    fn kept_of(&self, operation: &Operation<'_>) -> Option<(Seat, Kept)> {
        let record = self.record(operation.rule()?).ok()?;
        Some((record.seat, record.kept))
    }

    /// The key that an operation will look for; none where it knows the entry.
    fn key_of(&mut self, operation: &Operation<'_>) -> Ahead {
        if let Operation::Create(rule) = operation {
            let Target { seat, key, .. } = self.target(rule);
            return Some((seat?, key));
        }
        let (seat, kept) = self.kept_of(operation)?;
        let mask = self.groups.mask(seat);
        let known = matches!(operation, Operation::Update(..)) && mask.knows(kept);
        (!known).then(|| (seat, mask.mask.key(kept.place)))
    }
}

impl Operation<'_> {
    /// The rule it changes.
    fn rule(&self) -> Option<RuleId> {
        match *self {
            Operation::Create(_) => None,
            Operation::Destroy(id) | Operation::Modify(id, _) | Operation::Update(id, _) => {
                Some(id)
            }
        }
    }
}
