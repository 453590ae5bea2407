//! From blocks to a program: every name is looked up, every width compared.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use super::blocks::{ActionBlock, Blocks, StructBlock, TableBlock, TableKind};
use super::error::{At, Wrong};
use super::words::{Line, Word};
use super::{code, defaults, nearest};
use niclab_nic::dma::Shape;

use crate::cost::Site;
use crate::form::{
    Action, Actions, Counters, Digests, Field, FieldRef, Header, Instruction, Kind, Match, Meters,
    Owner, Program, Registers, Rings, Scope, Struct, Table, Window,
};
use crate::limits::{
    ACTIONS_MAX, ARRAY_LEN_MAX, ARRAYS_MAX, EMITS_MAX, ENTRIES_MAX, ENTRY_LEN_MAX, FIELDS_MAX,
    GROUPS_MAX, HEADERS_LEN_MAX, HEADERS_MAX, KEY_LEN_MAX, MEMBERS_MAX, PACKET_WORK_MAX,
    RING_ENTRIES_MAX, RINGS_MAX, ROOM_MAX, STRUCT_LEN_MAX, STRUCTS_MAX, TABLES_MAX, TIMEOUTS_MAX,
    WINDOW_LEN_MAX,
};

/// Numbers of what has a name of its own kind.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    structs: HashMap<&'a str, usize>,
    headers: HashMap<&'a str, usize>,
    actions: HashMap<&'a str, usize>,
    tables: HashMap<&'a str, usize>,
    registers: HashMap<&'a str, usize>,
    meters: HashMap<&'a str, usize>,
    rss: HashMap<&'a str, usize>,
    counters: HashMap<&'a str, usize>,
    windows: HashMap<&'a str, usize>,
    rings: HashMap<&'a str, usize>,
    digests: HashMap<&'a str, usize>,
    /// Number of a field by its type and name.
    fields: HashMap<(usize, &'a str), usize>,
}

/// What is known while a program is made.
pub(super) struct Scene<'a, 'p> {
    pub names: &'p Names<'a>,
    pub program: &'p Program,
    /// The type of the arguments of the action that is read.
    pub arguments: Option<usize>,
    /// Fields that instructions take without naming each, so far.
    pub implied: &'p Cell<usize>,
}

fn number<'a>(names: &HashMap<&'a str, usize>, word: Word<'a>, what: &str) -> Result<usize, Wrong> {
    let there = || names.keys().copied();
    let wrong = || word.expected(nearest::expected(what, word.text, "", there()));
    names.get(word.text).copied().ok_or_else(wrong)
}

/// Gives a name its number.
fn enter<'a>(names: &mut HashMap<&'a str, usize>, word: Word<'a>) -> Result<String, Wrong> {
    let (name, number) = (word.name()?, names.len());
    match names.insert(name, number) {
        None => Ok(name.to_owned()),
        Some(_) => Err(word.unfit(format!("there is another `{name}`; choose another name"))),
    }
}

/// That there are not more of something than a limit.
fn count(word: Word<'_>, there: usize, max: usize, what: &str) -> Result<(), Wrong> {
    match there < max {
        true => Ok(()),
        false => Err(word.unfit(format!("this is one more than {max} {what}, which is the limit"))),
    }
}

