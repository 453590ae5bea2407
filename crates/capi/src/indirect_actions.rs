//! Indirect actions: one counter, one age or one RSS for several rules.
//!
//! The NIC has no indirect actions. A rule that has one is created with a copy of it. The counter
//! is the sum of its rules' counters, and of those that were destroyed; the age is that of the rule
//! that was hit last; a change of RSS updates all rules in one transaction.

use std::collections::HashMap;

use niclab_nic::rule::Action;
use niclab_nic::{Age, Counts, Nic, RuleId};

use crate::control::{GivenActions, difference};
use crate::failure::{Failure, FailurePart};

/// The most indirect actions.
pub const INDIRECT_ACTIONS_MAX: usize = 1 << 20;

/// An indirect action.
#[derive(Debug)]
struct IndirectAction {
    action: Action,
    /// The program's word for it once it is aged.
    age_context: Option<u64>,
    /// Its rules, and what each had counted when it got the action.
    users: HashMap<RuleId, Counts>,
    /// Counted by rules that do not use it any more.
    former: Counts,
    /// Counted when it was reset last.
    reset: Counts,
}

/// The indirect actions of a NIC, by handle.
#[derive(Debug, Default)]
pub struct IndirectActions {
    actions: HashMap<u64, IndirectAction>,
    created: u64,
}

fn unknown(handle: u64) -> Failure {
    let text = format!("no indirect action has the handle {handle:#x}; create it first");
    Failure::new(libc::ENOENT, FailurePart::Handle, text)
}

impl IndirectActions {
    /// Creates an indirect action; returns its handle, which is not 0.
    ///
    /// # Errors
    /// `ENOTSUP` for other actions than `age`, `count` and `rss`; `ENOSPC`.
    pub fn create(&mut self, action: Action, age_context: Option<u64>) -> Result<u64, Failure> {
        if !matches!(action, Action::Age(_) | Action::Count | Action::Rss(_)) {
            let text = format!("indirect `{action}`: only age, count and rss can be indirect");
            return Err(Failure::of_action(libc::ENOTSUP, 0, text));
        }
        if self.actions.len() >= INDIRECT_ACTIONS_MAX {
            let text = format!("{INDIRECT_ACTIONS_MAX} indirect actions exist; destroy some");
            return Err(Failure::new(libc::ENOSPC, FailurePart::Room, text));
        }
        self.created += 1;
        let (users, former, reset) = (HashMap::new(), Counts::default(), Counts::default());
        let indirect = IndirectAction { action, age_context, users, former, reset };
        self.actions.insert(self.created, indirect);
        Ok(self.created)
    }

    /// Forgets all of them. Their handles are never given again.
    pub(crate) fn clear(&mut self) {
        self.actions.clear();
    }

    /// Destroys an indirect action.
    ///
    /// # Errors
    /// `ENOENT`; `EBUSY` while rules have it.
    pub fn destroy(&mut self, handle: u64) -> Result<(), Failure> {
        let rules = self.actions.get(&handle).ok_or_else(|| unknown(handle))?.users.len();
        if rules > 0 {
            let text = format!("{rules} rules have the indirect action; destroy them first");
            return Err(Failure::new(libc::EBUSY, FailurePart::Handle, text));
        }
        self.actions.remove(&handle);
        Ok(())
    }

    /// Puts the indirect actions into a list of actions.
    ///
    /// # Errors
    /// `ENOENT`.
    #[inline]
    pub(crate) fn resolve(&self, given: &mut GivenActions) -> Result<(), Failure> {
        for &(index, handle) in &given.indirect {
            let indirect = self.actions.get(&handle).ok_or_else(|| unknown(handle));
            let indirect = indirect.map_err(|e| Failure::of_action(e.errno, index, e.message))?;
            given.list[index] = indirect.action.clone();
        }
        Ok(())
    }

