//! Template tables: rules that differ in values alone, and what they have in common looked at once.
//!
//! `rte_flow_template_table` of DPDK 22.03 with one pattern template and one actions template. Who
//! makes rules at a high rate says once which bits of the headers they match, their group, priority
//! and actions. A rule is then the values of those bits, taken from a key such as a packet has, and
//! the numbers that its actions vary in; it is made, and its hash taken, on any thread.
//!
//! A table keeps the place of its rules: their group and their mask stay while it is there, rules
//! or not. Its rules are rules as any others: they live on when it is destroyed.

use std::sync::Arc;

use arrayvec::ArrayVec;
use niclab_packet::key::Key;
use niclab_table::Hasher;

use crate::chain::Target;
use crate::control::{Checked, Nic, RuleId, Wanted};
use crate::error::{Refused, RuleError};
use crate::groups::Seat;
use crate::limits::{GIVEN_MAX, TEMPLATES_MAX};
use crate::rule::{Action, Pattern};
use crate::tables::{self, Selector};
use crate::word::{Decision, Fate};

/// What the rules of a template table have in common.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// Group they stand in.
    pub group: u32,
    /// Their priority, at most [`PRIORITY_MAX`](crate::limits::PRIORITY_MAX).
    pub priority: u32,
    /// Which bits they match, of the outer headers, and their ranges of ports. Its values do not
    /// matter.
    pub pattern: Pattern,
    /// What they do.
    pub actions: &'a [TemplateAction],
}

/// An action of all rules of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateAction {
    /// This one.
    Same(Action),
    /// [`Action::Jump`] to a group that each rule gives.
    Jump,
    /// [`Action::Mark`] with a number that each rule gives.
    Mark,
    /// [`Action::Queue`] with a queue that each rule gives.
    Queue,
}

/// A template table of a NIC; see [`Nic::template_table`]. For any thread, in any number of copies.
#[derive(Clone, Debug)]
pub struct TemplateTable {
    common: Arc<Common>,
}

#[derive(Debug)]
struct Common {
    place: Place,
    seat: Seat,
    selector: Selector,
    /// Number of the mask.
    number: u16,
    /// By which its rules are looked up; `None` for the empty mask. No more of the group than this:
    /// copies of a table keep no memory of the group's.
    hasher: Option<(Hasher, usize)>,
    /// Values that a rule gives.
    given: usize,
}

/// Which table: its slot, and how many had that before, on a NIC with this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    nic: u32,
    slot: u32,
    generation: u32,
}

/// Tables of a NIC.
#[derive(Default)]
pub(crate) struct Templates {
    /// Tables that the slot had before, and the one that it has.
    slots: Vec<(u32, Option<Box<Table>>)>,
    free: Vec<u32>,
}

/// The numbers that a rule's actions vary in.
type Given = ArrayVec<u32, GIVEN_MAX>;

/// A rule of a template table, to be created; see [`TemplateTable::rule`].
#[derive(Clone, Debug)]
pub struct TemplateRule {
    pub(crate) place: Place,
    pub(crate) target: Target,
    given: Given,
}

/// The actions of a rule of a template table, to replace others; see [`TemplateTable::actions`].
#[derive(Clone, Debug)]
pub struct TemplateActions {
    place: Place,
    given: Given,
}

/// A table, on the control side.
pub(crate) struct Table {
    seat: Seat,
    group: u32,
    priority: u32,
    actions: Vec<Action>,
    /// Those among the actions that rules give numbers to.
    varies: Vec<usize>,
    /// Whether rules give a queue and nothing else, and there is no program: whether they count.
    plain: Option<bool>,
}

impl TemplateTable {
    /// A rule for the packets that have the same bits in this key as `key`, of those that the
    /// template matches: the key of a packet, for one, makes a rule for its flow. `given` are the
    /// numbers that its actions vary in, in their order.
    ///
    /// # Errors
    /// [`RuleError::GivenCount`].
    #[inline]
    pub fn rule(&self, key: &Key, given: &[u32]) -> Result<TemplateRule, RuleError> {
        let Common { place, seat, selector, number, hasher, .. } = &*self.common;
        let key = selector.pick_key(key);
        let hash = hasher.as_ref().map_or(0, |hasher| tables::hash(hasher, &key, *number));
        let target = Target { key, hash, seat: Some(*seat) };
        Ok(TemplateRule { place: *place, target, given: self.given(given)? })
    }

    /// The actions of a rule that gives these numbers.
    ///
    /// # Errors
    /// [`RuleError::GivenCount`].
    pub fn actions(&self, given: &[u32]) -> Result<TemplateActions, RuleError> {
        Ok(TemplateActions { place: self.common.place, given: self.given(given)? })
    }

