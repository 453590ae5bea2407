//! Ranges of the numbers that stand in an experiment's file.

use super::{Grid, KneeSpec, Spec, SpecError};
use crate::place::RULES_MAX;

/// Most repeats, and most pairs behind a decision.
const REPEATS_MAX: u32 = 1_000;

/// Longest measured part of a trial, milliseconds: what a stamp in a frame can say is far more,
/// what anybody waits for is less.
pub(crate) const DURATION_MS_MAX: u64 = 600_000;

pub(crate) fn in_range(
    axis: &'static str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<(), SpecError> {
    if range.contains(&value) {
        return Ok(());
    }
    let remedy = format!("use {} to {} milliseconds", range.start(), range.end());
    Err(SpecError::OutOfRange { axis, value: value.to_string(), remedy })
}

/// A number that cannot be: field, what is there, what would be right.
pub(crate) type InvalidValue = (String, String, String);

impl Spec {
    /// Refuses the first number of the file `origin` that cannot be.
    pub(super) fn check(&self, origin: &str) -> Result<(), SpecError> {
        let always =
            [("reduced", &self.reduced), ("full", &self.full), ("published", &self.published)];
        let mut grids = self.short.iter().map(|short| ("short", short)).chain(always);
        let found = self.shares().and_then(|()| grids.try_for_each(in_grid));
        found.map_err(|(field, value, remedy)| SpecError::Field {
            origin: origin.to_owned(),
            field,
            value,
            remedy,
        })
    }

    fn shares(&self) -> Result<(), InvalidValue> {
        let shares = [
            ("latency_share", self.latency_share),
            ("light_share", self.light_share),
            ("effect_share", self.effect_share),
            ("batch_share", self.batch_share),
        ];
        shares.iter().try_for_each(|(field, value)| share(field, *value))
    }
}

/// Above 0, at most 1.
fn share(field: &str, value: f64) -> Result<(), InvalidValue> {
    match value > 0.0 && value <= 1.0 {
        true => Ok(()),
        false => Err((field.into(), value.to_string(), "use more than 0, and at most 1".into())),
    }
}

pub(crate) fn whole(field: String, value: u64, least: u64, most: u64) -> Result<(), InvalidValue> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err((field, value.to_string(), format!("use {least} to {most}"))),
    }
}

fn in_grid((name, grid): (&str, &Grid)) -> Result<(), InvalidValue> {
    let whole = |field: &str, value: u32, least: u32, most: u32| {
        whole(format!("{name}.{field}"), value.into(), least.into(), most.into())
    };
    whole("repeats", grid.repeats, 1, REPEATS_MAX)?;
    whole("repeats_min", grid.repeats_min, 1, grid.repeats)?;
    if grid.budget_s == Some(0) {
        return Err((format!("{name}.budget_s"), "0".into(), "use 1 or more seconds".into()));
    }
    grid.sweeps.check(name)
}

pub(crate) fn in_knee(grid: &str, knee: &KneeSpec) -> Result<(), InvalidValue> {
    let field = |field: &str| format!("{grid}.knee.{field}");
    share(&field("share"), knee.share)?;
    if !(0.0..1.0).contains(&knee.width) {
        let remedy = "use 0 or more, and less than 1".to_owned();
        return Err((field("width"), knee.width.to_string(), remedy));
    }
    whole(field("rules_max"), knee.rules_max.into(), 1, RULES_MAX.into())?;
    whole(field("rules_min"), knee.rules_min.into(), 0, knee.rules_max.into())?;
    whole(field("match_percent"), knee.match_percent.into(), 0, 100)?;
    whole(field("pairs"), knee.pairs.into(), 1, REPEATS_MAX.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_cannot_be_is_refused_with_its_field_and_its_range() {
        let text = |path: &str| {
            let path = format!("{}/../../experiments/{path}.toml", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        };
        let refused = |name: &str, (from, to): (&str, &str), words: &str| {
            let text = text(name);
            assert!(text.contains(from), "{from}");
            let error = Spec::parse("my.toml", &text.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.to_string(), format!("my.toml: {words}"));
        };
        for name in
            ["occupancy", "update-batch", "update-rate", "rule-rate", "rule-update", "hash-skew"]
        {
            Spec::parse(name, &text(name)).unwrap();
        }
        let of_share = ": use more than 0, and at most 1";
        for value in ["0.0", "-1.0", "1.5"] {
            let (from, to) = ("batch_share = 0.5", format!("batch_share = {value}"));
            let value = value.trim_end_matches(".0");
            let words = format!("batch_share = {value}{of_share}");
            refused("update-batch", (from, &to), &words);
        }
        let (from, to) = ("effect_share = 0.25", "effect_share = nan");
        refused("rule-rate", (from, to), &format!("effect_share = NaN{of_share}"));
        let (from, to) = ("latency_share = 0.6", "latency_share = inf");
        refused("update-rate", (from, to), &format!("latency_share = inf{of_share}"));
        let other = text("update-batch").replace("\"update_batch\"", "\"update_rate\"");
        let error = Spec::parse("my.toml", &other).unwrap_err().to_string();
        for part in ["my.toml", "column 8", "unknown field `batch`", "`rule_churn`"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
        for value in ["0", "600001", "18446744073709"] {
            let to = format!("duration_ms = {value}");
            let words = format!("reduced.rss_change.duration_ms = {value}: use 1 to 600000");
            refused("queue-change", ("duration_ms = 1800", &to), &words);
        }
        let of = |change: (&str, &str), words: &str| refused("occupancy", change, words);
        of(("repeats = 6", "repeats = 0"), "short.repeats = 0: use 1 to 1000");
        of(("repeats_min = 3", "repeats_min = 7"), "reduced.repeats_min = 7: use 1 to 6");
        of(("budget_s = 105", "budget_s = 0"), "reduced.budget_s = 0: use 1 or more seconds");
        of(
            ("width = 0.05", "width = 1.0"),
            "reduced.knee.width = 1: use 0 or more, and less than 1",
        );
        of(("rules_max = 65_536", "rules_max = 1"), "reduced.knee.rules_min = 2: use 0 to 1");
        of(("pairs = 6", "pairs = 0"), "full.knee.pairs = 0: use 1 to 1000");
        of(
            ("rules_max = 131_072", "rules_max = 0"),
            "reduced.knee.rules_max = 0: use 1 to 16777216",
        );
    }
}
