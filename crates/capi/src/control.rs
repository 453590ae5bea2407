//! The control side of a NIC for C programs: rules by number, shared actions, ages, dumps.
//!
//! A rule's handle is a number. [`Nic`] checks it, so that a handle that is out of date is an error
//! and never another rule. A rule that an operation queue creates gets its handle before it exists;
//! such a handle names a slot, which has the rule once the operation was carried out.

use std::collections::HashMap;
use std::fmt::Write;

use arrayvec::ArrayVec;
use niclab_nic::limits::{ACTIONS_MAX, RULES_MAX};
use niclab_nic::rule::{Action, Rule};
use niclab_nic::{Age, Counts, Nic, Operation, RuleError, RuleId};

use crate::failure::{Failure, FailurePart};
use crate::shapes::{Compiled, ItemBytes, PatternShapes};
use crate::shared_actions::SharedActions;

/// Marks a handle that names a slot; [`RuleId::to_bits`] leaves this bit 0.
const SLOT: u64 = 1 << 31;
/// A slot that no rule has.
const VACANT: u64 = 0;

/// Where a rule stands: group and priority.
#[derive(Clone, Copy, Debug)]
pub struct RulePosition {
    /// Group.
    pub group: u32,
    /// Priority.
    pub priority: u32,
}

/// The actions of a rule as a program gives them.
#[derive(Clone, Debug, Default)]
pub struct GivenActions {
    /// The actions; one that stands for a shared action is replaced by it.
    pub list: ArrayVec<Action, ACTIONS_MAX>,
    /// Shared actions: index in the list, and handle.
    pub shared: ArrayVec<(usize, u64), ACTIONS_MAX>,
    /// The program's word for the rule once it is aged, if the rule ages and the program gave one.
    pub age_context: Option<u64>,
}

/// The part of a rule that the NIC does not have.
#[derive(Debug)]
struct Extra {
    /// Reported when the rule is aged.
    age_context: Option<u64>,
    /// The actions as given, if some are shared.
    given: Option<Box<GivenActions>>,
}

/// The control side of a NIC, and what its rules share.
pub struct Control {
    pub(crate) nic: Nic,
    shapes: PatternShapes,
    extras: HashMap<RuleId, Extra>,
    shared: SharedActions,
    /// Counts when a rule's counter was reset.
    resets: HashMap<RuleId, Counts>,
    /// Rules of handles of operation queues, as [`RuleId::to_bits`].
    slots: Vec<u64>,
}

/// Whether a handle is one that an operation queue gave.
#[inline]
pub(crate) fn is_slot(handle: u64) -> bool {
    handle & SLOT != 0
}

impl GivenActions {
    /// Whether the rule ages.
    pub(crate) fn has_age(&self) -> bool {
        self.list.iter().any(|action| matches!(action, Action::Age(_)))
    }
}

impl Control {
    /// The control side of a NIC without rules.
    pub fn new(nic: Nic) -> Control {
        Control {
            nic,
            shapes: PatternShapes::default(),
            extras: HashMap::new(),
            shared: SharedActions::default(),
            resets: HashMap::new(),
            slots: Vec::new(),
        }
    }

    /// The rule of a handle.
    ///
    /// # Errors
    /// `ENOENT` for a handle of no rule.
    pub fn rule_of(&self, handle: u64) -> Result<RuleId, Failure> {
        let bits = match handle & SLOT {
            0 => handle,
            _ => self.slots.get((handle >> 32) as usize).copied().unwrap_or(VACANT),
        };
        if bits == VACANT {
            let text = format!("no rule has the handle {handle:#x}; it was destroyed");
            return Err(Failure::new(libc::ENOENT, FailurePart::Handle, text));
        }
        Ok(RuleId::from_bits(bits))
    }

    /// Handles for rules that do not exist yet.
    pub(crate) fn reserve_slots(&mut self, count: usize) -> impl Iterator<Item = u64> + use<> {
        let first = self.slots.len();
        let count = count.min(2 * RULES_MAX as usize - first.min(2 * RULES_MAX as usize));
        self.slots.resize(first + count, VACANT);
        (first..first + count).map(|slot| (slot as u64) << 32 | SLOT)
    }

    /// Gives a reserved handle its rule, or takes it away.
    pub(crate) fn set_slot(&mut self, handle: u64, rule: Option<RuleId>) {
        if let Some(slot) = self.slots.get_mut((handle >> 32) as usize) {
            *slot = rule.map_or(VACANT, RuleId::to_bits);
        }
    }