/// Makes a program of blocks.
pub(super) fn resolve(blocks: &Blocks<'_>) -> Result<Program, Wrong> {
    let (mut names, implied) = (Names::default(), Cell::new(0));
    let mut program = Program {
        structs: Vec::new(),
        headers: Vec::new(),
        metadata: 0,
        actions: Vec::new(),
        tables: Vec::new(),
        registers: Vec::new(),
        meters: Vec::new(),
        rss: Vec::new(),
        counters: Vec::new(),
        windows: Vec::new(),
        rings: Vec::new(),
        digests: Vec::new(),
        apply: crate::form::Code::default(),
    };
    for block in &blocks.structs {
        count(block.name, program.structs.len(), STRUCTS_MAX, "types")?;
        program.structs.push(structure(block, &mut names)?);
    }
    headers(blocks, &mut names, &mut program)?;
    metadata(blocks, &names, &mut program)?;
    arrays(blocks, &mut names, &mut program)?;
    memory(blocks, &mut names, &mut program)?;
    for ActionBlock { name, arguments, .. } in &blocks.actions {
        count(*name, program.actions.len(), ACTIONS_MAX, "actions")?;
        let of = arguments.map(|of| number(&names.structs, of, "a type of a `struct`"));
        let (name, of) = (enter(&mut names.actions, *name)?, of.transpose()?);
        fixed(&program, of, arguments.map(|of| of.at).unwrap_or_default(), "arguments")?;
        let code = crate::form::Code::default();
        program.actions.push(Action { name, arguments: of, code });
    }
    for block in &blocks.tables {
        count(block.name, program.tables.len(), TABLES_MAX, "tables")?;
        enter(&mut names.tables, block.name)?;
        let scene = Scene { names: &names, program: &program, arguments: None, implied: &implied };
        let table = scene.table(block)?;
        program.tables.push(table);
    }
    for (number, block) in blocks.actions.iter().enumerate() {
        let arguments = program.actions[number].arguments;
        let scene = Scene { names: &names, program: &program, arguments, implied: &implied };
        let code = code::read(&scene, block.name, &block.body, code::CodePart::Action)?;
        program.actions[number].code = code;
    }
    learning(&program, blocks)?;
    room(blocks, &program)?;
    let Some((word, body)) = &blocks.apply else {
        return Err(Wrong::unfit(
            At { line: 1, column: 1, width: 1 },
            "there is no `apply { … }`, which says what happens to a packet",
        ));
    };
    let scene = Scene { names: &names, program: &program, arguments: None, implied: &implied };
    program.apply = code::read(&scene, *word, body, code::CodePart::Apply)?;
    let (emits, work) = (program.cost().emitted_headers, program.worst_work(Site::LARGE));
    let reason = match (emits > EMITS_MAX as u64, work > PACKET_WORK_MAX) {
        (false, false) => return Ok(program),
        (true, _) => format!("a packet emits {EMITS_MAX} headers at most, and here {emits}"),
        (false, true) => format!(
            "the work of a packet is that of {PACKET_WORK_MAX} instructions at most, with all \
             times that it comes round and all bytes that they go through, and here {work}"
        ),
    };
    Err(word.unfit(reason))
}

/// An action that one learns; none where it changes the entry that ran it.
type Learns = Option<usize>;

/// What an action learns, each once.
fn learns(code: &crate::form::Code) -> Vec<Learns> {
    let learns = |step: &Instruction| match step {
        Instruction::Learn { action, .. } => Some(Some(*action)),
        Instruction::Rearm(_) | Instruction::Forget => Some(None),
        _ => None,
    };
    let mut seen = HashSet::new();
    code.steps.iter().filter_map(learns).filter(|learns| seen.insert(*learns)).collect()
}

/// That actions which learn are of learners, and learn what is theirs.
fn learning(program: &Program, blocks: &Blocks<'_>) -> Result<(), Wrong> {
    let learnt: Vec<Vec<Learns>> =
        program.actions.iter().map(|action| learns(&action.code)).collect();
    let mut tables = program.tables.iter().zip(&blocks.tables);
    tables.try_for_each(|(table, block)| learning_of(program, &learnt, table, block))
}

/// The same of one table.
fn learning_of(
    program: &Program,
    learnt: &[Vec<Learns>],
    table: &Table,
    block: &TableBlock<'_>,
) -> Result<(), Wrong> {
    let of = || table.kind.actions().into_iter().flat_map(|actions| &actions.of);
    let mut may = vec![false; program.actions.len()];
    of().for_each(|(action, scope)| may[*action] = *scope != Scope::Default);
    for (action, _) in of() {
        let name = &program.actions[*action].name;
        let first = block.actions.iter().map(Line::first).find(|word| word.text == name);
        let word = first.unwrap_or(block.name);
        for learnt in &learnt[*action] {
            if !matches!(table.kind, Kind::Learner { .. }) {
                let reason =
                    format!("`{}` learns, which is for the actions of a learner", word.text);
                return Err(word.unfit(reason));
            }
            if let Some(learnt) = *learnt
                && !may[learnt]
            {
                let reason = format!(
                    "`{}` learns `{}`, which has to be an action of this learner's entries",
                    word.text, program.actions[learnt].name
                );
                return Err(word.unfit(reason));
            }
        }
    }
    Ok(())
}

