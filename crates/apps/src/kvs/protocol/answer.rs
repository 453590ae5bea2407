//! What a request that changes an item led to. What a count led to is in `store`: it says where the
//! item is.

/// What became of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
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

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Done,
    /// There was none.
    NotFound,
    /// The item has another number.
    Exists,
}
