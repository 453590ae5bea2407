//! Figures and tables of the experiment `frame-size`.

use niclab_result::{Figure, Mean, Origin, ReportTable, Scale, Series};

use super::analysis::{Bottleneck, FRAMES, PORTS_GBPS, Size, Sized, part_words, sized};
use super::metrics::{EARLY_MISSED, IDLE, RING_MISSED};
use crate::mlr::Regularity;
use crate::published::presto10;
use crate::summary::Results;
use crate::summary::curves::{add_computed, add_point, axis};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::wire::wire_ns;
use crate::words;

/// The table, left out where it is empty.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut rows = Vec::new();
    for of in sized(results) {
        for (size, part) in of.sizes.iter().zip(&of.parts) {
            rows.push(row(&of, size, *part));
        }
    }
    let columns = [
        "device",
        "queues",
        "cores",
        "frame",
        "saturating (interval)",
        "Gbps L1",
        "of the line rate",
        "searched",
        "trials of the search",
        "lost at rings",
        "lost before",
        "core idle",
        "bottleneck",
        "marks",
    ];
    let title = "Throughput by frame size, at saturating load and by search, and the part of the \
                 device that limits it";
    let table = results_from("saturating (interval)", table("frame-size", title, &columns, rows));
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

fn row(of: &Sized<'_>, size: &Size<'_>, part: Option<Bottleneck>) -> Vec<String> {
    let cell = size.cell;
    let count = |axis: &str| cell.number(axis).map(words::whole).unwrap_or_default();
    let line = of.port_gbps.map(|gbps| size.shown.pps * wire_ns(size.shown.frame_len, gbps) / 1e9);
    let searched = size.search.iter().flat_map(|search| search.goals()).map(|goal| {
        let is_bound = goal.is_generator_limited || goal.found.regularity == Regularity::MaxLoad;
        let at_least = if is_bound { "at least " } else { "" };
        let pps = goal.found.conditional_pps.map_or("-".to_owned(), words::pps);
        let stopped = match goal.found.regularity {
            Regularity::Stopped => " (not finished)",
            _ => "",
        };
        format!("{} {at_least}{pps}{stopped}", goal.goal.name)
    });
    let trials = size.search.as_ref().map(|search| search.record.trials.load_pps.len());
    let mut marks = marks_of(cell, "throughput_pps");
    for mark in size.search.iter().flat_map(|search| search.marks) {
        let text = format!("search {mark}");
        marks = if marks.is_empty() { text } else { format!("{marks}, {text}") };
    }
    vec![
        of.device.to_owned(),
        count("queues"),
        count("cores"),
        cell.word("frame"),
        worded(cell.estimate("throughput_pps"), words::pps),
        median(cell, "throughput_gbps_l1", words::significant),
        line.map_or("-".into(), words::percent),
        searched.collect::<Vec<_>>().join(", "),
        trials.map_or("-".into(), |count| words::whole(count as f64)),
        median(cell, RING_MISSED, words::percent),
        median(cell, EARLY_MISSED, words::percent),
        median(cell, IDLE, words::percent),
        part.map_or("-", part_words).to_owned(),
        marks,
    ]
}

/// Frames a second over their length, and bits a second.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let all = sized(results);
    let mut figures = vec![frames(&all), bits(&all)];
    figures.retain(|figure| {
        figure
            .series
            .iter()
            .any(|series| series.origin != Origin::Published && series.points.len() > 1)
    });
    figures
}

/// Curves of the saturating trials, and of the headline of the searches, `y` of a rate and a
/// length.
fn curves(all: &[Sized<'_>], y: impl Fn(f64, f64) -> f64) -> Vec<Series> {
    let mut series = Vec::new();
    for of in all {
        for Size { cell, shown, .. } in &of.sizes {
            let scale = y(1.0, shown.frame_len);
            if let Some(point) = cell.mean("throughput_pps", scale, shown.frame_len) {
                add_point(&mut series, of.name(), of.device, point);
            }
        }
        for size in &of.sizes {
            let Some(goal) = size.headline() else { continue };
            let Some(pps) = goal.found.conditional_pps else { continue };
            let x = size.shown.frame_len;
            // The largest load that passes may lose as much as the goal allows, so it is above the
            // throughput.
            let low = goal.found.lower_pps.map(|_| y(pps, x));
            let high = goal.found.upper_pps.map(|pps| y(pps as f64, x));
            let point = Mean {
                x,
                y: y(pps, x),
                low,
                high,
                repeats: 1,
                marks: size.search.as_ref().map(|of| of.marks.to_vec()).unwrap_or_default(),
                ..Mean::default()
            };
            let name = format!("{}, {}", of.name(), goal.goal.name);
            add_point(&mut series, name, of.device, point);
        }
    }
    series
}

/// Line rates of the ports that devices have; of usual ones where none has any.
fn ports(all: &[Sized<'_>]) -> Vec<f64> {
    let mut ports: Vec<f64> = all.iter().filter_map(|of| of.port_gbps).collect();
    ports.sort_by(f64::total_cmp);
    ports.dedup();
    if ports.is_empty() { PORTS_GBPS.to_vec() } else { ports }
}

const SEARCHED: &str = "A curve named with a goal is the throughput by search: its error bars go \
                        up to the smallest load that fails. The other \
                        curves are at saturating load. IMIX is drawn at its mean frame length.";

fn frames(all: &[Sized<'_>]) -> Figure {
    let mut series = curves(all, |pps, _| pps / 1e6);
    let lengths = all.iter().flat_map(|of| of.sizes.iter().map(|size| size.shown.frame_len));
    let mut lengths: Vec<f64> = lengths.collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    for gbps in ports(all) {
        let name = format!("line rate of {gbps} Gbps");
        for x in &lengths {
            add_computed(&mut series, name.clone(), &name, (*x, 1e3 / wire_ns(*x, gbps)));
        }
    }
    series.push(presto10::saturating());
    Figure {
        id: FRAMES.into(),
        title: "Frames a second over the frame size".into(),
        caption: format!(
            "{SEARCHED} Published: one port of a 82599, PRESTO 2010: its highest rate, from the \
             shortest frames to those that fill 10 Gbps."
        ),
        x: axis("frame size with FCS", "B", Scale::Log),
        y: axis("throughput", "Mpps", Scale::Log),
        series,
        knees: Vec::new(),
    }
}

fn bits(all: &[Sized<'_>]) -> Figure {
    Figure {
        id: "frame-size-gbps".into(),
        title: "Bits a second over the frame size".into(),
        caption: format!("{SEARCHED} A frame has 20 B of preamble and gap on the wire."),
        x: axis("frame size with FCS", "B", Scale::Log),
        y: axis("throughput, L1", "Gbps", Scale::Linear),
        series: curves(all, |pps, bytes| pps * wire_ns(bytes, 1.0) / 1e9),
        knees: Vec::new(),
    }
}
