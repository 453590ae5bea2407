//! Figures and tables of the experiment `ids-partition`.

use niclab_result::{Figure, ReportTable, Scale, Series};

use super::analysis::{AXES, cells, figure_id, of_copies, on_most_cores, words_at};
use super::metrics::{
    CARD, CORE_BYTES, CORE_RATE, GIVEN, IMBALANCE, INSPECTED, INSPECTION, MEMORY, MISSES, RULES,
};
use super::trials::COPIES;
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::curves::{Axes, add_point, axis, ordinal_point};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// What a row is of.
const PLACES: [&str; 6] = ["device", "engine", "rules name", "cores", "rules", "mode"];

fn place(cell: &Cell<'_>) -> Vec<String> {
    let number = |axis: &str| words::whole(cell.number(axis).unwrap_or(0.0));
    vec![
        cell.device.to_owned(),
        cell.word("engine"),
        cell.word("mix"),
        number("cores"),
        number("rules"),
        cell.word("mode"),
    ]
}

/// The tables: all cores together, then each core.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![together(results), each(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// A ratio with where it lies, `-` of copies.
fn ratio(results: &Results<'_>, cell: &Cell<'_>, metric: &str) -> String {
    worded(of_copies(results, cell, metric), words::significant)
}

fn together(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let rest = vec![
            worded(cell.estimate(INSPECTED), words::pps),
            ratio(results, cell, INSPECTED),
            worded(cell.estimate(INSPECTION), words::time),
            ratio(results, cell, INSPECTION),
            median(cell, CARD, words::time),
            median(cell, "alerts", words::whole),
            marks_of(cell, INSPECTED),
        ];
        rows.push([place(cell), rest].concat());
    }
    let rest = [
        "packets/s (interval)",
        "times copies",
        "core time per packet (interval)",
        "times copies' time",
        "card's work in software",
        "alerts",
        "marks",
    ];
    let title = "All cores together. Core time is that of all cores for a packet of the load. The \
                 alerts equal those of one engine with all rules";
    let id = figure_id(results, "together");
    results_from(rest[0], table(&id, title, &[&PLACES[..], &rest].concat(), rows))
}

fn each(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let misses = cell.estimate(MISSES);
        let rest = vec![
            median(cell, CORE_RATE, words::pps),
            median(cell, CORE_BYTES, |of| format!("{}/s", words::bytes(of))),
            median(cell, IMBALANCE, words::significant),
            median(cell, GIVEN, words::significant),
            median(cell, RULES, words::whole),
            median(cell, MEMORY, words::bytes),
            ratio(results, cell, MEMORY),
            misses.map_or("not counted".to_owned(), |of| words::significant(of.median)),
        ];
        rows.push([place(cell), rest].concat());
    }
    let rest = [
        "packets/s of a core",
        "bytes/s of a core",
        "busiest core's work, times the mean",
        "packets to cores per packet received",
        "rules of the largest core",
        "memory of the largest engine",
        "times copies' memory",
        "cache misses per packet",
    ];
    let title = "The cores. Memory is resident memory of Suricata, and rules, tables and scratch \
                 memory of niclab's engine";
    let id = figure_id(results, "cores");
    results_from(rest[0], table(&id, title, &[&PLACES[..], &rest].concat(), rows))
}

/// All figures, without those of a single point a curve.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let time = "Median time of all cores for a packet, on the most cores measured.";
    let memory = "Memory of the largest engine: resident memory of Suricata; rules, tables and \
                  scratch memory of niclab's engine.";
    let mut figures = vec![
        gains(results),
        over_rules(results, ("time", INSPECTION, 1.0), ("Core time per packet", "ns"), time),
        over_rules(results, ("memory", MEMORY, 1e-6), ("Memory of an engine", "MB"), memory),
    ];
    figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    figures
}

/// A metric over the rules.
fn over_rules(
    results: &Results<'_>,
    (id, metric, scale): (&str, &str, f64),
    (title, unit): (&str, &str),
    caption: &str,
) -> Figure {
    let axes = Axes { axes: AXES, cells: on_most_cores, words_at };
    let (series, same) = axes.curves(results, "rules", metric, scale);
    let same = if same.is_empty() { String::new() } else { format!(" All curves: {same}.") };
    Figure {
        id: figure_id(results, id),
        title: format!("{title} over rules"),
        caption: format!("{caption}{same}"),
        x: axis("rules", "", Scale::Log),
        y: axis(&title.to_lowercase(), unit, Scale::Log),
        series,
        knees: Vec::new(),
    }
}

/// What partitions bring, place by place.
fn gains(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in on_most_cores(results, device) {
            let Some(ratio) = of_copies(results, cell, INSPECTED) else { continue };
            let name = format!("{device}, {}, {}", cell.word("engine"), words_at(cell, "cores"));
            let rules = format!("{}, {}", cell.word("mix"), words_at(cell, "rules"));
            add_point(&mut series, name, device, ordinal_point(cell, &ratio, rules, INSPECTED));
        }
    }
    Figure {
        id: figure_id(results, "gain"),
        title: "Packets a second with partitions, times those with copies".into(),
        caption: format!(
            "Medians of pairs of repeats on the most cores measured. 1: as fast as {COPIES}."
        ),
        x: axis("rules", "", Scale::Ordinal),
        y: axis("rate, relative to copies", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
