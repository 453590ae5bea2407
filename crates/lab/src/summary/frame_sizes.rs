//! Figures and tables of the experiment `frame-size`.

use niclab_result::{Axis, Figure, Mean, Origin, Scale, Series, Table};

use super::Results;
use super::figures::{add_computed, add_point};
use super::spreads::number;
use super::tables::{marks_of, median, table, worded};
use super::throughput::{FoundGoal, FoundThroughput, found};
use crate::cells::Cell;
use crate::frame_size::{EARLY_MISSED, IDLE, Part, RING_MISSED, Shown, binding, mean_len, wire_ns};
use crate::mlr::Regularity;
use crate::published::presto10;
use crate::words;

/// Speeds of ports that are spoken of where a device has none, Gbps.
pub(crate) const PORTS_GBPS: [f64; 4] = [10.0, 25.0, 40.0, 100.0];

/// The frame sizes of one device, by the same queues on the same cores and of as many flows.
pub(crate) struct Sized<'a> {
    pub device: &'a str,
    /// By rising mean length.
    pub sizes: Vec<Size<'a>>,
    /// Which part binds at each.
    pub parts: Vec<Option<Part>>,
    /// Line rate of a port.
    pub port_gbps: Option<f64>,
}

/// What was measured of a frame size.
pub(crate) struct Size<'a> {
    /// Saturating trials.
    pub cell: &'a Cell<'a>,
    pub shown: Shown,
    pub search: Option<FoundThroughput<'a>>,
}

impl Size<'_> {
    /// The goal that allows most loss, where it was found: the headline.
    pub fn headline(&self) -> Option<FoundGoal<'_>> {
        let goals = self.search.as_ref()?.goals();
        let goals = goals.filter(|goal| goal.found.regularity != Regularity::Stopped);
        goals.max_by(|a, b| a.goal.loss_ratio.total_cmp(&b.goal.loss_ratio))
    }

    /// Frames a second by the headline.
    fn searched_pps(&self) -> Option<f64> {
        self.headline().and_then(|goal| goal.found.conditional_pps)
    }

    /// The rate is not the device's limit.
    pub fn is_at_least(&self) -> bool {
        let is_bound = |goal: FoundGoal<'_>| {
            goal.is_generator_limited || goal.found.regularity == Regularity::MaxLoad
        };
        self.shown.is_generator_limited || self.headline().is_some_and(is_bound)
    }
}

impl Sized<'_> {
    /// Where it was measured but for the length.
    pub fn cell(&self) -> &Cell<'_> {
        self.sizes[0].cell
    }

    /// `one queue on one core`, `4 queues on 4 cores`.
    pub fn place(&self) -> String {
        let count = |axis: &str, noun: &str| match number(self.cell(), axis) {
            1.0 => format!("one {noun}"),
            many => format!("{} {noun}s", words::whole(many)),
        };
        format!("{} on {}", count("queues", "queue"), count("cores", "core"))
    }

    /// What its curves are called, and with what its identifiers end.
    pub fn name(&self) -> String {
        match number(self.cell(), "queues") {
            1.0 => self.device.to_owned(),
            _ => format!("{}, {}", self.device, self.place()),
        }
    }

    /// Frames of one length each, and a rate of each.
    pub fn rates(&self, pps: impl Fn(&Size<'_>) -> f64) -> Vec<(f64, f64)> {
        let plain = self.sizes.iter().filter(|size| size.cell.number("frame").is_some());
        plain.map(|size| (size.shown.frame_len, pps(size))).collect()
    }

    /// Frames of one length each, and the rate of each by search; `None` where one has none, for
    /// rates at full load are others.
    pub fn searched(&self) -> Option<Vec<(f64, f64)>> {
        let plain = self.sizes.iter().filter(|size| size.cell.number("frame").is_some());
        plain.map(|size| Some((size.shown.frame_len, size.searched_pps()?))).collect()
    }
}

