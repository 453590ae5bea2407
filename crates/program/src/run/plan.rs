//! A program as the fast path carries it out: fields have become lanes and offsets, labels masks.
//!
//! # How a burst goes through
//!
//! Jumps lead forward only, so one pass over the instructions carries out every path: each
//! instruction works on the packets that are there, a jump takes packets out until their label
//! comes. Where the order of packets can be seen, in a register that is read and written, a part
//! of the program is carried out packet by packet ([`Plan::alone`]).
//!
//! A packet that is alone, in such a part or in its burst, is carried through by `Run::single`: an
//! instruction works on one number instead of whole lanes, and a jump goes to its join at once.
//!
//! Fields of metadata and arguments of at most 64 bits are *lanes*: a number for each packet of the
//! burst, side by side. Headers, and wider fields, are bytes in a *store*, one for each packet.

use crate::form::{
    Alu, Code, Condition, FieldRef, Hash, Instruction, Kind, Listed, Match, Operand, Order, Owner,
    Program, Range, Summand,
};
use crate::limits::MIRROR_SLOTS;

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Lane(usize),
    /// Bytes of the store, the first first, at most eight.
    Bytes {
        at: usize,
        len: usize,
    },
    Value(u64),
}

/// Where a number goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// And the bits it has room for.
    Lane(usize, u64),
    Bytes {
        at: usize,
        len: usize,
    },
}

/// Bytes that are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wide {
    /// A lane of so many bytes.
    Lane {
        lane: usize,
        len: usize,
    },
    Bytes {
        at: usize,
        len: usize,
    },
}

/// What is hashed: parts one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hashed {
    pub parts: Vec<Part>,
}

/// A part of what is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A number of so many bytes, the last byte first.
    Lane {
        lane: usize,
        len: usize,
    },
    Bytes {
        at: usize,
        len: usize,
    },
    /// A header's bytes, as many as it has, behind its first.
    Rest {
        header: usize,
        from: usize,
    },
}

/// A part of what is written to an application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    Part(Part),
    /// So many bytes behind the headers that were taken off.
    Payload(Source),
}

/// A part of a key: a number of so many bits, at this bit of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from: Source,
    pub bits: u32,
    pub at: u32,
}

/// What is known of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where it is in the store.
    pub at: usize,
    /// Its bytes without the variable field.
    pub len: usize,
    /// With it.
    pub len_max: usize,
}

/// Whose arguments an action gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub to: Wide,
    /// Words of an entry's record that it takes.
    pub words: usize,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Packets come here that jumped.
    Join(usize),
    Rx(Target),
    Tx(Source),
    Steer(Source),
    Reply,
    Multicast(Source),
    Length(Target),
    Count {
        array: usize,
        index: Source,
    },
    DmaWrite {
        rings: usize,
        index: Source,
        what: Vec<Span>,
    },
    DmaWriteAt {
        window: usize,
        offset: Source,
        what: Vec<Span>,
    },
    DmaReadAt {
        window: usize,
        offset: Source,
        into: Vec<Wide>,
        /// Headers that packets have then.
        headers: Vec<usize>,
    },
    Digest(usize, Hashed),
    Drop,
    Mirror {
        slot: Source,
        session: Source,
    },
    Recirculate,
    RecircId(Target),
    Extract {
        header: usize,
        more: Option<Source>,
    },
    Lookahead(usize),
    Emit(usize),
    Validate(usize),
    Invalidate(usize),
    Move(Target, Source),
    MoveWide(Wide, Wide),
    /// A number in the last bytes, zeros before it.
    Set {
        at: usize,
        len: usize,
        value: u64,
    },
    /// From argument bytes to a header: what, to where, and how many of its first bytes.
    Fill {
        header: usize,
        parts: Vec<(Wide, usize, usize)>,
    },
    Alu(Alu, Target, Source),
    ChecksumAdd {
        at: usize,
        summand: Summed,
    },
    ChecksumSub {
        at: usize,
        summand: Summed,
    },
    RegisterRead {
        to: Target,
        array: usize,
        index: Source,
    },
    RegisterWrite {
        array: usize,
        index: Source,
        value: Source,
    },
    RegisterAdd {
        before: Option<Target>,
        array: usize,
        index: Source,
        value: Source,
    },
    Meter {
        array: usize,
        index: Source,
        length: Source,
        colour: Source,
        to: Target,
    },
    Table(usize),
    Learn {
        action: usize,
        arguments: Vec<Wide>,
        timeout: Source,
    },
    Rearm(Option<Source>),
    Forget,
    EntryId(Target),
    Hash(Hash, Target, Hashed),
    Rss(Target, Hashed),
    /// To the join of this number.
    Jump(When, usize),
    Return,
}

