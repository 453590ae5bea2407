//! Figures and tables of the experiment `program-cost`.

use niclab_result::{Figure, Mean, ReportTable, Scale, Series};

use super::analysis::{
    AXES, Growth, beside, cells, figure_id, growth, largest, of_growth, words_at,
};
use super::metrics::PACKET;
use crate::cells::{Cell, paired};
use crate::summary::Results;
use crate::summary::curves::{Axes, add_point, axis};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

fn of_headers<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Headers)
}

fn of_tables<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Tables)
}

fn of_instructions<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    of_growth(results, device, Growth::Instructions)
}

/// The tables: programs that are used, then those that grow.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let used = "Core time per packet, by program";
    let grown = "Core time per packet in programs in which one thing grows";
    let mut tables = vec![rows_of(results, "used", used), rows_of(results, "grown", grown)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn rows_of(results: &Results<'_>, id: &str, title: &str) -> ReportTable {
    let is_used = id == "used";
    let mut is_compared = false;
    let first = results.devices().find(|device| !cells(results, device).is_empty());
    let mut rows = Vec::new();
    for device in results.devices() {
        let is_of = |cell: &&Cell<'_>| (growth(cell) == Growth::Nothing) == is_used;
        for cell in cells(results, device).into_iter().filter(is_of) {
            let before = first.filter(|first| *first != device);
            let before = before.and_then(|first| beside(results, cell, first));
            let ratio = before.and_then(|before| paired(cell, before, PACKET));
            is_compared |= ratio.is_some();
            let mut row = vec![cell.device.to_owned(), cell.word("program")];
            row.extend((!is_used).then(|| words_at(cell, "count")));
            row.extend([
                match cell.number("entries") {
                    Some(entries) if entries > 0.0 => words::whole(entries),
                    _ => "-".to_owned(),
                },
                worded(cell.estimate(PACKET), words::time),
                median(cell, "throughput_pps", words::pps),
                worded(ratio, words::significant),
                median(cell, "worst_instructions", words::whole),
                median(cell, "worst_lookups", words::whole),
                median(cell, "worst_key_bits", words::whole),
                median(cell, "worst_header_bytes", words::whole),
                marks_of(cell, PACKET),
            ]);
            rows.push(row);
        }
    }
    let ratio = format!("of {}'s time", first.unwrap_or_default());
    let mut columns = vec!["device", "program"];
    columns.extend((!is_used).then_some("with"));
    columns.extend([
        "entries",
        "per packet (interval)",
        "per core",
        &ratio,
        "instructions, at worst",
        "look-ups",
        "key bits",
        "header bytes",
        "marks",
    ]);
    // Of one device there is nothing to compare with.
    if let Some(at) = columns.iter().position(|head| *head == ratio).filter(|_| !is_compared) {
        columns.remove(at);
        rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
    let id = format!("{}-{id}", results.experiment.name);
    results_from("per packet (interval)", table(&id, title, &columns, rows))
}

/// Programs side by side, then what headers, tables, entries and instructions add.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let grown = [
        ("headers", "count", of_headers as Of, "Headers", Scale::Linear),
        ("tables", "count", of_tables, "Tables in a row", Scale::Linear),
        ("entries", "entries", of_tables, "Entries of a table", Scale::Log),
        ("instructions", "count", of_instructions, "Instructions of an action", Scale::Linear),
    ];
    let mut figures = vec![used(results)];
    figures.extend(grown.map(|(id, x, cells, title, scale)| {
        let axes = Axes { axes: AXES, cells, words_at };
        let (series, same) = axes.curves(results, x, PACKET, 1.0);
        // Of headers there is nothing else to be said.
        let of = match same.is_empty() || id == "headers" {
            true => String::new(),
            false => format!(" All curves: {same}."),
        };
        Figure {
            id: figure_id(results, id),
            title: format!("Core time per packet: {title}"),
            caption: format!("Median core time for a packet of 64 B.{of}"),
            x: axis(&title.to_lowercase(), "", scale),
            y: axis("core time per packet", "ns", Scale::Linear),
            series,
            knees: Vec::new(),
        }
    }));
    figures.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    figures
}

type Of = for<'a> fn(&'a Results<'_>, &str) -> Vec<&'a Cell<'a>>;

/// The programs that are used, side by side: those with most entries.
fn used(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in largest(results, device) {
            let Some(mean) = cell.mean(PACKET, 1.0, 0.0) else { continue };
            let point = Mean { x_word: cell.word("program"), ..mean };
            add_point(&mut series, device.to_owned(), device, point);
        }
    }
    Figure {
        id: figure_id(results, "used"),
        title: "Core time per packet in each program".into(),
        caption: "Median core time for a packet of 64 B that the program forwards. Its tables \
                  have the most entries measured; the table below has all. A program that is \
                  missing is one that the device does not support."
            .into(),
        x: axis("program", "", Scale::Ordinal),
        y: axis("core time per packet", "ns", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