/// That what is set aside for arrays and learners is within a limit.
fn room(blocks: &Blocks<'_>, program: &Program) -> Result<(), Wrong> {
    let all = program.room().of(1);
    if all <= ROOM_MAX {
        return Ok(());
    }
    let first = blocks.registers.first().map(|(name, ..)| *name);
    let first = first.or(blocks.meters.first().or(blocks.counters.first()).map(|(name, _)| *name));
    let first = first.or(blocks.digests.first().map(|[name, ..]| *name));
    let of_learner = blocks.tables.iter().find(|block| block.kind == TableKind::Learner);
    let word = first.or(of_learner.map(|block| block.name));
    let at = word.map(|word| word.at).unwrap_or_default();
    let reason = format!(
        "arrays, learners and digests of a program need {} MiB at most, and these {}: \
         make them smaller",
        ROOM_MAX >> 20,
        all >> 20
    );
    Err(Wrong::unfit(at, reason))
}

fn structure<'a>(block: &StructBlock<'a>, names: &mut Names<'a>) -> Result<Struct, Wrong> {
    let of = names.structs.len();
    let name = enter(&mut names.structs, block.name)?;
    let (mut fields, mut offset) = (Vec::new(), 0);
    for (at, &(kind, name)) in block.fields.iter().enumerate() {
        count(name, at, FIELDS_MAX, "fields of a type")?;
        let (bits, is_variable) = width(kind)?;
        if is_variable && at + 1 < block.fields.len() {
            return Err(kind.unfit("only the last field can have a variable length"));
        }
        if names.fields.insert((of, name.name()?), at).is_some() {
            let reason = format!("there is another field `{}` here", name.text);
            return Err(name.unfit(reason));
        }
        fields.push(Field { name: name.text.to_owned(), bits, offset, is_variable });
        offset += bits as usize / 8;
        if offset > STRUCT_LEN_MAX {
            return Err(kind.unfit(format!("a type has {STRUCT_LEN_MAX} bytes at most")));
        }
    }
    Ok(Struct { name, fields, len: offset })
}

/// The bits of a field's type, and whether that is its most.
fn width(word: Word<'_>) -> Result<(u32, bool), Wrong> {
    let inner = |kind: &str| word.text.strip_prefix(kind)?.strip_suffix('>');
    let (bits, is_variable) = match (inner("bit<"), inner("varbit<")) {
        (Some(bits), _) => (bits, false),
        (_, Some(bits)) => (bits, true),
        _ => return Err(word.expected("`bit<N>` or `varbit<N>`")),
    };
    let wrong =
        || word.expected("a number of bits that is a multiple of 8, of 4,096 bytes at most");
    let bits = Word { text: bits, at: word.at }.number().map_err(|_| wrong())?;
    match bits % 8 == 0 && (8..=8 * STRUCT_LEN_MAX as u64).contains(&bits) {
        true => Ok((bits as u32, is_variable)),
        false => Err(wrong()),
    }
}

fn headers<'a>(
    blocks: &Blocks<'a>,
    names: &mut Names<'a>,
    program: &mut Program,
) -> Result<(), Wrong> {
    let mut len = 0;
    for &(name, of) in &blocks.headers {
        count(name, program.headers.len(), HEADERS_MAX, "headers")?;
        let of_number = number(&names.structs, of, "a type of a `struct`")?;
        if program.structs[of_number].fields.is_empty() {
            return Err(of.unfit("a header has a field at least"));
        }
        len += program.structs[of_number].len;
        if len > HEADERS_LEN_MAX {
            return Err(name.unfit(format!("all headers have {HEADERS_LEN_MAX} bytes at most")));
        }
        let name = enter(&mut names.headers, name)?;
        program.headers.push(Header { name, of: of_number });
    }
    Ok(())
}

