//! What is surely not meant in a program that can be read.
//!
//! They report only what holds for every packet, whatever the tables have.

use std::collections::HashSet;
use std::fmt;

use super::blocks::{Blocks, TableBlock, TableKind};
use super::code;
use super::error::At;
use super::words::{Line, Word};
use crate::form::{Code, Condition, Instruction, Kind, Operand, Order, Program};

/// Something of a program that is surely not meant, where it stands. It does not keep the program
/// from being carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Number of the line, from 1.
    pub line: usize,
    /// Number of the first character in its line, from 1.
    pub column: usize,
    /// What it is, and what would do.
    pub reason: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

fn warning(at: At, reason: String) -> Warning {
    Warning { line: at.line, column: at.column, reason }
}

/// What there is to say of a program that was read of these blocks, by line.
pub(super) fn all(blocks: &Blocks<'_>, program: &Program) -> Vec<Warning> {
    let mut found = Vec::new();
    for (block, action) in blocks.actions.iter().zip(&program.actions) {
        instructions(&block.body, &action.code, &mut found);
    }
    if let Some((_, body)) = &blocks.apply {
        instructions(body, &program.apply, &mut found);
    }
    for (number, block) in blocks.tables.iter().enumerate() {
        table(number, block, program, &mut found);
    }
    let of_tables = || program.tables.iter().filter_map(|table| table.kind.actions());
    for (number, block) in blocks.actions.iter().enumerate() {
        let has = |(action, _): &(usize, _)| *action == number;
        if !of_tables().any(|actions| actions.of.iter().any(has)) {
            let reason = format!("no table has the action `{}`", block.name.text);
            found.push(warning(block.name.at, reason));
        }
    }
    found.sort_by_key(|of| (of.line, of.column));
    found
}

fn table(number: usize, block: &TableBlock<'_>, program: &Program, found: &mut Vec<Warning>) {
    let name = block.name.text;
    let what = match block.kind {
        TableKind::Match => "table",
        TableKind::Learner => "learner",
        TableKind::Selector => "selector",
    };
    if !program.apply.steps.contains(&Instruction::Table(number)) {
        let reason = format!("nothing asks the {what} `{name}`: `table {name}` does");
        found.push(warning(block.name.at, reason));
    }
    let mut listed = HashSet::new();
    for line in &block.actions {
        let action = line.first();
        if !listed.insert(action.text) {
            let reason =
                format!("`{}` is in this list already, and only the first counts", action.text);
            found.push(warning(action.at, reason));
        }
    }
    let of = &program.tables[number];
    let has_key = matches!(&of.kind, Kind::Match { key, .. } if !key.is_empty());
    if let Some(size) = block.size
        && has_key
        && of.size == 0
    {
        let reason = format!("the table `{name}` has room for no entry: give it a size from 1 on");
        found.push(warning(size.at, reason));
    }
}

/// What there is to say of the instructions of a block.
fn instructions(body: &[Line<'_>], code: &Code, found: &mut Vec<Warning>) {
    let (lines, reached) = (code::instructions(body), reached(code));
    let last = code.steps.len().saturating_sub(1);
    for (number, (line, step)) in lines.iter().zip(&code.steps).enumerate() {
        let begins = number == 0 || reached[number - 1];
        // A block has to end by an instruction that ends it, reached or not.
        if !reached[number] && begins && number < last {
            let reason = "this is never reached: the instruction before it goes elsewhere or ends, \
                          and no jump leads here";
            found.push(warning(line.first().at, reason.to_owned()));
        }
        if let Instruction::Jump(Condition::Compare(order, a, b), _) = step {
            found.extend(comparison(*order, (a, line.at(2)), (b, line.at(3))));
        }
    }
}

/// Whether packets can come to each instruction; jumps lead forward.
fn reached(code: &Code) -> Vec<bool> {
    let mut reached = vec![false; code.steps.len()];
    let mut falls = true;
    for (number, step) in code.steps.iter().enumerate() {
        reached[number] |= falls;
        falls = reached[number];
        match step {
            Instruction::Jump(condition, to) if falls => {
                reached[*to] = true;
                falls = *condition != Condition::Always;
            }
            Instruction::Tx(_)
            | Instruction::Steer(_)
            | Instruction::Reply
            | Instruction::Drop
            | Instruction::Return => falls = false,
            _ => {}
        }
    }
    reached
}

/// That a field is compared with a number that it never has.
fn comparison(
    order: Order,
    (a, first): (&Operand, Word<'_>),
    (b, second): (&Operand, Word<'_>),
) -> Option<Warning> {
    let (place, value, field, number) = match (a, b) {
        (Operand::Field(place), Operand::Value(value)) => (place, *value, first, second),
        (Operand::Value(value), Operand::Field(place)) => (place, *value, second, first),
        _ => return None,
    };
    let is_above = place.bits < u64::BITS && value >> place.bits > 0;
    let jumps = match order {
        Order::Equal => false,
        Order::Different => true,
        // The number is the greater one.
        Order::Less => matches!(a, Operand::Field(_)),
        Order::Greater => matches!(a, Operand::Value(_)),
    };
    let jumps = if jumps { "always" } else { "never" };
    let reason = || {
        let (bits, field, number) = (place.bits, field.text, number.text);
        format!("`{field}` has {bits} bits, and {number} has more: the jump is {jumps} taken")
    };
    is_above.then(|| warning(number.at, reason()))
}
