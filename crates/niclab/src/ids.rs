//! `niclab ids`: rules of an intrusion detection.

mod failure;

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use niclab_ids::Variables;
use niclab_ids::partition::{
    CORES_MAX, CoreShare, Partition, Placement, Reason, RuleGroup, Traffic,
};
use niclab_ids::rule::{Rule, read};
use niclab_packet::trace::{self, TraceReader};
use niclab_result::REPORT;
use niclab_result::partition::{
    PARTITION_SCHEMA, PartitionCore, PartitionDocument, PartitionGroup, PartitionTraffic,
    RuleSource,
};

use crate::arguments::PartitionArguments;
use crate::failure::Failure;
use crate::files;
use crate::output::{json, one_line, say, stdout};
use crate::rules::plural;
use crate::tables::{self, Grid};

pub use failure::IdsFailure;

/// The configuration that Debian's package of Suricata has.
const CONFIG: &str = "/etc/suricata/suricata.yaml";
/// Bytes of a configuration.
const CONFIG_LEN_MAX: u64 = 4 << 20;
/// Bytes of a file of rules: some hundred thousand.
const RULES_LEN_MAX: u64 = 256 << 20;
/// `sid`s of a group in the document.
const SIDS_MAX: usize = 10;
/// Groups on several cores that the terminal shows.
const GROUPS_SHOWN_MAX: usize = 5;

/// Divides rules over cores, and writes the rules of each core.
pub fn partition(arguments: &PartitionArguments) -> Result<(), Failure> {
    let path = &arguments.output;
    PartitionDocument::make_place(path)?;
    let written = divided(arguments).and_then(|(document, rules)| {
        document.write(path, &rules, &niclab_report::partition_html(&document)?)?;
        Ok(document)
    });
    let document = written.inspect_err(|_| remove(path, arguments.cores))?;
    match arguments.json {
        true => json(&document)?,
        false => print(&document)?,
    }
    say(&format!("rules: {}/core-*.rules", one_line(&path.display().to_string())));
    say(&format!("report: {}", one_line(&path.join(REPORT).display().to_string())));
    Ok(())
}

/// Removes what was written into a directory that this command made.
fn remove(path: &Path, cores: usize) {
    let files = (0..cores.min(CORES_MAX)).map(file_name).chain([REPORT.to_owned()]);
    for file in files {
        let _ = fs::remove_file(path.join(file));
    }
    let _ = fs::remove_dir(path);
}

fn file_name(core: usize) -> String {
    format!("core-{core}.rules")
}

/// The document, and the text of each core's rules.
fn divided(arguments: &PartitionArguments) -> Result<(PartitionDocument, Vec<String>), Failure> {
    let (rules, sources) = rules(&arguments.rules, &variables(arguments.config.as_deref())?)?;
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
    let texts: Vec<String> = (0..arguments.cores).map(text).collect();
    let core = |(core, share): (usize, &CoreShare)| PartitionCore {
        file: file_name(core),
        rules: on(core).len(),
        placed_rules: share.placed_rules,
        traffic_ratio: share.traffic_ratio,
        cost_ratio: share.cost_ratio,
    };
    let paths = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    let traffic = (!arguments.trace.is_empty()).then(|| PartitionTraffic {
        paths: paths(&arguments.trace),
        packets: traffic.packets(),
        packets_to_all: traffic.others(),
    });
    let mut groups: Vec<_> = partition.groups().iter().map(|of| group(of, &rules)).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.rules));
    let document = PartitionDocument {
        schema: PARTITION_SCHEMA,
        program: format!("niclab {}", env!("CARGO_PKG_VERSION")),
        sources,
        traffic,
        cores: partition.shares().iter().enumerate().map(core).collect(),
        groups,
    };
    Ok((document, texts))
}

