//! A program, typed: every name is resolved to a number, every width is known and fits.
//!
//! Only [`Program::read`](crate::Program::read) makes one, so whoever has one need not check it
//! again: numbers name something that exists, operands have the widths that their instruction
//! takes, jumps lead forward in their own code, and every path ends.

use std::fmt;

/// A program: what happens to each packet, and the tables and arrays it looks into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Types of headers, of metadata, and of the arguments of actions.
    pub structs: Vec<Struct>,
    /// Headers that packets can have.
    pub headers: Vec<Header>,
    /// Type of what is known of a packet beside its headers: number in `structs`.
    pub metadata: usize,
    /// What entries of tables can do.
    pub actions: Vec<Action>,
    /// Tables, learners and selectors.
    pub tables: Vec<Table>,
    /// Arrays of numbers that outlive a packet.
    pub registers: Vec<Registers>,
    /// Arrays of meters.
    pub meters: Vec<Meters>,
    /// Arrays of counters. These, and what follows down to digests, SWX has not.
    pub counters: Vec<Counters>,
    /// Memory of the application.
    pub windows: Vec<Window>,
    /// Rings of the application.
    pub rings: Vec<Rings>,
    /// Records of packets for the control side.
    pub digests: Vec<Digests>,
    /// Names of Toeplitz hashes. All have the key that cards come with (Microsoft's specification
    /// of RSS).
    pub rss: Vec<String>,
    /// What happens to a packet, from its arrival on.
    pub apply: Code,
}

/// A type: fields one behind the other, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Bytes; of a type with a variable field, the most.
    pub len: usize,
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Bits, a multiple of 8; of a variable field, the most.
    pub bits: u32,
    /// Where it begins in its type, bytes.
    pub offset: usize,
    /// `extract` gives its length. Only the last field of a header can be so.
    pub is_variable: bool,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name, without `h.`.
    pub name: String,
    /// Its type: number in [`Program::structs`].
    pub of: usize,
}

/// What an entry of a table does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// The type of its arguments: number in [`Program::structs`].
    pub arguments: Option<usize>,
    /// What it does.
    pub code: Code,
}

/// An array of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Its name.
    pub name: String,
    /// How many it has, a power of two: an index is taken modulo it, as DPDK does, which rounds the
    /// size of an array up for that.
    pub len: usize,
    /// What each has before it is written.
    pub initial: u64,
}

/// An array of meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meters {
    /// Its name.
    pub name: String,
    /// How many it has; as [`Registers::len`].
    pub len: usize,
}

/// An array of counters of packets and their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Its name.
    pub name: String,
    /// How many it has; as [`Registers::len`].
    pub len: usize,
}

/// Memory of the application that the program runs for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub len: usize,
}

/// Rings of the application, all of one shape: the card fills them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Their name.
    pub name: String,
    /// How many they are.
    pub count: usize,
    /// Entries of each, a power of two, and bytes of an entry.
    pub shape: niclab_nic::dma::Shape,
}

/// Records for the control side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// Their name.
    pub name: String,
    /// Records that can wait, a power of two.
    pub len: usize,
    /// What a record has: number in [`Program::structs`].
    pub of: usize,
}

/// A table of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Entries it has room for.
    pub size: usize,
}

/// What a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Its entries are the control side's.
    Match {
        /// What it looks at. Without any, every packet takes the default action.
        key: Vec<(FieldRef, Match)>,
        /// What its entries do.
        actions: Actions,
    },
    /// Its entries are those that actions learn.
    Learner {
        /// What it looks at.
        key: Vec<FieldRef>,
        /// What its entries do.
        actions: Actions,
        /// Seconds that an entry stays without being met, to choose from.
        timeouts: Vec<u32>,
    },
    /// It picks a member of a group, the same for packets of one flow.
    Selector {
        /// Says the group.
        group: FieldRef,
        /// What is hashed.
        key: Vec<FieldRef>,
        /// Takes the member.
        member: FieldRef,
        /// Groups.
        groups_max: usize,
        /// Members of a group.
        members_max: usize,
    },
}

/// How a field of a key is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// All bits.
    Exact,
    /// The bits of a mask; of entries that match, the one of the lowest priority number.
    Wildcard,
    /// The first bits; of entries that match, the one of the longest prefix.
    Prefix,
}

/// What the entries of a table do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actions {
    /// The actions, and where each may stand.
    pub of: Vec<(usize, Scope)>,
    /// The action of packets that no entry matches, from the start.
    pub default: Invocation,
    /// The default action stays as it is.
    pub is_default_const: bool,
}

/// Where an action of a table may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In entries and as the default.
    All,
    /// In entries.
    Entries,
    /// As the default.
    Default,
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Number of the action.
    pub action: usize,
    /// Its arguments, each as wide as its field, first byte first.
    pub arguments: Vec<Vec<u8>>,
}

/// Whose field a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A header of this number; numbers there stand first byte first.
    Header(usize),
    /// Metadata.
    Metadata,
    /// The arguments of the action.
    Arguments,
}

