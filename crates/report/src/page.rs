//! What the page shows, gathered from the documents and worded for the templates.

use std::collections::BTreeMap;

use askama::Template;
use niclab_result::{
    BaselineSummary, DeviceSummary, Environment, ExperimentSummary, ExperimentVerdict, Figure,
    Finding, Mark, Origin, ReportTable, Scale, Series, SeriesShape, Summary,
};
use serde_json::{Value, json};

use crate::drawing::{self, Drawing};
use crate::legend::{self, LegendGroup, legend};
use crate::theme::{self, Theme};
use crate::{ReportError, ReportOptions, axis, reference, scripts, spec, words};

/// Places of marked points named one by one, at most.
const PLACES_COUNT_MAX: usize = 8;

/// Findings of a section that are not folded, at most.
const OPEN_COUNT_MAX: usize = 5;

/// Facts about the machine that stand on top, of those there are.
const TOP_FACTS: [&str; 4] = ["cpu", "hypervisor", "cores of this process", "kernel"];

/// Facts about a device that stand on top, of those there are.
const TOP_DEVICE_FACTS: [&str; 4] = ["kind", "modelled", "driver", "firmware"];

/// Letters of a number and its unit that stand in one line of a table.
const NUMBER_LETTERS_MAX: usize = 12;

/// The whole page.
#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: &'a str,
    lead: String,
    placement: &'a str,
    partial: bool,
    program: &'a str,
    machine: String,
    measured: Vec<(&'a str, String)>,
    trust: String,
    warnings: &'a [String],
    baseline: Option<&'a BaselineSummary>,
    top: Vec<FindingView<'a>>,
    first: Option<FirstView<'a>>,
    experiments: Vec<ExperimentView<'a>>,
    devices: &'a [DeviceSummary],
    environment: &'a Environment,
    honesty: Vec<MarkView>,
    points_drawn: String,
    run_toml: &'a str,
    command: &'a str,
    drawings: String,
    style: &'static str,
    recorder: &'static str,
    scripts: [&'static str; 4],
    notice: &'static str,
}

/// A finding with its number apart.
struct FindingView<'a> {
    finding: &'a Finding,
    /// Anchor of its experiment; empty where it is of several.
    section: String,
    number: String,
    unit: String,
    interval: Option<String>,
    /// Anchor of the figure and its title, where the run has it.
    figure: Option<(String, &'a str)>,
}

/// An experiment.
struct ExperimentView<'a> {
    anchor: String,
    name: &'a str,
    question: &'a str,
    verdict: VerdictView<'a>,
    beside_published: &'a str,
    terms: &'a str,
    /// Its first finding, the next ones, and the others, which are folded: vague ones always are.
    answer: Option<FindingView<'a>>,
    findings: Vec<FindingView<'a>>,
    others: Vec<FindingView<'a>>,
    /// The figure that shows most.
    best: Option<FigureView<'a>>,
    /// What is folded, in words; empty for nothing.
    folded: String,
    testbeds: Vec<Drawing>,
    figures: Vec<FigureView<'a>>,
    tables: Vec<TableView<'a>>,
}

/// How far an experiment is answered.
struct VerdictView<'a> {
    /// `answered`, `differs` or `inconclusive`.
    word: &'static str,
    /// The same beside the question, where there is more room.
    words: &'static str,
    /// `answered`, `differs` or `open`: its colour.
    class: &'static str,
    /// Why it cannot be told, or what differs; else empty.
    reason: &'a str,
}

/// A figure with everything that stands around it.
struct FigureView<'a> {
    figure: &'a Figure,
    anchor: String,
    /// Place among the specs of the page; `None` where there is nothing to draw.
    plot: Option<usize>,
    spoken: String,
    legend: Vec<LegendGroup>,
    bars: String,
    marks: String,
    knees: Vec<String>,
    rows: String,
    data: TableView<'a>,
}