fn group(group: &RuleGroup, rules: &[Rule]) -> PartitionGroup {
    let sids = group.rules.iter().take(SIDS_MAX).map(|&rule| rules[rule].sid).collect();
    let (core, reason) = match (group.placement, &group.wide_keyword) {
        (Placement::Core(core), Some(keyword)) => {
            let reason =
                format!("`{keyword}` has state of more than one flow: one core must see all");
            (Some(core), Some(reason))
        }
        (Placement::Core(core), None) => (Some(core), None),
        (Placement::Replicated(Reason::AnyFlow), _) => {
            (None, Some("a rule can concern any flow".to_owned()))
        }
        (Placement::Replicated(Reason::Pass), _) => {
            (None, Some("a pass rule decides about all other rules".to_owned()))
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

/// The rules of all files.
fn rules(
    paths: &[PathBuf],
    variables: &Variables,
) -> Result<(Vec<Rule>, Vec<RuleSource>), Failure> {
    let (mut rules, mut sources, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let mut places: HashMap<(u32, u32), (&Path, u64)> = HashMap::new();
    for path in paths {
        let read = match read(&files::text(path, RULES_LEN_MAX)?, variables) {
            Ok(read) => read,
            Err(errors) => {
                let failure = |error| IdsFailure::Rule { path: path.clone(), error };
                failures.extend(errors.into_iter().map(failure).map(Failure::from));
                continue;
            }
        };
        sources.push(RuleSource { path: path.display().to_string(), rules: read.len() });
        for rule in read {
            if let Some((other, line)) = places.insert((rule.gid, rule.sid), (path, rule.line)) {
                let (path, other) = (path.clone(), other.to_owned());
                let (sid, at) = (rule.sid, rule.line);
                return Err(IdsFailure::Duplicate { path, at, sid, other, line }.into());
            }
            rules.push(rule);
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
    while let Some(record) = reader.next_record().map_err(|error| bad(error.to_string()))? {
        match record.link_type {
            trace::LINK_ETHERNET => traffic.add_frame(record.data),
            // No card has such frames; an engine reads them all the same.
            _ => traffic.add_frame(&[]),
        }
    }
    Ok(())
}

/// Prints the share of each core, and the groups on several.
fn print(document: &PartitionDocument) -> Result<(), Failure> {
    let (out, width) = (&mut stdout(), tables::width());
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    let row = |(at, core): (usize, &PartitionCore)| {
        let [cost, traffic] = [core.cost_ratio, core.traffic_ratio].map(percent);
        let [rules, placed] = [core.rules, core.placed_rules].map(|count| count.to_string());
        vec![at.to_string(), cost, traffic, rules, placed]
    };
    let columns = ["core", "work", "packets", "rules", "only here"].map(str::to_owned).to_vec();
    let rows = document.cores.iter().enumerate().map(row).collect();
    writeln!(out, "{}", tables::wrapped(&document.lead(), width))?;
    Grid { columns, rows }.print(width, out)?;
    let with_reason = document.groups.iter().filter(|group| group.reason.is_some());
    let with_reason: Vec<&PartitionGroup> = with_reason.collect();
    for group in with_reason.iter().take(GROUPS_SHOWN_MAX) {
        let place = group.core.map_or("several cores".to_owned(), |core| format!("core {core}"));
        let reason = group.reason.as_deref().unwrap_or_default();
        let more = if group.rules > 1 { " …" } else { "" };
        let line = format!(
            "{place}: {} on {}: {reason} (sid {}{more})",
            plural(group.rules, "rule", "rules"),
            group.concerns,
            group.sids.first().copied().unwrap_or_default()
        );
        writeln!(out, "{}", tables::wrapped(&line, width))?;
    }
    let more = with_reason.len().saturating_sub(GROUPS_SHOWN_MAX);
    if more > 0 {
        writeln!(out, "and {more} more groups with a reason: see the report")?;
    }
    writeln!(out, "{}", tables::wrapped(&document.about_traffic(), width))?;
    Ok(())
}
