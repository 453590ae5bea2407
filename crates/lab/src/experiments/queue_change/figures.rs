//! Figures and tables of the experiment `queue-change`.

use niclab_load::RssChanges;
use niclab_result::{Axis, Figure, Mean, ReportTable, Scale, Series};
use serde::Deserialize;

use super::analysis::{LOAD, USED, answers, changes, figure_id, sum};
use super::metrics::{LOOK, REACTION, REACTION_LAST, SETTLED, THIRDS, used_cores};
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::curves::add_point;
use crate::summary::queues::{number, popularity};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::{statistics, words};

/// Length of what a point over time tells of, nanoseconds.
const POINT_NS: u64 = 50_000_000;

pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![changed(results), answered(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn count(cell: &Cell<'_>, axis: &str) -> String {
    cell.number(axis).map(words::whole).unwrap_or_default()
}

/// What became of the frames of all repeats: offered, lost, behind a later one, dropped while held.
fn frames(cell: &Cell<'_>) -> [String; 4] {
    ["offered_frames", "lost_frames", "reordered_frames", "held_drop_frames"]
        .map(|metric| words::whole(sum(cell, metric)))
}

fn changed(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in changes(results, device) {
            let [offered, lost, reordered, held] = frames(cell);
            // Where nothing is changed nothing settles.
            let judged = if cell.word("change") == "none" { "loss_ratio" } else { SETTLED };
            rows.push(vec![
                device.to_owned(),
                cell.word("change"),
                count(cell, "per_s"),
                count(cell, "cores"),
                count(cell, "queues"),
                count(cell, "flows"),
                words::pps(number(cell, "pps")),
                words::whole(sum(cell, "rss_changes")),
                offered,
                lost,
                reordered,
                held,
                worded(cell.estimate(SETTLED), words::time),
                median(cell, "settled_ns_p99", words::time),
                median(cell, "settled_ns_max", words::time),
                median(cell, LOOK, words::time),
                median(cell, "latency_ns_p99", words::time),
                marks_of(cell, judged),
            ]);
        }
    }
    let columns = [
        "device",
        "change of",
        "per second",
        "cores",
        "queues",
        "flows",
        "load",
        "changes",
        "frames",
        "lost",
        "reordered",
        "dropped while held",
        "in effect after (interval)",
        "p99",
        "max",
        "checked every",
        "latency p99",
        "marks",
    ];
    let title = "RSS changes while frames flow, all repeats together, and the time until a change \
                 is seen to be in effect for every frame";
    results_from("frames", table("queue-change-changes", title, &columns, rows))
}

fn answered(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in answers(results, device) {
            let [offered, lost, reordered, held] = frames(cell);
            let thirds = |metric: &str| {
                let of = THIRDS
                    .map(|third| median(cell, &format!("{metric}_{third}"), words::significant));
                of.join(" | ")
            };
            rows.push(vec![
                device.to_owned(),
                cell.word("answer"),
                cell.word("change"),
                count(cell, "cores"),
                words::pps(number(cell, "pps")),
                format!("x {}", count(cell, "step")),
                words::time(number(cell, "work_ns")),
                count(cell, "flows"),
                popularity(cell),
                offered,
                lost,
                reordered,
                held,
                median(cell, "answers", words::significant),
                worded(cell.estimate(REACTION), words::time),
                median(cell, REACTION_LAST, words::time),
                thirds("used_cores"),
                thirds("cpu_cores"),
                median(cell, "latency_ns_p99", words::time),
                marks_of(cell, "latency_ns_p99"),
            ]);
        }
    }
    let columns = [
        "device",
        "answer",
        "change of",
        "cores",
        "load",
        "step",
        "work",
        "flows",
        "popularity",
        "frames",
        "lost",
        "reordered",
        "dropped while held",
        "answers",
        "reaction (interval)",
        "settled by",
        "cores in use",
        "processor time, cores",
        "latency p99",
        "marks",
    ];
    let title = "Load step in the middle third, and the device's own reaction: cores before | \
                 during | after the step";
    results_from("frames", table("queue-change-answers", title, &columns, rows))
}

pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let of = |device| {
        [(USED, "Cores in use"), (CPU, "Processor time of all cores")]
            .map(|(id, title)| over_time(results, device, (id, title)))
    };
    let mut figures: Vec<Figure> = results.devices().flat_map(of).collect();
    figures.retain(|figure| figure.series.iter().any(|series| series.points.len() > 1));
    figures
}

/// Their processor time over time.
const CPU: &str = "cpu";

/// What became of a spread, as a sample has it.
fn seen(sample: &niclab_result::Sample) -> Option<RssChanges> {
    RssChanges::deserialize(&sample.control).ok()
}

fn over_time(results: &Results<'_>, device: &str, (id, title): (&str, &str)) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    let all = answers(results, device);
    // One load: the one that steps highest, without changes where it has been measured so.
    let steps = |a: &Cell<'_>, b: &Cell<'_>| {
        let is_calm = |cell: &Cell<'_>| cell.word("change") == "none";
        number(a, "step").total_cmp(&number(b, "step")).then(is_calm(a).cmp(&is_calm(b)))
    };
    let like = all.iter().copied().max_by(|a, b| steps(a, b));
    let is_like = |cell: &&&Cell<'_>| {
        let mut axes = LOAD.iter().chain([&"change"]);
        like.is_some_and(|like| axes.all(|axis| cell.word(axis) == like.word(axis)))
    };
    for cell in all.iter().filter(is_like) {
        let seen: Vec<RssChanges> = cell.samples.iter().filter_map(|sample| seen(sample)).collect();
        let marks = cell.marks("loss_ratio");
        for point in points(&seen, id) {
            let point = Mean { marks: marks.clone(), ..point };
            add_point(&mut series, cell.word("answer"), device, point);
        }
    }
    let load = like.map(|like| {
        format!(
            "{} frames a second, {} times as many in the middle third; {} of work a frame, {} \
             flows, {}.",
            words::whole(number(like, "pps")),
            count(like, "step"),
            words::time(number(like, "work_ns")),
            count(like, "flows"),
            popularity(like)
        )
    });
    let axis = |label: &str, unit: &str| Axis {
        label: label.into(),
        unit: unit.into(),
        scale: Scale::Linear,
    };
    Figure {
        id: figure_id(id, device),
        title: format!("{title} over time during a load step: {device}"),
        caption: load.unwrap_or_default(),
        x: axis("time", "ms"),
        y: axis(&title.to_lowercase(), "cores"),
        series,
        knees: Vec::new(),
    }
}

/// The median of all repeats, stretch by stretch of [`POINT_NS`].
fn points(seen: &[RssChanges], id: &str) -> Vec<Mean> {
    let Some(first) = seen.first().filter(|first| first.stretch_ns > 0) else { return Vec::new() };
    let each = (POINT_NS / first.stretch_ns).max(1) as usize;
    let stretches = seen.iter().filter_map(|seen| Some(seen.cpu_ns.first()?.len())).min();
    let value = |seen: &RssChanges, from: usize| {
        let all = from..from + each;
        let sum: f64 = match id {
            USED => all.map(|stretch| used_cores(seen, stretch) as f64).sum(),
            _ => {
                let of = |cpu_ns: &Vec<u64>| cpu_ns[all.clone()].iter().sum::<u64>();
                seen.cpu_ns.iter().map(of).sum::<u64>() as f64 / seen.stretch_ns as f64
            }
        };
        sum / each as f64
    };
    let at = |from: usize| {
        let values: Vec<f64> = seen.iter().map(|seen| value(seen, from)).collect();
        let x = (from as f64 + each as f64 / 2.0) * first.stretch_ns as f64 / 1e6;
        let (y, repeats) = (statistics::median(&values)?, values.len() as u32);
        Some(Mean { x, y, repeats, ..Mean::default() })
    };
    (0..stretches.unwrap_or(0) / each).filter_map(|point| at(point * each)).collect()
}