/// The plot on top.
struct FirstView<'a> {
    title: &'a str,
    anchor: String,
    /// Place among the specs of the page.
    plot: usize,
    legend: Vec<LegendGroup>,
}

/// A table; columns of numbers stand flush right.
struct TableView<'a> {
    title: &'a str,
    /// What is the same in every row, which has no column; empty for nothing.
    same: String,
    columns: Vec<(String, &'static str)>,
    rows: Vec<RowView>,
}

/// A row, and what it is filtered by; empty where it has none.
struct RowView {
    device: String,
    marks: String,
    cells: Vec<CellView>,
}

/// A row before it is laid out.
struct TableRow {
    device: String,
    marks: String,
    cells: Vec<String>,
}

/// A cell; what stands in brackets at its end, such as an interval, has a line of its own.
struct CellView {
    text: String,
    bracketed: String,
    class: &'static str,
}

/// A mark, what it means, and where it stands.
struct MarkView {
    name: &'static str,
    meaning: &'static str,
    count: String,
    places: Vec<PlaceView>,
}

/// The marked points of one series.
struct PlaceView {
    anchor: String,
    figure: String,
    series: String,
    points: String,
}

/// Puts the page together.
pub(crate) fn render(
    summary: &Summary,
    environment: &Environment,
    run_toml: &str,
    options: &ReportOptions,
) -> Result<String, ReportError> {
    let mut specs = Vec::new();
    let experiments: Vec<_> =
        summary.experiments.iter().map(|of| experiment_view(of, summary, &mut specs)).collect();
    // The points of a distribution are of one measurement, and what was computed or published was
    // not measured here.
    let is_measured =
        |series: &&Series| series.origin == Origin::Measured && series.shape != SeriesShape::Cdf;
    let points: Vec<&niclab_result::Mean> = series(summary)
        .map(|(_, _, series)| series)
        .filter(is_measured)
        .flat_map(|series| &series.points)
        .collect();
    let top: Vec<_> =
        summary.top_findings().into_iter().map(|of| finding_view(of, summary)).collect();
    let first = first(&top, &experiments);
    let page = Page {
        title: &options.title,
        lead: lead(summary),
        placement: &summary.placement,
        partial: summary.partial,
        program: &summary.program,
        machine: facts(&environment.facts, &TOP_FACTS),
        measured: summary.devices.iter().map(measured).collect(),
        trust: trust(&points, summary),
        warnings: &summary.warnings,
        baseline: summary.baseline.as_ref(),
        top,
        first,
        experiments,
        devices: &summary.devices,
        environment,
        honesty: honesty(summary),
        points_drawn: words::count(points.len(), "measured point"),
        run_toml,
        command: &options.command,
        drawings: embedded(&json!({
            "specs": specs,
            "dark": theme::dark_colours(),
            "config": {"light": theme::config(Theme::Light), "dark": theme::config(Theme::Dark)},
        })),
        style: scripts::STYLE,
        recorder: scripts::RECORDER,
        scripts: [scripts::VEGA, scripts::VEGA_LITE, scripts::VEGA_EMBED, scripts::DRAW],
        notice: scripts::NOTICE,
    };
    Ok(page.render()?)
}

/// The plot on top: that of the first finding which has one, else the first of all.
fn first<'a>(top: &[FindingView<'_>], experiments: &[ExperimentView<'a>]) -> Option<FirstView<'a>> {
    let views = || experiments.iter().flat_map(|of| of.best.iter().chain(&of.figures));
    let drawn = || views().filter(|view| view.plot.is_some());
    let of_finding = |finding: &FindingView<'_>| {
        let (anchor, _) = finding.figure.as_ref()?;
        drawn().find(|view| view.anchor == *anchor)
    };
    let view = top.iter().find_map(of_finding).or_else(|| drawn().next())?;
    let (figure, plot) = (view.figure, view.plot?);
    let (anchor, legend) = (view.anchor.clone(), legend(figure));
    Some(FirstView { title: &figure.title, anchor, plot, legend })
}

