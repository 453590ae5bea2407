//! The tables of the occupancy experiment, their cells worded.

use niclab_result::{Mark, ReportTable};

use crate::cells::Cell;
use crate::statistics::{Ends, Estimate};
use crate::summary::Results;
use crate::{statistics, words};

pub(crate) fn table(
    id: &str,
    title: &str,
    columns: &[&str],
    mut rows: Vec<Vec<String>>,
) -> ReportTable {
    rows.dedup();
    let columns = columns.iter().map(|column| column.to_string()).collect();
    ReportTable { id: id.into(), title: title.into(), columns, inputs: 0, rows }
}

/// A table whose results begin with the column `head`: those before it say where a row was
/// measured.
pub(crate) fn results_from(head: &str, table: ReportTable) -> ReportTable {
    let inputs = table.columns.iter().position(|column| column == head).unwrap_or_default();
    ReportTable { inputs, ..table }
}

/// Cells in reading order: device, then place.
pub(crate) fn ordered<'a>(results: &'a Results<'_>, trials: &[&str]) -> Vec<&'a Cell<'a>> {
    let of = |device| trials.iter().flat_map(move |trial| results.cells.of(device, trial));
    let mut cells = Vec::new();
    for device in results.devices() {
        let mut here: Vec<&Cell<'_>> = of(device).collect();
        let place = |cell: &Cell<'_>| {
            ["groups", "rules", "match_percent", "flows", "frame", "rate"]
                .map(|axis| cell.number(axis).unwrap_or(f64::MAX))
        };
        here.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
        cells.extend(here);
    }
    cells
}

/// Axes that say where a point stands, by the heads of their columns. A file of rules has groups of
/// its own, and what share of the traffic matches its rules is not known.
fn axes(results: &Results<'_>) -> Vec<(&'static str, &'static str)> {
    let of_file = results.run.rules.is_some();
    let is_known = |(_, axis): &(_, &str)| !of_file || !["groups", "match_percent"].contains(axis);
    let axes = [("groups", "groups"), ("rules", "rules"), ("match %", "match_percent")];
    axes.into_iter().filter(is_known).collect()
}

/// The columns of a point's place, and those behind it.
pub(crate) fn columns<'a>(
    results: &Results<'_>,
    load: &[&'a str],
    rest: &[&'a str],
) -> Vec<&'a str> {
    let heads = axes(results).into_iter().map(|(head, _)| head);
    let rest = load.iter().chain(rest).copied();
    ["device"].into_iter().chain(heads).chain(rest).collect()
}

/// The cells of a point's coordinates.
pub(crate) fn place(results: &Results<'_>, cell: &Cell<'_>, load: &[&str]) -> Vec<String> {
    let number = |axis: &str| match cell.number(axis).filter(|_| axis != "frame") {
        Some(number) => words::whole(number),
        None => cell.word(axis),
    };
    let axes = axes(results).into_iter().map(|(_, axis)| axis).chain(load.iter().copied());
    [cell.device.to_string()].into_iter().chain(axes.map(number)).collect()
}

/// A median and where it lies, which is no interval where there are too few repeats for one.
pub(crate) fn worded(estimate: Option<Estimate>, word: fn(f64) -> String) -> String {
    let Some(e) = estimate else { return "-".into() };
    let (median, low, high) = (word(e.median), word(e.low), word(e.high));
    match e.ends {
        Ends::Interval => format!("{median} ({low} to {high})"),
        Ends::Range if e.repeats == 1 => median,
        Ends::Range => format!("{median} (all in {low} to {high})"),
    }
}

/// A count of windows in all repeats; a dash where none was undisturbed.
pub(crate) fn of_windows(cell: &Cell<'_>, metric: &str) -> String {
    let sum = |metric: &str| cell.values(metric).iter().sum::<f64>();
    match sum("undisturbed_windows") > 0.0 {
        true => words::whole(sum(metric)),
        false => "-".to_owned(),
    }
}

/// From the first operation to the end of the last; a repeat whose trial ended first has none, and
/// what was refused whole never was.
pub(crate) fn took(cell: &Cell<'_>) -> String {
    if cell.values("operations_done").iter().all(|done| *done == 0.0)
        && cell.values("operations_refused").iter().all(|refused| *refused > 0.0)
    {
        return "refused".to_owned();
    }
    match (cell.values("batch_ns").len(), cell.samples.len()) {
        (0, _) => "not done".to_owned(),
        (found, of) if found < of => {
            format!("{}, {found} of {of} times", median(cell, "batch_ns", words::time))
        }
        _ => worded(cell.estimate("batch_ns"), words::time),
    }
}

pub(crate) fn median(cell: &Cell<'_>, metric: &str, word: fn(f64) -> String) -> String {
    cell.estimate(metric).map_or("-".into(), |estimate| word(estimate.median))
}

/// Median of a latency at full load, of the repeats in which the ring was full: not of those that
/// show the generator's limit, and of none where the point does.
pub(crate) fn full_ring(cell: &Cell<'_>, metric: &str) -> String {
    let full = cell.samples.iter().filter(|s| !s.marks.contains(&Mark::GeneratorLimited));
    let of: Vec<f64> = full.filter_map(|s| Some(s.metrics.get(metric)?.value)).collect();
    let known = statistics::median(&of).filter(|_| !cell.is_generator_limited());
    known.map_or("-".into(), words::time)
}

/// Median, tails and maximum of the times of calls of all repeats, those at `pointer` of what the
/// control side did.
pub(crate) fn times(cell: &Cell<'_>, pointer: &str) -> [String; 4] {
    let Some(calls) = cell.calls(pointer).filter(|calls| !calls.0.is_empty()) else {
        return ["-"; 4].map(str::to_owned);
    };
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| calls.0.value_at_quantile(quantile));
    [p50, p99, p999, calls.0.max()].map(|ns| words::time(ns as f64))
}

pub(crate) fn marks(cell: &Cell<'_>) -> String {
    marks_of(cell, super::main_metric(cell.trial))
}

/// The marks of a metric of a cell.
pub(crate) fn marks_of(cell: &Cell<'_>, metric: &str) -> String {
    let marks = cell.marks(metric);
    marks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Axes of a point's load, which are the heads of their columns too.
pub(crate) const LOAD: [&str; 2] = ["flows", "frame"];
