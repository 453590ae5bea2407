//! Instructions.

use std::collections::HashMap;

use super::error::Wrong;
use super::nearest;
use super::resolve::{Owners, Scene};
use super::words::{Line, Word};
use crate::form::{
    Alu, Code, Condition, Field, FieldRef, Hash, Instruction, Listed, Operand, Order, Owner,
    Program, Range, Summand,
};
use crate::limits::{CODE_LEN_MAX, DMA_LEN_MAX, IMPLIED_FIELDS_MAX};

/// Where instructions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodePart {
    Apply,
    Action,
}

/// Reads the instructions of a block that begins with `of`.
pub(super) fn read<'a>(
    scene: &Scene<'a, '_>,
    of: Word<'a>,
    lines: &[Line<'a>],
    part: CodePart,
) -> Result<Code, Wrong> {
    if lines.len() > CODE_LEN_MAX {
        return Err(of.unfit(format!("{CODE_LEN_MAX} instructions at most stand in one block")));
    }
    let body = Body::read(lines)?;
    // What stands behind it may be left out.
    if let (Some((name, number)), Some(line)) = (body.labels.last(), lines.last())
        && *number == body.lines.len()
    {
        let reason = format!("an instruction has to stand behind the label `{name}`");
        return Err(line.first().unfit(reason));
    }
    let mut code = Code { steps: Vec::with_capacity(body.lines.len()), labels: body.labels };
    for (number, line) in body.lines.iter().enumerate() {
        let instruction = InstructionLine { scene, line, number, labels: &body.numbers };
        let step = instruction.read()?;
        placed(&step, number, line.first(), part)?;
        code.steps.push(step);
    }
    match (code.steps.last(), body.lines.last()) {
        (
            Some(
                Instruction::Tx(_)
                | Instruction::Steer(_)
                | Instruction::Reply
                | Instruction::Drop
                | Instruction::Return,
            ),
            _,
        ) => Ok(code),
        (_, last) => {
            let last = last.map_or(of, Line::first);
            let ends = if part == CodePart::Apply {
                "`tx`, `steer`, `reply` or `drop`"
            } else {
                "`return`, `tx`, `steer`, `reply` or `drop`"
            };
            Err(last.unfit(format!("the last instruction has to be {ends}")))
        }
    }
}

/// Lines of instructions, and the numbers that labels have.
struct Body<'a> {
    numbers: HashMap<&'a str, usize>,
    lines: Vec<Line<'a>>,
    labels: Vec<(String, usize)>,
}

/// The lines of a block's instructions, each without its label, as many as the block has steps;
/// none where they cannot be read.
pub(super) fn instructions<'a>(lines: &[Line<'a>]) -> Vec<Line<'a>> {
    Body::read(lines).map(|body| body.lines).unwrap_or_default()
}

