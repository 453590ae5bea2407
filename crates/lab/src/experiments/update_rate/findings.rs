//! The findings of the experiment `update-rate`.

use niclab_result::Finding;

use super::analysis::{Rated, done_per_s, latency_id, per_s, rated, throughput_id, way_words};
use crate::cells::{Cell, paired};
use crate::findings::number::{HIGH, Number, comparison, estimated};
use crate::findings::{REPEATS_MIN, RatioVerdict, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::frames::frame_words;
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
                findings.extend(fastest(&here).and_then(|rated| throughput(rated, &here)));
                findings.extend(fastest(&here).and_then(latency));
                findings.extend(fastest(&here).and_then(hand_over));
                findings.extend(ceiling(&here));
            }
        }
    }
    findings
}

/// `true` where the rules that were due were replaced.
fn is_kept(cell: &Cell<'_>) -> bool {
    let of = |metric: &str| cell.estimate(metric).map_or(0.0, |count| count.median);
    let planned = of("operations_planned");
    planned > 0.0 && of("operations_done") / planned >= KEPT_MIN
}

/// `true` where neither generator nor stalls may have set the figures.
fn is_sound(cell: &Cell<'_>) -> bool {
    !cell.is_generator_limited() && !cell.is_disturbed()
}

/// `true` where a replacement was refused.
fn refuses(cell: &Cell<'_>) -> bool {
    cell.values("operations_refused").iter().any(|refused| *refused > 0.0)
}

/// The highest rate of those that were kept without a refusal and at which the generator set
/// nothing: of the smallest frames, of the most rules.
fn fastest<'a>(all: &[&'a Rated<'a>]) -> Option<&'a Rated<'a>> {
    let is_fit = |rated: &&&Rated<'_>| {
        let cell = rated.full;
        is_kept(cell) && !refuses(cell) && is_sound(cell)
    };
    let place = |rated: &Rated<'_>| {
        let frame = rated.full.number("frame").unwrap_or(f64::MAX);
        [per_s(rated.full), -frame, rated.full.number("rules").unwrap_or(0.0)]
    };
    let order = |a: &Rated<'_>, b: &Rated<'_>| {
        place(a).partial_cmp(&place(b)).unwrap_or(std::cmp::Ordering::Equal)
    };
    all.iter().filter(is_fit).copied().max_by(|a, b| order(a, b))
}

/// `500,000 rules a second are replaced in group 1 (65,536 rules, same core, single calls, at
/// once)`.
fn work(cell: &Cell<'_>) -> String {
    format!(
        "{} a second {} replaced in {}",
        words::rules(per_s(cell)),
        words::verb(per_s(cell), "is", "are"),
        place(cell)
    )
}

/// `group 1 (65,536 rules, same core, single calls, at once)`.
fn place(cell: &Cell<'_>) -> String {
    format!(
        "group {} ({}, {})",
        words::whole(cell.number("group").unwrap_or(0.0)),
        words::rules(cell.number("rules").unwrap_or(0.0)),
        way_words(cell)
    )
}

fn finding(
    (id, cell): (&str, &Cell<'_>),
    number: Number,
    words: (String, &str),
    figure: String,
) -> Finding {
    let group = cell.number("group").unwrap_or(0.0);
    let id = format!("{id}-{}-group{group}", cell.word("core"));
    told(cell.device, id, number, words, Some(figure))
}

/// A share of the throughput without rule churn.
struct KeptShare {
    ratio: Estimate,
    /// Without rule churn the generator was the limit: it is less than the upper end of the
    /// interval.
    at_most: bool,
}

impl KeptShare {
    fn of(rated: &Rated<'_>) -> Option<KeptShare> {
        let (cell, rest) = (rated.full, rated.rest);
        if let Some(ratio) = rated.against_rest().filter(|_| !rest.is_disturbed()) {
            return Some(KeptShare { ratio, at_most: false });
        }
        let ratio = paired(cell, rest, "throughput_pps")?;
        let is_bound = rest.is_generator_limited() && !rest.is_disturbed() && is_sound(cell);
        let is_less = ratio.repeats >= REPEATS_MIN && ratio.high < 1.0;
        let ratio = ratio.at_most();
        (is_bound && is_less).then_some(KeptShare { ratio, at_most: true })
    }

    fn bound(&self) -> &'static str {
        if self.at_most { "at most " } else { "" }
    }
}

/// What is left of the throughput.
fn throughput(rated: &Rated<'_>, all: &[&Rated<'_>]) -> Option<Finding> {
    let (cell, kept) = (rated.full, KeptShare::of(rated)?);
    let ratio = &kept.ratio;
    let verdict = verdict(ratio)?;
    let number = Number::percent(ratio);
    let sentence = format!(
        "{} keeps {}{number} of its throughput (full load, {}) while {}{}.{}",
        cell.device,
        kept.bound(),
        frame_words(&cell.word("frame")),
        work(cell),
        words::few(ratio),
        slower(cell, all)
    );
    let implication = match (verdict, cell.word("core").as_str()) {
        (RatioVerdict::NoCost, _) if kept.at_most => {
            "The cost may be higher: the generator was the limit without rule churn."
        }
        (RatioVerdict::NoCost, _) => "Rule churn at this rate costs almost no throughput.",
        _ if ratio.median > 1.0 => "Rule churn at this rate does not slow down forwarding.",
        (_, "same") => "The core spends time on rules instead of packets.",
        _ => "Rule churn on another core slows down forwarding.",
    };
    Some(finding(("churn", cell), number, (sentence, implication), throughput_id(cell)))
}

