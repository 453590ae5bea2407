//! Figures and tables of the experiment `hash-skew`.

use niclab_result::{Axis, Figure, Mean, Origin, Scale, Series, Table};

use super::Results;
use super::figures::{add, frame_words};
use super::tables::{marks_of, median, table, worded};
use crate::cells::Cell;
use crate::spread::{
    self, BUSIEST, BY_CHANCE, FASTEST, FULL, HASHED_BUSIEST, MISPLACED, Queue, TRACE,
};
use crate::words;

/// Flows a queue from which on an uneven spread is the hash's, not that of a handful of flows.
const FLOWS_MIN: f64 = 2.0;

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "spread").collect();
    let place = |cell: &Cell<'_>| {
        ["queues", "cores", "zipf", "flows", "frame"].map(|axis| number(cell, axis))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

pub(crate) fn number(cell: &Cell<'_>, axis: &str) -> f64 {
    cell.number(axis).unwrap_or(f64::MAX)
}

/// Frames by queue, all repeats together.
pub(crate) fn queues(cell: &Cell<'_>) -> Vec<Queue> {
    let mut sums: Vec<Queue> = Vec::new();
    for queues in cell.samples.iter().map(|sample| spread::queues(sample)) {
        sums.resize(sums.len().max(queues.len()), Queue::default());
        for (sum, queue) in sums.iter_mut().zip(queues) {
            sum.taken += queue.taken;
            sum.missed += queue.missed;
        }
    }
    sums
}

/// Share of the frames that each queue is to get by the hash; none where nobody could tell.
pub(crate) fn hash_shares(cell: &Cell<'_>) -> Vec<f64> {
    cell.samples.first().map(|sample| spread::hash_shares_of(sample)).unwrap_or_default()
}

/// How often flows are picked: `all equally often`, `Zipf 1.1`, `as in the trace`.
pub(crate) fn popularity(cell: &Cell<'_>) -> String {
    match cell.number("zipf") {
        Some(0.0) => "all equally often".to_owned(),
        Some(exponent) => format!("Zipf {exponent}"),
        None => "as in the trace".to_owned(),
    }
}

/// The cores of the queues: `one core`, `8 cores`.
pub(crate) fn cores(cell: &Cell<'_>) -> String {
    match number(cell, "cores") {
        1.0 => "one core".to_owned(),
        cores => format!("{} cores", words::whole(cores)),
    }
}

/// All tables, empty ones left out.
pub(crate) fn tables(results: &Results<'_>) -> Vec<Table> {
    let mut tables = vec![spreads(results), by_queue(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn spreads(results: &Results<'_>) -> Table {
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
    let title = "Frames that no rule decides, spread over queues, at saturating load: what came to \
                 the busiest, in even shares, and elsewhere than the hash says";
    table("hash-skew", title, &columns, rows)
}

/// Queue by queue, of few flows.
fn by_queue(results: &Results<'_>) -> Table {
    let mut rows = Vec::new();
    for device in results.devices() {
        let Some(cell) = few(results, device) else { continue };
        let (queues, hashed) = (queues(cell), hash_shares(cell));
        let all: u64 = queues.iter().map(Queue::came).sum();
        for (at, queue) in queues.iter().enumerate() {
            rows.push(vec![
                device.to_string(),
                number_words(cell, "flows"),
                at.to_string(),
                words::percent(queue.came() as f64 / all.max(1) as f64),
                hashed.get(at).map_or("-".into(), |share| words::percent(*share)),
                words::whole(queue.taken as f64),
                words::whole(queue.missed as f64),
            ]);
        }
    }
    let columns = ["device", "flows", "queue", "share", "by the hash", "taken", "missed"];
    let title = "Frames by queue of few flows, all repeats together";
    table("hash-skew-queues", title, &columns, rows)
}

/// The cells of most queues and of flows that are picked equally often, or as in a trace, by flows;
/// of several frame sizes and numbers of cores the greatest.
fn alike<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    let is_alike = |cell: &Cell<'_>| cell.is_at(&[("zipf", 0.0)]) || cell.word("zipf") == TRACE;
    all.retain(|cell| is_alike(cell) && number(cell, "queues") > 1.0);
    let queues = all.iter().map(|cell| number(cell, "queues")).fold(0.0, f64::max);
    all.retain(|cell| number(cell, "queues") == queues);
    // The greater ones stand behind the others.
    let mut alike: Vec<&Cell<'_>> = Vec::new();
    for cell in all {
        alike.retain(|known| number(known, "flows") != number(cell, "flows"));
        alike.push(cell);
    }
    alike.sort_by(|a, b| number(a, "flows").total_cmp(&number(b, "flows")));
    alike
}

/// The cell of most queues and most flows that are picked equally often.
pub(crate) fn many<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    alike(results, device).pop()
}

/// The cell of most queues and fewest flows that are picked equally often, two of them a queue at
/// least: where there are fewer flows than queues, no hash could use all of these.
pub(crate) fn few<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    let enough = |cell: &&Cell<'_>| number(cell, "flows") >= FLOWS_MIN * number(cell, "queues");
    alike(results, device).into_iter().find(enough)
}

