//! Limits of the NIC, each with its reason.

/// The most frames of one call: enough to hide memory latency, and a bit mask of them is one word.
pub const BURST: usize = 64;

/// Rules of group 0, as on the cards of the PAM'21 study.
pub const ROOT_RULES_MAX: u32 = 65_536;

/// Rules of all groups together: the rule's index has 32 bits in an action word, and 16 M of them
/// take some 1.5 GB.
pub const RULES_MAX: u32 = 16 << 20;

/// Groups that rules or jumps may name; a group's place has 16 bits in an action word.
pub const GROUPS_MAX: usize = 4_096;

/// Priorities run from 0 (highest) to this: 16 bits beside the 47 bits of the creation number.
pub const PRIORITY_MAX: u32 = 65_535;

/// Actions of one rule.
pub const ACTIONS_MAX: usize = 16;

/// Actions of a template table that vary from rule to rule.
pub const GIVEN_MAX: usize = 4;

/// Template tables of a NIC.
pub const TEMPLATES_MAX: usize = 65_536;

/// Seconds after which a rule can be reported as aged: 24 bits, as in `rte_flow_action_age`.
pub const AGE_TIMEOUT_MAX_S: u32 = (1 << 24) - 1;

/// Meters that rules may name: their numbers are less than this.
pub const METERS_MAX: u32 = 1 << 16;

/// The most bytes a second of a meter's rates, and the most bytes of its bursts: above this, sums
/// of tokens might not fit 63 bits.
pub const METER_SIZE_MAX: u64 = 1 << 40;

/// The most operations under way of one queue.
pub const OPERATIONS_MAX: usize = 1 << 20;

/// The most bytes that one action adds or removes in front of a packet: VXLAN over IPv6 with a VLAN
/// tag takes 74, and 54 more are for options.
pub const ENCAP_LEN_MAX: usize = 128;

/// Memory for action lists, in units of four words: their number has 24 bits in an action word. All
/// of them take 512 MB.
pub const ACTION_LISTS_MAX: u32 = 1 << 24;

/// The least words of an action list, whose size is a power of two of this: a fate and three short
/// steps.
pub(crate) const ACTION_LIST_UNIT: u32 = 4;

/// The most words of a packet's header keys, of 8 bytes each, that one pattern may match: an IPv6
/// 5-tuple takes five, one inside a tunnel with its VNI seven.
pub const PATTERN_WORDS_MAX: usize = 8;

/// The greatest offset of `raw` bytes, in either direction: a card reads the first few hundred
/// bytes of a packet, not all of it.
pub const RAW_REACH: i64 = 512;

/// The most masks of one group, with one for each combination of port ranges: its filter has a bit
/// for each. ClassBench's sets of 10,000 rules have up to 1,055.
pub const MASKS_MAX: usize = 2_048;

/// A group with at least this many masks has a filter; a group with fewer probes all of them.
pub(crate) const PRUNE_TUPLES_MIN: usize = 5;

/// Keys that each new rule adds to a filter that is being built.
pub(crate) const PRUNE_KEYS: usize = 8;

/// A family with at least this many groups has a filter, until only half as many are left.
pub(crate) const FAMILY_GROUPS_MIN: usize = 4;

/// The most families of a NIC with a filter: as many as the masks that a group without a filter
/// probes.
pub(crate) const FAMILY_FILTERS_MAX: usize = PRUNE_TUPLES_MIN - 1;

const _: () = assert!(FAMILY_FILTERS_MAX <= u8::BITS as usize, "a mask has a bit for each");

/// The most families that wait for a filter.
pub(crate) const FAMILIES_WAITING_MAX: usize = 64;

/// Keys that each new rule adds to the filter of a family that is being built.
pub(crate) const FAMILY_FILTER_KEYS: usize = 8;

/// Reclaim steps of each operation or commit: more than one operation adds, so that nothing piles
/// up. To modify a rule adds the most: three cells, two steps of the log, and its batch.
pub(crate) const RECLAIM_STEPS: usize = 8;

/// The most values that one operation of a transaction changes: the words of two keys, and an
/// order. Undoing it adds none.
pub(crate) const OPERATION_CELLS: usize = 3;

/// Receive queues.
pub const QUEUES_MAX: u16 = 256;

/// Ethernet ports: a descriptor has 8 bits for one.
pub const PORTS_MAX: u16 = 256;

/// The most states of RSS that rules and the port use at once, including those that a burst may
/// still use: each takes 2 KiB, and 44 KiB more if it has a key of its own.
pub const CONTEXTS_MAX: usize = 4_096;

/// The most queues of one `rss` action, as in testpmd.
pub const RSS_QUEUES_MAX: usize = 128;

/// Entries of the RSS indirection table (a power of two; 82599 has 128, ConnectX-5 up to 512).
pub const INDIRECTION_LEN: usize = 512;

/// The least number of tuples that are hashed by SIMD: for fewer, the padded copy costs more than
/// it saves. Measured break-even of GFNI and scalar on Zen 5: 8 tuples of 12 bytes, 6 of 36 bytes.
pub(crate) const HASH_BULK_MIN: usize = 7;

/// The least number of packets of a burst that are hashed together.
pub(crate) const RSS_BULK_MIN: usize = 16;

const _: () = assert!(HASH_BULK_MIN <= RSS_BULK_MIN, "at once is by vectors");
const _: () = assert!(BURST == u64::BITS as usize, "a burst's mask is one word");
const _: () = assert!(GROUPS_MAX <= 1 << 16);
const _: () = assert!(MASKS_MAX <= niclab_table::TABLES_LIMIT);
const _: () = assert!(ACTION_LISTS_MAX <= 1 << 24 && RULES_MAX < 1 << 31, "bits of a word");
const _: () = assert!(INDIRECTION_LEN.is_power_of_two());
// Messages contain these numbers.
const _: () = assert!(AGE_TIMEOUT_MAX_S == 16_777_215 && ENCAP_LEN_MAX == 128 && GIVEN_MAX == 4);
const _: () = assert!(METERS_MAX == 65_536 && METER_SIZE_MAX == 1 << 40);
