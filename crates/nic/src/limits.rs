//! Limits of the NIC, each with its reason.

/// Frames that one turn handles at most: enough to hide memory latency, and a bit mask of one word
/// tells which of them are meant.
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

/// Template tables that a NIC has at a time.
pub const TEMPLATES_MAX: usize = 65_536;

/// Seconds after which a rule can be reported as aged: 24 bits, as in `rte_flow_action_age`.
pub const AGE_TIMEOUT_MAX_S: u32 = (1 << 24) - 1;

/// Meters that rules may name: their numbers are below this.
pub const METERS_MAX: u32 = 1 << 16;

/// Bytes a second of a meter's rates, and bytes of its bursts, at most: above them sums of tokens
/// would not fit 63 bits for sure.
pub const METER_SIZE_MAX: u64 = 1 << 40;

/// Operations that one queue has under way.
pub const OPERATIONS_MAX: usize = 1 << 20;

/// Bytes that one action puts in front of a packet or takes away there: 74 are VXLAN over IPv6 with
/// a VLAN tag, and 54 more are for options.
pub const ENCAP_LEN_MAX: usize = 128;

/// Programs of rules, in units of four words: their number has 24 bits in an action word. All of
/// them take 512 MB.
pub const PROGRAMS_MAX: u32 = 1 << 24;

/// Words that a program takes at least, and of which it takes a power of two: a fate and three
/// short steps.
pub(crate) const PROGRAM_UNIT: u32 = 4;

/// Words of a packet's lines (8 bytes each) that one pattern may look at: an IPv6 5-tuple takes
/// five, one inside a tunnel with its VNI seven.
pub const PATTERN_WORDS_MAX: usize = 8;

/// Bytes that rules look at by their offset lie at most so far before or behind the place that they
/// are counted from: a card reads the first few hundred bytes of a packet, and not all of it.
pub const RAW_REACH: i64 = 512;

/// Masks of one group, each combination with ranges of ports counted: what its filter has bits for.
/// ClassBench's sets of 10,000 rules have up to 1,055.
pub const MASKS_MAX: usize = 2_048;

/// From so many masks on a group has a filter; those of fewer are all probed.
pub(crate) const PRUNE_TUPLES_MIN: usize = 5;

/// Keys that a filter under way takes with each new rule.
pub(crate) const PRUNE_KEYS: usize = 8;

/// Places of a filter that are looked at with each new rule to join its sets, of which each counts
/// as sixteen: a microsecond or two.
pub(crate) const JOIN_PLACES: usize = 256;

/// From so many groups on that probe masks of a family, one look says which of them can have a
/// rule, until half of them are left.
pub(crate) const SHARED_GROUPS: usize = 4;

/// Families of a NIC that are looked at in this way: as many as a group without a filter probes
/// masks.
pub(crate) const PRESENCES_MAX: usize = PRUNE_TUPLES_MIN - 1;

const _: () = assert!(PRESENCES_MAX <= u8::BITS as usize, "a mask has a bit for each");

/// Families that wait to be.
pub(crate) const FAMILIES_MAX: usize = 64;

/// Keys that a family takes with each new rule.
pub(crate) const PRESENCE_KEYS: usize = 8;

/// Steps that one operation, or commit, takes of what transactions put off: more than one adds, so
/// that nothing piles up. To modify a rule adds most: three cells, two steps of the log, and its
/// batch.
pub(crate) const SETTLE_STEPS: usize = 8;

/// Values that one operation of a transaction changes at most: the words of two keys, and an order;
/// taking it back adds none.
pub(crate) const OPERATION_CELLS: usize = 3;

/// Receive queues.
pub const QUEUES_MAX: u16 = 256;

/// Ethernet ports: a descriptor has 8 bits for one.
pub const PORTS_MAX: u16 = 256;

/// States of RSS that rules and the port use at once, those included that a burst under way may
/// still meet: each takes 2 KiB, and 44 KiB more if it has a key of its own.
pub const CONTEXTS_MAX: usize = 4_096;

/// Queues that one `rss` action names, as in testpmd.
pub const RSS_QUEUES_MAX: usize = 128;

/// Entries of the RSS indirection table (a power of two; 82599 has 128, ConnectX-5 up to 512).
pub const INDIRECTION_LEN: usize = 512;

/// Fewest tuples that the hash takes its vector path for: below, the padded copy it works on costs
/// more. Measured break-even of GFNI and scalar on Zen 5: 8 tuples of 12 bytes, 6 of 36 bytes.
pub(crate) const HASH_BULK_MIN: usize = 7;

/// Fewest packets of a burst that are hashed at once.
pub(crate) const SPREAD_BULK_MIN: usize = 16;

const _: () = assert!(HASH_BULK_MIN <= SPREAD_BULK_MIN, "at once is by vectors");
const _: () = assert!(BURST == u64::BITS as usize, "a burst's mask is one word");
const _: () = assert!(GROUPS_MAX <= 1 << 16);
const _: () = assert!(MASKS_MAX <= niclab_table::TABLES_LIMIT);
const _: () = assert!(PROGRAMS_MAX <= 1 << 24 && RULES_MAX < 1 << 31, "bits of a word");
const _: () = assert!(INDIRECTION_LEN.is_power_of_two());
// Messages name these as they are.
const _: () = assert!(AGE_TIMEOUT_MAX_S == 16_777_215 && ENCAP_LEN_MAX == 128 && GIVEN_MAX == 4);
const _: () = assert!(METERS_MAX == 65_536 && METER_SIZE_MAX == 1 << 40);
