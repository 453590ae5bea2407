//! The table contents of a card's program.

use niclab_card::ProgramView;
use niclab_control::{DefaultAction, LINE_LEN_MAX, Response, TableEntries, TableState};
use niclab_program::{Change, Kind, TablesText};

use super::card_program::named;

/// Bytes that an entry takes in an answer, of what is usual little.
const ENTRY_LEN: usize = 32;

/// Bytes of a line beside the texts in it.
const LINE_LEN: usize = 4_096;

/// How much all tables have, or all that one has.
pub(super) fn show(look: &ProgramView<'_>, table: Option<&str>) -> Result<Response, String> {
    let Some(name) = table else { return Ok(Response::Tables { tables: states(look) }) };
    let number = of_name(look, name)?;
    fits(look, number)?;
    let content = look.content(number);
    let message = content.iter().filter(|change| !matches!(change, Change::Default { .. }));
    let entries: Vec<String> = message.map(|change| change.written(look.program())).collect();
    let quoted: usize = entries.iter().map(|entry| quoted(entry) + r#","""#.len()).sum();
    match quoted + LINE_LEN > LINE_LEN_MAX {
        true => Err(too_long(false)),
        false => Ok(Response::Table { table: state(look, number), entries }),
    }
}

/// How much each table has.
pub(super) fn states(look: &ProgramView<'_>) -> Vec<TableState> {
    (0..look.program().tables.len()).map(|number| state(look, number)).collect()
}

/// The content of one table or all, as a file of tables.
pub(super) fn file(look: &ProgramView<'_>, table: Option<&str>) -> Result<Response, String> {
    let all = 0..look.program().tables.len();
    let only = table.map(|name| of_name(look, name)).transpose()?;
    let numbers = only.map_or(all, |number| number..number + 1);
    let mut text = TablesText::new(look.program());
    for number in numbers {
        fits(look, number)?;
        text.push(number, &look.content(number));
        if text.len() > LINE_LEN_MAX {
            return Err(too_long(only.is_none()));
        }
    }
    let text = text.written();
    match quoted(&text) + LINE_LEN > LINE_LEN_MAX {
        true => Err(too_long(only.is_none())),
        false => Ok(Response::TablesFile { text }),
    }
}

fn of_name(look: &ProgramView<'_>, name: &str) -> Result<usize, String> {
    named("table", name, look.program().tables.iter().map(|of| &of.name))
}

/// Bytes of a text in quotes.
fn quoted(text: &str) -> usize {
    text.len() + text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count()
}

/// Checks that a table has not too many entries to copy.
fn fits(look: &ProgramView<'_>, number: usize) -> Result<(), String> {
    let entries = match look.program().tables[number].kind {
        Kind::Match { .. } => look.entries(number),
        _ => 0,
    };
    match entries > LINE_LEN_MAX / ENTRY_LEN {
        true => Err(too_long(false)),
        false => Ok(()),
    }
}

fn too_long(are_several: bool) -> String {
    let remedy = match are_several {
        true => "ask for one table at a time, table show TABLE",
        false => "the table has too many entries to be shown",
    };
    format!("an answer has {LINE_LEN_MAX} bytes at most: {remedy}")
}

/// How much a table has, and what it does without an entry.
fn state(look: &ProgramView<'_>, number: usize) -> TableState {
    let table = &look.program().tables[number];
    let (entries, size) = (look.entries(number) as u64, table.size as u64);
    let entries = match &table.kind {
        Kind::Learner { .. } => TableEntries::Learner { entries, size },
        Kind::Selector { groups_max, members_max, .. } => TableEntries::Selector {
            groups: look.groups(number) as u64,
            groups_max: *groups_max as u64,
            members_max: *members_max as u64,
        },
        Kind::Match { key, .. } if key.is_empty() => TableEntries::NoKey {},
        Kind::Match { .. } => TableEntries::Match { entries, size },
    };
    let is_constant = table.kind.actions().is_some_and(|actions| actions.is_default_const);
    let default = look.default_of(number).map(|does| {
        let action = look.program().invocation_written(&does);
        DefaultAction { action, is_constant }
    });
    TableState { name: table.name.clone(), entries, default }
}