/// JSON that may stand inside a script element: no `<` can end the element or open a comment.
fn embedded(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e")
}

/// Every series of a run with its figure's place; none of its baseline.
fn series(summary: &Summary) -> impl Iterator<Item = (&Figure, usize, &Series)> {
    let figures = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
    let all = figures.flat_map(|figure| {
        figure.series.iter().enumerate().map(move |(index, series)| (figure, index, series))
    });
    all.filter(|(_, _, series)| series.origin != Origin::Baseline)
}

/// What, when, how long, by what: one line.
fn lead(summary: &Summary) -> String {
    let experiments = words::count(summary.experiments.len(), "experiment");
    let devices = words::count(summary.devices.len(), "device");
    let started = summary.started.replacen('T', " ", 1).replacen('Z', " UTC", 1);
    let length = words::duration(summary.duration_s);
    format!("{experiments} on {devices} · started {started} · {length} · {}", summary.program)
}

/// The values of some facts, of those there are.
fn facts(of: &[(String, String)], wanted: &[&str]) -> String {
    let value = |name: &&str| {
        let (_, value) = of.iter().find(|(known, _)| known == name)?;
        Some(match *name {
            "hypervisor" if value == "none" => return None,
            "hypervisor" => "virtual machine".to_owned(),
            "cores of this process" => words::count(value.parse().unwrap_or(0), "core"),
            "cpu" | "kernel" | "kind" | "modelled" => value.clone(),
            name => format!("{name} {value}"),
        })
    };
    wanted.iter().filter_map(value).collect::<Vec<_>>().join(" · ")
}

/// A device and what stands on top about it.
fn measured(device: &DeviceSummary) -> (&str, String) {
    (&device.device, facts(&device.facts, &TOP_DEVICE_FACTS))
}

/// How far the data are to be trusted: a line.
fn trust(points: &[&niclab_result::Mean], summary: &Summary) -> String {
    let warnings = summary.warnings.len();
    let marked = points.iter().filter(|point| !point.marks.is_empty()).count();
    let marks = match marked {
        0 => format!("none of {} carries a mark", words::count(points.len(), "measured point")),
        _ => format!("{marked} of {} carry a mark", words::count(points.len(), "measured point")),
    };
    let warned = match warnings {
        0 => format!("{marks}, and there is no warning."),
        _ => format!("{marks}; {}.", words::count(warnings, "warning")),
    };
    [warned, reference::words(summary.reference.as_ref())].join(" ").trim_end().to_owned()
}

fn finding_view<'a>(finding: &'a Finding, summary: &'a Summary) -> FindingView<'a> {
    let (number, unit) = finding.value.words(finding.interval);
    let mut figures = summary.experiments.iter().flat_map(|experiment| &experiment.figures);
    let shown = finding.figure.as_ref().and_then(|id| figures.find(|figure| figure.id == *id));
    FindingView {
        finding,
        section: match finding.experiment.as_str() {
            "" => String::new(),
            name => section(name),
        },
        number,
        unit,
        interval: finding.interval.map(|ends| finding.value.interval_words(ends)),
        figure: shown.map(|figure| (words::anchor(&figure.id), figure.title.as_str())),
    }
}

/// Anchor of an experiment's section.
fn section(name: &str) -> String {
    words::anchor(name).replacen("fig-", "exp-", 1)
}

