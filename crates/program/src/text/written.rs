//! What tables have, in words: as [commands](super::command) and [files](super::file) say it, so
//! that both read it again.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::entry::{Change, Key, Member, Part};
use crate::form::{Invocation, Kind, Match, Program};
use crate::value::to_number;

/// Numbers from here on are strings in a file: a reader that has floating-point numbers alone would
/// have another one.
const EXACT_MAX: u64 = 1 << 53;

impl Change {
    /// The command that says it. It has to fit the program ([`Program::check`]).
    #[must_use]
    pub fn written(&self, program: &Program) -> String {
        let name = |table: usize| &program.tables[table].name;
        match self {
            Change::Add { table, entry } | Change::Modify { table, entry } => {
                let verb = if matches!(self, Change::Add { .. }) { "add" } else { "modify" };
                let priority = match entry.priority {
                    0 => String::new(),
                    priority => format!(" {priority}"),
                };
                let key = program.key_written(*table, &entry.key);
                let does = program.invocation_written(&entry.does);
                format!("{verb} {}{priority} {key} {does}", name(*table))
            }
            Change::Delete { table, key } => {
                format!("delete {} {}", name(*table), program.key_written(*table, key))
            }
            Change::Default { table, does } => {
                format!("setdefault {} {}", name(*table), program.invocation_written(does))
            }
            Change::Group { table, group, members } => {
                let member = |of: &Member| match of.weight {
                    1 => format!(" {}", of.id),
                    weight => format!(" {}:{weight}", of.id),
                };
                let members: String = members.iter().map(member).collect();
                format!("group {} {group}{members}", name(*table))
            }
        }
    }
}

impl Program {
    /// The fields of a key as commands have them: `h.ipv4.src:10.0.0.0/8 h.ipv4.proto:*`.
    pub(crate) fn key_written(&self, table: usize, key: &Key) -> String {
        let fields = self.key_fields(table, key);
        fields.map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>().join(" ")
    }

    /// An action with its arguments as commands have it: `go(port:3)`.
    #[must_use]
    pub fn invocation_written(&self, does: &Invocation) -> String {
        let arguments = self.named_arguments(does);
        let arguments = arguments.map(|(name, value)| format!("{name}:{value}"));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        format!("{}({arguments})", self.actions[does.action].name)
    }

    fn key_fields(&self, table: usize, key: &Key) -> impl Iterator<Item = (String, String)> {
        let fields = match &self.tables[table].kind {
            Kind::Match { key, .. } => &key[..],
            _ => &[],
        };
        fields.iter().zip(key).map(|((place, how), part)| {
            let name = self.name_of(place);
            let value = part_written(&name, part, *how);
            (name, value)
        })
    }

    fn named_arguments(&self, does: &Invocation) -> impl Iterator<Item = (&str, String)> {
        let fields = self.arguments(does.action).iter().zip(&does.arguments);
        fields.map(|(field, bytes)| (&field.name[..], value_written(&field.name, bytes)))
    }

