//! One packet on its way through a program.

use crate::entry::Ports;
use crate::form::{
    Alu, Condition, FieldRef, Instruction, Listed, Order, Owner, Program, Range, Summand,
};
use crate::limits::{COPY_LEN_MAX, DMA_LEN_MAX, MIRROR_SLOTS};
use crate::outcome::{Copied, Lost};
use crate::value::{from_number, to_number};

/// A packet, its headers and what is known beside them.
pub(super) struct Packet {
    /// What is left behind the headers that were taken off; the whole packet when it has left.
    pub frame: Vec<u8>,
    headers: Vec<Taken>,
    /// Each field, first byte first.
    metadata: Vec<Vec<u8>>,
    /// Arguments of the action that runs.
    pub arguments: Vec<Vec<u8>>,
    /// Headers that were put before the rest.
    emitted: Vec<usize>,
    /// Session of each slot for copies.
    pub mirrored: Vec<Option<usize>>,
    /// Copies that were made of it.
    pub copies: Vec<Copied>,
    /// The port that it came by.
    pub port: u64,
    pub comes_again: bool,
    /// An entry of a ring was written of it.
    pub is_handed: bool,
    pub pass: u32,
    /// Bytes that it had when it came, or came round.
    pub len: usize,
    /// What the last table said, also of a round before.
    pub last: Option<Last>,
    /// The learner that was looked into last, and the key it was asked for.
    pub learning: Option<(usize, Vec<u8>)>,
}

/// What a table said.
#[derive(Clone, Copy)]
pub(super) struct Last {
    pub is_hit: bool,
    pub action: usize,
    /// One more than the number of the entry, or 0.
    pub entry: u64,
}

/// A header of the packet.
#[derive(Clone)]
struct Taken {
    is_valid: bool,
    /// All its bytes, as many as it can have.
    bytes: Vec<u8>,
    /// Bytes that it has.
    len: usize,
}

impl Packet {
    pub(super) fn new(program: &Program, port: u64, frame: &[u8]) -> Packet {
        let fields = &program.metadata_type().fields;
        Packet {
            frame: frame.to_vec(),
            headers: Vec::new(),
            metadata: fields.iter().map(|field| vec![0; field.bits as usize / 8]).collect(),
            arguments: Vec::new(),
            emitted: Vec::new(),
            mirrored: Vec::new(),
            copies: Vec::new(),
            port,
            comes_again: false,
            is_handed: false,
            pass: 0,
            len: 0,
            last: None,
            learning: None,
        }
    }

    /// The packet comes in, or comes round: headers are gone, and metadata stays, as does what the
    /// last table said (`__instr_rx_exec` of DPDK's `rte_swx_pipeline.c`).
    pub(super) fn begin(&mut self, program: &Program, pass: u32) {
        let empty = |header: usize| {
            let of = program.header_type(header);
            let fixed = of.fields.iter().filter(|field| !field.is_variable);
            let len = fixed.map(|field| field.bits as usize / 8).sum();
            Taken { is_valid: false, bytes: vec![0; of.len], len }
        };
        self.headers = (0..program.headers.len()).map(empty).collect();
        self.emitted.clear();
        self.len = self.frame.len();
        self.mirrored = vec![None; MIRROR_SLOTS as usize];
        (self.comes_again, self.pass, self.learning) = (false, pass, None);
    }

    /// The emitted headers and the rest.
    fn whole(&self) -> Vec<u8> {
        let headers = self.emitted.iter().map(|header| &self.headers[*header]);
        let front = headers.flat_map(|header| header.bytes[..header.len].to_vec());
        front.chain(self.frame.iter().copied()).collect()
    }

    /// Puts the emitted headers before the rest.
    pub(super) fn deparse(&mut self) {
        self.frame = self.whole();
    }

    /// Makes copies of it as it is now for ports but its own.
    pub(super) fn multicast(&mut self, ports: Ports) {
        let frame = self.whole();
        if (1..=COPY_LEN_MAX).contains(&frame.len()) {
            let others = ports.without(self.port).each();
            self.copies.extend(others.map(|port| Copied { port, frame: frame.clone() }));
        }
    }

    fn field(&self, place: &FieldRef) -> &[u8] {
        match place.owner {
            Owner::Header(header) => {
                &self.headers[header].bytes[place.offset..place.offset + place.len_bytes()]
            }
            Owner::Metadata => &self.metadata[place.field],
            Owner::Arguments => &self.arguments[place.field],
        }
    }

    fn field_mut(&mut self, place: &FieldRef) -> &mut [u8] {
        match place.owner {
            Owner::Header(header) => {
                &mut self.headers[header].bytes[place.offset..place.offset + place.len_bytes()]
            }
            Owner::Metadata => &mut self.metadata[place.field],
            Owner::Arguments => &mut self.arguments[place.field],
        }
    }