    /// Replaces an indirect action; returns the old one.
    pub(crate) fn replace(&mut self, handle: u64, action: Action) -> Result<Action, Failure> {
        let indirect = self.actions.get_mut(&handle).ok_or_else(|| unknown(handle))?;
        if std::mem::discriminant(&indirect.action) != std::mem::discriminant(&action) {
            let text = format!("the indirect action is `{}`, not `{action}`", indirect.action);
            return Err(Failure::of_action(libc::EINVAL, 0, text));
        }
        Ok(std::mem::replace(&mut indirect.action, action))
    }

    /// The rules that have an indirect action.
    pub(crate) fn users(&self, handle: u64) -> impl Iterator<Item = RuleId> {
        self.actions.get(&handle).into_iter().flat_map(|indirect| indirect.users.keys().copied())
    }

    /// Notes that a rule that has counted this has indirect actions from now on.
    pub(crate) fn add_user(&mut self, id: RuleId, given: &GivenActions, counted: Counts) {
        for (_, handle) in &given.indirect {
            self.actions.entry(*handle).and_modify(|indirect| {
                indirect.users.insert(id, counted);
            });
        }
    }

    /// Notes that a rule that has counted this has them no more.
    pub(crate) fn remove_user(&mut self, id: RuleId, given: &GivenActions, counted: Counts) {
        for (_, handle) in &given.indirect {
            if let Some(indirect) = self.actions.get_mut(handle)
                && let Some(before) = indirect.users.remove(&id)
            {
                let own = difference(counted, before);
                indirect.former = [indirect.former, own].into_iter().sum();
            }
        }
    }

    /// Whether one of the indirect actions is an age.
    pub(crate) fn has_age(&self, given: &GivenActions) -> bool {
        given.indirect.iter().any(|(_, handle)| {
            self.actions
                .get(handle)
                .is_some_and(|indirect| matches!(indirect.action, Action::Age(_)))
        })
    }

    /// Packets and bytes that the rules with an indirect counter have counted since the last reset.
    /// `reset` makes this call one.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for an action of another kind.
    pub fn counts(&mut self, nic: &Nic, handle: u64, reset: bool) -> Result<Counts, Failure> {
        let indirect = self.actions.get_mut(&handle).ok_or_else(|| unknown(handle))?;
        if indirect.action != Action::Count {
            let text = format!("the indirect action is `{}`, not `count`", indirect.action);
            return Err(Failure::new(libc::EINVAL, FailurePart::Handle, text));
        }
        let own =
            |(id, before): (&RuleId, &Counts)| Some(difference(nic.query(*id).ok()?, *before));
        let live = indirect.users.iter().filter_map(own);
        let now: Counts = live.chain([indirect.former]).sum();
        let counts = difference(now, indirect.reset);
        if reset {
            indirect.reset = now;
        }
        Ok(counts)
    }

    /// The age of an indirect age; `None` while no rule has it.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for an action of another kind.
    pub fn age(&self, nic: &Nic, handle: u64) -> Result<Option<Age>, Failure> {
        let indirect = self.actions.get(&handle).ok_or_else(|| unknown(handle))?;
        match indirect.action {
            Action::Age(_) => Ok(indirect.age(nic)),
            ref action => {
                let text = format!("the indirect action is `{action}`, not `age`");
                Err(Failure::new(libc::EINVAL, FailurePart::Handle, text))
            }
        }
    }

    /// The words of the indirect ages that are aged.
    pub(crate) fn aged(&self, nic: &Nic) -> impl Iterator<Item = u64> {
        // A counter has no age, even if its rules have one.
        let aged = |indirect: &IndirectAction| {
            matches!(indirect.action, Action::Age(_))
                && indirect.age(nic).is_some_and(|a| a.is_aged())
        };
        let all = self.actions.iter().filter(move |(_, indirect)| aged(indirect));
        all.map(|(&handle, indirect)| indirect.age_context.unwrap_or(handle))
    }
}

impl IndirectAction {
    /// The age of the rule that was hit last.
    fn age(&self, nic: &Nic) -> Option<Age> {
        let ages = self.users.keys().filter_map(|&id| nic.age(id).ok().flatten());
        ages.min_by_key(|age| age.idle_ns)
    }
}
