//! What a card is told about its program: tables, registers, and another program.

use std::path::Path;

use niclab_card::Card;
use niclab_program::{Change, Command, Pipeline, Program, Table, read_tables};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::rules;

const TABLE_COMMANDS: &str = "table add, modify, delete, setdefault, group, register_write, \
    meter_set_rates, mirroring_add, transaction or load";
const PROGRAM_COMMANDS: &str = "program load, none, show or register";

/// The program of a file, with the tables of another.
pub(super) fn open(program: &Path, tables: Option<&Path>) -> Result<Pipeline, Failure> {
    let text = rules::text(program)?;
    let read = Program::read(&text);
    let read = read.map_err(|error| Failure::Program { path: program.into(), error })?;
    let memory = |error| Failure::ProgramMemory { path: program.into(), error };
    let mut pipeline = Pipeline::new(read).map_err(|error| memory(error.into()))?;
    if let Some(path) = tables {
        let refused = |reason: String| Failure::Tables { path: path.into(), reason };
        let commands = read_tables(pipeline.program(), &rules::text(path)?);
        let commands = commands.map_err(|error| refused(error.to_string()))?;
        tell(&mut pipeline, &commands, 0).map_err(refused)?;
    }
    Ok(pipeline)
}

/// Carries commands out: the changes of tables together, or none of them and nothing else.
fn tell(pipeline: &mut Pipeline, commands: &[Command], now_ns: u64) -> Result<(), String> {
    let changes: Vec<Change> = commands
        .iter()
        .filter_map(|command| match command {
            Command::Change(change) => Some(change.clone()),
            _ => None,
        })
        .collect();
    pipeline.change(&changes).map_err(|error| error.to_string())?;
    for command in commands {
        match command {
            Command::Change(_) => {}
            Command::Register { array, index, value } => {
                pipeline.set_register(*array, *index, *value);
            }
            Command::Meter { array, index, rates } => {
                pipeline.set_meter(*array, *index, *rates, now_ns);
            }
            Command::Session { number, session } => pipeline.set_session(*number, *session),
        }
    }
    Ok(())
}

/// What a client sends in place of these words: files are read where the client is.
pub(super) fn sent(words: &str) -> Result<String, Failure> {
    let parts: Vec<&str> = words.split_whitespace().collect();
    match parts.as_slice() {
        [what @ ("program" | "table"), "load", file] => {
            let text = rules::text(Path::new(file))?;
            Ok(format!("{what} load {}", json!(text)))
        }
        _ => Ok(words.to_owned()),
    }
}

/// Carries out a command that begins with `table` or `program`.
pub(super) fn answer(card: &mut Card, line: &str) -> Value {
    let done = match line.split_once(' ') {
        Some(("table", rest)) => table(card, rest.trim()),
        Some(("program", rest)) => program(card, rest.trim()),
        _ if line == "table" => Err(format!("no command: {TABLE_COMMANDS}")),
        _ => Err(format!("no command: {PROGRAM_COMMANDS}")),
    };
    match done {
        Ok(said) => json!({ "done": said }),
        Err(error) => json!({ "error": error }),
    }
}

/// The text that a client sent of a file.
fn loaded(rest: &str) -> Result<String, String> {
    serde_json::from_str(rest).map_err(|_| "give a file: load FILE".to_owned())
}

fn table(card: &mut Card, rest: &str) -> Result<Vec<String>, String> {
    let now_ns = card.now_ns();
    let pipeline = card.program().ok_or("the card has no program: program load FILE")?;
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
    tell(pipeline, &commands, now_ns)?;
    Ok(vec![match commands.len() {
        1 => "done".to_owned(),
        count => format!("{count} commands carried out together"),
    }])
}

fn program(card: &mut Card, rest: &str) -> Result<Vec<String>, String> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    if let Some(("load", text)) = rest.split_once(' ') {
        let program = Program::read(&loaded(text)?).map_err(|error| error.to_string())?;
        let pipeline = Pipeline::new(program).map_err(|error| error.to_string())?;
        card.set_program(Some(pipeline)).map_err(|error| error.to_string())?;
        return Ok(vec!["the program decides about frames; its tables are empty".to_owned()]);
    }
    match words.as_slice() {
        ["none"] => {
            card.set_program(None).map_err(|error| error.to_string())?;
            Ok(vec!["rules and RSS decide about frames".to_owned()])
        }
        ["show"] => {
            let Some(pipeline) = card.program() else {
                return Ok(vec!["no program: rules and RSS decide about frames".to_owned()]);
            };
            let tables = pipeline.program().tables.iter().enumerate();
            let line = |(number, table): (usize, &Table)| {
                format!("{}: {} of {} entries", table.name, pipeline.entries(number), table.size)
            };
            Ok(tables.map(line).collect())
        }
        ["register", name, index] => {
            let pipeline = card.program().ok_or("the card has no program: program load FILE")?;
            let arrays = &pipeline.program().registers;
            let there: Vec<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
            let array = there.iter().position(|of| of == name);
            let array = array
                .ok_or_else(|| format!("no regarray {name}; there are: {}", there.join(", ")))?;
            let index: u64 = index.parse().map_err(|_| format!("`{index}` is no index"))?;
            let value = pipeline.register(array, index).unwrap_or(0);
            Ok(vec![value.to_string()])
        }
        _ => Err(format!("`program {rest}` is no command: {PROGRAM_COMMANDS}")),
    }
}
