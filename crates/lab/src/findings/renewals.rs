//! The findings of the experiment `update-rate`.

use niclab_result::{Finding, Quantity};

use super::{REPEATS_MIN, Verdict, verdict};
use crate::cells::Cell;
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::figures::frame_words;
use crate::summary::renewals::{Rated, latency_id, per_s, rated, throughput_id};
use crate::words;

/// A rate is kept where at least this share of the operations was done.
const KEPT_MIN: f64 = 0.95;

/// Device by device and group by group: what the highest rate that is kept costs, on the core that
/// forwards and on another one.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = rated(results, device);
        for group in [0.0, 1.0] {
            for core in ["same", "distinct"] {
                let of = |rated: &&Rated<'_>| {
                    let cell = rated.full;
                    cell.is_at(&[("group", group)])
                        && cell.word("core") == core
                        && per_s(cell) > 0.0
                };
                let here: Vec<&Rated<'_>> = all.iter().filter(of).collect();
                findings.extend(fastest(&here).and_then(throughput));
                findings.extend(fastest(&here).and_then(latency));
                findings.extend(fastest(&here).and_then(hand_over));
                findings.extend(ceiling(&here));
            }
        }
    }
    findings
}

/// Renewals done by those that were due.
fn kept(cell: &Cell<'_>) -> f64 {
    cell.estimate("operations_per_s").map_or(0.0, |done| done.median / per_s(cell))
}

/// The highest rate of those that were kept and at which the generator set nothing: of the smallest
/// frames, of the most rules.
fn fastest<'a>(all: &[&'a Rated<'a>]) -> Option<&'a Rated<'a>> {
    let is_sound =
        |rated: &&&Rated<'_>| kept(rated.full) >= KEPT_MIN && !rated.full.is_generator_limited();
    let place = |rated: &Rated<'_>| {
        let frame = rated.full.number("frame").unwrap_or(f64::MAX);
        [per_s(rated.full), -frame, rated.full.number("rules").unwrap_or(0.0)]
    };
    let order = |a: &Rated<'_>, b: &Rated<'_>| {
        place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    all.iter().filter(is_sound).copied().max_by(|a, b| order(a, b))
}

/// `500,000 rules a second of 65,536 in group 1 are renewed on the core that forwards`.
fn work(cell: &Cell<'_>) -> String {
    let core = match cell.word("core").as_str() {
        "same" => "on the core that forwards",
        _ => "by another core",
    };
    format!(
        "{} a second of {} in group {} are renewed {core}",
        words::rules(per_s(cell)),
        words::whole(cell.number("rules").unwrap_or(0.0)),
        words::whole(cell.number("group").unwrap_or(0.0))
    )
}

fn finding(
    (id, cell): (&str, &Cell<'_>),
    (e, unit): (&Estimate, &str),
    (sentence, implication): (String, &str),
    figure: String,
) -> Finding {
    let group = cell.number("group").unwrap_or(0.0);
    Finding {
        id: format!("{}-{id}-{}-group{group}", cell.device, cell.word("core")),
        sentence,
        value: Quantity { value: e.median, unit: unit.into() },
        interval: e.interval().filter(|(low, high)| low < high),
        implication: implication.into(),
        figure: Some(figure),
        device: cell.device.to_string(),
    }
}

/// What is left of the throughput.
fn throughput(rated: &Rated<'_>) -> Option<Finding> {
    let (cell, ratio) = (rated.full, rated.against_rest()?);
    if rated.rest.is_generator_limited() || ratio.repeats < REPEATS_MIN {
        return None;
    }
    let sentence = format!(
        "While {}, {} keeps {} of its throughput of {} without that, at full load of {}{}.",
        work(cell),
        cell.device,
        words::percent(ratio.median),
        words::pps(rated.rest.estimate("throughput_pps")?.median),
        frame_words(&cell.word("frame")),
        words::few(&ratio)
    );
    let implication = match (verdict(&ratio), cell.word("core").as_str()) {
        (Some(Verdict::NoCost), _) => "Rules can be renewed at this rate beside traffic.",
        (_, "same") => "What the core does for rules it cannot do for packets.",
        _ => "Changes by another core cost forwarding something.",
    };
    Some(finding(("renewal", cell), (&ratio, "1"), (sentence, implication), throughput_id(cell)))
}

/// What becomes of the latency.
fn latency(rated: &Rated<'_>) -> Option<Finding> {
    let (cell, ratio) = (rated.latency?, rated.latency_against_rest()?);
    let is_sound = |cell: &Cell<'_>| !cell.is_generator_limited();
    if !is_sound(cell) || !is_sound(rated.rest_latency?) || ratio.repeats < REPEATS_MIN {
        return None;
    }
    let sentence = format!(
        "While {}, the median latency of {} is {}, {} times that without, at {} of {}{}.",
        work(cell),
        cell.device,
        words::time(cell.estimate("latency_ns_p50")?.median),
        words::significant(ratio.median),
        words::pps(cell.estimate("offered_pps")?.median),
        frame_words(&cell.word("frame")),
        words::few(&ratio)
    );
    let implication = match verdict(&ratio) {
        Some(Verdict::NoCost) => "Packets do not wait for rules at this rate.",
        _ => "Packets wait while rules are changed.",
    };
    Some(finding(
        ("renewal-latency", cell),
        (&ratio, "1"),
        (sentence, implication),
        latency_id(cell),
    ))
}

/// How long a rule takes that the core that forwards asks another one for.
fn hand_over(rated: &Rated<'_>) -> Option<Finding> {
    let cell = rated.latency.filter(|cell| !cell.is_generator_limited())?;
    let effect = cell.estimate("late_ns_p50").filter(|e| e.repeats >= REPEATS_MIN)?;
    let (taken, tail) = (cell.estimate("waited_ns_p50")?, cell.estimate("late_ns_p99")?);
    let sentence = format!(
        "While {}, a rule that the core that forwards asks for is taken up after {} and in effect \
         after {} (99 % of them after {}) on {}, at {} of {}{}.",
        work(cell),
        words::time(taken.median),
        words::time(effect.median),
        words::time(tail.median),
        cell.device,
        words::pps(cell.estimate("offered_pps")?.median),
        frame_words(&cell.word("frame")),
        words::few(&effect)
    );
    let implication = "So long packets of a new flow meet the rules that were there before.";
    Some(finding(("hand-over", cell), (&effect, "ns"), (sentence, implication), latency_id(cell)))
}

/// The rate that is reached where more is asked for.
fn ceiling(all: &[&Rated<'_>]) -> Option<Finding> {
    let missed = all.iter().filter(|rated| kept(rated.full) < KEPT_MIN);
    let missed = missed.max_by(|a, b| per_s(a.full).total_cmp(&per_s(b.full)))?;
    let cell = missed.full;
    let done = cell.estimate("operations_per_s").filter(|done| done.repeats >= REPEATS_MIN)?;
    let sentence = format!(
        "Where {}, {} renews {}{}.",
        work(cell).replace(" are renewed", " are to be renewed"),
        cell.device,
        words::whole(done.median),
        words::few(&done)
    );
    let implication = "This is the most it does beside traffic.";
    let of = (&done, "rules/s");
    Some(finding(("renewal-ceiling", cell), of, (sentence, implication), throughput_id(cell)))
}