impl<'a> Body<'a> {
    fn read(lines: &[Line<'a>]) -> Result<Body<'a>, Wrong> {
        let mut body = Body { numbers: HashMap::new(), lines: Vec::new(), labels: Vec::new() };
        lines.iter().try_for_each(|line| body.take(line))?;
        Ok(body)
    }

    fn take(&mut self, line: &Line<'a>) -> Result<(), Wrong> {
        let (number, mut line) = (self.lines.len(), line.clone());
        parted(&line)?;
        if line.at(1).text == ":" {
            let label = line.first();
            if self.numbers.insert(label.name()?, number).is_some() {
                return Err(label.unfit(format!("there is another label `{}`", label.text)));
            }
            // Another name of the same instruction is none for it when it is written.
            if self.labels.last().is_none_or(|(_, of)| *of != number) {
                self.labels.push((label.text.to_owned(), number));
            }
            line = line.after(2);
        }
        // They change nothing: tables and arrays are brought near anyway.
        if !matches!(line.first().text, "regprefetch" | "metprefetch") {
            self.lines.push(line);
        }
        Ok(())
    }
}

/// That the colon of a label is a word by itself: SWX reads no other, and the jump to the label
/// would be what is said to be wrong.
fn parted(line: &Line<'_>) -> Result<(), Wrong> {
    let (first, second) = (line.first(), line.at(1));
    if let Some((name, _)) = first.text.split_once(':')
        && (Word { text: name, at: first.at }).name().is_ok()
    {
        return Err(first.expected(format!("`{name} :`, with a blank before the colon and behind")));
    }
    match second.text.starts_with(':') && second.text.len() > 1 {
        true => Err(second.expected("`:`, with a blank behind it")),
        false => Ok(()),
    }
}

/// That an instruction may stand where it does.
fn placed(step: &Instruction, number: usize, word: Word<'_>, part: CodePart) -> Result<(), Wrong> {
    let is_action = part == CodePart::Action;
    match step {
        Instruction::Rx(_) if is_action || number > 0 => {
            Err(word.unfit("a packet is received by the first instruction of `apply` alone"))
        }
        Instruction::Table(_) if is_action => {
            Err(Wrong::not_supported(word.at, "a table in an action"))
        }
        Instruction::Learn { .. }
        | Instruction::Rearm(_)
        | Instruction::Forget
        | Instruction::Return
            if !is_action =>
        {
            Err(word.unfit(format!("`{}` stands in actions alone", word.text)))
        }
        step if !is_action && number == 0 && !matches!(step, Instruction::Rx(_)) => {
            Err(word.expected("`rx`, by which `apply` begins"))
        }
        _ => Ok(()),
    }
}

struct InstructionLine<'a, 'l> {
    scene: &'l Scene<'a, 'l>,
    line: &'l Line<'a>,
    number: usize,
    labels: &'l HashMap<&'a str, usize>,
}

impl<'a> InstructionLine<'a, '_> {
    /// The operand of this number, from 1 on.
    fn word(&self, index: usize) -> Word<'a> {
        self.line.at(index)
    }

    /// That there are so many operands.
    fn operands(&self, count: usize) -> Result<(), Wrong> {
        self.line.ends_at(1 + count)
    }

    fn small(&self, index: usize, owners: Owners) -> Result<FieldRef, Wrong> {
        self.scene.small(self.word(index), owners)
    }

    /// That instructions may take so many fields more that they do not name, of which `word` is
    /// the first.
    fn implies(&self, word: Word<'a>, fields: usize) -> Result<(), Wrong> {
        let all = self.scene.implied.get().saturating_add(fields);
        self.scene.implied.set(all);
        match all <= IMPLIED_FIELDS_MAX {
            true => Ok(()),
            false => Err(word.unfit(format!(
                "the instructions of a program take {IMPLIED_FIELDS_MAX} fields at most that they \
                 do not name one by one, and with these {all}: fewer instructions or shorter types"
            ))),
        }
    }

    /// A field of at most 64 bits, or a number.
    fn operand(&self, index: usize, owners: Owners) -> Result<Operand, Wrong> {
        let word = self.word(index);
        if word.is_number() {
            return word.number().map(Operand::Value);
        }
        match self.scene.field(word)? {
            Some(_) => self.scene.small(word, owners).map(Operand::Field),
            None => Err(word.expected(format!("{owners}, or a number"))),
        }
    }

    fn read(&self) -> Result<Instruction, Wrong> {
        let name = self.line.first();
        if let Some((_, alu)) = ALU.iter().find(|(of, _)| *of == name.text) {
            self.operands(2)?;
            let (to, from) = (self.small(1, Owners::PACKET)?, self.operand(2, Owners::ALL)?);
            return Ok(Instruction::Alu(*alu, to, from));
        }
        match name.text {
            "rx" | "tx" | "steer" | "reply" | "drop" | "mirror" | "multicast" | "recirculate"
            | "recircid" | "length" => self.port(name),
            "extract" | "lookahead" | "emit" | "validate" | "invalidate" | "dma" => {
                self.header(name)
            }
            "mov" | "movh" | "ckadd" | "cksub" | "hash" | "rss" => self.value(name),
            "regrd" | "regwr" | "regadd" | "meter" | "count" => self.array(name),
            "dma_write" | "dma_write_at" | "dma_read_at" | "digest" => self.memory(name),
            "table" | "learn" | "rearm" | "forget" | "entryid" | "return" => self.table(name),
            "extern" => Err(Wrong::not_supported(name.at, "extern objects and functions")),
            text if text.starts_with("jmp") => self.jump(name),
            _ => Err(unknown(name)),
        }
    }

