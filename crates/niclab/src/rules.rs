//! `niclab rules`: files of rules.

mod document;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use niclab_control::{FlowDone, ListedRule};
use niclab_lab::spec::RulesFile;
use niclab_lab::words;
use niclab_nic::limits::{PORTS_MAX, QUEUES_MAX};
use niclab_nic::rule::Action;
use niclab_nic::rule::overlap::{DanglingJump, Pair, Report, Survey, UnreachableGroup};
use niclab_nic::rule::session::{Record, RuleSummary, Session};
use niclab_nic::rule::text::convert::{self, Format};
use niclab_nic::rule::text::{Command, Commands, ReadError, by_port, port_of};
use niclab_nic::{Age, Counts, Nic, NicConfig};

use crate::arguments::{CheckArguments, RulesFormat};
use crate::failure::Failure;
use crate::files::{self, RULES_LEN_MAX};
use crate::output::{self, stdout};
use document::{CheckedFiles, CheckedRules};

/// Rules of a kind that are told one by one, unless all are asked for.
const SHOWN_MAX: usize = 5;

/// Carries out each file on a software card of its own, says what its commands do, and what there
/// is to say of its rules; as JSON where that is asked for. One that is refused is no reason not to
/// look at the next.
pub fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let shown_max = if arguments.all { usize::MAX } else { SHOWN_MAX };
    let (mut failures, mut amiss, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for path in &arguments.files {
        match checked_file(path) {
            Ok(file) => {
                if !file.is_clean() {
                    amiss.push(path.clone());
                }
                match arguments.json {
                    true => documents.push(CheckedRules::of(&file)),
                    false => {
                        if let Err(failure) = file.write(&mut stdout(), shown_max) {
                            // Nobody would hear of the others.
                            failures.push(failure);
                            return Failure::of(failures);
                        }
                    }
                }
            }
            Err(failure) => {
                documents.push(CheckedRules::refused(path, &failure));
                failures.push(failure);
            }
        }
    }
    if arguments.json
        && let Err(failure) = output::json(&CheckedFiles { files: documents })
    {
        failures.push(failure);
        return Failure::of(failures);
    }
    if arguments.strict && !amiss.is_empty() {
        failures.push(Failure::Amiss { files: amiss });
    }
    Failure::of(failures)
}

/// A file whose commands were carried out.
struct CheckedFile<'a> {
    path: &'a Path,
    /// Each port that it names; port 0 where it names none.
    ports: Vec<CheckedPort>,
}

/// The operations at a port, and the remarks on its rules.
struct CheckedPort {
    port: u16,
    records: Vec<Record>,
    report: Report,
}

/// Carries out a file, each command on the port that it names.
fn checked_file(path: &Path) -> Result<CheckedFile<'_>, Failure> {
    let bad = |error: ReadError| Failure::Rules { path: path.into(), error };
    let text = text(path)?;
    let (mut named, mut unknown) = (BTreeSet::new(), None);
    for port in text.lines().filter_map(port_of) {
        // A port that no card has is refused by the first, and so is the first such line.
        if port < PORTS_MAX {
            named.insert(port);
        } else {
            unknown.get_or_insert(port);
        }
    }
    named.extend(unknown);
    if named.is_empty() {
        named.insert(0);
    }
    let (mut ports, mut first_wrong) = (Vec::new(), None);
    for (port, text) in by_port(&text, named.iter().copied()) {
        let on = if port < PORTS_MAX { port } else { 0 };
        match checked(&text, on, PORTS_MAX) {
            Ok((records, report)) => ports.push(CheckedPort { port, records, report }),
            Err(error) => {
                let is_first = first_wrong.as_ref().is_none_or(|it| line_of(&error) < line_of(it));
                first_wrong = if is_first { Some(error) } else { first_wrong };
            }
        }
    }
    match first_wrong {
        Some(error) => Err(bad(error)),
        None => Ok(CheckedFile { path, ports }),
    }
}

impl CheckedFile<'_> {
    /// Whether there is nothing to mend.
    fn is_clean(&self) -> bool {
        self.ports.iter().all(|of| of.report.is_clean())
    }

    /// Rules that are created or could be, and other commands.
    fn counts(&self) -> (usize, usize) {
        let records = self.ports.iter().flat_map(|of| &of.records);
        let (rules, others): (Vec<&Record>, Vec<&Record>) = records
            .partition(|record| matches!(record, Record::Created { .. } | Record::Validated));
        (rules.len(), others.len())
    }

    fn write(&self, out: &mut impl Write, shown_max: usize) -> Result<(), Failure> {
        let (rules, others) = self.counts();
        let rules = plural(rules, "rule", "rules");
        let counted = match others {
            0 => rules,
            others => format!("{rules}, {}", plural(others, "other command", "other commands")),
        };
        writeln!(out, "{}: {counted}", self.path.display())?;
        for CheckedPort { port, records, report } in &self.ports {
            let port = if self.ports.len() > 1 { format!("port {port}: ") } else { String::new() };
            let message = records.iter().filter_map(|record| output(&done(0, record.clone())));
            message.into_iter().try_for_each(|line| writeln!(out, "  {port}{line}"))?;
            write_report(out, report, shown_max)?;
        }
        Ok(())
    }
}

