//! What the data of `ids-partition` show, before it is worded or drawn.

use super::trials::{COPIES, DIVISIONS, ENGINES, MIXES};
use crate::cells::{Cell, paired};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Axes of a place, in the order in which they are named.
pub(crate) const AXES: &[&str] = &["engine", "mix", "cores", "rules", "mode"];

/// Axes of a place, all but the division.
const PLACE: [&str; 4] = ["engine", "mix", "cores", "rules"];

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "detect").collect();
    let place = |cell: &Cell<'_>| {
        let at = [
            ENGINES.iter().position(|(name, _)| *name == cell.word("engine")),
            MIXES.iter().position(|(name, _)| *name == cell.word("mix")),
            DIVISIONS.iter().position(|(name, _)| *name == cell.word("mode")),
        ];
        let number = |axis: &str| cell.number(axis).unwrap_or(0.0) as u64;
        (at[0], at[1], number("cores"), number("rules"), at[2])
    };
    cells.sort_by_key(|cell| place(cell));
    cells
}

/// The cell with copies at the same place.
fn with_copies<'a>(results: &'a Results<'_>, cell: &Cell<'_>) -> Option<&'a Cell<'a>> {
    results.cells.in_mode(cell, &PLACE, COPIES)
}

/// A cell with partitions, and that with copies at the same place.
pub(crate) fn compared<'a>(
    results: &'a Results<'_>,
    cell: &'a Cell<'a>,
) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
    let copies = with_copies(results, cell)?;
    (cell.word("mode") != COPIES).then_some((cell, copies))
}

/// How a metric stands to that of copies at the same place.
pub(crate) fn of_copies(results: &Results<'_>, cell: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let copies = with_copies(results, cell)?;
    (cell.word("mode") != COPIES).then(|| paired(cell, copies, metric))?
}

/// Cells on as many cores as were measured with this engine, and on more than one.
pub(crate) fn on_most_cores<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let all = cells(results, device);
    let most = |cell: &Cell<'_>| {
        let same = all.iter().filter(|other| other.word("engine") == cell.word("engine"));
        same.filter_map(|other| other.number("cores")).fold(0.0, f64::max)
    };
    let is_on_most = |cell: &&&Cell<'_>| {
        let cores = cell.number("cores").unwrap_or(0.0);
        cores > 1.0 && cores == most(cell)
    };
    all.iter().filter(is_on_most).copied().collect()
}

/// Cells that differ by their rules alone, with fewest first: those on most cores, two or more of
/// each engine, mix and division.
pub(crate) fn by_rules<'a>(results: &'a Results<'_>, device: &str) -> Vec<Vec<&'a Cell<'a>>> {
    let name = |cell: &Cell<'_>| ["engine", "mix", "mode"].map(|axis| cell.word(axis));
    let mut curves: Vec<Vec<&Cell<'_>>> = Vec::new();
    for cell in on_most_cores(results, device) {
        match curves.iter_mut().find(|curve| name(curve[0]) == name(cell)) {
            Some(curve) => curve.push(cell),
            None => curves.push(vec![cell]),
        }
    }
    curves.retain(|curve| curve.len() > 1);
    curves
}

/// The name of an engine in a sentence.
pub(crate) fn engine_words(cell: &Cell<'_>) -> &'static str {
    match cell.word("engine").as_str() {
        "suricata" => "Suricata",
        "suricata-ac" => "Suricata with Aho-Corasick",
        _ => "niclab's engine",
    }
}

/// What the rules of a cell name, in a sentence.
pub(crate) fn mix_words(cell: &Cell<'_>) -> &'static str {
    match cell.word("mix").as_str() {
        "services" => "rules of services",
        "servers" => "rules of servers",
        _ => "rules of any traffic",
    }
}

/// What is said of a cell's place on an axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let number = || cell.number(axis).unwrap_or(0.0);
    match axis {
        "cores" => words::counted(number(), "core"),
        "rules" => words::rules(number()),
        _ => cell.word(axis),
    }
}

/// `5,000 rules of servers`
pub(crate) fn rules_words(cell: &Cell<'_>) -> String {
    format!("{} {}", words::whole(cell.number("rules").unwrap_or(0.0)), mix_words(cell))
}

/// `2 cores`
pub(crate) fn cores_words(cell: &Cell<'_>) -> String {
    words_at(cell, "cores")
}

/// The figure of this name.
pub(crate) fn figure_id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}
