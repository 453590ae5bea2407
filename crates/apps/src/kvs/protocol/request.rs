//! Requests that change an item, whichever form they came in.

use super::hash::HashedKey;
use super::time::Expiry;

/// Under which condition a value is stored, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    Set,
    /// Only if the key has no item.
    Add,
    /// Only if the key has an item.
    Replace,
    /// Behind the one that is there.
    Append,
    /// Before the one that is there.
    Prepend,
}

/// A request to store.
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest<'a> {
    /// Under this key.
    pub key: HashedKey<'a>,
    /// On this condition.
    pub mode: StoreMode,
    /// Flags of the client, kept beside the value.
    pub flags: u32,
    /// When it ends.
    pub expiry: Expiry,
    /// The value.
    pub value: &'a [u8],
    /// Only where the item has this number.
    pub compare: Option<u64>,
    /// The number that it gets; `None`: one of ours.
    pub cas: Option<u64>,
    /// An item with a higher number than `compare` is replaced, too, by one that is stale.
    pub stale_allowed: bool,
    /// Where nothing is there to be appended to, the value is stored until then.
    pub vivify: Option<Expiry>,
    /// The key came in base64.
    pub is_binary_key: bool,
}

/// A request to count.
#[derive(Clone, Copy, Debug)]
pub struct CountRequest<'a> {
    /// The item with this key.
    pub key: HashedKey<'a>,
    /// Up or down.
    pub way: CountDirection,
    /// By this much.
    pub delta: u64,
    /// Only where the item has this number.
    pub compare: Option<u64>,
    /// The number that it gets; `None`: one of ours.
    pub cas: Option<u64>,
    /// Where there is no item, one with this value is made, until then.
    pub initial: Option<(u64, Expiry)>,
}

/// Which way is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountDirection {
    /// Beyond the highest number it goes on with 0.
    Up,
    /// It ends at 0.
    Down,
}
