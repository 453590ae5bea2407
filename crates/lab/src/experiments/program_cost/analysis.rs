//! What the data of `program-cost` show, before it is worded or drawn.

use niclab_device::ProgramObservation;
use niclab_device::cases::Case;
use serde::Deserialize;

use crate::cells::Cell;
use crate::summary::Results;
use crate::words;

/// Shortest frames that a port of 10 Gbps brings in a second: 64 B, and 20 B between two of them.
pub(crate) const LINE_RATE_PPS: f64 = 10e9 / (8.0 * 84.0);

/// Axes of a program, in the order in which they are named.
pub(crate) const AXES: &[&str] = &["program", "count", "entries"];

/// What of a program grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// Nothing: it is one of programs that somebody uses.
    Nothing,
    /// Headers.
    Headers,
    /// Tables in a row.
    Tables,
    /// Instructions of an action.
    Instructions,
}

impl Growth {
    /// The one word, and several.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Growth::Nothing => ("program", "programs"),
            Growth::Headers => ("header", "headers"),
            Growth::Tables => ("table", "tables in a row"),
            Growth::Instructions => ("instruction", "instructions"),
        }
    }
}

/// What of a cell's program grows.
pub(crate) fn growth(cell: &Cell<'_>) -> Growth {
    let word = cell.word("program");
    let case = Case::ALL.iter().find(|(name, _)| *name == word).map(|(_, case)| *case);
    match case {
        Some(Case::Headers) => Growth::Headers,
        Some(Case::Exact | Case::Lpm | Case::Wildcard) => Growth::Tables,
        Some(Case::Moves | Case::Adds | Case::Checksums | Case::Registers) => Growth::Instructions,
        _ => Growth::Nothing,
    }
}

/// All cells of a device, in reading order: that in which programs are named.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "process").collect();
    let place = |cell: &Cell<'_>| {
        let word = cell.word("program");
        let at = Case::ALL.iter().position(|(name, _)| *name == word);
        (at, ["count", "entries"].map(|axis| cell.number(axis).unwrap_or(0.0) as u64))
    };
    cells.sort_by_key(|cell| place(cell));
    cells
}

pub(crate) fn of_growth<'a>(
    results: &'a Results<'_>,
    device: &str,
    of: Growth,
) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    all.retain(|cell| growth(cell) == of);
    all
}

/// What is said of a cell's place on an axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let number = cell.number(axis).unwrap_or(0.0);
    match (axis, growth(cell)) {
        ("program", _) => cell.word(axis),
        ("count", Growth::Nothing) => String::new(),
        ("count", of) if number == 1.0 => format!("1 {}", of.words().0),
        ("count", of) => format!("{} {}", words::whole(number), of.words().1),
        _ if number == 0.0 => String::new(),
        _ => format!("{} entries", words::whole(number)),
    }
}

/// A program in words: `l3-router with 4,096 entries`, `exact, 4 tables in a row, 1,024 entries`.
pub(crate) fn program_words(cell: &Cell<'_>) -> String {
    if growth(cell) == Growth::Nothing {
        let (program, entries) = (cell.word("program"), words_at(cell, "entries"));
        return match entries.is_empty() {
            true => program.to_owned(),
            false => format!("{program} with {entries}"),
        };
    }
    let words = AXES.iter().map(|axis| words_at(cell, axis)).filter(|words| !words.is_empty());
    words.collect::<Vec<_>>().join(", ")
}

/// The cell of another device at the same place, where both send the same packets.
pub(crate) fn beside<'a>(
    results: &'a Results<'_>,
    cell: &Cell<'_>,
    device: &str,
) -> Option<&'a Cell<'a>> {
    at_place(results, cell, device).filter(|other| digest(cell) == digest(other))
}

/// The cell of another device at the same place.
fn at_place<'a>(results: &'a Results<'_>, cell: &Cell<'_>, device: &str) -> Option<&'a Cell<'a>> {
    results.cells.of(device, "process").find(|other| other.point == cell.point)
}

/// The figure of this name.
pub(crate) fn figure_id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}

/// Of each program that is used the cell with most entries.
pub(crate) fn largest<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let all = of_growth(results, device, Growth::Nothing);
    let is_largest = |at: usize| {
        all.get(at + 1).is_none_or(|next| next.word("program") != all[at].word("program"))
    };
    (0..all.len()).filter(|at| is_largest(*at)).map(|at| all[at]).collect()
}

/// What a cell's device sent, as it was told.
fn digest(cell: &Cell<'_>) -> Option<String> {
    let of =
        |sample: &&niclab_result::Sample| ProgramObservation::deserialize(&sample.counters).ok();
    cell.samples.iter().find_map(of).map(|seen| seen.digest)
}

/// Programs of which two devices send different packets: what they take is not comparable.
pub(crate) fn unlike(results: &Results<'_>) -> Vec<String> {
    let devices: Vec<&str> = results.devices().collect();
    let mut warnings = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        for other in &devices[at + 1..] {
            let here = cells(results, device);
            let is_unlike = |cell: &&&Cell<'_>| {
                let theirs = at_place(results, cell, other).and_then(|cell| digest(cell));
                digest(cell).zip(theirs).is_some_and(|(ours, theirs)| ours != theirs)
            };
            let named: Vec<String> =
                here.iter().filter(is_unlike).map(|cell| program_words(cell)).collect();
            if let Some(first) = named.first() {
                warnings.push(format!(
                    "{}: {device} and {other} do not send the same packets in {} of the programs \
                     ({first}, …): do not compare their times.",
                    results.experiment.name,
                    named.len()
                ));
            }
        }
    }
    warnings
}
