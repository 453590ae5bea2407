//! Compares modelled cards with published figures: `docs/validation.md`.
//!
//! Every figure of the study is measured of each card by the same experiments that anybody runs on
//! a real one. Points to which the card's profile was fitted are `input`, those that the model
//! could not have otherwise `implied`, all others `predicted`.

pub mod echoes;
pub mod figures;
pub mod findings;
mod virtual_run;

use std::fmt::Write as _;

use niclab_device::model::{self, Model, UnreadProfile};
use niclab_result::ResultError;

use crate::fit::published::is_input;
use crate::published::PublishedCard;
use crate::spec::SpecError;
use crate::statistics;
use figures::{OUTAGE_RESOLUTION_S, Pair};
#[cfg(test)]
pub(crate) use virtual_run::MemoryStore;
#[cfg(test)]
pub(crate) use virtual_run::measure_beside;
pub use virtual_run::{MeasuredModel, measure};

/// The published cards and the profiles of their models.
pub const CARDS: [(PublishedCard, &str); 4] = [
    (PublishedCard::Cx4, "connectx-4"),
    (PublishedCard::Cx5, "connectx-5"),
    (PublishedCard::Cx6, "connectx-6"),
    (PublishedCard::Bf1, "bluefield"),
];

/// All figures, and what is drawn in each.
const FIGURES: [(&str, &str); 17] = [
    ("2a", "throughput, rules in group 0"),
    ("2b", "throughput, rules in 1 to 16 groups"),
    ("2c", "median latency, rules in group 0"),
    ("2d", "median latency, rules in 1 and 16 groups"),
    ("3a", "time without a frame, batch into group 0, same core"),
    ("3b", "time without a frame, batch into group 1, same core"),
    ("3c", "time without a frame, batch into group 0, distinct core"),
    ("3d", "time without a frame, batch into group 1, distinct core"),
    ("4a", "throughput, rules/s into group 0"),
    ("4b", "throughput, rules/s into group 1"),
    ("4c", "mean latency, rules/s into group 0"),
    ("4d", "mean latency, rules/s into group 1"),
    ("5a", "rules/s into group 0"),
    ("5b", "rules/s into group 1"),
    ("5c", "rules/s into group 1, VLAN and tunnels"),
    ("5d", "rules/s into group 1, actions"),
    ("6", "updates/s in group 1"),
];

const HEAD: &str = "\
# Modelled cards against what was published

`niclab profile validate` prints this page. It measures each modelled card by the experiments of
this book, on the grids of the published figures (PAM 2021, `reference/pam21`).

- A point is `input` if the card's profile was fitted to it.
- It is `implied` if the model cannot give anything else: in the model, a core of its own never
  touches packets.
- Otherwise it is `predicted`. Only predicted points show whether the mechanism is right, so errors
  are theirs alone.

The error of a point is the difference from the published median, divided by that median. Figure 3
has samples of 0.1 s. There the error is that of the time without a frame (below 5 Gbps), divided
by that time, or by 0.1 s if the time is shorter.

These are not compared: 100,000 rules into group 0, which takes 65,536 (the study does not say how
it went on); p1 to p99 of the published runs, which a model does not have; and frames lost in a
batch and the rate of destroying rules, for which there are no published numbers. Above 59,000
rules the published throughput and latency of BlueField contradict each other
(`reference/pam21/README.md`), so the model must miss one of them.

";

/// The evidence of a model's point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// The profile was fitted to it.
    Input,
    /// It could not be otherwise: nothing in the model lets a core of its own touch packets.
    Implied,
    /// It tells whether the mechanism is right.
    Predicted,
}

impl Basis {
    /// Of a point.
    pub fn of(card: PublishedCard, pair: &Pair) -> Basis {
        let is_distinct = ["3c", "3d"].contains(&pair.figure) || pair.series == "Distinct Cores";
        match is_distinct {
            _ if is_input(card, pair.figure, &pair.series, pair.x) => Basis::Input,
            true => Basis::Implied,
            false => Basis::Predicted,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Basis::Input => "input",
            Basis::Implied => "implied",
            Basis::Predicted => "predicted",
        }
    }
}

