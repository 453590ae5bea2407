//! `niclab rules`: files of rules.

use std::fmt::Display;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use niclab_lab::spec::RulesFile;
use niclab_nic::limits::QUEUES_MAX;
use niclab_nic::rule::Action;
use niclab_nic::rule::overlap::{Pair, Report, Survey};
use niclab_nic::rule::session::{Record, Session};
use niclab_nic::rule::text::convert::{self, Format};
use niclab_nic::rule::text::{Command, Commands, ReadError};
use niclab_nic::{Nic, NicConfig};

use crate::arguments::RulesFormat;
use crate::failure::Failure;

/// Rules of a kind that are told one by one.
const SHOWN_MAX: usize = 5;

/// Carries out each file on a software card of its own, says what its commands do, and which of its
/// rules stand in each other's way. The first file that is refused ends it.
pub fn check(files: &[PathBuf]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    for path in files {
        let text = read(path)?;
        let (records, report) =
            checked(&text).map_err(|error| Failure::Rules { path: path.clone(), error })?;
        writeln!(out, "{}: {}", path.display(), counted(&records))?;
        records.iter().filter_map(told).try_for_each(|line| writeln!(out, "  {line}"))?;
        write_report(&mut out, &report)?;
    }
    Ok(())
}

/// Writes the rules of a file as `flow create` lines.
pub fn convert(from: RulesFormat, path: &Path) -> Result<(), Failure> {
    let format = match from {
        RulesFormat::Classbench => Format::ClassBench,
        RulesFormat::Ethtool => Format::Ethtool,
        RulesFormat::Tc => Format::Tc,
    };
    let bad = |error: ReadError| Failure::Rules { path: path.into(), error };
    let bytes = read(path)?;
    let text = str::from_utf8(&bytes).map_err(|error| {
        let before = bytes[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
        bad(ReadError::NotText { line: before as u64 + 1 })
    })?;
    let converted = convert::convert(format, text).map_err(|error| bad(error.into()))?;
    stdout().lock().write_all(converted.as_bytes())?;
    Ok(())
}

/// Looks a file of rules through before anything is measured with it.
pub fn file(path: &Path) -> Result<RulesFile, Failure> {
    let bad = |error: ReadError| Failure::Rules { path: path.into(), error };
    let text = read(path)?;
    let (records, _) = checked(&text).map_err(bad)?;
    let rules_count = records.iter().fold(0, |count, record| match record {
        Record::Created { .. } => count + 1,
        Record::Destroyed { .. } => count - 1,
        Record::Flushed { rules_count } => count - rules_count,
        _ => count,
    });
    let mut queues = 1;
    let mut commands = Commands::new(&text[..]);
    while let Some(next) = commands.next_command() {
        let actions = match next.map_err(bad)?.command {
            Command::Create { rule, .. } | Command::Validate { rule, .. } => rule.actions,
            Command::Update { actions, .. } => actions,
            _ => &[],
        };
        for action in actions {
            if let Action::Queue(queue) = action {
                queues = queues.max(queue + 1);
            }
        }
    }
    // As `run --resume` from another directory will look for it.
    let path = path.canonicalize().map_err(|error| bad(error.into()))?;
    Ok(RulesFile { path, rules_count, queues, rules_met: None })
}

/// The text of a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let bad = |error: std::io::Error| Failure::Rules { path: path.into(), error: error.into() };
    fs::read(path).map_err(bad)
}

/// What a text does to a card with as many queues as there can be, and which of its rules meet.
fn checked(text: &[u8]) -> Result<(Vec<Record>, Report), ReadError> {
    let config = NicConfig { queues: QUEUES_MAX, ..NicConfig::default() };
    let mut nic = Nic::new(&config).map_err(|error| ReadError::Io(std::io::Error::other(error)))?;
    let records = Session::new(0).apply(&mut nic, text)?;
    drop(nic);
    let mut survey = Survey::default();
    let mut commands = Commands::new(text);
    while let Some(next) = commands.next_command() {
        let parsed = next?;
        survey.add(parsed.line, &parsed.command);
    }
    Ok((records, survey.report()))
}

/// How many rules are created or could be, and how many other commands there are.
fn counted(records: &[Record]) -> String {
    let is_rule = |record: &&Record| matches!(record, Record::Created { .. } | Record::Validated);
    let rules_count = records.iter().filter(is_rule).count();
    let rules = plural(rules_count, "rule", "rules");
    match records.len() - rules_count {
        0 => rules,
        others => format!("{rules}, {}", plural(others, "other command", "other commands")),
    }
}

/// A count with its noun: `1 rule`, `3 rules`.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What a command says, if it is asked to say something.
fn told(record: &Record) -> Option<String> {
    match record {
        Record::Age { rule, age } => {
            let (idle_s, timeout_s) = (age.idle_ns / 1_000_000_000, age.timeout_s);
            Some(format!("rule {rule}: {idle_s} s without a packet; it ages after {timeout_s}"))
        }
        Record::Aged { rules, destroyed } => {
            let count = plural(rules.len(), "rule", "rules");
            let numbers: String = rules.iter().map(|rule| format!(" {rule}")).collect();
            Some(match destroyed {
                true => format!("{count} aged, and destroyed:{numbers}"),
                false => format!("{count} aged:{numbers}"),
            })
        }
        Record::Counted { rule, counts } => {
            Some(format!("rule {rule}: {} packets, {} bytes", counts.packets, counts.bytes))
        }
        Record::Flushed { rules_count } => {
            Some(format!("flushed {}", plural(*rules_count as usize, "rule", "rules")))
        }
        Record::Listed(rules) => {
            let line = |rule: &niclab_nic::rule::session::Listed| {
                let (group, priority) = (rule.group, rule.priority);
                format!("rule {}: group {group} priority {priority}: {}", rule.rule, rule.shape)
            };
            Some(rules.iter().map(line).collect::<Vec<_>>().join("\n  "))
        }
        Record::Isolated { on } => Some(format!(
            "packets that no rule matches are {}",
            if *on { "dropped" } else { "spread by RSS" }
        )),
        Record::Created { .. }
        | Record::Destroyed { .. }
        | Record::Set
        | Record::Updated { .. }
        | Record::Validated => None,
    }
}

fn write_report(out: &mut impl Write, report: &Report) -> Result<(), Failure> {
    let Report { shadowed, overlapped, complete } = report;
    write_pairs(out, shadowed, "never acts, for the better rule of line", "shadowed")?;
    write_pairs(out, overlapped, "shares packets with the better rule of line", "overlapped")?;
    if !complete {
        writeln!(out, "  not all rules were compared: there are too many masks")?;
    }
    Ok(())
}

fn write_pairs(
    out: &mut impl Write,
    pairs: &[Pair],
    what: impl Display,
    name: &str,
) -> Result<(), Failure> {
    if pairs.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {} {name}:", plural(pairs.len(), "rule is", "rules are"))?;
    for Pair { line, by } in pairs.iter().take(SHOWN_MAX) {
        writeln!(out, "    line {line} {what} {by}")?;
    }
    if pairs.len() > SHOWN_MAX {
        writeln!(out, "    and {} more", pairs.len() - SHOWN_MAX)?;
    }
    Ok(())
}
