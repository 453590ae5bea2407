//! `niclab ids`: rules of an intrusion detection system.

pub mod check;
mod failure;
mod run;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use niclab_ids::partition::{
    CORES_MAX, CoreShare, Partition, Placement, Reason, RuleGroup, Traffic, WideRule,
};
use niclab_ids::rule::{ERRORS_MAX, Rule, RuleError, read};
use niclab_ids::{STEERING_PROGRAM, SteeringTables, Variables};
use niclab_lab::words;
use niclab_packet::trace::{self, TraceReader};
use niclab_result::REPORT;
use niclab_result::partition::{
    PARTITION_SCHEMA, PartitionCore, PartitionDocument, PartitionGroup, PartitionTraffic,
    RuleSource,
};

use crate::arguments::{PartitionArguments, PartitionedRules};
use crate::failure::Failure;
use crate::files;
use crate::output::{json, one_line, say, stdout};
use crate::rules::counted;
use crate::tables::{self, Grid};

pub use failure::IdsFailure;
pub use run::run;

/// The configuration that Debian's package of Suricata has.
const CONFIG: &str = "/etc/suricata/suricata.yaml";
/// Bytes of a configuration.
const CONFIG_LEN_MAX: u64 = 4 << 20;
/// Bytes of a file of rules: some hundred thousand.
const RULES_LEN_MAX: u64 = 256 << 20;
/// The card's program, and its tables.
const CARD_PROGRAM: &str = "card.spec";
const CARD_TABLES: &str = "card.json";
/// Groups with a reason that the terminal shows.
const GROUPS_SHOWN_MAX: usize = 5;

/// Divides rules over cores, and writes the rules of each core.
pub fn partition(arguments: &PartitionArguments) -> Result<(), Failure> {
    let path = &arguments.output;
    PartitionDocument::make_place(path)?;
    let written = divided(&arguments.rules).and_then(|Divided { document, files, .. }| {
        document.write(path, &files, &niclab_report::partition_html(&document)?)?;
        Ok(document)
    });
    let document = written.inspect_err(|_| remove(path, arguments.rules.cores))?;
    match arguments.json {
        true => json(&document)?,
        false => print(&document)?,
    }
    let place = one_line(&path.display().to_string());
    say(&format!("rules: {place}/core-*.rules"));
    say(&match &document.card_lacks {
        None => format!("card: {place}/{CARD_PROGRAM}, {place}/{CARD_TABLES}"),
        Some(reason) => format!("no program for the card: {}", one_line(reason)),
    });
    say(&format!("report: {}", one_line(&path.join(REPORT).display().to_string())));
    Ok(())
}

/// Removes what was written into a directory that this command made.
fn remove(path: &Path, cores: usize) {
    let others = [CARD_PROGRAM, CARD_TABLES, REPORT].map(str::to_owned);
    let files = (0..cores.min(CORES_MAX)).map(file_name).chain(others);
    for file in files {
        let _ = fs::remove_file(path.join(file));
    }
    let _ = fs::remove_dir(path);
}

fn file_name(core: usize) -> String {
    format!("core-{core}.rules")
}

/// Rules that are divided over cores.
struct Divided {
    rules: Vec<Rule>,
    partition: Partition,
    document: PartitionDocument,
    /// The other files, with their names.
    files: Vec<(String, String)>,
}

