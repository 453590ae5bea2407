//! Figures and tables of the experiment `hash-skew`.

use niclab_result::{Axis, Figure, Mean, Scale, Series, Shape, Table};

use super::Results;
use super::figures::{add_point, frame_words};
use super::tables::{marks, median, table, worded};
use crate::cells::Cell;
use crate::spread::{self, Queue};
use crate::words;

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "saturate").collect();
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
pub(crate) fn hashed(cell: &Cell<'_>) -> Vec<f64> {
    cell.samples.first().map(|sample| spread::shares(sample)).unwrap_or_default()
}

/// How often flows are picked: `all equally often`, `Zipf 1.1`.
pub(crate) fn popularity(cell: &Cell<'_>) -> String {
    match number(cell, "zipf") {
        0.0 => "all equally often".to_owned(),
        exponent => format!("Zipf {exponent}"),
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
pub(super) fn tables(results: &Results<'_>) -> Vec<Table> {
    let mut tables = vec![spreads(results), by_queue(results)];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn spreads(results: &Results<'_>) -> Table {
    let mut rows = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let number = |axis| cell.number(axis).map(words::whole).unwrap_or_default();
            rows.push(vec![
                device.to_string(),
                number("queues"),
                number("cores"),
                number("flows"),
                popularity(cell),
                cell.word("frame"),
                worded(cell.estimate("busiest_queue_ratio"), words::significant),
                median(cell, "hashed_busiest_queue_ratio", words::significant),
                worded(cell.estimate("misplaced_ratio"), words::percent),
                median(cell, "misplaced_by_chance_ratio", words::percent),
                worded(cell.estimate("throughput_pps"), words::pps),
                median(cell, "fastest_queue_pps", words::pps),
                median(cell, "full_queue_pps", words::pps),
                median(cell, "loss_ratio", words::percent),
                marks(cell),
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
        "busiest queue, by an even share (interval)",
        "by the hash",
        "elsewhere than the hash says (interval)",
        "by chance",
        "throughput (interval)",
        "fastest queue",
        "slowest full queue",
        "loss",
        "marks",
    ];
    let title = "Frames that no rule decides, spread over queues; saturating load";
    table("hash-skew", title, &columns, rows)
}

/// Queue by queue, where most queues are and most flows.
fn by_queue(results: &Results<'_>) -> Table {
    let mut rows = Vec::new();
    for device in results.devices() {
        let Some(cell) = fullest(results, device) else { continue };
        let (queues, hashed) = (queues(cell), hashed(cell));
        let all: u64 = queues.iter().map(Queue::came).sum();
        for (at, queue) in queues.iter().enumerate() {
            rows.push(vec![
                device.to_string(),
                at.to_string(),
                words::percent(queue.came() as f64 / all.max(1) as f64),
                hashed.get(at).map_or("-".into(), |share| words::percent(*share)),
                words::whole(queue.taken as f64),
                words::whole(queue.missed as f64),
            ]);
        }
    }
    let columns = ["device", "queue", "share", "by the hash", "taken", "missed"];
    let title = "Frames by queue, all repeats together, of most queues, cores and flows alike";
    table("hash-skew-queues", title, &columns, rows)
}

/// The cell of most queues, cores and flows that are picked equally often.
pub(crate) fn fullest<'a>(results: &'a Results<'_>, device: &str) -> Option<&'a Cell<'a>> {
    let all = cells(results, device);
    let place = |cell: &Cell<'_>| ["queues", "cores", "flows"].map(|axis| number(cell, axis));
    let order = |a: &Cell<'_>, b: &Cell<'_>| {
        place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    all.into_iter().filter(|cell| cell.is_at(&[("zipf", 0.0)])).max_by(|a, b| order(a, b))
}

/// The figure of a number of queues at a frame size.
pub(crate) fn figure_id(cell: &Cell<'_>) -> String {
    format!("hash-skew-{}-{}", words::whole(number(cell, "queues")), cell.word("frame"))
}

/// The busiest queue over the flows, for each number of queues; and how much each queue gets.
pub(super) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let Some(cell) = Some(cell).filter(|cell| number(cell, "queues") > 1.0) else {
                continue;
            };
            let id = figure_id(cell);
            if figures.iter().all(|figure| figure.id != id) {
                figures.push(busiest(results, cell, id));
            }
        }
    }
    figures.extend(by_queue_figure(results));
    figures.retain(|figure| !figure.series.is_empty());
    figures
}

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale }
}

