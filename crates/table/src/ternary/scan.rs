//! The definition of ternary match: all rules, one after the other.

use super::{Hit, TernaryRule};

/// A list of rules that is searched from its first to its last.
///
/// It defines the results: [`Ternary`](crate::Ternary) finds the same hit for each key. A look-up
/// takes as many steps as there are rules.
#[derive(Debug, Clone, Default)]
pub struct TernaryScan<const W: usize> {
    rules: Vec<TernaryRule<W>>,
}

impl<const W: usize> TernaryScan<W> {
    /// No rules.
    #[must_use]
    pub const fn new() -> Self {
        Self { rules: Vec::new() }
    }

    /// Adds a rule; false if the same rule exists.
    pub fn insert(&mut self, rule: &TernaryRule<W>) -> bool {
        let is_new = self.find(rule).is_none();
        if is_new {
            self.rules.push(*rule);
        }
        is_new
    }

    /// Removes a rule; false if it does not exist.
    pub fn remove(&mut self, rule: &TernaryRule<W>) -> bool {
        let found = self.find(rule).map(|at| self.rules.swap_remove(at));
        found.is_some()
    }

    /// The rule that wins for a key.
    #[must_use]
    pub fn lookup(&self, key: &[u64; W]) -> Option<Hit> {
        self.rules.iter().filter(|rule| rule.matches(key)).map(TernaryRule::hit).min()
    }

    /// Number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where the same rule is: one that matches the same keys, with the same priority and value.
    fn find(&self, rule: &TernaryRule<W>) -> Option<usize> {
        let is_same = |other: &TernaryRule<W>| {
            other.mask == rule.mask && other.matches(&rule.key) && other.hit() == rule.hit()
        };
        self.rules.iter().position(is_same)
    }
}
