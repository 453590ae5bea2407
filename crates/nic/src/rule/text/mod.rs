//! Rules as text: the `flow` command of testpmd (DPDK 22.11), one command a line.
//!
//! ```text
//! flow create 0 group 1 ingress pattern eth / ipv4 src is 10.0.0.1 / end actions drop / end
//! ```
//!
//! This reads testpmd's language as far as this NIC supports it, and testpmd reads what this
//! prints. Words have to be written out. [`Parser`] reuses its buffers, so that a line allocates
//! nothing after a longer one.

mod action;
mod bare;
pub mod convert;
mod error;
mod headers;
mod known;
mod ports;
mod raw;
mod read;
mod rss;
mod words;

use std::fmt;

pub use bare::Bare;
pub use error::ReadError;
pub use headers::{Addresses, Headers, Inside, Outer};
pub use ports::{by_port, port_of};
pub use read::{Commands, LINE_LEN_MAX};
pub use rss::{port_rss, rss_key};

use super::compile::{self, CompileError};
use super::item::{Field, FieldKind, Item, ItemMatch};
use super::{Action, Pattern};
use crate::limits::PRIORITY_MAX;
use crate::text::{Problem, TextError};
use action::read_actions;
use bare::Named;
use headers::Begun;
pub(crate) use headers::SavedHeaders;
use words::Words;

const COMMANDS: &[&str] =
    &["aged", "create", "destroy", "flush", "isolate", "list", "query", "update", "validate"];
const ATTRIBUTES: &[&str] = &["group", "ingress", "pattern", "priority"];
/// testpmd's words for no and yes.
const BOOLEANS: &[(&str, bool)] = &[
    ("0", false),
    ("1", true),
    ("false", false),
    ("true", true),
    ("no", false),
    ("yes", true),
    ("N", false),
    ("Y", true),
    ("off", false),
    ("on", true),
];
/// Why a text cannot create a meter.
const METERS: &str = "commands for meters of a port: a program that embeds the card makes meters \
                      (`Nic::create_meter`), and a text names them";
const PARAMETERS: &[&str] = &["is", "last", "mask", "prefix", "spec"];

/// A rule as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRule<'a> {
    /// Group of the rule; 0 is the root.
    pub group: u32,
    /// Priority, 0 is highest; read up to [`PRIORITY_MAX`].
    pub priority: u32,
    /// Headers, outermost first.
    pub items: &'a [ItemMatch],
    /// Its actions.
    pub actions: &'a [Action],
}

/// A `flow` command, or a `set` command of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// List the rules that are aged.
    Aged {
        /// Of this port.
        port: u16,
        /// Whether they are then destroyed.
        destroy: bool,
    },
    /// Create a rule.
    Create {
        /// On this port.
        port: u16,
        /// The rule.
        rule: FlowRule<'a>,
    },
    /// Destroy rules.
    Destroy {
        /// On this port.
        port: u16,
        /// Their numbers, one or more.
        rules: &'a [u32],
    },
    /// Destroy all rules.
    Flush {
        /// On this port.
        port: u16,
    },
    /// Set the fate of packets that no rule matches.
    Isolate {
        /// On this port.
        port: u16,
        /// Whether they are dropped, instead of sent to queues by RSS.
        on: bool,
    },
    /// List the rules.
    List {
        /// Of this port.
        port: u16,
    },
    /// Query a rule's counts or its age.
    Query {
        /// On this port.
        port: u16,
        /// Its number.
        rule: u32,
        /// What of it.
        of: Queried,
    },
    /// Save headers for actions of later rules.
    Set {
        /// The headers.
        headers: Headers<'a>,
    },
    /// Replace the actions of a rule.
    Update {
        /// On this port.
        port: u16,
        /// Its number.
        rule: u32,
        /// Its new actions.
        actions: &'a [Action],
    },
    /// Check whether a rule could be created.
    Validate {
        /// On this port.
        port: u16,
        /// The rule.
        rule: FlowRule<'a>,
    },
}

