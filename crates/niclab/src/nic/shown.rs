//! What the tables of a card's program have, for who asks.

use niclab_card::Look;
use niclab_program::{Change, Kind, TablesText};
use serde_json::json;

use super::control::ANSWER_LEN_MAX;
use super::programmed::named;
use crate::rules::plural;

/// Says that a file is wanted, as `table load` takes it, and not lines.
pub(super) const AS_FILE: &str = "--json";

/// Bytes that an entry takes in an answer, of what is usual little.
const ENTRY_LEN: usize = 32;

/// Bytes of a command that loads a file, beside the file.
const COMMAND_LEN: usize = 4_096;

/// That what packets have learnt is not among what is shown.
const LEARNT: &str = "what it has learnt is not shown: each core has its own, where it alone can \
    read, and would have to leave its packets waiting to copy it";

/// The line that answers `table show`, behind which these words stand: of one table all that it
/// has, of all how much; or a file of what one or all have.
pub(super) fn answer(look: &Look<'_>, words: &[&str]) -> Result<String, String> {
    let all = &look.program().tables;
    let is_file = words.contains(&AS_FILE);
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != AS_FILE).collect();
    let only = match names[..] {
        [] => None,
        [name] => Some(named("table", name, all.iter().map(|of| &of.name))?),
        _ => return Err("one table at a time: table show TABLE, or table show".to_owned()),
    };
    let numbers = only.map_or(0..all.len(), |number| number..number + 1);
    if is_file {
        return file(look, numbers, only.is_none());
    }
    let mut lines: Vec<String> = numbers.map(|number| header(look, number)).collect();
    if let Some(number) = only {
        fits(look, number)?;
        if let Kind::Learner { .. } = all[number].kind {
            lines.push(LEARNT.to_owned());
        }
        let content = look.content(number);
        let said = content.iter().filter(|change| !matches!(change, Change::Default { .. }));
        lines.extend(said.map(|change| change.written(look.program())));
    }
    let answer = json!({ "done": lines }).to_string();
    if answer.len() > ANSWER_LEN_MAX {
        return Err(too_long(false));
    }
    Ok(answer)
}

/// What these tables have, as a file of tables.
fn file(
    look: &Look<'_>,
    numbers: impl Iterator<Item = usize>,
    are_all: bool,
) -> Result<String, String> {
    let mut text = TablesText::new(look.program());
    for number in numbers {
        fits(look, number)?;
        text.push(number, &look.content(number));
        if text.len() > ANSWER_LEN_MAX {
            return Err(too_long(are_all));
        }
    }
    let file = text.written();
    // As `table load` says it, in quotes.
    let quoted = file.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    match file.len() + quoted + COMMAND_LEN > ANSWER_LEN_MAX {
        true => Err(too_long(are_all)),
        false => Ok(file),
    }
}

/// That entries of a table are not too many before they are copied.
fn fits(look: &Look<'_>, number: usize) -> Result<(), String> {
    let entries = match look.program().tables[number].kind {
        Kind::Match { .. } => look.entries(number),
        _ => 0,
    };
    match entries > ANSWER_LEN_MAX / ENTRY_LEN {
        true => Err(too_long(false)),
        false => Ok(()),
    }
}

fn too_long(are_several: bool) -> String {
    let remedy = match are_several {
        true => "ask for one table at a time, table show TABLE",
        false => "the table has too many entries to be shown",
    };
    format!("an answer has {ANSWER_LEN_MAX} bytes at most: {remedy}")
}

/// How much a table has, and what it does without an entry.
fn header(look: &Look<'_>, number: usize) -> String {
    let line = line(look, number);
    let constant = match look.program().tables[number].kind.actions() {
        Some(actions) if actions.is_default_const => "constant ",
        _ => "",
    };
    match look.default_of(number) {
        Some(does) => {
            format!("{line}, {constant}default {}", look.program().invocation_written(&does))
        }
        None => line,
    }
}

/// How much a table has.
pub(super) fn line(look: &Look<'_>, number: usize) -> String {
    let table = &look.program().tables[number];
    let (name, size) = (&table.name, table.size);
    match &table.kind {
        Kind::Learner { .. } => {
            let entries = plural(look.entries(number), "entry", "entries");
            format!("{name}: {entries} on all cores, each with room for {size}")
        }
        Kind::Selector { groups_max, members_max, .. } => {
            let groups = look.groups(number);
            let members = plural(*members_max, "member", "members");
            format!("{name}: {groups} of {groups_max} groups, each of {members} at most")
        }
        Kind::Match { key, .. } if key.is_empty() => format!("{name}: no key"),
        Kind::Match { .. } => format!("{name}: {} of {size} entries", look.entries(number)),
    }
}
