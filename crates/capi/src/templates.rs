//! Template tables for C programs: what rules share is checked once, the rest comes with each rule.
//!
//! A table has pattern templates (items and masks) and actions templates. A rule that fits the
//! NIC's own template tables (`niclab_nic::TemplateTable`) goes through them: outer headers, and
//! actions of which queue, mark and jump vary. Any other rule is created whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrayvec::ArrayVec;
use niclab_nic::limits::{ACTIONS_MAX, GIVEN_MAX};
use niclab_nic::rule::item::ItemMatch;
use niclab_nic::rule::{Action, Pattern};
use niclab_nic::{RuleError, Template, TemplateAction, TemplateRule, TemplateTable};

use crate::control::{GivenActions, RulePosition};
use crate::failure::{Failure, FailurePart};
use crate::flow_queue::{SharedControl, lock};
use crate::shapes::{Compiled, ItemBytes, OuterKey, PatternShapes};

/// An actions template: the actions, and which of them have the template's values in each rule.
#[derive(Clone, Debug)]
pub struct ActionsTemplate {
    /// The actions.
    pub given: GivenActions,
    /// For each action, whether its values are those of the template.
    pub fixed: ArrayVec<bool, ACTIONS_MAX>,
}

/// A template table.
#[derive(Debug)]
pub struct RuleTable {
    /// No other table of the process has this number.
    number: u64,
    /// Group and priority of its rules.
    pub place: RulePosition,
    /// For each pattern template, its items; only their masks matter.
    pub patterns: Vec<Vec<ItemMatch>>,
    /// Actions templates.
    pub actions: Vec<ActionsTemplate>,
    /// The NIC's tables, by what a rule has. Made when the first such rule comes.
    fitting: Mutex<Vec<Fitting>>,
}

/// A table of the NIC, for rules with the same mask and the same actions.
#[derive(Clone, Debug)]
struct Fitting {
    /// The number of the NIC that has these tables ([`Control::successions`]).
    successions: u64,
    pattern: usize,
    actions: usize,
    mask: niclab_packet::key::Key,
    /// `None` if the NIC has no such tables.
    table: Option<Arc<TemplateTable>>,
}

/// What a thread keeps to make rules of tables fast.
#[derive(Debug, Default)]
pub struct RuleMaker {
    shapes: PatternShapes,
    last: Option<LastTable>,
}

/// The templates that a thread used last.
#[derive(Debug)]
struct LastTable {
    /// Number of the table, and indices of its templates.
    number: u64,
    templates: (usize, usize),
    /// The shape of its items, as long as no other items were compiled.
    shape: usize,
    fitting: Fitting,
}

impl ActionsTemplate {
    /// The actions as the NIC's templates have them; `None` if it has none such.
    fn of_nic(&self) -> Option<Vec<TemplateAction>> {
        let is_plain = self.given.indirect.is_empty() && self.given.age_context.is_none();
        if !is_plain || self.given.list.iter().any(|action| matches!(action, Action::Age(_))) {
            return None;
        }
        let varies = |action: &Action| match action {
            Action::Jump(_) => Some(TemplateAction::Jump),
            Action::Mark(_) => Some(TemplateAction::Mark),
            Action::Queue(_) => Some(TemplateAction::Queue),
            Action::Count | Action::Drop | Action::Flag | Action::DecTtl | Action::PopVlan => {
                Some(TemplateAction::Same(action.clone()))
            }
            _ => None,
        };
        let actions = self.given.list.iter().zip(&self.fixed);
        let actions = actions.map(|(action, fixed)| match fixed {
            true => Some(TemplateAction::Same(action.clone())),
            false => varies(action),
        });
        actions.collect()
    }

    /// Checks that a rule has the actions of the template, where it gives values of its own.
    ///
    /// # Errors
    /// `EINVAL` for another number of actions, or another action.
    #[inline]
    pub fn check(&self, given: &GivenActions) -> Result<(), Failure> {
        let count = self.given.list.len();
        if given.list.len() != count {
            let text = format!("{} actions; the template has {count}", given.list.len());
            return Err(Failure::new(libc::EINVAL, FailurePart::Actions, text));
        }
        let is_indirect = |given: &GivenActions, at| given.indirect.iter().any(|(of, _)| *of == at);
        for (at, (own, known)) in given.list.iter().zip(&self.given.list).enumerate() {
            let is_same = std::mem::discriminant(own) == std::mem::discriminant(known)
                && is_indirect(given, at) == is_indirect(&self.given, at);
            if !self.fixed[at] && !is_same {
                let text = format!("`{own}`; the template has another action here");
                return Err(Failure::of_action(libc::EINVAL, at, text));
            }
        }
        Ok(())
    }

