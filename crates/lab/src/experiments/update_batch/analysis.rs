//! What the data of `update-batch` show, before it is worded or drawn.

use super::trials::{BatchWork, WORKS};
use crate::axes::name_of;
use crate::cells::Cell;
use crate::summary::Results;
use crate::words;

/// All cells of batches, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "batch").collect();
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// Work, group, frame, core, calls, slice, rules: in the order in which they are read.
fn place(cell: &Cell<'_>) -> (bool, f64, String, String, String, f64, f64) {
    let number = |axis| cell.number(axis).unwrap_or(0.0);
    let rank = |word: &str| match word {
        "same" | "single" => "0".to_owned(),
        other => other.to_owned(),
    };
    let (core, calls) = (rank(&cell.word("core")), rank(&cell.word("calls")));
    let (frame, slice, batch) = (cell.word("frame"), number("slice"), number("batch"));
    (is_failover(cell), number("group"), frame, core, calls, slice, batch)
}

/// `true` where prefixes are re-pointed, `false` where rules are created.
pub(crate) fn is_failover(cell: &Cell<'_>) -> bool {
    cell.word("work") == name_of(&WORKS, BatchWork::Failover)
}

/// The figure that shows a cell.
pub(crate) fn figure_id(cell: &Cell<'_>) -> String {
    let group = words::whole(cell.number("group").unwrap_or(0.0));
    let (core, calls) = (cell.word("core"), cell.word("calls"));
    let work = if is_failover(cell) { "failover-" } else { "" };
    format!("update-batch-{work}group{group}-{core}-{calls}-{}", cell.word("frame"))
}