/// What is added to a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summed {
    Bytes {
        at: usize,
        len: usize,
    },
    /// A header, as long as it is.
    Header(usize),
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Valid(usize),
    Invalid(usize),
    Hit,
    Miss,
    Ran(usize),
    RanOther(usize),
    Compare(Order, Source, Source),
}

/// Instructions one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub ops: Vec<Op>,
    /// Where each join is, in order.
    pub joins: Vec<usize>,
}

/// A table, for the fast path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Match { key: Vec<Piece>, bits: u32, how: Engine },
    Learner { key: Vec<Piece>, bits: u32 },
    Selector { group: Source, key: Hashed, member: Target },
}

/// How entries of a table are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// There is no key.
    Nothing,
    Exact,
    /// The longest prefix.
    Prefix,
    /// The best priority.
    Wildcard,
}

/// A program as the fast path carries it out.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Numbers side by side: metadata first, then arguments.
    pub lanes: usize,
    /// Those of metadata, which are zero when a packet comes.
    pub metadata_lanes: usize,
    /// Bytes of a packet's store.
    pub store: usize,
    /// Those that are zero when a packet comes: headers and metadata.
    pub zeroed: usize,
    /// Those that are zero when a packet comes round again: the headers.
    pub headers_len: usize,
    pub headers: Vec<Head>,
    pub apply: Line,
    pub actions: Vec<Line>,
    pub arguments: Vec<Vec<Argument>>,
    pub tables: Vec<Look>,
    /// Ranges of `apply`, first and last instruction, that packets go through one by one.
    pub alone: Vec<(usize, usize)>,
    /// Every packet goes its whole way before the next one comes.
    pub all_alone: bool,
    /// The program asks for numbers of entries.
    pub entry_ids: bool,
}

/// Where fields are.
struct Layout<'a> {
    program: &'a Program,
    headers: Vec<Head>,
    /// Of each field of metadata.
    metadata: Vec<Wide>,
    /// Of each argument, by action.
    arguments: Vec<Vec<Wide>>,
}

