//! A program as text: what is read of it again is the same program.

use std::fmt::{self, Display, Formatter};

use crate::form::{
    Actions, Alu, Code, Condition, Digests, FieldRef, Instruction, Kind, Listed, Operand, Order,
    Owner, Program, Rings, Scope, Struct, Summand, Table,
};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for of in &self.structs {
            structure(of, f)?;
        }
        for header in &self.headers {
            writeln!(f, "header {} instanceof {}", header.name, self.structs[header.of].name)?;
        }
        writeln!(f, "\nmetadata instanceof {}\n", self.metadata_type().name)?;
        for array in &self.registers {
            let (name, len) = (&array.name, array.len);
            writeln!(f, "regarray {name} size {len} initval {}", array.initial)?;
        }
        for array in &self.meters {
            writeln!(f, "metarray {} size {}", array.name, array.len)?;
        }
        for name in &self.rss {
            writeln!(f, "rss {name}")?;
        }
        for array in &self.counters {
            writeln!(f, "countarray {} size {}", array.name, array.len)?;
        }
        self.memory(f)?;
        for (number, action) in self.actions.iter().enumerate() {
            match action.arguments {
                None => writeln!(f, "\naction {} args none {{", action.name)?,
                Some(of) => {
                    let of = &self.structs[of].name;
                    writeln!(f, "\naction {} args instanceof {of} {{", action.name)?;
                }
            }
            let named = Named { program: self, arguments: self.actions[number].arguments };
            named.code(&action.code, f)?;
            writeln!(f, "}}")?;
        }
        for table in &self.tables {
            self.table(table, f)?;
        }
        writeln!(f, "\napply {{")?;
        Named { program: self, arguments: None }.code(&self.apply, f)?;
        writeln!(f, "}}")
    }
}

fn structure(of: &Struct, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "struct {} {{", of.name)?;
    for field in &of.fields {
        let kind = if field.is_variable { "varbit" } else { "bit" };
        writeln!(f, "\t{kind}<{}> {}", field.bits, field.name)?;
    }
    writeln!(f, "}}\n")
}

impl Program {
    fn memory(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for window in &self.windows {
            writeln!(f, "window {} size {}", window.name, window.len)?;
        }
        for Rings { name, count, shape } in &self.rings {
            let (entries, len) = (shape.entries, shape.entry_len);
            writeln!(f, "ring {name} count {count} size {entries} entry {len}")?;
        }
        for Digests { name, len, of } in &self.digests {
            writeln!(f, "digest {name} size {len} instanceof {}", self.structs[*of].name)?;
        }
        Ok(())
    }

    fn table(&self, table: &Table, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |place: &FieldRef| Named { program: self, arguments: None }.place(place);
        match &table.kind {
            Kind::Match { key, actions } => {
                writeln!(f, "\ntable {} {{", table.name)?;
                if !key.is_empty() {
                    writeln!(f, "\tkey {{")?;
                    for (place, how) in key {
                        writeln!(f, "\t\t{} {how}", name(place))?;
                    }
                    writeln!(f, "\t}}")?;
                }
                self.actions_of(actions, f)?;
                if !key.is_empty() {
                    writeln!(f, "\tsize {}", table.size)?;
                }
            }
            Kind::Learner { key, actions, timeouts } => {
                writeln!(f, "\nlearner {} {{", table.name)?;
                list("key", &key.iter().map(name).collect::<Vec<_>>(), f)?;
                self.actions_of(actions, f)?;
                writeln!(f, "\tsize {}", table.size)?;
                list("timeout", timeouts, f)?;
            }
            Kind::Selector { group, key, member, groups_max, members_max } => {
                writeln!(f, "\nselector {} {{", table.name)?;
                writeln!(f, "\tgroup_id {}", name(group))?;
                list("selector", &key.iter().map(name).collect::<Vec<_>>(), f)?;
                writeln!(f, "\tmember_id {}", name(member))?;
                writeln!(f, "\tn_groups_max {groups_max}")?;
                writeln!(f, "\tn_members_per_group_max {members_max}")?;
            }
        }
        writeln!(f, "}}")
    }

    fn actions_of(&self, actions: &Actions, f: &mut Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = actions
            .of
            .iter()
            .map(|(action, scope)| {
                let scope = match scope {
                    Scope::All => "",
                    Scope::Entries => " @tableonly",
                    Scope::Default => " @defaultonly",
                };
                format!("{}{scope}", self.actions[*action].name)
            })
            .collect();
        list("actions", &lines, f)?;
        write!(f, "\tdefault_action {} args", self.actions[actions.default.action].name)?;
        let fields = self.arguments(actions.default.action);
        if fields.is_empty() {
            write!(f, " none")?;
        }
        for (field, bytes) in fields.iter().zip(&actions.default.arguments) {
            write!(f, " {} 0x", field.name)?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        writeln!(f, "{}", if actions.is_default_const { " const" } else { "" })
    }
}

fn list(name: &str, lines: &[impl Display], f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "\t{name} {{")?;
    lines.iter().try_for_each(|line| writeln!(f, "\t\t{line}"))?;
    writeln!(f, "\t}}")
}

