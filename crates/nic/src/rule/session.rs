//! A session: testpmd's `flow` commands, carried out on a [`Nic`].
//!
//! Rules get the numbers that testpmd would give them: one more than the number of the newest
//! existing rule, or 0 if there is none. If the newest rule has the greatest number, a new rule
//! gets the smallest free one. The memory of a session depends on the number of existing rules
//! only. A text is applied as a whole or not at all: it is read to its end first, and then carried
//! out as one transaction, which packets see at one instant.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::io::BufRead;
use std::sync::Arc;

use super::text::{
    Command, CommandWord, Commands, FlowRule, Parsed, Queried, ReadError, SavedHeaders,
};
use super::{Action, Rule};
use crate::age::Age;
use crate::control::{Nic, RuleId};
use crate::counters::Counts;
use crate::error::RuleError;
use crate::limits::PORTS_MAX;
use crate::text::TextError;
use crate::transaction::Transaction;

/// The result of a command. Counts are those from before the text with the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// `query … age`: the age of a rule.
    Age {
        /// Its number.
        rule: u32,
        /// Its age.
        age: Age,
    },
    /// `aged`: the rules that are aged, by number.
    Aged {
        /// Their numbers.
        rules: Vec<u32>,
        /// Whether they were destroyed.
        destroyed: bool,
    },
    /// `query … count`: what a rule has counted.
    Counted {
        /// Its number.
        rule: u32,
        /// Frames, and bytes with FCS.
        counts: Counts,
    },
    /// A rule was created.
    Created {
        /// Its number.
        rule: u32,
    },
    /// A rule was destroyed.
    Destroyed {
        /// Its number.
        rule: u32,
    },
    /// All rules were destroyed.
    Flushed {
        /// How many there were.
        rules_count: u32,
    },
    /// The fate of packets that no rule matches was set.
    Isolated {
        /// Whether they are dropped.
        on: bool,
    },
    /// The existing rules, by group, priority and number.
    Listed(Vec<RuleSummary>),
    /// Headers were set for later actions.
    Set,
    /// The actions of a rule were replaced.
    Updated {
        /// Its number.
        rule: u32,
    },
    /// A rule could be created.
    Validated,
}

/// A rule in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSummary {
    /// Its number.
    pub rule: u32,
    /// Its group.
    pub group: u32,
    /// Its priority.
    pub priority: u32,
    /// Names of its items and actions, such as `ETH IPV4 => COUNT QUEUE`.
    pub shape: String,
}

/// The rules of one port that text has created, and their numbers.
#[derive(Debug, Default)]
pub struct Session {
    port: u16,
    /// Names of all ports of the card, if there are several.
    ports: Vec<String>,
    /// Whether every rule counts, even if its text does not say so.
    counts_all: bool,
    /// By number.
    rules: BTreeMap<u32, SessionRule>,
    shapes: Shapes,
    /// The old entries of numbers that the current text changed, each with the line of the change;
    /// latest last.
    undo: Vec<(u32, u64, Option<SessionRule>)>,
    /// The current line.
    line: u64,
    /// Headers that were set.
    saved_headers: SavedHeaders,
}

/// A rule of the session.
#[derive(Clone, Debug)]
struct SessionRule {
    id: RuleId,
    group: u32,
    priority: u32,
    shape: Arc<str>,
    counts: bool,
}

/// The distinct shapes of rules: a million rules have a few. A shape without rules is removed.
#[derive(Debug, Default)]
struct Shapes {
    texts: HashSet<Arc<str>>,
    buffer: String,
}

/// A refusal: the word at fault, and the reason.
type Refused = (CommandWord, String);

impl Session {
    /// A session for the port of this number, without rules, even if the NIC has rules.
    pub fn new(port: u16) -> Session {
        Session { port, ..Session::default() }
    }

    /// The same session, for a card with these ports: an error about another port lists them.
    pub fn among(self, ports: Vec<String>) -> Session {
        Session { ports, ..self }
    }