impl Plan {
    pub(super) fn of(program: &Program) -> Plan {
        let (mut store, mut lanes) = (0, 0);
        let mut headers = Vec::new();
        for header in 0..program.headers.len() {
            let of = program.header_type(header);
            let last = of.fields.last().filter(|last| last.is_variable);
            let variable = last.map_or(0, |last| last.bits as usize / 8);
            headers.push(Head { at: store, len: of.len - variable, len_max: of.len });
            store += of.len;
        }
        let headers_len = store;
        let place = |bits: u32, lanes: &mut usize, store: &mut usize| {
            let len = bits as usize / 8;
            if bits <= 64 {
                *lanes += 1;
                Wide::Lane { lane: *lanes - 1, len }
            } else {
                *store += len;
                Wide::Bytes { at: *store - len, len }
            }
        };
        let fields = program.metadata_type().fields.iter();
        let metadata: Vec<Wide> =
            fields.map(|field| place(field.bits, &mut lanes, &mut store)).collect();
        let metadata_lanes = lanes;
        // A packet has the arguments of one action at a time: all have the same places.
        let (first_lane, first_byte) = (lanes, store);
        let arguments: Vec<Vec<Wide>> = (0..program.actions.len())
            .map(|action| {
                let (mut lane, mut byte) = (first_lane, first_byte);
                let fields = program.arguments(action).iter();
                let places = fields.map(|field| place(field.bits, &mut lane, &mut byte)).collect();
                (lanes, store) = (lanes.max(lane), store.max(byte));
                places
            })
            .collect();
        let layout = Layout { program, headers, metadata, arguments };
        let line = |code: &Code, action| layout.line(code, action);
        let apply = line(&program.apply, None);
        let actions: Vec<Line> =
            program.actions.iter().enumerate().map(|(n, of)| line(&of.code, Some(n))).collect();
        let tables: Vec<Look> = program.tables.iter().map(|of| layout.look(&of.kind)).collect();
        let all = || apply.ops.iter().chain(actions.iter().flat_map(|line| &line.ops));
        let comes_again = all().any(|op| matches!(op, Op::Recirculate));
        let alone = super::order::alone(program, &apply, &actions);
        Plan {
            lanes,
            metadata_lanes,
            // Eight bytes are read and written where a field has fewer.
            store: store + 8,
            zeroed: first_byte,
            headers_len,
            entry_ids: all().any(|op| matches!(op, Op::EntryId(_))),
            all_alone: comes_again && alone.tells,
            alone: alone.ranges,
            tables,
            arguments: layout
                .arguments
                .iter()
                .map(|of| of.iter().map(argument).collect())
                .collect(),
            headers: layout.headers,
            apply,
            actions,
        }
    }
}

fn part(of: &Wide) -> Part {
    match *of {
        Wide::Lane { lane, len } => Part::Lane { lane, len },
        Wide::Bytes { at, len } => Part::Bytes { at, len },
    }
}

/// Fields one behind the other.
fn hashed(fields: &[Wide]) -> Hashed {
    Hashed { parts: fields.iter().map(part).collect() }
}

fn argument(to: &Wide) -> Argument {
    let words = match to {
        Wide::Lane { .. } => 1,
        Wide::Bytes { len, .. } => len.div_ceil(8),
    };
    Argument { to: *to, words }
}

