//! The findings of the experiment `echo-ledger`.

use niclab_result::Finding;

use super::analysis::{cells, figure_id, is_deep, plain};
use crate::breakdown::{BETWEEN, DIRECTIONS, PARTS, RESIDUE, TERMS, parts_name, price, rtt};
use crate::cells::Cell;
use crate::findings::number::{Number, estimated};
use crate::findings::{REPEATS_MIN, told};
use crate::round_trips::words_at;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::{statistics, words};

/// A residue from here on is named as one.
const RESIDUE_MAX: f64 = 0.01;

/// Device by device: the greatest term, the software's part, what the probes cost, and whether the
/// terms add up.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = plain(results, device);
        let is_it = |cell: &&&Cell<'_>| {
            cell.is_at(&[("size", 1024.0), ("batch", 1.0)])
                && cell.word("transport") == "udp"
                && cell.word("client") == "here"
        };
        let sleeps = |cell: &&&Cell<'_>| is_it(cell) && cell.word("receive") == "blocking";
        let usual = all.iter().find(sleeps).or_else(|| all.iter().find(is_it));
        if let Some(cell) = usual.or(all.first()) {
            findings.extend(greatest(results, cell));
            // Wake-ups scatter by more than stamps cost: between programs that do not sleep these
            // are seen.
            let polls = |other: &&&Cell<'_>| is_it(other) && other.word("receive") == "busy-poll";
            findings.extend(probes(all.iter().find(polls).unwrap_or(cell)));
        }
        findings.extend(residue(&all));
        let deep: Vec<&Cell<'_>> = cells(results, device).into_iter().filter(is_deep).collect();
        let sleeps = |cell: &&&Cell<'_>| cell.word("receive") == "blocking";
        if let Some(cell) = deep.iter().find(sleeps).or(deep.first()) {
            findings.extend(inside(results, cell));
        }
    }
    findings
}

fn enough(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

fn figure(cell: &Cell<'_>) -> Option<String> {
    Some(figure_id(cell.device, &cell.word("transport")))
}

/// The greatest term of a round trip; nothing where the repeats allow that another one is as great.
fn greatest(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let rtt = rtt(cell)?;
    let metric = |name: &str| format!("{name}_ns");
    let term = |(name, head): (&'static str, &'static str)| {
        Some((name, head, enough(cell.estimate(&metric(name)))?))
    };
    let terms: Vec<(&str, &str, Estimate)> = TERMS.into_iter().map(term).collect::<Option<_>>()?;
    let mut by_time = terms;
    by_time.sort_by(|(.., a), (.., b)| b.median.total_cmp(&a.median));
    let [(name, head, most), (second, ..), ..] = by_time.as_slice() else { return None };
    let [greater, less] = [name, second].map(|name| cell.values(&metric(name)));
    statistics::paired_ratio(&greater, &less).filter(|of| of.is_above(1.0) == Some(true))?;
    let number = Number::new(most, "ns");
    let sentence = format!(
        "The largest of six parts of a {} round trip of {} on {} is the time {head}: {number} of \
         {}{}.",
        words_at(cell, "transport"),
        words_at(cell, "size"),
        cell.device,
        estimated(&rtt, "ns"),
        words::few(most)
    );
    let implication = match *head {
        "client receive" | "server receive" => {
            "Receiving includes a wake-up: polling saves more here than a faster card."
        }
        BETWEEN if results.is_one_machine(cell.device) => {
            "Both hosts are in one machine: between the two interfaces the kernel interrupts \
             another core, which may have to wake up."
        }
        BETWEEN => "This is the path between the two interfaces: drivers, cards and cable.",
        _ => "A shorter transmit path through the stack saves most here.",
    };
    let id = "echo-ledger-greatest".to_owned();
    Some(told(cell.device, id, number, (sentence, implication), figure(cell)))
}

/// Which parts of the stacks take most, of both directions together.
fn inside(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let part = |(name, words): (&str, &'static str)| {
        let both = DIRECTIONS.map(|side| enough(cell.estimate(&parts_name(side, name))));
        let [request, reply] = both;
        Some((words, request?.median + reply?.median))
    };
    let mut parts: Vec<(&str, f64)> = PARTS.into_iter().map(part).collect::<Option<_>>()?;
    parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let rtt = enough(rtt(cell))?;
    let told_of: Vec<String> =
        parts[..4].iter().map(|(words, ns)| format!("{words} {}", words::time(*ns))).collect();
    let number = Number::new(&rtt, "ns");
    let sentence = format!(
        "The largest parts of a round trip of {number} on {} ({}, {}, all stamps; both ways \
         together) are: {}.",
        cell.device,
        words_at(cell, "size"),
        words_at(cell, "receive"),
        told_of.join("; ")
    );
    let implication = match results.is_one_machine(cell.device) {
        true => "No card is in this path: all parts belong to the kernel and the program.",
        false => {
            "A faster card shortens only the parts of the card and the wire. The other parts \
             belong to the kernel and the program."
        }
    };
    let id = "echo-ledger-inside".to_owned();
    Some(told(cell.device, id, number, (sentence, implication), None))
}

/// What it costs to look.
fn probes(cell: &Cell<'_>) -> Option<Finding> {
    let price = price(cell).filter(|price| price.is_above(0.0) == Some(true))?;
    let number = Number::new(&price, "ns");
    let sentence = format!(
        "A stamp costs {number} on {}: the difference of round trips with all stamps and without, \
         {} over {} ({}){}.",
        cell.device,
        words_at(cell, "size"),
        words_at(cell, "transport"),
        words_at(cell, "receive"),
        words::few(&price)
    );
    let implication = "Each stamp lengthens the parts by this: subtract it from short ones.";
    let id = "echo-ledger-price".to_owned();
    Some(told(cell.device, id, number, (sentence, implication), None))
}

/// How well the terms add up, at the place where they do worst.
fn residue(all: &[&Cell<'_>]) -> Option<Finding> {
    // The end of the interval that lies farther from none.
    let most = |ratio: &Estimate| ratio.low.abs().max(ratio.high.abs());
    let of = |cell: &&&Cell<'_>| cell.estimate(RESIDUE).map_or(0.0, |ratio| most(&ratio));
    // Of what nobody stamped, all terms are computed: they cannot but add up.
    let is_stamped = |cell: &&&Cell<'_>| {
        let stamps =
            cell.samples.first().and_then(|sample| sample.counters.get("stamps")?.as_u64());
        stamps.is_some_and(|stamps| stamps > 0)
    };
    let worst = all.iter().filter(is_stamped).max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let ratio = enough(worst.estimate(RESIDUE))?;
    let implication = match most(&ratio) <= RESIDUE_MAX {
        true => "All of the time is accounted for.",
        false => "Some of the time is not accounted for: round trips vary too much.",
    };
    // The residue that lies farthest from none, as a positive share.
    let [low, high] = match ratio.low + ratio.high < 0.0 {
        true => [-ratio.high, -ratio.low],
        false => [ratio.low, ratio.high],
    };
    let at_most = Estimate { median: high, low, high, ..ratio };
    let number = Number::percent(&at_most);
    let sentence = format!(
        "The parts add up to the round trip on {} within {number} ({} over {}){}.",
        worst.device,
        words_at(worst, "size"),
        words_at(worst, "transport"),
        words::few(&ratio)
    );
    let id = "echo-ledger-residue".to_owned();
    Some(told(worst.device, id, number, (sentence, implication), None))
}