    /// As [`new`](Session::new), but every rule counts, even if its text does not say so.
    pub fn counting(port: u16) -> Session {
        Session { counts_all: true, ..Session::new(port) }
    }

    /// The NIC's ids of all rules of this session.
    pub fn ids(&self) -> impl Iterator<Item = RuleId> {
        self.rules.values().map(|entry| entry.id)
    }

    /// Number of rules of this session.
    pub fn len(&self) -> u32 {
        // Their numbers have 32 bits.
        self.rules.len() as u32
    }

    /// Whether the session has no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The NIC's id of a rule.
    pub fn id(&self, rule: u32) -> Option<RuleId> {
        self.entry(rule).map(|entry| entry.id)
    }

    /// Carries out all commands of a text, which packets see at one instant.
    ///
    /// # Errors
    /// What cannot be read and what the NIC refuses, with its place. Nothing of the text is then
    /// applied.
    pub fn apply(
        &mut self,
        nic: &mut Nic,
        mut reader: impl BufRead,
    ) -> Result<Vec<Record>, ReadError> {
        let mut text = Vec::new();
        reader.read_to_end(&mut text)?;
        let saved_headers = check(&text, self.saved_headers.clone())?;
        let mut transaction = nic.transaction();
        let applied = self.apply_text(&mut transaction, &text).and_then(|records| {
            // Cannot fail: the root was checked after the last command that adds to it.
            transaction.commit().map(|()| records).map_err(|error| past_end(&text, &error))
        });
        match &applied {
            Ok(_) => {
                self.saved_headers = saved_headers;
                let undo = std::mem::take(&mut self.undo).into_iter();
                undo.for_each(|(_, _, before)| self.shapes.release(before));
            }
            Err(_) => self.take_back(),
        }
        applied
    }

    fn apply_text(
        &mut self,
        transaction: &mut Transaction<'_>,
        text: &[u8],
    ) -> Result<Vec<Record>, ReadError> {
        let mut commands = Commands::with(text, self.saved_headers.clone());
        let mut records = Vec::new();
        // The first rule that exceeded the root's limit, while the limit is exceeded.
        let mut too_many = None;
        while let Some(next) = commands.next_command() {
            let parsed = next?;
            self.line = parsed.line;
            let error = |(word, reason)| parsed.refusal(word, reason);
            self.command(transaction, &parsed, &mut records).map_err(error)?;
            match transaction.check() {
                Ok(()) => too_many = None,
                Err(full) if too_many.is_none() => {
                    too_many = Some(parsed.refusal(CommandWord::Group, full.to_string()));
                }
                Err(_) => {}
            }
        }
        match too_many {
            Some(error) => Err(error.into()),
            None => Ok(records),
        }
    }

    fn command(
        &mut self,
        transaction: &mut Transaction<'_>,
        parsed: &Parsed<'_>,
        records: &mut Vec<Record>,
    ) -> Result<(), Refused> {
        let port = parsed.command.port();
        if let Some(port) = port.filter(|port| *port != self.port) {
            return Err((CommandWord::Port, self.no_port(port)));
        }
        match parsed.command {
            Command::Create { rule, .. } => {
                records.push(Record::Created { rule: self.create(transaction, parsed, &rule)? });
            }
            Command::Validate { rule, .. } => {
                let rule = compiled(parsed, &rule)?;
                transaction
                    .validate(&rule)
                    .map_err(|error| self.rule_refused(&error, rule.actions))?;
                records.push(Record::Validated);
            }
            Command::Destroy { rules, .. } => {
                for (at, &rule) in rules.iter().enumerate() {
                    self.destroy(transaction, rule, CommandWord::Rule(at))?;
                    records.push(Record::Destroyed { rule });
                }
            }
            Command::Flush { .. } => {
                let rules_count = self.len();
                while let Some((&rule, _)) = self.rules.last_key_value() {
                    self.destroy(transaction, rule, CommandWord::Command)?;
                }
                records.push(Record::Flushed { rules_count });
            }
            Command::Set { .. } => records.push(Record::Set),
            Command::Update { rule, actions, .. } => {
                self.update(transaction, rule, actions)?;
                records.push(Record::Updated { rule });
            }
            Command::Aged { destroy, .. } => records.push(self.aged(transaction, destroy)?),
            Command::Query { rule, of, .. } => records.push(self.query(transaction, rule, of)?),
            Command::List { .. } => records.push(Record::Listed(self.list())),
            Command::Isolate { on, .. } => {
                transaction.isolate(on).map_err(|error| refused(&error, &[]))?;
                records.push(Record::Isolated { on });
            }
        }
        Ok(())
    }