fn experiment_view<'a>(
    of: &'a ExperimentSummary,
    summary: &'a Summary,
    specs: &mut Vec<Value>,
) -> ExperimentView<'a> {
    let own = summary.findings.iter().filter(|finding| finding.experiment == of.name);
    let (vague, mut open): (Vec<&Finding>, Vec<_>) = own.partition(|finding| finding.is_vague());
    let mut others = open.split_off(open.len().min(OPEN_COUNT_MAX));
    others.extend(vague);
    let view = |finding: &&'a Finding| finding_view(finding, summary);
    let mut figures: Vec<FigureView<'a>> =
        of.figures.iter().map(|figure| figure_view(figure, specs)).collect();
    let best = best(of, open.first().copied()).map(|at| figures.remove(at));
    let (testbeds, tables) = (&of.testbeds, &of.tables);
    let parts = [
        (others.len(), "more finding"),
        (figures.len(), "more figure"),
        (tables.len(), "table"),
        (testbeds.len(), "testbed"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let folded = parts.map(|(count, name)| words::count(*count, name)).collect::<Vec<_>>();
    ExperimentView {
        anchor: section(&of.name),
        name: &of.name,
        question: &of.question,
        verdict: verdict(&of.verdict),
        beside_published: &of.beside_published,
        terms: &of.terms,
        answer: open.first().map(view),
        findings: open.iter().skip(1).map(view).collect(),
        others: others.iter().map(view).collect(),
        best,
        folded: folded.join(", "),
        testbeds: testbeds.iter().map(drawing::drawing).collect(),
        figures,
        tables: tables
            .iter()
            .map(|of| table_view(&of.title, (of.columns.clone(), of.inputs), rows_of(of)))
            .collect(),
    }
}

fn verdict(of: &ExperimentVerdict) -> VerdictView<'_> {
    let (word, words, class, reason) = match of {
        ExperimentVerdict::Answered => ("answered", "answered", "answered", ""),
        ExperimentVerdict::DiffersFromPublished { difference } => {
            ("differs", "differs from published", "differs", difference.as_str())
        }
        ExperimentVerdict::CannotTell { reason } => {
            ("inconclusive", "inconclusive", "open", reason.as_str())
        }
    };
    VerdictView { word, words, class, reason }
}

/// The figure that is not folded: that of the first finding, or the first with a curve in it.
fn best(of: &ExperimentSummary, first: Option<&Finding>) -> Option<usize> {
    let named = first.and_then(|finding| finding.figure.as_deref());
    let of_first = of.figures.iter().position(|figure| Some(figure.id.as_str()) == named);
    let has_curve = |figure: &Figure| figure.series.iter().any(|series| series.points.len() > 1);
    let drawn = || of.figures.iter().position(|figure| points(figure).next().is_some());
    of_first.or_else(|| of.figures.iter().position(has_curve)).or_else(drawn)
}

fn figure_view<'a>(figure: &'a Figure, specs: &mut Vec<Value>) -> FigureView<'a> {
    let drawn = figure.series.iter().any(|series| !series.points.is_empty());
    let plot = drawn.then(|| {
        specs.push(spec::vega_lite(figure));
        specs.len() - 1
    });
    let mut marks: Vec<Mark> = points(figure).flat_map(|point| point.marks.clone()).collect();
    marks.sort();
    marks.dedup();
    FigureView {
        figure,
        anchor: words::anchor(&figure.id),
        plot,
        spoken: format!(
            "{}: {} against {}, {}. The data are in the table below the figure.",
            figure.title,
            axis::title(&figure.y),
            axis::title(&figure.x),
            words::count(figure.series.len(), "curve"),
        ),
        legend: legend(figure),
        bars: legend::error_bars(figure),
        marks: if marks.is_empty() { String::new() } else { spec::marks_words(&marks) },
        knees: figure.knees.iter().map(|knee| spec::knee_words(figure, knee)).collect(),
        rows: words::count(points(figure).count(), "row"),
        data: data(figure),
    }
}

/// The rows of a table, with the device and the marks that its columns say.
fn rows_of(table: &ReportTable) -> Vec<TableRow> {
    let column = |name: &str| table.columns.iter().position(|column| column == name);
    let (device, marks) = (column("device"), column("marks"));
    let row = |cells: &Vec<String>| {
        let at = |place: Option<usize>| place.and_then(|at| cells.get(at)).cloned();
        let [device, marks] = [device, marks].map(|place| at(place).unwrap_or_default());
        TableRow { device, marks, cells: cells.clone() }
    };
    table.rows.iter().map(row).collect()
}

