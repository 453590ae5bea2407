//! Figures and tables of the experiment `update-batch`.

use std::collections::BTreeMap;

use niclab_result::{Axis, Figure, Mean, Origin, ReportTable, Sample, Scale, Series, SeriesShape};
use serde_json::Value;

use super::analysis::{cells, figure_id, is_failover};
use super::metrics::{BATCH, JUDGED};
use super::trials::{BatchWork, WORKS};
use crate::axes::name_of;
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::frames::frame_words;
use crate::summary::tables::{median, of_windows, results_from, table, took, worded};
use crate::summary::updates::{calls_words, length, pace_words};
use crate::windows::{Slices, TimeBin, WINDOW_NS};
use crate::{measure, published, statistics, words};

/// Windows that a curve shows of a trial at most, more than a figure has columns of pixels: of
/// more, the lowest of each few.
const POINTS_MAX: usize = 1_000;

/// Published curves stand beside trials that last so long from the batch on, seconds.
const PUBLISHED_MIN_S: f64 = 1.0;

/// The trial without the batch at the place of a cell, of the same length.
fn rest<'a>(results: &'a Results<'_>, cell: &Cell<'_>) -> Option<&'a Cell<'a>> {
    let same = |rest: &&Cell<'_>| {
        let axes = ["group", "flows", "rules"];
        let axes = axes.iter().all(|axis| rest.number(axis) == cell.number(axis));
        axes && is_failover(rest) == is_failover(cell)
            && rest.word("frame") == cell.word("frame")
            && length(rest) == length(cell)
    };
    results.cells.of(cell.device, "rest").find(same)
}

/// How long a trial of the cell goes on from the batch on, nanoseconds.
fn after_ns(cell: &Cell<'_>) -> f64 {
    let begun_ns = cell.samples.first().and_then(|sample| sample.control["begun_ns"].as_u64());
    length(cell).unwrap_or(0).saturating_sub(begun_ns.unwrap_or(0)) as f64
}

/// What is left of the share of the frames offered that is dealt with, pair by pair of repeats.
fn against_rest(results: &Results<'_>, cell: &Cell<'_>) -> Option<statistics::Estimate> {
    let (with, without) = cell.paired(rest(results, cell)?, "loss_ratio");
    let [with, without] =
        [with, without].map(|lost| lost.iter().map(|lost| 1.0 - lost).collect::<Vec<f64>>());
    statistics::paired_ratio(&with, &without)
}

/// Columns of the table of all batches.
const COLUMNS: [&str; 26] = [
    "device",
    "work",
    "group",
    "batch",
    "core",
    "calls",
    "slice",
    "flows",
    "frame",
    "load",
    "rules done",
    "refused",
    "took",
    "outage",
    "blocked",
    "lost frames",
    "lossy time bins",
    "time bins at zero",
    "undisturbed time bins",
    "recovered after",
    "against before",
    "against rest",
    "matched no rule",
    "call p50",
    "call maximum",
    "marks",
];

/// The table of all batches.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut rows = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
        let ratio = |e: f64| words::significant(e);
        let sum = |metric: &str| words::whole(cell.values(metric).iter().sum());
        // A repeat without an undisturbed window before the batch or behind it tells nothing.
        let count = |name| cell.values(name).len();
        let recovered = match (count("recovered_ns"), count("lowest_ratio")) {
            (_, 0) => "-".to_owned(),
            (0, _) => format!("not recovered after {}", words::time(after_ns(cell))),
            (found, of) if found < of => format!("{found} of {of} times"),
            _ => median(cell, "recovered_ns", words::time),
        };
        let work = if is_failover(cell) { BatchWork::Failover } else { BatchWork::Create };
        rows.push(vec![
            cell.device.to_string(),
            name_of(&WORKS, work).to_owned(),
            number("group"),
            number("batch"),
            cell.word("core"),
            cell.word("calls"),
            cell.word("slice"),
            number("flows"),
            cell.word("frame"),
            median(cell, "planned_pps", words::pps),
            median(cell, "operations_done", words::whole),
            median(cell, "operations_refused", words::whole),
            took(cell),
            worded(cell.estimate("outage_ns"), words::time),
            worded(cell.estimate("blocked_ns"), words::time),
            median(cell, "lost_frames", words::whole),
            of_windows(cell, "losing_windows"),
            of_windows(cell, "zero_windows"),
            of_windows(cell, "undisturbed_windows"),
            recovered,
            worded(cell.estimate("dealt_ratio"), ratio),
            worded(against_rest(results, cell), ratio),
            if count("met_none_frames") > 0 { sum("met_none_frames") } else { "-".to_owned() },
            median(cell, "call_ns_p50", words::time),
            median(cell, "call_ns_max", words::time),
            cell.marks(JUDGED).iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        ]);
    }
    let title = "Batches: forwarding loss while rules were created or re-pointed";
    let table = results_from("rules done", table("update-batch", title, &COLUMNS, rows));
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

