//! Shared (indirect) actions: one counter, one age or one RSS for several rules.
//!
//! The NIC has no shared actions. A rule that has one is created with a copy of it. The counter is
//! the sum of its rules' counters, and of those that were destroyed; the age is that of the rule
//! that was hit last; a change of RSS updates all rules in one transaction.

use std::collections::{HashMap, HashSet};

use niclab_nic::rule::Action;
use niclab_nic::{Age, Counts, Nic, RuleId};

use crate::control::{GivenActions, difference};
use crate::failure::{Failure, FailurePart};

/// The most shared actions.
pub const SHARED_ACTIONS_MAX: usize = 1 << 20;

/// A shared action.
#[derive(Debug)]
struct SharedAction {
    action: Action,
    /// The program's word for it once it is aged.
    age_context: Option<u64>,
    users: HashSet<RuleId>,
    /// Counted by rules that do not use it any more.
    former: Counts,
    /// Counted when it was reset last.
    reset: Counts,
}

/// The shared actions of a NIC, by handle.
#[derive(Debug, Default)]
pub struct SharedActions {
    actions: HashMap<u64, SharedAction>,
    created: u64,
}

fn unknown(handle: u64) -> Failure {
    let text = format!("no indirect action has the handle {handle:#x}; create it first");
    Failure::new(libc::ENOENT, FailurePart::Handle, text)
}

impl SharedActions {
    /// Creates a shared action; returns its handle, which is not 0.
    ///
    /// # Errors
    /// `ENOTSUP` for other actions than `age`, `count` and `rss`; `ENOSPC`.
    pub fn create(&mut self, action: Action, age_context: Option<u64>) -> Result<u64, Failure> {
        if !matches!(action, Action::Age(_) | Action::Count | Action::Rss(_)) {
            let text = format!("indirect `{action}`: only age, count and rss can be shared");
            return Err(Failure::of_action(libc::ENOTSUP, 0, text));
        }
        if self.actions.len() >= SHARED_ACTIONS_MAX {
            let text = format!("{SHARED_ACTIONS_MAX} indirect actions exist; destroy some");
            return Err(Failure::new(libc::ENOSPC, FailurePart::Room, text));
        }
        self.created += 1;
        let (users, former, reset) = (HashSet::new(), Counts::default(), Counts::default());
        let shared = SharedAction { action, age_context, users, former, reset };
        self.actions.insert(self.created, shared);
        Ok(self.created)
    }

    /// Destroys a shared action.
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

    /// Puts the shared actions into a list of actions.
    ///
    /// # Errors
    /// `ENOENT`.
    #[inline]
    pub(crate) fn resolve(&self, given: &mut GivenActions) -> Result<(), Failure> {
        for &(index, handle) in &given.shared {
            let shared = self.actions.get(&handle).ok_or_else(|| unknown(handle));
            let shared = shared.map_err(|e| Failure::of_action(e.errno, index, e.message))?;
            given.list[index] = shared.action.clone();
        }
        Ok(())
    }

    /// Replaces a shared action; returns the old one.
    pub(crate) fn replace(&mut self, handle: u64, action: Action) -> Result<Action, Failure> {
        let shared = self.actions.get_mut(&handle).ok_or_else(|| unknown(handle))?;
        if std::mem::discriminant(&shared.action) != std::mem::discriminant(&action) {
            let text = format!("the indirect action is `{}`, not `{action}`", shared.action);
            return Err(Failure::of_action(libc::EINVAL, 0, text));
        }
        Ok(std::mem::replace(&mut shared.action, action))
    }

    /// The rules that have a shared action.
    pub(crate) fn users(&self, handle: u64) -> impl Iterator<Item = RuleId> {
        self.actions.get(&handle).into_iter().flat_map(|shared| shared.users.iter().copied())
    }

    pub(crate) fn add_user(&mut self, id: RuleId, given: &GivenActions) {
        for (_, handle) in &given.shared {
            self.actions.entry(*handle).and_modify(|shared| {
                shared.users.insert(id);
            });
        }
    }

    pub(crate) fn remove_user(&mut self, id: RuleId, given: &GivenActions, counted: Counts) {
        for (_, handle) in &given.shared {
            if let Some(shared) = self.actions.get_mut(handle)
                && shared.users.remove(&id)
            {
                shared.former = [shared.former, counted].into_iter().sum();
            }
        }
    }

    /// Whether one of the shared actions is an age.
    pub(crate) fn has_age(&self, given: &GivenActions) -> bool {
        given.shared.iter().any(|(_, handle)| {
            self.actions.get(handle).is_some_and(|shared| matches!(shared.action, Action::Age(_)))
        })
    }

    /// What the rules of a shared counter have counted since the last reset; `reset` resets it.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for an action of another kind.
    pub fn counts(&mut self, nic: &Nic, handle: u64, reset: bool) -> Result<Counts, Failure> {
        let shared = self.actions.get_mut(&handle).ok_or_else(|| unknown(handle))?;
        if shared.action != Action::Count {
            let text = format!("the indirect action is `{}`, not `count`", shared.action);
            return Err(Failure::new(libc::EINVAL, FailurePart::Handle, text));
        }
        let live = shared.users.iter().filter_map(|&id| nic.query(id).ok());
        let now: Counts = live.chain([shared.former]).sum();
        let counts = difference(now, shared.reset);
        if reset {
            shared.reset = now;
        }
        Ok(counts)
    }

    /// The age of a shared age; `None` while no rule has it.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` for an action of another kind.
    pub fn age(&self, nic: &Nic, handle: u64) -> Result<Option<Age>, Failure> {
        let shared = self.actions.get(&handle).ok_or_else(|| unknown(handle))?;
        match shared.action {
            Action::Age(_) => Ok(shared.age(nic)),
            ref action => {
                let text = format!("the indirect action is `{action}`, not `age`");
                Err(Failure::new(libc::EINVAL, FailurePart::Handle, text))
            }
        }
    }

    /// The words of the shared ages that are aged.
    pub(crate) fn aged(&self, nic: &Nic) -> impl Iterator<Item = u64> {
        // A counter has no age, even if its rules have one.
        let aged = |shared: &SharedAction| {
            matches!(shared.action, Action::Age(_)) && shared.age(nic).is_some_and(|a| a.is_aged())
        };
        let all = self.actions.iter().filter(move |(_, shared)| aged(shared));
        all.map(|(&handle, shared)| shared.age_context.unwrap_or(handle))
    }
}

impl SharedAction {
    /// The age of the rule that was hit last.
    fn age(&self, nic: &Nic) -> Option<Age> {
        let ages = self.users.iter().filter_map(|&id| nic.age(id).ok().flatten());
        ages.min_by_key(|age| age.idle_ns)
    }
}