    /// An error that the port does not exist, with the existing ports.
    fn no_port(&self, port: u16) -> String {
        if self.ports.is_empty() {
            return match port < PORTS_MAX {
                true => format!("no port {port}: this is port {}", self.port),
                false => format!("no port {port}: ports are 0 to {}", PORTS_MAX - 1),
            };
        }
        let named = |(number, name): (usize, &String)| format!("{number} ({name})");
        let there: Vec<String> = self.ports.iter().enumerate().map(named).collect();
        let [noun, remedy] = match there.len() {
            1 => ["port", "write its number, or give the card another port (--port)"],
            _ => ["ports", "write one of these numbers, or give the card another port (--port)"],
        };
        format!("no port {port}: the card has {noun} {}: {remedy}", there.join(", "))
    }

    fn create(
        &mut self,
        transaction: &mut Transaction<'_>,
        parsed: &Parsed<'_>,
        written: &FlowRule<'_>,
    ) -> Result<u32, Refused> {
        let mut rule = compiled(parsed, written)?;
        let counting = self.counting_actions(rule.actions);
        rule.actions = counting.as_deref().unwrap_or(rule.actions);
        let id =
            transaction.create(&rule).map_err(|error| self.rule_refused(&error, rule.actions))?;
        let number = self.next_number();
        let items = written.items.iter().map(|item| item.item.name());
        let shape = self.shapes.shape(items, rule.actions);
        let counts = rule.actions.contains(&Action::Count);
        let Rule { group, priority, .. } = rule;
        self.set(number, Some(SessionRule { id, group, priority, shape, counts }));
        Ok(number)
    }

    /// These actions and `count`, if all rules have to count and these do not.
    fn counting_actions(&self, actions: &[Action]) -> Option<Vec<Action>> {
        let lacks = self.counts_all && !actions.contains(&Action::Count);
        lacks.then(|| [actions, &[Action::Count]].concat())
    }

    fn destroy(
        &mut self,
        transaction: &mut Transaction<'_>,
        rule: u32,
        word: CommandWord,
    ) -> Result<(), Refused> {
        let entry = self.known(rule, word)?;
        transaction.destroy(entry.id).map_err(|error| (word, error.to_string()))?;
        self.set(rule, None);
        Ok(())
    }

    fn update(
        &mut self,
        transaction: &mut Transaction<'_>,
        rule: u32,
        actions: &[Action],
    ) -> Result<(), Refused> {
        let entry = self.known(rule, CommandWord::Rule(0))?;
        let counting = self.counting_actions(actions);
        let actions = counting.as_deref().unwrap_or(actions);
        transaction.update(entry.id, actions).map_err(|error| refused(&error, actions))?;
        let items = entry.shape.split_once("=>").map_or("", |(items, _)| items);
        let shape = self.shapes.shape(items.split_whitespace(), actions);
        let counts = actions.contains(&Action::Count);
        self.set(rule, Some(SessionRule { shape, counts, ..entry.clone() }));
        Ok(())
    }

    fn query(
        &self,
        transaction: &Transaction<'_>,
        rule: u32,
        of: Queried,
    ) -> Result<Record, Refused> {
        let entry = self.known(rule, CommandWord::Rule(0))?;
        let lacks = |name: &str| {
            let reason = format!("rule {rule} has no `{name}` among its actions");
            (CommandWord::Rule(0), reason)
        };
        match of {
            Queried::Age => {
                let age = transaction.age(entry.id).map_err(|error| refused(&error, &[]))?;
                age.map(|age| Record::Age { rule, age }).ok_or_else(|| lacks("age"))
            }
            Queried::Count if !entry.counts => Err(lacks("count")),
            Queried::Count => {
                let counts = transaction.query(entry.id).map_err(|error| refused(&error, &[]))?;
                Ok(Record::Counted { rule, counts })
            }
        }
    }

