//! What the data of the echo experiments show, before it is worded or drawn.

use crate::cells::Cell;
use crate::hosts::{CLOSED, RTT};
use crate::round_trips::words_at;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{statistics, words};

/// Axes that tell curves apart, in the order in which they are named.
pub(crate) const WORDS: [&str; 6] = ["transport", "family", "client", "receive", "rate", "feature"];

/// All cells of a device, in reading order.
pub(crate) fn cells<'a>(results: &'a Results<'_>, device: &str) -> Vec<&'a Cell<'a>> {
    let mut cells: Vec<&Cell<'_>> = results.cells.of(device, "echo").collect();
    let place = |cell: &Cell<'_>| {
        let words = WORDS.map(|axis| cell.word(axis));
        (words, ["size", "batch"].map(|axis| cell.number(axis).unwrap_or(f64::MAX)))
    };
    cells.sort_by(|a, b| place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal));
    cells
}

/// One message at a time over UDP and IPv4, by programs that sleep.
pub(crate) fn is_plain(cell: &Cell<'_>) -> bool {
    let at = |axis: &str, word: &str| cell.word(axis) == word;
    cell.is_at(&[("batch", 1.0)])
        && at("transport", "udp")
        && at("family", "ipv4")
        && at("receive", "blocking")
        && at("rate", CLOSED)
        && at("feature", "none")
}

pub(crate) fn id(results: &Results<'_>, part: &str) -> String {
    format!("{}{part}", results.experiment.name)
}

/// The figure of round trips over this axis.
pub(crate) fn rtt_figure(results: &Results<'_>, axis: &str) -> String {
    id(results, &format!("-rtt-{axis}"))
}

/// A warning about the longer message that takes least against a shorter one, with intervals that
/// do not overlap.
pub(crate) fn faster_though_longer(results: &Results<'_>, device: &str) -> Option<String> {
    let all = cells(results, device);
    let is_like = |a: &Cell<'_>, b: &Cell<'_>| {
        let axes = WORDS.iter().chain(["batch"].iter());
        axes.into_iter().all(|axis| a.word(axis) == b.word(axis))
    };
    let pair = |long: &'_ Cell<'_>, short: &'_ Cell<'_>| {
        let (of_long, of_short) = (long.estimate(RTT)?, short.estimate(RTT)?);
        let (_, high) = of_long.interval()?;
        let (low, _) = of_short.interval()?;
        (high < low).then_some((of_long.median, of_short.median))
    };
    let pairs = all.iter().flat_map(|long| all.iter().map(move |short| (*long, *short)));
    let is_longer = |(long, short): &(&Cell<'_>, &Cell<'_>)| {
        is_like(long, short) && long.number("size") > short.number("size")
    };
    let found = pairs.filter(is_longer);
    let found = found.filter_map(|(long, short)| Some((long, short, pair(long, short)?)));
    let (long, short, (long_ns, short_ns)) =
        found.min_by(|(.., a), (.., b)| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
    Some(format!(
        "{device}: over {} a round trip of {} takes {}, less than {} of {}. The difference comes \
         from the machine, not from the length: a longer message contains the work of a shorter \
         one.",
        words_at(long, "transport"),
        words_at(long, "size"),
        words::time(long_ns),
        words::time(short_ns),
        words_at(short, "size")
    ))
}

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
pub(crate) fn are_compared(results: &Results<'_>) -> bool {
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

/// The figure's name.
pub(crate) fn figure_id(results: &Results<'_>) -> String {
    id(results, "-rtt-rules")
}
