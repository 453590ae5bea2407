//! The table of a round trip's parts inside the stacks, of the experiment `echo-ledger`.

use niclab_result::ReportTable;

use super::analysis::{cells, is_deep};
use crate::breakdown::{DIRECTIONS, PARTS, PARTS_RESIDUE, parts_name};
use crate::cells::Cell;
use crate::round_trips::words_at;
use crate::summary::Results;
use crate::summary::tables::{median, table};
use crate::words;

/// Axes that say where the parts stand.
const AXES: [&str; 4] = ["family", "client", "receive", "size"];

/// Part by part, of the request and of the reply.
pub(crate) fn parts(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device).into_iter().filter(is_deep) {
            rows.extend(of(cell));
        }
    }
    let columns = ["device", "messages", "part", "of the request", "of the reply"];
    let title = "Inside the stacks: means over the middle tenth of the messages, which add up";
    table("echo-ledger-parts", title, &columns, rows)
}

fn of(cell: &Cell<'_>) -> Vec<Vec<String>> {
    let place = AXES.map(|axis| words_at(cell, axis)).join(", ");
    let row = |part: &str, [request, reply]: [String; 2]| {
        vec![cell.device.to_owned(), place.clone(), part.to_owned(), request, reply]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, words) in PARTS {
        let times = DIRECTIONS.map(|side| median(cell, &parts_name(side, name), words::time));
        rows.push(row(words, times));
    }
    let one = |time: String| [time, String::new()];
    rows.push(row("the server's program", one(median(cell, "application_ns", words::time))));
    rows.push(row("round trip", one(median(cell, "rtt_ns_p50", words::time))));
    rows.push(row("left over", one(median(cell, PARTS_RESIDUE, words::percent))));
    rows
}