    /// Creates a rule; returns its handle.
    ///
    /// # Errors
    /// As [`Nic::create`]; a shared action that does not exist.
    #[inline]
    pub fn create(
        &mut self,
        place: RulePosition,
        items: &[ItemBytes<'_>],
        given: &mut GivenActions,
    ) -> Result<RuleId, Failure> {
        let RulePosition { group, priority } = place;
        let pattern = self.shapes.compile(items).map(Compiled::into_pattern)?;
        self.shared.resolve(given)?;
        let rule = Rule { group, priority, pattern, actions: &given.list };
        let id = self.nic.create(&rule).map_err(|error| Failure::of_rule(&error, &given.list))?;
        if given.age_context.is_some() || !given.shared.is_empty() {
            self.remember(id, given);
        }
        Ok(id)
    }

    /// Checks that a rule could be created.
    ///
    /// # Errors
    /// As [`Control::create`].
    pub fn validate(
        &mut self,
        place: RulePosition,
        items: &[ItemBytes<'_>],
        given: &mut GivenActions,
    ) -> Result<(), Failure> {
        let RulePosition { group, priority } = place;
        let pattern = self.shapes.compile(items).map(Compiled::into_pattern)?;
        self.shared.resolve(given)?;
        let rule = Rule { group, priority, pattern, actions: &given.list };
        let checked = self.nic.transaction().validate(&rule);
        checked.map_err(|error| Failure::of_rule(&error, &given.list))
    }

    /// Replaces the actions of a rule.
    ///
    /// # Errors
    /// As [`Nic::update`]; a shared action that does not exist.
    pub fn update(&mut self, id: RuleId, given: &mut GivenActions) -> Result<(), Failure> {
        self.shared.resolve(given)?;
        let counted = self.nic.query(id)?;
        let updated = self.nic.update(id, &given.list);
        updated.map_err(|error| Failure::of_rule(&error, &given.list))?;
        self.forget(id, counted);
        self.remember(id, given);
        Ok(())
    }

    /// Destroys a rule.
    ///
    /// # Errors
    /// As [`Nic::destroy`].
    #[inline]
    pub fn destroy(&mut self, id: RuleId) -> Result<(), Failure> {
        match self.extras.is_empty() && self.resets.is_empty() {
            true => Ok(self.nic.destroy(id)?),
            false => {
                let counted = self.nic.query(id)?;
                self.nic.destroy(id)?;
                self.resets.remove(&id);
                self.forget(id, counted);
                Ok(())
            }
        }
    }

    /// Destroys all rules.
    ///
    /// # Errors
    /// As [`Nic::destroy`]; earlier rules are destroyed then.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let rules: Vec<RuleId> = self.nic.rules().collect();
        if !self.extras.is_empty() || !self.resets.is_empty() {
            rules.iter().try_for_each(|&rule| self.destroy(rule))?;
        } else {
            let all: Vec<_> = rules.into_iter().map(Operation::Destroy).collect();
            let mut refused = None;
            self.nic.run(&all, |result| refused = refused.take().or(result.err()));
            refused.map_or(Ok(()), |error| Err(Failure::from(error)))?;
        }
        self.slots.iter_mut().for_each(|slot| *slot = VACANT);
        Ok(())
    }

    /// Carries out operations whose rules have no shared action and no word for their age.
    pub(crate) fn run(
        &mut self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(Result<RuleId, RuleError>),
    ) {
        if self.extras.is_empty() && self.resets.is_empty() {
            return self.nic.run(operations, done);
        }
        for operation in operations {
            if let Operation::Destroy(id) = *operation
                && let Ok(counted) = self.nic.query(id)
            {
                self.resets.remove(&id);
                self.forget(id, counted);
            }
            self.nic.run(std::slice::from_ref(operation), &mut done);
        }
    }

    /// The counts of a rule since they were reset last; `reset` resets them.
    ///
    /// # Errors
    /// `ENOENT` for no rule, `EINVAL` for one that does not count.
    pub fn counts(&mut self, id: RuleId, reset: bool) -> Result<Counts, Failure> {
        if !self.nic.is_counting(id)? {
            let text = "the rule does not count; give it a count action";
            return Err(Failure::new(libc::EINVAL, FailurePart::Actions, text));
        }
        let now = self.nic.query(id)?;
        let before = self.resets.get(&id).copied().unwrap_or_default();
        if reset {
            self.resets.insert(id, now);
        }
        Ok(difference(now, before))
    }

    /// The age of a rule.
    ///
    /// # Errors
    /// `ENOENT` for no rule, `EINVAL` for one that does not age.
    pub fn age(&self, id: RuleId) -> Result<Age, Failure> {
        self.nic.age(id)?.ok_or_else(|| {
            let text = "the rule does not age; give it an age action";
            Failure::new(libc::EINVAL, FailurePart::Actions, text)
        })
    }

    /// The words of all rules and shared actions that are aged: the one that the program gave, or
    /// else the handle.
    pub fn aged(&self) -> Vec<u64> {
        let mut words = Vec::new();
        for id in self.nic.aged() {
            match self.extras.get(&id) {
                Some(Extra { given: Some(given), .. }) if self.shared.has_age(given) => {}
                Some(Extra { age_context: Some(context), .. }) => words.push(*context),
                _ => words.push(id.to_bits()),
            }
        }
        words.extend(self.shared.aged(&self.nic));
        words
    }

    /// Sets the time that ages are counted by; see [`Nic::set_time_ns`].
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.nic.set_time_ns(now_ns);
    }