    /// The number in a field of at most 64 bits.
    pub(super) fn number(&self, place: &FieldRef) -> u64 {
        to_number(self.field(place))
    }

    /// Writes a number, of which a narrower field takes the last bits.
    pub(super) fn set(&mut self, place: &FieldRef, value: u64) {
        let cut = if place.is_number() { value & place.mask() } else { value };
        if let Some(bytes) = from_number(cut, place.len_bytes()) {
            self.field_mut(place).copy_from_slice(&bytes);
        }
    }

    /// The bytes of a key, field by field.
    pub(super) fn key<'a>(&self, places: impl IntoIterator<Item = &'a FieldRef>) -> Vec<Vec<u8>> {
        places.into_iter().map(|place| self.field(place).to_vec()).collect()
    }

    /// The metadata fields from one on.
    pub(super) fn metadata_from(&self, first: usize, count: usize) -> Vec<Vec<u8>> {
        self.metadata[first..first + count].to_vec()
    }

    /// The bytes of a field that is hashed: of a header as they stand there; elsewhere numbers of
    /// at most 64 bits have their last byte first, as in the memory of a little-endian host.
    pub(super) fn hashed(&self, place: &FieldRef) -> Vec<u8> {
        let bytes = self.field(place).to_vec();
        match place.owner {
            Owner::Metadata | Owner::Arguments if place.is_number() => {
                bytes.into_iter().rev().collect()
            }
            _ => bytes,
        }
    }

    /// The same of fields one behind the other.
    pub(super) fn bytes(&self, range: &Range) -> Vec<u8> {
        let (first, last) = (range.first.field, range.last.field);
        let of = match range.first.owner {
            Owner::Header(header) => {
                let Taken { bytes, len, .. } = &self.headers[header];
                let from = range.first.offset;
                return bytes[from..(from + range.len_bytes()).min(*len)].to_vec();
            }
            Owner::Metadata => &self.metadata[first..=last],
            Owner::Arguments => &self.arguments[first..=last],
        };
        let turned = |field: &Vec<u8>| match field.len() {
            ..=8 => field.iter().rev().copied().collect(),
            _ => field.clone(),
        };
        of.iter().flat_map(turned).collect()
    }

    /// Takes a header off, or looks at it; false where the packet is too short.
    pub(super) fn extract(&mut self, program: &Program, step: &Instruction) -> bool {
        let (header, more) = match step {
            Instruction::Extract(header, Some(len)) => (*header, self.number(len)),
            Instruction::Extract(header, None) | Instruction::Lookahead(header) => (*header, 0),
            _ => return true,
        };
        let of = program.header_type(header);
        let variable = of.fields.last().filter(|last| last.is_variable);
        let more_max = variable.map_or(0, |last| last.bits as usize / 8);
        let len = of.len - more_max + more.min(usize::MAX as u64 / 2) as usize;
        if len > of.len || len > self.frame.len() {
            return false;
        }
        let taken = &mut self.headers[header];
        taken.bytes[..len].copy_from_slice(&self.frame[..len]);
        (taken.is_valid, taken.len) = (true, len);
        if matches!(step, Instruction::Extract(..)) {
            self.frame.drain(..len);
        }
        true
    }

    /// What is written of it, or why it is not.
    pub(super) fn listed(&self, list: &[Listed]) -> Result<Vec<u8>, Lost> {
        let mut all = Vec::new();
        for of in list {
            match of {
                Listed::Field(place) => all.extend(self.hashed(place)),
                Listed::Header(header) => {
                    let Taken { bytes, len, .. } = &self.headers[*header];
                    all.extend(&bytes[..*len]);
                }
                Listed::Payload(len) => {
                    let len = usize::try_from(self.value(len)).map_err(|_| Lost::Short)?;
                    all.extend(self.frame.get(..len).ok_or(Lost::Short)?);
                }
            }
        }
        if all.len() > DMA_LEN_MAX { Err(Lost::Outside) } else { Ok(all) }
    }

    /// Takes over what was read.
    pub(super) fn unlist(&mut self, program: &Program, list: &[Listed], mut bytes: &[u8]) {
        for of in list {
            let len = program.listed_bytes(&[*of]);
            let (read, rest) = bytes.split_at(len);
            bytes = rest;
            match of {
                Listed::Field(place) => {
                    let turns = place.is_number() && place.owner == Owner::Metadata;
                    let field = self.field_mut(place);
                    field.copy_from_slice(read);
                    if turns {
                        field.reverse();
                    }
                }
                Listed::Header(header) => {
                    let taken = &mut self.headers[*header];
                    taken.bytes.copy_from_slice(read);
                    taken.is_valid = true;
                }
                Listed::Payload(_) => {}
            }
        }
    }

    pub(super) fn is_so(&self, condition: &Condition) -> bool {
        let is_hit = self.last.is_some_and(|last| last.is_hit);
        let ran = |action: &usize| self.last.is_some_and(|last| last.action == *action);
        match condition {
            Condition::Always => true,
            Condition::Valid(header) => self.headers[*header].is_valid,
            Condition::Invalid(header) => !self.headers[*header].is_valid,
            Condition::Hit => is_hit,
            Condition::Miss => !is_hit,
            Condition::Ran(action) => ran(action),
            Condition::RanOther(action) => !ran(action),
            Condition::Compare(order, a, b) => {
                let (a, b) = (self.value(a), self.value(b));
                match order {
                    Order::Equal => a == b,
                    Order::Different => a != b,
                    Order::Less => a < b,
                    Order::Greater => a > b,
                }
            }
        }
    }

    /// An instruction that only has to do with the packet.
    pub(super) fn step(&mut self, program: &Program, step: &Instruction) {
        match step {
            Instruction::Recirculate => self.comes_again = true,
            Instruction::Length(to) => self.set(to, self.len as u64),
            Instruction::RecircId(to) => self.set(to, u64::from(self.pass)),
            Instruction::EntryId(to) => self.set(to, self.last.map_or(0, |last| last.entry)),
            Instruction::Emit(header) if self.headers[*header].is_valid => {
                self.emitted.push(*header)
            }
            Instruction::Validate(header) => self.headers[*header].is_valid = true,
            Instruction::Invalidate(header) => self.headers[*header].is_valid = false,
            Instruction::Move(to, operand) => match operand {
                crate::form::Operand::Value(value) => self.set(to, *value),
                crate::form::Operand::Field(from) => {
                    let from = self.field(from).to_vec();
                    let zeros = vec![0; to.len_bytes().saturating_sub(from.len())];
                    let all = [zeros, from].concat();
                    self.field_mut(to).copy_from_slice(&all[all.len() - to.len_bytes()..]);
                }
            },
            Instruction::MoveHigh(to, from) => {
                let from = self.field(from)[..8].to_vec();
                self.field_mut(to)[..8].copy_from_slice(&from);
            }
            Instruction::Fill(header, from) => {
                let bytes = self.arguments[from.field..].concat();
                let len = program.header_type(*header).len;
                let taken = &mut self.headers[*header];
                taken.bytes.copy_from_slice(&bytes[..len]);
                taken.is_valid = true;
            }
            Instruction::Alu(alu, to, from) => {
                let value = alu.of(self.number(to), self.value(from));
                self.set(to, value);
            }
            Instruction::ChecksumAdd(to, Summand::Field(from)) => {
                let bytes = self.field(from).to_vec();
                self.checksum(to, &bytes, false);
            }
            Instruction::ChecksumAdd(to, Summand::Header(header)) => {
                let Taken { bytes, len, .. } = self.headers[*header].clone();
                self.checksum(to, &bytes[..len], false);
            }
            Instruction::ChecksumSub(to, from) => {
                let bytes = self.field(from).to_vec();
                self.checksum(to, &bytes, true);
            }
            Instruction::Hash(hash, to, range) => {
                let value = hash.of(&self.bytes(range));
                self.set(to, value);
            }
            _ => {}
        }
    }

    /// Adds the 16-bit words of bytes to a checksum, or takes them out, in ones' complement; the
    /// last of an odd number of bytes has a zero behind it. The result is never 0, which says "no
    /// checksum" in UDP: it is 0xffff, which is the same number.
    fn checksum(&mut self, to: &FieldRef, bytes: &[u8], take: bool) {
        let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |b| u64::from(*b));
        let sum: u64 = bytes.chunks(2).map(word).map(|w| if take { 0xffff - w } else { w }).sum();
        let mut all = (!self.number(to) & 0xffff) + sum;
        while all > 0xffff {
            all = (all & 0xffff) + (all >> 16);
        }
        let checksum = !all & 0xffff;
        self.set(to, if checksum == 0 { 0xffff } else { checksum });
    }
}

impl Alu {
    /// The result of two numbers; the destination takes the bits that it has room for.
    #[must_use]
    pub fn of(self, a: u64, b: u64) -> u64 {
        let by = u32::try_from(b).unwrap_or(u32::MAX);
        match self {
            Alu::Add => a.wrapping_add(b),
            Alu::Sub => a.wrapping_sub(b),
            Alu::And => a & b,
            Alu::Or => a | b,
            Alu::Xor => a ^ b,
            Alu::Shl => a.checked_shl(by).unwrap_or(0),
            Alu::Shr => a.checked_shr(by).unwrap_or(0),
        }
    }
}
