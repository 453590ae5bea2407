//! What the tables of a program have.

use serde::{Deserialize, Serialize};

/// How much a table has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    /// Its name.
    pub name: String,
    /// Its entries, by the kind of table.
    #[serde(flatten)]
    pub entries: TableEntries,
    /// What packets do that no entry matches; a selector has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultAction>,
}

/// The entries of a table, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TableEntries {
    /// What packets learn: each core has its own entries.
    Learner {
        /// Entries on all cores.
        entries: u64,
        /// Room on each core.
        size: u64,
    },
    /// Entries that the control side adds.
    Match {
        /// Entries.
        entries: u64,
        /// Room.
        size: u64,
    },
    /// A table without a key: every packet does its default action.
    NoKey {},
    /// Groups of members.
    Selector {
        /// Groups.
        groups: u64,
        /// Room for groups.
        groups_max: u64,
        /// Room for members of each.
        members_max: u64,
    },
}

/// What packets do that no entry matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultAction {
    /// The action, as commands write it: `out(port:9)`.
    pub action: String,
    /// The program does not let it be changed.
    pub is_constant: bool,
}
