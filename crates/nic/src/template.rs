//! Template tables: rules that differ only in values; what they share is checked once.
//!
//! As `rte_flow_template_table` of DPDK 22.03, with one pattern template and one actions template.
//! A program that creates rules at a high rate declares once which header bits they match, their
//! group, priority and actions. Each rule then consists of the values of those bits, taken from a
//! packet's key, and of the numbers in which its actions vary. Any thread can build the rule and
//! its hash.
//!
//! A table keeps the group and the mask of its rules for as long as it exists, with or without
//! rules. Its rules are like any other rules: they stay when the table is destroyed.

use std::sync::Arc;

use arrayvec::ArrayVec;
use niclab_packet::key::Key;
use niclab_table::Hasher;

use crate::action_word::{Fate, RuleFate};
use crate::control::{Checked, Nic, RuleId, RuleSpec};
use crate::error::{Refused, RuleError};
use crate::groups::MaskId;
use crate::limits::{GIVEN_MAX, TEMPLATES_MAX};
use crate::priority_list::Target;
use crate::rule::{Action, Pattern};
use crate::tables::{self, Selector};

/// The properties that all rules of a template table share.
#[derive(Clone, Debug)]
pub struct Template<'a> {
    /// Group of the rules.
    pub group: u32,
    /// Their priority, at most [`PRIORITY_MAX`](crate::limits::PRIORITY_MAX).
    pub priority: u32,
    /// Which bits of the outer headers they match, and their ranges of ports. The values do not
    /// matter.
    pub pattern: Pattern,
    /// Their actions.
    pub actions: &'a [TemplateAction],
}

/// An action of all rules of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateAction {
    /// The same action in all rules.
    Same(Action),
    /// [`Action::Jump`] to a group that each rule names.
    Jump,
    /// [`Action::Mark`] with a number that each rule names.
    Mark,
    /// [`Action::Queue`] with a queue that each rule names.
    Queue,
}

/// A template table of a NIC; see [`Nic::template_table`]. Any thread can use it; clones are cheap.
#[derive(Clone, Debug)]
pub struct TemplateTable {
    common: Arc<Common>,
}

#[derive(Debug)]
struct Common {
    table_id: TableId,
    mask_id: MaskId,
    selector: Selector,
    /// Number of the mask.
    number: u16,
    /// Hashes the keys of its rules; `None` for the empty mask. The table keeps no other part of
    /// the group, so clones hold none of the group's memory.
    hasher: Option<(Hasher, usize)>,
    /// How many numbers a rule gives.
    given: usize,
}

/// The id of a table: the number of its NIC, its slot, and how many tables had the slot before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableId {
    nic: u32,
    slot: u32,
    generation: u32,
}

/// The template tables of a NIC.
#[derive(Default)]
pub(crate) struct Templates {
    /// For each slot: how many tables had it before, and the table in it.
    slots: Vec<(u32, Option<Box<Table>>)>,
    free: Vec<u32>,
}

/// The numbers that a rule gives for its actions.
type Given = ArrayVec<u32, GIVEN_MAX>;

/// A rule of a template table to create; see [`TemplateTable::rule`].
#[derive(Clone, Debug)]
pub struct TemplateRule {
    pub(crate) table_id: TableId,
    pub(crate) target: Target,
    given: Given,
}

/// New actions for a rule, from a template table; see [`TemplateTable::actions`].
#[derive(Clone, Debug)]
pub struct TemplateActions {
    table_id: TableId,
    given: Given,
}

/// A template table, on the control side.
pub(crate) struct Table {
    mask_id: MaskId,
    group: u32,
    priority: u32,
    actions: Vec<Action>,
    /// Indices of the actions that rules give numbers for.
    varies: Vec<usize>,
    /// If rules only give a queue and need no action list: whether they count.
    plain: Option<bool>,
}