    fn port(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        let one = |step: fn(FieldRef) -> Instruction| {
            self.operands(1)?;
            self.small(1, Owners::METADATA).map(step)
        };
        match name.text {
            "rx" => one(Instruction::Rx),
            "recircid" => one(Instruction::RecircId),
            "length" => one(Instruction::Length),
            "reply" => self.operands(0).map(|()| Instruction::Reply),
            "tx" => {
                self.operands(1)?;
                self.operand(1, Owners::METADATA).map(Instruction::Tx)
            }
            "steer" => {
                self.operands(1)?;
                self.operand(1, Owners::METADATA).map(Instruction::Steer)
            }
            "mirror" => {
                self.operands(2)?;
                let (slot, session) = (self.small(1, Owners::HOST)?, self.small(2, Owners::HOST)?);
                Ok(Instruction::Mirror { slot, session })
            }
            "multicast" => {
                self.operands(1)?;
                self.operand(1, Owners::HOST).map(Instruction::Multicast)
            }
            "drop" => self.operands(0).map(|()| Instruction::Drop),
            _ => self.operands(0).map(|()| Instruction::Recirculate),
        }
    }

    fn header(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        let header = self.scene.header(self.word(1))?;
        let of = self.scene.program.header_type(header);
        let is_variable = of.is_variable();
        let fixed = || match is_variable {
            true => Err(self.word(1).unfit("a header without a field of variable length")),
            false => Ok(()),
        };
        match name.text {
            "extract" if is_variable => {
                self.operands(2)?;
                let len = self.small(2, Owners::METADATA)?;
                Ok(Instruction::Extract(header, Some(len)))
            }
            "extract" => self.operands(1).map(|()| Instruction::Extract(header, None)),
            "dma" => {
                self.operands(2)?;
                fixed()?;
                let from = self.scene.place(self.word(2), Owners::ARGUMENTS)?;
                let arguments = self.scene.arguments.map(|of| &self.scene.program.structs[of]);
                let behind = arguments.filter(|all| from.offset + of.len <= all.len);
                let Some(all) = behind else {
                    let reason = format!("the {} bytes from here on do not exist", of.len);
                    return Err(self.word(2).unfit(reason));
                };
                // A field has a byte at least.
                self.implies(self.word(2), of.len.min(all.fields.len() - from.field))?;
                Ok(Instruction::Fill(header, from))
            }
            "lookahead" => {
                self.operands(1)?;
                fixed().map(|()| Instruction::Lookahead(header))
            }
            "emit" => self.operands(1).map(|()| Instruction::Emit(header)),
            "validate" => self.operands(1).map(|()| Instruction::Validate(header)),
            _ => self.operands(1).map(|()| Instruction::Invalidate(header)),
        }
    }

    fn value(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        match name.text {
            "mov" => {
                self.operands(2)?;
                let to = self.scene.place(self.word(1), Owners::PACKET)?;
                let word = self.word(2);
                let from = match word.is_number() {
                    true => Operand::Value(word.number()?),
                    false => Operand::Field(self.scene.place(word, Owners::ALL)?),
                };
                Ok(Instruction::Move(to, from))
            }
            "movh" => {
                self.operands(2)?;
                let to = self.scene.place(self.word(1), Owners::PACKET)?;
                let from = self.scene.place(self.word(2), Owners::ALL)?;
                match (to.bits, from.bits) {
                    (64, 128) | (128, 64) => Ok(Instruction::MoveHigh(to, from)),
                    _ => Err(self.word(1).unfit("one field has to have 128 bits, the other 64")),
                }
            }
            "ckadd" | "cksub" => self.checksum(name),
            _ => {
                self.operands(4)?;
                let to = self.small(2, Owners::METADATA)?;
                let range = self.range()?;
                if name.text == "rss" {
                    return Ok(Instruction::Rss(self.scene.rss(self.word(1))?, to, range));
                }
                let word = self.word(1);
                let hash = Hash::ALL.iter().find(|(name, _)| *name == word.text);
                let names: Vec<String> =
                    Hash::ALL.iter().map(|(name, _)| format!("`{name}`")).collect();
                let (_, hash) = hash.ok_or_else(|| word.expected(names.join(", ")))?;
                Ok(Instruction::Hash(*hash, to, range))
            }
        }
    }