fn number_words(cell: &Cell<'_>, axis: &str) -> String {
    cell.number(axis).map(words::whole).unwrap_or_default()
}

/// The figure of a number of queues at a frame size.
pub(crate) fn figure_id(cell: &Cell<'_>) -> String {
    format!("hash-skew-{}-{}", number_words(cell, "queues"), cell.word("frame"))
}

/// The figure of how uneven the popularity of flows is.
pub(crate) const POPULARITY: &str = "hash-skew-popularity";

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

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale }
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

const BY_HASH: &str = "By its hash: computed flow by flow from the key and the table that the \
    device tells; other flows of as many give other values.";

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
        title: format!("The busiest of {queues} queues, {frame}"),
        caption: format!(
            "What came to the busiest queue, in even shares, of flows whose hash alone decides, \
             all of them sent equally often: 1 is even, {queues} is all in one. {BY_HASH}"
        ),
        x: axis("flows", "", Scale::Log),
        y: axis("busiest queue, in even shares", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

/// The cells over the popularity of flows: of most queues among those whose popularity was varied,
/// then of most flows, and of one frame size; by the exponent.
pub(crate) fn varied<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut all = cells(results, device);
    all.retain(|cell| cell.number("zipf").is_some() && number(cell, "queues") > 1.0);
    let place = |cell: &Cell<'_>| ["queues", "flows"].map(|axis| number(cell, axis));
    let mut most: Option<([f64; 2], String)> = None;
    for cell in all.iter().filter(|cell| number(cell, "zipf") > 0.0) {
        if most.as_ref().is_none_or(|(known, _)| place(cell) > *known) {
            most = Some((place(cell), cell.word("frame")));
        }
    }
    let Some((at, frame)) = most else { return Vec::new() };
    all.retain(|cell| place(cell) == at && cell.word("frame") == frame);
    all.sort_by(|a, b| number(a, "zipf").total_cmp(&number(b, "zipf")));
    all
}

/// `64,000 flows over 8 queues`.
pub(crate) fn place_words(cell: &Cell<'_>) -> String {
    let [flows, queues] = ["flows", "queues"].map(|axis| number_words(cell, axis));
    let noun = if flows == "1" { "flow" } else { "flows" };
    format!("{flows} {noun} over {queues} queues")
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
        title: "The busiest queue over the popularity of flows".into(),
        caption: format!(
            "What came to the busiest queue, in even shares, where flow i is sent in proportion \
             to 1 / i^s: 0 is all equally often; {}. {BY_HASH}",
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
        let all: u64 = queues.iter().map(Queue::came).sum();
        let of = |queue: &Queue| queue.came() as f64 / all.max(1) as f64;
        let measured = queues.iter().map(of).collect();
        let name = format!("{device}, {}", place_words(cell));
        for (origin, name, shares) in [
            (Origin::Measured, name.clone(), measured),
            (Origin::Computed, format!("{name}, by its hash"), hash_shares(cell)),
        ] {
            for (at, share) in shares.iter().enumerate() {
                let repeats = cell.samples.len() as u32;
                let (x, y) = (at as f64, share * 100.0);
                let point = Mean { x, y, repeats, ..Mean::default() };
                add(&mut series, origin, name.clone(), device, point);
            }
        }
    }
    Figure {
        id: "hash-skew-queues".into(),
        title: "Share of each queue, of few flows".into(),
        caption: format!(
            "What came to each queue, all repeats together, of what came to all: what it took and \
             what it missed. {BY_HASH}"
        ),
        x: axis("queue", "", Scale::Linear),
        y: axis("share of the frames", "%", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}
