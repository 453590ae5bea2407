//! Figures and the table of the experiment on bulk data.

use niclab_result::{Figure, Scale, Table};

use super::Results;
use super::curves::{Axes, axis};
use super::tables::{marks_of, median, table, worded};
use crate::application::BUSY;
use crate::cells::Cell;
use crate::stream::{CARRIED, CPU, OTHERS, RECEIVER_BUSY, SENDER_BUSY};
use crate::words;

/// Axes of a stream, in the order in which they are named.
pub(crate) const AXES: &[&str] =
    &["transport", "client", "rate", "cores", "connections", "batch", "size"];

const STREAMS: Axes = Axes { axes: AXES, cells, words_at };

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "stream").collect();
    let place = |cell: &Cell<'_>| {
        let words = ["transport", "client"].map(|axis| cell.word(axis));
        let numbers = ["rate", "cores", "connections", "batch", "size"];
        (words, numbers.map(|axis| cell.number(axis).unwrap_or(f64::MAX)))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// What is said of a cell's place on an axis.
pub(crate) fn words_at(cell: &Cell<'_>, axis: &str) -> String {
    let (word, number) = (cell.word(axis), cell.number(axis));
    let many = |one: &str, number: f64| match number {
        1.0 => format!("1 {one}"),
        _ => format!("{} {one}s", words::whole(number)),
    };
    match (axis, number) {
        ("transport", _) => word.to_uppercase(),
        ("client", _) if word == "here" => "from here to there".to_owned(),
        ("client", _) => "from there to here".to_owned(),
        ("rate", None) => "as fast as it goes".to_owned(),
        ("rate", Some(per_s)) => format!("{} datagrams/s", words::whole(per_s)),
        ("size", Some(bytes)) => format!("{} B", words::whole(bytes)),
        ("batch", _) if cell.word("transport") == "tcp" => String::new(),
        ("batch", Some(batch)) => format!("{} a call", words::whole(batch)),
        ("connections", Some(count)) => many("connection", count),
        ("cores", Some(count)) => many("core", count) + " each",
        _ => word,
    }
}

/// Bits a second: `6.25 Gbps`, `830 Mbps`.
pub(crate) fn bandwidth(bits_per_s: f64) -> String {
    match bits_per_s {
        bits if bits >= 1e9 => format!("{} Gbps", words::significant(bits / 1e9)),
        bits => format!("{} Mbps", words::significant(bits / 1e6)),
    }
}

/// Share of a core from which on programs of others may be what bounds a stream.
const OTHERS_MAX: f64 = 0.1;

/// What keeps a cell from more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The rate that was asked for.
    Rate,
    /// Both sides' cores work all the time.
    Both,
    /// The sender's do.
    Sender,
    /// The receiver's do.
    Receiver,
    /// None does.
    Neither,
    /// Nobody knows: other programs had a part of the cores.
    Others,
}

/// What keeps a cell from more, by the use of both sides' cores.
pub(crate) fn bound(cell: &Cell<'_>) -> Bound {
    let share = |metric: &str| cell.estimate(metric).map_or(0.0, |share| share.median);
    let is_busy = |metric: &str| share(metric) >= BUSY;
    if share(OTHERS) > OTHERS_MAX {
        return Bound::Others;
    }
    match (is_busy(SENDER_BUSY), is_busy(RECEIVER_BUSY)) {
        (true, true) => Bound::Both,
        (true, false) => Bound::Sender,
        (false, true) => Bound::Receiver,
        _ if cell.number("rate").is_some() => Bound::Rate,
        _ => Bound::Neither,
    }
}

impl Bound {
    fn words(self) -> &'static str {
        match self {
            Bound::Rate => "the rate",
            Bound::Both => "both sides' cores",
            Bound::Sender => "the sender's core",
            Bound::Receiver => "the receiver's core",
            Bound::Neither => "neither core",
            Bound::Others => "other programs",
        }
    }
}