    fn aged(
        &mut self,
        transaction: &mut Transaction<'_>,
        destroy: bool,
    ) -> Result<Record, Refused> {
        let mut rules = Vec::new();
        for (&rule, entry) in &self.rules {
            let age = transaction.age(entry.id).map_err(|error| refused(&error, &[]))?;
            rules.extend(age.filter(Age::is_aged).map(|_| rule));
        }
        if destroy {
            rules
                .iter()
                .try_for_each(|&rule| self.destroy(transaction, rule, CommandWord::Command))?;
        }
        Ok(Record::Aged { rules, destroyed: destroy })
    }

    fn list(&self) -> Vec<RuleSummary> {
        let of = |(&rule, entry): (&u32, &SessionRule)| {
            let &SessionRule { group, priority, ref shape, .. } = entry;
            RuleSummary { rule, group, priority, shape: shape.to_string() }
        };
        let mut listed: Vec<RuleSummary> = self.rules.iter().map(of).collect();
        listed.sort_by_key(|rule| (rule.group, rule.priority));
        listed
    }

    /// The word at fault when the NIC refuses a new rule; the message names a duplicate's rule.
    fn rule_refused(&self, error: &RuleError, actions: &[Action]) -> Refused {
        let (word, reason) = refused(error, actions);
        let RuleError::Duplicate { of, .. } = error else { return (word, reason) };
        let first = self.rules.iter().find(|(_, entry)| entry.id == *of);
        let Some((&rule, _)) = first else { return (word, reason) };
        let is_made = |(number, _, before): &&(u32, u64, Option<SessionRule>)| {
            *number == rule && before.is_none()
        };
        let made = self.undo.iter().rev().find(is_made);
        let place = made.map_or_else(String::new, |(_, line, _)| format!(", of line {line}"));
        (word, format!("{reason}: it is rule {rule}{place}"))
    }

    fn entry(&self, rule: u32) -> Option<&SessionRule> {
        self.rules.get(&rule)
    }

    /// The number of the next rule.
    fn next_number(&self) -> u32 {
        match self.rules.last_key_value() {
            None => 0,
            Some((&newest, _)) => newest.checked_add(1).unwrap_or_else(|| {
                let free = (0..).zip(self.rules.keys()).find(|(number, taken)| number != *taken);
                // The NIC has room for fewer rules than there are numbers.
                free.map_or(newest, |(number, _)| number)
            }),
        }
    }

    fn known(&self, rule: u32, word: CommandWord) -> Result<SessionRule, Refused> {
        let unknown = || match self.rules.last_key_value() {
            None => format!("no rule {rule}: port {} has none", self.port),
            Some((newest, _)) => {
                format!("no rule {rule} on port {}: the newest is {newest}", self.port)
            }
        };
        self.entry(rule).cloned().ok_or_else(|| (word, unknown()))
    }

    /// Sets the entry of a number, and keeps the old one for undo.
    fn set(&mut self, rule: u32, entry: Option<SessionRule>) {
        let before = self.put(rule, entry);
        self.undo.push((rule, self.line, before));
    }

    fn put(&mut self, rule: u32, entry: Option<SessionRule>) -> Option<SessionRule> {
        match entry {
            Some(entry) => self.rules.insert(rule, entry),
            None => self.rules.remove(&rule),
        }
    }

    fn take_back(&mut self) {
        for (rule, _, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            let undone = self.put(rule, before);
            self.shapes.release(undone);
        }
    }
}

