//! What the data of `stream` show, before it is worded or drawn.

use super::metrics::{OTHERS, RECEIVER_BUSY, SENDER_BUSY};
use crate::cells::Cell;
use crate::metrics::is_busy;
use crate::summary::Results;
use crate::words;

/// Axes of a stream, in the order in which they are named.
pub(crate) const AXES: &[&str] =
    &["transport", "client", "rate", "cores", "connections", "batch", "size"];

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
    words::quantity(bits_per_s, "bit/s")
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
    /// The repeats allow more than one of these.
    Unknown,
}

/// What keeps a cell from more, by the use of both sides' cores.
pub(crate) fn bound(cell: &Cell<'_>) -> Bound {
    let share = |metric: &str| cell.estimate(metric).map_or(0.0, |share| share.median);
    if share(OTHERS) > OTHERS_MAX {
        return Bound::Others;
    }
    match [SENDER_BUSY, RECEIVER_BUSY].map(|metric| is_busy(cell, metric)) {
        [Some(true), Some(true)] => Bound::Both,
        [Some(true), Some(false)] => Bound::Sender,
        [Some(false), Some(true)] => Bound::Receiver,
        [Some(false), Some(false)] if cell.number("rate").is_some() => Bound::Rate,
        [Some(false), Some(false)] => Bound::Neither,
        _ => Bound::Unknown,
    }
}

impl Bound {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Bound::Rate => "the rate",
            Bound::Both => "both sides' cores",
            Bound::Sender => "the sender's core",
            Bound::Receiver => "the receiver's core",
            Bound::Neither => "neither core",
            Bound::Others => "other programs",
            Bound::Unknown => "-",
        }
    }
}

/// The figure of a metric over an axis.
pub(crate) fn figure_of(results: &Results<'_>, what: &str, x: &str) -> String {
    format!("{}-{what}-{x}", results.experiment.name)
}