    /// The fields from the third operand to the fourth.
    fn range(&self) -> Result<Range, Wrong> {
        let place = |index: usize| {
            let found = self.scene.any_field(self.word(index))?;
            found.ok_or_else(|| self.word(index).expected(format!("{}", Owners::ALL)))
        };
        let ((first, _), (last, _)) = (place(3)?, place(4)?);
        if first.owner != last.owner || first.offset > last.offset {
            let reason = "the last field stands behind the first, in the same type";
            return Err(self.word(4).unfit(reason));
        }
        // Fields of a header are bytes side by side.
        if !matches!(first.owner, Owner::Header(_)) {
            self.implies(self.word(3), last.field + 1 - first.field)?;
        }
        Ok(Range { first, last })
    }

    fn checksum(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        self.operands(2)?;
        let to = self.small(1, Owners::HEADERS)?;
        if to.bits != 16 {
            return Err(self
                .word(1)
                .unfit(format!("a checksum has 16 bits; this has {}", to.bits)));
        }
        let word = self.word(2);
        let is_field = word.text.matches('.').count() > 1;
        match (name.text, is_field) {
            ("ckadd", false) => {
                Ok(Instruction::ChecksumAdd(to, Summand::Header(self.scene.header(word)?)))
            }
            ("ckadd", true) => {
                Ok(Instruction::ChecksumAdd(to, Summand::Field(self.small(2, Owners::HEADERS)?)))
            }
            _ => Ok(Instruction::ChecksumSub(to, self.small(2, Owners::HEADERS)?)),
        }
    }

    fn array(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        match name.text {
            "regrd" => {
                self.operands(3)?;
                let to = self.small(1, Owners::PACKET)?;
                let array = self.scene.registers(self.word(2))?;
                Ok(Instruction::RegisterRead { to, array, index: self.operand(3, Owners::ALL)? })
            }
            "meter" => {
                self.operands(5)?;
                Ok(Instruction::Meter {
                    array: self.scene.meters(self.word(1))?,
                    index: self.operand(2, Owners::ALL)?,
                    length: self.operand(3, Owners::ALL)?,
                    colour: self.operand(4, Owners::HOST)?,
                    to: self.small(5, Owners::METADATA)?,
                })
            }
            "count" => {
                self.operands(2)?;
                let array = self.scene.counters(self.word(1))?;
                Ok(Instruction::Count { array, index: self.operand(2, Owners::ALL)? })
            }
            "regwr" => {
                self.operands(3)?;
                let array = self.scene.registers(self.word(1))?;
                let (index, value) = (self.operand(2, Owners::ALL)?, self.operand(3, Owners::ALL)?);
                Ok(Instruction::RegisterWrite { array, index, value })
            }
            _ => {
                // `regadd [BEFORE] ARRAY INDEX VALUE`
                let first = usize::from(self.line.len() > 4);
                self.operands(3 + first)?;
                let before = (first == 1).then(|| self.small(1, Owners::METADATA)).transpose()?;
                let array = self.scene.registers(self.word(1 + first))?;
                let index = self.operand(2 + first, Owners::ALL)?;
                let value = self.operand(3 + first, Owners::ALL)?;
                Ok(Instruction::RegisterAdd { before, array, index, value })
            }
        }
    }