/// A property of a rule to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queried {
    /// Its age.
    Age,
    /// Its counts.
    Count,
}

/// A command with the line it stands in.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// The command.
    pub command: Command<'a>,
    /// The line's number, from 1.
    pub line: u64,
    text: &'a str,
    marks: &'a Marks,
    bare: &'a [Bare],
}

/// First byte of a word, and the byte after its last.
type ByteSpan = (usize, usize);

/// The places of words that only the session can refuse.
#[derive(Debug, Default)]
struct Marks {
    command: ByteSpan,
    port: ByteSpan,
    group: ByteSpan,
    priority: ByteSpan,
    items: Vec<ByteSpan>,
    actions: Vec<ByteSpan>,
    /// The `end` of the actions.
    end: ByteSpan,
    /// Numbers of rules.
    rules: Vec<ByteSpan>,
}

/// A word of a command, for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandWord {
    /// `create`, `update`, ….
    Command,
    /// The number of the port.
    Port,
    /// The number of the group, or the command if it is left out.
    Group,
    /// The priority, or the command if it is left out.
    Priority,
    /// The action of this index.
    Action(usize),
    /// A number of an action.
    Number {
        /// Index of the action.
        action: usize,
        number: u32,
    },
    /// The end of the actions.
    End,
    /// The rule's number of this index.
    Rule(usize),
}

impl Command<'_> {
    /// The port it is for; `set` is for all of them.
    pub fn port(&self) -> Option<u16> {
        match *self {
            Command::Set { .. } => None,
            Command::Aged { port, .. }
            | Command::Create { port, .. }
            | Command::Destroy { port, .. }
            | Command::Flush { port }
            | Command::Isolate { port, .. }
            | Command::List { port }
            | Command::Query { port, .. }
            | Command::Update { port, .. }
            | Command::Validate { port, .. } => Some(port),
        }
    }
}

impl Parsed<'_> {
    /// Items of the rule whose values have no mask, and so mean more or less than they say.
    pub fn bare(&self) -> &[Bare] {
        self.bare
    }

    /// The pattern of a rule's items.
    ///
    /// # Errors
    /// Those of [`compile::pattern`], with the place of the item.
    pub fn pattern(&self, rule: &FlowRule<'_>) -> Result<Pattern, TextError> {
        compile::pattern(rule.items).map_err(|error| {
            let place = self.marks.items.get(error.index()).copied().unwrap_or_default();
            let problem = match error {
                CompileError::NotSupported { name, .. } => Problem::NotSupported { name },
                other => Problem::Unfit { reason: other.to_string() },
            };
            TextError::new(self.line, self.text, place, problem)
        })
    }

    /// An error that the command cannot be carried out, at the word at fault.
    pub(crate) fn refusal(&self, fault: CommandWord, reason: String) -> TextError {
        let marks = self.marks;
        let place = match fault {
            CommandWord::Command => None,
            CommandWord::Port => Some(marks.port),
            CommandWord::Group => Some(marks.group),
            CommandWord::Priority => Some(marks.priority),
            CommandWord::Action(at) => marks.actions.get(at).copied(),
            CommandWord::Number { action, number } => {
                marks.actions.get(action).map(|action| self.number_in(*action, number))
            }
            CommandWord::End => Some(marks.end),
            CommandWord::Rule(at) => marks.rules.get(at).copied(),
        };
        let place = place.unwrap_or(marks.command);
        TextError::new(self.line, self.text, place, Problem::Unfit { reason })
    }

    /// The place of a number in an action, or of the action if the number is not found. Only queues
    /// count in `rss`; other actions have one parameter.
    fn number_in(&self, action: ByteSpan, number: u32) -> ByteSpan {
        let mut words = Words::at(self.line, self.text, action.0);
        let mut counts = words.next() != "rss";
        loop {
            let word = words.next();
            let value = words.number_of(word, "", u32::MAX.into());
            match word {
                "" | "/" => return action,
                "queues" => counts = true,
                _ if counts && value == Ok(number.into()) => return words.place(),
                _ => {}
            }
        }
    }
}

