//! Two results of `niclab conform` side by side, the first one as the baseline.

use std::io::{self, Write};
use std::path::PathBuf;

use niclab_result::conform::{
    CellChange, CellState, ConformDocument, DeviceConformance, LimitChange, cell_name,
};
use serde::Serialize;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::output::{json, one_line, stdout};
use crate::rules::plural;
use crate::tables::{self, wrapped};

/// Changes of a pair that are listed without `--all`.
const CHANGES_MAX: usize = 20;

/// The JSON of a comparison.
#[derive(Serialize)]
struct ConformComparison<'a> {
    schema: u32,
    pairs: Vec<ComparedPair<'a>>,
    /// A sentence for each pair in which cells became worse.
    regressions: Vec<String>,
}

/// Two devices.
#[derive(Serialize)]
struct ComparedPair<'a> {
    base: &'a str,
    other: &'a str,
    /// Why the other one was not tried, where the baseline was.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_tried: Option<String>,
    /// How the other one failed, if it did: not all of it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<&'a str>,
    /// The seeds where they differ: the cases were not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    seeds: Option<[u64; 2]>,
    /// Items and behaviours that only the baseline, and only the other one, was tried with.
    only: [Vec<&'a str>; 2],
    /// The worst first.
    changes: Vec<CellChange>,
    /// Limits that are not the same.
    limits: Vec<LimitChange>,
    /// Cells that are the same.
    same: usize,
}

/// The results of these directories if all of them are of `conform`; none if none is.
pub fn read(directories: &[PathBuf]) -> Result<Option<Vec<ConformDocument>>, Failure> {
    let mut documents = Vec::new();
    for path in directories {
        documents.extend(ConformDocument::read(path)?);
    }
    match documents.len() {
        0 => Ok(None),
        some if some == directories.len() => Ok(Some(documents)),
        _ => {
            let names: Vec<String> =
                directories.iter().map(|path| one_line(&path.display().to_string())).collect();
            Err(Failure::Apart {
                base: names.join(", "),
                other: "results of `niclab conform` are compared with each other only".to_owned(),
            })
        }
    }
}

/// Prints what differs; cells that became worse are a failure.
pub fn run(arguments: &CompareArguments, documents: &[ConformDocument]) -> Result<(), Failure> {
    for (is_given, option) in
        [(arguments.github, "--github"), (!arguments.metric.is_empty(), "--metric")]
    {
        if is_given {
            return Err(Failure::OfRuns { option });
        }
    }
    let names: Vec<String> =
        arguments.directories.iter().map(|path| path.display().to_string()).collect();
    let pairs = pairs(documents, &names)?;
    let compared: Vec<ComparedPair<'_>> =
        pairs.iter().map(|(base, other)| compared(base, other)).collect();
    let regressions: Vec<String> = compared.iter().filter_map(regression).collect();
    if arguments.json {
        json(&ConformComparison { schema: 1, pairs: compared, regressions: regressions.clone() })?;
    } else {
        print(&compared, arguments.all, &mut stdout())?;
    }
    match regressions.is_empty() {
        true => Ok(()),
        false => Err(Failure::Regression { regressions }),
    }
}

/// A device of a result.
struct NamedResult<'d> {
    /// Its directory and its device.
    name: String,
    seed: u64,
    device: &'d DeviceConformance,
}

fn compared<'a>(base: &'a NamedResult<'_>, other: &'a NamedResult<'_>) -> ComparedPair<'a> {
    let (old, new) = (base.device, other.device);
    let not_tried = new.not_tried.clone().filter(|_| old.not_tried.is_none());
    let mut pair = ComparedPair {
        base: &base.name,
        other: &other.name,
        not_tried,
        failed: new.failed.as_deref().filter(|_| old.failed.is_none()),
        seeds: (base.seed != other.seed).then_some([base.seed, other.seed]),
        only: [old.own_rows(new), new.own_rows(old)],
        changes: Vec::new(),
        limits: Vec::new(),
        same: 0,
    };
    if pair.not_tried.is_none() {
        let is_of_both = |row: &str| pair.only.iter().all(|only| !only.contains(&row));
        pair.changes = old.changes(new);
        pair.changes.retain(|change| is_of_both(&change.row));
        let changed = pair.changes.iter().filter(|change| change.before.is_some()).count();
        pair.same = old.cells.iter().filter(|cell| is_of_both(&cell.row)).count() - changed;
        pair.limits = old.limit_changes(new);
    }
    pair
}

