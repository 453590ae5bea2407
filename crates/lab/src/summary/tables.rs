//! The tables of the occupancy experiment, their cells worded.

use niclab_result::{Mark, Table};

use super::Results;
use crate::cells::Cell;
use crate::knee::{self, Found};
use crate::runner::SETUP;
use crate::statistics::{self, Ends, Estimate};
use crate::words;

/// All tables, empty ones left out.
pub(super) fn tables(results: &Results<'_>) -> Vec<Table> {
    let mut tables = vec![throughput(results), latency(results), rules(results), knees(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn table(id: &str, title: &str, columns: &[&str], mut rows: Vec<Vec<String>>) -> Table {
    rows.dedup();
    let columns = columns.iter().map(|column| column.to_string()).collect();
    Table { id: id.into(), title: title.into(), columns, rows }
}

/// Cells in reading order: device, then place.
fn ordered<'a>(results: &'a Results<'_>, trials: &[&str]) -> Vec<&'a Cell<'a>> {
    let of = |device| trials.iter().flat_map(move |trial| results.cells.of(device, trial));
    let mut cells = Vec::new();
    for device in results.devices() {
        let mut here: Vec<&Cell<'_>> = of(device).collect();
        let place = |cell: &Cell<'_>| {
            ["groups", "rules", "match_percent", "flows", "frame"]
                .map(|axis| cell.number(axis).unwrap_or(f64::MAX))
        };
        here.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
        cells.extend(here);
    }
    cells
}

fn place(cell: &Cell<'_>) -> Vec<String> {
    let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
    vec![
        cell.device.to_string(),
        number("groups"),
        number("rules"),
        number("match_percent"),
        number("flows"),
        cell.word("frame"),
    ]
}

/// A median and where it lies, which is no interval where there are too few repeats for one.
fn worded(estimate: Option<Estimate>, word: fn(f64) -> String) -> String {
    let Some(e) = estimate else { return "-".into() };
    let (median, low, high) = (word(e.median), word(e.low), word(e.high));
    match e.ends {
        Ends::Interval => format!("{median} ({low} to {high})"),
        Ends::Range if e.repeats == 1 => median,
        Ends::Range => format!("{median} (all in {low} to {high})"),
    }
}

fn median(cell: &Cell<'_>, metric: &str, word: fn(f64) -> String) -> String {
    cell.estimate(metric).map_or("-".into(), |estimate| word(estimate.median))
}

/// Median of a latency at full load, of the repeats in which the ring was full: not of those that
/// show the generator's limit, and of none where the point does.
fn full_ring(cell: &Cell<'_>, metric: &str) -> String {
    let full = cell.samples.iter().filter(|s| !s.marks.contains(&Mark::GeneratorLimited));
    let of: Vec<f64> = full.filter_map(|s| Some(s.metrics.get(metric)?.value)).collect();
    let known = statistics::median(&of).filter(|_| !cell.is_generator_limited());
    known.map_or("-".into(), words::time)
}

fn marks(cell: &Cell<'_>) -> String {
    let marks = cell.marks(super::main_metric(cell.trial));
    marks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

const PLACE: [&str; 6] = ["device", "groups", "rules", "match %", "flows", "frame"];

fn throughput(results: &Results<'_>) -> Table {
    let rows = ordered(results, &["saturate"]).into_iter().map(|cell| {
        let mut row = place(cell);
        row.push(worded(cell.estimate("throughput_pps"), words::pps));
        row.push(median(cell, "throughput_gbps_l1", words::significant));
        row.push(median(cell, "throughput_all_pps", words::pps));
        row.push(median(cell, "disturbed_ratio", words::percent));
        row.push(median(cell, crate::measure::DEVICE_TIME, words::time));
        row.push(median(cell, "loss_ratio", words::percent));
        row.push(full_ring(cell, "latency_ns_p50"));
        row.push(full_ring(cell, "latency_ns_p99"));
        row.push(marks(cell));
        row
    });
    let columns = [
        &PLACE[..],
        &[
            "throughput (interval)",
            "Gbps L1",
            "stalls included",
            "slices with stalls",
            "device time a frame",
            "loss",
            "p50 at full load",
            "p99 at full load",
            "marks",
        ],
    ];
    let title = "Saturating load: throughput without stalls, and latency where the ring was full";
    table("occupancy-throughput", title, &columns.concat(), rows.collect())
}

fn latency(results: &Results<'_>) -> Table {
    let rows = ordered(results, &["latency", "light"]).into_iter().map(|cell| {
        let mut row = place(cell);
        row.push(cell.trial.to_string());
        row.push(median(cell, "offered_pps", words::pps));
        row.push(worded(cell.estimate("latency_ns_p50"), words::time));
        let ends = ["p1", "p25", "p75", "p99", "p999", "mean", "max"];
        let of = |end| median(cell, &format!("latency_ns_{end}"), words::time);
        row.extend(ends.map(of));
        row.push(median(cell, "loss_ratio", words::percent));
        row.push(marks(cell));
        row
    });
    let columns = [
        &PLACE[..],
        &["trial", "offered", "p50 (interval)", "p1", "p25", "p75", "p99", "p99.9", "mean"],
        &["maximum", "loss", "marks"],
    ];
    let title = "Open loop: latency from the planned departure, medians of the repeats";
    table("occupancy-latency", title, &columns.concat(), rows.collect())
}

fn rules(results: &Results<'_>) -> Table {
    let rows = ordered(results, &[SETUP]).into_iter().map(|cell| {
        let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
        vec![
            cell.device.to_string(),
            number("groups"),
            number("rules"),
            number("match_percent"),
            median(cell, "rules_installed", words::whole),
            median(cell, "rules_refused", words::whole),
            worded(cell.estimate("install_rules_per_s"), words::significant),
            median(cell, "rule_bytes_per_rule", words::significant),
        ]
    });
    let columns = [
        "device",
        "groups",
        "rules",
        "match %",
        "installed",
        "refused",
        "rules/s (interval)",
        "bytes per rule",
    ];
    table("occupancy-rules", "Rules: installation and memory", &columns, rows.collect())
}

fn knees(results: &Results<'_>) -> Table {
    let rows = results.knees.iter().map(|knee| {
        let found = match knee.found {
            // Neighbours: the last number in front of the knee is known exactly.
            Found::Bracket { low, high } if high - low == 1 => words::whole(low.into()),
            Found::Bracket { .. } => {
                let (x, width) = knee.found.middle_and_width().unwrap_or_default();
                format!("{} ± {}", words::whole(x), words::significant(width))
            }
            Found::None { high } => format!("none up to {}", words::whole(high.into())),
            Found::Below { low } => format!("below {}", words::whole(low.into())),
            Found::Stopped => "not finished".into(),
        };
        let limited = if knee.is_generator_limited { "generator-limited" } else { "" };
        vec![
            knee.device.clone(),
            words::whole(knee.knee.spec.groups.into()),
            knee::label(&knee.knee.spec),
            found,
            limited.into(),
        ]
    });
    let columns = ["device", "groups", "knee", "rules", "marks"];
    table("occupancy-knees", "Knees, by bisection", &columns, rows.collect())
}