    /// What has to do with memory of the application, or tells the control side.
    fn memory(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        let program = self.scene.program;
        match name.text {
            "dma_write" => {
                let rings = self.scene.rings(self.word(1))?;
                let (of, index) = (&program.rings[rings], self.operand(2, Owners::ALL)?);
                if let Operand::Value(value) = index
                    && value >= of.count as u64
                {
                    let reason = format!("there are {} rings, from 0 on", of.count);
                    return Err(self.word(2).unfit(reason));
                }
                let what = self.list(3, true)?;
                let bytes = fixed_bytes(program, &what);
                match bytes <= of.shape.entry_len {
                    true => Ok(Instruction::DmaWrite { rings, index, what }),
                    false => {
                        let entry = of.shape.entry_len;
                        let reason = format!("an entry has {entry} bytes, and these are {bytes}");
                        Err(self.word(1).unfit(reason))
                    }
                }
            }
            "digest" => {
                self.operands(2)?;
                let digest = self.scene.digest(self.word(1))?;
                let fields = &program.structs[program.digests[digest].of].fields;
                let first = self.first_of(self.word(2), fields)?;
                Ok(Instruction::Digest(digest, first))
            }
            name => {
                let window = self.scene.window(self.word(1))?;
                let offset = self.operand(2, Owners::ALL)?;
                let what = self.list(3, name == "dma_write_at")?;
                let (bytes, len) = (fixed_bytes(program, &what), program.windows[window].len);
                let from = match offset {
                    Operand::Value(from) => from,
                    Operand::Field(_) => 0,
                };
                if from.saturating_add(bytes as u64) > len as u64 {
                    let reason = format!("the window has {len} bytes, and these end behind it");
                    return Err(self.word(2).unfit(reason));
                }
                match name {
                    "dma_write_at" => Ok(Instruction::DmaWriteAt { window, offset, what }),
                    _ => Ok(Instruction::DmaReadAt { window, offset, into: what }),
                }
            }
        }
    }

    /// What is written, or where to what is read goes, from this operand on.
    fn list(&self, from: usize, writes: bool) -> Result<Vec<Listed>, Wrong> {
        let mut list = Vec::new();
        let mut at = from;
        while at < self.line.len() {
            let word = self.word(at);
            at += 1;
            if writes && word.text == "payload" {
                list.push(Listed::Payload(self.operand(at, Owners::HOST)?));
                at += 1;
            } else if word.text.starts_with("h.") && word.text.matches('.').count() == 1 {
                let header = self.scene.header(word)?;
                let of = self.scene.program.header_type(header);
                if !writes && of.is_variable() {
                    return Err(word.unfit("a header without a field of variable length"));
                }
                list.push(Listed::Header(header));
            } else {
                let owners = if writes { Owners::ALL } else { Owners::PACKET };
                list.push(Listed::Field(self.scene.place(word, owners)?));
            }
        }
        if self.scene.program.listed_bytes(&list) > DMA_LEN_MAX {
            let reason = format!("one instruction moves {DMA_LEN_MAX} bytes at most");
            return Err(self.word(from).unfit(reason));
        }
        match (list.is_empty(), writes) {
            (false, _) => Ok(list),
            (true, true) => Err(self.word(at).expected("a field, a header or `payload`")),
            (true, false) => Err(self.word(at).expected("a field or a header")),
        }
    }

    /// A field of metadata from which on fields of these widths stand.
    fn first_of(&self, word: Word<'a>, fields: &[Field]) -> Result<FieldRef, Wrong> {
        let first = self.scene.place(word, Owners::METADATA)?;
        self.implies(word, fields.len())?;
        let there = &self.scene.program.metadata_type().fields[first.field..];
        let fits = there.len() >= fields.len()
            && there.iter().zip(fields).all(|(there, field)| there.bits == field.bits);
        if fits {
            return Ok(first);
        }
        let widths: Vec<String> = fields.iter().map(|field| field.bits.to_string()).collect();
        let reason = format!("fields of {} bits have to stand from here on", widths.join(", "));
        Err(word.unfit(reason))
    }

    fn table(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        match name.text {
            "table" => {
                self.operands(1)?;
                self.scene.table_named(self.word(1)).map(Instruction::Table)
            }
            "learn" => self.learn(),
            "rearm" if self.line.len() == 1 => Ok(Instruction::Rearm(None)),
            "rearm" => {
                self.operands(1)?;
                Ok(Instruction::Rearm(Some(self.small(1, Owners::METADATA)?)))
            }
            "entryid" => {
                self.operands(1)?;
                self.small(1, Owners::METADATA).map(Instruction::EntryId)
            }
            "forget" => self.operands(0).map(|()| Instruction::Forget),
            _ => self.operands(0).map(|()| Instruction::Return),
        }
    }