/// Devices of one directory: the first with the others. Of several: those of the same name, or the
/// only ones.
fn pairs<'d>(
    documents: &'d [ConformDocument],
    names: &[String],
) -> Result<Vec<(NamedResult<'d>, NamedResult<'d>)>, Failure> {
    let Some((base, others)) = documents.split_first() else { return Ok(Vec::new()) };
    let named = |at: usize, device: &'d DeviceConformance| {
        let name = format!("{} {}", names[at], device.device);
        NamedResult { name, seed: documents[at].seed, device }
    };
    let mut pairs = Vec::new();
    if others.is_empty()
        && let Some((first, rest)) = base.devices.split_first()
    {
        pairs.extend(rest.iter().map(|device| (named(0, first), named(0, device))));
        if rest.is_empty() {
            let (directory, device) = (PathBuf::from(&names[0]), first.device.clone());
            return Err(Failure::Alone { directory, device });
        }
    }
    for (at, other) in others.iter().enumerate() {
        match (&base.devices[..], &other.devices[..]) {
            ([one], [two]) => pairs.push((named(0, one), named(at + 1, two))),
            (ours, theirs) => {
                for one in ours {
                    let same = theirs.iter().find(|two| two.device == one.device);
                    pairs.extend(same.map(|two| (named(0, one), named(at + 1, two))));
                }
            }
        }
    }
    if pairs.is_empty() {
        let base = names.first().cloned().unwrap_or_default();
        return Err(Failure::Apart { base, other: names[1..].join(", ") });
    }
    Ok(pairs)
}

fn regression(pair: &ComparedPair<'_>) -> Option<String> {
    if let Some(why) = &pair.not_tried {
        return Some(format!("{}: not tried any more: {why}", pair.other));
    }
    let worse = pair.changes.iter().filter(|change| change.is_worse()).count();
    let wrong = pair
        .changes
        .iter()
        .filter(|change| change.is_worse() && change.after == Some(CellState::Wrong));
    let wrong = wrong.count();
    let limits = pair.limits.iter().filter(|change| change.is_worse()).count();
    let worse_cells = plural(worse, "cell is", "cells are");
    let cells = format!("{worse_cells} worse, {wrong} of them accepted and wrong");
    let lower = plural(limits, "limit is", "limits are");
    let said = match (worse, limits) {
        (0, 0) => String::new(),
        (_, 0) => cells,
        (0, _) => format!("{lower} lower"),
        _ => format!("{cells}, and {lower} lower"),
    };
    match pair.failed {
        Some(why) if said.is_empty() => Some(format!("{}: failed: {why}", pair.other)),
        Some(why) => Some(format!("{}: {said}; then it failed: {why}", pair.other)),
        None => (!said.is_empty()).then(|| format!("{}: {said}", pair.other)),
    }
}

fn print(pairs: &[ComparedPair<'_>], all: bool, out: &mut impl Write) -> io::Result<()> {
    let width = tables::width();
    for pair in pairs {
        let (base, other) = (one_line(pair.base), one_line(pair.other));
        writeln!(out, "{}", wrapped(&format!("baseline {base}"), width))?;
        writeln!(out, "{}", wrapped(&format!("compared {other}"), width))?;
        if let Some(why) = &pair.not_tried {
            writeln!(out, "{}", wrapped(&format!("worse: not tried any more: {why}"), width))?;
            continue;
        }
        differences(pair)
            .into_iter()
            .try_for_each(|text| writeln!(out, "{}", wrapped(&text, width)))?;
        let most = if all { pair.changes.len() } else { CHANGES_MAX };
        for change in pair.changes.iter().take(most) {
            writeln!(out, "{}", wrapped(&words(change), width))?;
        }
        match pair.changes.len().saturating_sub(most) {
            0 => {}
            more => writeln!(out, "and {more} more: --all lists them")?,
        }
        let worse = pair.changes.iter().filter(|change| change.is_worse()).count();
        let (changed, same) = (pair.changes.len(), pair.same);
        writeln!(out, "{worse} worse, {} other changes, {same} same", changed - worse)?;
    }
    Ok(())
}

/// The differences of two results beside their cells.
fn differences(pair: &ComparedPair<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(why) = pair.failed {
        all.push(format!("worse: the device failed; cells behind that were not tried: {why}"));
    }
    if let Some([base, other]) = pair.seeds {
        let each = "a cell may differ because its cases do";
        all.push(format!("seeds {base} and {other}: other rules and frames, so {each}"));
    }
    for (rows, side) in pair.only.iter().zip(["the baseline", "the other"]) {
        if !rows.is_empty() {
            all.push(format!("only {side} has {}", rows.join(", ")));
        }
    }
    all.extend(pair.limits.iter().map(|change| {
        let value = |value: Option<u64>| value.map_or("none".to_owned(), |of| of.to_string());
        let verdict = if change.is_worse() { "worse" } else { "changed" };
        let (before, after) = (value(change.before), value(change.after));
        format!("{verdict}: limit of {}: {before} -> {after}", change.name)
    }));
    all
}

fn words(change: &CellChange) -> String {
    let state = |state: Option<CellState>| state.map_or("not there", CellState::words);
    let place = cell_name(&change.row, &change.column);
    let verdict = if change.is_worse() { "worse" } else { "changed" };
    let said = change.words.as_ref().map_or(String::new(), |words| format!(": {words}"));
    format!("{verdict}: {place}: {} -> {}{said}", state(change.before), state(change.after))
}
