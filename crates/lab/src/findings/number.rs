//! The number of a finding: in its sentence and beside it in the same unit.

use std::fmt;

use niclab_result::{Quantity, VAGUE_FACTOR};

use crate::statistics::Estimate;

/// A number and its interval.
pub(crate) struct Number {
    pub value: Quantity,
    /// Ends of the 95 % confidence interval; `None` without one, and if it has no width.
    pub interval: Option<(f64, f64)>,
    /// An estimate stands in the sentence as it is displayed.
    pub is_estimate: bool,
}

impl Number {
    /// An estimate in a unit of [`Quantity`].
    pub fn new(estimate: &Estimate, unit: impl Into<String>) -> Number {
        let interval = estimate.interval().filter(|(low, high)| low < high);
        let value = Quantity { value: estimate.median, unit: unit.into() };
        Number { value, interval, is_estimate: true }
    }

    /// A share of one, in percent.
    pub fn percent(share: &Estimate) -> Number {
        Number::new(&share.scaled(100.0), "%")
    }

    /// A number that is exact, or whose bounds are no interval of confidence.
    pub fn known(value: f64, unit: &str) -> Number {
        let value = Quantity { value, unit: unit.into() };
        Number { value, interval: None, is_estimate: false }
    }

    /// `1.97 us (1.92 to 2.09 us)`: for a second number in a sentence.
    pub fn with_interval(&self) -> String {
        let number = self.to_string();
        let interval = self.interval.map(|interval| self.value.interval_words(interval));
        match interval.filter(|interval| *interval != number) {
            Some(interval) => format!("{number} ({interval})"),
            None => number,
        }
    }
}

/// `1.97 us`
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = self.value.words(self.interval);
        write!(f, "{number} {unit}")
    }
}

/// `1.97 us (1.92 to 2.09 us)`: an estimate that is not the number of its finding.
pub(crate) fn estimated(estimate: &Estimate, unit: &str) -> String {
    Number::new(estimate, unit).with_interval()
}

/// A ratio from here on is a number of times, below it a change in percent.
const TIMES_MIN: f64 = 2.0;

/// The words for as much, for more, and for less.
pub(crate) type Comparative = [&'static str; 3];

pub(crate) const FAST: Comparative = ["as fast as", "faster than", "slower than"];
pub(crate) const HIGH: Comparative = ["as high as", "higher than", "lower than"];
pub(crate) const LONG: Comparative = ["as long as", "longer than", "less time than"];
pub(crate) const MUCH: Comparative = ["as much as", "more than", "less than"];

/// A ratio in words: `2.10 times as long as`, `38 % longer than`, `12 % less time than`;
/// `1.02 times as long as` if its interval holds 1, or spans more than [`VAGUE_FACTOR`].
pub(crate) fn comparison(ratio: &Estimate, words: Comparative) -> (Number, String) {
    let [as_much, more, less] = words;
    let in_percent = |[median, low, high]: [f64; 3], words: &str| {
        let change = Estimate { median, low, high, ..*ratio }.scaled(100.0);
        let adjective = words.split(' ').next().unwrap_or_default();
        let number = Number::new(&change, format!("% {adjective}"));
        let (value, _) = number.value.words(number.interval);
        (number, format!("{value} % {words}"))
    };
    let Estimate { median, low, high, .. } = *ratio;
    if median >= TIMES_MIN || !ratio.excludes(1.0) || high > VAGUE_FACTOR * low {
        let number = Number::new(ratio, "1");
        let words = format!("{number} {as_much}");
        (number, words)
    } else if median > 1.0 {
        in_percent([median - 1.0, low - 1.0, high - 1.0], more)
    } else {
        in_percent([1.0 - median, 1.0 - high, 1.0 - low], less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Ends;

    fn estimate(median: f64, low: f64, high: f64) -> Estimate {
        Estimate { median, low, high, repeats: 6, ends: Ends::Interval }
    }

    /// The words of a comparison, and the interval beside them.
    fn words(median: f64, low: f64, high: f64) -> (String, String) {
        let (number, words) = comparison(&estimate(median, low, high), LONG);
        assert!(words.contains(&number.to_string()), "{words}: {number}");
        (words, number.value.interval_words(number.interval.unwrap()))
    }

    #[test]
    fn the_interval_of_a_comparison_has_the_unit_and_the_direction_of_its_words() {
        let pair = |words: &str, interval: &str| (words.to_owned(), interval.to_owned());
        assert_eq!(words(2.1, 1.9, 2.4), pair("2.1 times as long as", "1.9 to 2.4 times"));
        assert_eq!(words(1.38, 1.2, 1.5), pair("38 % longer than", "20 to 50 % longer"));
        assert_eq!(words(0.494, 0.466, 0.567), pair("51 % less time than", "43 to 53 % less"));
        assert_eq!(words(1.62, 1.08, 69.2), pair("1.6 times as long as", "1.1 to 69.2 times"));
        assert_eq!(words(1.02, 0.97, 1.05), pair("1.02 times as long as", "0.97 to 1.05 times"));
    }

    #[test]
    fn a_second_number_has_its_interval_behind_it() {
        assert_eq!(
            estimated(&estimate(1_967.0, 917.0, 2_087.0), "ns"),
            "1.97 us (0.917 to 2.09 us)"
        );
        assert_eq!(estimated(&estimate(8.0, 8.0, 8.0), "ns"), "8.00 ns", "it has no width");
    }
}