/// All that was measured of all devices.
pub(crate) fn sized<'a>(results: &'a Results<'_>) -> Vec<Sized<'a>> {
    let mut all: Vec<Sized<'a>> = Vec::new();
    for device in &results.run.devices {
        let mut cells: Vec<&Cell<'_>> = results.cells.of(&device.name, "saturate").collect();
        let place = |cell: &Cell<'_>| ["queues", "cores", "flows"].map(|axis| number(cell, axis));
        cells.sort_by(|a, b| {
            let by_place = place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal);
            by_place.then(frame_len(a).total_cmp(&frame_len(b)))
        });
        for of in cells.chunk_by(|a, b| place(a) == place(b)) {
            let sizes: Vec<Size<'a>> = of.iter().filter_map(|cell| size(results, cell)).collect();
            let port_gbps = device.about.port_gbps;
            let shown: Vec<Shown> = sizes.iter().map(|size| size.shown).collect();
            let parts = binding(&shown, port_gbps);
            if !sizes.is_empty() {
                all.push(Sized { device: &device.name, sizes, parts, port_gbps });
            }
        }
    }
    all
}

/// Mean length of a cell's frames; of a trace that of what came back.
fn frame_len(cell: &Cell<'_>) -> f64 {
    let of_rates = || {
        let [gbps, pps] = ["throughput_gbps_l2", "throughput_pps"]
            .map(|metric| cell.estimate(metric).map_or(0.0, |estimate| estimate.median));
        if pps > 0.0 { gbps * 1e9 / 8.0 / pps } else { 0.0 }
    };
    cell.point.get("frame").and_then(mean_len).unwrap_or_else(of_rates)
}

fn size<'a>(results: &'a Results<'_>, cell: &'a Cell<'a>) -> Option<Size<'a>> {
    let of = |metric: &str| cell.estimate(metric).map(|estimate| estimate.median);
    let shown = Shown {
        frame_len: frame_len(cell),
        pps: of("throughput_pps").filter(|pps| *pps > 0.0)?,
        is_generator_limited: cell.is_generator_limited(),
        ring_missed: of(RING_MISSED).unwrap_or(0.0),
        early_missed: of(EARLY_MISSED).unwrap_or(0.0),
        idle: of(IDLE),
    };
    let is_here =
        |of: &FoundThroughput<'_>| of.cell.device == cell.device && of.cell.point == cell.point;
    let search = found(results).into_iter().find(is_here);
    Some(Size { cell, shown, search })
}

/// A part in words.
pub(crate) fn part_words(part: Part) -> &'static str {
    match part {
        Part::Port => "the port",
        Part::FrameRate => "the card's frame rate",
        Part::Bytes => "what touches each byte",
        Part::Cores => "the cores",
        Part::Generator => "the generator",
    }
}

/// The table, left out where it is empty.
pub(crate) fn tables(results: &Results<'_>) -> Vec<Table> {
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
        "what binds",
        "marks",
    ];
    let title = "Throughput by frame size: at saturating load, and by search; and which part of \
                 the device keeps it from more";
    let table = table("frame-size", title, &columns, rows);
    if table.rows.is_empty() { Vec::new() } else { vec![table] }
}

fn row(of: &Sized<'_>, size: &Size<'_>, part: Option<Part>) -> Vec<String> {
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

/// Frames a second over their length.
pub(crate) const FRAMES: &str = "frame-size-pps";

fn axis(label: &str, unit: &str, scale: Scale) -> Axis {
    Axis { label: label.into(), unit: unit.into(), scale }
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
            let (low, high) = (goal.found.lower_pps, goal.found.upper_pps);
            let end = |pps: Option<u64>| pps.map(|pps| y(pps as f64, x));
            let point = Mean {
                x,
                y: y(pps, x),
                low: end(low),
                high: end(high),
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

const SEARCHED: &str = "A name with a goal behind it is the throughput by search, its bar from the \
    greatest load that passes to the smallest that fails; the others are of saturating load. IMIX \
    frames stand at their mean length.";

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
        title: "Frames a second over their length".into(),
        caption: format!(
            "{SEARCHED} Published: one port of a 82599, PRESTO 2010: the most it deals with, from \
             the shortest frames to those with which that fills 10 Gbps."
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
        title: "Bits a second over the length of frames".into(),
        caption: format!("{SEARCHED} A frame has 20 B of preamble and gap on the wire."),
        x: axis("frame size with FCS", "B", Scale::Log),
        y: axis("throughput, L1", "Gbps", Scale::Linear),
        series: curves(all, |pps, bytes| pps * wire_ns(bytes, 1.0) / 1e9),
        knees: Vec::new(),
    }
}
