//! `niclab show`: a run in the terminal.

use std::io::Write;
use std::path::Path;

use niclab_result::conform::ConformDocument;
use niclab_result::{Figure, Mean, SeriesShape, Summary};

use crate::conform;
use crate::failure::Failure;
use crate::output::{json, one_line, stdout};
use crate::tables::{self, Grid, wrapped};
use crate::{report, stored};

/// What is shown of a distribution, and the share of the frames that stays below each.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Prints findings, figures as tables, and tables; the summary as JSON where that is asked for.
///
/// A directory of `niclab conform` has its matrix.
pub fn run(directory: &Path, is_json: bool) -> Result<(), Failure> {
    if let Some(document) = ConformDocument::read(directory)? {
        return conform::show(&document, is_json);
    }
    let summary = report::summary(stored::open(directory)?)?;
    if is_json {
        return json(&summary);
    }
    let mut out = stdout();
    let width = tables::width();
    head(&summary, width, &mut out)?;
    for experiment in &summary.experiments {
        let question = format!("{}: {}", experiment.name, experiment.question);
        writeln!(out, "\n{}", wrapped(&question, width))?;
        let lines = [&experiment.beside_published, &experiment.terms];
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            writeln!(out, "{}", wrapped(line, width))?;
        }
        for figure in &experiment.figures {
            writeln!(out, "\n{}", one_line(&figure.title))?;
            let is_distribution =
                figure.series.iter().all(|series| series.shape == SeriesShape::Cdf);
            let grid = if is_distribution { percentiles(figure) } else { curves(figure) };
            grid.print(width, &mut out)?;
            for knee in &figure.knees {
                let x = number(knee.x);
                let or = if knee.width > 0.5 {
                    format!(" ± {}", number(knee.width))
                } else {
                    "".into()
                };
                let text = format!("knee on {}, {} at {x}{or}", knee.device, knee.label);
                writeln!(out, "{}", one_line(&text))?;
            }
        }
        for table in &experiment.tables {
            writeln!(out, "\n{}", one_line(&table.title))?;
            let (columns, rows) = (table.columns.clone(), table.rows.clone());
            Grid { columns, rows }.folded(width, &mut out)?.print(width, &mut out)?;
        }
    }
    Ok(())
}

fn head(summary: &Summary, width: usize, out: &mut impl Write) -> Result<(), Failure> {
    let Summary { program, started, duration_s, .. } = summary;
    writeln!(out, "{}", one_line(&format!("{program}, started {started}, {duration_s:.0} s")))?;
    if !summary.placement.is_empty() {
        writeln!(out, "{}", wrapped(&summary.placement, width))?;
    }
    if summary.partial {
        writeln!(out, "This run was cut short: this is what was finished.")?;
    }
    for warning in &summary.warnings {
        writeln!(out, "{}", wrapped(&format!("warning: {warning}"), width))?;
    }
    for device in summary.devices.iter().filter(|device| !device.not_supported.is_empty()) {
        let lacking = device.not_supported.join(", ");
        let text = format!("{}: not supported: {lacking}", device.device);
        writeln!(out, "{}", one_line(&text))?;
    }
    for finding in &summary.findings {
        let text = format!("- {} {}", finding.sentence, finding.implication);
        writeln!(out, "{}", wrapped(&text, width))?;
    }
    let figures = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
    let mut points = figures.flat_map(|f| &f.series).flat_map(|series| &series.points);
    if points.any(|point| !point.marks.is_empty()) {
        writeln!(out, "! after a value: a point with a warning; the tables say which.")?;
    }
    Ok(())
}

/// A unit behind what it belongs to.
fn unit(unit: &str) -> String {
    if unit.is_empty() { String::new() } else { format!(" ({unit})") }
}

/// Distributions: one row a series, one column a percentile. A curve of some hundred points is for
/// the report.
fn percentiles(figure: &Figure) -> Grid {
    let head = format!("{}{}", figure.x.label, unit(&figure.x.unit));
    let columns = std::iter::once(head).chain(PERCENTILES.map(|(name, _)| name.to_owned()));
    let rows = figure.series.iter().map(|series| {
        let reached = |share: f64| series.points.iter().find(|point| point.y >= share);
        let cell = |(_, share)| reached(share).map(|point| number(point.x)).unwrap_or_default();
        std::iter::once(series.name.clone()).chain(PERCENTILES.map(cell)).collect()
    });
    Grid { columns: columns.collect(), rows: rows.collect() }
}

