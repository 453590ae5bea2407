//! The table of latencies by time stamps, for every experiment that offers frames.

use niclab_result::ReportTable;

use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// The clocks: the name of the metric, and the word of the table.
const CLOCKS: [(&str, &str); 2] = [("latency_card_ns", "card"), ("latency_kernel_ns", "kernel")];

/// The table; `None` where no frame was stamped.
pub(crate) fn stamped_frames(results: &Results<'_>) -> Option<ReportTable> {
    let all = results.cells.all();
    let of = |cell: &Cell<'_>| clock(cell).is_some();
    let axes = varied(all.iter().filter(|cell| of(cell)));
    let rows = results.devices().flat_map(|device| {
        let cells = all.iter().filter(move |cell| cell.device == device);
        cells.filter_map(|cell| row(cell, &axes))
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let heads = [
        "clock",
        "port to port, p50 (interval)",
        "port to port, p99",
        "call to poll, p50",
        "call to poll, p99",
        "stamped frames",
        "resolution",
        "tester's core per stamped frame",
        "marks",
    ];
    let place = ["device", "trial"].into_iter().chain(axes.iter().map(|axis| &axis[..]));
    let columns: Vec<&str> = place.chain(heads).collect();
    let title = "Latency of sampled frames: port to port by time stamps, call to poll by niclab's \
                 clock (elsewhere: from when a frame was due)";
    let id = format!("{}-stamps", results.experiment.name);
    let table = results_from("clock", table(&id, title, &columns, rows));
    (!table.rows.is_empty()).then_some(table)
}

/// The clock of a cell whose frames were to be stamped. None of them may have been.
fn clock(cell: &Cell<'_>) -> Option<(&'static str, &'static str)> {
    let has = |(name, _): &(&str, &str)| !cell.values(&format!("{name}_p50")).is_empty();
    let is_asked = !cell.values("stamps_asked").is_empty();
    is_asked.then(|| CLOCKS.into_iter().find(has).unwrap_or(("latency_card_ns", "none")))
}

/// The axes that differ between cells, in alphabetical order.
fn varied<'a>(cells: impl Iterator<Item = &'a Cell<'a>> + Clone) -> Vec<String> {
    let Some(first) = cells.clone().next() else { return Vec::new() };
    let differs =
        |axis: &&String| cells.clone().any(|c| c.point.get(*axis) != first.point.get(*axis));
    first.point.keys().filter(differs).cloned().collect()
}

fn row(cell: &Cell<'_>, axes: &[String]) -> Option<Vec<String>> {
    let (metric, clock) = clock(cell)?;
    let main = format!("{metric}_p50");
    let place = [cell.device.to_owned(), cell.trial.to_owned()];
    let mut row: Vec<String> = place.into_iter().chain(axes.iter().map(|a| cell.word(a))).collect();
    let sum = |metric: &str| words::whole(cell.values(metric).iter().sum());
    row.extend([
        clock.to_owned(),
        worded(cell.estimate(&main), words::time),
        median(cell, &format!("{metric}_p99"), words::time),
        median(cell, "latency_call_to_poll_ns_p50", words::time),
        median(cell, "latency_call_to_poll_ns_p99", words::time),
        format!("{} of {}", sum("stamped_frames"), sum("stamps_asked")),
        median(cell, "stamp_resolution_ns", words::time),
        median(cell, "stamp_cost_ns", words::time),
        marks_of(cell, &main),
    ]);
    Some(row)
}
