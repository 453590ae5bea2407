//! Figures and tables of the experiment `rule-rate`.

use niclab_result::{Axis, Figure, Origin, ReportTable, Scale, Series};

use super::analysis::{PLAIN, STACK, acted_stack, cells, figure_id};
use crate::cells::Cell;
use crate::published::Insertion;
use crate::summary::Results;
use crate::summary::curves::add_point;
use crate::summary::tables::{marks, median, results_from, table, times, worded};
use crate::summary::updates::calls_words;
use crate::{published, words};

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![insertions(results), effects(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn insertions(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let mut row = vec![
            cell.device.to_string(),
            cell.number("group").map(words::whole).unwrap_or_default(),
            cell.number("rules").map(words::whole).unwrap_or_default(),
            cell.word("stack"),
            cell.word("actions"),
            cell.word("calls"),
            cell.number("threads").map_or("-".to_owned(), words::whole),
        ];
        row.push(worded(cell.estimate("operations_per_s"), words::significant));
        row.extend(times(cell, "/calls"));
        row.push(median(cell, "first_call_ns", words::time));
        row.push(median(cell, "operations_refused", words::whole));
        row.push(worded(cell.estimate("destroy_operations_per_s"), words::significant));
        row.extend(times(cell, "/destroyed/calls"));
        row.push(marks(cell));
        rows.push(row);
    }
    let columns = [
        "device",
        "group",
        "rules",
        "stack",
        "actions",
        "calls",
        "threads",
        "inserts/s (interval)",
        "p50",
        "p99",
        "p99.9",
        "maximum",
        "first",
        "refused",
        "deletes/s (interval)",
        "delete p50",
        "delete p99",
        "delete p99.9",
        "delete maximum",
        "marks",
    ];
    let title = "Rules created and destroyed without packets; times of a call over all repeats";
    results_from("inserts/s (interval)", table("rule-rate", title, &columns, rows))
}

fn effects(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "effect").collect();
        let place = |cell: &Cell<'_>| {
            let number = |axis| cell.number(axis).unwrap_or(0.0);
            (number("group"), cell.word("core") == "distinct", number("per_s"), cell.word("frame"))
        };
        cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
        for cell in cells {
            let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
            rows.push(vec![
                device.to_string(),
                number("group"),
                number("flows"),
                number("per_s"),
                cell.word("core"),
                cell.word("frame"),
                median(cell, "offered_pps", words::pps),
                worded(cell.estimate("effect_ns_p50"), words::time),
                median(cell, "effect_ns_p99", words::time),
                median(cell, "effect_ns_max", words::time),
                median(cell, "effects_missing", words::whole),
                median(cell, "effect_resolution_ns", words::time),
                median(cell, "call_ns_p50", words::time),
                median(cell, "call_ns_max", words::time),
                marks(cell),
            ]);
        }
    }
    let columns = [
        "device",
        "group",
        "rules",
        "created/s",
        "core",
        "frame",
        "offered",
        "last frame without it, p50 (interval)",
        "p99",
        "maximum",
        "never",
        "resolution",
        "call p50",
        "call maximum",
        "marks",
    ];
    let title = "Time to effect: from the create call until the last frame that missed the rule \
                 left";
    results_from(
        "last frame without it, p50 (interval)",
        table("rule-rate-effect", title, &columns, rows),
    )
}

