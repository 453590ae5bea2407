//! Figures and tables of the experiment `analytics-offload`.

use niclab_result::{Figure, ReportTable, Scale, Series};

use super::analysis::{
    AXES, cells, differing, figure_id, millions, of_plain, with_most_workers, with_steps, words_at,
    workload_words,
};
use super::metrics::{ALL_RATE, CARD, CORE_RATE, RESULT, STEPS, TUPLE, step_metric};
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::curves::{Axes, add_point, axis, ordinal_point};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// The first columns of each row.
const PLACES: [&str; 7] = ["device", "workers", "keys", "zipf", "payload", "batch", "mode"];

fn place(cell: &Cell<'_>) -> Vec<String> {
    let number = |axis: &str| words::whole(cell.number(axis).unwrap_or(0.0));
    vec![
        cell.device.to_owned(),
        number("workers"),
        number("keys"),
        cell.word("zipf"),
        number("payload"),
        number("batch"),
        cell.word("mode"),
    ]
}

/// The tables: what the workers do, then the steps.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![workers(results), steps(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn workers(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let rest = vec![
            worded(cell.estimate(CORE_RATE), millions),
            worded(of_plain(results, cell, CORE_RATE), words::significant),
            worded(cell.estimate(ALL_RATE), millions),
            worded(cell.estimate(TUPLE), words::time),
            median(cell, CARD, words::time),
            worded(cell.estimate(RESULT), words::time),
            median(cell, "busiest_ratio", words::significant),
            marks_of(cell, CORE_RATE),
        ];
        rows.push([place(cell), rest].concat());
    }
    let rest = [
        "tuples/s of a worker's core (interval)",
        "times rss",
        "tuples/s of all workers (interval)",
        "core time per tuple (interval)",
        "card's work in software",
        "end of pane to result (interval)",
        "busiest core's work, times the mean",
        "marks",
    ];
    let title = "The workers. Core time is that of the workers' cores for a tuple. All windows \
                 equal a plain count";
    let id = figure_id(results, "workers");
    results_from(rest[0], table(&id, title, &[&PLACES[..], &rest].concat(), rows))
}

fn steps(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let rest = STEPS.map(|(name, _)| median(cell, &step_metric(name), words::time));
        rows.push([place(cell), rest.into()].concat());
    }
    let names = STEPS.map(|(_, name)| name);
    let title = "Time of a tuple on the workers' cores by step. Rest: receiving time outside these \
                 steps";
    let id = figure_id(results, "step-times");
    results_from(names[0], table(&id, title, &[&PLACES[..], &names].concat(), rows))
}

/// All figures, without those of a single point a curve.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = vec![gains(results), over_steps(results), over_batch(results)];
    figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    figures
}

fn name(cell: &Cell<'_>) -> String {
    format!("{}, {}", cell.device, cell.word("mode"))
}

/// The gain of each mode, workload by workload.
fn gains(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    let devices = results.devices();
    let all: Vec<&Cell<'_>> =
        devices.flat_map(|device| with_most_workers(results, device)).collect();
    let (differing, same) = differing(&all);
    let named = |cell: &Cell<'_>, axes: &[&str]| {
        axes.iter().map(|axis| words_at(cell, axis)).collect::<Vec<_>>().join(", ")
    };
    for &cell in &all {
        let Some(ratio) = of_plain(results, cell, CORE_RATE) else { continue };
        let axes = if differing.is_empty() { &same } else { &differing };
        let point = ordinal_point(cell, &ratio, named(cell, axes), CORE_RATE);
        add_point(&mut series, name(cell), cell.device, point);
    }
    Figure {
        id: figure_id(results, "gain"),
        title: "Tuples a second of a worker's core, times those with rss".into(),
        caption: format!(
            "Medians of pairs of repeats with the most workers measured. The card's own work is \
             not part of it.{}",
            match all.first() {
                Some(cell) if !same.is_empty() => format!(" All: {}.", named(cell, &same)),
                _ => String::new(),
            }
        ),
        x: axis("workload", "", Scale::Ordinal),
        y: axis("rate, relative to rss", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// Where the time goes, with the most workers of each device.
fn over_steps(results: &Results<'_>) -> Figure {
    let (mut series, mut workloads): (Vec<Series>, Vec<String>) = (Vec::new(), Vec::new());
    for device in results.devices() {
        let all = with_steps(results, device);
        let Some(first) = all.first() else { continue };
        let workload = format!("{}, {}", words_at(first, "workers"), workload_words(first));
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
        for cell in all {
            let steps = STEPS.iter().map(|(name, label)| (step_metric(name), *label));
            for (metric, label) in steps.chain([(CARD.to_owned(), "card, in software")]) {
                let Some(estimate) = cell.estimate(&metric) else { continue };
                let point = ordinal_point(cell, &estimate, label.to_owned(), &metric);
                add_point(&mut series, name(cell), device, point);
            }
        }
    }
    Figure {
        id: figure_id(results, "steps"),
        title: "Time of a tuple by step".into(),
        caption: format!(
            "{}. Steps of the workers' cores; the card's own work, if software does it, is beside \
             them.",
            workloads.join("; ")
        ),
        x: axis("step", "", Scale::Ordinal),
        y: axis("time per tuple", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// How large batches have to be.
fn over_batch(results: &Results<'_>) -> Figure {
    let axes = Axes { axes: AXES, cells: with_most_workers, words_at };
    let (series, same) = axes.curves(results, "batch", CORE_RATE, 1e-6);
    let same = if same.is_empty() { String::new() } else { format!(" All curves: {same}.") };
    Figure {
        id: figure_id(results, "batch"),
        title: "Tuples a second of a worker's core over batch".into(),
        caption: format!("Medians with the most workers measured.{same}"),
        x: axis("tuples of a frame at most", "", Scale::Log),
        y: axis("tuples a second", "M", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
