//! Every limit of this crate, with its reason.

/// The most keys of one bulk look-up: one bit each in the returned mask.
pub const BURST_MAX: usize = 64;

/// Words of the longest key: two headers of eight, and one word of the user.
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

/// The most places that transactions may have changed and that are not folded yet: 400 MB of cells.
pub(crate) const CELLS_MAX: u32 = if cfg!(loom) { 8 } else { 16 << 20 };

/// One operation of this many frees or prepares memory.
pub(crate) const TURN: usize = 16;

/// Bytes of an old array that are freed at a time: a huge page, or small pages that take some
/// microseconds.
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "nothing is mapped"))]
pub(crate) const RELEASE_BYTES: usize = 2 << 20;
#[cfg_attr(any(loom, miri), allow(dead_code, reason = "nothing is mapped"))]
pub(crate) const RELEASE_SMALL_BYTES: usize = 64 << 10;

/// The smallest page.
pub(crate) const PAGE_BYTES: usize = 4096;

/// A huge page on most systems.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// A table grows into small pages if the new array is below this size, whatever its configuration:
/// the system zeroes a huge page at once, in 250 us and more, and a small page in one. A table at
/// rest moves to huge pages (`Exact::finish_growth`). Larger arrays are expensive on small pages:
/// with all of them so, 1 M creates take 24 to 42 % longer, up to 24 MB 7 %, up to 12 MB 1 to 2 %
/// (bench longest, single calls and a queue).
pub(crate) const MAKESHIFT_BYTES_MAX: usize = 12 << 20;

/// Arrays from this size on are mapped, and so zeroed page by page at the first write; smaller
/// arrays come from the heap, which zeroes them at once.
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

/// The most slots of a pruning filter's tree that one added rule visits in a field: those of the
/// longest span in an otherwise empty 32-bit field.
pub const ADD_VISITS_MAX: usize = 1 << 16;

/// The most combinations of narrow fields' sets whose intersections are computed ahead: 256 KiB,
/// and some milliseconds of work. ClassBench's sets of 10,000 rules have up to 17,000.
pub(crate) const NARROW_MAX: usize = 1 << 16;

/// Bits that select a slot of a fan, and bits that remain after that.
pub(crate) const FAN_BITS: u32 = 8;

/// Words of a pruning filter's tree for each rule and field: two copies of a cache line, and its
/// share of a fan and of lists, which replace 16 ranges and more.
pub(crate) const RULE_TREE_WORDS: usize = if cfg!(loom) { 8 } else { 64 };

/// The most words for a 16-bit field: a list for each of its 256 blocks, and all the nodes that
/// came before the list when its values came one by one.
pub(crate) const SIXTEEN_TREE_WORDS: usize = 256 * 192;

const _: () = assert!(SLOTS * 16 + 16 == 256);
const _: () = assert!(4 * RESERVE_PER_GROUP < GROW_QUARTERS && GROW_QUARTERS < 4 * SLOTS);
const _: () = assert!(8 * KEY_WORDS_MAX - 1 <= u8::MAX as usize, "lengths in the last byte");
const _: () = assert!(BURST_MAX == u64::BITS as usize);
// The overflow count of a group counts keys that live in the next groups of a probe run. A look-up
// never takes it for a tag: it would read a slot beyond the last of a grid.
const _: () = assert!(PROBE_GROUPS_MAX * SLOTS < crate::tags::LIVE_MIN as usize);

/// With fewer masks a tuple space has no filter, and all masks are searched.
pub(crate) const MASKS_MIN: usize = 3;

/// The least number of entries that a new filter has room for; their memory is touched when it is
/// needed.
pub(crate) const FILTER_ENTRIES_MIN: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 4,
    (false, true) => 1 << 4,
    (false, false) => 1 << 15,
};

/// The least number of slots of a filter: the fewer, the less a look-up costs. Half a cache line of
/// bits.
pub(crate) const FILTER_SLOTS_MIN: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 4,
    (false, true) => 16,
    (false, false) => 256,
};

/// A filter is rebuilt after at least this many additions that changed it, and three times as many
/// as it began with. With 512 and as many, 1,000 wildcard entries that are deleted and added
/// changed at 0.68 times the rate (`rows program-update`).
pub(crate) const NEW_MIN: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 2,
    (false, true) => 16,
    (false, false) => 1 << 12,
};

/// The same in idle time, when an eighth of what it began with is enough.
pub(crate) const NEW_IDLE_MIN: usize = if cfg!(loom) { 1 } else { 16 };

/// A filter is rebuilt after at least this many additions and lowered bounds, whether or not it had
/// the entry: its bounds only fall.
pub(crate) const ADDED_MIN: usize = match (cfg!(loom), cfg!(miri)) {
    (true, _) => 16,
    (false, true) => 64,
    (false, false) => 1 << 16,
};

/// The same in idle time.
pub(crate) const ADDED_IDLE_MIN: usize = ADDED_MIN / 16;

/// New sets or slots that an operation awaits before intersections are computed again.
pub(crate) const SETS_SPARE: usize = 64;

/// Groups of entries that one step of a filter's build visits.
pub(crate) const STEP_GROUPS: usize = 2;

/// Spans that one step of a filter's build inserts.
pub(crate) const STEP_SPANS: usize = 8;

/// Places of a filter that one step visits to intersect its sets; each set counts as sixteen
/// places. Takes a microsecond or two.
pub(crate) const JOIN_PLACES: usize = if cfg!(loom) { 2 } else { 256 };

/// Operations without a new entry after which a filter rests, and its sets are intersected: while
/// sets change, intersections are out of date before they are complete.
pub(crate) const REST_MIN: usize = 64;

const _: () = assert!(FILTER_SLOTS_MIN <= TABLES_LIMIT);
const _: () = assert!(NEW_IDLE_MIN <= NEW_MIN && NEW_MIN < ADDED_MIN);
