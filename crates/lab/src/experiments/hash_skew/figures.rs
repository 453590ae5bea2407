//! Figures and tables of the experiment `hash-skew`.

use niclab_result::{Figure, Mean, Origin, ReportTable, Scale, Series};

use super::analysis::{
    POPULARITY, cells, few, figure_id, hash_shares, number_words, place_words, queues, varied,
};
use super::metrics::{BUSIEST, BY_CHANCE, FASTEST, FULL, HASHED_BUSIEST, MISPLACED, Queue};
use crate::cells::Cell;
use crate::summary::Results;
use crate::summary::curves::{add, axis};
use crate::summary::frames::frame_words;
use crate::summary::queues::{number, popularity};
use crate::summary::tables::{marks_of, median, results_from, table, worded};
use crate::words;

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<ReportTable> {
    let mut tables = vec![spreads(results), by_queue(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn spreads(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let number = |axis| number_words(cell, axis);
            rows.push(vec![
                device.to_string(),
                number("queues"),
                number("cores"),
                number("flows"),
                popularity(cell),
                cell.word("frame"),
                worded(cell.estimate(BUSIEST), words::significant),
                median(cell, HASHED_BUSIEST, words::significant),
                worded(cell.estimate(MISPLACED), words::percent),
                median(cell, BY_CHANCE, words::percent),
                worded(cell.estimate("throughput_pps"), words::pps),
                median(cell, FASTEST, words::pps),
                median(cell, FULL, words::pps),
                median(cell, "loss_ratio", words::percent),
                marks_of(cell, "throughput_pps"),
            ]);
        }
    }
    let columns = [
        "device",
        "queues",
        "cores",
        "flows",
        "popularity",
        "frame",
        "busiest (interval)",
        "by the hash",
        "elsewhere (interval)",
        "by chance",
        "throughput (interval)",
        "fastest queue",
        "slowest full queue",
        "loss",
        "marks",
    ];
    let title = "RSS of frames that match no rule, at saturating load: frames of the busiest \
                 queue, in even shares, and frames elsewhere than the hash says";
    results_from("busiest (interval)", table("hash-skew", title, &columns, rows))
}

/// Queue by queue, of few flows.
fn by_queue(results: &Results<'_>) -> ReportTable {
    let mut rows = Vec::new();
    for device in results.devices() {
        let Some(cell) = few(results, device) else { continue };
        let (queues, hashed) = (queues(cell), hash_shares(cell));
        let all: u64 = queues.iter().map(Queue::arrived).sum();
        for (at, queue) in queues.iter().enumerate() {
            rows.push(vec![
                device.to_string(),
                number_words(cell, "flows"),
                at.to_string(),
                words::percent(queue.arrived() as f64 / all.max(1) as f64),
                hashed.get(at).map_or("-".into(), |share| words::percent(*share)),
                words::whole(queue.taken as f64),
                words::whole(queue.missed as f64),
            ]);
        }
    }
    let columns = ["device", "flows", "queue", "share", "by the hash", "taken", "missed"];
    let title = "Frames per queue with few flows, all repeats together";
    results_from("share", table("hash-skew-queues", title, &columns, rows))
}

/// The busiest queue over the flows, for each number of queues, and over their popularity; and how
/// much each queue gets.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for device in results.devices() {
        let all = cells(results, device).into_iter();
        for cell in all.filter(|cell| number(cell, "queues") > 1.0) {
            let id = figure_id(cell);
            if figures.iter().all(|figure| figure.id != id) {
                figures.push(busiest(results, cell, id));
            }
        }
    }
    figures.push(over_popularity(results));
    figures.push(shares(results));
    figures.retain(|figure| figure.series.iter().any(|series| series.points.len() > 1));
    figures
}

/// The busiest queue at `x` of each cell, and by the hash: what cells at the same place show is the
/// same whatever the cores.
fn curves(cells: &[&Cell<'_>], device: &str, x: &str) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (origin, metric, name) in [
        (Origin::Measured, BUSIEST, device.to_owned()),
        (Origin::Computed, HASHED_BUSIEST, format!("{device}, by its hash")),
    ] {
        for cell in cells {
            let at = number(cell, x);
            let is_there = series.iter().any(|series| {
                series.name == name && series.points.iter().any(|point| point.x == at)
            });
            if let Some(point) = cell.mean(metric, 1.0, at).filter(|_| !is_there) {
                add(&mut series, origin, name.clone(), device, point);
            }
        }
    }
    series
}

const BY_HASH: &str = "By its hash: computed for each flow from the key and the table that the \
                       device reports. Other sets of flows give other values.";

fn busiest(results: &Results<'_>, of: &Cell<'_>, id: String) -> Figure {
    let mut series = Vec::new();
    for device in results.devices() {
        let mut here = cells(results, device);
        here.retain(|cell| figure_id(cell) == id && cell.is_at(&[("zipf", 0.0)]));
        series.extend(curves(&here, device, "flows"));
    }
    let (queues, frame) = (number_words(of, "queues"), frame_words(&of.word("frame")));
    Figure {
        id,
        title: format!("Busiest of {queues} queues, {frame}"),
        caption: format!(
            "Frames of the busiest queue, in even shares: 1 is even, {queues} is all in one \
             queue. Only the hash chooses the queue, and all flows are sent equally often. \
             {BY_HASH}"
        ),
        x: axis("flows", "", Scale::Log),
        y: axis("busiest queue, in even shares", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn over_popularity(results: &Results<'_>) -> Figure {
    let mut series = Vec::new();
    let mut places: Vec<String> = Vec::new();
    for device in results.devices() {
        let here = varied(results, device);
        let words = here.first().map(|cell| place_words(cell));
        places.extend(words.filter(|words| !places.contains(words)));
        series.extend(curves(&here, device, "zipf"));
    }
    Figure {
        id: POPULARITY.into(),
        title: "Busiest queue over the popularity of flows".into(),
        caption: format!(
            "Frames of the busiest queue, in even shares. Flow i is sent in proportion to 1 / \
             i^s: 0 is all equally often; {}. {BY_HASH}",
            places.join(" and ")
        ),
        x: axis("exponent s", "", Scale::Linear),
        y: axis("busiest queue, in even shares", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn shares(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        let Some(cell) = few(results, device) else { continue };
        let queues = queues(cell);
        let all: u64 = queues.iter().map(Queue::arrived).sum();
        let of = |queue: &Queue| queue.arrived() as f64 / all.max(1) as f64;
        let measured = queues.iter().map(of).collect();
        let name = format!("{device}, {}", place_words(cell));
        for (origin, name, shares) in [
            (Origin::Measured, name.clone(), measured),
            (Origin::Computed, format!("{name}, by its hash"), hash_shares(cell)),
        ] {
            for (at, share) in shares.iter().enumerate() {
                let repeats = cell.samples.len() as u32;
                let (x, y) = (at as f64, share * 100.0);
                let marks = cell.marks(BUSIEST);
                let x_word = at.to_string();
                let point = Mean { x, x_word, y, repeats, marks, ..Mean::default() };
                add(&mut series, origin, name.clone(), device, point);
            }
        }
    }
    Figure {
        id: "hash-skew-queues".into(),
        title: "Share of each queue with few flows".into(),
        caption: format!(
            "Frames of each queue, received and missed, as a share of all; all repeats together. \
             {BY_HASH}"
        ),
        x: axis("queue", "", Scale::Ordinal),
        y: axis("share of the frames", "%", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
