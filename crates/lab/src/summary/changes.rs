//! Figures and tables of the experiment `rule-update`.

use niclab_result::{Axis, Figure, Origin, Scale, Series, Table};

use super::Results;
use super::figures::{add_point, frame_words};
use super::tables::{marks, median, of_windows, table, times, took, worded};
use crate::cells::{Cell, paired};
use crate::change::CHANGES;
use crate::published;
use crate::spec::TrialKind;
use crate::statistics::Estimate;
use crate::words;

/// All cells of changes of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "change").collect();
    let place = |cell: &Cell<'_>| {
        let change = CHANGES.iter().position(|(name, _)| *name == cell.word("change"));
        let number = |axis| cell.number(axis).unwrap_or(0.0);
        let (calls, with_load) = (cell.word("calls"), is_beside(cell));
        let is_distinct = cell.word("core") == "distinct";
        (number("group"), with_load, change, calls, is_distinct, number("slice"), number("rules"))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// `true` where packets flow meanwhile.
pub(crate) fn is_beside(cell: &Cell<'_>) -> bool {
    cell.word("traffic") == "load"
}

/// The cell of the same place where rules are destroyed and created.
pub(crate) fn anew<'a>(results: &'a Results<'_>, cell: &Cell<'_>) -> Option<&'a Cell<'a>> {
    let same = |other: &&Cell<'_>| {
        let axes = ["group", "rules", "calls", "traffic", "core", "slice", "frame"];
        other.word("change") == "anew"
            && axes.iter().all(|axis| other.word(axis) == cell.word(axis))
    };
    results.cells.of(cell.device, "change").find(same)
}

/// Changes a second by those of rules that are destroyed and created.
pub(crate) fn against_anew(results: &Results<'_>, cell: &Cell<'_>) -> Option<Estimate> {
    let anew = anew(results, cell).filter(|_| cell.word("change") != "anew")?;
    paired(cell, anew, "operations_per_s")
}

/// What is done to rules, in words.
pub(crate) fn change_words(cell: &Cell<'_>) -> &'static str {
    match cell.word("change").as_str() {
        "actions" => "new actions, in place",
        "values" => "new match values, in place",
        "mask" => "a wider mask, in place",
        "priority" => "a new priority, in place",
        _ => "destroyed and created",
    }
}

/// Changes without packets, and beside them; empty tables left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<Table> {
    let mut tables = vec![alone(results), beside(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn place(cell: &Cell<'_>) -> Vec<String> {
    let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
    vec![
        cell.device.to_string(),
        number("group"),
        number("rules"),
        change_words(cell).to_string(),
        cell.word("calls"),
    ]
}

fn alone(results: &Results<'_>) -> Table {
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
    let title = "Rules changed without packets; times of a call, all repeats together";
    table("rule-update", title, &columns, rows.collect())
}

fn beside(results: &Results<'_>) -> Table {
    let cells = results.devices().flat_map(|device| cells(results, device));
    let rows = cells.filter(|cell| is_beside(cell)).map(|cell| {
        let sum = |metric: &str| match cell.values(metric) {
            none if none.is_empty() => "-".to_owned(),
            values => words::whole(values.iter().sum()),
        };
        let mut row = place(cell);
        row.extend([cell.word("core"), cell.word("slice"), cell.word("frame")]);
        row.push(median(cell, "planned_pps", words::pps));
        row.push(median(cell, "operations_done", words::whole));
        row.push(worded(cell.estimate("operations_per_s"), words::significant));
        row.push(took(cell));
        row.extend(["met_old_frames", "met_new_frames", "met_none_frames"].map(sum));
        row.push(worded(cell.estimate("blocked_ns"), words::time));
        row.push(of_windows(cell, "losing_windows"));
        row.push(of_windows(cell, "undisturbed_windows"));
        row.push(marks(cell));
        row
    });
    let columns = [
        "device",
        "group",
        "rules",
        "change",
        "calls",
        "core",
        "slice",
        "frame",
        "load",
        "changed",
        "changes/s (interval)",
        "took",
        "packets that met the old rule",
        "the new one",
        "none",
        "blocked",
        "losing windows",
        "undisturbed windows",
        "marks",
    ];
    let title = "Rules changed while packets meet them; packets of all repeats together";
    table("rule-update-load", title, &columns, rows.collect())
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

/// The figure that shows a cell.
pub(crate) fn figure_id(group: f64, beside: bool) -> String {
    format!("rule-update-group{group}-{}", if beside { "load" } else { "alone" })
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
                core => format!(", {core} core, {}", super::batches::pace_words(cell)),
            };
            let frame = match beside {
                true => format!(", {}", frame_words(&cell.word("frame"))),
                false => String::new(),
            };
            let (change, calls) = (change_words(cell), super::batches::calls_words(cell));
            let name = format!("{device}, {change}, {calls}{core}{frame}");
            add_point(&mut series, name, device, point);
        }
    }
    let share = results.experiment.share(TrialKind::Change).unwrap_or(0.0);
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
            "Rules by the time {}; {load}.{of_published}",
            if beside { "from the first call to the end of the last" } else { "in calls" },
        ),
        x: Axis { label: "rules, all changed".into(), unit: "".into(), scale: Scale::Log },
        y: Axis { label: "rules changed".into(), unit: "k/s".into(), scale: Scale::Log },
        series,
        knees: Vec::new(),
    }
}
