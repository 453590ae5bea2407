//! A file of tables: what the control side says, as JSON.
//!
//! ```json
//! {
//!   "tables": {
//!     "stations": {
//!       "default": { "action": "drop" },
//!       "entries": [
//!         { "key": { "h.ethernet.dst": "02:00:00:00:00:01" },
//!           "action": "forward", "arguments": { "port": 3 } }
//!       ]
//!     }
//!   },
//!   "groups": { "paths": { "0": [1, { "member": 2, "weight": 3 }] } },
//!   "registers": { "count": { "0": 7 } },
//!   "meters": { "rates": { "0": { "committed": 1000000, "committed_burst": 2000,
//!                                 "peak": 2000000, "peak_burst": 4000 } } },
//!   "sessions": { "0": { "port": 1, "length": 64 } },
//!   "multicast": { "10": [1, 2] }
//! }
//! ```
//!
//! Each part may be left out. Values are numbers, or strings as in [commands](super::command); an
//! entry may have a `priority`. What is not named here is refused.

use std::collections::BTreeSet;

use niclab_nic::text::visible;
use serde_json::{Map, Value};

use super::command::Command;
use crate::form::Program;

/// Why a file is refused: the place in it, as `tables.stations.entries[3]`, and what is wrong
/// there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct FileError {
    /// Where.
    pub place: String,
    /// What is wrong, and what would do.
    pub reason: String,
}

type Object = Map<String, Value>;

/// What a file of tables says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesFile {
    /// Its commands, in order.
    pub commands: Vec<Command>,
    /// Numbers of the tables and selectors that it names, in order; each once.
    pub tables: Vec<usize>,
}

impl TablesFile {
    /// Reads a file.
    ///
    /// # Errors
    /// With the first that is wrong.
    pub fn read(program: &Program, text: &str) -> Result<TablesFile, FileError> {
        read(program, text)
    }
}

/// Reads a file of tables: its commands, in order.
///
/// # Errors
/// With the first that is wrong.
pub fn read_tables(program: &Program, text: &str) -> Result<Vec<Command>, FileError> {
    Ok(read(program, text)?.commands)
}

fn read(program: &Program, text: &str) -> Result<TablesFile, FileError> {
    if text.starts_with('\u{feff}') {
        return Err(wrong("the file", "it begins with a byte order mark (U+FEFF): remove it"));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|error| wrong("the file", format!("it is no JSON: {error}")))?;
    let root = object("the file", &value)?;
    only("the file", root, &["tables", "groups", "registers", "meters", "sessions", "multicast"])?;
    let mut commands = Commands { program, commands: Vec::new() };
    let tables = || program.tables.iter().map(|of| &of.name);
    let mut named_tables = BTreeSet::new();
    for (name, table) in part(root, "tables")? {
        named("tables", name)?;
        commands.table(name, table)?;
        named_tables.insert(there("tables", name, "a table", tables())?);
    }
    for (name, groups) in part(root, "groups")? {
        let place = format!("groups.{name}");
        named("groups", name)?;
        for (group, members) in object(&place, groups)? {
            named(&place, group)?;
            commands.group(name, group, members)?;
        }
        named_tables.insert(there("groups", name, "a table", tables())?);
    }
    for (name, values) in part(root, "registers")? {
        let place = format!("registers.{name}");
        named("registers", name)?;
        for (index, value) in object(&place, values)? {
            named(&place, index)?;
            let place = format!("{place}.{index}");
            let value = word(&place, value)?;
            commands.tell(&place, &format!("register_write {name} {index} {value}"))?;
        }
        let arrays = program.registers.iter().map(|of| &of.name);
        there("registers", name, "a regarray", arrays)?;
    }
    for (name, meters) in part(root, "meters")? {
        let place = format!("meters.{name}");
        named("meters", name)?;
        for (index, rates) in object(&place, meters)? {
            named(&place, index)?;
            let place = format!("{place}.{index}");
            let fields = ["committed", "committed_burst", "peak", "peak_burst"];
            let words = fields_of(&place, rates, &fields, &fields)?;
            commands
                .tell(&place, &format!("meter_set_rates {name} {index} {}", words.join(" ")))?;
        }
        there("meters", name, "a metarray", program.meters.iter().map(|of| &of.name))?;
    }
    for (number, session) in part(root, "sessions")? {
        let place = format!("sessions.{number}");
        named("sessions", number)?;
        let words = fields_of(&place, session, &["port", "length"], &["port"])?;
        commands.tell(&place, &format!("mirroring_add {number} {}", words.join(" ")))?;
    }
    for (group, ports) in part(root, "multicast")? {
        named("multicast", group)?;
        commands.ports(group, ports)?;
    }
    Ok(TablesFile { commands: commands.commands, tables: named_tables.into_iter().collect() })
}

fn wrong(place: impl Into<String>, reason: impl Into<String>) -> FileError {
    FileError { place: visible(&place.into()), reason: visible(&reason.into()) }
}

fn object<'v>(place: &str, value: &'v Value) -> Result<&'v Object, FileError> {
    value.as_object().ok_or_else(|| wrong(place, "expected an object, `{ … }`"))
}

/// The members of a part of the file, which may be left out.
fn part<'v>(
    root: &'v Object,
    name: &str,
) -> Result<impl Iterator<Item = (&'v String, &'v Value)>, FileError> {
    let part = root.get(name).map(|value| object(name, value)).transpose()?;
    Ok(part.into_iter().flatten())
}

/// That an object has no other fields.
fn only(place: &str, of: &Object, fields: &[&str]) -> Result<(), FileError> {
    match of.keys().find(|key| !fields.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => {
            Err(wrong(place, format!("unknown field `{key}`; there are: {}", fields.join(", "))))
        }
    }
}

