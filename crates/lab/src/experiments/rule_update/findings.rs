//! The findings of the experiment `rule-update`.

use niclab_result::Finding;

use super::analysis::{against_anew, cells, change_words, figure_id, is_beside};
use crate::cells::{Cell, paired};
use crate::findings::number::{FAST, LONG, Number, comparison};
use crate::findings::{REPEATS_MIN, RatioVerdict, core_words, of_transaction, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::summary::updates::length;
use crate::words;

/// Device by device and group by group.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = cells(results, device);
        for group in [0.0, 1.0] {
            // Where no packets flow there is no core to share.
            let of = |change: &str, calls: &str, core: &str| {
                let is_of = |cell: &&&Cell<'_>| {
                    cell.is_at(&[("group", group)])
                        && cell.word("change") == change
                        && cell.word("calls") == calls
                        && cell.word("core") == core
                        && is_whole(cell)
                };
                let largest = all.iter().filter(is_of).copied();
                largest.max_by(|a, b| rules(a).total_cmp(&rules(b)))
            };
            findings.extend(of("actions", "single", "").and_then(|cell| rate(results, cell)));
            for change in ["actions", "values", "mask", "priority"] {
                let cell = of(change, "single", "");
                findings.extend(cell.and_then(|cell| in_place(results, cell)));
            }
            let pair = of("actions", "transaction", "").zip(of("actions", "single", ""));
            findings.extend(pair.and_then(|(whole, one)| transaction(whole, one)));
            for core in ["same", "distinct"] {
                findings.extend(of("actions", "single", core).and_then(met));
                findings.extend(of("anew", "single", core).and_then(met));
            }
        }
    }
    findings
}

fn rules(cell: &Cell<'_>) -> f64 {
    cell.number("rules").unwrap_or(0.0)
}

/// All of the rules changed, in each repeat.
fn is_whole(cell: &Cell<'_>) -> bool {
    cell.values("operations_done").iter().all(|done| *done == rules(cell))
}

fn finding((id, cell): (&str, &Cell<'_>), number: Number, words: (String, &str)) -> Finding {
    let group = cell.number("group").unwrap_or(0.0);
    let figure = Some(figure_id(group, is_beside(cell)));
    told(cell.device, format!("{id}-group{group}"), number, words, figure)
}

fn group_words(cell: &Cell<'_>) -> String {
    format!("group {} of {}", words::whole(cell.number("group").unwrap_or(0.0)), cell.device)
}

/// How fast rules get new actions in place.
fn rate(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let per_s = cell.estimate("operations_per_s").filter(|e| e.repeats >= REPEATS_MIN)?;
    let gain = against_anew(results, cell);
    let pays = gain.as_ref().is_some_and(is_faster);
    let number = Number::new(&per_s, "rules/s");
    let sentence = format!(
        "{number} get new actions in place in {} ({}){}.",
        group_words(cell),
        words::rules(rules(cell)),
        words::few(&per_s)
    );
    let implication = match pays {
        true => "Change a rule's actions instead of replacing the rule.",
        false => "Decisions about flows can change at this rate.",
    };
    Some(finding(("update-rate", cell), number, (sentence, implication)))
}

/// `true` where a ratio of rates shows the first to be higher.
fn is_faster(ratio: &Estimate) -> bool {
    verdict(ratio) == Some(RatioVerdict::Differs) && ratio.median > 1.0
}

/// What a change in place gains over destroying and creating.
fn in_place(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let gain = against_anew(results, cell)?;
    let implication = match (verdict(&gain)?, gain.median > 1.0) {
        (RatioVerdict::NoCost, _) => "Changing such rules in place is as fast as replacing them.",
        (RatioVerdict::Differs, true) => {
            "Changing such rules in place is faster than replacing them."
        }
        (RatioVerdict::Differs, false) => {
            "Replacing such rules is faster than changing them in place."
        }
    };
    let (number, is_faster) = comparison(&gain, FAST);
    let sentence = format!(
        "{} in {} {} changed ({}) {is_faster} destroyed and created{}.",
        words::rules(rules(cell)),
        group_words(cell),
        words::verb(rules(cell), "is", "are"),
        change_words(cell),
        words::few(&gain)
    );
    let said = (sentence, implication);
    let id = format!("in-place-{}", cell.word("change"));
    Some(finding((&id, cell), number, said))
}

/// What it costs that all changes become visible at one instant.
fn transaction(whole: &Cell<'_>, one: &Cell<'_>) -> Option<Finding> {
    if rules(whole) != rules(one) {
        return None;
    }
    let ratio = paired(whole, one, "control_ns_per_operation")?;
    let implication = of_transaction(&ratio)?;
    let (number, is_longer) = comparison(&ratio, LONG);
    let sentence = format!(
        "One transaction with new actions for {} in {}, visible at one instant, takes {is_longer} \
         single calls{}.",
        words::rules(rules(whole)),
        group_words(whole),
        words::few(&ratio)
    );
    let said = (sentence, implication);
    Some(finding(("update-transaction", whole), number, said))
}

/// What packets meet in trials in which rules are changed.
fn met(cell: &Cell<'_>) -> Option<Finding> {
    let sum = |metric: &str| cell.values(metric).iter().sum::<f64>();
    if cell.values("met_none_frames").len() < REPEATS_MIN || cell.is_disturbed() {
        return None;
    }
    let none = sum("met_none_frames");
    let all = sum("met_old_frames") + sum("met_new_frames") + sum("met_none_frames");
    let what = match cell.word("change").as_str() {
        "anew" => "destroyed and created again",
        _ => "changed in place (new actions)",
    };
    // All packets of a trial were counted, and the change takes a part of it.
    let took = cell.estimate("batch_ns")?;
    let sentence = format!(
        "{} the old {} the new rule while {} in {} {} {what} by {}. This took {} of a trial of {}.",
        match none {
            0.0 => format!("Every one of {} packets matched", words::whole(all)),
            none =>
                format!("{} of {} packets matched neither", words::whole(none), words::whole(all)),
        },
        if none == 0.0 { "or" } else { "nor" },
        words::rules(rules(cell)),
        group_words(cell),
        words::verb(rules(cell), "was", "were"),
        core_words(cell),
        words::time(took.median),
        words::time(length(cell)? as f64)
    );
    let implication = match (none, cell.word("change").as_str()) {
        (0.0, _) => "No packet was seen to fall through to other rules.",
        (_, "anew") => "Packets fall through to other rules between the two calls.",
        _ => "Packets fall through to other rules while rules are changed this way.",
    };
    // Packets of all repeats were counted: there is no interval.
    let counted = Number::known(none, "packets");
    let id = format!("met-{}-{}", cell.word("change"), cell.word("core"));
    Some(finding((&id, cell), counted, (sentence, implication)))
}