fn busiest(results: &Results<'_>, of: &Cell<'_>, id: String) -> Figure {
    let queues = number(of, "queues");
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        let here = |cell: &&Cell<'_>| figure_id(cell) == id;
        for cell in cells(results, device).into_iter().filter(here) {
            let x = number(cell, "flows");
            let name = format!("{device}, {}, {}", cores(cell), popularity(cell));
            for (metric, name) in [
                ("busiest_queue_ratio", name),
                (
                    "hashed_busiest_queue_ratio",
                    format!("{device}, {}, by its hash", popularity(cell)),
                ),
            ] {
                // What is computed is the same whatever the cores: one point a place.
                let is_there =
                    series.iter().any(|s| s.name == name && s.points.iter().any(|p| p.x == x));
                if let Some(point) = cell.mean(metric, 1.0, x).filter(|_| !is_there) {
                    add_point(&mut series, name, device, point);
                }
            }
        }
    }
    let frame = frame_words(&of.word("frame"));
    Figure {
        id,
        title: format!("The busiest of {} queues, {frame}", words::whole(queues)),
        caption: format!(
            "What came to the busiest queue by an even share, of flows whose hash alone decides: 1 \
             is even, {} is all in one. By its hash: computed flow by flow from the key and the \
             table that the device tells; other flows of as many give other values.",
            words::whole(queues)
        ),
        x: axis("flows", "", Scale::Log),
        y: axis("busiest queue, by an even share", "", Scale::Linear),
        series,
        knees: Vec::new(),
    }
}

fn by_queue_figure(results: &Results<'_>) -> Option<Figure> {
    let mut series: Vec<Series> = Vec::new();
    let mut place = String::new();
    for device in results.devices() {
        let Some(cell) = fullest(results, device).filter(|cell| number(cell, "queues") > 1.0)
        else {
            continue;
        };
        let queues = queues(cell);
        let all: u64 = queues.iter().map(Queue::came).sum();
        let measured: Vec<f64> =
            queues.iter().map(|queue| queue.came() as f64 / all.max(1) as f64).collect();
        for (shares, name) in
            [(measured, device.to_owned()), (hashed(cell), format!("{device}, by its hash"))]
        {
            let point = |(at, share): (usize, &f64)| Mean {
                x: at as f64,
                y: share * 100.0,
                repeats: cell.samples.len() as u32,
                ..Mean::default()
            };
            let points: Vec<Mean> = shares.iter().enumerate().map(point).collect();
            let (shape, published, device) = (Shape::Line, false, device.to_owned());
            if !points.is_empty() {
                series.push(Series { name, device, published, shape, points });
            }
        }
        let (count, flows) = (number(cell, "queues"), number(cell, "flows"));
        place = format!("{} flows over {} queues", words::whole(flows), words::whole(count));
    }
    (!series.is_empty()).then(|| Figure {
        id: "hash-skew-queues".into(),
        title: format!("Share of each queue: {place}"),
        caption:
            "What came to each queue, all repeats together, of what came to all: what it took \
                  and what it missed. By its hash: computed flow by flow from the key and the \
                  table that the device tells."
                .into(),
        x: axis("queue", "", Scale::Linear),
        y: axis("share of the frames", "%", Scale::Linear),
        series,
        knees: Vec::new(),
    })
}
