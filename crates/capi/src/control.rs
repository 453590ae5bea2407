//! The control side of a NIC for C programs: rules by number, indirect actions, ages, dumps.
//!
//! A rule's handle is a number. [`Nic`] checks it, so that a handle that is out of date is an error
//! and never another rule. A rule that an operation queue creates gets its handle before it exists;
//! such a handle names a slot, which has the rule once the operation was carried out. The slot gets
//! another handle when the rule is destroyed.

use std::collections::HashMap;
use std::fmt::Write;

use arrayvec::ArrayVec;
use niclab_nic::limits::{ACTIONS_MAX, RULES_MAX};
use niclab_nic::rule::{Action, Rule};
use niclab_nic::{Age, Counts, Nic, Operation, RuleError, RuleId};
use niclab_profile::profile::Profile;

use crate::failure::{Failure, FailurePart};
use crate::indirect_actions::IndirectActions;
use crate::modelled_card::{ModelledCard, ModelledRule, SpentTime};
use crate::shapes::{Compiled, ItemBytes, PatternShapes};

/// Marks a handle that names a slot; [`RuleId::to_bits`] leaves this bit 0. The bits below have the
/// generation of the slot, and the upper half its number.
const SLOT: u64 = 1 << 31;

/// A place for the rule of a handle of an operation queue.
#[derive(Clone, Copy, Debug, Default)]
struct RuleSlot {
    rule: Option<RuleId>,
    /// Raised when the slot loses its rule: older handles name nothing.
    generation: u32,
}

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
    /// The actions; one that stands for an indirect action is replaced by it.
    pub list: ArrayVec<Action, ACTIONS_MAX>,
    /// indirect actions: index in the list, and handle.
    pub indirect: ArrayVec<(usize, u64), ACTIONS_MAX>,
    /// The program's word for the rule once it is aged, if the rule ages and the program gave one.
    pub age_context: Option<u64>,
}

/// The part of a rule that the NIC does not have.
#[derive(Debug)]
struct Extra {
    /// Reported when the rule is aged.
    age_context: Option<u64>,
    /// The actions as given, if some are indirect.
    given: Option<Box<GivenActions>>,
}

/// The control side of a NIC, and what its rules share.
pub struct Control {
    pub(crate) nic: Nic,
    shapes: PatternShapes,
    extras: HashMap<RuleId, Extra>,
    indirect: IndirectActions,
    /// Counts when a rule's counter was reset.
    resets: HashMap<RuleId, Counts>,
    /// Rules of the handles of operation queues.
    slots: Vec<RuleSlot>,
    /// Slots that no queue has taken.
    free_slots: Vec<u32>,
    /// The card that the NIC behaves as, if it has a profile.
    card: Option<ModelledCard>,
    /// NICs that this one has succeeded.
    successions: u64,
}

/// The number of the slot that a handle names.
fn slot_of(handle: u64) -> usize {
    (handle >> 32) as usize
}

impl RuleSlot {
    /// The handle that names a slot now.
    fn handle(self, number: usize) -> u64 {
        (number as u64) << 32 | SLOT | u64::from(self.generation)
    }

