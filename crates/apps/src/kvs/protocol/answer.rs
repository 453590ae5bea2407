//! Outcomes of requests that change an item. That of a count is in `store`, for it says where the
//! item is.

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It is stored.
    Stored {
        /// Number of the item.
        cas: u64,
        /// Bytes of its value.
        value_len: usize,
    },
    /// The condition does not hold.
    NotStored,
    /// The item has another number.
    Exists,
    /// There is no item whose number could be compared.
    NotFound,
    /// It is longer than any value may be.
    TooLarge,
    /// There is no room for it.
    NoMemory,
}

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// It is gone.
    Done,
    /// There was none.
    NotFound,
    /// The item has another number.
    Exists,
}
