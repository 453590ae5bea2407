//! What a card is told about its program: tables, registers, and another program.

use std::path::Path;

use niclab_card::Card;
use niclab_program::{Command, Field, Pipeline, Program, Table, read_tables};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::program::fits;
use crate::rules;

const TABLE_COMMANDS: &str = "table add, modify, delete, setdefault, group, register_write, \
    meter_set_rates, mirroring_add, transaction or load";
const PROGRAM_COMMANDS: &str = "program load, none, show, register, counter or digests";

/// Records of an answer, at most: what is left waits for the next question.
const DIGESTS_MAX: usize = 1_000;

/// The program of a file.
pub(super) fn read(path: &Path) -> Result<Program, Failure> {
    let read = Program::read(&rules::text(path)?);
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
        let commands = read_tables(pipeline.program(), &rules::text(path)?);
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
                card.program().ok_or("the card has no program: program load FILE".to_owned())
            }
            Whose::Application(name) => card.application(name).map_err(|error| error.to_string()),
        }
    }

    fn replace(self, card: &mut Card, by: Pipeline) -> Result<(), String> {
        match self {
            Whose::Card => card.set_program(Some(by)).map_err(|error| error.to_string()),
            Whose::Application(name) => {
                card.set_application(name, by).map_err(|error| error.to_string())
            }
        }
    }
}

/// What a client sends in place of these words: files are read where the client is.
pub(super) fn sent(words: &str) -> Result<String, Failure> {
    let parts: Vec<&str> = words.split_whitespace().collect();
    match parts.as_slice() {
        [before @ .., what @ ("program" | "table"), "load", file]
            if matches!(before, [] | ["application", _]) =>
        {
            let text = rules::text(Path::new(file))?;
            let before: String = before.iter().map(|word| format!("{word} ")).collect();
            Ok(format!("{before}{what} load {}", json!(text)))
        }
        _ => Ok(words.to_owned()),
    }
}

/// Carries out a command that begins with `table`, `program` or `application`.
pub(super) fn answer(card: &mut Card, line: &str) -> Value {
    let words = |text: &str| text.split_once(' ').map(|(a, b)| (a.to_owned(), b.trim().to_owned()));
    let done = match words(line) {
        Some((first, rest)) if first == "application" => match words(&rest) {
            Some((name, command)) => of_program(card, Whose::Application(&name), &command),
            None => Err(format!("no command: {}", of_application())),
        },
        _ if line == "application" => Err(format!("no command: {}", of_application())),
        _ => of_program(card, Whose::Card, line),
    };
    match done {
        Ok(said) => json!({ "done": said }),
        Err(error) => json!({ "error": error }),
    }
}

fn of_application() -> String {
    format!("application NAME, and then {TABLE_COMMANDS}; {PROGRAM_COMMANDS}")
}

/// Carries out a command that begins with `table` or `program`.
fn of_program(card: &mut Card, whose: Whose<'_>, line: &str) -> Result<Vec<String>, String> {
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
    serde_json::from_str(rest).map_err(|_| "give a file: load FILE".to_owned())
}

fn table(card: &mut Card, whose: Whose<'_>, rest: &str) -> Result<Vec<String>, String> {
    let now_ns = card.now_ns();
    let pipeline = whose.pipeline(card)?;
    let commands = match rest.split_once(' ') {
        Some(("load", text)) => {
            let text = loaded(text)?;
            read_tables(pipeline.program(), &text).map_err(|error| error.to_string())?
        }
        Some(("transaction", lines)) => {
            let each = lines.split(';').map(str::trim).filter(|line| !line.is_empty());
            let read = |line| Command::read(pipeline.program(), line);
            each.map(read).collect::<Result<_, _>>().map_err(|error| error.to_string())?
        }
        _ => vec![Command::read(pipeline.program(), rest).map_err(|error| error.to_string())?],
    };
    pipeline.tell(&commands, now_ns).map_err(|error| error.to_string())?;
    Ok(vec![match commands.len() {
        1 => "done".to_owned(),
        count => format!("{count} commands carried out together"),
    }])
}

