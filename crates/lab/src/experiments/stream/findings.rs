//! The findings of the experiment on bulk data.

use niclab_result::Finding;

use super::analysis::{AXES, Bound, bound, cells, figure_of, words_at};
use super::metrics::{CARRIED, CPU, RECEIVER_BUSY, SENDER_BUSY};
use super::trials::FULL;
use crate::cells::{Cell, paired};
use crate::findings::number::{MUCH, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, RatioVerdict, follows, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Share of the best bandwidth that is called reached.
const REACHED: f64 = 0.9;

/// Device by device: what arrives at most and what bounds it, from which size on, TCP beside UDP,
/// and what connections and batches bring.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        for transport in ["tcp", "udp"] {
            findings.extend(most(results, &all, transport));
            findings.extend(size(results, &all, transport));
        }
        findings.extend(beside(results, &all));
        findings.extend(brought(results, &all, ("connections", "tcp")));
        findings.extend(brought(results, &all, ("batch", "udp")));
    }
    findings
}

fn enough(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

fn carried(cell: &Cell<'_>) -> f64 {
    cell.estimate(CARRIED).map_or(0.0, |carried| carried.median)
}

/// Cells of a protocol that send from here as much as goes.
fn of<'a>(all: &[&'a Cell<'a>], transport: &str) -> Vec<&'a Cell<'a>> {
    let is_it = |cell: &&&Cell<'_>| {
        let at = |axis: &str, word: &str| cell.word(axis) == word;
        at("transport", transport) && at("client", "here") && at("rate", FULL)
    };
    all.iter().filter(is_it).copied().collect()
}

fn best<'a>(cells: &[&'a Cell<'a>]) -> Option<&'a Cell<'a>> {
    cells.iter().copied().max_by(|a, b| carried(a).total_cmp(&carried(b)))
}

/// Those that differ from a cell by this axis alone, itself included, in its order.
fn along<'a>(cells: &[&'a Cell<'a>], cell: &Cell<'_>, axis: &str) -> Vec<&'a Cell<'a>> {
    let is_it =
        |other: &&&Cell<'_>| AXES.iter().all(|at| *at == axis || other.word(at) == cell.word(at));
    let mut found: Vec<&Cell<'_>> = cells.iter().filter(is_it).copied().collect();
    let at = |cell: &Cell<'_>| cell.number(axis).unwrap_or(0.0);
    found.sort_by(|a, b| at(a).total_cmp(&at(b)));
    found
}

/// How a cell sends, in words.
fn manner(cell: &Cell<'_>) -> String {
    let over = words_at(cell, "connections");
    let batch = cell.number("batch").unwrap_or(1.0);
    match cell.word("transport").as_str() {
        "tcp" => format!("with writes of {} over {over}", words_at(cell, "size")),
        _ if batch > 1.0 => format!(
            "in datagrams of {}, {} in a call, over {over}",
            words_at(cell, "size"),
            words::whole(batch)
        ),
        _ => format!("in datagrams of {} over {over}", words_at(cell, "size")),
    }
}

/// The share of the time in which a core is busy, with its interval; clocks may let it exceed 1.
fn busy_words(share: &Estimate) -> String {
    let [median, low, high] = [share.median, share.low, share.high].map(|share| share.min(1.0));
    Number::percent(&Estimate { median, low, high, ..*share }).with_interval()
}

/// What arrives at most, and what bounds it.
fn most(results: &Results<'_>, all: &[&Cell<'_>], transport: &str) -> Option<Finding> {
    let cell = best(&of(all, transport))?;
    let bits = enough(cell.estimate(CARRIED))?;
    let busy = |metric: &str| {
        cell.estimate(metric).map_or("an unknown share".to_owned(), |share| busy_words(&share))
    };
    let shares = format!(
        "The sender's core is busy {} of the time, the receiver's {}",
        busy(SENDER_BUSY),
        busy(RECEIVER_BUSY)
    );
    let number = Number::new(&bits, "bit/s");
    let sentence = format!(
        "{} carries {number} of payload over {} {}{}. {shares}.",
        cell.device,
        transport.to_uppercase(),
        manner(cell),
        words::few(&bits)
    );
    let implication = match bound(cell) {
        Bound::Both => "Both cores are the limit: sender and receiver cost about the same.",
        Bound::Sender => "The sender's core is the limit: a faster wire would not help.",
        Bound::Receiver => {
            "The receiver's core is the limit: further data over UDP is lost, over TCP it waits."
        }
        Bound::Others => "Other programs used the cores: find the limit on a calmer machine.",
        Bound::Unknown => {
            "The data do not show which core is the limit: use more repeats or a calmer machine."
        }
        Bound::Rate | Bound::Neither => {
            "Neither core is always busy: the limit is the wire, the window, or waiting for the \
             other side."
        }
    };
    let figure = Some(figure_of(results, "carried", "size"));
    let id = format!("{}-{transport}", results.experiment.name);
    Some(told(cell.device, id, number, (sentence, implication), figure))
}

