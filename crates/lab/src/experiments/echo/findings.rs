//! The findings of the experiments on the echo.

use niclab_result::Finding;

use super::analysis::{cells, is_plain, rtt_figure};
use super::feature_findings;
use super::metrics::ANSWERED;
use crate::cells::{Cell, paired};
use crate::findings::number::{FAST, LONG, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, RatioVerdict, told, verdict};
use crate::hosts::{CLOSED, RTT, RTT_TAIL};
use crate::round_trips::words_at;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Axes whose values another cell may share.
pub(super) const AXES: [&str; 8] =
    ["transport", "family", "client", "receive", "rate", "size", "batch", "feature"];

/// Device by device: how long a message takes, and what length, protocol, waiting, direction and
/// batches make of it.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        findings.extend(base(results, &all));
        findings.extend(length(results, &all));
        findings.extend(compared(results, &all));
        findings.extend(batches(results, &all));
        findings.extend(feature_findings::findings(results, &all));
    }
    findings
}

/// The name of a finding: two experiments may tell of the same.
pub(crate) fn id(results: &Results<'_>, what: &str) -> String {
    format!("{}-{what}", results.experiment.name)
}

pub(crate) fn enough(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

/// The shortest message of which one at a time goes from here over UDP.
fn shortest<'a>(all: &[&'a Cell<'a>]) -> Option<&'a Cell<'a>> {
    let plain = all.iter().copied().filter(|cell| is_plain(cell) && cell.word("client") == "here");
    let short = plain.filter(|cell| cell.number("size") >= Some(64.0));
    short.min_by(|a, b| {
        let size = |cell: &Cell<'_>| cell.number("size").unwrap_or(f64::MAX);
        size(a).total_cmp(&size(b))
    })
}

/// The cell that differs from another one by this value alone.
fn beside<'a>(
    all: &[&'a Cell<'a>],
    cell: &Cell<'_>,
    axis: &str,
    word: &str,
) -> Option<&'a Cell<'a>> {
    let is_it = |other: &&Cell<'_>| {
        AXES.iter().all(|at| {
            let wanted = if *at == axis { word.to_owned() } else { cell.word(at) };
            other.word(at) == wanted
        })
    };
    all.iter().copied().find(is_it)
}

fn base(results: &Results<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let cell = shortest(all)?;
    let rtt = enough(cell.estimate(RTT))?;
    let tail = cell.estimate(RTT_TAIL)?;
    let number = Number::new(&rtt, "ns");
    let sentence = format!(
        "A UDP round trip of {} takes {number} on {}, and {} at p99{}.",
        words_at(cell, "size"),
        cell.device,
        estimated(&tail, "ns"),
        words::few(&rtt)
    );
    let implication = "This is the time of two kernels, two wake-ups and the path between.";
    let figure = Some(rtt_figure(results, "size"));
    Some(told(cell.device, id(results, "rtt"), number, (sentence, implication), figure))
}

/// What length costs, by the shortest message and the longest one; nothing where the repeats allow
/// that it costs nothing.
fn length(results: &Results<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let short = shortest(all)?;
    let same = all.iter().copied().filter(|cell| {
        AXES.iter().all(|axis| *axis == "size" || cell.word(axis) == short.word(axis))
    });
    let size = |cell: &Cell<'_>| cell.number("size").unwrap_or(0.0);
    let long = same.max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let more_kb = (size(long) - size(short)) / 1e3;
    if more_kb < 1.0 {
        return None;
    }
    let (with, without) = long.paired(short, RTT);
    let each: Vec<f64> =
        with.iter().zip(&without).map(|(with, without)| (with - without) / more_kb).collect();
    let per_kb = crate::statistics::estimate(&each).filter(|of| of.is_above(0.0) == Some(true))?;
    let number = Number::new(&per_kb, "ns");
    let sentence = format!(
        "Each further 1000 B adds {number} to a UDP round trip on {}, from {} to {}{}.",
        short.device,
        words_at(short, "size"),
        words_at(long, "size"),
        words::few(&per_kb)
    );
    let implication = "Copies, checksums and more frames cost time. The length of short messages \
                       hardly matters.";
    let figure = Some(rtt_figure(results, "size"));
    let id = id(results, "length");
    Some(told(short.device, id, number, (sentence, implication), figure))
}

/// What another protocol, another way to wait and the other direction make of a round trip, each
/// where the interval shows a difference or none.
fn compared(results: &Results<'_>, all: &[&Cell<'_>]) -> Vec<Finding> {
    let asked = [
        (
            "transport",
            "tcp",
            "over TCP",
            "over UDP",
            "Both protocols carry one message at a time here.",
        ),
        (
            "receive",
            "busy-poll",
            "with busy polling",
            "with blocking receives",
            "Busy polling saves two wake-ups, but keeps its core busy all the time.",
        ),
        (
            "client",
            "there",
            "from the other host",
            "from this one",
            "A difference between the directions comes from the two hosts or their cores.",
        ),
    ];
    let Some(cell) = shortest(all) else { return Vec::new() };
    let mut findings = Vec::new();
    for (axis, word, with, without, implication) in asked {
        let Some(other) = beside(all, cell, axis, word) else { continue };
        let Some(ratio) = enough(paired(other, cell, RTT)) else { continue };
        if verdict(&ratio).is_none() {
            continue;
        }
        let (number, is_longer) = comparison(&ratio, LONG);
        let sentence = format!(
            "A round trip of {} {with} takes {is_longer} {without} on {}{}.",
            words_at(cell, "size"),
            cell.device,
            words::few(&ratio)
        );
        let figure = Some(rtt_figure(results, "size"));
        let id = id(results, word);
        findings.push(told(cell.device, id, number, (sentence, implication), figure));
    }
    findings
}

/// What batches bring in a closed loop.
fn batches(results: &Results<'_>, all: &[&Cell<'_>]) -> Option<Finding> {
    let is_loop = |cell: &&&Cell<'_>| {
        let at = |axis: &str, word: &str| cell.word(axis) == word;
        at("transport", "udp") && at("client", "here") && at("rate", CLOSED)
    };
    let single = all.iter().filter(is_loop).find(|cell| cell.is_at(&[("batch", 1.0)]))?;
    let same = all.iter().filter(is_loop).filter(|cell| {
        AXES.iter().all(|axis| *axis == "batch" || cell.word(axis) == single.word(axis))
    });
    let rate = |cell: &Cell<'_>| cell.estimate(ANSWERED).map_or(0.0, |rate| rate.median);
    let best = same.copied().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    if best.is_at(&[("batch", 1.0)]) {
        return None;
    }
    let gain = paired(best, single, ANSWERED)?;
    if verdict(&gain)? == RatioVerdict::NoCost || gain.median < 1.0 {
        return None;
    }
    let (fast, slow) = (best.estimate(RTT)?, single.estimate(RTT)?);
    let (number, is_faster) = comparison(&gain, FAST);
    let sentence = format!(
        "{} answers messages of {} in {} {is_faster} one at a time{}. Each takes {} instead of {}.",
        single.device,
        words_at(single, "size"),
        words_at(best, "batch"),
        words::few(&gain),
        estimated(&fast, "ns"),
        estimated(&slow, "ns")
    );
    let implication = "A batch shares calls and wake-ups; only the cost of each message is left. \
                       For low latency, send messages one at a time.";
    let figure = Some(rtt_figure(results, "batch"));
    let id = id(results, "best");
    Some(told(single.device, id, number, (sentence, implication), figure))
}