/// Names for what instructions have as numbers.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    pub program: &'a Program,
    /// The type of the arguments of the action that they stand in.
    pub arguments: Option<usize>,
}

impl Named<'_> {
    fn code(self, code: &Code, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, step) in code.steps.iter().enumerate() {
            for (label, _) in code.labels.iter().filter(|(_, of)| *of == number) {
                write!(f, "{label} :")?;
            }
            writeln!(f, "\t{}", self.step(step, code))?;
        }
        Ok(())
    }

    pub(crate) fn place(self, place: &FieldRef) -> String {
        let (of, prefix) = match place.owner {
            Owner::Header(header) => {
                let of = &self.program.headers[header];
                (of.of, format!("h.{}", of.name))
            }
            Owner::Metadata => (self.program.metadata, "m".to_owned()),
            // An instruction that has some stands where they are.
            Owner::Arguments => (self.arguments.unwrap_or_default(), "t".to_owned()),
        };
        format!("{prefix}.{}", self.program.structs[of].fields[place.field].name)
    }

    fn operand(self, operand: &Operand) -> String {
        match operand {
            Operand::Field(place) => self.place(place),
            Operand::Value(value) => format!("{value:#x}"),
        }
    }

    fn header(self, header: usize) -> String {
        format!("h.{}", self.program.headers[header].name)
    }

    /// An instruction; the label of a jump is looked up in its code.
    fn step(self, step: &Instruction, code: &Code) -> String {
        let (place, operand) =
            (|place: &FieldRef| self.place(place), |of: &Operand| self.operand(of));
        match step {
            Instruction::Rx(to) => format!("rx {}", place(to)),
            Instruction::Tx(port) => format!("tx {}", operand(port)),
            Instruction::Steer(queue) => format!("steer {}", operand(queue)),
            Instruction::Drop => "drop".to_owned(),
            Instruction::Reply
            | Instruction::Multicast(_)
            | Instruction::Length(_)
            | Instruction::Count { .. }
            | Instruction::DmaWrite { .. }
            | Instruction::DmaWriteAt { .. }
            | Instruction::DmaReadAt { .. }
            | Instruction::Digest(..) => self.own(step),
            Instruction::Mirror { slot, session } => {
                format!("mirror {} {}", place(slot), place(session))
            }
            Instruction::Recirculate => "recirculate".to_owned(),
            Instruction::RecircId(to) => format!("recircid {}", place(to)),
            Instruction::Extract(header, None) => format!("extract {}", self.header(*header)),
            Instruction::Extract(header, Some(len)) => {
                format!("extract {} {}", self.header(*header), place(len))
            }
            Instruction::Lookahead(header) => format!("lookahead {}", self.header(*header)),
            Instruction::Emit(header) => format!("emit {}", self.header(*header)),
            Instruction::Validate(header) => format!("validate {}", self.header(*header)),
            Instruction::Invalidate(header) => format!("invalidate {}", self.header(*header)),
            Instruction::Move(to, from) => format!("mov {} {}", place(to), operand(from)),
            Instruction::MoveHigh(to, from) => format!("movh {} {}", place(to), place(from)),
            Instruction::Fill(header, from) => {
                format!("dma {} {}", self.header(*header), place(from))
            }
            Instruction::Alu(alu, to, from) => {
                format!("{} {} {}", alu.name(), place(to), operand(from))
            }
            Instruction::ChecksumAdd(to, Summand::Field(from)) => {
                format!("ckadd {} {}", place(to), place(from))
            }
            Instruction::ChecksumAdd(to, Summand::Header(header)) => {
                format!("ckadd {} {}", place(to), self.header(*header))
            }
            Instruction::ChecksumSub(to, from) => format!("cksub {} {}", place(to), place(from)),
            Instruction::RegisterRead { .. }
            | Instruction::RegisterWrite { .. }
            | Instruction::RegisterAdd { .. }
            | Instruction::Meter { .. } => self.array(step),
            Instruction::Table(table) => format!("table {}", self.program.tables[*table].name),
            Instruction::Learn { action, arguments, timeout } => {
                let first = arguments.map_or(String::new(), |first| format!(" {}", place(&first)));
                format!("learn {}{first} {}", self.program.actions[*action].name, place(timeout))
            }
            Instruction::Rearm(None) => "rearm".to_owned(),
            Instruction::Rearm(Some(timeout)) => format!("rearm {}", place(timeout)),
            Instruction::Forget => "forget".to_owned(),
            Instruction::EntryId(to) => format!("entryid {}", place(to)),
            Instruction::Hash(hash, to, range) => {
                format!("hash {hash} {} {} {}", place(to), place(&range.first), place(&range.last))
            }
            Instruction::Rss(key, to, range) => {
                let (key, to) = (&self.program.rss[*key], place(to));
                format!("rss {key} {to} {} {}", place(&range.first), place(&range.last))
            }
            Instruction::Jump(condition, to) => self.jump(condition, code.label(*to)),
            Instruction::Return => "return".to_owned(),
        }
    }

    /// An instruction that has to do with registers or meters.
    fn array(self, step: &Instruction) -> String {
        let (place, operand) =
            (|place: &FieldRef| self.place(place), |of: &Operand| self.operand(of));
        let register = |array: &usize| &self.program.registers[*array].name;
        match step {
            Instruction::RegisterRead { to, array, index } => {
                format!("regrd {} {} {}", place(to), register(array), operand(index))
            }
            Instruction::RegisterWrite { array, index, value } => {
                format!("regwr {} {} {}", register(array), operand(index), operand(value))
            }
            Instruction::RegisterAdd { before, array, index, value } => {
                let before = before.map_or(String::new(), |before| format!("{} ", place(&before)));
                let (index, value) = (operand(index), operand(value));
                format!("regadd {before}{} {index} {value}", register(array))
            }
            Instruction::Meter { array, index, length, colour, to } => {
                let array = &self.program.meters[*array].name;
                let [index, length, colour] = [index, length, colour].map(operand);
                format!("meter {array} {index} {length} {colour} {}", place(to))
            }
            _ => String::new(),
        }
    }

    /// An instruction that SWX has not.
    fn own(self, step: &Instruction) -> String {
        let list = |list: &[Listed]| -> String {
            let name = |of: &Listed| match of {
                Listed::Field(place) => format!(" {}", self.place(place)),
                Listed::Header(header) => format!(" {}", self.header(*header)),
                Listed::Payload(len) => format!(" payload {}", self.operand(len)),
            };
            list.iter().map(name).collect()
        };
        let program = self.program;
        match step {
            Instruction::Length(to) => format!("length {}", self.place(to)),
            Instruction::Multicast(group) => format!("multicast {}", self.operand(group)),
            Instruction::Count { array, index } => {
                format!("count {} {}", program.counters[*array].name, self.operand(index))
            }
            Instruction::DmaWrite { rings, index, what } => {
                let (name, index) = (&program.rings[*rings].name, self.operand(index));
                format!("dma_write {name} {index}{}", list(what))
            }
            Instruction::DmaWriteAt { window, offset, what } => {
                let (name, offset) = (&program.windows[*window].name, self.operand(offset));
                format!("dma_write_at {name} {offset}{}", list(what))
            }
            Instruction::DmaReadAt { window, offset, into } => {
                let (name, offset) = (&program.windows[*window].name, self.operand(offset));
                format!("dma_read_at {name} {offset}{}", list(into))
            }
            Instruction::Digest(digest, first) => {
                format!("digest {} {}", program.digests[*digest].name, self.place(first))
            }
            _ => "reply".to_owned(),
        }
    }

    fn jump(self, condition: &Condition, label: &str) -> String {
        let action = |action: &usize| &self.program.actions[*action].name;
        match condition {
            Condition::Always => format!("jmp {label}"),
            Condition::Valid(header) => format!("jmpv {label} {}", self.header(*header)),
            Condition::Invalid(header) => format!("jmpnv {label} {}", self.header(*header)),
            Condition::Hit => format!("jmph {label}"),
            Condition::Miss => format!("jmpnh {label}"),
            Condition::Ran(of) => format!("jmpa {label} {}", action(of)),
            Condition::RanOther(of) => format!("jmpna {label} {}", action(of)),
            Condition::Compare(order, a, b) => {
                let name = match order {
                    Order::Equal => "jmpeq",
                    Order::Different => "jmpneq",
                    Order::Less => "jmplt",
                    Order::Greater => "jmpgt",
                };
                format!("{name} {label} {} {}", self.operand(a), self.operand(b))
            }
        }
    }
}

impl Code {
    /// The name of an instruction that a jump leads to.
    fn label(&self, number: usize) -> &str {
        self.labels.iter().find(|(_, of)| *of == number).map_or("", |(name, _)| name)
    }
}

impl Alu {
    /// Its name in a program's text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Alu::Add => "add",
            Alu::And => "and",
            Alu::Or => "or",
            Alu::Shl => "shl",
            Alu::Shr => "shr",
            Alu::Sub => "sub",
            Alu::Xor => "xor",
        }
    }
}