    /// Creates a shared action.
    ///
    /// # Errors
    /// As [`SharedActions::create`].
    pub fn create_shared(&mut self, action: Action, context: Option<u64>) -> Result<u64, Failure> {
        self.shared.create(action, context)
    }

    /// Destroys a shared action.
    ///
    /// # Errors
    /// As [`SharedActions::destroy`].
    pub fn destroy_shared(&mut self, handle: u64) -> Result<(), Failure> {
        self.shared.destroy(handle)
    }

    /// Packets and bytes that the rules of a shared counter have counted.
    ///
    /// # Errors
    /// As [`SharedActions::counts`].
    pub fn shared_counts(&mut self, handle: u64, reset: bool) -> Result<Counts, Failure> {
        self.shared.counts(&self.nic, handle, reset)
    }

    /// The age of a shared age.
    ///
    /// # Errors
    /// As [`SharedActions::age`].
    pub fn shared_age(&self, handle: u64) -> Result<Option<Age>, Failure> {
        self.shared.age(&self.nic, handle)
    }

    /// Changes a shared action, and at the same instant all rules that have it.
    ///
    /// # Errors
    /// A shared action that does not exist or is of another kind; as [`Nic::update`].
    pub fn update_shared(&mut self, handle: u64, action: Action) -> Result<(), Failure> {
        let former = self.shared.replace(handle, action)?;
        let users: Vec<RuleId> = self.shared.users(handle).collect();
        let mut refused = None;
        let mut transaction = self.nic.transaction();
        for id in users {
            let Some(given) = self.extras.get(&id).and_then(|extra| extra.given.as_deref()) else {
                continue;
            };
            let mut given = given.clone();
            self.shared.resolve(&mut given)?;
            if let Err(error) = transaction.update(id, &given.list) {
                refused = Some(Failure::of_rule(&error, &given.list));
                break;
            }
        }
        let result = match refused {
            None => transaction.commit().map_err(Failure::from),
            Some(failure) => {
                drop(transaction);
                Err(failure)
            }
        };
        if result.is_err() {
            self.shared.replace(handle, former)?;
        }
        result
    }

    /// Describes a rule, or all rules, in lines.
    ///
    /// # Errors
    /// `ENOENT` for no rule.
    pub fn dump(&mut self, one: Option<RuleId>) -> Result<String, Failure> {
        let mut text = String::new();
        let rules: Vec<RuleId> = match one {
            Some(id) => vec![id],
            None => self.nic.rules().collect(),
        };
        for id in rules {
            // Writing to a string does not fail.
            let _ = write!(text, "rule {:#x}: {}", id.to_bits(), self.nic.describe(id)?);
            if self.nic.is_counting(id)? {
                let Counts { packets, bytes } = self.nic.query(id)?;
                let _ = write!(text, ", {packets} packets, {bytes} bytes");
            }
            if let Some(age) = self.nic.age(id)? {
                let (idle, timeout) = (age.idle_ns / 1_000_000_000, age.timeout_s);
                let _ = write!(text, ", idle for {idle} s of {timeout} s");
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn remember(&mut self, id: RuleId, given: &GivenActions) {
        if given.age_context.is_none() && given.shared.is_empty() {
            return;
        }
        self.shared.add_user(id, given);
        let with = (!given.shared.is_empty()).then(|| Box::new(given.clone()));
        self.extras.insert(id, Extra { age_context: given.age_context, given: with });
    }

    /// Forgets what a rule had beside what the NIC knows, after it counted this.
    fn forget(&mut self, id: RuleId, counted: Counts) {
        if let Some(Extra { given: Some(given), .. }) = self.extras.remove(&id) {
            self.shared.remove_user(id, &given, counted);
        }
    }
}

/// The difference of two counts.
pub(crate) fn difference(now: Counts, before: Counts) -> Counts {
    Counts { packets: now.packets - before.packets, bytes: now.bytes - before.bytes }
}