/// Reads the rules of files, and divides them.
fn divided(arguments: &PartitionedRules) -> Result<Divided, Failure> {
    let variables = variables(arguments.config.as_deref())?;
    let (rules, sources) =
        read_rules(&arguments.rules, |text| read(text, &variables), |rule| rule)?;
    let mut traffic = Traffic::default();
    for path in &arguments.trace {
        add_trace(path, &mut traffic)?;
    }
    let partition =
        Partition::new(&rules, &traffic, arguments.cores).map_err(IdsFailure::Partition)?;
    let on = |core| {
        let has = |rule: &usize| partition.has(core, *rule);
        (0..rules.len()).filter(has).collect::<Vec<usize>>()
    };
    let text = |core| -> String {
        on(core).into_iter().map(|rule| rules[rule].text.clone() + "\n").collect()
    };
    let mut files: Vec<_> =
        (0..arguments.cores).map(|core| (file_name(core), text(core))).collect();
    let card = SteeringTables::of(&partition);
    if let Ok(tables) = &card {
        let tables = serde_json::to_string(tables).map_err(std::io::Error::from)?;
        files.push((CARD_PROGRAM.to_owned(), STEERING_PROGRAM.to_owned()));
        files.push((CARD_TABLES.to_owned(), tables));
    }
    let is_alone =
        |rule| (0..arguments.cores).filter(|&core| partition.has(core, rule)).count() == 1;
    let core = |(core, share): (usize, &CoreShare)| PartitionCore {
        file: file_name(core),
        rules: on(core).len(),
        placed_rules: on(core).into_iter().filter(|&rule| is_alone(rule)).count(),
        traffic_ratio: share.traffic_ratio,
        cost_ratio: share.cost_ratio,
    };
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    let traffic = (!arguments.trace.is_empty()).then(|| PartitionTraffic {
        paths: paths(&arguments.trace),
        packets: traffic.packets(),
        packets_to_all: traffic.others(),
    });
    let mut groups: Vec<_> =
        partition.groups().iter().map(|of| group(of, &rules, partition.reporters())).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.rules));
    let document = PartitionDocument {
        schema: PARTITION_SCHEMA,
        program: format!("niclab {}", env!("CARGO_PKG_VERSION")),
        sources,
        traffic,
        reporters: partition.reporters().to_vec(),
        cores: partition.shares().iter().enumerate().map(core).collect(),
        groups,
        card_lacks: card.err().map(|error| error.to_string()),
    };
    Ok(Divided { rules, partition, document, files })
}

fn group(group: &RuleGroup, rules: &[Rule], reporters: &[usize]) -> PartitionGroup {
    let sids = group.rules.iter().map(|&rule| rules[rule].sid).collect();
    let any_flow = "these rules can match any flow".to_owned();
    let (core, reason) = match (group.placement, reporters) {
        (Placement::Core(core), _) => {
            let wide = |of: &WideRule| format!("rule {}: {}", rules[of.rule].sid, of.reason);
            (Some(core), group.wide.as_ref().map(wide))
        }
        (Placement::Replicated(Reason::AnyFlow), &[core]) => (Some(core), Some(any_flow)),
        (Placement::Replicated(Reason::AnyFlow), _) => (None, Some(any_flow)),
        (Placement::Replicated(Reason::Pass), _) => {
            (None, Some("these rules decide whether others are tried".to_owned()))
        }
    };
    let concerns = group.region().to_string();
    PartitionGroup { concerns, rules: group.rules.len(), sids, core, reason }
}

/// The variables of a configuration: the named one, or that of the system if there is one.
fn variables(config: Option<&Path>) -> Result<Variables, Failure> {
    let default = Path::new(CONFIG);
    let path = match config {
        Some(path) => path,
        None if default.exists() => default,
        None => return Ok(Variables::default()),
    };
    let text = files::text(path, CONFIG_LEN_MAX)?;
    let bad = |error| IdsFailure::Config { path: path.to_owned(), error };
    Ok(Variables::from_config(&text).map_err(bad)?)
}