    #[inline]
    fn given(&self, given: &[u32]) -> Result<Given, RuleError> {
        match given.len() == self.common.given {
            true => Ok(given.iter().copied().collect()),
            false => Err(RuleError::GivenCount { given: given.len(), wanted: self.common.given }),
        }
    }
}

impl Nic {
    /// Makes a table for rules that differ in values alone.
    ///
    /// ```
    /// use niclab_nic::rule::Pattern;
    /// use niclab_nic::{Nic, NicConfig, Template, TemplateAction};
    /// use niclab_packet::key::Key;
    ///
    /// let mut nic = Nic::new(&NicConfig { queues: 4, ..NicConfig::default() })?;
    /// // Which bits count: addresses of Ethernet here, whatever their values.
    /// let pattern = Pattern::any().eth_dst([0; 6]).eth_src([0; 6]);
    /// let actions = &[TemplateAction::Queue];
    /// let table = nic.template_table(&Template { group: 1, priority: 0, pattern, actions })?;
    ///
    /// // A rule for the flow of a frame, to queue 3. Any thread can make it.
    /// let rule = table.rule(&Key::parse(&[7; 60]), &[3])?;
    /// let id = nic.create_in(&rule)?;
    /// nic.update_in(id, &table.actions(&[2])?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// It takes up a mask of its group while it is there, also without rules.
    ///
    /// # Errors
    /// [`RuleError::TemplateUnfit`] for patterns that look into tunnels, that have `raw` or ranges
    /// of other fields than ports, and for too many actions that vary;
    /// [`RuleError::TemplatesTooMany`]; as [`Nic::create`] for what a rule with the lowest numbers
    /// would be refused for. Nothing was then made.
    pub fn template_table(&mut self, template: &Template<'_>) -> Result<TemplateTable, RuleError> {
        let unfit = |reason| Err(RuleError::TemplateUnfit { reason });
        if !template.pattern.deep_lines().is_empty() {
            return unfit("bits and ports of outer headers alone; create these rules one by one");
        }
        let mut table = Table::new(template);
        if table.varies.len() > GIVEN_MAX {
            return unfit("more than 4 actions vary");
        }
        if self.templates.is_full() {
            return Err(RuleError::TemplatesTooMany);
        }
        let Template { group, priority, ref pattern, .. } = *template;
        self.check(Wanted { group, priority, pattern, actions: &table.actions })?;
        let known = self.groups.find(group, pattern);
        self.groups.check_room(group, Decision::Drop, known, true)?;
        table.seat = self.groups.pin(group, pattern, known)?;
        self.groups.publish();
        let mask = self.groups.mask(table.seat);
        let (selector, number) = (mask.mask.tuple.shape.selector, mask.mask.tuple.number);
        let hasher = mask.table.as_ref().map(|table| table.hasher());
        let (seat, given) = (table.seat, table.varies.len());
        let place = self.templates.put(self.number, table);
        let common = Common { place, seat, selector, number, hasher, given };
        Ok(TemplateTable { common: Arc::new(common) })
    }

    /// Destroys a template table: no rule of it is created any more, and those that were live on.
    ///
    /// # Errors
    /// [`RuleError::TemplateUnknown`].
    pub fn destroy_template_table(&mut self, table: &TemplateTable) -> Result<(), RuleError> {
        let place = table.common.place;
        if !self.has_template(place) {
            return Err(RuleError::TemplateUnknown);
        }
        let table = self.templates.remove(place).ok_or(RuleError::TemplateUnknown)?;
        self.groups.unpin(table.seat);
        self.groups.publish();
        Ok(())
    }

    /// Creates a rule of a template table; packets meet it from now on.
    ///
    /// # Errors
    /// As [`Nic::create`]; [`RuleError::TemplateUnknown`].
    pub fn create_in(&mut self, rule: &TemplateRule) -> Result<RuleId, RuleError> {
        self.create_filled(rule).map_err(RuleError::from)
    }

    /// Gives a rule the actions of a template table, with other numbers; see [`Nic::update`].
    ///
    /// # Errors
    /// As [`Nic::update`]; [`RuleError::TemplateUnknown`].
    pub fn update_in(&mut self, id: RuleId, actions: &TemplateActions) -> Result<(), RuleError> {
        self.update_filled(id, actions).map_err(RuleError::from)
    }

    /// Whether the table of a rule is there, and so its seat.
    #[inline]
    pub(crate) fn has_template(&self, place: Place) -> bool {
        place.nic == self.number && self.templates.get(place).is_some()
    }

