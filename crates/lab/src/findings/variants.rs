//! The findings of a run with variants: which one is faster, and by how much.
//!
//! A sentence appears only where the interval of the ratio excludes 1, or lies within a few percent
//! of it: the variants are then the same.

use niclab_result::Finding;

use super::number::{FAST, HIGH, comparison};
use super::told;
use crate::compare::{Better, Verdict};
use crate::statistics::Estimate;
use crate::summary::variants::{FIGURE, SECTION, TOLERANCE, VariantRatio, gain};

/// All findings, in the order of the comparisons. Of two variants without a difference only the
/// first metric by which they are the same.
pub(crate) fn findings(ratios: &[VariantRatio]) -> Vec<Finding> {
    let is_one_device = ratios.windows(2).all(|two| two[0].device == two[1].device);
    let differs = |of: &VariantRatio| matches!(of.verdict, Verdict::Better | Verdict::Worse);
    let is_shown = |(at, of): &(usize, &VariantRatio)| {
        let is_alike = |known: &VariantRatio| {
            (&known.device, &known.base, &known.other) == (&of.device, &of.base, &of.other)
        };
        let is_first = |known: &VariantRatio| is_alike(known) && known.verdict == Verdict::Same;
        of.verdict != Verdict::Same
            || !ratios.iter().any(|known| is_alike(known) && differs(known))
                && ratios.iter().position(is_first) == Some(*at)
    };
    let shown = ratios.iter().enumerate().filter(is_shown);
    shown.filter_map(|(_, of)| finding(of, is_one_device)).collect()
}

fn finding(of: &VariantRatio, is_one_device: bool) -> Option<Finding> {
    let implication = match of.verdict {
        Verdict::Better => format!("By this metric {} is the better setting.", of.other),
        Verdict::Worse => format!("By this metric {} is the better setting.", of.base),
        Verdict::Same => {
            format!("They differ by at most {} %, which is little.", TOLERANCE * 100.0)
        }
        Verdict::Undecided(_) => return None,
    };
    let VariantRatio { base, other, metric, experiment, trial, .. } = of;
    let (number, words) = match speed(of) {
        Some(speed) => {
            let (number, is_faster) = comparison(&speed, FAST);
            (number, format!("{other} is {is_faster} {base} by {metric}"))
        }
        None => {
            let (number, is_higher) = comparison(&of.ratio, HIGH);
            (number, format!("{metric} of {other} is {is_higher} that of {base}"))
        }
    };
    let on = if is_one_device { String::new() } else { format!(" on {}", of.device) };
    let pairs = of.ratio.repeats;
    let sentence = format!("{words}{on} ({experiment}, {trial}; {pairs} pairs).");
    let id = format!("variants-{other}-{base}-{experiment}-{trial}-{metric}");
    let words = (sentence, implication.as_str());
    let found = told(&of.device, id, number, words, Some(FIGURE.into()));
    Some(Finding { experiment: SECTION.into(), ..found })
}

/// How many times as fast: of rates the ratio, of times its inverse; nothing for other metrics.
fn speed(of: &VariantRatio) -> Option<Estimate> {
    let is_rate = of.unit == "pps" || of.unit.ends_with("/s");
    let is_time = of.unit == "ns" && of.ratio.low > 0.0;
    let is_speed = match of.better {
        Better::Higher => is_rate,
        Better::Lower => is_time,
    };
    is_speed.then(|| gain(of.better, of.ratio))
}