fn table_view(
    title: &str,
    (columns, inputs): (Vec<String>, usize),
    rows: Vec<TableRow>,
) -> TableView<'_> {
    let varies = varying(columns.len(), &rows);
    let same = constants(&columns, &rows, &varies);
    let order = results_first(&varies, inputs);
    let arranged = |cells: Vec<String>| {
        order.iter().filter_map(|at| cells.get(*at).cloned()).collect::<Vec<String>>()
    };
    let columns = arranged(columns);
    let rows: Vec<TableRow> =
        rows.into_iter().map(|row| TableRow { cells: arranged(row.cells), ..row }).collect();
    let class = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.cells.get(column)).peekable();
        let numbers = cells.peek().is_some() && cells.all(|cell| numeric(cell));
        if numbers { "number" } else { "" }
    };
    let classes: Vec<_> = (0..columns.len()).map(class).collect();
    let view = |TableRow { device, marks, cells }| RowView {
        device,
        marks,
        cells: Vec::into_iter(cells).zip(&classes).map(cell_view).collect(),
    };
    TableView {
        title,
        same,
        columns: columns.into_iter().zip(classes.iter().copied()).collect(),
        rows: rows.into_iter().map(view).collect(),
    }
}

/// Which columns are drawn: those with two values or more, and all where none has.
fn varying(columns_count: usize, rows: &[TableRow]) -> Vec<bool> {
    let is_same =
        |at: usize| rows.windows(2).all(|two| two[0].cells.get(at) == two[1].cells.get(at));
    let varies: Vec<bool> = (0..columns_count).map(|at| !is_same(at)).collect();
    if varies.contains(&true) { varies } else { vec![true; columns_count] }
}

/// The columns that are not drawn, each with the value of all rows, in words.
fn constants(columns: &[String], rows: &[TableRow], varies: &[bool]) -> String {
    let value = |at: usize| rows.first().and_then(|row| row.cells.get(at)).map(String::as_str);
    let fixed = columns.iter().enumerate().filter(|(at, _)| !varies[*at]);
    let told = fixed.filter_map(|(at, column)| Some((column, value(at)?)));
    let told = told.filter(|(_, value)| !matches!(*value, "" | "-" | "\u{2013}"));
    told.map(|(column, value)| format!("{column} {value}")).collect::<Vec<_>>().join(", ")
}

/// The order in which columns are drawn: the first input, which labels a row, the results, and the
/// other inputs.
fn results_first(varies: &[bool], inputs: usize) -> Vec<usize> {
    let drawn = (0..varies.len()).filter(|at| varies[*at]);
    let (inputs, results): (Vec<usize>, Vec<usize>) = drawn.partition(|at| *at < inputs);
    let (label, others) = inputs.split_at(inputs.len().min(1));
    [label, &results, others].concat()
}

