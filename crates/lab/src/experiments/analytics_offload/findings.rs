//! The findings of the experiment `analytics-offload`.

use niclab_result::Finding;

use super::analysis::{
    compared, figure_id, millions, of_plain, with_most_workers, words_at, workload_words,
};
use super::metrics::{CARD, CORE_RATE, TUPLE, WHOLE};
use super::trials::PLAIN;
use crate::cells::{Cell, paired};
use crate::findings::number::{FAST, Number, comparison};
use crate::findings::{NO_COST, RatioVerdict, follows, told, verdict};
use crate::summary::Results;
use crate::words;

/// Device by device: what the card's help brings to each worker, and what the card works for it.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let all = with_most_workers(results, device);
        let pairs = all.into_iter().filter_map(|cell| compared(results, cell));
        for (cell, plain) in pairs.clone() {
            findings.extend(gain(results, cell, plain));
        }
        findings.extend(pairs.filter_map(|(cell, plain)| price(results, cell, plain)));
    }
    findings
}

fn id(cell: &Cell<'_>, what: &str) -> String {
    let [mode, keys, zipf] = ["mode", "keys", "zipf"].map(|axis| cell.word(axis));
    let [payload, batch] = ["payload", "batch"].map(|axis| cell.word(axis));
    format!("{mode}-{keys}-{zipf}-{payload}-{batch}-{what}")
}

/// Tuples a second of a worker's core with help, by those without.
fn gain(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let ratio = of_plain(results, cell, CORE_RATE)?;
    let verdict = verdict(&ratio)?;
    let [with, without] = [cell, plain].map(|cell| cell.estimate(CORE_RATE));
    let (number, words) = comparison(&ratio, FAST);
    let sentence = format!(
        "With {} a worker's core of {} is {words} with {PLAIN}: {} tuples/s instead of {} ({}, \
         {}){}.",
        cell.word("mode"),
        cell.device,
        millions(with?.median),
        millions(without?.median),
        words_at(cell, "workers"),
        workload_words(cell),
        words::few(&ratio),
    );
    let implication = match verdict {
        RatioVerdict::NoCost => "This help changes the speed of a worker by less than 10 %.",
        RatioVerdict::Differs if ratio.median > 1.0 => {
            "Let the card do it if workers limit the application."
        }
        RatioVerdict::Differs => "This help costs the workers more than it saves.",
    };
    let implication = follows(&ratio, implication);
    let figure = Some(figure_id(results, "gain"));
    Some(told(cell.device, id(cell, "gain"), number, (sentence, &implication), figure))
}

/// The card's work with help, by the time that the workers' cores save.
fn price(results: &Results<'_>, cell: &Cell<'_>, plain: &Cell<'_>) -> Option<Finding> {
    let more = paired(cell, plain, CARD)?;
    if verdict(&more)? != RatioVerdict::Differs || more.median < 1.0 {
        return None;
    }
    let [with, without] = [cell, plain].map(|cell| cell.estimate(CARD));
    let (with, without) = (with?.median, without?.median);
    if with - without < NO_COST * plain.estimate(TUPLE)?.median {
        return None;
    }
    let whole = of_plain(results, cell, WHOLE)?;
    let number = Number::new(&more, "1");
    let sentence = format!(
        "With {} the card of {} works {number} as long on a tuple as with {PLAIN} if software does \
         its work: {} instead of {} ({}, {}){}.",
        cell.word("mode"),
        cell.device,
        words::time(with),
        words::time(without),
        words_at(cell, "workers"),
        workload_words(cell),
        words::few(&more),
    );
    let implication = match verdict(&whole) {
        Some(RatioVerdict::Differs) if whole.median > 1.0 => {
            "A software card takes more of its own cores than it saves: the help pays off on a \
             card with processors of its own."
        }
        Some(RatioVerdict::Differs) => "Even a software card saves more than it takes.",
        _ => "",
    };
    let implication = follows(&more, implication);
    let figure = Some(figure_id(results, "steps"));
    Some(told(cell.device, id(cell, "price"), number, (sentence, &implication), figure))
}