impl Layout<'_> {
    fn wide(&self, place: &FieldRef, action: Option<usize>) -> Wide {
        match place.owner {
            Owner::Header(header) => {
                Wide::Bytes { at: self.headers[header].at + place.offset, len: place.len_bytes() }
            }
            Owner::Metadata => self.metadata[place.field],
            // Arguments are named in actions alone.
            Owner::Arguments => self.arguments[action.unwrap_or_default()][place.field],
        }
    }

    fn source(&self, operand: &Operand, action: Option<usize>) -> Source {
        match operand {
            Operand::Value(value) => Source::Value(*value),
            Operand::Field(place) => self.field(place, action),
        }
    }

    /// A field of at most 64 bits.
    fn field(&self, place: &FieldRef, action: Option<usize>) -> Source {
        match self.wide(place, action) {
            Wide::Lane { lane, .. } => Source::Lane(lane),
            Wide::Bytes { at, len } => Source::Bytes { at, len },
        }
    }

    fn target(&self, place: &FieldRef, action: Option<usize>) -> Target {
        match self.wide(place, action) {
            Wide::Lane { lane, .. } => Target::Lane(lane, place.mask()),
            Wide::Bytes { at, len } => Target::Bytes { at, len },
        }
    }

    fn hashed(&self, range: &Range, action: Option<usize>) -> Hashed {
        if let Owner::Header(header) = range.first.owner {
            let len = range.len_bytes();
            let (head, from) = (&self.headers[header], range.first.offset);
            let part = match from + len > head.len {
                true => Part::Rest { header, from },
                false => Part::Bytes { at: head.at + from, len },
            };
            return Hashed { parts: vec![part] };
        }
        let fields = match range.first.owner {
            Owner::Metadata => &self.metadata,
            _ => &self.arguments[action.unwrap_or_default()],
        };
        hashed(&fields[range.first.field..=range.last.field])
    }

    /// What is written to an application's memory.
    fn spans(&self, list: &[Listed], action: Option<usize>) -> Vec<Span> {
        let span = |of: &Listed| match of {
            Listed::Field(place) => Span::Part(part(&self.wide(place, action))),
            Listed::Header(header) => Span::Part(Part::Rest { header: *header, from: 0 }),
            Listed::Payload(len) => Span::Payload(self.source(len, action)),
        };
        list.iter().map(span).collect()
    }

    /// Where to what is read of it goes.
    fn places(&self, list: &[Listed], action: Option<usize>) -> Vec<Wide> {
        let place = |of: &Listed| match of {
            Listed::Field(place) => Some(self.wide(place, action)),
            Listed::Header(header) => {
                let Head { at, len, .. } = self.headers[*header];
                Some(Wide::Bytes { at, len })
            }
            Listed::Payload(_) => None,
        };
        list.iter().filter_map(place).collect()
    }

    /// Key fields packed one behind the other, and the bits of all.
    fn pieces<'a>(&self, places: impl Iterator<Item = &'a FieldRef>) -> (Vec<Piece>, u32) {
        let (mut pieces, mut bit) = (Vec::new(), 0);
        for place in places {
            match self.wide(place, None) {
                Wide::Lane { lane, .. } => {
                    pieces.push(Piece { from: Source::Lane(lane), bits: place.bits, at: bit });
                    bit += place.bits;
                }
                Wide::Bytes { at, len } => {
                    for begin in (0..len).step_by(8) {
                        let len = (len - begin).min(8);
                        let from = Source::Bytes { at: at + begin, len };
                        pieces.push(Piece { from, bits: 8 * len as u32, at: bit });
                        bit += 8 * len as u32;
                    }
                }
            }
        }
        (pieces, bit)
    }

    fn look(&self, kind: &Kind) -> Look {
        match kind {
            Kind::Match { key, .. } => {
                let has = |how| key.iter().any(|(_, of)| *of == how);
                let how = match () {
                    () if key.is_empty() => Engine::Nothing,
                    () if has(Match::Wildcard) => Engine::Wildcard,
                    () if has(Match::Prefix) => Engine::Prefix,
                    () => Engine::Exact,
                };
                let (key, bits) = self.pieces(key.iter().map(|(place, _)| place));
                Look::Match { key, bits, how }
            }
            Kind::Learner { key, .. } => {
                let (key, bits) = self.pieces(key.iter());
                Look::Learner { key, bits }
            }
            Kind::Selector { group, key, member, .. } => {
                let key: Vec<Wide> = key.iter().map(|place| self.wide(place, None)).collect();
                let (group, member) = (self.field(group, None), self.target(member, None));
                Look::Selector { group, key: hashed(&key), member }
            }
        }
    }

    fn line(&self, code: &Code, action: Option<usize>) -> Line {
        let mut joins: Vec<usize> = code
            .steps
            .iter()
            .filter_map(|step| if let Instruction::Jump(_, to) = step { Some(*to) } else { None })
            .collect();
        joins.sort_unstable();
        joins.dedup();
        let mut ops = Vec::with_capacity(code.steps.len() + joins.len());
        let mut places = Vec::with_capacity(joins.len());
        for (number, step) in code.steps.iter().enumerate() {
            if let Ok(join) = joins.binary_search(&number) {
                places.push(ops.len());
                ops.push(Op::Join(join));
            }
            ops.push(self.op(step, action, &joins));
        }
        Line { ops, joins: places }
    }

    fn op(&self, step: &Instruction, action: Option<usize>, joins: &[usize]) -> Op {
        let source = |operand: &Operand| self.source(operand, action);
        let field = |place: &FieldRef| self.field(place, action);
        let target = |place: &FieldRef| self.target(place, action);
        let summed = |place: &FieldRef| match self.wide(place, action) {
            Wide::Bytes { at, len } => Summed::Bytes { at, len },
            // Checksums are of headers.
            Wide::Lane { .. } => Summed::Bytes { at: 0, len: 0 },
        };
        let checksum = |place: &FieldRef| match self.wide(place, action) {
            Wide::Bytes { at, .. } => at,
            Wide::Lane { .. } => 0,
        };
        match step {
            Instruction::Rx(to) => Op::Rx(target(to)),
            Instruction::Tx(port) => Op::Tx(source(port)),
            Instruction::Steer(queue) => Op::Steer(source(queue)),
            Instruction::Reply => Op::Reply,
            Instruction::Multicast(group) => Op::Multicast(source(group)),
            Instruction::Length(to) => Op::Length(target(to)),
            Instruction::Drop => Op::Drop,
            Instruction::Mirror { slot, session } => {
                Op::Mirror { slot: field(slot), session: field(session) }
            }
            Instruction::Recirculate => Op::Recirculate,
            Instruction::RecircId(to) => Op::RecircId(target(to)),
            Instruction::Extract(header, more) => {
                Op::Extract { header: *header, more: more.map(|more| field(&more)) }
            }
            Instruction::Lookahead(header) => Op::Lookahead(*header),
            Instruction::Emit(header) => Op::Emit(*header),
            Instruction::Validate(header) => Op::Validate(*header),
            Instruction::Invalidate(header) => Op::Invalidate(*header),
            Instruction::Move(to, from) => self.moved(to, from, action),
            Instruction::MoveHigh(to, from) => {
                let high = |place: &FieldRef| match self.wide(place, action) {
                    Wide::Bytes { at, .. } => Wide::Bytes { at, len: 8 },
                    lane @ Wide::Lane { .. } => lane,
                };
                Op::MoveWide(high(to), high(from))
            }
            Instruction::Fill(header, from) => self.fill(*header, from, action.unwrap_or_default()),
            Instruction::Alu(alu, to, from) => Op::Alu(*alu, target(to), source(from)),
            Instruction::ChecksumAdd(to, Summand::Field(from)) => {
                Op::ChecksumAdd { at: checksum(to), summand: summed(from) }
            }
            Instruction::ChecksumAdd(to, Summand::Header(header)) => {
                Op::ChecksumAdd { at: checksum(to), summand: Summed::Header(*header) }
            }
            Instruction::ChecksumSub(to, from) => {
                Op::ChecksumSub { at: checksum(to), summand: summed(from) }
            }
            Instruction::Jump(condition, to) => {
                let join = joins.binary_search(to).unwrap_or_default();
                Op::Jump(self.when(condition, action), join)
            }
            Instruction::Return => Op::Return,
            step => self.lasting(step, action),
        }
    }

    /// An instruction that has to do with what outlives a packet, or hashes.
    fn lasting(&self, step: &Instruction, action: Option<usize>) -> Op {
        let source = |operand: &Operand| self.source(operand, action);
        let field = |place: &FieldRef| self.field(place, action);
        let target = |place: &FieldRef| self.target(place, action);
        match step {
            Instruction::RegisterRead { to, array, index } => {
                Op::RegisterRead { to: target(to), array: *array, index: source(index) }
            }
            Instruction::RegisterWrite { array, index, value } => {
                let (index, value) = (source(index), source(value));
                Op::RegisterWrite { array: *array, index, value }
            }
            Instruction::RegisterAdd { before, array, index, value } => {
                let (index, value) = (source(index), source(value));
                let before = before.map(|before| target(&before));
                Op::RegisterAdd { before, array: *array, index, value }
            }
            Instruction::Count { array, index } => {
                Op::Count { array: *array, index: source(index) }
            }
            Instruction::DmaWrite { rings, index, what } => {
                let (index, what) = (source(index), self.spans(what, action));
                Op::DmaWrite { rings: *rings, index, what }
            }
            Instruction::DmaWriteAt { window, offset, what } => {
                let (offset, what) = (source(offset), self.spans(what, action));
                Op::DmaWriteAt { window: *window, offset, what }
            }
            Instruction::DmaReadAt { window, offset, into } => {
                let header = |of: &Listed| match of {
                    Listed::Header(header) => Some(*header),
                    _ => None,
                };
                let headers = into.iter().filter_map(header).collect();
                let (offset, into) = (source(offset), self.places(into, action));
                Op::DmaReadAt { window: *window, offset, into, headers }
            }
            Instruction::Digest(digest, first) => {
                let count = self.program.structs[self.program.digests[*digest].of].fields.len();
                let fields = &self.metadata[first.field..first.field + count];
                Op::Digest(*digest, hashed(fields))
            }
            Instruction::Meter { array, index, length, colour, to } => {
                let [index, length, colour] = [index, length, colour].map(source);
                Op::Meter { array: *array, index, length, colour, to: target(to) }
            }
            Instruction::Table(table) => Op::Table(*table),
            Instruction::Learn { action, arguments, timeout } => {
                let count = self.program.arguments(*action).len();
                let first = arguments.map_or(0, |first| first.field);
                let arguments = self.metadata[first..first + count].to_vec();
                Op::Learn { action: *action, arguments, timeout: field(timeout) }
            }
            Instruction::Rearm(timeout) => Op::Rearm(timeout.map(|timeout| field(&timeout))),
            Instruction::Forget => Op::Forget,
            Instruction::EntryId(to) => Op::EntryId(target(to)),
            Instruction::Hash(hash, to, range) => {
                Op::Hash(*hash, target(to), self.hashed(range, action))
            }
            Instruction::Rss(_, to, range) => Op::Rss(target(to), self.hashed(range, action)),
            // The caller's own.
            _ => Op::Return,
        }
    }

    fn when(&self, condition: &Condition, action: Option<usize>) -> When {
        match condition {
            Condition::Always => When::Always,
            Condition::Valid(header) => When::Valid(*header),
            Condition::Invalid(header) => When::Invalid(*header),
            Condition::Hit => When::Hit,
            Condition::Miss => When::Miss,
            Condition::Ran(of) => When::Ran(*of),
            Condition::RanOther(of) => When::RanOther(*of),
            Condition::Compare(order, a, b) => {
                When::Compare(*order, self.source(a, action), self.source(b, action))
            }
        }
    }

    /// A copy, as numbers where both sides have at most 64 bits.
    fn moved(&self, to: &FieldRef, from: &Operand, action: Option<usize>) -> Op {
        match from {
            Operand::Field(place) if !(to.is_number() && place.is_number()) => {
                Op::MoveWide(self.wide(to, action), self.wide(place, action))
            }
            from if to.is_number() => Op::Move(self.target(to, action), self.source(from, action)),
            from => {
                let Wide::Bytes { at, len } = self.wide(to, action) else {
                    return Op::Return;
                };
                let value = match from {
                    Operand::Value(value) => *value,
                    Operand::Field(_) => 0,
                };
                Op::Set { at, len, value }
            }
        }
    }

    /// The bytes of arguments, one behind the other, to where they go in the header.
    fn fill(&self, header: usize, from: &FieldRef, action: usize) -> Op {
        let (begin, len) = (self.headers[header].at, self.headers[header].len_max);
        let (mut parts, mut done) = (Vec::new(), 0);
        for wide in &self.arguments[action][from.field..] {
            let part = match *wide {
                Wide::Lane { len, .. } | Wide::Bytes { len, .. } => len,
            };
            if done >= len {
                break;
            }
            parts.push((*wide, begin + done, part.min(len - done)));
            done += part;
        }
        Op::Fill { header, parts }
    }
}

const _: () = assert!(MIRROR_SLOTS <= 8);