fn cell_view((cell, class): (String, &&'static str)) -> CellView {
    let (text, bracketed) = match cell.rfind(" (").filter(|_| cell.ends_with(')')) {
        Some(at) => (cell[..at].to_owned(), without_unit(&cell[..at], &cell[at + 1..])),
        None => (cell, String::new()),
    };
    // A number with words behind it folds between them.
    let is_long = text.chars().count() > NUMBER_LETTERS_MAX;
    let class = if *class == "number" && is_long { "number long" } else { class };
    CellView { text, bracketed, class }
}

/// An interval without the unit that its number has: `(11.9 to 12.6)` of `12.3 Mpps`.
fn without_unit(number: &str, interval: &str) -> String {
    let Some((_, unit)) = number.split_once(' ') else { return interval.to_owned() };
    let unit = format!(" {unit}");
    match interval.matches(&unit).count() {
        2 => interval.replace(&unit, ""),
        _ => interval.to_owned(),
    }
}

/// `true` where a cell starts like a number, or holds a dash for the lack of one.
fn numeric(cell: &str) -> bool {
    let cell = cell.trim_start_matches(['\u{2212}', '-', '+', '±', '\u{2013}']);
    cell.is_empty() || cell.starts_with(|letter: char| letter.is_ascii_digit())
}

fn points(figure: &Figure) -> impl Iterator<Item = &niclab_result::Mean> {
    figure.series.iter().flat_map(|series| &series.points)
}

/// The table behind a figure.
fn data(figure: &Figure) -> TableView<'_> {
    let columns = [
        "series".to_owned(),
        axis::title(&figure.x),
        axis::title(&figure.y),
        "spread".to_owned(),
        "repeats".to_owned(),
        "marks".to_owned(),
    ];
    let names = spec::series_names(figure);
    let rows = figure.series.iter().zip(&names).flat_map(|(series, name)| {
        series.points.iter().map(move |point| TableRow {
            // A published point stands beside every device.
            device: match series.origin {
                Origin::Published => String::new(),
                _ => series.device.clone(),
            },
            marks: point
                .marks
                .iter()
                .map(|mark| words::mark_name(*mark))
                .collect::<Vec<_>>()
                .join(", "),
            cells: vec![
                name.clone(),
                place(figure, point),
                words::number(point.y),
                spec::range_words(series, point),
                point.repeats.to_string(),
                spec::marks_words(&point.marks),
            ],
        })
    });
    table_view(&figure.title, (columns.to_vec(), 0), rows.collect())
}

/// Where a point stands on the horizontal axis, in words.
fn place(figure: &Figure, point: &niclab_result::Mean) -> String {
    match figure.x.scale {
        Scale::Ordinal => point.x_word.clone(),
        _ => words::number(point.x),
    }
}

/// Every mark of the run: what it means, and where it stands.
fn honesty(summary: &Summary) -> Vec<MarkView> {
    let mut marks: BTreeMap<Mark, Vec<PlaceView>> = BTreeMap::new();
    let mut counts: BTreeMap<Mark, usize> = BTreeMap::new();
    for (figure, index, series) in series(summary) {
        let mut here: BTreeMap<Mark, Vec<String>> = BTreeMap::new();
        for point in &series.points {
            for mark in &point.marks {
                here.entry(*mark).or_default().push(place(figure, point));
            }
        }
        for (mark, places) in here {
            *counts.entry(mark).or_default() += places.len();
            marks.entry(mark).or_default().push(PlaceView {
                anchor: words::anchor(&figure.id),
                figure: figure.title.clone(),
                series: spec::series_names(figure)[index].clone(),
                points: places_words(&places, series.points.len(), &figure.x.label),
            });
        }
    }
    let views = marks.into_iter().map(|(mark, places)| MarkView {
        name: words::mark_name(mark),
        meaning: words::mark_meaning(mark),
        count: words::count(counts.get(&mark).copied().unwrap_or_default(), "point"),
        places,
    });
    views.collect()
}

/// `2 of 14 points, at rules = 1,000; 2,000`.
fn places_words(places: &[String], of: usize, label: &str) -> String {
    if places.len() == of && of > 1 {
        return format!("all {of} points");
    }
    let named = places.iter().take(PLACES_COUNT_MAX).cloned().collect::<Vec<_>>().join("; ");
    let rest = match places.len().saturating_sub(PLACES_COUNT_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} of {}, at {label} = {named}{rest}", places.len(), words::count(of, "point"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_machine_is_named_on_top() {
        let line = |hypervisor: &str| {
            let of = [("cpu", "EPYC"), ("hypervisor", hypervisor), ("cores of this process", "2")];
            facts(&of.map(|(name, value)| (name.to_owned(), value.to_owned())), &TOP_FACTS)
        };
        assert_eq!(line("yes: this is a virtual machine"), "EPYC · virtual machine · 2 cores");
        assert_eq!(line("none"), "EPYC · 2 cores");
    }
}