/// The line that an error is about.
fn line_of(error: &ReadError) -> u64 {
    match error {
        ReadError::Io(_) => 0,
        ReadError::NotText { line } | ReadError::TooLong { line } => *line,
        ReadError::Text(error) => error.line(),
    }
}

/// Writes the rules of a file as `flow create` lines.
pub fn convert(from: RulesFormat, path: &Path) -> Result<(), Failure> {
    let format = match from {
        RulesFormat::Classbench => Format::ClassBench,
        RulesFormat::Ethtool => Format::Ethtool,
        RulesFormat::Tc => Format::Tc,
    };
    let bad = |error: ReadError| Failure::Rules { path: path.into(), error };
    let text = text(path)?;
    let converted = convert::convert(format, &text).map_err(|error| bad(error.into()))?;
    stdout().write_all(converted.as_bytes())?;
    Ok(())
}

/// Looks a file of rules through before anything is measured with it.
pub fn file(path: &Path) -> Result<RulesFile, Failure> {
    let bad = |error: ReadError| Failure::Rules { path: path.into(), error };
    let text = utf8(path, read(path)?)?;
    let (records, _) = checked(&text, 0, 1).map_err(bad)?;
    let rules_count = records.iter().fold(0, |count, record| match record {
        Record::Created { .. } => count + 1,
        Record::Destroyed { .. } => count - 1,
        Record::Flushed { rules_count } => count - rules_count,
        _ => count,
    });
    let mut queues = 1;
    let mut commands = Commands::new(text.as_bytes());
    while let Some(next) = commands.next_command() {
        let actions = match next.map_err(bad)?.command {
            Command::Create { rule, .. } | Command::Validate { rule, .. } => rule.actions,
            Command::Update { actions, .. } => actions,
            _ => &[],
        };
        for action in actions {
            let named: &[u16] = match action {
                Action::Queue(queue) => std::slice::from_ref(queue),
                Action::Rss(rss) => &rss.queues,
                _ => &[],
            };
            queues = named.iter().fold(queues, |queues, queue| queues.max(queue + 1));
        }
    }
    // As `run --resume` from another directory will look for it.
    let path = path.canonicalize().map_err(|error| bad(error.into()))?;
    Ok(RulesFile { path, rules_count, queues, rules_met: None })
}

/// The bytes of a file that a run is to keep: no more than a result directory holds.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    files::read(path, niclab_result::limits::RULES_LEN_MAX)
}

/// The text of a file of at most [`RULES_LEN_MAX`] bytes.
pub fn text(path: &Path) -> Result<String, Failure> {
    utf8(path, files::read(path, RULES_LEN_MAX)?)
}

/// The text that the bytes of a file are to be.
fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let before = valid.iter().filter(|&&byte| byte == b'\n').count();
        let error = ReadError::NotText { line: before as u64 + 1 };
        Failure::Rules { path: path.into(), error }
    })
}

/// Carries out a text at a port of a card with `ports` ports and the most queues, and finds
/// overlapping rules.
fn checked(text: &str, port: u16, ports: u16) -> Result<(Vec<Record>, Report), ReadError> {
    let config = NicConfig { queues: QUEUES_MAX, ports, ..NicConfig::default() };
    let mut nic = Nic::new(&config).map_err(|error| ReadError::Io(std::io::Error::other(error)))?;
    let records = Session::new(port).apply(&mut nic, text.as_bytes())?;
    drop(nic);
    let mut survey = Survey::default();
    let mut commands = Commands::new(text.as_bytes());
    while let Some(next) = commands.next_command() {
        let parsed = next?;
        survey.add(&parsed);
    }
    Ok((records, survey.report()))
}

/// A count with its noun: `1 rule`, `3 rules`.
pub fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The same of a count that may be large: `10,001 rules`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", words::whole(count as f64), if count == 1 { one } else { many })
}

/// The result of a command at a port, as the control protocol has it.
pub fn done(port: u16, record: Record) -> FlowDone {
    match record {
        Record::Age { rule, age: Age { idle_ns, timeout_s } } => {
            FlowDone::Age { port, rule, idle_ns, timeout_s }
        }
        Record::Aged { rules, destroyed } => FlowDone::Aged { port, rules, destroyed },
        Record::Counted { rule, counts: Counts { packets, bytes } } => {
            FlowDone::Counted { port, rule, packets, bytes }
        }
        Record::Created { rule } => FlowDone::Created { port, rule },
        Record::Destroyed { rule } => FlowDone::Destroyed { port, rule },
        Record::Flushed { rules_count } => FlowDone::Flushed { port, rules_count },
        Record::Isolated { on } => FlowDone::Isolated { port, on },
        Record::Listed(rules) => {
            let rule = |RuleSummary { rule, group, priority, shape }| ListedRule {
                rule,
                group,
                priority,
                shape,
            };
            FlowDone::Listed { port, rules: rules.into_iter().map(rule).collect() }
        }
        Record::Set => FlowDone::Set { port },
        Record::Updated { rule } => FlowDone::Updated { port, rule },
        Record::Validated => FlowDone::Validated { port },
    }
}

