//! Texts of rules, each command for the port that it names; and how many rules they created,
//! changed and destroyed.

use niclab_nic::Nic;
use niclab_nic::rule::session::Record;
use niclab_nic::rule::text::{ReadError, by_port, port_of};

use super::Card;

/// Rules of one port that texts have created, updated and destroyed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuleOperations {
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) destroyed: u64,
}

impl RuleOperations {
    /// Counts what a command did.
    fn count(&mut self, record: &Record) {
        match record {
            Record::Created { .. } => self.created += 1,
            Record::Updated { .. } => self.updated += 1,
            Record::Destroyed { .. } => self.destroyed += 1,
            Record::Flushed { rules_count } => self.destroyed += u64::from(*rules_count),
            Record::Aged { rules, destroyed: true } => self.destroyed += rules.len() as u64,
            Record::Age { .. }
            | Record::Aged { .. }
            | Record::Counted { .. }
            | Record::Isolated { .. }
            | Record::Listed(_)
            | Record::Set
            | Record::Validated => {}
        }
    }
}

impl Card {
    /// Rules and RSS of a port, to be changed by calls in place of texts. The ids of rules that are
    /// made so are not those of texts.
    pub fn control(&mut self, port: u16) -> Option<&mut Nic> {
        self.ports.get_mut(usize::from(port)).map(|port| &mut port.nic)
    }

    /// Carries out a text of `flow` commands, each for the port that it names. What is for one port
    /// is applied whole or not at all, port by port.
    ///
    /// # Errors
    /// What cannot be read or is refused, with its line; what was for ports before that one stays.
    pub fn apply(&mut self, text: &str) -> Result<Vec<(u16, Record)>, ReadError> {
        let applied = self.apply_by_port(text);
        self.rule_texts_refused += u64::from(applied.is_err());
        applied
    }

    fn apply_by_port(&mut self, text: &str) -> Result<Vec<(u16, Record)>, ReadError> {
        // A port that is not there is refused by the first.
        let is_unknown = |port: u16| usize::from(port) >= self.ports.len();
        let unknown = text.lines().filter_map(port_of).any(is_unknown);
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let (ports, mut records) = (self.ports.len() as u16, Vec::new());
        let mut texts = by_port(text, 0..if unknown { 0 } else { ports });
        for (number, port) in (0..).zip(&mut self.ports) {
            port.nic.set_time_ns(now_ns);
            let own = texts.remove(&number);
            let own = own.as_deref().unwrap_or(text);
            let done = port.session.apply(&mut port.nic, own.as_bytes())?;
            done.iter().for_each(|record| port.rule_operations.count(record));
            records.extend(done.into_iter().map(|record| (number, record)));
        }
        self.wake();
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_and_questions_are_not() {
        let mut operations = RuleOperations::default();
        for record in [
            Record::Created { rule: 0 },
            Record::Created { rule: 1 },
            Record::Updated { rule: 1 },
            Record::Destroyed { rule: 0 },
            Record::Flushed { rules_count: 5 },
            Record::Aged { rules: vec![1, 2], destroyed: true },
            Record::Aged { rules: vec![1, 2], destroyed: false },
            Record::Listed(Vec::new()),
            Record::Validated,
            Record::Set,
        ] {
            operations.count(&record);
        }
        let RuleOperations { created, updated, destroyed } = operations;
        assert_eq!([created, updated, destroyed], [2, 1, 8]);
    }
}
