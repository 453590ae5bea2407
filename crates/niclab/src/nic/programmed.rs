//! What a card is told about its program: tables, registers, and another program.

use std::path::Path;

use niclab_card::{Card, LoadedApplication, Look};
use niclab_program::{Command, Field, Pipeline, Program, Replaced, Table, TablesFile, read_tables};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::memory::{self, hex};
use super::patience::wait;
use super::shown;
use crate::failure::Failure;
use crate::files::{self, PROGRAM_LEN_MAX, TABLES_LEN_MAX};
use crate::program::fits;
use crate::rules::plural;

const TABLE_COMMANDS: &str = "table show, add, modify, delete, setdefault, group, register_write, \
    meter_set_rates, mirroring_add, multicast_group, transaction or load";
const NO_FILE: &str = "give a file: load FILE";
const NO_PROGRAM_FILE: &str = "give a file, and one of its tables: load FILE [TABLES]";
/// What is said where a core has not come to look in time.
const LATER: &str = "a core has not come to look yet: the last program decides there until it does";
/// Says that the tables which a file names are to have what it says and nothing else.
const REPLACE: &str = "--replace";
const PROGRAM_COMMANDS: &str =
    "program load, none, show, register, counter, digests, ring or window";

/// Records of an answer, at most: what is left waits for the next question.
const DIGESTS_MAX: usize = 1_000;

/// The program of a file.
pub(super) fn read(path: &Path) -> Result<Program, Failure> {
    let read = Program::read(&files::text(path, PROGRAM_LEN_MAX)?);
    read.map_err(|error| Failure::Program { path: path.into(), error })
}

/// The program of a file, with the tables of another.
pub(super) fn open(program: &Path, tables: Option<&Path>) -> Result<Pipeline, Failure> {
    load(program, read(program)?, tables)
}

/// A program that was read from a file, with the tables of another.
pub(super) fn load(
    path: &Path,
    program: Program,
    tables: Option<&Path>,
) -> Result<Pipeline, Failure> {
    fits(&program).map_err(|reason| Failure::Tables { path: path.into(), reason })?;
    let memory = |error| Failure::ProgramMemory { path: path.into(), error };
    let mut pipeline = Pipeline::new(program).map_err(|error| memory(error.into()))?;
    if let Some(path) = tables {
        let refused = |reason: String| Failure::Tables { path: path.into(), reason };
        let commands = read_tables(pipeline.program(), &files::text(path, TABLES_LEN_MAX)?);
        let commands = commands.map_err(|error| refused(error.to_string()))?;
        pipeline.tell(&commands, 0).map_err(|error| refused(error.to_string()))?;
    }
    Ok(pipeline)
}

/// Whose program is meant: the card's, or an application's.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Card,
    Application(&'a str),
}

impl Whose<'_> {
    fn pipeline(self, card: &mut Card) -> Result<&mut Pipeline, String> {
        match self {
            Whose::Card => {
                let without = without_program(card);
                card.program().ok_or(without)
            }
            Whose::Application(name) => card.application(name).map_err(|error| error.to_string()),
        }
    }

    /// What it has, to be looked at: also where nobody may change it.
    fn look(self, card: &mut Card) -> Result<Look<'_>, String> {
        match self {
            Whose::Card => card.look().ok_or_else(|| without_program(card)),
            Whose::Application(name) => {
                let of = card.application(name).map_err(|error| error.to_string())?;
                Ok(Look::at(of))
            }
        }
    }

    /// Has another one, or none, take its place, and waits until no frame meets the last any more;
    /// whether none does.
    fn replace(self, card: &mut Card, by: Option<Pipeline>) -> Result<bool, String> {
        if let (Whose::Application(name), None) = (self, &by) {
            return Err(format!(
                "an application has a program as long as the card runs: give {name} another one \
                 (application {name} program load FILE), or end the card (stop) and start it \
                 without this --application"
            ));
        }
        // One before it may not have come to all cores.
        self.wait(card)?;
        match (self, by) {
            (Whose::Application(name), Some(by)) => {
                card.set_application(name, by).map_err(|error| error.to_string())
            }
            (_, by) => card.set_program(by).map_err(|error| error.to_string()),
        }?;
        self.wait(card)
    }

    /// Waits until all cores have the program; whether they do.
    fn wait(self, card: &mut Card) -> Result<bool, String> {
        let mut has_taken = || match self {
            Whose::Card => Ok(card.program_waits_for().is_none()),
            Whose::Application(name) => card.has_taken_application(name),
        };
        let lags = wait(|| has_taken().map(|has| (!has).then_some(())));
        lags.map(|lags| lags.is_none()).map_err(|error| error.to_string())
    }
}

