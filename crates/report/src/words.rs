//! Numbers, units, durations and marks in words a reader takes in at a glance.

use niclab_result::Mark;

/// A number with grouped thousands: integers exact, others to four significant digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.fract() == 0.0 && size < 1e15 {
        return group(&format!("{value:.0}"));
    }
    if !(1e-4..1e15).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = (3 - size.log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => group(text.trim_end_matches('0').trim_end_matches('.')),
        false => group(&text),
    }
}

/// Commas between the thousands of a plain decimal number.
fn group(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("\u{2212}", rest));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A length of time, to the second where it is long.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{} s", number((seconds * 10.0).round() / 10.0));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match hours {
        0 => format!("{minutes} min {rest} s"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// `1 figure`, `2 figures`.
pub(crate) fn count(of: usize, singular: &str) -> String {
    let plural = if of == 1 { "" } else { "s" };
    format!("{} {singular}{plural}", group(&of.to_string()))
}

/// A mark's name, as the samples spell it.
pub(crate) fn mark_name(mark: Mark) -> &'static str {
    match mark {
        Mark::Bimodal => "bimodal",
        Mark::Disturbed => "disturbed",
        Mark::Drift => "drift",
        Mark::FewSamples => "few-samples",
        Mark::GeneratorLimited => "generator-limited",
        Mark::MachineDrift => "machine-drift",
        Mark::Unbalanced => "unbalanced",
    }
}

/// What a mark means for somebody who reads the point.
pub(crate) fn mark_meaning(mark: Mark) -> &'static str {
    match mark {
        Mark::Bimodal => {
            "The repeats fall into more than one group; the median describes only one of them."
        }
        Mark::Disturbed => {
            "The machine paused for longer than the receive ring covers, or than half a slice, in \
             more than four fifths of a trial's slices or in all with frames. Pauses, not the \
             device, may have set throughput and loss."
        }
        Mark::Drift => {
            "Later repeats differ systematically from earlier ones, so something changed while \
             the point was measured."
        }
        Mark::FewSamples => {
            "There are fewer repeats than a 95 % interval needs; take the value as a hint."
        }
        Mark::GeneratorLimited => {
            "The generator did not send what was planned, so the value is a floor for the device \
             and not its limit."
        }
        Mark::MachineDrift => {
            "The reference trials beside it are more than 10 % from their median, so the machine \
             had another speed than in the rest of the run."
        }
        Mark::Unbalanced => {
            "The counters of generator, device and sink do not add up; some packets are not \
             accounted for."
        }
    }
}

/// A name made fit for an `id` and a link: letters, digits, `-` and `.` stay, the rest is spelled
/// by its code, so that two names never meet.
pub(crate) fn anchor(name: &str) -> String {
    let mut out = String::from("fig-");
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => out.push(letter),
            other => out.push_str(&format!("_{:x}_", u32::from(other))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        let cases = [
            (0.0, "0"),
            (65_536.0, "65,536"),
            (-1_234_567.0, "\u{2212}1,234,567"),
            (12.345_678, "12.35"),
            (0.021_1, "0.0211"),
            (12_345.6, "12,346"),
            (999.96, "1,000"),
            (0.5, "0.5"),
            (1e-7, "1.000e-7"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(4.25), "4.3 s");
        assert_eq!(duration(725.0), "12 min 5 s");
        assert_eq!(duration(7_384.0), "2 h 3 min");
    }

    #[test]
    fn anchors_differ_where_names_differ() {
        assert_eq!(anchor("knee-0.5"), "fig-knee-0.5");
        assert_ne!(anchor("a b"), anchor("a_b"));
        assert_eq!(anchor("\"><script>"), "fig-_22__3e__3c_script_3e_");
    }
}