/// Whether a line has no command: it is empty or a comment.
pub fn is_blank(text: &str) -> bool {
    text.trim_ascii_start().bytes().next().is_none_or(|byte| byte == b'#')
}

/// Reads commands, line by line.
#[derive(Debug, Default)]
pub struct Parser {
    items: Vec<ItemMatch>,
    actions: Vec<Action>,
    rules: Vec<u32>,
    marks: Marks,
    bare: Vec<Bare>,
    pub(crate) saved_headers: SavedHeaders,
}

/// What was read, while the buffers of the parser are filled.
enum Head {
    Aged { port: u16, destroy: bool },
    Create { port: u16, group: u32, priority: u32, validate: bool },
    Destroy { port: u16 },
    Flush { port: u16 },
    Isolate { port: u16, on: bool },
    List { port: u16 },
    Query { port: u16, rule: u32, of: Queried },
    Set(Set),
    Update { port: u16, rule: u32 },
}

/// What to save, while the buffers of the parser are filled.
enum Set {
    Raw { encap: bool, index: u8 },
    Tunnel(Outer),
}

impl Parser {
    /// Reads one command. `line` is the line number for errors.
    ///
    /// # Errors
    /// A text that is no command, with the place of the first wrong word; what testpmd knows and
    /// this NIC does not; a value that does not fit its field.
    pub fn parse<'a>(&'a mut self, line: u64, text: &'a str) -> Result<Parsed<'a>, TextError> {
        let head = self.read(&mut Words::new(line, text))?;
        let command = match head {
            Head::Aged { port, destroy } => Command::Aged { port, destroy },
            Head::Create { port, group, priority, validate } => {
                let rule = FlowRule { group, priority, items: &self.items, actions: &self.actions };
                match validate {
                    true => Command::Validate { port, rule },
                    false => Command::Create { port, rule },
                }
            }
            Head::Destroy { port } => Command::Destroy { port, rules: &self.rules },
            Head::Flush { port } => Command::Flush { port },
            Head::Isolate { port, on } => Command::Isolate { port, on },
            Head::List { port } => Command::List { port },
            Head::Query { port, rule, of } => Command::Query { port, rule, of },
            Head::Set(set) => Command::Set { headers: set.headers(&self.items) },
            Head::Update { port, rule } => Command::Update { port, rule, actions: &self.actions },
        };
        Ok(Parsed { command, line, text, marks: &self.marks, bare: &self.bare })
    }

    fn read(&mut self, words: &mut Words<'_>) -> Result<Head, TextError> {
        error::check_mark(words.line, words.text)?;
        if known::is_meter_command(words.text) {
            words.next();
            return Err(words.not_supported(METERS));
        }
        match words.next() {
            "flow" => self.flow(words),
            "set" => self.set(words).map(Head::Set),
            _ => Err(words.unknown(&["flow", "set"], "`flow` or `set`".to_owned())),
        }
    }

    fn set(&mut self, words: &mut Words<'_>) -> Result<Set, TextError> {
        let begun = headers::begin(words)?;
        self.mark(words.place());
        let set = match begun {
            Begun::Tunnel(outer) => Set::Tunnel(outer),
            Begun::Raw { encap, index, first } => {
                self.read_items(words, first.as_deref(), "end_set")?;
                headers::check_raw(words, &self.items)?;
                words.end()?;
                Set::Raw { encap, index }
            }
        };
        self.saved_headers.keep(&set.headers(&self.items));
        Ok(set)
    }

