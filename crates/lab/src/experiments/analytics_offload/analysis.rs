//! Comparisons of the data of `analytics-offload`, for findings, figures and tables.

use super::trials::{MODES, PLAIN};
use crate::cells::{Cell, paired};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Axes of a place, in the order in which they are named.
pub(crate) const AXES: &[&str] = &["workers", "keys", "zipf", "payload", "batch", "mode"];

/// Axes of a place, all but the mode.
const PLACE: [&str; 5] = ["workers", "keys", "zipf", "payload", "batch"];

/// Axes of tuples.
const TUPLES: [&str; 4] = ["keys", "zipf", "payload", "batch"];

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "count").collect();
    let place = |cell: &Cell<'_>| {
        (PLACE.map(|axis| (cell.number(axis).unwrap_or(0.0) * 1e3) as u64), mode_place(cell))
    };
    cells.sort_by_key(|cell| place(cell));
    cells
}

/// The place of a cell's mode among all modes.
pub(crate) fn mode_place(cell: &Cell<'_>) -> Option<usize> {
    MODES.iter().position(|(name, _)| *name == cell.word("mode"))
}

/// The cell with `rss` at the same place.
fn plain_at<'a>(results: &'a Results<'_>, cell: &Cell<'_>) -> Option<&'a Cell<'a>> {
    results.cells.in_mode(cell, &PLACE, PLAIN)
}

/// A cell with another mode, and that with `rss` at the same place.
pub(crate) fn compared<'a>(
    results: &'a Results<'_>,
    cell: &'a Cell<'a>,
) -> Option<(&'a Cell<'a>, &'a Cell<'a>)> {
    let plain = plain_at(results, cell)?;
    (cell.word("mode") != PLAIN).then_some((cell, plain))
}

/// Ratio of a metric to that of `rss` at the same point.
pub(crate) fn of_plain(results: &Results<'_>, cell: &Cell<'_>, metric: &str) -> Option<Estimate> {
    let plain = plain_at(results, cell)?;
    (cell.word("mode") != PLAIN).then(|| paired(cell, plain, metric))?
}

/// Cells of the most workers that were measured with the same tuples.
pub(crate) fn with_most_workers<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let all = cells(results, device);
    let most = |cell: &Cell<'_>| {
        let same = all.iter().filter(|other| tuples(other) == tuples(cell));
        same.map(|other| workers(other)).fold(0.0, f64::max)
    };
    all.iter().filter(|cell| workers(cell) == most(cell)).copied().collect()
}

fn workers(cell: &Cell<'_>) -> f64 {
    cell.number("workers").unwrap_or(0.0)
}

/// The values of a cell on the axes of tuples.
fn tuples(cell: &Cell<'_>) -> [String; 4] {
    TUPLES.map(|axis| cell.word(axis))
}

/// The cells whose steps are drawn: the first tuples with the most workers of the device, in all
/// modes.
pub(crate) fn with_steps<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = with_most_workers(results, device);
    let most = all.iter().map(|cell| workers(cell)).fold(0.0, f64::max);
    if let Some(first) = all.iter().find(|cell| workers(cell) == most).map(|cell| tuples(cell)) {
        all.retain(|cell| workers(cell) == most && tuples(cell) == first);
    }
    all
}

/// Words for a cell's value on an axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let number = cell.number(axis).unwrap_or(0.0);
    match axis {
        "workers" => words::counted(number, "worker"),
        "keys" => words::counted(number, "key"),
        "zipf" if number == 0.0 => "uniform".to_owned(),
        "zipf" => format!("Zipf {number}"),
        "payload" if number == 0.0 => "no payload".to_owned(),
        "payload" => format!("payload of {} B", words::whole(number)),
        "batch" if number == 1.0 => "single tuples".to_owned(),
        "batch" => format!("batches of {}", words::whole(number)),
        _ => cell.word(axis),
    }
}

/// Words for the tuples of a cell: `10,000 keys, Zipf 1, no payload, batches of 45`
pub(crate) fn workload_words(cell: &Cell<'_>) -> String {
    TUPLES.map(|axis| words_at(cell, axis)).join(", ")
}

/// Axes of tuples on which cells differ, and on which they do not.
pub(crate) fn differing(all: &[&Cell<'_>]) -> (Vec<&'static str>, Vec<&'static str>) {
    TUPLES.into_iter().partition(|axis| all.iter().any(|cell| cell.word(axis) != all[0].word(axis)))
}

/// Tuples a second: `12.3 M`.
pub(crate) fn millions(per_s: f64) -> String {
    format!("{} M", words::significant(per_s / 1e6))
}

/// The figure of this name.
pub(crate) fn figure_id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}
