//! Scales and ticks of the two axes.
//!
//! Ticks of logarithmic axes are set here, so that they are few, round, and the same in every
//! renderer; linear ones are left to Vega.

use niclab_result::{Axis, Scale};
use serde_json::{Value, json};

/// Width of a plot on a phone. Angles are fixed by it, as a plot's layout does not follow them.
const PHONE_PX: usize = 310;
/// Width of a letter of a label, with a little room.
const LETTER_PX: usize = 7;
/// Below this many decades a logarithmic axis also shows the steps 2 and 5.
const DECADES_SPARSE: f64 = 2.5;
/// Large numbers as 1k, 1M; small ones plain.
const LABEL: &str =
    "abs(datum.value) >= 1e3 ? format(datum.value, '~s') : format(datum.value, '~g')";

/// The two directions, which differ in their margins and titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Horizontal.
    X,
    /// Vertical.
    Y,
}

/// The words of an ordinal axis in the order of first appearance.
pub(crate) fn words<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for word in all {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

/// What stands beside an axis.
pub(crate) fn title(axis: &Axis) -> String {
    match (axis.label.as_str(), axis.unit.as_str()) {
        (label, "" | "1") => label.to_owned(),
        ("", unit) => unit.to_owned(),
        (label, unit) => format!("{label}, {unit}"),
    }
}

/// The encoding of a number axis, given every value that is drawn on it.
pub(crate) fn numbers(axis: &Axis, direction: Direction, values: &[f64]) -> Value {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest =
        values.iter().map(|v| v.abs()).filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    // A logarithm has no place for zero; an axis that takes it in keeps the point in sight.
    let asked = match axis.scale {
        Scale::Log if low <= 0.0 => Scale::Symlog,
        other => other,
    };
    let (mut scale, ticks) = match asked {
        Scale::Log => (json!({"type": "log"}), ratio_ticks(low, high)),
        Scale::Symlog => {
            let constant = if smallest.is_finite() { decade(smallest) } else { 1.0 };
            (json!({"type": "symlog", "constant": constant}), symlog_ticks(constant, low, high))
        }
        Scale::Linear | Scale::Ordinal => (json!({"type": "linear"}), Vec::new()),
    };
    match direction {
        Direction::X => {
            if asked != Scale::Log {
                scale["zero"] = json!(false);
            }
            scale["nice"] = json!(false);
            scale["padding"] = json!(14);
        }
        Direction::Y if asked == Scale::Linear => scale["zero"] = json!(low >= 0.0),
        Direction::Y => {
            scale["nice"] = json!(false);
            scale["padding"] = json!(10);
        }
    }
    let mut look = look(axis, direction);
    look["labelExpr"] = json!(LABEL);
    match ticks.is_empty() {
        true => {
            look["tickCount"] = json!(6);
            // There is no half of a core, nor of a table.
            let counts = axis.unit.is_empty() && values.iter().all(|value| value.fract() == 0.0);
            if direction == Direction::X && counts {
                look["tickMinStep"] = json!(1);
            }
        }
        false => look["values"] = json!(ticks),
    }
    json!({"type": "quantitative", "scale": scale, "axis": look})
}

/// The encoding of an axis of words.
pub(crate) fn ordinal(axis: &Axis, direction: Direction, words: &[&str]) -> Value {
    let longest = |letters: &dyn Fn(&str) -> usize| words.iter().map(|word| letters(word)).max();
    let whole = longest(&|word| word.chars().count()).unwrap_or(0);
    let part = longest(&|word| word.split(' ').map(str::len).max().unwrap_or(0)).unwrap_or(0);
    let mut look = look(axis, direction);
    look["labelOverlap"] = json!(false);
    look["labelLimit"] = json!(150);
    let needed = |letters: usize| (letters + 1) * LETTER_PX * words.len();
    if needed(part) > PHONE_PX {
        look["labelAngle"] = json!(-35);
    } else {
        // Level; one word to a line where the window is too narrow for whole labels.
        let whole = needed(whole);
        let fold = format!("width < {whole} ? split(datum.label, ' ') : datum.label");
        look["labelAngle"] = json!(0);
        look["labelExpr"] = json!(fold);
    }
    json!({"type": "ordinal", "scale": {"domain": words}, "axis": look})
}

/// Title and its place: above the axis where vertical, so that it is read level.
fn look(axis: &Axis, direction: Direction) -> Value {
    match direction {
        Direction::X => json!({"title": title(axis)}),
        Direction::Y => json!({
            "title": title(axis), "titleAngle": 0, "titleAlign": "left", "titleAnchor": "end",
            "titleBaseline": "bottom", "titleX": -34, "titleY": -12,
        }),
    }
}

/// The power of ten at or below a positive number.
fn decade(value: f64) -> f64 {
    10_f64.powi(value.log10().floor() as i32)
}

/// Round ticks of a logarithmic axis that covers `low` to `high`, both above zero.
fn ratio_ticks(low: f64, high: f64) -> Vec<f64> {
    if !(low > 0.0 && high.is_finite()) {
        return Vec::new();
    }
    // All ticks around a single value would stand in its place.
    if low == high {
        return vec![low];
    }
    let steps: &[f64] =
        if (high / low).log10() < DECADES_SPARSE { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|power| steps.iter().map(move |step| round(*step, power)))
        .filter(|tick| *tick >= low * 0.5 && *tick <= high * 2.0)
        .collect()
}

/// `step` times ten to the `power`, without the noise of a product of fractions.
fn round(step: f64, power: i32) -> f64 {
    if power < 0 { step / 10_f64.powi(-power) } else { step * 10_f64.powi(power) }
}

/// Zero and the powers of ten on both sides of it.
fn symlog_ticks(constant: f64, low: f64, high: f64) -> Vec<f64> {
    let side = |end: f64| {
        if end > 0.0 { ratio_ticks(constant, end) } else { Vec::new() }
    };
    let mut ticks: Vec<f64> = side(-low).into_iter().rev().map(|tick| -tick).collect();
    ticks.push(0.0);
    ticks.extend(side(high));
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_has_no_ticks_between_whole_numbers() {
        let axis = |unit: &str| {
            let (label, unit) = ("tables".to_owned(), unit.to_owned());
            Axis { label, unit, scale: Scale::Linear }
        };
        let step = |unit, direction, values: &[f64]| {
            numbers(&axis(unit), direction, values)["axis"]["tickMinStep"].clone()
        };
        assert_eq!(step("", Direction::X, &[1.0, 4.0]), 1);
        assert_eq!(step("", Direction::X, &[1.0, 2.5]), Value::Null);
        assert_eq!(step("ms", Direction::X, &[1.0, 4.0]), Value::Null);
        assert_eq!(step("", Direction::Y, &[1.0, 4.0]), Value::Null, "ratios, shares");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ratio_ticks(0.021, 98.9), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(ratio_ticks(3.0, 40.0), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(ratio_ticks(16e3, 16e3), [16e3]);
        assert_eq!(symlog_ticks(1.0, 0.0, 500.0), [0.0, 1.0, 10.0, 100.0, 1000.0]);
        assert!(ratio_ticks(0.0, 10.0).is_empty());
    }

    #[test]
    fn a_logarithm_with_zero_becomes_symlog() {
        let axis = Axis { label: "rules".into(), unit: String::new(), scale: Scale::Log };
        let encoding = numbers(&axis, Direction::X, &[0.0, 10.0, 1e6]);
        assert_eq!(encoding["scale"]["type"], "symlog");
        assert_eq!(encoding["scale"]["constant"], 10.0);
    }

    #[test]
    fn an_axis_without_values_has_a_scale() {
        let axis = Axis { label: "t".into(), unit: "s".into(), scale: Scale::Log };
        assert_eq!(numbers(&axis, Direction::Y, &[])["scale"]["type"], "log");
    }
}
