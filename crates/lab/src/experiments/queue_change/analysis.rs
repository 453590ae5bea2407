//! What the data of `queue-change` show, before it is worded or drawn.

use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::queues::number;

/// The axes of a load and of the card under it: all but what is changed, or answered.
pub(crate) const LOAD: [&str; 9] =
    ["cores", "queues", "flows", "zipf", "work_ns", "pps", "step", "per_s", "frame"];

/// All cells of a device in which something is changed, or nothing is done at all.
pub(crate) fn changes<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells = cells(results, device);
    cells.retain(|cell| number(cell, "step") == 1.0 && cell.word("answer") == "none");
    cells
}

/// All cells of a device whose load steps, or that answers.
pub(crate) fn answers<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells = cells(results, device);
    cells.retain(|cell| number(cell, "step") > 1.0 || cell.word("answer") != "none");
    cells
}

fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "rss-change").collect();
    let place = |cell: &Cell<'_>| (LOAD.map(|axis| number(cell, axis)), cell.word("frame"));
    cells.sort_by(|a, b| {
        let by_place = place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal);
        let words =
            |cell: &Cell<'_>| [cell.word("change") != "none", cell.word("answer") != "none"];
        by_place.then(words(a).cmp(&words(b)))
    });
    cells
}

/// Frames of all repeats together.
pub(crate) fn sum(cell: &Cell<'_>, metric: &str) -> f64 {
    cell.values(metric).iter().sum()
}

/// Cores in use over time.
pub(crate) const USED: &str = "used";

/// The figure of a device that is called so.
pub(crate) fn figure_id(name: &str, device: &str) -> String {
    format!("queue-change-{name}-{device}")
}