fn metadata(blocks: &Blocks<'_>, names: &Names<'_>, program: &mut Program) -> Result<(), Wrong> {
    let Some(of) = blocks.metadata else {
        return Err(Wrong::unfit(
            At { line: 1, column: 1, width: 1 },
            "there is no `metadata instanceof TYPE`",
        ));
    };
    program.metadata = number(&names.structs, of, "a type of a `struct`")?;
    fixed(program, Some(program.metadata), of.at, "metadata")
}

/// That a type that is no header's has no variable field.
fn fixed(program: &Program, of: Option<usize>, at: At, what: &str) -> Result<(), Wrong> {
    let last = of.and_then(|of| program.structs[of].fields.last());
    match last.is_some_and(|last| last.is_variable) {
        true => Err(Wrong::unfit(at, format!("{what} cannot have a field of variable length"))),
        false => Ok(()),
    }
}

fn arrays<'a>(
    blocks: &Blocks<'a>,
    names: &mut Names<'a>,
    program: &mut Program,
) -> Result<(), Wrong> {
    let len = |word: Word<'_>| -> Result<usize, Wrong> {
        Ok((word.number_in("a size", 1, ARRAY_LEN_MAX)? as usize).next_power_of_two())
    };
    for &(name, size, initial) in &blocks.registers {
        count(name, program.registers.len(), ARRAYS_MAX, "register arrays")?;
        let name = enter(&mut names.registers, name)?;
        let (len, initial) = (len(size)?, initial.number()?);
        program.registers.push(Registers { name, len, initial });
    }
    for &(name, size) in &blocks.meters {
        count(name, program.meters.len(), ARRAYS_MAX, "meter arrays")?;
        let name = enter(&mut names.meters, name)?;
        program.meters.push(Meters { name, len: len(size)? });
    }
    for &(name, size) in &blocks.counters {
        count(name, program.counters.len(), ARRAYS_MAX, "counter arrays")?;
        let name = enter(&mut names.counters, name)?;
        program.counters.push(Counters { name, len: len(size)? });
    }
    for &name in &blocks.rss {
        count(name, program.rss.len(), ARRAYS_MAX, "rss hashes")?;
        program.rss.push(enter(&mut names.rss, name)?);
    }
    Ok(())
}

/// What the program has of its application, and tells the control side.
fn memory<'a>(
    blocks: &Blocks<'a>,
    names: &mut Names<'a>,
    program: &mut Program,
) -> Result<(), Wrong> {
    for &(name, size) in &blocks.windows {
        count(name, program.windows.len(), ARRAYS_MAX, "windows")?;
        let name = enter(&mut names.windows, name)?;
        let len = size.number_in("bytes", 1, WINDOW_LEN_MAX)? as usize;
        program.windows.push(Window { name, len });
    }
    let entries = |word: Word<'_>| -> Result<u32, Wrong> {
        Ok((word.number_in("a size", 1, RING_ENTRIES_MAX)? as u32).next_power_of_two())
    };
    for &[name, rings, size, entry] in &blocks.rings {
        count(name, program.rings.len(), ARRAYS_MAX, "rings")?;
        let name = enter(&mut names.rings, name)?;
        let rings = rings.number_in("how many", 1, RINGS_MAX)? as usize;
        let entry_len = entry.number_in("bytes of an entry", 1, ENTRY_LEN_MAX)? as usize;
        let shape = Shape { entries: entries(size)?, entry_len };
        program.rings.push(Rings { name, count: rings, shape });
    }
    for &[name, size, of] in &blocks.digests {
        count(name, program.digests.len(), ARRAYS_MAX, "digests")?;
        let number = number(&names.structs, of, "a type of a `struct`")?;
        fixed(program, Some(number), of.at, "a digest")?;
        if program.structs[number].fields.is_empty() {
            return Err(of.unfit("a digest has a field at least"));
        }
        let (name, len) = (enter(&mut names.digests, name)?, entries(size)? as usize);
        program.digests.push(Digests { name, len, of: number });
    }
    Ok(())
}

