//! Memory that is set aside when a program is loaded, beside its windows and rings.

use crate::form::{FieldRef, Kind, Program, Scope, Table};

/// Bytes that are set aside for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// For registers, meters and digests: all cores share them.
    pub shared: usize,
    /// For counters and learners: each core has its own.
    pub each: usize,
}

impl Room {
    /// Bytes for so many cores.
    #[must_use]
    pub fn of(self, cores: usize) -> usize {
        self.each.saturating_mul(cores).saturating_add(self.shared)
    }
}

impl Program {
    /// What is set aside for it.
    #[must_use]
    pub fn room(&self) -> Room {
        let sum = |of: &mut dyn Iterator<Item = usize>| of.fold(0, usize::saturating_add);
        let registers = self.registers.iter().map(|array| array.len * 8);
        let meters = self.meters.iter().map(|array| array.len * 64);
        let digests = self.digests.iter().map(|of| of.len * (self.structs[of.of].len + 8));
        let counters = self.counters.iter().map(|array| array.len * 16);
        let learners = self.tables.iter().map(|of| self.learner(of));
        Room {
            shared: sum(&mut registers.chain(meters).chain(digests)),
            each: sum(&mut counters.chain(learners)),
        }
    }

    fn learner(&self, table: &Table) -> usize {
        let Kind::Learner { key, actions, .. } = &table.kind else { return 0 };
        let key: usize = key.iter().map(FieldRef::len_bytes).sum();
        let arguments = |(action, _): &(usize, Scope)| {
            let of = self.actions[*action].arguments.map(|of| &self.structs[of]);
            of.map_or(0, |of| of.len + 8 * of.fields.len())
        };
        let arguments = actions.of.iter().map(arguments).max().unwrap_or(0);
        // Key and arguments, in words, what is known of an entry and where it stands.
        table.size.saturating_mul(2 * (key + 8) + arguments + 64)
    }
}