/// A card's figures, measured.
pub struct Validated {
    /// Which card.
    pub card: PublishedCard,
    /// Its profile.
    pub profile: &'static str,
    /// Its points.
    pub pairs: Vec<Pair>,
}

/// Why a modelled card could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ValidationError {
    /// An experiment cannot be used so.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A profile cannot be had.
    #[error(transparent)]
    Profile(#[from] UnreadProfile),
    /// A sample cannot be kept.
    #[error(transparent)]
    Sample(#[from] ResultError),
}

/// Measures all cards.
///
/// # Errors
/// What is wrong with the profiles or the experiments.
pub fn validate() -> Result<Vec<Validated>, ValidationError> {
    let one = |(card, profile): (PublishedCard, &'static str)| {
        let mut model = Model::new(&format!("model:{profile}"), model::read(profile)?, 1);
        Ok(Validated { card, profile, pairs: figures::pairs(card, &mut model)? })
    };
    CARDS.into_iter().map(one).collect()
}

/// Error of a model's point, as a share of what was published.
pub fn error(pair: &Pair) -> f64 {
    let least = if pair.figure.starts_with('3') { OUTAGE_RESOLUTION_S } else { f64::MIN_POSITIVE };
    (pair.model - pair.published).abs() / pair.published.abs().max(least)
}

/// The page, as it stands in the book: of cards with rules, and of round trips.
pub fn page(all: &[Validated], echoes: &[echoes::RoundTrip]) -> String {
    let mut text = HEAD.to_owned();
    for one in all {
        let _ = writeln!(text, "## {}\n", one.profile);
        tell_figures(&mut text, one);
        tell_findings(&mut text, one);
    }
    text.push_str(&echoes::page(echoes));
    text
}

fn tell_figures(text: &mut String, one: &Validated) {
    text.push_str("| figure | what | input | implied | predicted | median error | worst |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    let mut all = Vec::new();
    for (figure, what) in FIGURES {
        let of_figure = || one.pairs.iter().filter(|pair| pair.figure == figure);
        let of = |basis| of_figure().filter(move |pair| Basis::of(one.card, pair) == basis);
        if of_figure().next().is_none() {
            continue;
        }
        let errors: Vec<f64> = of(Basis::Predicted).map(error).collect();
        let worst = of(Basis::Predicted).max_by(|a, b| error(a).total_cmp(&error(b)));
        let worst = worst.map_or("-".to_owned(), |pair| {
            format!("{} ({} at {})", percent(error(pair)), pair.series, short(pair.x))
        });
        let median = statistics::median(&errors).map_or("-".to_owned(), percent);
        let counts =
            [Basis::Input, Basis::Implied, Basis::Predicted].map(|basis| of(basis).count());
        let counts = counts.map(|count| count.to_string()).join(" | ");
        let _ = writeln!(text, "| {figure} | {what} | {counts} | {median} | {worst} |");
        all.extend(errors);
    }
    let median = statistics::median(&all).map_or("-".to_owned(), percent);
    let _ = writeln!(text, "\nMedian error of all {} predicted points: {median}.\n", all.len());
}

fn tell_findings(text: &mut String, one: &Validated) {
    text.push_str("| finding | published | model | |\n|---|---|---|---|\n");
    for reported in findings::told(one.card, &one.pairs) {
        let basis = reported.basis.word();
        let [published, model] = [reported.published, reported.model].map(|number| {
            let gap = if reported.unit == "%" || reported.unit == "x" { "" } else { " " };
            format!("{}{gap}{}", digits(number), reported.unit)
        });
        let _ = writeln!(text, "| {} | {published} | {model} | {basis} |", reported.sentence);
    }
    text.push('\n');
}

/// Three digits.
fn digits(number: f64) -> String {
    match number.abs() {
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number if number >= 0.01 => format!("{number:.2}"),
        0.0 => "0".to_owned(),
        number => format!("{number:.4}"),
    }
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// A number of rules in as few digits as it has.
fn short(number: f64) -> String {
    match number {
        number if number >= 1e6 && number % 1e6 == 0.0 => format!("{} M", number / 1e6),
        number if number >= 1e3 && number % 1e3 == 0.0 => format!("{} k", number / 1e3),
        number => number.to_string(),
    }
}
