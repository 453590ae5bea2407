//! Every limit of this crate, with its reason.

/// Keys of one bulk look-up: one bit each in the returned mask.
pub const BURST_MAX: usize = 64;

/// Words of the longest key: two headers of eight, and what a user of the table adds.
pub const KEY_WORDS_MAX: usize = 17;

/// Entries of the largest table: positions fit 32 bits with room for the load factor.
pub const CAPACITY_LIMIT: usize = 1 << 31;

/// Slots of a group: 15 tags of 16 bits and one 16-bit overflow count fill half a cache line.
pub(crate) const SLOTS: usize = 15;

/// Groups a look-up visits at most. At the growth threshold of 3/4 a run of 32 full groups has
/// a probability below 1e-9 per group; a run of 8, the shape first tried, came every 1000 groups.
pub(crate) const PROBE_GROUPS_MAX: usize = 32;

/// Live entries per group above which a table grows: 11.25 of 15, as a fraction of quarters.
/// (A model under loom grows at once: it has to try every interleaving.)
pub(crate) const GROW_QUARTERS: usize = if cfg!(loom) { 8 } else { 45 };

/// Entries per group a reserved table is sized for: two thirds of the slots.
pub(crate) const RESERVE_PER_GROUP: usize = if cfg!(loom) { 1 } else { 10 };

/// Destroyed slots that share one grace period, so that the epoch line changes seldom.
pub(crate) const RETIRE_BATCH: usize = 32;

/// Old groups moved by one insert while the table grows. Growth at least by a quarter leaves
/// 2.8 inserts per old group before the new array is full, so one is enough.
pub(crate) const MOVE_GROUPS: usize = 1;

/// Places that transactions may have changed and that are not folded yet: 400 MB of cells.
pub(crate) const CELLS_MAX: u32 = if cfg!(loom) { 8 } else { 16 << 20 };

/// Operations of which one has memory to give back or to prepare.
pub(crate) const TURN: usize = 16;

/// Bytes of an old array given back to the system in a turn: a huge page, or as many others as take
/// some microseconds.
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "nothing is mapped"))]
pub(crate) const RELEASE_BYTES: usize = 2 << 20;
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "nothing is mapped"))]
pub(crate) const RELEASE_SMALL_BYTES: usize = 64 << 10;

/// Pages are never smaller.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A huge page on most systems.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Arrays below this size that a table grows into are on small pages, whatever it is to have: the
/// system zeroes a huge page at once, for 250 us and more, and a small one in one. A table at rest
/// moves to huge pages (`Exact::rest`). Larger ones are dear on small pages: with all of them so,
/// 1 M creates take 24 to 42 % longer, up to 24 MB 7 %, up to 12 MB 1 to 2 % (bench longest, single
/// calls and a queue).
pub(crate) const MAKESHIFT_BYTES_MAX: usize = 12 << 20;

/// Arrays from this size on are mapped, and so zeroed page by page as they are first written to;
/// smaller ones come from the heap, which zeroes them at once.
#[cfg_attr(any(loom, miri), expect(dead_code, reason = "they use the heap alone"))]
pub(crate) const MAP_BYTES_MIN: usize = 32 << 10;

/// Tables of a pruning filter: a set of them is at most four cache lines.
pub const TABLES_LIMIT: usize = 2048;

/// Sets of tables in a pruning filter: their numbers fit 16 bits. ClassBench's sets need hundreds.
/// (A model under loom can follow only so many atomics.)
pub(crate) const SETS_MAX: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 12,
    (false, true) => 1 << 10,
    (false, false) => 1 << 16,
};

/// Slots of a pruning filter's tree that one added rule visits at most in a field: those of the
/// longest span in an otherwise empty 32-bit field.
pub const ADD_VISITS_MAX: usize = 1 << 16;

/// Combinations of narrow fields' sets that are joined ahead: 256 KiB, and some milliseconds of
/// work. ClassBench's sets of 10,000 rules have up to 17,000.
pub(crate) const NARROW_MAX: usize = 1 << 16;

/// Bits that choose a slot of a fan, and those that are left then.
pub(crate) const FAN_BITS: u32 = 8;

/// Words of a pruning filter's tree set aside for each rule and field: two copies of a cache line,
/// and its share of a fan and of lists, which take the place of 16 ranges and more.
pub(crate) const RULE_TREE_WORDS: usize = if cfg!(loom) { 8 } else { 64 };

/// Words set aside for a 16-bit field at most: for each of its 256 blocks a list, and all the nodes
/// that came before it when its values came one by one.
pub(crate) const SIXTEEN_TREE_WORDS: usize = 256 * 192;

const _: () = assert!(SLOTS * 16 + 16 == 256);
const _: () = assert!(4 * RESERVE_PER_GROUP < GROW_QUARTERS && GROW_QUARTERS < 4 * SLOTS);
const _: () = assert!(8 * KEY_WORDS_MAX - 1 <= u8::MAX as usize, "lengths in the last byte");
const _: () = assert!(BURST_MAX == u64::BITS as usize);
// The overflow count of a group counts keys that live in the next groups of a probe run. It is
// never taken for a tag: a slot beyond the last of a grid would be read.
const _: () = assert!(PROBE_GROUPS_MAX * SLOTS < crate::tags::LIVE_MIN as usize);