/// The output of a command, if it has any.
pub fn output(done: &FlowDone) -> Option<String> {
    Some(match done {
        FlowDone::Age { rule, idle_ns, timeout_s, .. } => {
            let idle_s = idle_ns / 1_000_000_000;
            format!("rule {rule}: {idle_s} s without a packet; it ages after {timeout_s}")
        }
        FlowDone::Aged { rules, destroyed, .. } => {
            let count = plural(rules.len(), "rule", "rules");
            let numbers: String = rules.iter().map(|rule| format!(" {rule}")).collect();
            match destroyed {
                true => format!("{count} aged, and destroyed:{numbers}"),
                false => format!("{count} aged:{numbers}"),
            }
        }
        FlowDone::Counted { rule, packets, bytes, .. } => {
            let packets = plural(*packets as usize, "packet", "packets");
            format!("rule {rule}: {packets}, {bytes} bytes with FCS")
        }
        FlowDone::Flushed { rules_count, .. } => {
            format!("flushed {}", plural(*rules_count as usize, "rule", "rules"))
        }
        FlowDone::Isolated { on, .. } => {
            let what = if *on { "dropped" } else { "spread by RSS" };
            format!("packets that no rule matches are {what}")
        }
        FlowDone::Listed { rules, .. } if rules.is_empty() => "no rules".to_owned(),
        FlowDone::Listed { rules, .. } => {
            let line = |rule: &ListedRule| {
                let (group, priority) = (rule.group, rule.priority);
                format!("rule {}: group {group} priority {priority}: {}", rule.rule, rule.shape)
            };
            rules.iter().map(line).collect::<Vec<_>>().join("\n  ")
        }
        FlowDone::Created { .. }
        | FlowDone::Destroyed { .. }
        | FlowDone::Set { .. }
        | FlowDone::Updated { .. }
        | FlowDone::Validated { .. } => return None,
    })
}

fn write_report(out: &mut impl Write, report: &Report, shown_max: usize) -> Result<(), Failure> {
    let rules = |count| plural(count, "rule is", "rules are");
    let Report { shadowed, overlapped, unreachable_groups, dangling_jumps, bare, .. } = report;
    let head = format!("{} shadowed", rules(shadowed.len()));
    write_kind(out, shown_max, &head, shadowed, |Pair { line, by }| {
        format!(
            "line {line} never acts: the rule of line {by} has precedence and matches all its \
             packets"
        )
    })?;
    let head = format!("{} overlapped", rules(overlapped.len()));
    write_kind(out, shown_max, &head, overlapped, |Pair { line, by }| {
        format!("line {line} loses some packets to the rule of line {by}, which has precedence")
    })?;
    match report.exceptions_count {
        0 => {}
        1 => writeln!(out, "  1 rule is an exception to a wider rule of lower precedence")?,
        count => {
            writeln!(out, "  {count} rules are exceptions to wider rules of lower precedence")?
        }
    }
    let head =
        format!("{} never reached", plural(unreachable_groups.len(), "group is", "groups are"));
    write_kind(
        out,
        shown_max,
        &head,
        unreachable_groups,
        |UnreachableGroup { group, line, rules_count }| {
            let rules = plural(*rules_count as usize, "rule never acts", "rules never act");
            format!("line {line}: no packet is sent to group {group}, whose {rules}")
        },
    )?;
    let jumps = plural(dangling_jumps.len(), "rule jumps", "rules jump");
    let head =
        format!("{jumps} to a group without rules; RSS spreads such packets, isolation drops them");
    write_kind(out, shown_max, &head, dangling_jumps, |DanglingJump { line, group }| {
        format!("line {line} jumps to group {group}, which has no rule")
    })?;
    let values = plural(bare.len(), "item has", "items have");
    let get = if bare.len() == 1 { "gets" } else { "get" };
    let head = format!(
        "{values} a spec without a mask and {get} rte_flow's default mask; write `is`, or add a \
         mask"
    );
    write_kind(out, shown_max, &head, bare, |(line, bare)| format!("line {line}: {bare}"))?;
    match report.uncompared_count {
        0 => {}
        1 => writeln!(out, "  1 rule has a range that is not compared with other rules")?,
        count => {
            writeln!(out, "  {count} rules have ranges that are not compared with other rules")?
        }
    }
    if !report.complete {
        writeln!(out, "  not all rules were compared: there are too many masks")?;
    }
    Ok(())
}

/// Writes what there is to say of a kind, the first ones by line.
fn write_kind<T>(
    out: &mut impl Write,
    shown_max: usize,
    head: &str,
    found: &[T],
    line: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {head}:")?;
    for found in found.iter().take(shown_max) {
        writeln!(out, "    {}", line(found))?;
    }
    if found.len() > shown_max {
        writeln!(out, "    and {} more: --all lists them", found.len() - shown_max)?;
    }
    Ok(())
}