/// One row a point, one column a series.
fn curves(figure: &Figure) -> Grid {
    let mut columns = vec![format!("{}{}", figure.x.label, unit(&figure.x.unit))];
    let y_unit = unit(&figure.y.unit);
    columns.extend(figure.series.iter().map(|series| format!("{}{y_unit}", series.name)));
    let mut places: Vec<&Mean> = Vec::new();
    for point in figure.series.iter().flat_map(|series| &series.points) {
        if !places.iter().any(|place| same_place(place, point)) {
            places.push(point);
        }
    }
    places.sort_by(|a, b| a.x.total_cmp(&b.x));
    let rows = places.iter().map(|place| {
        let cell = |points: &[Mean]| points.iter().find(|p| same_place(p, place)).map(value);
        let cells = figure.series.iter().map(|s| cell(&s.points).unwrap_or_default());
        let head = if place.x_word.is_empty() { number(place.x) } else { place.x_word.clone() };
        std::iter::once(head).chain(cells).collect()
    });
    let rows = rows.collect();
    Grid { columns, rows }
}

fn same_place(a: &Mean, b: &Mean) -> bool {
    a.x == b.x && a.x_word == b.x_word
}

/// A value with the ends of its interval and a sign where it is marked.
fn value(point: &Mean) -> String {
    let interval = match (point.low, point.high) {
        (Some(low), Some(high)) if low < high => format!(" [{}, {}]", number(low), number(high)),
        _ => String::new(),
    };
    let mark = if point.marks.is_empty() { "" } else { " !" };
    format!("{}{interval}{mark}", number(point.y))
}

/// Three or four significant digits, thousands apart.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1_000.0 => {
            let digits = format!("{:.0}", v);
            let groups: Vec<&str> = digits
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(|group| std::str::from_utf8(group).unwrap_or_default())
                .collect();
            format!("{}{}", if value < 0.0 { "-" } else { "" }, groups.join(","))
        }
        v if v >= 100.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use niclab_result::{Axis, Origin, Scale, Series};

    use super::*;

    /// A series of so many points, x of 1 to that number.
    fn series(name: &str, count: u32) -> Series {
        let point = |n| {
            let (x, y) = (f64::from(n), f64::from(n) / f64::from(count));
            Mean { x, y, ..Mean::default() }
        };
        Series {
            name: name.into(),
            device: "soft".into(),
            origin: Origin::Measured,
            shape: SeriesShape::Cdf,
            hue: None,
            points: (1..=count).map(point).collect(),
        }
    }

    #[test]
    fn a_distribution_is_a_row_of_percentiles() {
        let axis = |label: &str, unit: &str| Axis {
            label: label.into(),
            unit: unit.into(),
            scale: Scale::Linear,
        };
        let figure = Figure {
            id: "cdf".into(),
            title: String::new(),
            caption: String::new(),
            x: axis("latency", "us"),
            y: axis("share of the frames", ""),
            series: vec![series("empty", 10_000), series("full", 10), series("none", 0)],
            knees: Vec::new(),
        };
        let grid = percentiles(&figure);
        assert_eq!(grid.columns, ["latency (us)", "p50", "p90", "p99", "p99.9", "max"]);
        assert_eq!(grid.rows[0], ["empty", "5,000", "9,000", "9,900", "9,990", "10,000"]);
        assert_eq!(grid.rows[1], ["full", "5", "9", "10", "10", "10"]);
        assert_eq!(grid.rows[2], ["none", "", "", "", "", ""]);
    }

    #[test]
    fn numbers_keep_three_digits_and_part_their_thousands() {
        let texts = [0.0, 0.001, 0.123, 1.5, 16.25, 123.4, 65_536.0, 4_000_000.0, -1_234.0];
        let expected =
            ["0", "1.00e-3", "0.12", "1.50", "16.2", "123", "65,536", "4,000,000", "-1,234"];
        assert_eq!(texts.map(number), expected);
    }
}