    /// `learn ACTION [ARGUMENT] TIMEOUT`
    fn learn(&self) -> Result<Instruction, Wrong> {
        let action = self.scene.action(self.word(1))?;
        let fields = self.scene.program.arguments(action);
        let given = self.line.len() > 3;
        self.operands(2 + usize::from(given))?;
        let timeout = self.small(2 + usize::from(given), Owners::METADATA)?;
        if given == fields.is_empty() {
            let arguments = if given { "no arguments" } else { "arguments: name the first" };
            return Err(self.word(2).unfit(format!("`{}` has {arguments}", self.word(1).text)));
        }
        if !given {
            return Ok(Instruction::Learn { action, arguments: None, timeout });
        }
        let first = self.first_of(self.word(2), fields)?;
        Ok(Instruction::Learn { action, arguments: Some(first), timeout })
    }

    fn jump(&self, name: Word<'a>) -> Result<Instruction, Wrong> {
        let compare = COMPARE.iter().find(|(of, _)| *of == name.text);
        let condition = match (name.text, compare) {
            (_, Some((_, order))) => {
                self.operands(3)?;
                let (a, b) = (self.operand(2, Owners::ALL)?, self.operand(3, Owners::ALL)?);
                Condition::Compare(*order, a, b)
            }
            ("jmp", _) => self.operands(1).map(|()| Condition::Always)?,
            ("jmph", _) => self.operands(1).map(|()| Condition::Hit)?,
            ("jmpnh", _) => self.operands(1).map(|()| Condition::Miss)?,
            ("jmpv" | "jmpnv" | "jmpa" | "jmpna", _) => {
                self.operands(2)?;
                match name.text {
                    "jmpv" => Condition::Valid(self.scene.header(self.word(2))?),
                    "jmpnv" => Condition::Invalid(self.scene.header(self.word(2))?),
                    "jmpa" => Condition::Ran(self.scene.action(self.word(2))?),
                    _ => Condition::RanOther(self.scene.action(self.word(2))?),
                }
            }
            _ => return Err(unknown(name)),
        };
        let label = self.word(1);
        match self.labels.get(label.text) {
            None => {
                let there = self.labels.keys().copied();
                let what = "a label of this block";
                Err(label.expected(nearest::expected(what, label.text, "", there)))
            }
            Some(to) if *to <= self.number => Err(Wrong::not_supported(
                label.at,
                "a jump back, which could go on for ever; `recirculate` has a packet come round",
            )),
            Some(to) => Ok(Instruction::Jump(condition, *to)),
        }
    }
}

/// That a word is no instruction.
fn unknown(name: Word<'_>) -> Wrong {
    let there = INSTRUCTIONS.split_whitespace();
    name.expected(nearest::expected("an instruction", name.text, "", there))
}

/// All instructions, those that are refused apart.
const INSTRUCTIONS: &str = "\
    rx tx steer reply drop mirror multicast recirculate recircid length extract lookahead \
    emit validate invalidate dma mov movh ckadd cksub hash rss regrd regwr regadd meter \
    count regprefetch metprefetch dma_write dma_write_at dma_read_at digest table learn \
    rearm forget entryid return add and or shl shr sub xor jmp jmph jmpnh jmpv jmpnv jmpa \
    jmpna jmpeq jmpgt jmplt jmpneq";

/// Bytes that a list has, whatever the packet.
fn fixed_bytes(program: &Program, list: &[Listed]) -> usize {
    let variable = |of: &Listed| match of {
        Listed::Header(header) => {
            let last = program.header_type(*header).fields.last();
            last.filter(|last| last.is_variable).map_or(0, |last| last.bits as usize / 8)
        }
        _ => 0,
    };
    let values = |of: &Listed| match of {
        Listed::Payload(Operand::Value(len)) => usize::try_from(*len).unwrap_or(usize::MAX),
        _ => 0,
    };
    let most = program.listed_bytes(list) - list.iter().map(variable).sum::<usize>();
    list.iter().map(values).fold(most, usize::saturating_add)
}

const ALU: [(&str, Alu); 7] = [
    ("add", Alu::Add),
    ("and", Alu::And),
    ("or", Alu::Or),
    ("shl", Alu::Shl),
    ("shr", Alu::Shr),
    ("sub", Alu::Sub),
    ("xor", Alu::Xor),
];

const COMPARE: [(&str, Order); 4] = [
    ("jmpeq", Order::Equal),
    ("jmpgt", Order::Greater),
    ("jmplt", Order::Less),
    ("jmpneq", Order::Different),
];