    /// What a file says of what is done.
    fn done(&self, does: &Invocation) -> String {
        let action = format!(r#""action":{}"#, json!(self.actions[does.action].name));
        match &members(self.named_arguments(does))[..] {
            "" => action,
            arguments => format!(r#"{action},"arguments":{{{arguments}}}"#),
        }
    }
}

/// Members of an object.
fn members(of: impl Iterator<Item = (impl AsRef<str>, String)>) -> String {
    let member = |(name, value): (_, String)| {
        let name = json!(AsRef::<str>::as_ref(&name));
        let value = match value.parse::<u64>() {
            Ok(number) if number < EXACT_MAX => json!(number),
            _ => Value::String(value),
        };
        format!("{name}:{value}")
    };
    of.map(member).collect::<Vec<_>>().join(",")
}

/// A file of tables that says what some of them have, each with its changes, as
/// [`Pipeline::content`](crate::Pipeline::content) has them. It is one line.
#[derive(Debug)]
pub struct TablesText<'p> {
    program: &'p Program,
    tables: String,
    groups: String,
}

impl<'p> TablesText<'p> {
    /// One that says nothing yet.
    #[must_use]
    pub fn new(program: &'p Program) -> TablesText<'p> {
        TablesText { program, tables: String::new(), groups: String::new() }
    }

    /// Takes what a table has. Each table can be there once.
    pub fn push(&mut self, table: usize, content: &[Change]) {
        let program = self.program;
        let (mut default, mut entries, mut groups) = (String::new(), String::new(), String::new());
        for change in content {
            match change {
                Change::Default { does, .. } => default = program.done(does),
                Change::Add { entry, .. } => {
                    let key = members(program.key_fields(table, &entry.key));
                    let priority = match entry.priority {
                        0 => String::new(),
                        priority => format!(r#""priority":{priority},"#),
                    };
                    let does = program.done(&entry.does);
                    next(&mut entries, &format!(r#"{{"key":{{{key}}},{priority}{does}}}"#));
                }
                Change::Group { group, members, .. } => {
                    let each = members.iter().map(|of| match of.weight {
                        1 => json!(of.id),
                        weight => json!({ "member": of.id, "weight": weight }),
                    });
                    next(&mut groups, &format!(r#""{group}":{}"#, Value::from_iter(each)));
                }
                Change::Modify { .. } | Change::Delete { .. } => {}
            }
        }
        let name = json!(program.tables[table].name);
        if let Kind::Selector { .. } = program.tables[table].kind {
            return next(&mut self.groups, &format!("{name}:{{{groups}}}"));
        }
        let mut parts = String::new();
        if !default.is_empty() {
            next(&mut parts, &format!(r#""default":{{{default}}}"#));
        }
        if let Kind::Match { key, .. } = &program.tables[table].kind
            && !key.is_empty()
        {
            next(&mut parts, &format!(r#""entries":[{entries}]"#));
        }
        next(&mut self.tables, &format!("{name}:{{{parts}}}"));
    }

    /// Bytes of the file, nearly.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.len() + self.groups.len()
    }

    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file.
    #[must_use]
    pub fn written(&self) -> String {
        let mut parts = String::new();
        for (name, part) in [("tables", &self.tables), ("groups", &self.groups)] {
            if !part.is_empty() || name == "tables" {
                next(&mut parts, &format!(r#""{name}":{{{part}}}"#));
            }
        }
        format!("{{{parts}}}")
    }
}

/// Puts one more into a list.
fn next(list: &mut String, one: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(one);
}

/// What an entry wants of a field of this name.
fn part_written(name: &str, part: &Part, how: Match) -> String {
    let is_whole = part.mask.iter().all(|byte| *byte == 0xff);
    let is_free = part.mask.iter().all(|byte| *byte == 0);
    match (how, part.prefix_len()) {
        (Match::Exact, _) => value_written(name, &part.value),
        (Match::Wildcard, _) if is_free => "*".to_owned(),
        (Match::Wildcard, _) if is_whole => value_written(name, &part.value),
        (_, Some(bits)) => {
            let value = address(name, &part.value).unwrap_or_else(|| hex(&part.value));
            format!("{value}/{bits}")
        }
        (_, None) => format!("{}&&&{}", hex(&part.value), hex(&part.mask)),
    }
}

/// The value of a field of this name: an address where it is one, else a number, which is
/// hexadecimal if it is of more than 64 bits.
fn value_written(name: &str, bytes: &[u8]) -> String {
    address(name, bytes).unwrap_or_else(|| match bytes.len() {
        0..=8 => to_number(bytes).to_string(),
        _ => hex(bytes),
    })
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// The address that a field of this name has: 48 bits are a MAC address, and 32 or 128 one of IPv4
/// or IPv6 if a part of the name begins with `ip`. A program says no more of what it means.
fn address(name: &str, bytes: &[u8]) -> Option<String> {
    let is_ip = || name.split(['.', '_', '-']).any(|part| part.starts_with("ip"));
    let is_six =
        || name.split(['.', '_', '-']).any(|part| part.starts_with("ip") && part.contains('6'));
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return (is_ip() && !is_six()).then(|| Ipv4Addr::from(octets).to_string());
    }
    if let Ok(octets) = <[u8; 16]>::try_from(bytes) {
        return is_ip().then(|| Ipv6Addr::from(octets).to_string());
    }
    let mac: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    (bytes.len() == 6).then(|| mac.join(":"))
}