/// ` At 100,000 a second it keeps 92 % (91 to 93 %), at 10,000 99 % (98 to 99 %).`, for lower rates
/// at the place of `cell`, the highest first; empty without them.
fn slower(cell: &Cell<'_>, all: &[&Rated<'_>]) -> String {
    let is_slower = |other: &&&Rated<'_>| {
        let mut point = other.full.point.clone();
        point.insert("per_s".into(), cell.point["per_s"].clone());
        let other = other.full;
        point == *cell.point
            && per_s(other) < per_s(cell)
            && is_kept(other)
            && !refuses(other)
            && !other.is_disturbed()
    };
    let slower = all.iter().filter(is_slower).filter_map(|other| {
        let kept = KeptShare::of(other).filter(|kept| kept.ratio.repeats >= REPEATS_MIN)?;
        let share = Number::percent(&kept.ratio).with_interval();
        Some((words::whole(per_s(other.full)), format!("{}{share}", kept.bound())))
    });
    let mut slower: Vec<(String, String)> = slower.collect();
    slower.reverse();
    let Some(((rate, kept), more)) = slower.split_first() else { return String::new() };
    let more: String = more.iter().map(|(rate, kept)| format!(", at {rate} {kept}")).collect();
    format!(" At {rate} a second it keeps {kept}{more}.")
}

/// How rule churn changes the latency.
fn latency(rated: &Rated<'_>) -> Option<Finding> {
    let cell = rated.latency.filter(|cell| is_sound(cell))?;
    let ratio = rated.latency_against_rest()?;
    let verdict = verdict(&ratio)?;
    let (number, is_higher) = comparison(&ratio, HIGH);
    let sentence = format!(
        "The p50 latency of {} is {is_higher} without rule churn ({}) while {}, at {} of {}{}.",
        cell.device,
        words::time(cell.estimate("latency_ns_p50")?.median),
        work(cell),
        words::pps(cell.estimate("offered_pps")?.median),
        frame_words(&cell.word("frame")),
        words::few(&ratio)
    );
    let implication = match verdict {
        RatioVerdict::NoCost => "Rule churn at this rate does not delay packets.",
        RatioVerdict::Differs if ratio.median < 1.0 => "Packets wait no longer during rule churn.",
        RatioVerdict::Differs => "Rule churn delays packets.",
    };
    Some(finding(("churn-latency", cell), number, (sentence, implication), latency_id(cell)))
}

/// How long it takes until a call is done that the core that forwards asks another one for.
fn hand_over(rated: &Rated<'_>) -> Option<Finding> {
    let cell = rated.latency.filter(|cell| is_sound(cell))?;
    let done = cell.estimate("late_ns_p50").filter(|e| e.repeats >= REPEATS_MIN)?;
    let tail = cell.estimate("late_ns_p99")?;
    let number = Number::new(&done, "ns");
    let sentence = format!(
        "{} completes a replacement {number} after the forwarding core requests it, and {} after \
         it at p99, while {}, at {} of {}{}.",
        cell.device,
        estimated(&tail, "ns"),
        work(cell),
        words::pps(cell.estimate("offered_pps")?.median),
        frame_words(&cell.word("frame")),
        words::few(&done)
    );
    let implication = "The call for the new rule returns then. The experiment rule-rate shows \
                       when packets match the rule.";
    Some(finding(("hand-over", cell), number, (sentence, implication), latency_id(cell)))
}

/// The highest rate that is reached, where more is asked for and nothing but the device keeps it
/// from more; none where a rate as high was kept.
fn ceiling(all: &[&Rated<'_>]) -> Option<Finding> {
    let done = all.iter().filter_map(|rated| Some((rated.full, done_per_s(rated.full)?)));
    let (cell, done) = done.max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))?;
    let is_bound = !is_kept(cell) && !refuses(cell) && is_sound(cell);
    let is_above = |rated: &&Rated<'_>| is_kept(rated.full) && per_s(rated.full) >= done.median;
    if !is_bound || all.iter().any(is_above) || done.repeats < REPEATS_MIN {
        return None;
    }
    let number = Number::new(&done, "rules/s");
    let sentence = format!(
        "{} replaces {number} if {} are requested in {}{}.",
        cell.device,
        words::whole(per_s(cell)),
        place(cell),
        words::few(&done)
    );
    let implication = "This is the highest churn rate at saturating load with these calls.";
    let of = throughput_id(cell);
    Some(finding(("churn-ceiling", cell), number, (sentence, implication), of))
}
