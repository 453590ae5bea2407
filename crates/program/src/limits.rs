//! Limits of a program, each with its reason.

/// Bytes of a program's text. The largest that the P4 compiler's samples give has 60 KB.
pub const TEXT_LEN_MAX: usize = 4 << 20;
/// Struct types.
pub const STRUCTS_MAX: usize = 4_096;
/// Fields of one struct type.
pub const FIELDS_MAX: usize = 4_096;
/// Headers: their validity is one word a packet.
pub const HEADERS_MAX: usize = 64;
/// Bytes of one struct type: 60 bytes of IPv4 and its options, 255 of IPv6's and more fit well.
pub const STRUCT_LEN_MAX: usize = 4_096;
/// Bytes of all headers of a packet together; a burst of them stays in a second-level cache.
pub const HEADERS_LEN_MAX: usize = 8_192;
/// Actions of a program: an entry names its action by a byte.
pub const ACTIONS_MAX: usize = 256;
/// Tables of a program.
pub const TABLES_MAX: usize = 256;
/// Instructions of one action, or of the main part.
pub const CODE_LEN_MAX: usize = 65_536;
/// Work of a packet at worst, however often it comes round: as many instructions that have to do
/// with a few numbers, a third of a millisecond.
pub const PACKET_WORK_MAX: u64 = 65_536;
/// Bytes of the frames that this is reckoned with: what those of `niclab nic` have at most.
pub const WORK_FRAME_LEN: usize = 1_536;
/// Bytes of a copy for several ports: what the largest slot of a card's memory holds.
pub const COPY_LEN_MAX: usize = 16_384;
/// Fields that instructions take without naming each, all of a program together: those of a digest,
/// those that are learnt, those of a hash from the first to the last. A program at work has them
/// one by one.
pub const IMPLIED_FIELDS_MAX: usize = 1 << 20;
/// Headers that a packet emits, one sent twice counted twice.
pub const EMITS_MAX: usize = 64;
/// Bytes of a table's key: what `niclab_table::Exact` takes.
pub const KEY_LEN_MAX: usize = niclab_table::KEY_WORDS_MAX * 8;
/// Different masks that the entries of a table with wildcards have: half of what a filter of masks
/// knows (`niclab_table::TABLES_LIMIT`), so that as many can go while others come.
pub const MASKS_MAX: usize = niclab_table::TABLES_LIMIT / 2;
/// Entries of a table.
pub const ENTRIES_MAX: u64 = niclab_table::CAPACITY_LIMIT as u64;
/// Registers, meters or counters of one array.
pub const ARRAY_LEN_MAX: u64 = 1 << 26;
/// Arrays of a kind.
pub const ARRAYS_MAX: usize = 256;
/// Bytes that arrays, learners and digests of a program are set aside, at most.
pub const ROOM_MAX: usize = 1 << 30;
/// Bytes of an application's window: all of it is taken when the program is loaded.
pub const WINDOW_LEN_MAX: u64 = 1 << 36;
/// Rings of one name, of which a program chooses one: a ring for each core.
pub const RINGS_MAX: u64 = 256;
/// Entries of a ring, and records that wait for the control side.
pub const RING_ENTRIES_MAX: u64 = 1 << 20;
/// Bytes that one instruction writes to an application's memory, or reads from it.
pub const DMA_LEN_MAX: usize = 65_536;
/// Bytes of a ring's entry: a frame and what is known of it.
pub const ENTRY_LEN_MAX: u64 = 16_384;
/// Groups of a selector.
pub const GROUPS_MAX: u64 = 1 << 20;
/// Members of one group of a selector.
pub const MEMBERS_MAX: u64 = 1 << 16;
/// Timeouts that a learner chooses from.
pub const TIMEOUTS_MAX: usize = 16;
/// The longest packet of a packet test, bytes.
pub const TEST_FRAME_LEN_MAX: usize = 9_000;
/// Times that a packet may come round again.
pub const RECIRCULATIONS_MAX: u32 = 16;
/// Slots for copies of a packet: as many as it can be mirrored at once.
pub const MIRROR_SLOTS: u64 = 4;
/// Sessions, each of which says where copies go.
pub const MIRROR_SESSIONS: u64 = 64;
/// Groups of ports: two for each VLAN, of ports with its tag and without.
pub const MULTICAST_GROUPS: u64 = 8_192;
/// Ports of a group, and copies that one instruction makes: ports are 0 to 63.
pub const MULTICAST_PORTS: u64 = 64;

const _: () = assert!(ACTIONS_MAX <= 1 << 8 && TABLES_MAX <= 1 << 8);
const _: () = assert!(HEADERS_MAX <= u64::BITS as usize);
const _: () = assert!(STRUCT_LEN_MAX <= HEADERS_LEN_MAX);
