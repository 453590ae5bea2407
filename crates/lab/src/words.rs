//! Numbers in prose: as many digits as they carry, thousands set apart.

use niclab_result::Quantity;
pub use niclab_result::digits::significant;
use niclab_result::digits::{self, grouped};

use crate::statistics::{Ends, Estimate};

/// A median, to the digits that where it lies supports: `0.87` of 0.8725 in 0.86 to 0.89.
pub fn supported(estimate: &Estimate) -> String {
    at_ends(estimate.median, estimate)
}

/// The ends of an estimate, to the digits of [`supported`]: `0.86 to 0.89`.
pub fn ends(estimate: &Estimate) -> String {
    let [low, high] = [estimate.low, estimate.high].map(|end| at_ends(end, estimate));
    format!("{low} to {high}")
}

fn at_ends(value: f64, estimate: &Estimate) -> String {
    let decimals = digits::decimals(estimate.median, (estimate.low, estimate.high));
    grouped(&format!("{value:.decimals$}"))
}

/// A whole number with its thousands apart: `65,536`.
pub fn whole(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

/// A quantity in the unit that fits its size: `12.3 Mpps`, `1.20 Gbps`.
pub fn quantity(value: f64, unit: &str) -> String {
    let (number, unit) = Quantity { value, unit: unit.to_owned() }.words(None);
    format!("{number} {unit}")
}

/// Frames a second: `12.3 Mpps`, `830 kpps`.
pub fn pps(value: f64) -> String {
    quantity(value, "pps")
}

/// A time given in nanoseconds: `830 ns`, `12.3 us`, `4.56 ms`.
pub fn time(ns: f64) -> String {
    quantity(ns, "ns")
}

/// A size of memory: `830 B`, `12.3 kB`, `4.56 MB`.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{} B", significant(bytes)),
        bytes if bytes < 1e6 => format!("{} kB", significant(bytes / 1e3)),
        bytes => format!("{} MB", significant(bytes / 1e6)),
    }
}

/// The form of a verb that goes with so many: `1 core forwards`, `2 cores forward`.
pub fn verb<'a>(count: f64, of_one: &'a str, of_many: &'a str) -> &'a str {
    if count == 1.0 { of_one } else { of_many }
}

/// `1 rule`, `65,536 rules`.
pub fn rules(count: f64) -> String {
    counted(count, "rule")
}

/// A count with its noun, whose plural ends in `s`: `1 point`, `65,536 points`.
pub fn counted(count: f64, noun: &str) -> String {
    format!("{} {noun}{}", whole(count), if count == 1.0 { "" } else { "s" })
}

/// A share of one in percent: `97.2 %`.
pub fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

/// How much less than one a ratio is, in percent, to the digits that where it lies supports.
pub fn percent_less(ratio: &Estimate) -> String {
    let less = Estimate {
        median: 100.0 * (1.0 - ratio.median),
        low: 100.0 * (1.0 - ratio.high),
        high: 100.0 * (1.0 - ratio.low),
        ..*ratio
    };
    format!("{} %", supported(&less))
}

/// A share that was asked for, in percent: `0.5 %`, with no more digits than it has, three at most.
pub fn percent_asked(share: f64) -> String {
    let rounded = format!("{:.2e}", share * 100.0).parse::<f64>().unwrap_or(share * 100.0);
    format!("{rounded} %")
}

/// A rate that was asked for as a share of one: `60 % of the maximum`.
pub fn of_maximum(share: f64) -> String {
    format!("{} of the maximum", percent_asked(share))
}

/// The groups that rules are spread over: `group 0`, `group 1`, `groups 1-16`.
pub fn groups(groups: f64) -> String {
    if groups <= 1.0 {
        return format!("group {groups}");
    }
    format!("groups 1-{groups}")
}

/// What a sentence must say of an estimate that has no interval: ` (3 repeats only)`. The interval
/// itself stands beside the sentence.
pub fn few(estimate: &Estimate) -> String {
    match estimate.ends {
        Ends::Interval => String::new(),
        Ends::Range if estimate.repeats == 1 => " (one repeat only)".into(),
        Ends::Range => format!(" ({} repeats only)", estimate.repeats),
    }
}

/// Nanoseconds since the Unix epoch as RFC 3339, UTC.
pub fn time_of_day(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a number of days since 1970-01-01 (Howard Hinnant, "chrono-compatible
/// low-level date algorithms", civil_from_days).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(whole(65_536.0), "65,536");
        assert_eq!(pps(12_345_678.0), "12.3 Mpps");
        assert_eq!(pps(8_300.0), "8.30 kpps");
        assert_eq!([time(830.0), time(12_340.0), time(4.56e6)], ["830 ns", "12.3 us", "4.56 ms"]);
        assert_eq!(percent(0.972), "97.2 %");
        let rates = [0.6, 1.0 / 30.0, 0.005, 1.0].map(of_maximum);
        let expected = ["60", "3.33", "0.5", "100"].map(|n| format!("{n} % of the maximum"));
        assert_eq!(rates, expected);
        assert_eq!([0.0, 1.0, 16.0].map(groups), ["group 0", "group 1", "groups 1-16"]);
    }

    #[test]
    fn a_ratio_has_the_digits_that_its_interval_supports() {
        let of = |median, low, high| {
            let estimate = Estimate { median, low, high, repeats: 6, ends: Ends::Interval };
            format!("{} ({})", supported(&estimate), ends(&estimate))
        };
        assert_eq!(of(0.8725, 0.8612, 0.8931), "0.87 (0.86 to 0.89)");
        assert_eq!(of(2.49, 1.71, 4.88), "2.5 (1.7 to 4.9)");
        assert_eq!(of(0.666_67, 0.666_67, 0.666_67), "0.667 (0.667 to 0.667)");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(time_of_day(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_of_day(951_782_399_000_000_000), "2000-02-28T23:59:59Z");
        assert_eq!(time_of_day(951_868_799_000_000_000), "2000-02-29T23:59:59Z");
        assert_eq!(time_of_day(1_795_224_896_123_456_789), "2026-11-21T01:34:56Z");
        assert_eq!(time_of_day(1_735_689_599_000_000_000), "2024-12-31T23:59:59Z");
    }
}