impl TemplateTable {
    /// A rule for the packets that the template matches and whose keys equal `key` in the
    /// template's bits. The key of a packet, for example, makes a rule for its flow. `given` are
    /// the numbers for its actions, in their order.
    ///
    /// # Errors
    /// [`RuleError::GivenCount`].
    #[inline]
    pub fn rule(&self, key: &Key, given: &[u32]) -> Result<TemplateRule, RuleError> {
        let Common { table_id, mask_id, selector, number, hasher, .. } = &*self.common;
        let key = selector.pick_key(key);
        let hash = hasher.as_ref().map_or(0, |hasher| tables::hash(hasher, &key, *number));
        let target = Target { key, hash, mask_id: Some(*mask_id) };
        Ok(TemplateRule { table_id: *table_id, target, given: self.given(given)? })
    }

    /// The actions with these numbers.
    ///
    /// # Errors
    /// [`RuleError::GivenCount`].
    pub fn actions(&self, given: &[u32]) -> Result<TemplateActions, RuleError> {
        Ok(TemplateActions { table_id: self.common.table_id, given: self.given(given)? })
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
    /// Creates a table for rules that differ only in values.
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
    /// The table uses a mask of its group for as long as it exists, even without rules.
    ///
    /// # Errors
    /// [`RuleError::TemplateUnfit`] for patterns that match inside tunnels, `raw` bytes or ranges
    /// of other fields than ports, and for too many actions that vary;
    /// [`RuleError::TemplatesTooMany`]; the errors of [`Nic::create`] for a rule with the lowest
    /// numbers. On failure nothing is created.
    pub fn template_table(&mut self, template: &Template<'_>) -> Result<TemplateTable, RuleError> {
        let unfit = |reason| Err(RuleError::TemplateUnfit { reason });
        if !template.pattern.deep_keys().is_empty() {
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
        self.check(RuleSpec { group, priority, pattern, actions: &table.actions })?;
        let known = self.groups.find_mask(group, pattern);
        self.groups.check_room(group, RuleFate::Drop, known, true)?;
        table.mask_id = self.groups.pin(group, pattern, known)?;
        self.groups.publish();
        let mask = self.groups.mask(table.mask_id);
        let (selector, number) = (mask.mask.tuple.shape.selector, mask.mask.tuple.number);
        let hasher = mask.table.as_ref().map(|table| table.hasher());
        let (mask_id, given) = (table.mask_id, table.varies.len());
        let table_id = self.templates.put(self.number, table);
        let common = Common { table_id, mask_id, selector, number, hasher, given };
        Ok(TemplateTable { common: Arc::new(common) })
    }

    /// Destroys a template table: no more rules can be created from it, and its rules stay.
    ///
    /// # Errors
    /// [`RuleError::TemplateUnknown`].
    pub fn destroy_template_table(&mut self, table: &TemplateTable) -> Result<(), RuleError> {
        let table_id = table.common.table_id;
        if !self.has_template(table_id) {
            return Err(RuleError::TemplateUnknown);
        }
        let table = self.templates.remove(table_id).ok_or(RuleError::TemplateUnknown)?;
        self.groups.unpin(table.mask_id);
        self.groups.publish();
        Ok(())
    }

    /// Creates a rule of a template table; packets match it from now on.
    ///
    /// # Errors
    /// As [`Nic::create`]; [`RuleError::TemplateUnknown`].
    pub fn create_in(&mut self, rule: &TemplateRule) -> Result<RuleId, RuleError> {
        self.create_filled(rule).map_err(RuleError::from)
    }

    /// Replaces the actions of a rule by those of a template table; see [`Nic::update`].
    ///
    /// # Errors
    /// As [`Nic::update`]; [`RuleError::TemplateUnknown`].
    pub fn update_in(&mut self, id: RuleId, actions: &TemplateActions) -> Result<(), RuleError> {
        self.update_filled(id, actions).map_err(RuleError::from)
    }

    /// Whether the table exists, and with it its mask.
    #[inline]
    pub(crate) fn has_template(&self, table_id: TableId) -> bool {
        table_id.nic == self.number && self.templates.get(table_id).is_some()
    }

    #[inline]
    pub(crate) fn create_filled(&mut self, rule: &TemplateRule) -> Result<RuleId, Refused> {
        let (checked, group, priority) = self.check_filled(rule.table_id, &rule.given, None)?;
        // Its mask is known, so its pattern is never read.
        let pattern = &Pattern::any();
        let wanted = RuleSpec { group, priority, pattern, actions: &[] };
        self.create_checked(wanted, &rule.target, checked)
    }

    #[inline]
    pub(crate) fn update_filled(
        &mut self,
        id: RuleId,
        actions: &TemplateActions,
    ) -> Result<(), Refused> {
        let old = self.record(id)?;
        let group = self.groups.number(old.mask_id.group);
        let (checked, ..) = self.check_filled(actions.table_id, &actions.given, Some(group))?;
        if let Checked { fate: RuleFate::Queue(queue), counts: false } = checked
            && self.steps.is_empty()
            && self.update_plain(id, Fate::Queue(queue))
        {
            return Ok(());
        }
        self.update_checked(id, &old, checked)
    }

    /// [`Nic::check`] for a table's actions with these numbers, for a rule of `group`, or else of
    /// the table's group. Returns this group and the table's priority too.
    #[inline]
    fn check_filled(
        &mut self,
        table_id: TableId,
        given: &[u32],
        group: Option<u32>,
    ) -> Result<(Checked, u32, u32), Refused> {
        if !self.has_template(table_id) {
            return Err(RuleError::TemplateUnknown.into());
        }
        let table = self.templates.get(table_id);
        let plain = table.and_then(|table| Some((table.plain?, table.group, table.priority)));
        if let Some((counts, group, priority)) = plain.filter(|_| given[0] < self.queues().into()) {
            self.clear_steps();
            let fate = RuleFate::Queue(given[0] as u16);
            return Ok((Checked { fate, counts }, group, priority));
        }
        let Some(mut table) = self.templates.lend(table_id) else {
            return Err(RuleError::TemplateUnknown.into());
        };
        table.give(given);
        let (group, priority) = (group.unwrap_or(table.group), table.priority);
        let pattern = &Pattern::any();
        let checked = self.check(RuleSpec { group, priority, pattern, actions: &table.actions });
        self.templates.give_back(table_id, table);
        Ok((checked?, group, priority))
    }
}

impl Templates {
    fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() >= TEMPLATES_MAX
    }

    /// Stores a table, for which there is room.
    fn put(&mut self, nic: u32, table: Table) -> TableId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let (generation, free) = &mut self.slots[slot as usize];
        *free = Some(Box::new(table));
        TableId { nic, slot, generation: *generation }
    }

    #[inline]
    fn get(&self, table_id: TableId) -> Option<&Table> {
        let (generation, table) = self.slots.get(table_id.slot as usize)?;
        table.as_deref().filter(|_| *generation == table_id.generation)
    }

    /// Removes a table.
    fn remove(&mut self, table_id: TableId) -> Option<Box<Table>> {
        let (generation, table) = self.slots.get_mut(table_id.slot as usize)?;
        *generation = generation.wrapping_add(1);
        self.free.push(table_id.slot);
        table.take()
    }

    /// Takes a table out for a moment.
    fn lend(&mut self, table_id: TableId) -> Option<Box<Table>> {
        self.slots.get_mut(table_id.slot as usize)?.1.take()
    }

    fn give_back(&mut self, table_id: TableId, table: Box<Table>) {
        self.slots[table_id.slot as usize].1 = Some(table);
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
            mask_id: MaskId::default(),
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
                // A queue that no NIC has stands for numbers that do not fit.
                Action::Queue(queue) => *queue = u16::try_from(number).unwrap_or(u16::MAX),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
