//! Two results of `niclab conform` side by side, the first one as the baseline.

use std::io::{self, Write};
use std::path::PathBuf;

use niclab_result::conform::{
    CellChange, CellState, ConformDocument, DeviceConformance, cell_name,
};
use serde::Serialize;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::output::{json, one_line, stdout};
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
    /// The worst first.
    changes: Vec<CellChange>,
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
    let names: Vec<String> =
        arguments.directories.iter().map(|path| path.display().to_string()).collect();
    let pairs = pairs(documents, &names)?;
    let compared: Vec<ComparedPair<'_>> = pairs
        .iter()
        .map(|(base, other)| {
            let changes = base.1.changes(other.1);
            let same = base.1.cells.len()
                - changes.iter().filter(|change| change.before.is_some()).count();
            let not_tried = other.1.not_tried.clone().filter(|_| base.1.not_tried.is_none());
            let (changes, same) = match not_tried {
                None => (changes, same),
                Some(_) => (Vec::new(), 0),
            };
            ComparedPair { base: &base.0, other: &other.0, not_tried, changes, same }
        })
        .collect();
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

type Named<'d> = (String, &'d DeviceConformance);

/// Devices of one directory: the first with the others. Of several: those of the same name, or the
/// only ones.
fn pairs<'d>(
    documents: &'d [ConformDocument],
    names: &[String],
) -> Result<Vec<(Named<'d>, Named<'d>)>, Failure> {
    let Some((base, others)) = documents.split_first() else { return Ok(Vec::new()) };
    let named = |at: usize, device: &'d DeviceConformance| {
        (format!("{} {}", names[at], device.device), device)
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
    (worse > 0).then(|| {
        format!("{}: {worse} cells are worse, {wrong} of them accepted and wrong", pair.other)
    })
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

fn words(change: &CellChange) -> String {
    let state = |state: Option<CellState>| state.map_or("not there", CellState::words);
    let place = cell_name(&change.row, &change.column);
    let verdict = if change.is_worse() { "worse" } else { "changed" };
    let said = change.words.as_ref().map_or(String::new(), |words| format!(": {words}"));
    format!("{verdict}: {place}: {} -> {}{said}", state(change.before), state(change.after))
}
