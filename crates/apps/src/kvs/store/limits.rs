//! Limits of the store, each with its reason.

use crate::kvs::protocol::hash::STEERED;

/// Memory for counts by prefix (`stats detail`), bytes, of all partitions together: any client may
/// turn these on and make up prefixes, and `--memory` does not count them.
pub const PREFIXES_BYTES_MAX: usize = 1 << 20;

/// Memory that a prefix takes beside its own bytes, bytes: its counts, and the node and the block
/// that it is kept in. Its line in the answer to `stats detail dump` has no more bytes.
pub const PREFIX_BYTES: usize = 128;

/// Least memory of a partition, bytes: a few segments and the first buckets of the index.
pub const PARTITION_BYTES_MIN: usize = 256 << 10;

/// Most partitions of a store: no machine has more cores that would gain by it.
pub const PARTITIONS_MAX: usize = 256;

const _: () = assert!(
    PARTITIONS_MAX <= STEERED,
    "each partition has a part of the keys that a card can tell apart"
);
