//! What the control side tells a program, checked against it: entries of tables, members of
//! groups, rates of meters. The same for the definition and for the fast path.

use crate::form::{Actions, Field, FieldRef, Invocation, Kind, Match, Program, Scope};
use niclab_nic::text::visible;
use niclab_nic::{Colour, Meter};

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// One part for each field of the table's key, in order.
    pub key: Key,
    /// Of entries that match the same packet the one with the lowest number counts, and of equal
    /// ones the one that was added first. 0 where no field is matched by a mask.
    pub priority: u32,
    /// What it does.
    pub does: Invocation,
}

/// What an entry matches.
pub type Key = Vec<Part>;

/// What an entry wants of one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// As wide as the field, first byte first; zero where the mask is.
    pub value: Vec<u8>,
    /// The bits that count.
    pub mask: Vec<u8>,
}

/// One member of a group of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What the selector finds.
    pub id: u32,
    /// Its share, from 1 on.
    pub weight: u32,
}

/// The rates of a meter (RFC 2698): bytes a second, and bytes at once. A command that is read has
/// none whose peak is below what is committed, or whose bursts are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Committed information rate, bytes a second.
    pub committed: u64,
    /// Peak information rate, bytes a second.
    pub peak: u64,
    /// Committed burst size, bytes.
    pub committed_burst: u32,
    /// Peak burst size, bytes.
    pub peak_burst: u32,
}

impl From<Rates> for Meter {
    fn from(rates: Rates) -> Meter {
        Meter::TwoRate {
            cir_bytes_per_s: rates.committed,
            pir_bytes_per_s: rates.peak,
            cbs_bytes: rates.committed_burst.into(),
            pbs_bytes: rates.peak_burst.into(),
        }
    }
}

/// A colour as programs have it: 0 green, 1 yellow, 2 and more red.
pub(crate) const fn colour(number: u64) -> Colour {
    match number {
        0 => Colour::Green,
        1 => Colour::Yellow,
        _ => Colour::Red,
    }
}

/// Where copies of packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The port that they leave by.
    pub port: u32,
    /// Bytes that they have at most.
    pub len_max: u32,
}

/// Ports of a group that copies go to: bit N is port N, of 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports(pub u64);

impl Ports {
    /// All but one, which may be any port.
    #[must_use]
    pub fn without(self, port: u64) -> Ports {
        let bit = u32::try_from(port).ok().and_then(|port| 1_u64.checked_shl(port));
        Ports(self.0 & !bit.unwrap_or(0))
    }

    /// The ports, the lowest first.
    pub fn each(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |port| self.0 >> port & 1 == 1)
    }
}

/// One thing that the control side changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Put an entry into a table.
    Add {
        /// Number of the table.
        table: usize,
        /// The entry.
        entry: Entry,
    },
    /// Give the entry with this key another priority and another thing to do.
    Modify {
        /// Number of the table.
        table: usize,
        /// The entry.
        entry: Entry,
    },
    /// Take the entry with this key out.
    Delete {
        /// Number of the table.
        table: usize,
        /// Its key.
        key: Key,
    },
    /// Say what packets do that no entry matches.
    Default {
        /// Number of the table.
        table: usize,
        /// What they do.
        does: Invocation,
    },
    /// Say who is in a group of a selector.
    Group {
        /// Number of the selector.
        table: usize,
        /// Number of the group.
        group: u32,
        /// All its members.
        members: Vec<Member>,
    },
}