/// Insertions over the number of rules.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let all = cells_of_all(results);
    for group in [0.0, 1.0] {
        let of_group = if group == 0.0 { Insertion::Root } else { Insertion::Group };
        // What rules are is compared in one way to ask for them.
        let here = all.iter().filter(|cell| cell.is_at(&[("group", group)]));
        let mut calls = here.map(|cell| (cell.word("calls"), cell.number("threads")));
        let usual = ("single".to_owned(), None);
        let first = calls.next().unwrap_or_else(|| usual.clone());
        let way = if calls.any(|way| way == usual) { usual } else { first };
        let is_usual = |cell: &Cell<'_>| (cell.word("calls"), cell.number("threads")) == way;
        let is_plain = |cell: &Cell<'_>| cell.word("actions") == PLAIN;
        let stacks = |cell: &Cell<'_>| is_usual(cell) && is_plain(cell) && !is_tunnel(cell);
        figures.push(figure(results, (group, "stacks"), Some(of_group), &stacks, "stack"));
        let tunnels = |cell: &Cell<'_>| {
            let is_of = is_tunnel(cell) || cell.word("stack") == "eth";
            is_usual(cell) && is_plain(cell) && is_of
        };
        let published = Some(Insertion::Tunnels);
        figures.push(figure(results, (group, "tunnels"), published, &tunnels, "stack"));
        let stack = acted_stack(&all, group);
        let actions = |cell: &Cell<'_>| is_usual(cell) && cell.word("stack") == stack;
        let published = Some(Insertion::Actions);
        figures.push(figure(results, (group, "actions"), published, &actions, "actions"));
        let calls = |cell: &Cell<'_>| is_plain(cell) && cell.word("stack") == STACK;
        figures.push(figure(results, (group, "calls"), None, &calls, "stack"));
    }
    // One series is no comparison: stacks alone are drawn whatever there are.
    let ours = |figure: &Figure| {
        figure.series.iter().filter(|series| series.origin != Origin::Published).count()
    };
    figures.retain(|figure| ours(figure) > usize::from(!figure.id.contains("stacks")));
    figures
}

fn cells_of_all<'a>(results: &'a Results<'_>) -> Vec<&'a Cell<'a>> {
    results.devices().flat_map(|device| cells(results, device)).collect()
}

/// `true` for the stacks of the published figure 5c, all but plain Ethernet.
fn is_tunnel(cell: &Cell<'_>) -> bool {
    let stack = cell.word("stack");
    stack.contains("vlan") || !stack.starts_with("eth")
}

fn figure(
    results: &Results<'_>,
    (group, what): (f64, &str),
    published: Option<Insertion>,
    is_of: &dyn Fn(&Cell<'_>) -> bool,
    axis: &str,
) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let here = cell.is_at(&[("group", group)]) && is_of(cell);
            let x = cell.number("rules").unwrap_or(0.0);
            let Some(point) = cell.mean("operations_per_s", 1e-3, x).filter(|_| here) else {
                continue;
            };
            let calls = match cell.word("calls").as_str() {
                "single" => String::new(),
                _ => format!(", {}", calls_words(cell)),
            };
            let threads = match cell.number("threads") {
                None => String::new(),
                Some(1.0) => " of a control thread".to_owned(),
                Some(threads) => format!(" each of {} control threads", words::whole(threads)),
            };
            let name = format!("{device}, {}{calls}{threads}", cell.word(axis));
            add_point(&mut series, name, device, point);
        }
    }
    let of_published = published.map_or(String::new(), |published| {
        let part = match published {
            Insertion::Root => "5a",
            Insertion::Group => "5b",
            Insertion::Tunnels => "5c, another table than the root",
            Insertion::Actions => "5d, another table than the root, rules of Ethernet alone",
        };
        format!(" Published: {}, PAM 2021, figure {part}.", results.run.card.label())
    });
    let curves = published.map(|which| published::insertions(which, results.run.card, 1e-3));
    series.extend(curves.into_iter().flatten());
    Figure {
        id: figure_id(group, what),
        title: format!("Rules created a second in group {}: {what}", words::whole(group)),
        caption: format!(
            "Rules, refused ones included, divided by the time in calls. With control threads: \
             divided by the time from the first call to the last of all. No packets.{of_published}"
        ),
        x: Axis { label: "rules created".into(), unit: "".into(), scale: Scale::Log },
        y: Axis { label: "rules created".into(), unit: "k/s".into(), scale: Scale::Log },
        series,
        knees: Vec::new(),
    }
}
