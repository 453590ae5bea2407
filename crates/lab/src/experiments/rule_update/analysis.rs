//! What the data of `rule-update` show, before it is worded or drawn.

use niclab_result::ReportTable;

use super::trials::CHANGES;
use crate::cells::{Cell, paired};
use crate::published::{self, PublishedCard};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::beside_published::PublishedPoint;
use crate::summary::tables::{marks, median, of_windows, results_from, table, took, worded};
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

pub(crate) fn place(cell: &Cell<'_>) -> Vec<String> {
    let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
    vec![
        cell.device.to_string(),
        number("group"),
        number("rules"),
        change_words(cell).to_string(),
        cell.word("calls"),
    ]
}

pub(crate) fn beside(results: &Results<'_>) -> ReportTable {
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
        "packets on the old rule",
        "on the new rule",
        "none",
        "blocked",
        "lossy time bins",
        "undisturbed time bins",
        "marks",
    ];
    let title = "Rules changed while packets meet them; packets of all repeats together";
    results_from("changed", table("rule-update-load", title, &columns, rows.collect()))
}

/// The figure that shows a cell.
pub(crate) fn figure_id(group: f64, beside: bool) -> String {
    format!("rule-update-group{group}-{}", if beside { "load" } else { "alone" })
}

/// Rules changed a second at the places of the published figure 6.
pub(crate) fn published(
    results: &Results<'_>,
    device: &str,
    card: PublishedCard,
) -> Vec<PublishedPoint> {
    let is_published = |cell: &&Cell<'_>| {
        !is_beside(cell) && cell.number("group") > Some(0.0) && cell.word("calls") == "single"
    };
    let point = |cell: &Cell<'_>| {
        let rules = cell.number("rules")?;
        let series = match cell.word("change").as_str() {
            "actions" => "Update - In-memory",
            "anew" => "Update - Delete + Insert",
            _ => return None,
        };
        let mut all = published::spreads(card, "6").into_iter();
        Some(PublishedPoint {
            place: format!("{} changed ({})", words::rules(rules), change_words(cell)),
            unit: "k rules/s",
            figure: "6",
            here: cell.estimate("operations_per_s")?.scaled(1e-3),
            published: all.find(|of| of.series == series && of.x == rules)?,
        })
    };
    cells(results, device).into_iter().filter(is_published).filter_map(point).collect()
}