/// Why a change is refused. Nothing of what it came with was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The program has none of this name or number.
    #[error("no {what} {}; there are: {}", visible(name), listed(there))]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        there: Vec<String>,
    },
    /// The table is of another kind.
    #[error("{table} is {is}: {remedy}")]
    Kind {
        /// Its name.
        table: String,
        /// What it is.
        is: &'static str,
        /// What would do.
        remedy: &'static str,
    },
    /// Key or arguments do not have the fields that they should.
    #[error("{what}: {given} given, and there are {wanted}: {}", listed(fields))]
    Count {
        /// Of what.
        what: String,
        /// How many were given.
        given: usize,
        /// How many there are.
        wanted: usize,
        /// Their names.
        fields: Vec<String>,
    },
    /// A value is not of its field.
    #[error("{field}: {reason}")]
    Value {
        /// The field.
        field: String,
        /// What would do.
        reason: String,
    },
    /// The action may not stand there.
    #[error("{action} is not {role} of {table}; {}", choices(there))]
    Action {
        /// The table.
        table: String,
        /// The action.
        action: String,
        /// As what it was to stand.
        role: &'static str,
        /// What may stand there.
        there: Vec<String>,
    },
    /// The default action was declared `const`.
    #[error("the default action of {table} is constant")]
    Constant {
        /// The table.
        table: String,
    },
    /// There is an entry with this key.
    #[error("{table} has an entry with this key; modify or delete it")]
    Exists {
        /// The table.
        table: String,
    },
    /// A file has two entries with this key.
    #[error("{table}: the file has two entries with the key {key}: keep one")]
    Twice {
        /// The table.
        table: String,
        /// The key, as commands have it.
        key: String,
    },
    /// There is no entry with this key.
    #[error("{table} has no entry with this key")]
    Missing {
        /// The table.
        table: String,
    },
    /// The table is full.
    #[error("{table} is full: {size} entries; delete some, or give it a larger size")]
    Full {
        /// The table.
        table: String,
        /// Its size.
        size: usize,
    },
    /// The system has no memory for it.
    #[error("{table}: no room: {reason}")]
    Room {
        /// The table.
        table: String,
        /// What there is none of.
        reason: String,
    },
}

/// Which of several commands, or changes, is refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place among them, from 0.
    pub at: usize,
    /// Why.
    pub error: ChangeError,
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn choices(names: &[String]) -> String {
    if names.is_empty() { "none may be".to_owned() } else { format!("choose {}", names.join(", ")) }
}

impl Part {
    /// All bits of a value.
    #[must_use]
    pub fn exact(value: Vec<u8>) -> Part {
        Part { mask: vec![0xff; value.len()], value }
    }

    /// The bits of a mask; those of the value outside of it are forgotten.
    #[must_use]
    pub fn masked(value: &[u8], mask: Vec<u8>) -> Part {
        Part { value: value.iter().zip(&mask).map(|(value, mask)| value & mask).collect(), mask }
    }

    /// The first bits of a value.
    #[must_use]
    pub fn prefix(value: &[u8], bits: u32) -> Part {
        let byte = |at: usize| match bits.saturating_sub(8 * at as u32) {
            0 => 0,
            bits => 0xff_u8.checked_shl(8 - bits.min(8)).unwrap_or(0),
        };
        Part::masked(value, (0..value.len()).map(byte).collect())
    }

    /// Bits before the first that does not count; `None` where one counts behind it.
    #[must_use]
    pub fn prefix_len(&self) -> Option<u32> {
        let ones = self.mask.iter().take_while(|byte| **byte == 0xff).count();
        let rest = self.mask.get(ones..)?;
        let first = rest.first().copied().unwrap_or(0);
        let is_prefix = first.leading_ones() + first.trailing_zeros() >= 8;
        let ends = rest.iter().skip(1).all(|byte| *byte == 0);
        (is_prefix && ends).then_some(8 * ones as u32 + first.leading_ones())
    }

    /// Whether a field with these bytes is wanted.
    #[must_use]
    pub fn matches(&self, bytes: &[u8]) -> bool {
        let bits = bytes.iter().zip(&self.mask).map(|(byte, mask)| byte & mask);
        bits.eq(self.value.iter().copied())
    }
}

/// The fields of a table's key.
type Matched = [(FieldRef, Match)];