    #[inline]
    pub(crate) fn create_filled(&mut self, rule: &TemplateRule) -> Result<RuleId, Refused> {
        let (checked, group, priority) = self.check_filled(rule.place, &rule.given, None)?;
        // Its seat is known: nobody asks for its pattern.
        let pattern = &Pattern::any();
        let wanted = Wanted { group, priority, pattern, actions: &[] };
        self.create_checked(wanted, &rule.target, checked)
    }

    #[inline]
    pub(crate) fn update_filled(
        &mut self,
        id: RuleId,
        actions: &TemplateActions,
    ) -> Result<(), Refused> {
        let old = self.record(id)?;
        let group = self.groups.number(old.seat.group);
        let (checked, ..) = self.check_filled(actions.place, &actions.given, Some(group))?;
        if let Checked { decision: Decision::Queue(queue), counts: false } = checked
            && self.steps.is_empty()
            && self.update_plain(id, Fate::Queue(queue))
        {
            return Ok(());
        }
        self.update_checked(id, &old, checked)
    }

    /// [`Nic::check`] for the actions of a table with these numbers, in `group` or that of the
    /// table; this group, and the table's priority.
    #[inline]
    fn check_filled(
        &mut self,
        place: Place,
        given: &[u32],
        group: Option<u32>,
    ) -> Result<(Checked, u32, u32), Refused> {
        if !self.has_template(place) {
            return Err(RuleError::TemplateUnknown.into());
        }
        let table = self.templates.get(place);
        let plain = table.and_then(|table| Some((table.plain?, table.group, table.priority)));
        if let Some((counts, group, priority)) = plain.filter(|_| given[0] < self.queues().into()) {
            self.clear_steps();
            let decision = Decision::Queue(given[0] as u16);
            return Ok((Checked { decision, counts }, group, priority));
        }
        let Some(mut table) = self.templates.lend(place) else {
            return Err(RuleError::TemplateUnknown.into());
        };
        table.give(given);
        let (group, priority) = (group.unwrap_or(table.group), table.priority);
        let pattern = &Pattern::any();
        let checked = self.check(Wanted { group, priority, pattern, actions: &table.actions });
        self.templates.give_back(place, table);
        Ok((checked?, group, priority))
    }
}

impl Templates {
    fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= TEMPLATES_MAX
    }

    /// Puts a table in; there is room.
    fn put(&mut self, nic: u32, table: Table) -> Place {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, place) = &mut self.slots[slot as usize];
        *place = Some(Box::new(table));
        Place { nic, slot, generation: *generation }
    }

    #[inline]
    fn get(&self, place: Place) -> Option<&Table> {
        let (generation, table) = self.slots.get(place.slot as usize)?;
        table.as_deref().filter(|_| *generation == place.generation)
    }

    /// Takes a table out for good.
    fn remove(&mut self, place: Place) -> Option<Box<Table>> {
        let (generation, table) = self.slots.get_mut(place.slot as usize)?;
        *generation = generation.wrapping_add(1);
        self.free.push(place.slot);
        table.take()
    }

    /// Takes a table out for a moment.
    fn lend(&mut self, place: Place) -> Option<Box<Table>> {
        self.slots.get_mut(place.slot as usize)?.1.take()
    }

    fn give_back(&mut self, place: Place, table: Box<Table>) {
        self.slots[place.slot as usize].1 = Some(table);
    }
}

impl Table {
    fn new(template: &Template<'_>) -> Table {
        let action = |action: &TemplateAction| match action {
            TemplateAction::Same(action) => action.clone(),
            TemplateAction::Jump => Action::Jump(template.group.saturating_add(1)),
            TemplateAction::Mark => Action::Mark(0),
            TemplateAction::Queue => Action::Queue(0),
        };
        let varies =
            |(_, action): &(usize, &TemplateAction)| !matches!(action, TemplateAction::Same(_));
        let all = template.actions.iter().enumerate();
        let same = |action: &TemplateAction| {
            matches!(action, TemplateAction::Queue | TemplateAction::Same(Action::Count))
        };
        let queues = template.actions.iter().filter(|action| **action == TemplateAction::Queue);
        let plain = template.actions.iter().all(same) && queues.count() == 1;
        Table {
            seat: Seat::default(),
            group: template.group,
            priority: template.priority,
            actions: template.actions.iter().map(action).collect(),
            varies: all.filter(varies).map(|(at, _)| at).collect(),
            plain: plain.then_some(template.actions.len() > 1),
        }
    }

    /// Sets the numbers that vary.
    fn give(&mut self, given: &[u32]) {
        for (&at, &number) in self.varies.iter().zip(given) {
            match &mut self.actions[at] {
                Action::Jump(group) => *group = number,
                Action::Mark(mark) => *mark = number,
                // One beyond the last queue of any NIC stands for those that do not fit.
                Action::Queue(queue) => *queue = u16::try_from(number).unwrap_or(u16::MAX),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