    fn flow(&mut self, words: &mut Words<'_>) -> Result<Head, TextError> {
        let command = words.next();
        if let Some(refusal) = known::refusal(known::COMMANDS, command) {
            return Err(words.not_supported(format!("flow {refusal}")));
        }
        if !COMMANDS.contains(&command) {
            return Err(words.unknown(COMMANDS, one_of(COMMANDS)));
        }
        self.mark(words.place());
        let port = words.number_u16("port")?;
        self.marks.port = words.place();
        let head = match command {
            "aged" => return aged(words, port),
            "create" => return self.rule(words, port, false),
            "validate" => return self.rule(words, port, true),
            "destroy" => return self.destroy(words, port),
            "update" => return self.update(words, port),
            "isolate" => Head::Isolate { port, on: boolean(words)? },
            "query" => {
                let rule = self.rule_number(words)?;
                Head::Query { port, rule, of: query_action(words)? }
            }
            "flush" => Head::Flush { port },
            _ => Head::List { port },
        };
        match words.next() {
            "" => Ok(head),
            "group" if command == "list" => Err(words.not_supported("list group")),
            _ => Err(words.expected("the end of the line")),
        }
    }

    /// Clears the places of the last command.
    fn mark(&mut self, command: ByteSpan) {
        self.bare.clear();
        let marks = &mut self.marks;
        (marks.command, marks.group, marks.priority) = (command, command, command);
        marks.items.clear();
        marks.actions.clear();
        marks.rules.clear();
    }

    fn rule_number(&mut self, words: &mut Words<'_>) -> Result<u32, TextError> {
        let rule = words.number_u32("rule")?;
        self.marks.rules.push(words.place());
        Ok(rule)
    }

    fn update(&mut self, words: &mut Words<'_>, port: u16) -> Result<Head, TextError> {
        let rule = self.rule_number(words)?;
        words.keyword("actions")?;
        self.actions(words)?;
        match words.next() {
            "" => Ok(Head::Update { port, rule }),
            "user_id" => Err(words.not_supported("update user_id")),
            _ => Err(words.expected("the end of the line")),
        }
    }

    fn destroy(&mut self, words: &mut Words<'_>, port: u16) -> Result<Head, TextError> {
        self.rules.clear();
        words.keyword("rule")?;
        loop {
            let rule = self.rule_number(words)?;
            self.rules.push(rule);
            match words.next() {
                "rule" => {}
                "" => return Ok(Head::Destroy { port }),
                _ => return Err(words.unknown(&["rule"], "`rule` or the end of the line".into())),
            }
        }
    }

    fn rule(
        &mut self,
        words: &mut Words<'_>,
        port: u16,
        validate: bool,
    ) -> Result<Head, TextError> {
        let (mut group, mut priority, mut ingress) = (0, 0, false);
        loop {
            match words.next() {
                "group" => {
                    group = words.number_u32("group")?;
                    self.marks.group = words.place();
                }
                "priority" => {
                    priority = words.number("priority", PRIORITY_MAX.into())? as u32;
                    self.marks.priority = words.place();
                }
                "ingress" => ingress = true,
                "pattern" if ingress => break,
                "pattern" => {
                    let reason = "no direction: write `ingress` before `pattern`".to_owned();
                    return Err(words.error(Problem::Unfit { reason }));
                }
                word => match known::refusal(known::ATTRIBUTES, word) {
                    Some(refusal) => return Err(words.not_supported(refusal)),
                    None => return Err(words.unknown(ATTRIBUTES, one_of(ATTRIBUTES))),
                },
            }
        }
        self.pattern(words)?;
        words.keyword("actions")?;
        self.actions(words)?;
        words.end()?;
        Ok(Head::Create { port, group, priority, validate })
    }

    fn pattern(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        self.read_items(words, None, "end")
    }

