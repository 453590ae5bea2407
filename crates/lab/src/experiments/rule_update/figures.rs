//! Figures and tables of the experiment `rule-update`.

use niclab_result::{Axis, Figure, Origin, ReportTable, Scale, Series};

use super::analysis::{against_anew, beside, cells, change_words, figure_id, is_beside, place};
use super::metrics::CHANGE;
use crate::summary::Results;
use crate::summary::curves::add_point;
use crate::summary::frames::frame_words;
use crate::summary::tables::{marks, median, results_from, table, times, worded};
use crate::{published, words};

/// Changes without packets, and beside them; empty tables left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![alone(results), beside(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn alone(results: &Results<'_>) -> ReportTable {
    let cells = results.devices().flat_map(|device| cells(results, device));
    let rows = cells.filter(|cell| !is_beside(cell)).map(|cell| {
        let mut row = place(cell);
        row.push(worded(cell.estimate("operations_per_s"), words::significant));
        row.push(worded(against_anew(results, cell), words::significant));
        row.extend(times(cell, "/calls"));
        row.push(median(cell, "first_call_ns", words::time));
        row.push(median(cell, "operations_refused", words::whole));
        row.push(marks(cell));
        row
    });
    let columns = [
        "device",
        "group",
        "rules",
        "change",
        "calls",
        "changes/s (interval)",
        "against anew",
        "call p50",
        "p99",
        "p99.9",
        "maximum",
        "first",
        "refused",
        "marks",
    ];
    let title = "Rules changed without packets; times of a call over all repeats";
    results_from("changes/s (interval)", table("rule-update", title, &columns, rows.collect()))
}

/// Changes a second over the number of rules, a figure a group and traffic.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for group in [0.0, 1.0] {
        figures.push(figure(results, group, false));
        figures.push(figure(results, group, true));
    }
    figures.retain(|figure| figure.series.iter().any(|series| series.origin != Origin::Published));
    figures
}

fn figure(results: &Results<'_>, group: f64, beside: bool) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let here = cell.is_at(&[("group", group)]) && is_beside(cell) == beside;
            let x = cell.number("rules").unwrap_or(0.0);
            let Some(point) = cell.mean("operations_per_s", 1e-3, x).filter(|_| here) else {
                continue;
            };
            let core = match cell.word("core").as_str() {
                "" => String::new(),
                core => format!(", {core} core, {}", crate::summary::updates::pace_words(cell)),
            };
            let frame = match beside {
                true => format!(", {}", frame_words(&cell.word("frame"))),
                false => String::new(),
            };
            let (change, calls) = (change_words(cell), crate::summary::updates::calls_words(cell));
            let name = format!("{device}, {change}, {calls}{core}{frame}");
            add_point(&mut series, name, device, point);
        }
    }
    let share = results.experiment.share(CHANGE).unwrap_or(0.0);
    let load = match beside {
        true => format!("packets that meet these rules, {}", words::of_maximum(share)),
        false => "no packets".to_owned(),
    };
    // A table other than the root, without packets.
    let published = match (group > 0.0, beside) {
        (true, false) => published::changes(results.run.card, 1e-3),
        _ => Vec::new(),
    };
    let of_published = match published.is_empty() {
        true => String::new(),
        false => format!(
            " Published: {}, a table other than the root, PAM 2021, figure 6.",
            results.run.card.label()
        ),
    };
    series.extend(published);
    Figure {
        id: figure_id(group, beside),
        title: format!(
            "Rules of group {} changed a second{}",
            words::whole(group),
            if beside { " while packets meet them" } else { "" }
        ),
        caption: format!(
            "Rules divided by the time {}; {load}.{of_published}",
            if beside { "from the first call to the end of the last" } else { "in calls" },
        ),
        x: Axis { label: "rules, all changed".into(), unit: "".into(), scale: Scale::Log },
        y: Axis { label: "rules changed".into(), unit: "k/s".into(), scale: Scale::Log },
        series,
        knees: Vec::new(),
    }
}