impl<'a> Scene<'a, '_> {
    pub(super) fn header(&self, word: Word<'a>) -> Result<usize, Wrong> {
        let what = "a header, as `h.NAME`";
        let name = word.text.strip_prefix("h.").ok_or_else(|| word.expected(what))?;
        let there = || self.names.headers.keys().copied();
        let wrong = || word.expected(nearest::expected(what, name, "h.", there()));
        self.names.headers.get(name).copied().ok_or_else(wrong)
    }

    pub(super) fn action(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.actions, word, "the name of an action")
    }

    pub(super) fn table_named(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.tables, word, "the name of a table, a learner or a selector")
    }

    pub(super) fn registers(&self, word: Word<'a>) -> Result<usize, Wrong> {
        self.array(&self.names.registers, word, "regarray")
    }

    pub(super) fn meters(&self, word: Word<'a>) -> Result<usize, Wrong> {
        self.array(&self.names.meters, word, "metarray")
    }

    pub(super) fn counters(&self, word: Word<'a>) -> Result<usize, Wrong> {
        self.array(&self.names.counters, word, "countarray")
    }

    /// An array of a kind; of one of another kind it says which.
    fn array(
        &self,
        names: &HashMap<&'a str, usize>,
        word: Word<'a>,
        kind: &str,
    ) -> Result<usize, Wrong> {
        let kinds = [
            (&self.names.registers, "regarray"),
            (&self.names.meters, "metarray"),
            (&self.names.counters, "countarray"),
        ];
        let is_there = |(of, _): &&(&HashMap<&'a str, usize>, &str)| of.contains_key(word.text);
        match (names.contains_key(word.text), kinds.iter().find(is_there)) {
            (false, Some((_, other))) => {
                Err(word.expected(format!("the name of a `{kind}`, not of a `{other}`")))
            }
            _ => number(names, word, &format!("the name of a `{kind}`")),
        }
    }

    pub(super) fn window(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.windows, word, "the name of a `window`")
    }

    pub(super) fn rings(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.rings, word, "the name of a `ring`")
    }

    pub(super) fn digest(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.digests, word, "the name of a `digest`")
    }

    pub(super) fn rss(&self, word: Word<'a>) -> Result<usize, Wrong> {
        number(&self.names.rss, word, "the name of an `rss`")
    }

    /// The field that a word names; `None` where it has not the form of one.
    pub(super) fn field(&self, word: Word<'a>) -> Result<Option<FieldRef>, Wrong> {
        match self.any_field(word)? {
            Some((_, true)) => {
                Err(word.unfit("a field of variable length can be extracted, hashed and sent only"))
            }
            found => Ok(found.map(|(place, _)| place)),
        }
    }

    /// The same with whether its length is variable: its bits are the most, then.
    pub(super) fn any_field(&self, word: Word<'a>) -> Result<Option<(FieldRef, bool)>, Wrong> {
        let (of, owner, name) = match word.text.split_at_checked(2) {
            Some(("m.", name)) => (self.program.metadata, Owner::Metadata, name),
            Some(("t.", name)) => match self.arguments {
                Some(of) => (of, Owner::Arguments, name),
                None => return Err(word.unfit("there are no arguments here")),
            },
            Some(("h.", rest)) => {
                let what = "a field of a header, as `h.HEADER.FIELD`";
                let (of, name) = rest.split_once('.').ok_or_else(|| word.expected(what))?;
                let there = || self.names.headers.keys().copied();
                let wrong =
                    || word.expected(nearest::expected("a field of a header", of, "h.", there()));
                let header = *self.names.headers.get(of).ok_or_else(wrong)?;
                (self.program.headers[header].of, Owner::Header(header), name)
            }
            Some(("e." | "f.", _)) => {
                return Err(Wrong::not_supported(
                    word.at,
                    "fields of extern objects and functions",
                ));
            }
            _ => return Ok(None),
        };
        let of_type = &self.program.structs[of];
        let Some(&field) = self.names.fields.get(&(of, name)) else {
            let what = format!("a field of `{}`", of_type.name);
            let prefix = &word.text[..word.text.len() - name.len()];
            let there = of_type.fields.iter().map(|field| field.name.as_str());
            return Err(word.expected(nearest::expected(&what, name, prefix, there)));
        };
        let Field { bits, offset, is_variable, .. } = of_type.fields[field];
        Ok(Some((FieldRef { owner, field, bits, offset }, is_variable)))
    }

    /// A field, of one of these owners.
    pub(super) fn place(&self, word: Word<'a>, owners: Owners) -> Result<FieldRef, Wrong> {
        let wrong = || word.expected(format!("{owners}"));
        let place = self.field(word)?.ok_or_else(wrong)?;
        match owners.has(place.owner) {
            true => Ok(place),
            false => Err(wrong()),
        }
    }

    /// A field of at most 64 bits.
    pub(super) fn small(&self, word: Word<'a>, owners: Owners) -> Result<FieldRef, Wrong> {
        match self.place(word, owners)? {
            place if place.is_number() => Ok(place),
            place => {
                Err(word.unfit(format!("a field of at most 64 bits; this has {}", place.bits)))
            }
        }
    }

    fn table(&self, block: &TableBlock<'a>) -> Result<Table, Wrong> {
        let name = block.name.text.to_owned();
        let limit = |word: Option<Word<'a>>, what: &str, max| match word {
            Some(word) => Ok(word.number_in(what, 1, max)? as usize),
            None => Err(block.name.unfit(format!("`{name}` does not say its {what}"))),
        };
        if block.kind == TableKind::Selector {
            let said = |word: Option<Word<'a>>, what| {
                word.ok_or_else(|| block.name.unfit(format!("`{name}` does not say its `{what}`")))
            };
            let kind = Kind::Selector {
                group: self.small(said(block.group, "group_id")?, Owners::METADATA)?,
                key: self.plain_key(block)?,
                member: self.small(said(block.member, "member_id")?, Owners::METADATA)?,
                groups_max: limit(block.groups_max, "n_groups_max", GROUPS_MAX)?,
                members_max: limit(block.members_max, "n_members_per_group_max", MEMBERS_MAX)?,
            };
            return Ok(Table { name, kind, size: 0 });
        }
        if block.kind == TableKind::Learner {
            let (key, actions) = (self.plain_key(block)?, self.actions(block)?);
            let kind = Kind::Learner { key, actions, timeouts: timeouts(block)? };
            let size = limit(block.size, "size", ENTRIES_MAX)?;
            return Ok(Table { name, kind, size });
        }
        let (key, actions) = (self.match_key(block)?, self.actions(block)?);
        // A table that only has a default has no entries to make room for.
        let size = match (key.is_empty(), block.size) {
            (true, _) => 0,
            (false, Some(size)) => size.number_in("a size", 0, ENTRIES_MAX)? as usize,
            (false, None) => DEFAULT_SIZE,
        };
        Ok(Table { name, kind: Kind::Match { key, actions }, size })
    }

    fn plain_key(&self, block: &TableBlock<'a>) -> Result<Vec<FieldRef>, Wrong> {
        let mut key = Vec::new();
        for line in &block.key {
            line.ends_at(1)?;
            self.key_field(&mut key, line.first())?;
        }
        match key.is_empty() {
            true => Err(block.name.unfit(format!("`{}` has no key", block.name.text))),
            false => Ok(key),
        }
    }

    fn match_key(&self, block: &TableBlock<'a>) -> Result<Vec<(FieldRef, Match)>, Wrong> {
        let (mut key, mut matches) = (Vec::new(), Vec::new());
        for line in &block.key {
            line.ends_at(2)?;
            let word = line.at(1);
            let named = Match::ALL.iter().find(|(name, _)| *name == word.text);
            let how = named.ok_or_else(|| word.expected("`exact`, `lpm` or `wildcard`"))?.1;
            let other = match how {
                Match::Prefix => matches.iter().any(|other| *other != Match::Exact),
                Match::Wildcard => matches.contains(&Match::Prefix),
                Match::Exact => false,
            };
            if other {
                return Err(word.unfit("beside an `lpm` field, all others are `exact`"));
            }
            self.key_field(&mut key, line.first())?;
            matches.push(how);
        }
        Ok(key.into_iter().zip(matches).collect())
    }

    fn key_field(&self, key: &mut Vec<FieldRef>, word: Word<'a>) -> Result<(), Wrong> {
        let place = self.place(word, Owners::PACKET)?;
        if key.contains(&place) {
            return Err(word.unfit(format!("`{}` is in this key already", word.text)));
        }
        key.push(place);
        let len: usize = key.iter().map(FieldRef::len_bytes).sum();
        match len <= KEY_LEN_MAX {
            true => Ok(()),
            false => Err(word.unfit(format!("a key has {KEY_LEN_MAX} bytes at most"))),
        }
    }

    fn actions(&self, block: &TableBlock<'a>) -> Result<Actions, Wrong> {
        let mut of: Vec<(usize, Scope)> = Vec::new();
        for line in &block.actions {
            line.ends_at(2)?;
            let scope = match line.at(1).text {
                "" => Scope::All,
                "@tableonly" => Scope::Entries,
                "@defaultonly" => Scope::Default,
                _ => return Err(line.at(1).expected("`@tableonly` or `@defaultonly`")),
            };
            let action = self.action(line.first())?;
            // Of one that is listed twice the first counts, as for `table_entry_check` of DPDK's
            // `rte_swx_ctl.c`.
            if of.iter().all(|(other, _)| *other != action) {
                of.push((action, scope));
            }
        }
        let Some(line) = &block.default else {
            let reason = format!("`{}` does not say its `default_action`", block.name.text);
            return Err(block.name.unfit(reason));
        };
        let (default, is_default_const) = defaults::read(self, line)?;
        let may =
            of.iter().any(|(action, scope)| *action == default.action && *scope != Scope::Entries);
        match may {
            true => Ok(Actions { of, default, is_default_const }),
            false => Err(line.first().expected("an action of this table that may be the default")),
        }
    }
}

