//! Figures and tables of the experiment `program-cost`.

use niclab_device::Processed;
use niclab_device::cases::Case;
use niclab_result::{Figure, Mean, Scale, Series, Table};
use serde::Deserialize;

use super::Results;
use super::curves::{Axes, axis};
use super::figures::add_point;
use super::tables::{marks_of, median, table, worded};
use crate::cells::{Cell, paired};
use crate::program::PACKET;
use crate::words;

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

fn of_growth<'a>(results: &'a Results<'_>, device: &str, of: Growth) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    all.retain(|cell| growth(cell) == of);
    all
}

fn of_headers<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Headers)
}

fn of_tables<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Tables)
}

fn of_instructions<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Instructions)
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

/// The tables: programs that are used, then those that grow.
pub(crate) fn tables(results: &Results<'_>) -> Vec<Table> {
    let used = "What a packet takes of a core in a program";
    let grown = "What a packet takes of a core in programs of which one thing grows";
    let mut tables = vec![rows_of(results, "used", used), rows_of(results, "grown", grown)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn rows_of(results: &Results<'_>, id: &str, title: &str) -> Table {
    let is_used = id == "used";
    let mut is_compared = false;
    let first = results.devices().find(|device| !cells(results, device).is_empty());
    let mut rows = Vec::new();
    for device in results.devices() {
        let is_of = |cell: &&Cell<'_>| (growth(cell) == Growth::Nothing) == is_used;
        for cell in cells(results, device).into_iter().filter(is_of) {
            let before = first.filter(|first| *first != device);
            let before = before.and_then(|first| beside(results, cell, first));
            let ratio = before.and_then(|before| paired(cell, before, PACKET));
            is_compared |= ratio.is_some();
            let mut row = vec![cell.device.to_owned(), cell.word("program")];
            row.extend((!is_used).then(|| words_at(cell, "count")));
            row.extend([
                match cell.number("entries") {
                    Some(entries) if entries > 0.0 => words::whole(entries),
                    _ => "-".to_owned(),
                },
                worded(cell.estimate(PACKET), words::time),
                median(cell, "throughput_pps", words::pps),
                worded(ratio, words::significant),
                median(cell, "worst_instructions", words::whole),
                median(cell, "worst_lookups", words::whole),
                median(cell, "worst_key_bits", words::whole),
                median(cell, "worst_header_bytes", words::whole),
                marks_of(cell, PACKET),
            ]);
            rows.push(row);
        }
    }
    let ratio = format!("of {}'s time", first.unwrap_or_default());
    let mut columns = vec!["device", "program"];
    columns.extend((!is_used).then_some("with"));
    columns.extend([
        "entries",
        "a packet (interval)",
        "a core",
        &ratio,
        "instructions, at worst",
        "look-ups",
        "key bits",
        "header bytes",
        "marks",
    ]);
    // Of one device there is nothing to compare with.
    if let Some(at) = columns.iter().position(|head| *head == ratio).filter(|_| !is_compared) {
        columns.remove(at);
        rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    let id = format!("{}-{id}", results.experiment.name);
    table(&id, title, &columns, rows)
}

/// The figure of this name.
pub(crate) fn figure_id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}

/// Programs side by side, then what headers, tables, entries and instructions add.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let grown = [
        ("headers", "count", of_headers as Of, "Headers", Scale::Linear),
        ("tables", "count", of_tables, "Tables in a row", Scale::Linear),
        ("entries", "entries", of_tables, "Entries of a table", Scale::Log),
        ("instructions", "count", of_instructions, "Instructions of an action", Scale::Linear),
    ];
    let mut figures = vec![used(results)];
    figures.extend(grown.map(|(id, x, cells, title, scale)| {
        let axes = Axes { axes: AXES, cells, words_at };
        let (series, same) = axes.curves(results, x, PACKET, 1.0);
        // Of headers there is nothing else to be said.
        let of = match same.is_empty() || id == "headers" {
            true => String::new(),
            false => format!(" Of all curves: {same}."),
        };
        Figure {
            id: figure_id(results, id),
            title: format!("{title}, and what a packet takes"),
            caption: format!("Median time of one core for a packet of 64 B.{of}"),
            x: axis(&title.to_lowercase(), "", scale),
            y: axis("time of a core for a packet", "ns", Scale::Linear),
            series,
            knees: Vec::new(),
        }
    }));
    figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    figures
}

type Of = for<'a> fn(&'a Results<'_>, &str) -> Vec<&'a Cell<'a>>;

/// The programs that are used, side by side: those with most entries.
fn used(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in largest(results, device) {
            let Some(mean) = cell.mean(PACKET, 1.0, 0.0) else { continue };
            let point = Mean { x_word: cell.word("program"), ..mean };
            add_point(&mut series, device.to_owned(), device, point);
        }
    }
    Figure {
        id: figure_id(results, "used"),
        title: "What a packet takes in each program".into(),
        caption: "Median time of one core for a packet of 64 B that the program forwards, \
                  with most entries in its tables where several numbers were measured: the table \
                  below has all. A program without a point is one that the device does not take."
            .into(),
        x: axis("program", "", Scale::Ordinal),
        y: axis("time of a core for a packet", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
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
    let of = |sample: &&niclab_result::Sample| Processed::deserialize(&sample.counters).ok();
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
                     ({first}, …): do not compare what they take.",
                    results.experiment.name,
                    named.len()
                ));
            }
        }
    }
    warnings
}