impl Program {
    /// The number of the table of this name.
    ///
    /// # Errors
    /// Where there is none, with those there are.
    pub fn table_number(&self, name: &str) -> Result<usize, ChangeError> {
        self.tables.iter().position(|table| table.name == name).ok_or_else(|| {
            let there = self.tables.iter().map(|table| table.name.clone()).collect();
            ChangeError::Unknown { what: "table", name: name.to_owned(), there }
        })
    }

    /// That a change fits this program: everything but what entries are there.
    ///
    /// # Errors
    /// With what does not fit, by its name.
    pub fn check(&self, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Add { table, entry } | Change::Modify { table, entry } => {
                let (key, actions) = self.match_table(*table)?;
                self.check_key(*table, key, &entry.key)?;
                let is_masked = key.iter().any(|(_, how)| *how == Match::Wildcard);
                if entry.priority != 0 && !is_masked {
                    let field = format!("priority of {}", self.tables[*table].name);
                    let reason =
                        "only entries of a table with a `wildcard` field have one".to_owned();
                    return Err(ChangeError::Value { field, reason });
                }
                self.check_action(*table, actions, &entry.does, Scope::Entries)
            }
            Change::Delete { table, key } => {
                let (fields, _) = self.match_table(*table)?;
                self.check_key(*table, fields, key)
            }
            Change::Default { table, does } => {
                let of = self.at(*table)?;
                let Some(actions) = of.kind.actions() else {
                    return Err(self.kind(*table, "it has no actions"));
                };
                if actions.is_default_const {
                    return Err(ChangeError::Constant { table: of.name.clone() });
                }
                self.check_action(*table, actions, does, Scope::Default)
            }
            Change::Group { table, group, members } => self.check_group(*table, *group, members),
        }
    }

    fn at(&self, table: usize) -> Result<&crate::form::Table, ChangeError> {
        self.tables.get(table).ok_or_else(|| ChangeError::Unknown {
            what: "table",
            name: table.to_string(),
            there: self.tables.iter().map(|table| table.name.clone()).collect(),
        })
    }

    fn kind(&self, table: usize, remedy: &'static str) -> ChangeError {
        let of = &self.tables[table];
        let is = match of.kind {
            Kind::Match { .. } => "a table",
            Kind::Learner { .. } => "a learner",
            Kind::Selector { .. } => "a selector",
        };
        ChangeError::Kind { table: of.name.clone(), is, remedy }
    }

    /// Key and actions of a table whose entries the control side has.
    pub(crate) fn match_table(&self, table: usize) -> Result<(&Matched, &Actions), ChangeError> {
        match &self.at(table)?.kind {
            Kind::Match { key, actions } => Ok((key, actions)),
            Kind::Learner { .. } => Err(self.kind(table, "its entries are those it learns")),
            Kind::Selector { .. } => Err(self.kind(table, "give it members of groups")),
        }
    }

    fn check_key(
        &self,
        table: usize,
        fields: &[(FieldRef, Match)],
        key: &[Part],
    ) -> Result<(), ChangeError> {
        let names = || fields.iter().map(|(place, _)| self.name_of(place)).collect::<Vec<_>>();
        if fields.is_empty() {
            return Err(self.kind(table, "without a key, its default action is all it has"));
        }
        if key.len() != fields.len() {
            return Err(ChangeError::Count {
                what: format!("key of {}", self.tables[table].name),
                given: key.len(),
                wanted: fields.len(),
                fields: names(),
            });
        }
        for ((place, how), part) in fields.iter().zip(key) {
            let wrong =
                |reason: String| Err(ChangeError::Value { field: self.name_of(place), reason });
            let len = place.len_bytes();
            if part.value.len() != len || part.mask.len() != len {
                return wrong(format!("it has {} bits", place.bits));
            }
            if part.value.iter().zip(&part.mask).any(|(value, mask)| value & !mask != 0) {
                return wrong("the value has bits outside of its mask".to_owned());
            }
            match how {
                Match::Exact if part.mask.iter().any(|mask| *mask != 0xff) => {
                    return wrong("it is matched exactly: give no mask".to_owned());
                }
                Match::Prefix if part.prefix_len().is_none() => {
                    return wrong("it is matched by its first bits: give a prefix".to_owned());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_action(
        &self,
        table: usize,
        actions: &Actions,
        does: &Invocation,
        role: Scope,
    ) -> Result<(), ChangeError> {
        let may = |(action, scope): &(usize, Scope)| {
            (*scope == Scope::All || *scope == role).then_some(*action)
        };
        if !actions.of.iter().filter_map(may).any(|action| action == does.action) {
            let name = |action: usize| self.actions[action].name.clone();
            let unknown = || format!("action {}", does.action);
            return Err(ChangeError::Action {
                table: self.tables[table].name.clone(),
                action: self.actions.get(does.action).map_or_else(unknown, |of| of.name.clone()),
                role: if role == Scope::Entries { "for entries" } else { "a default action" },
                there: actions.of.iter().filter_map(may).map(name).collect(),
            });
        }
        let fields = self.arguments(does.action);
        if fields.len() != does.arguments.len() {
            return Err(ChangeError::Count {
                what: format!("arguments of {}", self.actions[does.action].name),
                given: does.arguments.len(),
                wanted: fields.len(),
                fields: fields.iter().map(|field| field.name.clone()).collect(),
            });
        }
        let is_wrong = |(field, bytes): &(&Field, &Vec<u8>)| bytes.len() * 8 != field.bits as usize;
        match fields.iter().zip(&does.arguments).find(is_wrong) {
            None => Ok(()),
            Some((field, _)) => Err(ChangeError::Value {
                field: format!("{} of {}", field.name, self.actions[does.action].name),
                reason: format!("it has {} bits", field.bits),
            }),
        }
    }

    fn check_group(&self, table: usize, group: u32, members: &[Member]) -> Result<(), ChangeError> {
        let Kind::Selector { groups_max, members_max, .. } = self.at(table)?.kind else {
            return Err(self.kind(table, "it has no groups"));
        };
        let name = &self.tables[table].name;
        let wrong = |field: String, reason: String| Err(ChangeError::Value { field, reason });
        if group as usize >= groups_max {
            return wrong(format!("group of {name}"), format!("use 0 to {}", groups_max - 1));
        }
        if members.len() > members_max {
            return wrong(format!("members of {name}"), format!("{members_max} at most"));
        }
        let weights: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
        match members.iter().any(|member| member.weight == 0) || weights > u64::from(u32::MAX) {
            true => {
                let reason = "weights from 1 on, whose sum is below 2^32".to_owned();
                wrong(format!("weights of {name}"), reason)
            }
            false => Ok(()),
        }
    }

    /// The name of a field of a header or of metadata.
    #[must_use]
    pub fn name_of(&self, place: &FieldRef) -> String {
        crate::dump::Named { program: self, arguments: None }.place(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_masks_of_ones_in_front() {
        let prefix = |bits| Part::prefix(&[0xff, 0xff, 0xff], bits);
        assert_eq!(prefix(0).mask, [0, 0, 0]);
        assert_eq!(prefix(9).mask, [0xff, 0x80, 0]);
        assert_eq!(prefix(24).mask, [0xff, 0xff, 0xff]);
        assert_eq!(prefix(9).value, [0xff, 0x80, 0]);
        for bits in 0..=24 {
            assert_eq!(prefix(bits).prefix_len(), Some(bits));
        }
        for mask in [[0x7f, 0, 0], [0xff, 0, 1], [0xfe, 0x80, 0], [0xf5, 0, 0]] {
            assert_eq!(Part::masked(&[0; 3], mask.to_vec()).prefix_len(), None, "{mask:?}");
        }
    }
}