impl Shapes {
    /// The shape of a rule with these items, whose names may be in any case.
    fn shape<'a>(&mut self, items: impl Iterator<Item = &'a str>, actions: &[Action]) -> Arc<str> {
        self.buffer.clear();
        for item in items {
            self.buffer.push_str(item);
            self.buffer.push(' ');
        }
        self.buffer.push_str("=>");
        for action in actions {
            let start = self.buffer.len() + 1;
            // Writing to a string cannot fail.
            let _ = write!(self.buffer, " {action}");
            let name = self.buffer[start..].split(' ').next().map_or(0, str::len);
            self.buffer.truncate(start + name);
        }
        self.buffer.make_ascii_uppercase();
        if let Some(shape) = self.texts.get(self.buffer.as_str()) {
            return Arc::clone(shape);
        }
        let shape: Arc<str> = self.buffer.as_str().into();
        self.texts.insert(Arc::clone(&shape));
        shape
    }

    /// Drops an entry, and its shape if no other entry has it.
    fn release(&mut self, entry: Option<SessionRule>) {
        let Some(SessionRule { shape, .. }) = entry else { return };
        // One reference is in `texts`, one is this.
        if Arc::strong_count(&shape) == 2 {
            self.texts.remove(&shape);
        }
    }
}

/// Reads a text to its end; returns the headers that are set then.
fn check(text: &[u8], saved_headers: SavedHeaders) -> Result<SavedHeaders, ReadError> {
    let mut commands = Commands::with(text, saved_headers);
    while let Some(next) = commands.next_command() {
        let parsed = next?;
        if let Command::Create { rule, .. } | Command::Validate { rule, .. } = parsed.command {
            parsed.pattern(&rule)?;
        }
    }
    Ok(commands.into_saved_headers())
}

/// The rule of a line that was checked.
fn compiled<'a>(parsed: &Parsed<'_>, rule: &FlowRule<'a>) -> Result<Rule<'a>, Refused> {
    let pattern = parsed
        .pattern(rule)
        .map_err(|error| (CommandWord::Command, error.problem().to_string()))?;
    let FlowRule { group, priority, actions, .. } = *rule;
    Ok(Rule { group, priority, pattern, actions })
}

/// The word at fault when the NIC refuses a command.
fn refused(error: &RuleError, actions: &[Action]) -> Refused {
    let action = |wanted: &Action| {
        let at = actions.iter().rposition(|action| action == wanted);
        at.map_or(CommandWord::Command, CommandWord::Action)
    };
    let number = |number: u32, names: &dyn Fn(&Action) -> bool| {
        let at = actions.iter().rposition(names);
        at.map_or(CommandWord::Command, |action| CommandWord::Number { action, number })
    };
    let names_queue = |queue: u16, action: &Action| match action {
        Action::Queue(own) => *own == queue,
        Action::Rss(rss) => rss.queues.contains(&queue),
        _ => false,
    };
    let word = match error {
        RuleError::FatesTwo { second, .. } => action(second),
        RuleError::PortUnknown { port, .. } => {
            number((*port).into(), &|action| *action == Action::Port(*port))
        }
        RuleError::MeterUnknown { number: meter } => {
            number(*meter, &|action| *action == Action::Meter(*meter))
        }
        RuleError::JumpBack { to, .. } => number(*to, &|action| *action == Action::Jump(*to)),
        RuleError::QueueUnknown { queue, .. } => {
            number((*queue).into(), &|action| names_queue(*queue, action))
        }
        RuleError::FateMissing => CommandWord::End,
        RuleError::Priority { .. } => CommandWord::Priority,
        RuleError::GroupFull { .. } | RuleError::MasksTooMany { .. } => CommandWord::Group,
        _ => CommandWord::Command,
    };
    let reason = match error {
        RuleError::MeterUnknown { number } => format!(
            "no meter {number}: a text makes none; a program that embeds the card does \
             (`Nic::create_meter`), before rules name them"
        ),
        error => error.to_string(),
    };
    (word, reason)
}

/// An error about the text as a whole.
fn past_end(text: &[u8], error: &RuleError) -> ReadError {
    let line = text.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    TextError::whole(line, error.to_string()).into()
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