/// Entries of a table that does not say its size, which DPDK allows.
const DEFAULT_SIZE: usize = 65_536;

fn timeouts(block: &TableBlock<'_>) -> Result<Vec<u32>, Wrong> {
    let seconds = |line: &Line<'_>| -> Result<u32, Wrong> {
        line.ends_at(1)?;
        Ok(line.first().number_in("seconds", 1, u64::from(u32::MAX))? as u32)
    };
    let timeouts = block.timeouts.iter().map(seconds).collect::<Result<Vec<u32>, Wrong>>()?;
    match (1..=TIMEOUTS_MAX).contains(&timeouts.len()) {
        true => Ok(timeouts),
        false => {
            let reason =
                format!("a learner has 1 to {TIMEOUTS_MAX} timeouts; this has {}", timeouts.len());
            Err(block.name.unfit(reason))
        }
    }
}

/// Whose fields may stand somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owners {
    headers: bool,
    metadata: bool,
    arguments: bool,
}

impl Owners {
    pub(super) const METADATA: Owners = Owners { headers: false, metadata: true, arguments: false };
    pub(super) const HEADERS: Owners = Owners { headers: true, metadata: false, arguments: false };
    pub(super) const ARGUMENTS: Owners =
        Owners { headers: false, metadata: false, arguments: true };
    /// What can be written.
    pub(super) const PACKET: Owners = Owners { headers: true, metadata: true, arguments: false };
    /// All that has numbers in the order of the host.
    pub(super) const HOST: Owners = Owners { headers: false, metadata: true, arguments: true };
    pub(super) const ALL: Owners = Owners { headers: true, metadata: true, arguments: true };

    fn has(self, owner: Owner) -> bool {
        match owner {
            Owner::Header(_) => self.headers,
            Owner::Metadata => self.metadata,
            Owner::Arguments => self.arguments,
        }
    }
}

impl std::fmt::Display for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (self.headers, "`h.HEADER.FIELD`"),
            (self.metadata, "`m.FIELD`"),
            (self.arguments, "`t.FIELD`"),
        ];
        let names: Vec<&str> =
            names.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        write!(f, "a field, as {}", names.join(" or "))
    }
}
