//! How far the machine drifted, in words.

use niclab_result::ReferenceSummary;

use crate::words;

/// `The machine drifted by −3.1 % to +1.2 % from its median of 6.5 Mpps in 13 reference trials.`
pub(crate) fn words(of: Option<&ReferenceSummary>) -> String {
    let Some(of) = of else { return String::new() };
    let percent = |value: f64| {
        let percent = (value / of.median - 1.0) * 100.0;
        let sign = if percent < 0.0 { "\u{2212}" } else { "+" };
        format!("{sign}{:.1} %", percent.abs())
    };
    let disturbed = match of.disturbed {
        0 => String::new(),
        1 => "; stalls disturbed 1 more".to_owned(),
        more => format!("; stalls disturbed {more} more"),
    };
    let median = niclab_result::Quantity { value: of.median, unit: of.unit.clone() };
    let (median, unit) = words::quantity(&median, None);
    format!(
        "The machine drifted by {} to {} from its median of {median} {unit} in {}{disturbed}.",
        percent(of.smallest),
        percent(of.largest),
        words::count(of.trials.len(), "reference trial"),
    )
}

#[cfg(test)]
mod tests {
    use niclab_result::ReferenceTrial;

    use super::*;

    #[test]
    fn the_drift_is_in_percent_of_the_median() {
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
        let expected = "The machine drifted by \u{2212}10.0 % to +0.2 % from its median of \
                        6.5 Mpps in 13 reference trials.";
        assert_eq!(words(Some(&of)), expected);
        of.disturbed = 2;
        assert!(words(Some(&of)).ends_with("trials; stalls disturbed 2 more."));
        assert_eq!(words(None), "");
    }
}
