//! The findings of the experiments on applications.

use niclab_result::Finding;

use super::analysis::{
    RequestBound, TERMS, bound, cells, figure_of, is_back_to_back, is_shared, parallel, protocol,
    words_at,
};
use super::metrics::{LATENCY, LATENCY_TAIL, RATE, SERVER_BUSY, WAITING};
use crate::breakdown::RESIDUE;
use crate::cells::{Cell, paired};
use crate::findings::number::{Comparative, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, told, verdict};
use crate::statistics::{self, Estimate};
use crate::summary::Results;
use crate::words;

/// A number of requests beside another one.
const MANY: Comparative = ["as many requests as", "more requests than", "fewer requests than"];

/// Axes whose values another cell may share.
const AXES: [&str; 11] = [
    "protocol",
    "family",
    "client",
    "path",
    "gets",
    "size",
    "keys",
    "rate",
    "connections",
    "depth",
    "cores",
];

/// Device by device and application by application: one request, the most requests and what bounds
/// them, and what cores bring.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        let mut protocols: Vec<String> = all.iter().map(|cell| cell.word("protocol")).collect();
        protocols.dedup();
        for name in protocols {
            let of: Vec<&Cell<'_>> =
                all.iter().filter(|cell| cell.word("protocol") == name).copied().collect();
            findings.extend(alone(results, &of));
            findings.extend(inside(results, &of));
            match scaling(results, &of) {
                Some(finding) => findings.push(finding),
                None => findings.extend(most(results, &of)),
            }
        }
    }
    findings
}

/// The name of a finding: several applications and experiments tell of the same.
fn id(results: &Results<'_>, cell: &Cell<'_>, what: &str) -> String {
    format!("{}-{}-{what}", results.experiment.name, cell.word("protocol"))
}

fn enough(estimate: Option<Estimate>) -> Option<Estimate> {
    estimate.filter(|estimate| estimate.repeats >= REPEATS_MIN)
}

/// What is asked, more than one of it.
fn requests(cell: &Cell<'_>) -> String {
    match cell.word("protocol").as_str() {
        "http" => "calls".to_owned(),
        _ => words_at(cell, "gets"),
    }
}

/// How long one request takes that waits for no other.
fn alone(results: &Results<'_>, of: &[&Cell<'_>]) -> Option<Finding> {
    let is_it = |cell: &&&Cell<'_>| is_back_to_back(cell) && cell.word("client") == "here";
    let size = |cell: &Cell<'_>| cell.number("size").unwrap_or(f64::MAX);
    let cell = of.iter().filter(is_it).min_by(|a, b| size(a).total_cmp(&size(b)))?;
    let latency = enough(cell.estimate(LATENCY))?;
    let tail = cell.estimate(LATENCY_TAIL)?;
    let requests = requests(cell);
    let number = Number::new(&latency, "ns");
    let sentence = format!(
        "A {} of {} takes {number} with {} on {}, and {} at p99{}.",
        requests.trim_end_matches('s'),
        words_at(cell, "size"),
        protocol(cell),
        cell.device,
        estimated(&tail, "ns"),
        words::few(&latency)
    );
    let implication = "Compare it with a round trip of the same size over the same transport \
                       (echo-size): the rest is the application's.";
    let figure = Some(figure_of(results, "latency", "parallel"));
    let id = id(results, cell, "alone");
    Some(told(cell.device, id, number, (sentence, implication), figure))
}

/// Where the time of one request goes; nothing where the repeats allow both that the server has
/// more than half of it and less.
fn inside(results: &Results<'_>, of: &[&Cell<'_>]) -> Option<Finding> {
    let is_it = |cell: &&&Cell<'_>| is_back_to_back(cell) && cell.estimate(RESIDUE).is_some();
    let size = |cell: &Cell<'_>| cell.number("size").unwrap_or(f64::MAX);
    let cell = of.iter().filter(is_it).min_by(|a, b| size(a).total_cmp(&size(b)))?;
    let share = server_share(cell)?;
    let requests = requests(cell);
    let number = Number::percent(&share);
    let sentence = format!(
        "The server's stack and program take {number} of the time of a {} of {} with {} on {}{}.",
        requests.trim_end_matches('s'),
        words_at(cell, "size"),
        protocol(cell),
        cell.device,
        words::few(&share)
    );
    let implication = match share.is_above(0.5)? {
        true => {
            "Most of the time is the server's: a faster program saves more than a faster card or \
             client."
        }
        false => {
            "Most of the time is not the server's: a faster path saves more than a faster program."
        }
    };
    let id = id(results, cell, "inside");
    Some(told(cell.device, id, number, (sentence, implication), None))
}

/// The server's share of the terms, repeat by repeat.
fn server_share(cell: &Cell<'_>) -> Option<Estimate> {
    let each = |name: &str| cell.values(&format!("{name}_ns"));
    let all = TERMS.iter().map(|(name, _)| each(name));
    let sums = all.reduce(|sum, more| sum.iter().zip(more).map(|(a, b)| a + b).collect())?;
    enough(statistics::paired_ratio(&each("server"), &sums))
}