/// What a client sends in place of these words: files are read where the client is, and a table is
/// shown as a file where it prints what it gets.
pub(super) fn sent(words: &str, prints_json: bool) -> Result<String, Failure> {
    let parts: Vec<&str> = words.split_whitespace().collect();
    match parts.as_slice() {
        ["table", "show", ..] | ["application", _, "table", "show", ..] if prints_json => {
            Ok(format!("{words} {}", shown::AS_FILE))
        }
        [before @ .., "table", "load", file] if *file != REPLACE && is_whose(before) => {
            let path = Path::new(file);
            let text = files::text(path, TABLES_LEN_MAX)?;
            is_json(path, &text)?;
            Ok(format!("{}table load {}", behind(before), json!(text)))
        }
        [before @ .., "program", "load", file] if is_whose(before) => {
            let program = (file, files::text(Path::new(file), PROGRAM_LEN_MAX)?);
            Ok(format!("{}program load {}", behind(before), json!([program])))
        }
        [before @ .., "program", "load", file, tables] if is_whose(before) => {
            let program = (file, files::text(Path::new(file), PROGRAM_LEN_MAX)?);
            let path = Path::new(tables);
            let text = files::text(path, TABLES_LEN_MAX)?;
            is_json(path, &text)?;
            Ok(format!("{}program load {}", behind(before), json!([program, (tables, text)])))
        }
        [before @ .., "table", "load", file, option]
        | [before @ .., "table", "load", option, file]
            if *option == REPLACE && is_whose(before) =>
        {
            let begin = [before, &["table", "load", file]].concat().join(" ");
            let sent = sent(&begin, prints_json)?;
            Ok(sent.replacen("table load ", &format!("table load {REPLACE} "), 1))
        }
        _ => Ok(words.to_owned()),
    }
}

/// Whether these words say whose program is meant.
fn is_whose(before: &[&str]) -> bool {
    matches!(before, [] | ["application", _])
}

/// Words, with a blank behind each.
fn behind(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word} ")).collect()
}

/// That a file of tables is JSON: who sends it knows its name.
fn is_json(path: &Path, text: &str) -> Result<(), Failure> {
    let read = serde_json::from_str::<IgnoredAny>(text);
    read.map(drop).map_err(|error| Failure::Tables {
        path: path.into(),
        reason: format!("no JSON, as `table load` and --tables take it: {error}"),
    })
}

/// Carries out a command that begins with `table`, `program` or `application`: the line to answer.
pub(super) fn answer(card: &mut Card, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let shown = match words[..] {
        ["table", "show", ref what @ ..] => Whose::Card.look(card).map(|look| (look, what)),
        ["application", name, "table", "show", ref what @ ..] => {
            Whose::Application(name).look(card).map(|look| (look, what))
        }
        _ => return value(card, line).to_string(),
    };
    let shown = shown.and_then(|(look, what)| shown::answer(&look, what));
    shown.unwrap_or_else(|error| json!({ "error": error }).to_string())
}

fn value(card: &mut Card, line: &str) -> Value {
    let words = |text: &str| text.split_once(' ').map(|(a, b)| (a.to_owned(), b.trim().to_owned()));
    let done = match words(line) {
        Some((first, rest)) if first == "application" => match words(&rest) {
            Some((name, command)) => of_program(card, Whose::Application(&name), &command),
            None => match card.application(&rest) {
                Ok(_) => Ok(applications(card.applications().filter(|of| of.name == rest))),
                Err(error) => Err(error.to_string()),
            },
        },
        _ if line == "application" && card.applications().next().is_none() => {
            Ok(lines(&["no application: niclab nic --application FILE runs one"]))
        }
        _ if line == "application" => Ok(applications(card.applications())),
        _ => of_program(card, Whose::Card, line),
    };
    done.unwrap_or_else(|error| json!({ "error": error }))
}