/// The size from which on nearly as much arrives as with the best: a plateau of two sizes or more,
/// up to the largest. Nothing where the largest alone reaches it, for larger ones may carry more.
fn size(results: &Results<'_>, all: &[&Cell<'_>], transport: &str) -> Option<Finding> {
    let cells = of(all, transport);
    // Of the most sizes that differ in nothing else.
    let swept = cells.iter().map(|cell| along(&cells, cell, "size")).max_by_key(Vec::len)?;
    let top = best(&swept)?;
    if swept.len() < 3 || carried(top) == 0.0 {
        return None;
    }
    let share = |cell: &Cell<'_>| enough(paired(cell, top, CARRIED));
    let reaches = |cell: &&Cell<'_>| share(cell).is_some_and(|share| share.low >= REACHED);
    let below = swept.iter().rposition(|cell| !reaches(cell));
    let first = below.map_or(0, |below| below + 1);
    let (from, smallest) = (*swept.get(first)?, swept[0]);
    if first + 1 == swept.len() {
        return None;
    }
    let (share, of_smallest) = (share(from)?, share(smallest)?);
    let reached = match first {
        0 => format!("with messages of {} or more", words_at(from, "size")),
        _ => format!(
            "with messages of {} or more; with {} it reaches {}",
            words_at(from, "size"),
            words_at(smallest, "size"),
            Number::percent(&of_smallest).with_interval()
        ),
    };
    let sentence = format!(
        "{} reaches nine tenths of its best {} throughput {reached}{}.",
        cells[0].device,
        transport.to_uppercase(),
        words::few(&share)
    );
    let implication = match first {
        0 => "The message size hardly matters here.",
        _ => {
            "Shorter messages are limited by the cost of calls or packets: send fewer and longer \
             ones."
        }
    };
    let number = Number::known(from.number("size").unwrap_or(0.0), "B");
    let figure = Some(figure_of(results, "carried", "size"));
    let id = format!("{}-{transport}-size", results.experiment.name);
    Some(told(cells[0].device, id, number, (sentence, implication), figure))
}

/// The best of TCP beside the best of UDP.
fn beside(results: &Results<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let (tcp, udp) = (best(&of(all, "tcp"))?, best(&of(all, "udp"))?);
    let ratio = enough(paired(tcp, udp, CARRIED))?;
    verdict(&ratio)?;
    let cpu = |cell: &Cell<'_>| {
        cell.estimate(CPU).map_or("an unknown time".to_owned(), |cpu| estimated(&cpu, "ns"))
    };
    let (number, is_more) = comparison(&ratio, MUCH);
    let sentence = format!(
        "TCP at its best carries {is_more} UDP on {}. A gigabit takes {} of both sides' cores \
         instead of {}{}.",
        tcp.device,
        cpu(tcp),
        cpu(udp),
        words::few(&ratio)
    );
    let implication = match ratio.is_above(1.0) {
        Some(true) => {
            "The kernel passes many TCP segments through its layers at once, but each datagram \
             alone."
        }
        _ => "Compare the core time as well.",
    };
    let figure = Some(figure_of(results, "cpu", "size"));
    let id = format!("{}-tcp-udp", results.experiment.name);
    Some(told(tcp.device, id, number, (sentence, implication), figure))
}

/// What more connections, or larger batches, bring beside one.
fn brought(
    results: &Results<'_>,
    all: &[&Cell<'_>],
    (axis, transport): (&str, &str),
) -> Option<Finding> {
    let cells = of(all, transport);
    let swept = cells.iter().map(|cell| along(&cells, cell, axis)).max_by_key(Vec::len)?;
    let (single, more) = swept.split_first().filter(|(one, _)| one.is_at(&[(axis, 1.0)]))?;
    let best = best(more)?;
    let gain = enough(paired(best, single, CARRIED))?;
    let what = match axis {
        "batch" => format!("{} datagrams in a call", words_at(best, axis).replace(" a call", "")),
        _ => words_at(best, axis),
    };
    let is_same = verdict(&gain)? == RatioVerdict::NoCost;
    let (number, is_more) = comparison(&gain, MUCH);
    let sentence = format!(
        "{what} carry {is_more} one over {} on {}, with messages of {}{}.",
        transport.to_uppercase(),
        single.device,
        words_at(single, "size"),
        words::few(&gain)
    );
    let implication = match (axis, gain.high < 1.0 || is_same) {
        ("connections", true) => "One connection is enough: more connections share the same cores.",
        ("connections", false) => {
            "A single connection waits for its window or the other side. More connections use \
             spare cores."
        }
        (_, true) => "The cost of a call is small against that of a datagram.",
        (_, false) => "A batch shares the cost of a call; only the cost of each datagram is left.",
    };
    let figure = Some(figure_of(results, "carried", axis));
    let id = format!("{}-{axis}", results.experiment.name);
    let implication = follows(&gain, implication);
    Some(told(single.device, id, number, (sentence, &implication), figure))
}
