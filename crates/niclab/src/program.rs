//! `niclab program`: programs of the card, read, shown and tested.

mod document;

use std::io::Write;
use std::path::{Path, PathBuf};

use niclab_device::cases::{Case, Loaded};
use niclab_program::definition::Definition;
use niclab_program::{Program, Single, Stf, Verdict, Warning, carry_out};

use crate::failure::Failure;
use crate::files::{self, PROGRAM_LEN_MAX, TEST_LEN_MAX};
use crate::output::{json, one_line, quoted, say, stdout};
use crate::rules::{counted, plural};
use document::{CheckedProgram, CheckedPrograms};

/// Entries of a table where nobody says how many.
const ENTRIES_DEFAULT: u32 = 1_024;

/// Reads programs, and says what each has, what it costs a packet at worst, and what in it is
/// surely not meant; as JSON where that is asked for. All are read; of those that are refused the
/// last is the failure, and the others are said before.
pub fn check(paths: &[PathBuf], is_json: bool) -> Result<(), Failure> {
    let mut refused: Option<Failure> = None;
    let mut documents = Vec::new();
    for path in paths {
        match read_with_warnings(path) {
            Ok((program, warnings)) if is_json => {
                documents.push(CheckedProgram::of(path, &program, &warnings));
            }
            Ok((program, warnings)) => write_checked(&mut stdout(), path, &program, &warnings)?,
            Err(failure) => {
                documents.push(CheckedProgram::refused(path, &failure));
                if let Some(before) = refused.replace(failure) {
                    say(&format!("niclab: {before}"));
                }
            }
        }
    }
    if is_json {
        json(&CheckedPrograms { programs: documents })?;
    }
    refused.map_or(Ok(()), Err)
}

/// Says what a program has, and what it costs.
fn write_checked(
    out: &mut impl Write,
    path: &Path,
    program: &Program,
    warnings: &[Warning],
) -> Result<(), Failure> {
    writeln!(
        out,
        "{}: {}, {} of {}, {}, {}\n\
         a packet at worst:\n{}",
        path.display(),
        plural(program.headers.len(), "header", "headers"),
        plural(program.tables.len(), "table", "tables"),
        plural(entries(program), "entry", "entries"),
        plural(program.actions.len(), "action", "actions"),
        plural(arrays(program), "array", "arrays"),
        program.cost(),
    )?;
    for window in &program.windows {
        writeln!(out, "window {}: {}", window.name, counted(window.len as u64, "byte", "bytes"))?;
    }
    for rings in &program.rings {
        let (name, count) = (&rings.name, rings.count);
        let bytes = count * rings.shape.bytes();
        writeln!(out, "ring {name}: {bytes} bytes in {}", plural(count, "ring", "rings"))?;
    }
    write_warnings(out, warnings)
}

/// Entries of all its tables.
fn entries(program: &Program) -> usize {
    program.tables.iter().map(|table| table.size).sum()
}

/// Arrays of registers, meters and counters.
fn arrays(program: &Program) -> usize {
    program.registers.len() + program.meters.len() + program.counters.len()
}

/// Says what in a program is surely not meant; nothing where there is nothing.
fn write_warnings(out: &mut impl Write, warnings: &[Warning]) -> Result<(), Failure> {
    if warnings.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}:", plural(warnings.len(), "warning", "warnings"))?;
    warnings.iter().try_for_each(|of| writeln!(out, "  {of}"))?;
    Ok(())
}

/// Prints a program as it is understood.
pub fn dump(path: &Path) -> Result<(), Failure> {
    write!(stdout(), "{}", read(path)?)?;
    Ok(())
}

/// Prints a program that an experiment measures.
pub fn make(name: &str, count: u32, entries: Option<u32>) -> Result<(), Failure> {
    let known = || Case::ALL.map(|(name, _)| name).join(", ");
    let found = Case::ALL.iter().find(|(known, _)| *known == name);
    let case = found.map(|(_, case)| *case).ok_or_else(|| Failure::Case {
        reason: format!("no program `{name}`: there are {}", known()),
    })?;
    let entries = entries.unwrap_or(case.entries_max().min(ENTRIES_DEFAULT));
    let text = Loaded { case, count, entries }.text();
    let text = text.map_err(|error| Failure::Case { reason: error.to_string() })?;
    write!(stdout(), "{text}")?;
    Ok(())
}

/// Checks that the machine has the memory that a program needs for its application. Otherwise the
/// system would kill some process.
pub fn fits(program: &Program) -> Result<(), String> {
    let windows = program.windows.iter().map(|window| window.len);
    let rings = program.rings.iter().map(|of| of.shape.bytes().saturating_mul(of.count));
    let takes = windows.chain(rings).fold(0, usize::saturating_add) as u64;
    let message = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = message.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    let there = words.and_then(|word| word.parse::<u64>().ok()).map_or(u64::MAX, |kib| kib * 1024);
    match takes <= there {
        true => Ok(()),
        false => Err(format!(
            "windows and rings of the program take {takes} bytes, and the machine has {there}: \
             make them smaller"
        )),
    }
}

/// Carries a packet test out by both executions.
pub fn test(test: &Path, path: &Path) -> Result<(), Failure> {
    let program = read(path).map_err(|failure| match read(test) {
        Ok(_) => swapped(test, path),
        Err(_) => failure,
    })?;
    fits(&program).map_err(|reason| Failure::Case { reason })?;
    let stf = Stf::read(&program, &files::text(test, TEST_LEN_MAX)?)
        .map_err(|error| Failure::Program { path: test.into(), error })?;
    let defined = carry_out(&stf, &mut Definition::new(program.clone()));
    if defined.packets + defined.met + defined.failures.len() == 0 {
        let reason = "no packet and no expectation: it tests nothing".to_owned();
        return Err(Failure::Application { path: test.into(), reason });
    }
    let memory = |error| Failure::ProgramMemory { path: path.into(), error };
    let fast = carry_out(&stf, &mut Single::new(program).map_err(memory)?);
    let mut out = stdout();
    for (name, Verdict { packets, met, failures }) in
        [("definition", &defined), ("fast path", &fast)]
    {
        let packets = plural(*packets, "packet", "packets");
        let met = plural(*met, "expectation", "expectations");
        writeln!(out, "{name}: {packets}, {met} met, {} not", failures.len())?;
        failures.iter().try_for_each(|failure| writeln!(out, "  {failure}"))?;
    }
    match defined.failures.len().max(fast.failures.len()) {
        0 => Ok(()),
        failures => Err(Failure::Untrue { path: test.into(), failures }),
    }
}

/// A program in the place of the test.
fn swapped(test: &Path, path: &Path) -> Failure {
    let words = [path, test].map(|path| quoted(&path.to_string_lossy()));
    let reason = format!(
        "{} is a program, and the test comes first: niclab program test {}",
        one_line(&test.to_string_lossy()),
        words.join(" ")
    );
    Failure::Case { reason }
}

/// The program in a file.
fn read(path: &Path) -> Result<Program, Failure> {
    let (program, _) = read_with_warnings(path)?;
    Ok(program)
}

/// The program in a file, and what there is to say of it.
fn read_with_warnings(path: &Path) -> Result<(Program, Vec<Warning>), Failure> {
    Program::read_with_warnings(&files::text(path, PROGRAM_LEN_MAX)?)
        .map_err(|error| Failure::Program { path: path.into(), error })
}