/// Throughput over time, a figure for each group, core and way to call.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for cell in results.devices().flat_map(|device| cells(results, device)) {
        let id = figure_id(cell);
        if figures.iter().all(|figure| figure.id != id) {
            figures.push(figure(results, cell, id.clone()));
        }
        let points = over_time(cell);
        if let Some(figure) = figures.iter_mut().find(|figure| figure.id == id && points.len() > 1)
        {
            let batch = cell.number("batch").unwrap_or(0.0);
            let batch = match is_failover(cell) {
                true => format!("{} prefixes,", words::whole(batch)),
                false => format!("{},", words::rules(batch)),
            };
            figure.series.push(Series {
                name: format!("{}, {batch} {}", cell.device, pace_words(cell)),
                device: cell.device.to_string(),
                origin: Origin::Measured,
                shape: SeriesShape::Line,
                hue: None,
                points,
            });
        }
    }
    figures.retain(|figure| figure.series.iter().any(|series| series.origin != Origin::Published));
    for figure in &mut figures {
        // Seconds of a published trial would leave no room for a trial of milliseconds.
        let ours = figure.series.iter().filter(|series| series.origin != Origin::Published);
        let last_s =
            ours.flat_map(|series| &series.points).map(|point| point.x).fold(0.0, f64::max);
        figure
            .series
            .retain(|series| series.origin != Origin::Published || last_s >= PUBLISHED_MIN_S);
        if figure.series.iter().any(|series| series.origin == Origin::Published) {
            figure.caption.push_str(&format!(
                " Published: {}, a saturated link of 100 Gbps, 1500 B frames, samples of 0.1 s, \
                 PAM 2021, figure 3.",
                results.run.card.label()
            ));
        }
    }
    figures
}

fn figure(results: &Results<'_>, cell: &Cell<'_>, id: String) -> Figure {
    let group = words::whole(cell.number("group").unwrap_or(0.0));
    let core = match cell.word("core").as_str() {
        "same" => "by the core that polls the queues",
        _ => "by another core",
    };
    let share = results.experiment.share(BATCH).unwrap_or(0.0);
    let which = match (group.as_str(), cell.word("core").as_str()) {
        ("0", "same") => published::Batch::RootSame,
        ("0", _) => published::Batch::RootDistinct,
        (_, "same") => published::Batch::GroupSame,
        _ => published::Batch::GroupDistinct,
    };
    let work = match is_failover(cell) {
        true => format!("prefixes of group {group} re-pointed"),
        false => format!("rules into group {group}"),
    };
    let published = match cell.word("calls").as_str() {
        "single" if !is_failover(cell) => published::batches(which, results.run.card),
        _ => Vec::new(),
    };
    Figure {
        id,
        title: format!(
            "Throughput over time: {work} {core}, {}, {}",
            calls_words(cell),
            frame_words(&cell.word("frame"))
        ),
        caption: format!(
            "Delivery ratio (processed frames divided by offered frames) in time bins of 10 ms, \
             divided by the median bin before the batch; medians of the repeats. Bins with a \
             stall of the machine, and those in which the generator did not offer what was due, \
             are left out. For trials of more than ten seconds the lowest of each few is shown. \
             The load is {}.",
            words::of_maximum(share)
        ),
        x: Axis { label: "time since the batch".into(), unit: "s".into(), scale: Scale::Linear },
        y: Axis { label: "throughput".into(), unit: "%".into(), scale: Scale::Linear },
        series: published,
        knees: Vec::new(),
    }
}

/// Medians over the repeats of each window's throughput, in percent of the median window in front
/// of the batch of its repeat.
fn over_time(cell: &Cell<'_>) -> Vec<Mean> {
    let mut by_start: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (start_ns, share) in cell.samples.iter().flat_map(|sample| shares(sample)) {
        by_start.entry(start_ns).or_default().push(share);
    }
    let marks = cell.marks(JUDGED);
    let point = |(start_ns, shares): (i64, Vec<f64>)| {
        let e = statistics::estimate(&shares)?;
        let middle_s = (start_ns + WINDOW_NS as i64 / 2) as f64 / 1e9;
        Some(Mean {
            x: middle_s,
            y: e.median * 100.0,
            repeats: e.repeats as u32,
            marks: marks.clone(),
            ..Mean::default()
        })
    };
    let points: Vec<Mean> = by_start.into_iter().filter_map(point).collect();
    let each = points.len().div_ceil(POINTS_MAX).max(1);
    let lowest = |of: &[Mean]| of.iter().min_by(|a, b| a.y.total_cmp(&b.y)).cloned();
    points.chunks(each).filter_map(lowest).collect()
}

/// Start of each clear window of a sample, and its share of those in front of the batch.
fn shares(sample: &Sample) -> Vec<(i64, f64)> {
    let Some(begun_ns) = sample.control.get("begun_ns").and_then(Value::as_u64) else {
        return Vec::new();
    };
    let dropped = sample.metrics.get("dropped_frames").map_or(0, |count| count.value as u64);
    let slices = measure::slices_of(&sample.slices);
    let windows = Slices::new(&slices, dropped, begun_ns).map(|slices| slices.windows());
    let mut windows = windows.unwrap_or_default();
    windows.retain(|window| window.is_clear);
    let before = windows.iter().filter(|window| window.start_ns + WINDOW_NS as i64 <= 0);
    let before: Vec<f64> = before.map(TimeBin::share).collect();
    let Some(before) = statistics::median(&before).filter(|before| *before > 0.0) else {
        return Vec::new();
    };
    windows.iter().map(|window| (window.start_ns, window.share() / before)).collect()
}
