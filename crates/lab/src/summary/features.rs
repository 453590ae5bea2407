//! What stands in the path of messages: the table of its costs, and their figure.

use niclab_result::{Figure, Scale, Series, Table};

use super::Results;
use super::exchanges::{axis, cells, id, words_at};
use super::figures::add_point;
use super::tables::{marks_of, median, table as sheet, worded};
use crate::cells::Cell;
use crate::exchange::{RTT, RTT_TAIL};
use crate::statistics::{self, Estimate};
use crate::words;

/// Axes in which a cell and the one without anything in the path agree.
const SAME: [&str; 7] = ["transport", "family", "client", "receive", "rate", "size", "batch"];

/// Packets that go through the chain of a packet filter on the way there and back: each host's
/// chain sees what comes in.
pub(crate) const PASSES: f64 = 2.0;

/// The cell that differs by having nothing in the path; `None` of such a cell itself.
pub(crate) fn without<'a>(all: &[&'a Cell<'a>], cell: &Cell<'_>) -> Option<&'a Cell<'a>> {
    let is_it = |other: &&Cell<'_>| {
        other.word("feature") == "none" && SAME.iter().all(|at| other.word(at) == cell.word(at))
    };
    all.iter().copied().filter(|_| cell.word("feature") != "none").find(is_it)
}

/// `true` where something stands in the path of some messages.
pub(super) fn are_compared(results: &Results<'_>) -> bool {
    let is_there = |cell: &&Cell<'_>| cell.word("feature") != "none";
    results.devices().any(|device| cells(results, device).iter().any(is_there))
}

/// What a round trip takes more with it in the path, nanoseconds.
pub(crate) fn cost(cell: &Cell<'_>, base: &Cell<'_>) -> Option<Estimate> {
    let (with, without) = cell.paired(base, RTT);
    let each: Vec<f64> = with.iter().zip(&without).map(|(with, base)| with - base).collect();
    statistics::estimate(&each)
}

/// Rules of the packet filter in the path.
pub(crate) fn rules(cell: &Cell<'_>) -> Option<f64> {
    cell.word("feature").strip_prefix("nft-")?.parse().ok()
}

/// What it costs, feature by feature; empty where nothing is compared.
pub(super) fn table(results: &Results<'_>) -> Table {
    let mut rows = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        for cell in &all {
            let Some(base) = without(&all, cell) else { continue };
            let more = cost(cell, base);
            let each = rules(cell).filter(|rules| *rules > 0.0).and_then(|rules| {
                let more = more?.median / PASSES / rules;
                Some(format!("{} ns", words::significant(more)))
            });
            rows.push(vec![
                device.to_owned(),
                cell.word("feature"),
                words_at(cell, "transport"),
                cell.word("receive"),
                cell.number("size").map(words::whole).unwrap_or_default(),
                worded(base.estimate(RTT), words::time),
                worded(cell.estimate(RTT), words::time),
                median(cell, RTT_TAIL, words::time),
                worded(more, signed),
                each.unwrap_or_else(|| "-".to_owned()),
                marks_of(cell, RTT),
            ]);
        }
    }
    let columns = [
        "device",
        "in the path",
        "protocol",
        "receive",
        "bytes",
        "without it",
        "with it",
        "p99 with it",
        "it costs",
        "each rule, one way",
        "marks",
    ];
    let title = "What stands in the path at both hosts, and what it adds to a round trip (repeat \
                 by repeat, interval)";
    sheet(&id(results, "-costs"), title, &columns, rows)
}

/// A time that may be below nothing.
fn signed(ns: f64) -> String {
    match ns < 0.0 {
        true => format!("-{}", words::time(-ns)),
        false => words::time(ns),
    }
}

/// The figure's name.
pub(crate) fn figure_id(results: &Results<'_>) -> String {
    id(results, "-rtt-rules")
}

/// Round trips over the rules of a packet filter.
pub(super) fn figure(results: &Results<'_>) -> Figure {
    let mut series: Vec<Series> = Vec::new();
    for device in results.devices() {
        for cell in cells(results, device) {
            let Some(rules) = rules(cell) else { continue };
            let words = ["transport", "receive", "size"].map(|axis| words_at(cell, axis));
            let name = format!("{device}, {}", words.join(", "));
            if let Some(point) = cell.mean(RTT, 1e-3, rules) {
                add_point(&mut series, name, device, point);
            }
        }
    }
    Figure {
        id: figure_id(results),
        title: "Round trip over the rules of a packet filter".into(),
        caption: "Rules of nftables that every packet is held against and none matches, in one \
                  chain of each host."
            .into(),
        x: axis("rules", "", Scale::Linear),
        y: axis("round trip", "us", Scale::Log),
        series,
        knees: Vec::new(),
    }
}