/// An answer of lines alone.
fn lines(lines: &[impl AsRef<str>]) -> Value {
    json!({ "done": lines.iter().map(AsRef::as_ref).collect::<Vec<&str>>() })
}

fn of_application() -> String {
    format!("application NAME, and then {TABLE_COMMANDS}; {PROGRAM_COMMANDS}")
}

/// That the card has no program of its own, and whose there are.
fn without_program(card: &Card) -> String {
    let names: Vec<&str> = card.applications().map(|of| of.name).collect();
    let others = match names.is_empty() {
        true => String::new(),
        false => {
            format!("; for an application's say application NAME first: {}", names.join(", "))
        }
    };
    format!("the card has no program of its own: program load FILE{others}")
}

/// What applications own, and the memory of their programs.
fn applications<'a>(loaded: impl Iterator<Item = LoadedApplication<'a>>) -> Value {
    let (mut done, mut all) = (Vec::new(), Vec::new());
    for LoadedApplication { name, pipeline, ports, queues, share } in loaded {
        let listed = |numbers: &[u16]| match numbers {
            [] => "none".to_owned(),
            _ => numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
        };
        done.push(format!(
            "application {name}: ports {}; queues {}; share {share}",
            listed(&ports),
            listed(&queues)
        ));
        let (mut rings, mut windows) = (Vec::new(), Vec::new());
        for of in &pipeline.program().rings {
            let (name, count, shape) = (&of.name, of.count, of.shape);
            let (entries, bytes) = (shape.entries, shape.entry_len);
            done.push(format!("  ring {name}: {count} of {entries} entries of {bytes} B each"));
            rings.push(json!({
                "name": name, "count": count, "entries": entries, "entry_bytes": bytes
            }));
        }
        for of in &pipeline.program().windows {
            done.push(format!("  window {}: {} B", of.name, of.len));
            windows.push(json!({ "name": of.name, "bytes": of.len }));
        }
        all.push(json!({
            "name": name, "ports": ports, "queues": queues, "share": share,
            "rings": rings, "windows": windows
        }));
    }
    json!({ "done": done, "applications": all })
}

/// Carries out a command that begins with `table` or `program`.
fn of_program(card: &mut Card, whose: Whose<'_>, line: &str) -> Result<Value, String> {
    match line.split_once(' ') {
        Some(("table", rest)) => table(card, whose, rest.trim()),
        Some(("program", rest)) => program(card, whose, rest.trim()),
        _ if line == "table" => Err(format!("no command: {TABLE_COMMANDS}")),
        _ if line == "program" => Err(format!("no command: {PROGRAM_COMMANDS}")),
        _ => Err(format!("`{line}` is no command: {}", of_application())),
    }
}

/// The text that a client sent of a file.
fn loaded(rest: &str) -> Result<String, String> {
    serde_json::from_str(rest).map_err(|_| NO_FILE.to_owned())
}

/// The commands of a transaction, of which one that cannot be read is named by its number.
fn transaction(program: &Program, all: &str) -> Result<Vec<Command>, String> {
    let each = all.split(';').map(str::trim).filter(|line| !line.is_empty());
    let read = |(number, line): (usize, &str)| {
        let read = Command::read(program, line);
        read.map_err(|error| format!("command {number} of the transaction: {error}"))
    };
    let commands: Vec<Command> = (1..).zip(each).map(read).collect::<Result<_, _>>()?;
    match commands.is_empty() {
        true => Err("no command in it: table transaction 'COMMAND; COMMAND …'".to_owned()),
        false => Ok(commands),
    }
}