/// A field that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRef {
    /// Whose.
    pub owner: Owner,
    /// Number of the field.
    pub field: usize,
    /// Its bits.
    pub bits: u32,
    /// Where it begins, bytes.
    pub offset: usize,
}

/// What is read: a field of at most 64 bits, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A field.
    Field(FieldRef),
    /// A number.
    Value(u64),
}

/// Instructions, and the names of those that jumps lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// One after the other.
    pub steps: Vec<Instruction>,
    /// Name and number of the instructions that have one, in order.
    pub labels: Vec<(String, usize)>,
}

/// Two numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    /// Sum, modulo the width of the destination.
    Add,
    /// Difference, modulo the width of the destination.
    Sub,
    /// Bits of both.
    And,
    /// Bits of either.
    Or,
    /// Bits of one of them.
    Xor,
    /// Bits moved up; by 64 or more, none is left.
    Shl,
    /// Bits moved down; by 64 or more, none is left.
    Shr,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Equal.
    Equal,
    /// Different.
    Different,
    /// The first is less.
    Less,
    /// The first is greater.
    Greater,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// The packet has the header.
    Valid(usize),
    /// It has not.
    Invalid(usize),
    /// The last table had an entry for it.
    Hit,
    /// It had not.
    Miss,
    /// The last table ran this action, also as its default.
    Ran(usize),
    /// It ran another.
    RanOther(usize),
    /// Two numbers are so.
    Compare(Order, Operand, Operand),
}

/// What is added to a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summand {
    /// A field of a header.
    Field(FieldRef),
    /// A header.
    Header(usize),
}

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// CRC-32C, from 0 and without a last inversion: DPDK's `rte_hash_crc`, which its programs call
    /// `crc32`.
    Crc32c,
    /// Bob Jenkins' lookup3, from 0: DPDK's `rte_jhash`.
    Jhash,
    /// CRC-16/ARC: P4's `CRC16`.
    Crc16,
    /// CRC-32 of IEEE 802.3: P4's `CRC32`.
    Crc32,
    /// The last 8 bytes as a number.
    Identity,
}

/// A part of what is written to an application's memory, or read from it: one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// A field: of a header as it stands there; elsewhere a number of at most 64 bits has its last
    /// byte first.
    Field(FieldRef),
    /// A header, with as many bytes as it has.
    Header(usize),
    /// So many bytes of the packet behind the headers that were taken off.
    Payload(Operand),
}

/// Fields one behind the other of the same owner. The last can be of variable length: as many of
/// its bytes as the packet has belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: FieldRef,
    /// The last.
    pub last: FieldRef,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Take a packet; the port it came by.
    Rx(FieldRef),
    /// Send it by this port; by one that is not there, drop it.
    Tx(Operand),
    /// Give it to this queue of the host; to one that is not there, drop it. Ours, not SWX's.
    Steer(Operand),
    /// Send it by the port that it came by, with source and destination exchanged. Ours, as are
    /// the next seven.
    Reply,
    /// Send a copy of it as it is now by each port of this group but the one that it came by.
    Multicast(Operand),
    /// Bytes of the packet as it came, or came round.
    Length(FieldRef),
    /// Count the packet and its bytes.
    Count {
        /// Which array.
        array: usize,
        /// Which of it.
        index: Operand,
    },
    /// Put an entry into a ring of the application.
    DmaWrite {
        /// Which rings.
        rings: usize,
        /// Which of them.
        index: Operand,
        /// What.
        what: Vec<Listed>,
    },
    /// Write to a window of the application.
    DmaWriteAt {
        /// Which window.
        window: usize,
        /// Where in it.
        offset: Operand,
        /// What.
        what: Vec<Listed>,
    },
    /// Read from a window of the application.
    DmaReadAt {
        /// Which window.
        window: usize,
        /// Where in it.
        offset: Operand,
        /// Fields, and headers, which the packet has then.
        into: Vec<Listed>,
    },
    /// Tell the control side what stands in metadata from here on.
    Digest(usize, FieldRef),
    /// Drop it.
    Drop,
    /// Have a copy of it sent as the session says, when it leaves or is dropped.
    Mirror {
        /// Which of its copies.
        slot: FieldRef,
        /// Number of the session.
        session: FieldRef,
    },
    /// Have it come round again in place of being sent.
    Recirculate,
    /// How often it has come round.
    RecircId(FieldRef),
    /// Take a header off its front; the bytes of the variable field where there is one.
    Extract(usize, Option<FieldRef>),
    /// Look at a header without taking it.
    Lookahead(usize),
    /// Put a header before its payload, behind those that were put before; none that it has not.
    Emit(usize),
    /// Say that it has a header.
    Validate(usize),
    /// Say that it has not.
    Invalidate(usize),
    /// Copy a number, cut or filled with zeros in front.
    Move(FieldRef, Operand),
    /// Copy the upper half of 128 bits, from or to a field of 64.
    MoveHigh(FieldRef, FieldRef),
    /// Fill a header with the bytes of arguments from this field on, and say that the packet has
    /// it.
    Fill(usize, FieldRef),
    /// Calculate.
    Alu(Alu, FieldRef, Operand),
    /// Add to a checksum (RFC 1071).
    ChecksumAdd(FieldRef, Summand),
    /// Take a field out of a checksum (RFC 1624).
    ChecksumSub(FieldRef, FieldRef),
    /// Read a register; 0 where there is none.
    RegisterRead {
        /// Takes it.
        to: FieldRef,
        /// Which array.
        array: usize,
        /// Which of it.
        index: Operand,
    },
    /// Write a register.
    RegisterWrite {
        /// Which array.
        array: usize,
        /// Which of it.
        index: Operand,
        /// With this.
        value: Operand,
    },
    /// Add to a register, modulo 2^64.
    RegisterAdd {
        /// Takes what it had before.
        before: Option<FieldRef>,
        /// Which array.
        array: usize,
        /// Which of it.
        index: Operand,
        /// This.
        value: Operand,
    },
    /// Ask a meter (RFC 2698).
    Meter {
        /// Which array.
        array: usize,
        /// Which of it.
        index: Operand,
        /// Bytes of the packet.
        length: Operand,
        /// Its colour so far: 0 green, 1 yellow, 2 red.
        colour: Operand,
        /// Takes its colour.
        to: FieldRef,
    },
    /// Look into a table, and run the action of the entry that matches or the default one.
    Table(usize),
    /// Have the learner that ran this action keep the key it missed, with an action.
    Learn {
        /// The action of the entry.
        action: usize,
        /// The first of its arguments in metadata, the others behind it.
        arguments: Option<FieldRef>,
        /// Which timeout.
        timeout: FieldRef,
    },
    /// Have the entry that ran this action stay for its timeout again, or for another one.
    Rearm(Option<FieldRef>),
    /// Have the learner that ran this action let the entry go.
    Forget,
    /// Number of the entry that the last table found.
    EntryId(FieldRef),
    /// Hash fields.
    Hash(Hash, FieldRef, Range),
    /// Hash fields by Toeplitz.
    Rss(usize, FieldRef, Range),
    /// Go on at another instruction, further down.
    Jump(Condition, usize),
    /// End the action.
    Return,
}

