//! The findings of the experiment `analytics-offload`.

use std::cmp::Reverse;

use niclab_result::Finding;

use super::analysis::{
    compared, figure_id, millions, mode_place, of_plain, with_most_workers, with_steps, words_at,
    workload_words,
};
use super::metrics::{ALL_RATE, CARD, CORE_RATE, TUPLE, WHOLE};
use super::trials::PLAIN;
use crate::cells::{Cell, paired};
use crate::findings::number::{FAST, Number, comparison};
use crate::findings::{NO_COST, RatioVerdict, follows, told, verdict};
use crate::statistics::Estimate;
use crate::summary::Results;
use crate::words;

/// Device by device: what each mode brings to the workers, and what the card works for it.
pub(crate) fn findings(results: &Results<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for device in results.devices() {
        let mut all = with_most_workers(results, device);
        // The first finding is the headline: the card does most with the last mode.
        all.sort_by_key(|cell| Reverse(mode_place(cell)));
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

/// Tuples a second of a worker's core in a mode, by those with `rss`.
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
    let implication = implication(&cell.word("mode"), verdict, &ratio);
    let whole = of_plain(results, cell, ALL_RATE)?;
    let implication = match ratio.median > 1.0 && verdict == RatioVerdict::Differs {
        true if !is_faster(&whole) => UNEQUAL.to_owned(),
        _ => implication,
    };
    let implication = follows(&ratio, &implication);
    let figure = Some(figure_id(results, "gain"));
    Some(told(cell.device, id(cell, "gain"), number, (sentence, &implication), figure))
}

/// The advice if the cores are faster on average, and all workers together are not.
const UNEQUAL: &str =
    "The busiest core limits all workers together: they are not shown to be faster.";

/// Whether a ratio of rates is above 1 for sure.
fn is_faster(ratio: &Estimate) -> bool {
    verdict(ratio) == Some(RatioVerdict::Differs) && ratio.median > 1.0
}

/// The advice for a mode, by the rate of a worker's core.
fn implication(mode: &str, verdict: RatioVerdict, ratio: &Estimate) -> String {
    match verdict {
        RatioVerdict::NoCost => format!("{mode} changes the speed of a worker by less than 10 %."),
        RatioVerdict::Differs if ratio.median < 1.0 => format!("{mode} slows the workers down."),
        RatioVerdict::Differs if mode == "steer" => {
            "Steer by key if workers limit the application.".to_owned()
        }
        RatioVerdict::Differs => {
            "Let the card receive if workers limit the application.".to_owned()
        }
    }
}

/// The card's work in a mode, by the time that the workers' cores save.
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
        "In software the card's work on a tuple takes {number} as long with {} as with {PLAIN}: {} \
         instead of {} ({}, {}, {}){}.",
        cell.word("mode"),
        words::time(with),
        words::time(without),
        cell.device,
        words_at(cell, "workers"),
        workload_words(cell),
        words::few(&more),
    );
    let implication = match verdict(&whole) {
        Some(RatioVerdict::Differs) if whole.median > 1.0 => {
            "A software card takes more of its own cores than it saves: this mode pays off on a \
             card with processors of its own."
        }
        Some(RatioVerdict::Differs) => "Even a software card saves more than it takes.",
        _ => "",
    };
    let implication = follows(&more, implication);
    let is_drawn = with_steps(results, cell.device).iter().any(|drawn| drawn.point == cell.point);
    let figure = is_drawn.then(|| figure_id(results, "steps"));
    Some(told(cell.device, id(cell, "price"), number, (sentence, &implication), figure))
}