fn table(card: &mut Card, whose: Whose<'_>, rest: &str) -> Result<Value, String> {
    let now_ns = card.now_ns();
    let pipeline = whose.pipeline(card)?;
    let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    if let ("load", Some(text)) = (first, behind.strip_prefix(REPLACE)) {
        let file = TablesFile::read(pipeline.program(), &loaded(text.trim())?);
        let file = file.map_err(|error| error.to_string())?;
        let replaced = pipeline.replace(&file, now_ns).map_err(|error| error.to_string())?;
        let Replaced { added, changed, deleted, kept } = replaced;
        let tables = plural(file.tables.len(), "table has", "tables have");
        let line = format!(
            "{tables} what the file says: {added} added, {changed} changed, {deleted} deleted, \
             {kept} as before"
        );
        return Ok(lines(&[line]));
    }
    let commands = match (first, behind) {
        ("load", text) => {
            let text = loaded(text)?;
            read_tables(pipeline.program(), &text).map_err(|error| error.to_string())?
        }
        ("transaction", all) => transaction(pipeline.program(), all)?,
        _ => vec![Command::read(pipeline.program(), rest).map_err(|error| error.to_string())?],
    };
    let told = pipeline.tell_together(&commands, now_ns);
    told.map_err(|refused| match first {
        "transaction" => {
            format!("command {} of the transaction: {}", refused.at + 1, refused.error)
        }
        _ => refused.error.to_string(),
    })?;
    Ok(lines(&[match commands.len() {
        1 => "done".to_owned(),
        count => format!("{count} commands carried out together"),
    }]))
}

/// Loads another program, with a file of its tables or empty ones; each file is a name and a text.
fn load_another(card: &mut Card, whose: Whose<'_>, files: &str) -> Result<Value, String> {
    let files: Vec<(String, String)> =
        serde_json::from_str(files).map_err(|_| NO_PROGRAM_FILE.to_owned())?;
    let (program, tables) = match files.as_slice() {
        [program] => (program, None),
        [program, tables] => (program, Some(tables)),
        _ => return Err(NO_PROGRAM_FILE.to_owned()),
    };
    let (name, text) = program;
    let program = Program::read(text).map_err(|error| format!("{name}: {error}"))?;
    if let Whose::Application(name) = whose {
        // Before memory is taken for it.
        card.permits(name, &program).map_err(|error| error.to_string())?;
    }
    fits(&program).map_err(|error| format!("{name}: {error}"))?;
    let mut pipeline = Pipeline::new(program).map_err(|error| format!("{name}: {error}"))?;
    let its = match tables {
        None => "its tables are empty",
        Some((name, text)) => {
            let commands = read_tables(pipeline.program(), text);
            let commands = commands.map_err(|error| format!("{name}: {error}"))?;
            let told = pipeline.tell(&commands, card.now_ns());
            told.map_err(|error| format!("{name}: {error}"))?;
            "its tables are those of the file"
        }
    };
    Ok(match whose.replace(card, Some(pipeline))? {
        true => lines(&[format!("the program decides about frames; {its}")]),
        false => lines(&[format!("{LATER}; {its}")]),
    })
}

fn program(card: &mut Card, whose: Whose<'_>, rest: &str) -> Result<Value, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    if let Some(("load", files)) = rest.split_once(' ') {
        return load_another(card, whose, files);
    }
    if words == ["none"] {
        return Ok(match whose.replace(card, None)? {
            true => lines(&["rules and RSS decide about frames"]),
            false => lines(&[LATER]),
        });
    }
    if words == ["show"]
        && let Whose::Card = whose
        && card.look().is_none()
    {
        return Ok(lines(&["no program: rules and RSS decide about frames"]));
    }
    match *words {
        ["show"] => Ok(show(&whose.look(card)?)),
        ["register", name, index] => register(&whose.look(card)?, name, index),
        ["counter", name, index] => counter(&whose.look(card)?, name, index),
        ["window", name, offset, count] => memory::window(&whose.look(card)?, name, offset, count),
        ["window", name, offset, count, width] => {
            memory::numbers(&whose.look(card)?, name, (offset, count), width)
        }
        ["ring", name, index] => memory::ring(whose.pipeline(card)?, name, index),
        ["digests", name] => {
            let pipeline = whose.pipeline(card)?;
            let digests_of = &pipeline.program().digests;
            let digest = named("digest", name, digests_of.iter().map(|of| &of.name))?;
            Ok(digests(pipeline, digest))
        }
        _ => Err(format!("`program {rest}` is no command: {PROGRAM_COMMANDS}")),
    }
}

