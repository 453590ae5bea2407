//! The findings of the experiment `ids-partition`.

use std::cmp::Reverse;

use niclab_result::Finding;

use super::analysis::{
    by_rules, compared, cores_words, engine_words, figure_id, of_copies, on_most_cores, rules_words,
};
use super::metrics::{IMBALANCE, INSPECTED, INSPECTION, MEMORY};
use super::trials::COPIES;
use crate::cells::{Cell, paired};
use crate::findings::number::{Comparative, FAST, Number, comparison};
use crate::findings::{REPEATS_MIN, RatioVerdict, follows, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Work of the busiest core, by the mean, from which on a partition is called unequal.
const UNEQUAL: f64 = 1.1;

const MEMORY_WORDS: Comparative = ["as much memory as", "more memory than", "less memory than"];

/// Device by device: what partitions bring at each point on the most cores, what memory they save,
/// how the time of a packet grows with rules, and where cores have unequal work.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let mut all = on_most_cores(results, device);
        // The first finding is the headline: most rules need a division most.
        all.sort_by_key(|cell| Reverse(cell.number("rules").unwrap_or(0.0) as u64));
        let pairs = all.into_iter().filter_map(|cell| compared(results, cell));
        for (cell, copies) in pairs.clone() {
            findings.extend(gain(results, cell, copies));
        }
        for (cell, copies) in pairs.clone() {
            findings.extend(memory(results, cell, copies));
        }
        for curve in by_rules(results, device) {
            findings.extend(growth(results, &curve));
        }
        findings.extend(pairs.filter_map(|(cell, _)| unequal(results, cell)));
    }
    findings
}

fn id(cell: &Cell<'_>, what: &str) -> String {
    let [engine, mix, rules] = ["engine", "mix", "rules"].map(|axis| cell.word(axis));
    format!("{engine}-{mix}-{rules}-{what}")
}

/// Packets a second with partitions, by those with copies.
fn gain(results: &Results<'_>, cell: &Cell<'_>, copies: &Cell<'_>) -> Option<Finding> {
    let ratio = of_copies(results, cell, INSPECTED)?;
    let verdict = verdict(&ratio)?;
    let [with, without] = [cell, copies].map(|cell| cell.estimate(INSPECTED));
    let (number, words) = comparison(&ratio, FAST);
    let sentence = format!(
        "With partitions of {} {} is {words} with copies on {} of {}: {} instead of {}{}.",
        rules_words(cell),
        engine_words(cell),
        cores_words(cell),
        cell.device,
        words::pps(with?.median),
        words::pps(without?.median),
        words::few(&ratio),
    );
    let implication = match verdict {
        RatioVerdict::NoCost => "Dividing these rules changes the speed by less than 10 %.",
        RatioVerdict::Differs if ratio.median > 1.0 => {
            "Divide such rules: each core checks fewer of them."
        }
        RatioVerdict::Differs => {
            "Do not divide such rules for speed: the cores lose more than they save."
        }
    };
    let implication = follows(&ratio, implication);
    let figure = Some(figure_id(results, "gain"));
    Some(told(cell.device, id(cell, "gain"), number, (sentence, &implication), figure))
}

/// Memory of an engine with a part of the rules, by that of one with all.
fn memory(results: &Results<'_>, cell: &Cell<'_>, copies: &Cell<'_>) -> Option<Finding> {
    let ratio = of_copies(results, cell, MEMORY)?;
    if verdict(&ratio)? != RatioVerdict::Differs {
        return None;
    }
    let [with, without] = [cell, copies].map(|cell| cell.estimate(MEMORY));
    let (number, words) = comparison(&ratio, MEMORY_WORDS);
    let sentence = format!(
        "With partitions of {} the largest of {} engines takes {words} a copy: {} instead of {} \
         ({}, {}){}.",
        rules_words(cell),
        words::whole(cell.number("cores").unwrap_or(0.0)),
        words::bytes(with?.median),
        words::bytes(without?.median),
        engine_words(cell),
        cell.device,
        words::few(&ratio),
    );
    let implication = match ratio.median < 1.0 {
        true => "With partitions more rules fit into the memory of the cores.",
        false => "A part of these rules takes more memory than all of them.",
    };
    let implication = follows(&ratio, implication);
    let figure = Some(figure_id(results, "memory"));
    Some(told(cell.device, id(cell, "memory"), number, (sentence, &implication), figure))
}

/// How much longer a packet takes with most rules than with fewest.
fn growth(results: &Results<'_>, curve: &[&Cell<'_>]) -> Option<Finding> {
    let (fewest, most) = (*curve.first()?, *curve.last()?);
    let times = most.number("rules")? / fewest.number("rules")?;
    let ratio = paired(most, fewest, INSPECTION).filter(|ratio| ratio.repeats >= REPEATS_MIN)?;
    let is_less = ratio.high < times;
    if !is_less && ratio.low <= times {
        return None;
    }
    let number = Number::new(&ratio, "1");
    let sentence = format!(
        "A packet takes {number} as long with {} times the rules on {} of {} ({}, {}, {} instead \
         of {}){}.",
        if times.fract() == 0.0 { words::whole(times) } else { words::significant(times) },
        cores_words(most),
        most.device,
        engine_words(most),
        if most.word("mode") == COPIES { "copies" } else { "partitions" },
        rules_words(most),
        words::whole(fewest.number("rules")?),
        words::few(&ratio),
    );
    let implication = match is_less {
        true => "The time of a packet grows less than linearly with the rules.",
        false => "The time of a packet grows more than linearly with the rules: remove rules.",
    };
    let implication = follows(&ratio, implication);
    let what = format!("{}-growth", most.word("mode"));
    let figure = Some(figure_id(results, "time"));
    Some(told(most.device, id(most, &what), number, (sentence, &implication), figure))
}

/// Whether one core of a partition has much more to do than the others.
fn unequal(results: &Results<'_>, cell: &Cell<'_>) -> Option<Finding> {
    let is_known = |of: &Estimate| of.repeats >= REPEATS_MIN && of.low > UNEQUAL;
    let ratio = cell.estimate(IMBALANCE).filter(is_known)?;
    let number = Number::new(&ratio, "1");
    let sentence = format!(
        "The busiest core of {} has {number} the mean work if {} are divided over {} ({}){}.",
        cell.device,
        rules_words(cell),
        cores_words(cell),
        engine_words(cell),
        words::few(&ratio),
    );
    let implication = follows(
        &ratio,
        "The busiest core limits all: groups of rules have unequal traffic, or work that the model \
         of cost does not know.",
    );
    let figure = Some(figure_id(results, "gain"));
    Some(told(cell.device, id(cell, "imbalance"), number, (sentence, &implication), figure))
}