fn program(card: &mut Card, whose: Whose<'_>, rest: &str) -> Result<Vec<String>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    if let Some(("load", text)) = rest.split_once(' ') {
        let program = Program::read(&loaded(text)?).map_err(|error| error.to_string())?;
        if let Whose::Application(name) = whose {
            // Before memory is taken for it.
            card.permits(name, &program).map_err(|error| error.to_string())?;
        }
        fits(&program)?;
        let pipeline = Pipeline::new(program).map_err(|error| error.to_string())?;
        whose.replace(card, pipeline)?;
        return Ok(vec!["the program decides about frames; its tables are empty".to_owned()]);
    }
    if words == ["none"]
        && let Whose::Card = whose
    {
        card.set_program(None).map_err(|error| error.to_string())?;
        return Ok(vec!["rules and RSS decide about frames".to_owned()]);
    }
    if words == ["show"]
        && let Whose::Card = whose
        && card.program().is_none()
    {
        return Ok(vec!["no program: rules and RSS decide about frames".to_owned()]);
    }
    ask(whose.pipeline(card)?, &words)
        .unwrap_or_else(|| Err(format!("`program {rest}` is no command: {PROGRAM_COMMANDS}")))
}

/// Asks a program what it has; `None` where these words ask for nothing.
fn ask(pipeline: &mut Pipeline, words: &[&str]) -> Option<Result<Vec<String>, String>> {
    let number = |index: &str| index.parse().map_err(|_| format!("`{index}` is no index"));
    let of = pipeline.program();
    match *words {
        ["show"] => {
            let line = |(number, table): (usize, &Table)| {
                format!("{}: {} of {} entries", table.name, pipeline.entries(number), table.size)
            };
            Some(Ok(of.tables.iter().enumerate().map(line).collect()))
        }
        ["register", name, index] => {
            let array = named("regarray", name, of.registers.iter().map(|of| &of.name));
            let index = number(index);
            Some(array.and_then(|array| {
                Ok(vec![pipeline.register(array, index?).unwrap_or(0).to_string()])
            }))
        }
        ["counter", name, index] => {
            let array = named("countarray", name, of.counters.iter().map(|of| &of.name));
            let index = number(index);
            Some(array.and_then(|array| {
                let (packets, bytes) = pipeline.counter(array, index?).unwrap_or_default();
                Ok(vec![format!("{packets} packets, {bytes} B")])
            }))
        }
        ["digests", name] => {
            let digest = named("digest", name, of.digests.iter().map(|of| &of.name));
            Some(digest.map(|digest| digests(pipeline, digest)))
        }
        _ => None,
    }
}

/// The records that wait, so many at most, each with the names and numbers of its fields.
fn digests(pipeline: &mut Pipeline, digest: usize) -> Vec<String> {
    let of = &pipeline.program().digests[digest];
    let fields = pipeline.program().structs[of.of].fields.clone();
    let record = |bytes: Vec<u8>| {
        let field = |field: &Field| {
            let mut of = bytes[field.offset..][..field.bits as usize / 8].to_vec();
            // Numbers have their last byte first.
            if of.len() <= 8 {
                of.reverse();
            }
            let digits: String = of.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{} 0x{digits}", field.name)
        };
        fields.iter().map(field).collect::<Vec<_>>().join(", ")
    };
    let next = || pipeline.digest(digest);
    std::iter::from_fn(next).take(DIGESTS_MAX).map(record).collect()
}

/// The place of a name among those of its kind.
fn named<'a>(
    kind: &str,
    name: &str,
    there: impl Iterator<Item = &'a String>,
) -> Result<usize, String> {
    let there: Vec<&str> = there.map(String::as_str).collect();
    let place = there.iter().position(|of| *of == name);
    place.ok_or_else(|| format!("no {kind} {name}; there are: {}", there.join(", ")))
}
