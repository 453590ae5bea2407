//! The spread of the reference trials, in words.

use niclab_result::ReferenceSummary;

use crate::words;

/// `13 reference trials were within −3.1 % to +1.2 % of their median, 6.50 Mpps.`
pub(crate) fn words(of: Option<&ReferenceSummary>) -> String {
    let Some(of) = of else { return String::new() };
    let percent = |value: f64| {
        let percent = ((value / of.median - 1.0) * 1000.0).round() / 10.0;
        let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
        format!("{sign}{:.1} %", percent.abs())
    };
    let disturbed = match of.disturbed {
        0 => String::new(),
        more => format!("; stalls disturbed {more} more"),
    };
    let median = niclab_result::Quantity { value: of.median, unit: of.unit.clone() };
    let (median, unit) = median.words(None);
    format!(
        "{} were within {} to {} of their median, {median} {unit}{disturbed}.",
        words::count(of.trials.len(), "reference trial"),
        percent(of.smallest),
        percent(of.largest),
    )
}

#[cfg(test)]
mod tests {
    use niclab_result::ReferenceTrial;

    use super::*;

    #[test]
    fn the_smallest_and_the_largest_are_in_percent_of_the_median() {
        let mut of = ReferenceSummary {
            metric: "throughput_pps".into(),
            unit: "pps".into(),
            median: 6.5e6,
            smallest: 5.85e6,
            largest: 6.513e6,
            limit: 0.1,
            trials: vec![ReferenceTrial::default(); 13],
            disturbed: 0,
        };
        let expected = "13 reference trials were within \u{2212}10.0 % to +0.2 % of their median, \
                        6.50 Mpps.";
        assert_eq!(words(Some(&of)), expected);
        of.disturbed = 2;
        assert!(words(Some(&of)).ends_with("6.50 Mpps; stalls disturbed 2 more."));
        assert_eq!(words(None), "");
        // A value that rounds to zero is not below it.
        (of.smallest, of.largest) = (6.4974e6, 6.5026e6);
        assert!(words(Some(&of)).contains(" within +0.0 % to +0.0 % of "), "{}", words(Some(&of)));
    }
}