    /// Reads items up to this end. The first word may have been read already.
    fn read_items(
        &mut self,
        words: &mut Words<'_>,
        mut first: Option<&str>,
        end: &'static str,
    ) -> Result<(), TextError> {
        self.items.clear();
        words.closing = end;
        loop {
            let word = first.take().unwrap_or_else(|| words.next());
            match Item::from_name(word) {
                Some(item) => {
                    self.marks.items.push(words.place());
                    self.items.push(read_item(words, item, &mut self.bare)?);
                }
                None if word == end => return Ok(()),
                None if word == "actions" || word.is_empty() && !self.items.is_empty() => {
                    return Err(words.expected(format!("`{end}`")));
                }
                None if word == "void" => words.keyword("/")?,
                None => {
                    if let Some(refusal) = known::refusal(known::ITEMS, word) {
                        return Err(words.not_supported(refusal));
                    }
                    let mut names = Item::ALL.map(Item::name).to_vec();
                    names.extend(["void", end]);
                    return Err(words.unknown(&names, one_of(&names)));
                }
            }
        }
    }

    fn actions(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        self.actions.clear();
        self.marks.end =
            read_actions(words, &self.saved_headers, &mut self.actions, &mut self.marks.actions)?;
        Ok(())
    }
}

impl Set {
    fn headers<'a>(&self, items: &'a [ItemMatch]) -> Headers<'a> {
        match *self {
            Set::Raw { encap: false, index } => Headers::RawDecap { index, items },
            Set::Raw { encap: true, index } => Headers::RawEncap { index, items },
            Set::Tunnel(outer) => Headers::Tunnel(outer),
        }
    }
}

fn boolean(words: &mut Words<'_>) -> Result<bool, TextError> {
    let word = words.next();
    let known = BOOLEANS.iter().find(|(name, _)| *name == word);
    known.map(|(_, on)| *on).ok_or_else(|| words.expected("`0` or `1`"))
}

fn aged(words: &mut Words<'_>, port: u16) -> Result<Head, TextError> {
    match words.next() {
        "" => Ok(Head::Aged { port, destroy: false }),
        "destroy" => words.end().map(|()| Head::Aged { port, destroy: true }),
        _ => Err(words.unknown(&["destroy"], "`destroy` or the end of the line".into())),
    }
}

fn query_action(words: &mut Words<'_>) -> Result<Queried, TextError> {
    match words.next() {
        "age" => Ok(Queried::Age),
        "count" => Ok(Queried::Count),
        word if action::NAMES.contains(&word) || known::refusal(known::ACTIONS, word).is_some() => {
            Err(words.not_supported(format!("query {word}")))
        }
        _ => Err(words.unknown(&["age", "count"], "`age` or `count`".to_owned())),
    }
}

/// The fields of an item, up to the `/`.
fn read_item(
    words: &mut Words<'_>,
    item: Item,
    bare: &mut Vec<Bare>,
) -> Result<ItemMatch, TextError> {
    let place = words.place();
    let mut read = ItemMatch::any(item);
    let (mut last, mut bytes) = (read.spec, raw::Bytes::default());
    let (mut named, mut has_last) = (Named::default(), false);
    loop {
        let word = words.next();
        if word == "/" {
            break;
        }
        if item == Item::Raw && raw::NAMES.contains(&word) {
            bytes.read(words, word, &mut read)?;
            continue;
        }
        let (at, field) = read_field(words, item, word)?;
        let parameters = match field.kind {
            FieldKind::Index => &PARAMETERS[..1],
            _ => PARAMETERS,
        };
        match words.next() {
            word if !parameters.contains(&word) => {
                return Err(words.unknown(parameters, one_of(parameters)));
            }
            "is" => {
                named.value(words, item, at)?;
                named.mask(at, field.ones());
            }
            "spec" => named.value(words, item, at)?,
            "last" => {
                field.put(&mut last, read_value(words, field)?);
                has_last = true;
            }
            "mask" => named.mask(at, read_value(words, field)?),
            _ => named.mask(at, words.prefix(field)?),
        }
    }
    let has_spec = named.has_values() || bytes.has_spec;
    let has_mask = named.has_masks() || bytes.mask_len.is_some();
    let unfit = |reason| TextError::new(words.line, words.text, place, Problem::Unfit { reason });
    if (has_mask || has_last) && !has_spec {
        named.put(words, &mut read)?;
        return Err(unfit(valueless(&read, has_mask)));
    }
    if has_spec && !has_mask {
        read.mask = item.default_mask();
    }
    named.put(words, &mut read)?;
    if has_mask && item == Item::Raw {
        bytes.check(&read).map_err(unfit)?;
    }
    if item == Item::Raw {
        raw::trim(&mut read);
    }
    bare.extend(named.bare(&read, !has_mask));
    read.last = (last != ItemMatch::any(item).spec).then_some(last);
    Ok(read)
}