/// The most requests a second on one core, and what bounds them.
fn most(results: &Results<'_>, of: &[&Cell<'_>]) -> Option<Finding> {
    let one_core = of.iter().filter(|cell| cell.is_at(&[("cores", 1.0)]));
    let rate = |cell: &Cell<'_>| cell.estimate(RATE).map_or(0.0, |rate| rate.median);
    let cell = one_core.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let at_once = parallel(cell).filter(|count| *count > 1.0)?;
    let answered = enough(cell.estimate(RATE))?;
    let is_bound = cell.is_generator_limited();
    let (at_least, answered) = match is_bound {
        true => ("at least ", answered.at_least()),
        false => ("", answered),
    };
    let used = cell.estimate(SERVER_BUSY).map_or(String::new(), |busy| {
        let busy = Number::percent(&busy).with_interval();
        format!(" The server's core is busy {busy} of the time.")
    });
    // What is lost waits for nobody's answer.
    let waiting = cell.estimate(WAITING).map(|waiting| waiting.median);
    let is_lost = waiting.is_some_and(|waiting| waiting < 0.8 * at_once);
    let number = Number::new(&answered, "requests/s");
    let sentence = format!(
        "One core of {} answers {at_least}{number} with {}, the most of all loads measured ({}, \
         {}, {} at once{}){}{}.{used}",
        cell.device,
        protocol(cell),
        requests(cell),
        words_at(cell, "size"),
        words::whole(at_once),
        if is_lost { ", some of which are lost" } else { "" },
        match bound(cell) {
            RequestBound::Unknown => String::new(),
            bound => format!(", limited by {}", bound.words()),
        },
        words::few(&answered)
    );
    let implication = match bound(cell) {
        RequestBound::Server => {
            "More server cores or less work per request raise the rate; a faster link does not."
        }
        RequestBound::Both => {
            "Both sides are always busy: use clients with more cores, or on another host, to find \
             the server's limit."
        }
        RequestBound::Clients => {
            "The server could do more: give the clients more cores, or measure from another host."
        }
        RequestBound::Waiting => "No core is always busy: more requests at once raise the rate.",
        RequestBound::Unknown => {
            "The repeats do not tell what limits the rate: use more of them or a calmer machine."
        }
        RequestBound::Shared | RequestBound::Link | RequestBound::Due => "Change this limit first.",
    };
    let figure = Some(figure_of(results, "rate", "parallel"));
    let id = id(results, cell, "most");
    Some(told(cell.device, id, number, (sentence, implication), figure))
}

/// What all cores bring beside one, where clients and server have no core in common and the clients
/// are not the limit: else the ratio is of the clients as well.
fn scaling(results: &Results<'_>, of: &[&Cell<'_>]) -> Option<Finding> {
    let cores = |cell: &Cell<'_>| cell.number("cores").unwrap_or(0.0);
    let many = of.iter().max_by(|a, b| cores(a).total_cmp(&cores(b)))?;
    // As many connections for each core, or as many in all.
    let is_base = |cell: &&&Cell<'_>| {
        cores(cell) == 1.0
            && AXES.iter().all(|axis| {
                ["cores", "connections"].contains(axis) || cell.word(axis) == many.word(axis)
            })
    };
    let per_core = |cell: &Cell<'_>| parallel(cell).unwrap_or(0.0) / cores(cell).max(1.0);
    let one = of.iter().filter(is_base).find(|cell| per_core(cell) == per_core(many))?;
    if cores(many) <= 1.0 {
        return None;
    }
    let may_be_clients = |cell: &&Cell<'_>| {
        let is_of_clients = [RequestBound::Clients, RequestBound::Both].contains(&bound(cell));
        is_of_clients || is_shared(cell) || cell.is_generator_limited()
    };
    if [*many, *one].iter().any(may_be_clients) {
        return None;
    }
    let gain = enough(paired(many, one, RATE))?;
    verdict(&gain)?;
    let (number, is_more) = comparison(&gain, MANY);
    let sentence = format!(
        "{} of {} answer {is_more} one core with {}{}{}.",
        words_at(many, "cores").replace("server ", ""),
        many.device,
        protocol(many),
        match bound(many) {
            RequestBound::Unknown => String::new(),
            bound => format!(" (limited by {})", bound.words()),
        },
        words::few(&gain)
    );
    let implication = match many.word("protocol").as_str() {
        "redis" => {
            "Redis runs commands on one thread; other cores only read and write for it. Run \
             several servers, each with its own keys, to use several cores."
        }
        _ => "Waiting explains the difference from linear scaling.",
    };
    let figure = Some(figure_of(results, "rate", "cores"));
    let id = id(results, many, "scaling");
    Some(told(many.device, id, number, (sentence, implication), figure))
}
