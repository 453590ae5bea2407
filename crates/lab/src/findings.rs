//! Sentences that the data support, each with its number, its interval and what follows from it.
//!
//! A finding that the data do not support does not appear. Its verdict follows from the interval:
//! a difference whose interval holds "no difference" is no finding ([`verdict`],
//! [`Estimate::excludes`]). A vague finding does not tell how much ([`VAGUE`]); the report folds
//! it.
//!
//! A figure that shows the generator's limit is never called the device's. The sentence says "at
//! least" and gives the lower end of the interval ([`Estimate::at_least`]), and no ratio is taken
//! from it, for it could come out too good. There the time that the device's core was busy tells
//! what a frame costs, where the device tells it.

pub(crate) mod number;
pub(crate) mod placements;
pub(crate) mod variants;

use niclab_result::Finding;

use self::number::Number;
use crate::cells::Cell;
pub(crate) use crate::statistics::REPEATS_MIN;
use crate::statistics::{self, Ends, Estimate};

/// A sentence about a device, with its number.
///
/// # Panics
///
/// In debug builds, if the sentence has an estimate in another unit than its interval will have.
pub(crate) fn told(
    device: &str,
    id: String,
    number: Number,
    (sentence, implication): (String, &str),
    figure: Option<String>,
) -> Finding {
    debug_assert!(
        !number.is_estimate || sentence.contains(&number.to_string()),
        "{id}: `{number}` is not in: {sentence}"
    );
    Finding {
        id: format!("{device}-{id}"),
        sentence,
        value: number.value,
        interval: number.interval,
        implication: implication.into(),
        figure,
        device: device.to_owned(),
        experiment: String::new(),
    }
}

/// The implication of a vague finding ([`Finding::is_vague`]).
pub(crate) const VAGUE: &str = "The repeats do not tell how much: the ends of the interval are \
                                more than a factor of 10 apart. Use more repeats or a calmer \
                                machine.";

/// A ratio whose interval lies within this distance of 1 shows that there is no cost worth naming.
pub(crate) const NO_COST: f64 = 0.1;

/// What follows from an estimate; nothing where it has no interval: a few repeats may all lie on
/// one side by chance.
pub(crate) fn follows(estimate: &Estimate, implication: &str) -> String {
    match estimate.ends {
        Ends::Interval => implication.to_owned(),
        Ends::Range => {
            let fewest = statistics::INTERVAL_REPEATS_MIN;
            format!("A conclusion needs at least {fewest} repeats: fewer give no interval.")
        }
    }
}

/// What a ratio shows, as far as it shows anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RatioVerdict {
    /// The interval lies close around 1.
    NoCost,
    /// The interval does not hold 1.
    Differs,
}

/// The verdict on a ratio; `None` where the interval allows both a difference and none.
pub(crate) fn verdict(ratio: &Estimate) -> Option<RatioVerdict> {
    if ratio.repeats < REPEATS_MIN {
        return None;
    }
    if ratio.low > 1.0 - NO_COST && ratio.high < 1.0 + NO_COST {
        return Some(RatioVerdict::NoCost);
    }
    ratio.excludes(1.0).then_some(RatioVerdict::Differs)
}

/// What follows from the time that a transaction takes, by that of single calls.
pub(crate) fn of_transaction(ratio: &Estimate) -> Option<&'static str> {
    Some(match (verdict(ratio)?, ratio.median > 1.0) {
        (RatioVerdict::NoCost, _) => "An atomic change costs almost nothing.",
        (RatioVerdict::Differs, true) => {
            "This is the cost of an atomic change: no packet matches half of it."
        }
        (RatioVerdict::Differs, false) => "An atomic change costs nothing.",
    })
}

/// `the forwarding core`, or `another core`.
pub(crate) fn core_words(cell: &Cell<'_>) -> &'static str {
    match cell.word("core").as_str() {
        "same" => "the forwarding core",
        _ => "another core",
    }
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