/// The one table, or none.
pub(crate) fn tables(results: &Results<'_>) -> Vec<Table> {
    let all: Vec<&Cell<'_>> = results.devices().flat_map(|device| cells(results, device)).collect();
    // What is the same in every row stands above them.
    let differs = |axis: &&str| all.iter().any(|cell| cell.word(axis) != all[0].word(axis));
    let (telling, same): (Vec<&str>, Vec<&str>) = AXES.iter().copied().partition(differs);
    let Some(first) = all.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for cell in &all {
        let place = telling.iter().map(|axis| match (*axis, cell.number(axis)) {
            ("client", _) => cell.word("client"),
            ("batch", _) if cell.word("transport") == "tcp" => "-".to_owned(),
            (_, Some(number)) => words::whole(number),
            _ => words_at(cell, axis),
        });
        let of = |side: &str| {
            ["user", "system", "softirq"]
                .map(|part| median(cell, &format!("{side}_{part}_ratio"), words::percent))
                .join(" / ")
        };
        let measured = [
            worded(cell.estimate(CARRIED), bandwidth),
            median(cell, "loss_ratio", words::percent),
            median(cell, "retransmitted_segments", words::whole),
            of("sender"),
            of("receiver"),
            median(cell, CPU, words::time),
            bound(cell).words().to_owned(),
            marks_of(cell, CARRIED),
        ];
        let row = [cell.device.to_owned()].into_iter().chain(place).chain(measured);
        rows.push(row.collect());
    }
    let columns = [
        "arrived (interval)",
        "loss",
        "sent again",
        "sender: user / system / softirq",
        "receiver: user / system / softirq",
        "CPU a gigabit",
        "bound by",
        "marks",
    ];
    let heads = telling.iter().map(|axis| match *axis {
        "size" => "bytes",
        "transport" => "protocol",
        "batch" => "a call",
        axis => axis,
    });
    let columns: Vec<&str> = ["device"].into_iter().chain(heads).chain(columns).collect();
    let same: Vec<String> = same.iter().map(|axis| words_at(first, axis)).collect();
    let title = format!("Payload that arrived, and what it cost both sides: {}", same.join(", "));
    vec![table(&results.experiment.name, &title, &columns, rows)]
}

/// The figure of a metric over an axis.
pub(crate) fn figure_of(results: &Results<'_>, what: &str, x: &str) -> String {
    format!("{}-{what}-{x}", results.experiment.name)
}

/// What arrived over size, batch, connections and cores, and the time of cores over size.
pub(crate) fn figures(results: &Results<'_>) -> Vec<Figure> {
    let mut figures = vec![
        carried(results, "size"),
        carried(results, "batch"),
        carried(results, "connections"),
        carried(results, "cores"),
        cpu(results),
    ];
    figures.retain(|figure| figure.series.iter().any(|series| series.points.len() > 1));
    figures
}

fn carried(results: &Results<'_>, x: &str) -> Figure {
    let (over, label, unit) = match x {
        "size" => ("the size of a message", "bytes given to the kernel at once", "B"),
        "batch" => ("the batch", "datagrams sent by one call", ""),
        "connections" => ("the number of connections", "connections", ""),
        _ => ("the cores of each side", "cores of each side", ""),
    };
    let (series, same) = STREAMS.curves(results, x, CARRIED, 1e-9);
    Figure {
        id: figure_of(results, "carried", x),
        title: format!("Payload that arrived over {over}"),
        caption: format!(
            "Median of what the receiver got, {same}; what was sent beside it counts for nothing."
        ),
        x: axis(label, unit, Scale::Log),
        y: axis("arrived", "Gbps", if x == "size" { Scale::Log } else { Scale::Linear }),
        series,
        knees: Vec::new(),
    }
}

fn cpu(results: &Results<'_>) -> Figure {
    let (series, same) = STREAMS.curves(results, "size", CPU, 1e-9);
    Figure {
        id: figure_of(results, "cpu", "size"),
        title: "Time of both sides' cores for a gigabit, over the size of a message".into(),
        caption: format!(
            "All that the cores did meanwhile, {same}, counted in the kernel's ticks: where other \
             programs had a core, their time stands in it."
        ),
        x: axis("bytes given to the kernel at once", "B", Scale::Log),
        y: axis("CPU a gigabit", "s", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