/// A number, decimal or behind `0x`.
pub(super) fn number(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| format!("`{text}` is no number"))
}

fn show(look: &Look<'_>) -> Value {
    let tables = || look.program().tables.iter().enumerate();
    let line = |(number, _): (usize, &Table)| shown::line(look, number);
    let told = |(number, table): (usize, &Table)| {
        let entries = look.entries(number);
        json!({ "name": table.name, "entries": entries, "size": table.size })
    };
    let (done, tables): (Vec<String>, Vec<Value>) =
        (tables().map(line).collect(), tables().map(told).collect());
    json!({ "done": done, "tables": tables })
}

/// Which of an array of so many.
fn index_of(name: &str, text: &str, len: usize) -> Result<u64, String> {
    match number(text)? {
        index if index < len as u64 => Ok(index),
        _ => Err(format!("{name} has no {text}: it has 0 to {}", len - 1)),
    }
}

fn register(look: &Look<'_>, name: &str, index: &str) -> Result<Value, String> {
    let program = look.program();
    if program.counters.iter().any(|of| of.name == name) {
        return Err(format!("{name} is a countarray: program counter {name} {index}"));
    }
    let array = named("regarray", name, program.registers.iter().map(|of| &of.name))?;
    let index = index_of(name, index, program.registers[array].len)?;
    let value = look.register(array, index).unwrap_or(0);
    Ok(json!({ "done": [value.to_string()], "value": value }))
}

fn counter(look: &Look<'_>, name: &str, index: &str) -> Result<Value, String> {
    let program = look.program();
    if program.registers.iter().any(|of| of.name == name) {
        return Err(format!("{name} is a regarray: program register {name} {index}"));
    }
    let array = named("countarray", name, program.counters.iter().map(|of| &of.name))?;
    let index = index_of(name, index, program.counters[array].len)?;
    let (packets, bytes) = look.counter(array, index).unwrap_or_default();
    let line = format!("{packets} packets, {bytes} B");
    Ok(json!({ "done": [line], "packets": packets, "bytes": bytes }))
}

/// The records that wait, so many at most, each with the names and numbers of its fields; how many
/// found no room so far.
fn digests(pipeline: &mut Pipeline, digest: usize) -> Value {
    let of = &pipeline.program().digests[digest];
    let fields = pipeline.program().structs[of.of].fields.clone();
    let record = |bytes: Vec<u8>| {
        let field = |field: &Field| {
            let mut of = bytes[field.offset..][..field.bits as usize / 8].to_vec();
            // Numbers have their last byte first.
            if of.len() <= 8 {
                of.reverse();
            }
            format!("{} 0x{}", field.name, hex(&of))
        };
        fields.iter().map(field).collect::<Vec<_>>().join(", ")
    };
    let next = || pipeline.digest(digest);
    let mut done: Vec<String> = std::iter::from_fn(next).take(DIGESTS_MAX).map(record).collect();
    let untold = pipeline.untold(digest);
    if untold > 0 {
        done.push(format!("{untold} were not told: too many waited"));
    }
    json!({ "done": done, "untold": untold })
}

/// The place of a name among those of its kind.
pub(super) fn named<'a>(
    kind: &str,
    name: &str,
    there: impl Iterator<Item = &'a String>,
) -> Result<usize, String> {
    let there: Vec<&str> = there.map(String::as_str).collect();
    let place = there.iter().position(|of| *of == name);
    place.ok_or_else(|| match there.is_empty() {
        true => format!("no {kind} {name}: the program has none"),
        false => format!("no {kind} {name}; there are: {}", there.join(", ")),
    })
}