/// The field of an item that the last word names, and its index.
fn read_field(
    words: &Words<'_>,
    item: Item,
    word: &str,
) -> Result<(usize, &'static Field), TextError> {
    let mut fields = item.fields().iter().enumerate();
    fields.find(|(_, field)| field.name == word).ok_or_else(|| {
        let mut names: Vec<_> = item.fields().iter().map(|field| field.name).collect();
        names.extend(raw::NAMES.iter().filter(|_| item == Item::Raw));
        let expected = format!("a field of {} ({}) or `/`", item.name(), names.join(", "));
        words.unended(&names, expected)
    })
}

/// The next word, a value of a field. The error for a prefix such as `10.0.0.0/8` says how testpmd
/// writes it.
fn read_value(words: &mut Words<'_>, field: &Field) -> Result<u128, TextError> {
    words.value(field).map_err(|error| {
        let Some((value, len)) = words.last().split_once('/') else { return error };
        let is_value = Words::new(0, value).value(field).is_ok();
        if !is_value || Words::new(0, len).prefix(field).is_err() {
            return error;
        }
        let name = field.name;
        let reason = format!("a prefix is written `{name} spec {value} {name} prefix {len}`");
        words.error(Problem::Unfit { reason })
    })
}

/// Why an item without values of fields is not valid.
fn valueless(item: &ItemMatch, has_mask: bool) -> String {
    let name = item.item.name();
    let is_any = item.mask.iter().all(|byte| *byte == 0);
    match has_mask {
        true if is_any => "a mask of 0 matches anything: leave the field out, for `rte_flow` \
                           takes no mask without a value"
            .to_owned(),
        true => format!("{name} has a mask and no value: add `is` or `spec`"),
        false => format!("{name} has a last and no value: add `is` or `spec`"),
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The words after the port in `flow create`.
impl fmt::Display for FlowRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} priority {} ingress pattern ", self.group, self.priority)?;
        for item in self.items {
            write!(f, "{item} / ")?;
        }
        f.write_str("end actions ")?;
        for action in self.actions {
            write!(f, "{action} / ")?;
        }
        f.write_str("end")
    }
}

impl fmt::Display for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Aged { port, destroy } => {
                let destroy = if *destroy { " destroy" } else { "" };
                write!(f, "flow aged {port}{destroy}")
            }
            Command::Create { port, rule } => write!(f, "flow create {port} {rule}"),
            Command::Destroy { port, rules } => {
                write!(f, "flow destroy {port}")?;
                rules.iter().try_for_each(|rule| write!(f, " rule {rule}"))
            }
            Command::Flush { port } => write!(f, "flow flush {port}"),
            Command::Isolate { port, on } => write!(f, "flow isolate {port} {}", u8::from(*on)),
            Command::List { port } => write!(f, "flow list {port}"),
            Command::Query { port, rule, of } => {
                let of = match of {
                    Queried::Age => "age",
                    Queried::Count => "count",
                };
                write!(f, "flow query {port} {rule} {of}")
            }
            Command::Set { headers } => headers.fmt(f),
            Command::Update { port, rule, actions } => {
                write!(f, "flow update {port} {rule} actions ")?;
                actions.iter().try_for_each(|action| write!(f, "{action} / "))?;
                f.write_str("end")
            }
            Command::Validate { port, rule } => write!(f, "flow validate {port} {rule}"),
        }
    }
}

#[cfg(test)]
mod breadth_tests;
#[cfg(test)]
mod tests;
