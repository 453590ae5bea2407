//! Commands to the program of a card: tables, registers, and another program.

use std::path::Path;

use niclab_card::{Card, LoadedApplication, ProgramView};
use niclab_control::{ApplicationStatus, DigestField, Response, RingShape, TextFile, WindowShape};
use niclab_program::{Command, Field, Pipeline, Program, Replaced, TablesFile, read_tables};

use super::memory::hex;
use super::table_contents;
use super::wait::wait;
use crate::failure::Failure;
use crate::files::{self, PROGRAM_LEN_MAX, TABLES_LEN_MAX};
use crate::program::fits;

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

/// The owner of a program: the card, or an application.
#[derive(Clone, Copy)]
pub(super) enum ProgramOwner<'a> {
    /// The card's.
    Card,
    /// That of the application of this name.
    Application(&'a str),
}

impl<'a> ProgramOwner<'a> {
    /// The one that a request names.
    pub(super) fn of(application: &'a Option<String>) -> ProgramOwner<'a> {
        application.as_deref().map_or(ProgramOwner::Card, ProgramOwner::Application)
    }

    /// It, to be changed.
    pub(super) fn pipeline(self, card: &mut Card) -> Result<&mut Pipeline, String> {
        match self {
            ProgramOwner::Card => {
                let without = without_program(card);
                card.program().ok_or(without)
            }
            ProgramOwner::Application(name) => {
                card.application(name).map_err(|error| error.to_string())
            }
        }
    }

    /// A read-only view of it, also if it may not be changed.
    pub(super) fn view(self, card: &mut Card) -> Result<ProgramView<'_>, String> {
        match self {
            ProgramOwner::Card => card.program_view().ok_or_else(|| without_program(card)),
            ProgramOwner::Application(name) => {
                let of = card.application(name).map_err(|error| error.to_string())?;
                Ok(ProgramView::new(of))
            }
        }
    }

    /// Has another one, or none, take its place, and waits until no frame meets the last any more;
    /// whether none does.
    fn replace(self, card: &mut Card, by: Option<Pipeline>) -> Result<bool, String> {
        if let (ProgramOwner::Application(name), None) = (self, &by) {
            return Err(format!(
                "an application has a program as long as the card runs: give {name} another one \
                 (application {name} program load FILE), or end the card (stop) and start it \
                 without this --application"
            ));
        }
        // One before it may not have come to all cores.
        self.wait(card)?;
        match (self, by) {
            (ProgramOwner::Application(name), Some(by)) => {
                card.set_application(name, by).map_err(|error| error.to_string())
            }
            (_, by) => card.set_program(by).map_err(|error| error.to_string()),
        }?;
        self.wait(card)
    }

    /// Waits until all cores have the program; whether they do.
    fn wait(self, card: &mut Card) -> Result<bool, String> {
        let mut has_taken = || match self {
            ProgramOwner::Card => Ok(card.core_without_program().is_none()),
            ProgramOwner::Application(name) => card.is_application_current(name),
        };
        let lags = wait(|| has_taken().map(|has| (!has).then_some(())));
        lags.map(|lags| lags.is_none()).map_err(|error| error.to_string())
    }
}

/// The error that the card has no program of its own, with the applications that have one.
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

/// The resources of all applications or of one, and the memory of their programs.
pub(super) fn applications(card: &mut Card, name: Option<&str>) -> Result<Response, String> {
    if let Some(name) = name {
        card.application(name).map_err(|error| error.to_string())?;
    }
    let all = card.applications().filter(|of| name.is_none_or(|name| of.name == name));
    Ok(Response::Applications { applications: all.map(application).collect() })
}

fn application(loaded: LoadedApplication<'_>) -> ApplicationStatus {
    let LoadedApplication { name, pipeline, ports, queues, share } = loaded;
    let rings = pipeline.program().rings.iter().map(|of| RingShape {
        name: of.name.clone(),
        count: of.count as u64,
        entries: of.shape.entries.into(),
        entry_bytes: of.shape.entry_len as u64,
    });
    let windows = pipeline.program().windows.iter();
    let windows = windows.map(|of| WindowShape { name: of.name.clone(), bytes: of.len as u64 });
    let (rings, windows) = (rings.collect(), windows.collect());
    ApplicationStatus { name: name.to_owned(), ports, queues, share, rings, windows }
}

/// Carries out commands on tables, all together or none. `number` says of one that is wrong which
/// it is.
fn carry_out(
    pipeline: &mut Pipeline,
    commands: &[Command],
    now_ns: u64,
    number: impl Fn(usize) -> String,
) -> Result<Response, String> {
    let output = pipeline.tell_together(commands, now_ns);
    output.map_err(|refused| format!("{}{}", number(refused.at), refused.error))?;
    Ok(Response::Done { commands: commands.len() as u64 })
}

/// Carries out one command on tables.
pub(super) fn command(
    card: &mut Card,
    whose: ProgramOwner<'_>,
    line: &str,
) -> Result<Response, String> {
    let now_ns = card.now_ns();
    let pipeline = whose.pipeline(card)?;
    let command = Command::read(pipeline.program(), line).map_err(|error| error.to_string())?;
    carry_out(pipeline, &[command], now_ns, |_| String::new())
}