    /// Takes the rule away: no handle so far names the slot from now on.
    fn vacate(&mut self) {
        self.rule = None;
        self.generation = (self.generation + 1) & (SLOT - 1) as u32;
    }
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
            indirect: IndirectActions::default(),
            resets: HashMap::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            card: None,
            successions: 0,
        }
    }

    /// The same for a NIC that behaves as the card of a profile.
    pub fn of_card(nic: Nic, profile: Profile) -> Control {
        Control { card: Some(ModelledCard::new(profile)), ..Control::new(nic) }
    }

    /// Puts another NIC in the place of this one: its rules and indirect actions are gone, and
    /// their handles name nothing. Isolation stays.
    ///
    /// # Errors
    /// As [`Nic::isolate`].
    pub fn succeed(&mut self, mut nic: Nic) -> Result<(), Failure> {
        nic.succeed(&self.nic);
        if self.nic.is_isolated() {
            nic.isolate(true)?;
        }
        self.nic = nic;
        self.successions += 1;
        self.extras.clear();
        self.resets.clear();
        self.indirect.clear();
        self.vacate_slots();
        if let Some(card) = &mut self.card {
            card.clear();
        }
        Ok(())
    }

    /// The NIC, for what needs no handles.
    pub fn nic_mut(&mut self) -> &mut Nic {
        &mut self.nic
    }

    /// How many NICs had the place of this one before.
    pub(crate) fn successions(&self) -> u64 {
        self.successions
    }

    /// Whether the NIC behaves as the card of a profile.
    pub fn is_modelled(&self) -> bool {
        self.card.is_some()
    }

    /// The modelled card took this long for the operations since the last call of this function.
    pub fn take_spent(&mut self) -> SpentTime {
        self.card.as_mut().map_or_else(SpentTime::default, ModelledCard::take_spent)
    }

    /// The time of a frame on the modelled card; see [`ModelledCard::frame_ns`].
    pub fn frame_ns(&self) -> f64 {
        self.card.as_ref().map_or(0.0, ModelledCard::frame_ns)
    }

    /// The rule of a handle.
    ///
    /// # Errors
    /// `ENOENT` for a handle of no rule.
    pub fn rule_of(&self, handle: u64) -> Result<RuleId, Failure> {
        let found = match is_slot(handle) {
            false => Some(handle).filter(|bits| *bits != 0).map(RuleId::from_bits),
            true => {
                let number = slot_of(handle);
                let slot = self.slots.get(number).filter(|slot| slot.handle(number) == handle);
                slot.and_then(|slot| slot.rule)
            }
        };
        found.ok_or_else(|| {
            let text = format!("no rule has the handle {handle:#x}; it was destroyed");
            Failure::new(libc::ENOENT, FailurePart::Handle, text)
        })
    }

    /// Reserves at most `count` handles for rules that are created later.
    pub(crate) fn reserve_slots(&mut self, count: usize) -> Vec<u64> {
        let reused = self.free_slots.len().min(count);
        let reused = self.free_slots.drain(self.free_slots.len() - reused..);
        let mut taken: Vec<usize> = reused.map(|number| number as usize).collect();
        let first = self.slots.len();
        let room = (2 * RULES_MAX as usize).saturating_sub(first);
        let new = (count - taken.len()).min(room);
        self.slots.resize(first + new, RuleSlot::default());
        taken.extend(first..first + new);
        taken.into_iter().map(|number| self.slots[number].handle(number)).collect()
    }

    /// Gives back handles that were reserved and have no rule.
    pub(crate) fn release_slots(&mut self, handles: &[u64]) {
        self.free_slots.extend(handles.iter().map(|handle| slot_of(*handle) as u32));
    }

    /// Gives a reserved handle its rule.
    pub(crate) fn fill_slot(&mut self, handle: u64, rule: RuleId) {
        if let Some(slot) = self.slots.get_mut(slot_of(handle)) {
            slot.rule = Some(rule);
        }
    }

    /// Takes the rule of a handle away; returns the handle that names the slot from now on.
    pub(crate) fn vacate_slot(&mut self, handle: u64) -> u64 {
        let number = slot_of(handle);
        let Some(slot) = self.slots.get_mut(number) else { return handle };
        slot.vacate();
        slot.handle(number)
    }

    /// Takes all rules away from their handles.
    fn vacate_slots(&mut self) {
        for (number, slot) in (0..).zip(&mut self.slots).filter(|(_, slot)| slot.rule.is_some()) {
            slot.vacate();
            self.free_slots.push(number);
        }
    }

    /// Creates a rule; returns its handle.
    ///
    /// # Errors
    /// As [`Nic::create`]; an indirect action that does not exist.
    #[inline]
    pub fn create(
        &mut self,
        place: RulePosition,
        items: &[ItemBytes<'_>],
        given: &mut GivenActions,
    ) -> Result<RuleId, Failure> {
        let RulePosition { group, priority } = place;
        let pattern = self.shapes.compile(items).map(Compiled::into_pattern)?;
        self.indirect.resolve(given)?;
        let modelled = match &mut self.card {
            None => None,
            Some(card) => {
                let rule = ModelledRule::new(group, items, &given.list);
                if let Err(failure) = card.check(&rule) {
                    // A rule for which there is no room takes its time, too.
                    if failure.part == FailurePart::Room {
                        card.created(&rule, None);
                    }
                    return Err(failure);
                }
                Some(rule)
            }
        };
        let rule = Rule { group, priority, pattern, actions: &given.list };
        let id = self.nic.create(&rule).map_err(|error| Failure::of_rule(&error, &given.list))?;
        if let Some((card, rule)) = self.card.as_mut().zip(modelled) {
            card.created(&rule, Some(id));
        }
        if given.age_context.is_some() || !given.indirect.is_empty() {
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
        self.indirect.resolve(given)?;
        if let Some(card) = &self.card {
            card.check(&ModelledRule::new(group, items, &given.list))?;
        }
        let rule = Rule { group, priority, pattern, actions: &given.list };
        let checked = self.nic.transaction().validate(&rule);
        checked.map_err(|error| Failure::of_rule(&error, &given.list))
    }

    /// Replaces the actions of a rule.
    ///
    /// # Errors
    /// As [`Nic::update`]; an indirect action that does not exist.
    pub fn update(&mut self, id: RuleId, given: &mut GivenActions) -> Result<(), Failure> {
        self.indirect.resolve(given)?;
        let counted = self.nic.query(id)?;
        let updated = self.nic.update(id, &given.list);
        updated.map_err(|error| Failure::of_rule(&error, &given.list))?;
        if let Some(card) = &mut self.card {
            card.updated(id, &given.list);
        }
        self.forget(id, counted);
        self.remember(id, given);
        Ok(())
    }

    /// Replaces the actions of the rule of a handle.
    ///
    /// # Errors
    /// `ENOENT` for a handle of no rule; as [`Control::update`].
    pub fn update_handle(&mut self, handle: u64, given: &mut GivenActions) -> Result<(), Failure> {
        let id = self.rule_of(handle)?;
        // The program knows the rule by this number, and by no other.
        if is_slot(handle) && given.has_age() {
            given.age_context.get_or_insert(handle);
        }
        self.update(id, given)
    }

    /// Destroys a rule.
    ///
    /// # Errors
    /// As [`Nic::destroy`].
    #[inline]
    pub fn destroy(&mut self, id: RuleId) -> Result<(), Failure> {
        match self.has_extras() {
            false => Ok(self.nic.destroy(id)?),
            true => {
                let counted = self.nic.query(id)?;
                self.nic.destroy(id)?;
                self.forget_destroyed(id, counted);
                Ok(())
            }
        }
    }

    /// Destroys the rule of a handle; the handle names nothing from now on.
    ///
    /// # Errors
    /// `ENOENT` for a handle of no rule; as [`Nic::destroy`].
    pub fn destroy_handle(&mut self, handle: u64) -> Result<(), Failure> {
        let id = self.rule_of(handle)?;
        self.destroy(id)?;
        if is_slot(handle) {
            let handle = self.vacate_slot(handle);
            self.release_slots(&[handle]);
        }
        Ok(())
    }

    /// Whether anything is known of rules beside what the NIC knows.
    fn has_extras(&self) -> bool {
        !(self.extras.is_empty() && self.resets.is_empty() && self.card.is_none())
    }

    /// Forgets a rule that was destroyed after it had counted this.
    fn forget_destroyed(&mut self, id: RuleId, counted: Counts) {
        self.resets.remove(&id);
        self.forget(id, counted);
        if let Some(card) = &mut self.card {
            card.destroyed(id);
        }
    }

    /// Destroys all rules.
    ///
    /// # Errors
    /// As [`Nic::destroy`]; earlier rules are destroyed then.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let rules: Vec<RuleId> = self.nic.rules().collect();
        if self.has_extras() {
            rules.iter().try_for_each(|&rule| self.destroy(rule))?;
        } else {
            let all: Vec<_> = rules.into_iter().map(Operation::Destroy).collect();
            let mut refused = None;
            self.nic.run(&all, |result| refused = refused.take().or(result.err()));
            refused.map_or(Ok(()), |error| Err(Failure::from(error)))?;
        }
        self.vacate_slots();
        Ok(())
    }

    /// Carries out operations whose rules have no indirect action and no word for their age.
    pub(crate) fn run(
        &mut self,
        operations: &[Operation<'_>],
        mut done: impl FnMut(Result<RuleId, RuleError>),
    ) {
        if !self.has_extras() {
            return self.nic.run(operations, done);
        }
        for operation in operations {
            if let Operation::Destroy(id) = *operation
                && let Ok(counted) = self.nic.query(id)
            {
                self.forget_destroyed(id, counted);
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

    /// The words of all rules and indirect actions that are aged: the one that the program gave, or
    /// else the handle.
    pub fn aged(&self) -> Vec<u64> {
        let mut words = Vec::new();
        for id in self.nic.aged() {
            match self.extras.get(&id) {
                Some(Extra { given: Some(given), .. }) if self.indirect.has_age(given) => {}
                Some(Extra { age_context: Some(context), .. }) => words.push(*context),
                _ => words.push(id.to_bits()),
            }
        }
        words.extend(self.indirect.aged(&self.nic));
        words
    }

    /// Sets the time that ages are counted by; see [`Nic::set_time_ns`].
    pub fn set_time_ns(&mut self, now_ns: u64) {
        self.nic.set_time_ns(now_ns);
    }

    /// Creates an indirect action.
    ///
    /// # Errors
    /// As [`IndirectActions::create`].
    pub fn create_indirect(
        &mut self,
        action: Action,
        context: Option<u64>,
    ) -> Result<u64, Failure> {
        self.indirect.create(action, context)
    }

    /// Destroys an indirect action.
    ///
    /// # Errors
    /// As [`IndirectActions::destroy`].
    pub fn destroy_indirect(&mut self, handle: u64) -> Result<(), Failure> {
        self.indirect.destroy(handle)
    }

    /// Packets and bytes that the rules of an indirect counter have counted.
    ///
    /// # Errors
    /// As [`IndirectActions::counts`].
    pub fn indirect_counts(&mut self, handle: u64, reset: bool) -> Result<Counts, Failure> {
        self.indirect.counts(&self.nic, handle, reset)
    }

    /// The age of an indirect age.
    ///
    /// # Errors
    /// As [`IndirectActions::age`].
    pub fn indirect_age(&self, handle: u64) -> Result<Option<Age>, Failure> {
        self.indirect.age(&self.nic, handle)
    }

    /// Changes an indirect action, and at the same instant all rules that have it.
    ///
    /// # Errors
    /// An indirect action that does not exist or is of another kind; as [`Nic::update`].
    pub fn update_indirect(&mut self, handle: u64, action: Action) -> Result<(), Failure> {
        let former = self.indirect.replace(handle, action)?;
        let users: Vec<RuleId> = self.indirect.users(handle).collect();
        let mut refused = None;
        let mut transaction = self.nic.transaction();
        for id in users {
            let Some(given) = self.extras.get(&id).and_then(|extra| extra.given.as_deref()) else {
                continue;
            };
            let mut given = given.clone();
            self.indirect.resolve(&mut given)?;
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
            self.indirect.replace(handle, former)?;
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
        if given.age_context.is_none() && given.indirect.is_empty() {
            return;
        }
        // A rule that was updated goes on counting from what it has.
        let counted = self.nic.query(id).unwrap_or_default();
        self.indirect.add_user(id, given, counted);
        let with = (!given.indirect.is_empty()).then(|| Box::new(given.clone()));
        self.extras.insert(id, Extra { age_context: given.age_context, given: with });
    }

    /// Forgets what a rule had beside what the NIC knows, after it counted this.
    fn forget(&mut self, id: RuleId, counted: Counts) {
        if let Some(Extra { given: Some(given), .. }) = self.extras.remove(&id) {
            self.indirect.remove_user(id, &given, counted);
        }
    }
}

/// The difference of two counts.
pub(crate) fn difference(now: Counts, before: Counts) -> Counts {
    Counts { packets: now.packets - before.packets, bytes: now.bytes - before.bytes }
}
