//! What can go wrong when a table is made or filled; nothing has changed when it does.

use thiserror::Error;

/// Why a table could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CreateError {
    /// `capacity_max` is zero or above [`CAPACITY_LIMIT`](crate::CAPACITY_LIMIT).
    #[error("capacity {capacity_max} is outside 1..={limit}; choose one inside")]
    Capacity {
        /// What was asked for.
        capacity_max: usize,
        /// The largest possible.
        limit: usize,
    },
    /// A field is none of 1 to 32 bits within the keys.
    #[error("field {field} is not 1 to 32 bits within keys of {words} words; choose such bits")]
    Field {
        /// Its number, from 0 on.
        field: usize,
        /// Words of a key.
        words: usize,
    },
    /// The reserved memory could not be had.
    #[error("no memory for {bytes} bytes; reserve less")]
    OutOfMemory {
        /// Size of the array that was asked for.
        bytes: usize,
    },
    /// More is reserved than the table may ever hold.
    #[error("reserve {reserve} is above capacity_max {capacity_max}; lower it")]
    Reserve {
        /// What was to be reserved.
        reserve: usize,
        /// The most the table may hold.
        capacity_max: usize,
    },
}

/// Why a pruning filter was not made or not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The memory could not be had.
    #[error("no memory for {bytes} bytes; set less aside: lower rules_max or tables_max")]
    OutOfMemory {
        /// Size of what was asked for.
        bytes: usize,
    },
    /// A rule's table has a number that the filter has no room for.
    #[error("table {table} is not below {tables_max}; make a filter with more tables")]
    Table {
        /// Its number.
        table: usize,
        /// Tables are numbered below this.
        tables_max: usize,
    },
    /// There are no fields, or `tables_max` is zero or above
    /// [`TABLES_LIMIT`](crate::TABLES_LIMIT).
    #[error("{tables_max} tables are outside 1..={limit}, or there is no field; choose others")]
    Tables {
        /// What was asked for.
        tables_max: usize,
        /// The most possible.
        limit: usize,
    },
}

/// Why an entry was not inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InsertError {
    /// No free slot within reach of the key's home although the table is not full.
    #[error(
        "no free slot near this key ({len} entries, {waiting} destroyed slots still in their \
         grace period); let the readers pass a quiescent state and try again"
    )]
    Crowded {
        /// Live entries.
        len: usize,
        /// Destroyed slots that wait for readers.
        waiting: usize,
    },
    /// The key is there already.
    #[error("the key exists with value {value:#x}; update it instead")]
    Duplicate {
        /// The value it has.
        value: u64,
    },
    /// A key of bytes is longer than the table takes.
    #[error("a key of {len} bytes is longer than {limit}; make a table of more words")]
    KeyTooLong {
        /// Its length.
        len: usize,
        /// The longest possible.
        limit: usize,
    },
    /// The table holds as many entries as it may.
    #[error("the table is full: {capacity_max} entries; remove some or make a larger table")]
    Full {
        /// The most the table may hold.
        capacity_max: usize,
    },
    /// The table had to grow and the memory could not be had.
    #[error("no memory for {bytes} bytes to grow into; the table is unchanged")]
    OutOfMemory {
        /// Size of the array that was asked for.
        bytes: usize,
    },
}

/// Why a ternary table or a tuple space was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TernaryError {
    /// So many places were changed by transactions that there is no room for another.
    #[error("too many places wait for readers; let them pass quiescent states and try again")]
    TransactionsFull,
    /// The table of a mask could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is the same rule already: key, mask, priority and value.
    #[error("the rule exists already; update it instead")]
    Duplicate,
    /// The table holds as many rules as it may.
    #[error("the table is full: {capacity_max} rules; remove some or make a larger table")]
    Full {
        /// The most the table may hold.
        capacity_max: usize,
    },
    /// The rule did not find room in the table of its mask.
    #[error(transparent)]
    Insert(#[from] InsertError),
    /// The rules have as many different masks as there can be.
    #[error("the rules have {limit} different masks already; give this one a mask of theirs")]
    Masks {
        /// The most possible.
        limit: usize,
    },
    /// The value of a rule is too large.
    #[error("value {value} is above {limit}; number what it stands for")]
    Value {
        /// What was given.
        value: u32,
        /// The largest possible.
        limit: u32,
    },
}