impl Struct {
    /// Whether its last field has a variable length; no other can.
    #[must_use]
    pub fn is_variable(&self) -> bool {
        self.fields.last().is_some_and(|last| last.is_variable)
    }
}

impl FieldRef {
    /// Bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bits as usize / 8
    }

    /// Whether it is kept as a number; else it is bytes, the first first.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.bits <= 64
    }

    /// Ones for its bits, of at most 64.
    #[must_use]
    pub fn mask(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.bits.min(64)).unwrap_or(0)
    }
}

impl Range {
    /// Bytes of the fields.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.last.offset + self.last.len_bytes() - self.first.offset
    }
}

impl Program {
    /// Bytes that a list has at most, without payload.
    #[must_use]
    pub fn listed_bytes(&self, list: &[Listed]) -> usize {
        let bytes = |of: &Listed| match of {
            Listed::Field(place) => place.len_bytes(),
            Listed::Header(header) => self.header_type(*header).len,
            Listed::Payload(_) => 0,
        };
        list.iter().map(bytes).sum()
    }

    /// The type of a header.
    #[must_use]
    pub fn header_type(&self, header: usize) -> &Struct {
        &self.structs[self.headers[header].of]
    }

    /// The type of metadata.
    #[must_use]
    pub fn metadata_type(&self) -> &Struct {
        &self.structs[self.metadata]
    }

    /// The fields of an action's arguments.
    #[must_use]
    pub fn arguments(&self, action: usize) -> &[Field] {
        let of = self.actions[action].arguments.map(|of| &self.structs[of]);
        of.map_or(&[], |of| &of.fields)
    }
}

impl Kind {
    /// The actions of a table that has any.
    #[must_use]
    pub fn actions(&self) -> Option<&Actions> {
        match self {
            Kind::Match { actions, .. } | Kind::Learner { actions, .. } => Some(actions),
            Kind::Selector { .. } => None,
        }
    }
}

impl Hash {
    /// All, with the names that programs give them.
    pub const ALL: [(&'static str, Hash); 5] = [
        ("crc16", Hash::Crc16),
        ("crc32", Hash::Crc32c),
        ("crc32_ieee", Hash::Crc32),
        ("identity", Hash::Identity),
        ("jhash", Hash::Jhash),
    ];
}

impl Match {
    /// All, with the names that programs give them.
    pub const ALL: [(&'static str, Match); 3] =
        [("exact", Match::Exact), ("lpm", Match::Prefix), ("wildcard", Match::Wildcard)];
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Match::ALL.iter().find(|(_, of)| of == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Hash::ALL.iter().find(|(_, of)| of == self).map_or("", |(name, _)| name))
    }
}