/// The rules of all files, by a function that reads a file. `rule_of` names the rule in its result.
/// The errors of all files are reported together.
fn read_rules<T>(
    paths: &[PathBuf],
    read: impl Fn(&str) -> Result<Vec<T>, Vec<RuleError>>,
    rule_of: impl Fn(&T) -> &Rule,
) -> Result<(Vec<T>, Vec<RuleSource>), Failure> {
    let (mut rules, mut sources, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let mut places: HashMap<(u32, u32), (&Path, u64)> = HashMap::new();
    let only_first = || say(&format!("only the first {ERRORS_MAX} errors of a file are shown"));
    for path in paths {
        let read = match files::text(path, RULES_LEN_MAX).map(|text| read(&text)) {
            Ok(Ok(read)) => read,
            Ok(Err(errors)) => {
                if errors.len() == ERRORS_MAX {
                    only_first();
                }
                let failure = |error| IdsFailure::Rule { path: path.clone(), error };
                failures.extend(errors.into_iter().map(failure).map(Failure::from));
                continue;
            }
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        sources.push(RuleSource { path: path.display().to_string(), rules: read.len() });
        let mut duplicates = 0;
        for read in read {
            let rule = rule_of(&read);
            match places.entry((rule.gid, rule.sid)) {
                Entry::Vacant(place) => {
                    place.insert((path, rule.line));
                    rules.push(read);
                }
                Entry::Occupied(_) if duplicates == ERRORS_MAX => {
                    only_first();
                    break;
                }
                Entry::Occupied(place) => {
                    let &(other, line) = place.get();
                    let (path, other) = (path.clone(), other.to_owned());
                    let (sid, at) = (rule.sid, rule.line);
                    failures.push(IdsFailure::Duplicate { path, at, sid, other, line }.into());
                    duplicates += 1;
                }
            }
        }
    }
    match Failure::of(failures) {
        Ok(()) => Ok((rules, sources)),
        Err(failure) => Err(failure),
    }
}

/// Counts the frames of a trace by their flows.
fn add_trace(path: &Path, traffic: &mut Traffic) -> Result<(), Failure> {
    let bad = |reason: String| Failure::Trace { path: path.to_owned(), reason };
    let file = trace::open(path)
        .map_err(|error| bad(files::reason(path, &error, "give a pcap or pcapng file")))?;
    let mut reader = TraceReader::new(file).map_err(|error| bad(error.to_string()))?;
    let mut is_empty = true;
    loop {
        let record = reader.next_record();
        let was_empty = std::mem::replace(&mut is_empty, false);
        match record {
            Ok(Some(record)) if record.link_type == trace::LINK_ETHERNET => {
                traffic.add_frame(record.data);
            }
            // No card has such frames; an engine reads them all the same.
            Ok(Some(_)) => traffic.add_frame(&[]),
            Ok(None) if was_empty => {
                return Err(bad("it has no frame; give another".to_owned()));
            }
            Ok(None) => return Ok(()),
            // A capture that was stopped ends within a record, and its other records are good.
            Err(error) if !was_empty => {
                let path = one_line(&path.display().to_string());
                say(&format!(
                    "trace {path}: only the records before this one are used: {}",
                    one_line(&error.to_string())
                ));
                return Ok(());
            }
            Err(error) => return Err(bad(error.to_string())),
        }
    }
}

/// Prints the share of each core, and the groups on several.
fn print(document: &PartitionDocument) -> Result<(), Failure> {
    let (out, width) = (&mut stdout(), tables::width());
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    let row = |(at, core): (usize, &PartitionCore)| {
        let [cost, traffic] = [core.cost_ratio, core.traffic_ratio].map(percent);
        let [rules, placed] =
            [core.rules, core.placed_rules].map(|count| words::whole(count as f64));
        vec![at.to_string(), cost, traffic, rules, placed]
    };
    let columns = ["core", "work", "packets", "rules", "only here"].map(str::to_owned).to_vec();
    let rows = document.cores.iter().enumerate().map(row).collect();
    writeln!(out, "{}", tables::wrapped(&document.lead(), width))?;
    Grid { columns, rows }.print(width, out)?;
    let with_reason = document.groups.iter().filter(|group| group.reason.is_some());
    let mut with_reason: Vec<&PartitionGroup> = with_reason.collect();
    // The groups of the busiest core first.
    let work = |core: Option<usize>| core.map_or(0.0, |core| document.cores[core].cost_ratio);
    with_reason.sort_by(|a, b| work(b.core).total_cmp(&work(a.core)));
    for group in with_reason.iter().take(GROUPS_SHOWN_MAX) {
        let place = group.core.map_or("several cores".to_owned(), |core| format!("core {core}"));
        let reason = group.reason.as_deref().unwrap_or_default();
        let more = if group.rules > 1 { " …" } else { "" };
        let line = format!(
            "{place}: {} on {}: {reason} (sid {}{more})",
            counted(group.rules as u64, "rule", "rules"),
            group.concerns,
            group.sids.first().copied().unwrap_or_default()
        );
        writeln!(out, "{}", tables::wrapped(&line, width))?;
    }
    let more = with_reason.len().saturating_sub(GROUPS_SHOWN_MAX);
    if more > 0 {
        let more = counted(more as u64, "more group", "more groups");
        writeln!(out, "and {more} with a reason: see the report")?;
    }
    writeln!(out, "{}", tables::wrapped(&document.about_traffic(), width))?;
    Ok(())
}