/// Carries out commands on tables together; one that is wrong is named by its number.
pub(super) fn transaction(
    card: &mut Card,
    whose: ProgramOwner<'_>,
    lines: &[String],
) -> Result<Response, String> {
    let now_ns = card.now_ns();
    let pipeline = whose.pipeline(card)?;
    if lines.is_empty() {
        return Err("commands: there is none".to_owned());
    }
    let number = |at: usize| format!("command {} of the transaction: ", at + 1);
    let read = |(at, line): (usize, &String)| {
        let read = Command::read(pipeline.program(), line);
        read.map_err(|error| format!("{}{error}", number(at)))
    };
    let commands: Vec<Command> = lines.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    carry_out(pipeline, &commands, now_ns, number)
}

/// Carries out a file of tables; with `replace`, the tables that it names have nothing else.
pub(super) fn load_tables(
    card: &mut Card,
    whose: ProgramOwner<'_>,
    text: &str,
    replace: bool,
) -> Result<Response, String> {
    let now_ns = card.now_ns();
    let pipeline = whose.pipeline(card)?;
    if !replace {
        let commands = read_tables(pipeline.program(), text).map_err(|error| error.to_string())?;
        return carry_out(pipeline, &commands, now_ns, |_| String::new());
    }
    let file = TablesFile::read(pipeline.program(), text).map_err(|error| error.to_string())?;
    let replaced = pipeline.replace(&file, now_ns).map_err(|error| error.to_string())?;
    let Replaced { added, changed, deleted, kept } = replaced;
    let [added, changed, deleted, kept] = [added, changed, deleted, kept].map(|of| of as u64);
    Ok(Response::Replaced { tables: file.tables.len() as u64, added, changed, deleted, kept })
}

/// Loads another program, with a file of its tables or empty ones.
pub(super) fn load_another(
    card: &mut Card,
    whose: ProgramOwner<'_>,
    program: &TextFile,
    tables: Option<&TextFile>,
) -> Result<Response, String> {
    let TextFile { name, text } = program;
    let program = Program::read(text).map_err(|error| format!("{name}: {error}"))?;
    if let ProgramOwner::Application(name) = whose {
        // Before memory is taken for it.
        card.check_grant(name, &program).map_err(|error| error.to_string())?;
    }
    fits(&program).map_err(|error| format!("{name}: {error}"))?;
    let mut pipeline = Pipeline::new(program).map_err(|error| format!("{name}: {error}"))?;
    if let Some(TextFile { name, text }) = tables {
        let commands = read_tables(pipeline.program(), text);
        let commands = commands.map_err(|error| format!("{name}: {error}"))?;
        let output = pipeline.tell(&commands, card.now_ns());
        output.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(Response::ProgramChanged { is_in_effect: whose.replace(card, Some(pipeline))? })
}

/// Has no program decide any more.
pub(super) fn remove(card: &mut Card, whose: ProgramOwner<'_>) -> Result<Response, String> {
    Ok(Response::ProgramChanged { is_in_effect: whose.replace(card, None)? })
}

/// How much the tables of a program have; that there is none, where there may be none.
pub(super) fn show(card: &mut Card, whose: ProgramOwner<'_>) -> Result<Response, String> {
    if let ProgramOwner::Card = whose
        && card.program_view().is_none()
    {
        return Ok(Response::Program { tables: None });
    }
    Ok(Response::Program { tables: Some(table_contents::states(&whose.view(card)?)) })
}

/// Which of an array of so many.
fn index_of(name: &str, index: u64, len: usize) -> Result<u64, String> {
    match index < len as u64 {
        true => Ok(index),
        false => Err(format!("{name} has no {index}: it has 0 to {}", len - 1)),
    }
}

/// A register of a program.
pub(super) fn register(look: &ProgramView<'_>, name: &str, index: u64) -> Result<Response, String> {
    let program = look.program();
    if program.counters.iter().any(|of| of.name == name) {
        return Err(format!("{name} is a countarray: program counter {name} {index}"));
    }
    let array = named("regarray", name, program.registers.iter().map(|of| &of.name))?;
    let index = index_of(name, index, program.registers[array].len)?;
    Ok(Response::Register { value: look.register(array, index).unwrap_or(0) })
}

/// A counter of a program.
pub(super) fn counter(look: &ProgramView<'_>, name: &str, index: u64) -> Result<Response, String> {
    let program = look.program();
    if program.registers.iter().any(|of| of.name == name) {
        return Err(format!("{name} is a regarray: program register {name} {index}"));
    }
    let array = named("countarray", name, program.counters.iter().map(|of| &of.name))?;
    let index = index_of(name, index, program.counters[array].len)?;
    let (packets, bytes) = look.counter(array, index).unwrap_or_default();
    Ok(Response::Counter { packets, bytes })
}

/// The records that wait, so many at most, each with the names and numbers of its fields; how many
/// found no room so far.
pub(super) fn digests(pipeline: &mut Pipeline, name: &str) -> Result<Response, String> {
    let of = &pipeline.program().digests;
    let digest = named("digest", name, of.iter().map(|of| &of.name))?;
    let fields = pipeline.program().structs[of[digest].of].fields.clone();
    let record = |bytes: Vec<u8>| {
        let field = |field: &Field| {
            let mut of = bytes[field.offset..][..field.bits as usize / 8].to_vec();
            // Numbers have their last byte first.
            if of.len() <= 8 {
                of.reverse();
            }
            DigestField { name: field.name.clone(), value: format!("0x{}", hex(&of)) }
        };
        fields.iter().map(field).collect()
    };
    let next = || pipeline.digest(digest);
    let records = std::iter::from_fn(next).take(DIGESTS_MAX).map(record).collect();
    Ok(Response::Digests { records, untold: pipeline.untold(digest) })
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
