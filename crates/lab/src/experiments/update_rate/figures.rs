//! Figures and tables of the experiment `update-rate`.

use niclab_result::{Axis, Figure, Mean, Origin, ReportTable, Scale, Series};

use super::analysis::{Rated, done_per_s, id, per_s, rated, way_words};
use super::trials::PRESETS;
use crate::cells::Cell;
use crate::spec::TrialKind;
use crate::summary::Results;
use crate::summary::curves::add_point;
use crate::summary::frames::frame_words;
use crate::summary::tables::{marks, median, results_from, table, worded};
use crate::{published, words};

/// A rate in words: `4,000 (hadoop)`.
fn per_s_words(cell: &Cell<'_>) -> String {
    let per_s = per_s(cell);
    let preset = PRESETS.iter().find(|(_, rate)| f64::from(*rate) == per_s);
    match preset {
        Some((name, _)) => format!("{} ({})", words::whole(per_s), name.replace('_', " ")),
        None => words::whole(per_s),
    }
}

/// The marks of the trial at full load, and behind them those of the one for the latency.
fn marks_of_both(rated: &Rated<'_>) -> String {
    let full = marks(rated.full);
    match rated.latency.map(marks).filter(|more| !more.is_empty()) {
        Some(more) if full.is_empty() => format!("latency: {more}"),
        Some(more) => format!("{full}; latency: {more}"),
        None => full,
    }
}

/// The table of all rates.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut rows = Vec::new();
    for rated in results.devices().flat_map(|device| rated(results, device)) {
        let cell = rated.full;
        let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
        let ratio = |value: f64| words::significant(value);
        let of_latency = |metric: &str| {
            rated.latency.map_or("-".to_owned(), |cell| median(cell, metric, words::time))
        };
        let has_churn = per_s(cell) > 0.0;
        let (core, calls, slice) = match has_churn {
            true => (cell.word("core"), cell.word("calls"), cell.word("slice")),
            false => ("-".into(), "-".into(), "-".into()),
        };
        rows.push(vec![
            cell.device.to_string(),
            number("group"),
            number("rules"),
            cell.word("frame"),
            per_s_words(cell),
            core,
            calls,
            slice,
            done_per_s(cell).map_or("-".into(), |done| words::whole(done.median)),
            median(cell, "operations_refused", words::whole),
            worded(cell.estimate("throughput_pps"), words::pps),
            worded(rated.against_rest(), ratio),
            of_latency("latency_ns_p50"),
            of_latency("latency_ns_p99"),
            rated.latency.map_or("-".into(), |cell| median(cell, "loss_ratio", words::percent)),
            worded(rated.latency_against_rest(), ratio),
            median(cell, "control_ns_per_operation", words::time),
            median(cell, "control_busy_ratio", words::percent),
            of_latency("waited_ns_p50"),
            of_latency("waited_ns_p99"),
            of_latency("late_ns_p50"),
            of_latency("late_ns_p99"),
            marks_of_both(&rated),
        ]);
    }
    let columns = [
        "device",
        "group",
        "rules",
        "frame",
        "rules/s",
        "core",
        "calls",
        "slice",
        "done/s",
        "refused",
        "throughput (interval)",
        "against no churn",
        "latency p50",
        "p99",
        "lost",
        "p50 against no churn",
        "time per rule",
        "share of the core",
        "started after, p50",
        "started p99",
        "done after, p50",
        "done p99",
        "marks",
    ];
    let title = "Rule churn: rules destroyed and created at a rate";
    let table = results_from("done/s", table("update-rate", title, &columns, rows));
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

/// Throughput and latency over the rate, a figure for each group and frame size.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut places: Vec<(f64, String)> = Vec::new();
    for cell in results.cells.all().iter().filter(|cell| cell.trial == "saturate") {
        let place = (cell.number("group").unwrap_or(0.0), cell.word("frame"));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let mut figures = Vec::new();
    for (group, frame) in places {
        figures.push(throughput(results, group, &frame));
        figures.push(latency(results, group, &frame));
    }
    figures.retain(|figure| figure.series.iter().any(|series| series.origin != Origin::Published));
    figures
}

/// A curve over the rate for each device, number of rules and way.
fn curves(
    results: &Results<'_>,
    (group, frame): (f64, &str),
    point: impl Fn(&Rated<'_>) -> Option<Mean>,
) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for rated in rated(results, device) {
            let cell = rated.full;
            let is_here = cell.is_at(&[("group", group)]) && cell.word("frame") == frame;
            let Some(point) = point(&rated).filter(|_| is_here && per_s(cell) > 0.0) else {
                continue;
            };
            let rules = words::rules(cell.number("rules").unwrap_or(0.0));
            let name = format!("{device}, {rules}, {}", way_words(cell));
            add_point(&mut series, name, device, point);
        }
    }
    series
}

fn throughput(results: &Results<'_>, group: f64, frame: &str) -> Figure {
    let mut series = curves(results, (group, frame), |rated| {
        let ratio = rated.against_rest()?.scaled(100.0);
        let ends = Some(ratio).filter(|ratio| ratio.repeats > 1);
        Some(Mean {
            x: per_s(rated.full),
            y: ratio.median,
            low: ends.map(|ratio| ratio.low),
            high: ends.map(|ratio| ratio.high),
            repeats: ratio.repeats as u32,
            marks: rated.full.marks("throughput_pps"),
            ..Mean::default()
        })
    });
    series.extend(published::rate_throughput(group == 0.0, results.run.card));
    Figure {
        id: id("throughput", group, frame),
        title: format!(
            "Throughput while rules of group {} are replaced, {}",
            words::whole(group),
            frame_words(frame)
        ),
        caption: format!(
            "Throughput at full load divided by that without rule churn, repeat by repeat, if the \
             generator limited neither; packets match the default rule of the group. Published: \
             {}, insertions, divided by the rate of a link of 100 Gbps, 1500 B frames, PAM 2021, \
             figures 4a and 4b.",
            results.run.card.label()
        ),
        x: Axis { label: "rules replaced a second".into(), unit: "".into(), scale: Scale::Log },
        y: Axis { label: "throughput".into(), unit: "%".into(), scale: Scale::Linear },
        series,
        knees: Vec::new(),
    }
}

fn latency(results: &Results<'_>, group: f64, frame: &str) -> Figure {
    let mut series = curves(results, (group, frame), |rated| {
        rated.latency?.mean("latency_ns_p50", 1e-3, per_s(rated.full))
    });
    series.extend(published::rate_latency(group == 0.0, results.run.card, 1.0));
    let share = results.experiment.share(TrialKind::LATENCY).unwrap_or(0.0);
    Figure {
        id: id("latency", group, frame),
        title: format!(
            "Latency while rules of group {} are replaced, {}",
            words::whole(group),
            frame_words(frame)
        ),
        caption: format!(
            "Median latency from the planned departure, open loop at {}, measured without \
             rule churn. Published: {}, insertions, average latency at 5 Mpps of 1500 B frames, \
             PAM 2021, figures 4c and 4d.",
            words::of_maximum(share),
            results.run.card.label()
        ),
        x: Axis { label: "rules replaced a second".into(), unit: "".into(), scale: Scale::Log },
        y: Axis { label: "latency".into(), unit: "us".into(), scale: Scale::Log },
        series,
        knees: Vec::new(),
    }
}
