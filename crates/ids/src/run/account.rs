//! The packets that an engine was given and did not inspect.

/// An account over all lives of an engine. `given` are the packets that the card has given it so
/// far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// What was given before this life, or before the last one ended.
    before: u64,
    /// What was not inspected before.
    missed: u64,
}

impl Account {
    /// A life begins: what was given since the last one ended was given to nobody.
    pub(super) fn start(&mut self, given: u64) {
        self.missed += given.saturating_sub(self.before);
        self.before = given;
    }

    /// A life ends, in which so many packets were inspected.
    pub(super) fn die(&mut self, given: u64, inspected: Option<u64>) {
        self.missed = self.missed(given, inspected.unwrap_or(0));
        self.before = given;
    }

    /// What was not inspected, if so many packets were in this life.
    pub(super) fn missed(&self, given: u64, inspected: u64) -> u64 {
        self.missed + given.saturating_sub(self.before).saturating_sub(inspected)
    }

    /// Whether an engine that was given `given` packets and has counted `counted` has counted all
    /// packets since its last start.
    pub(super) fn is_settled(&self, given: u64, counted: u64) -> bool {
        self.missed(given, counted) == self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_and_not_inspected_is_missed_in_every_life_and_between() {
        let mut account = Account::default();
        assert_eq!(account.missed(10, 8), 2);
        assert!(!account.is_settled(10, 8) && account.is_settled(10, 10));
        account.die(10, Some(7));
        account.start(15);
        assert_eq!(account.missed(25, 10), 3 + 5);
        assert_eq!(account.missed(25, 8), 3 + 5 + 2);
        assert_eq!(account.missed(25, 11), 8, "and a frame of somebody else");
    }
}
