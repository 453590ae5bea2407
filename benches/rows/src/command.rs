//! The command `cargo bench … --bench rows -- …`: what can be typed, and how it ends.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use niclab_device::cores::allowed;

use crate::sheet::{self, SheetError};
use crate::{Bench, BenchError, Row, Subject, rows};

const EXAMPLES: &str = "\
Examples:
  cargo bench -p niclab-bench --bench rows
      all rows: a minute or two
  cargo bench -p niclab-bench --bench rows -- exact insert --pairs 61
      look-ups and new keys, twice as many pairs
  cargo bench -p niclab-bench --bench rows -- acl --rules \"$PWD\"/*_10k.rules
      sets of rules of your own

cargo runs this in benches/rows: give files and directories by their absolute paths.
benches/peers/build makes the peers; a row without its peer has our figure, and no verdict.

Exit codes:
  0    done, whatever the verdicts are
  1    a row could not be measured, or the output went away
  2    the command line cannot be understood, or names a directory that is not there
  3    the core cannot be used";

/// Measure how fast the software card is here, beside the peers of benches/peers
#[derive(Debug, Parser)]
#[command(
    name = "rows",
    bin_name = "cargo bench -p niclab-bench --bench rows --",
    max_term_width = 100,
    after_help = EXAMPLES
)]
struct Arguments {
    /// What to measure [default: all]
    #[arg(value_enum, value_name = "ROW")]
    subjects: Vec<Subject>,
    /// Sets of rules for `acl`, as ClassBench writes them [default: generated ones]
    #[arg(long, value_name = "FILE", num_args = 1..)]
    rules: Vec<PathBuf>,
    /// Pairs of slices, ours and the peer's; fewer than 30 decide nothing, fewer than 6 have no
    /// interval [default: 31]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: Option<u32>,
    /// Where benches/peers/build put the peers [default: target/peers]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// The core that both take in turn; of two hosts, the client's [default: 1, if there is one]
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// Why the command ended without success.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// This thread cannot be kept on its core.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// A core that is not there, or that this process may not use.
    #[error("core {core}: choose one of the cores this process may use: {}", listed(there))]
    Core {
        /// What was asked for.
        core: usize,
        /// What may be used.
        there: Vec<u32>,
    },
    /// A directory of peers that is not there.
    #[error(
        "--peers {}: no such directory; benches/peers/build makes target/peers",
        path.display()
    )]
    NoPeers {
        /// What was asked for.
        path: PathBuf,
    },
    /// The rows were not printed to the last one.
    #[error(transparent)]
    Sheet(#[from] SheetError),
}

/// Numbers between commas.
fn listed(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl CommandError {
    fn code(&self) -> u8 {
        match self {
            CommandError::Bench(_) | CommandError::Sheet(_) => 1,
            CommandError::NoPeers { .. } => 2,
            CommandError::Core { .. } => 3,
        }
    }

    /// Whether whoever reads the output has enough of it, such as `head`: no failure at all.
    fn is_closed_pipe(&self) -> bool {
        let CommandError::Sheet(SheetError::Output(error)) = self else { return false };
        error.kind() == ErrorKind::BrokenPipe
    }
}

/// Reads the arguments of this process, measures and prints.
pub fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // A reader that went away must not hide how it ended.
            let _ = writeln!(io::stderr(), "rows: {error}");
            ExitCode::from(error.code())
        }
    }
}

/// Measures the rows that were asked for and prints each as soon as it is decided.
fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let defaults = Bench::default();
    let there = allowed();
    let core = core(arguments.core, &there)?;
    let bench = Bench {
        core,
        other: there.iter().map(|&one| one as usize).find(|&one| one != core),
        pairs: arguments.pairs.map_or(defaults.pairs, |pairs| pairs as usize),
        peers: peers(arguments.peers.as_deref(), defaults.peers)?,
        ..defaults
    };
    bench.pin()?;
    let asked = &arguments.subjects;
    let rows = rows(&arguments.rules);
    let rows = rows.iter().filter(|row| asked.is_empty() || asked.contains(&row.subject));
    Ok(sheet::print(&bench, &rows.collect::<Vec<&Row>>(), &mut io::stdout().lock())?)
}