    /// The numbers that a rule with these actions gives.
    fn numbers(&self, actions: &[Action]) -> ArrayVec<u32, GIVEN_MAX> {
        let varying = actions.iter().zip(&self.fixed).filter(|(_, fixed)| !**fixed);
        let numbers = varying.filter_map(|(action, _)| match *action {
            Action::Jump(number) | Action::Mark(number) => Some(number),
            Action::Queue(queue) => Some(queue.into()),
            _ => None,
        });
        numbers.take(GIVEN_MAX).collect()
    }

    /// The actions of a rule: its own where the template lets it, else the template's.
    pub fn complete(&self, given: &mut GivenActions) {
        for (at, action) in given.list.iter_mut().enumerate() {
            if self.fixed[at] {
                *action = self.given.list[at].clone();
            }
        }
        given.indirect.retain(|(at, _)| !self.fixed[*at]);
        let fixed = self.given.indirect.iter().filter(|(at, _)| self.fixed[*at]);
        given.indirect.extend(fixed.copied());
        given.age_context = given.age_context.or(self.given.age_context);
    }
}

impl RuleTable {
    /// A table of these templates.
    pub fn new(
        place: RulePosition,
        patterns: Vec<Vec<ItemMatch>>,
        actions: Vec<ActionsTemplate>,
    ) -> RuleTable {
        static TABLES: AtomicU64 = AtomicU64::new(0);
        let number = TABLES.fetch_add(1, Ordering::Relaxed);
        RuleTable { number, place, patterns, actions, fitting: Mutex::new(Vec::new()) }
    }

    /// Destroys the tables that the NIC has for it.
    pub fn close(&self, control: &SharedControl) {
        let mut control = lock(control);
        let all = std::mem::take(&mut *self.fitting.lock().unwrap_or_else(PoisonError::into_inner));
        for table in all.into_iter().filter_map(|fitting| fitting.table) {
            // A table that the NIC does not know needs no end.
            let _ = control.nic.destroy_template_table(&table);
        }
    }

    /// The NIC's table for rules of these templates with the mask of this pattern.
    fn fitting(
        &self,
        (pattern_index, actions_index): (usize, usize),
        key: &OuterKey,
        control: &SharedControl,
    ) -> Result<Fitting, Failure> {
        let mut control = lock(control);
        let successions = control.successions();
        let mut all = self.fitting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |known: &&Fitting| {
            (known.pattern, known.actions) == (pattern_index, actions_index)
                && (known.successions, known.mask) == (successions, key.mask)
        };
        if let Some(known) = all.iter().find(is_it) {
            return Ok(known.clone());
        }
        let table = match self.actions[actions_index].of_nic() {
            Some(actions) => {
                let RulePosition { group, priority } = self.place;
                let (pattern, actions) = (Pattern::masked(&key.value, &key.mask), &actions[..]);
                match control.nic.template_table(&Template { group, priority, pattern, actions }) {
                    Ok(table) => Some(Arc::new(table)),
                    Err(RuleError::TemplateUnfit { .. }) => None,
                    Err(error) => return Err(error.into()),
                }
            }
            None => None,
        };
        let mask = key.mask;
        let (pattern, actions) = (pattern_index, actions_index);
        let made = Fitting { successions, pattern, actions, mask, table };
        all.push(made.clone());
        Ok(made)
    }
}

impl RuleMaker {
    /// The rule of a table with these values, for the NIC's template table; `None` if it has to be
    /// created whole. The first such rule makes a table of the NIC.
    ///
    /// # Errors
    /// As [`niclab_nic::rule::compile::pattern`] and [`niclab_nic::Nic::template_table`].
    #[inline]
    pub fn rule(
        &mut self,
        table: &RuleTable,
        templates: (usize, usize),
        items: &[ItemBytes<'_>],
        actions: &[Action],
        control: &SharedControl,
    ) -> Result<Option<TemplateRule>, Failure> {
        let last = self.last.as_ref();
        let last = last.filter(|l| (l.number, l.templates) == (table.number, templates));
        let known = last.and_then(|last| {
            Some((self.shapes.refill(last.shape, items)?, last.fitting.table.as_ref()))
        });
        let (value, fitting) = match known {
            Some(known) => known,
            None => {
                // Another shape may get the number of this one.
                self.last = None;
                let Compiled::Outer(key) = self.shapes.compile(items)? else { return Ok(None) };
                let (number, shape) = (table.number, self.shapes.last());
                let fitting = table.fitting(templates, &key, control)?;
                let last = self.last.insert(LastTable { number, templates, shape, fitting });
                (key.value, last.fitting.table.as_ref())
            }
        };
        let Some(fitting) = fitting else { return Ok(None) };
        let numbers = table.actions[templates.1].numbers(actions);
        Ok(Some(fitting.rule(&value, &numbers)?))
    }
}
