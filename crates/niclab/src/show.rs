//! `niclab show`: a run in the terminal.

use std::io::{Write, stdout};
use std::path::Path;

use niclab_result::{Figure, Mean, Stored, Summary};

use crate::failure::Failure;
use crate::report;
use crate::tables::{self, Grid, wrapped};

/// Prints findings, figures as tables, and tables.
pub fn run(directory: &Path) -> Result<(), Failure> {
    let (summary, _) = report::summary(&Stored::open(directory)?)?;
    let mut out = stdout().lock();
    let width = tables::width();
    head(&summary, width, &mut out)?;
    for experiment in &summary.experiments {
        let question = format!("{}: {}", experiment.name, experiment.question);
        writeln!(out, "\n{}", wrapped(&question, width))?;
        for figure in &experiment.figures {
            writeln!(out, "\n{}", figure.title)?;
            of_figure(figure).print(width, &mut out)?;
            for knee in &figure.knees {
                let x = number(knee.x);
                let or = if knee.width > 0.0 {
                    format!(" ± {}", number(knee.width))
                } else {
                    "".into()
                };
                writeln!(out, "knee on {}, {} at {x}{or}", knee.device, knee.label)?;
            }
        }
        for table in &experiment.tables {
            writeln!(out, "\n{}", table.title)?;
            let (columns, rows) = (table.columns.clone(), table.rows.clone());
            Grid { columns, rows }.folded(width, &mut out)?.print(width, &mut out)?;
        }
    }
    Ok(())
}

fn head(summary: &Summary, width: usize, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "{}, started {}, {:.0} s", summary.program, summary.started, summary.duration_s)?;
    if summary.partial {
        writeln!(out, "This run was cut short: what was finished is shown.")?;
    }
    for warning in &summary.warnings {
        writeln!(out, "{}", wrapped(&format!("warning: {warning}"), width))?;
    }
    for device in summary.devices.iter().filter(|device| !device.not_supported.is_empty()) {
        writeln!(out, "{}: not supported: {}", device.device, device.not_supported.join(", "))?;
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

/// One row a point, one column a series.
fn of_figure(figure: &Figure) -> Grid {
    let unit = |unit: &str| if unit.is_empty() { String::new() } else { format!(" ({unit})") };
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
    use super::number;

    #[test]
    fn numbers_keep_three_digits_and_part_their_thousands() {
        let texts = [0.0, 0.001, 0.123, 1.5, 16.25, 123.4, 65_536.0, 4_000_000.0, -1_234.0];
        let expected =
            ["0", "1.00e-3", "0.12", "1.50", "16.2", "123", "65,536", "4,000,000", "-1,234"];
        assert_eq!(texts.map(number), expected);
    }
}