/// That a name in the file is one word of a command.
fn named(place: &str, name: &str) -> Result<(), FileError> {
    let is_one = |c: char| !c.is_whitespace() && !"(),;#:/\"=<>!".contains(c);
    match !name.is_empty() && name.chars().all(is_one) {
        true => Ok(()),
        false => Err(wrong(place, format!("expected a name, found `{name}`"))),
    }
}

/// The number of what has a name, of which the file may say nothing else.
fn there<'n>(
    part: &str,
    name: &str,
    what: &str,
    names: impl Iterator<Item = &'n String>,
) -> Result<usize, FileError> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    names.iter().position(|of| *of == name).ok_or_else(|| {
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        wrong(format!("{part}.{name}"), format!("expected {what}: {known}"))
    })
}

/// A value as one word.
fn word(place: &str, value: &Value) -> Result<String, FileError> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return Err(wrong(place, "expected a number or a string")),
    };
    let is_one = !text.is_empty()
        && !text.contains(|c: char| c.is_whitespace() || "(),;#\"=<>!".contains(c));
    match is_one {
        true => Ok(text),
        false => Err(wrong(place, format!("expected a value, found `{text}`"))),
    }
}

/// Values of an object's fields, in their order; those that are not needed may be left out.
fn fields_of(
    place: &str,
    value: &Value,
    fields: &[&str],
    needed: &[&str],
) -> Result<Vec<String>, FileError> {
    let of = object(place, value)?;
    only(place, of, fields)?;
    if let Some(missing) = needed.iter().find(|field| !of.contains_key(**field)) {
        return Err(wrong(place, format!("the field `{missing}` is missing")));
    }
    let there = fields.iter().filter_map(|field| Some((*field, of.get(*field)?)));
    there.map(|(field, value)| word(&format!("{place}.{field}"), value)).collect()
}

struct Commands<'p> {
    program: &'p Program,
    commands: Vec<Command>,
}

impl Commands<'_> {
    /// Takes a command; an error names its place in the file.
    fn tell(&mut self, place: &str, line: &str) -> Result<(), FileError> {
        let read = Command::read(self.program, line);
        self.commands.push(read.map_err(|error| wrong(place, error.problem().to_string()))?);
        Ok(())
    }

    fn table(&mut self, name: &str, value: &Value) -> Result<(), FileError> {
        let place = format!("tables.{name}");
        let table = object(&place, value)?;
        only(&place, table, &["default", "entries"])?;
        if let Some(default) = table.get("default") {
            let place = format!("{place}.default");
            let of = object(&place, default)?;
            only(&place, of, &["action", "arguments"])?;
            let action = action(&place, of)?;
            self.tell(&place, &format!("setdefault {name} {action}"))?;
        }
        let entries = table.get("entries").map(|entries| {
            let array = entries.as_array();
            array.ok_or_else(|| wrong(format!("{place}.entries"), "expected a list, `[ … ]`"))
        });
        for (number, entry) in entries.transpose()?.into_iter().flatten().enumerate() {
            let place = format!("{place}.entries[{number}]");
            let of = object(&place, entry)?;
            only(&place, of, &["key", "priority", "action", "arguments"])?;
            let mut line = format!("add {name}");
            if let Some(priority) = of.get("priority") {
                line += &format!(" {}", word(&format!("{place}.priority"), priority)?);
            }
            let key_place = format!("{place}.key");
            let key = of.get("key").ok_or_else(|| wrong(&place, "the field `key` is missing"))?;
            for (field, value) in object(&key_place, key)? {
                named(&key_place, field)?;
                let value = word(&format!("{key_place}.{field}"), value)?;
                line += &format!(" {field}:{value}");
            }
            self.tell(&place, &format!("{line} {}", action(&place, of)?))?;
        }
        Ok(())
    }

    fn ports(&mut self, group: &str, ports: &Value) -> Result<(), FileError> {
        let place = format!("multicast.{group}");
        let ports = ports.as_array().ok_or_else(|| wrong(&place, "expected a list, `[ … ]`"))?;
        let words = ports.iter().enumerate();
        let words = words.map(|(number, port)| word(&format!("{place}[{number}]"), port));
        let words: Vec<String> = words.collect::<Result<_, FileError>>()?;
        self.tell(&place, &format!("multicast_group {group} {}", words.join(" ")))
    }

    fn group(&mut self, name: &str, group: &str, members: &Value) -> Result<(), FileError> {
        let place = format!("groups.{name}.{group}");
        let members =
            members.as_array().ok_or_else(|| wrong(&place, "expected a list, `[ … ]`"))?;
        let mut line = format!("group {name} {group}");
        for (number, member) in members.iter().enumerate() {
            let place = format!("{place}[{number}]");
            let words = match member {
                Value::Object(_) => fields_of(&place, member, &["member", "weight"], &["member"])?,
                value => vec![word(&place, value)?],
            };
            line += &format!(" {}", words.join(":"));
        }
        self.tell(&place, &line)
    }
}

/// `ACTION(ARGUMENT:VALUE, …)`
fn action(place: &str, of: &Object) -> Result<String, FileError> {
    let name = of.get("action").ok_or_else(|| wrong(place, "the field `action` is missing"))?;
    let name = word(&format!("{place}.action"), name)?;
    let place = format!("{place}.arguments");
    let mut arguments = Vec::new();
    if let Some(values) = of.get("arguments") {
        for (argument, value) in object(&place, values)? {
            named(&place, argument)?;
            let value = word(&format!("{place}.{argument}"), value)?;
            arguments.push(format!("{argument}:{value}"));
        }
    }
    Ok(format!("{name}({})", arguments.join(", ")))
}