/// Where the peers are. A directory that was named has to be there; without one rows have no peer.
fn peers(asked: Option<&Path>, default: PathBuf) -> Result<PathBuf, CommandError> {
    match asked {
        Some(path) if !path.is_dir() => Err(CommandError::NoPeers { path: path.into() }),
        Some(path) => Ok(path.into()),
        None => Ok(default),
    }
}

/// The core that was asked for, else the second of those `there`, or the only one.
fn core(asked: Option<usize>, there: &[u32]) -> Result<usize, CommandError> {
    let default = there.get(1).or(there.first()).map_or(0, |&core| core as usize);
    match asked {
        Some(core) if !there.iter().any(|&one| one as usize == core) => {
            Err(CommandError::Core { core, there: there.to_vec() })
        }
        asked => Ok(asked.unwrap_or(default)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn a_directory_of_peers_that_is_named_has_to_be_there() {
        let default = || PathBuf::from("target/peers");
        assert_eq!(peers(None, default()).unwrap(), default());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(peers(Some(here), default()).unwrap(), here);
        let absent = peers(Some(Path::new("no/such")), default()).unwrap_err();
        let said = "--peers no/such: no such directory; benches/peers/build makes target/peers";
        assert_eq!((absent.to_string().as_str(), absent.code()), (said, 2));
    }

    #[test]
    fn the_core_is_one_of_those_there() {
        let ok = |asked, there: &[u32]| core(asked, there).unwrap();
        assert_eq!((ok(None, &[0, 1, 2]), ok(None, &[3]), ok(None, &[4, 7])), (1, 3, 7));
        assert_eq!((ok(Some(0), &[0, 1]), ok(Some(7), &[4, 7])), (0, 7));
        let said = |asked, there: &[u32]| core(Some(asked), there).unwrap_err().to_string();
        assert_eq!(
            said(99, &[0, 1]),
            "core 99: choose one of the cores this process may use: 0, 1"
        );
    }

    #[test]
    fn a_core_that_is_not_there_is_refused_with_those_that_are() {
        let said = format!("choose one of the cores this process may use: {}", listed(&allowed()));
        for core in ["1024", "18446744073709551615"] {
            let arguments = Arguments::try_parse_from(["rows", "--core", core, "--bench"]).unwrap();
            let refused = run(&arguments).unwrap_err();
            assert_eq!((refused.to_string(), refused.code()), (format!("core {core}: {said}"), 3));
        }
    }

    #[test]
    fn the_description_contradicts_itself_nowhere() {
        Arguments::command().debug_assert();
    }

    /// Every document of the tree, but what a build made.
    fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let is_made = name == "target" || name == "node_modules" || name.starts_with('.');
            if path.is_dir() && !path.is_symlink() && !is_made {
                documents(&path, found);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }

    #[test]
    fn commands_in_the_documents_can_be_typed() {
        let mut paths = Vec::new();
        documents(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut paths);
        let mut typed = 0;
        for path in paths {
            for line in fs::read_to_string(&path).unwrap().lines() {
                let Some((_, words)) = line.split_once("niclab-bench --bench rows -- ") else {
                    continue;
                };
                let words = words.split(['#', '`', '|', '>', ';']).next().unwrap();
                let words = ["rows"].into_iter().chain(words.split_whitespace());
                typed += 1;
                if let Err(error) = Arguments::try_parse_from(words) {
                    assert!(!error.use_stderr(), "{}: {line}\n{error}", path.display());
                }
            }
        }
        assert!(typed >= 3, "only {typed} commands found: the documents were not read");
    }
}
