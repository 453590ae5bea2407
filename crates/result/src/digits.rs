//! Numbers with as many digits as they carry.

/// Significant digits of a number at most.
const DIGITS_MAX: i32 = 3;

/// Significant digits of a number at least, however little is known of it.
const DIGITS_MIN: i32 = 2;

/// Digits behind the point of a number that lies between `ends`: the last one is no finer than the
/// ends are apart. Two significant digits at least and three at most, three where `ends` are one.
pub fn decimals(value: f64, ends: (f64, f64)) -> usize {
    let width = ends.1 - ends.0;
    // Rounded first: 9.996 has its digits where 10.0 has them.
    let size = format!("{:.2e}", value.abs()).parse::<f64>().unwrap_or(0.0);
    let magnitude = if size > 0.0 { size.log10().floor() as i32 } else { 0 };
    let [least, most] = [DIGITS_MIN, DIGITS_MAX].map(|digits| digits - 1 - magnitude);
    let told = match width > 0.0 {
        true => ((-width.log10()).ceil() as i32).clamp(least, most),
        false => most,
    };
    told.clamp(0, 9) as usize
}

/// Three significant digits: `12.3`, `0.0123`, `1,230`.
pub fn significant(value: f64) -> String {
    // Rounded first: 9.9996 has its digits where 10.0 has them.
    let rounded = format!("{value:.2e}").parse::<f64>().unwrap_or(value);
    if rounded == 0.0 {
        return "0".into();
    }
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 9) as usize;
    grouped(&format!("{rounded:.decimals$}"))
}

/// Commas between the thousands of a plain decimal number.
pub fn grouped(text: &str) -> String {
    let (number, fraction) = text.split_once('.').map_or((text, None), |(n, f)| (n, Some(f)));
    let mut out = String::new();
    let digits = number.trim_start_matches('-').len();
    for (at, digit) in number.trim_start_matches('-').chars().enumerate() {
        if at > 0 && (digits - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if number.starts_with('-') { "-" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{out}.{fraction}"),
        None => format!("{sign}{out}"),
    }
}

/// A part of a whole in percent. Only all of it is `100 %`, and only nothing is `0 %`.
pub fn percent(part: usize, whole: usize) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match share.round() {
        0.0 if part > 0 => "less than 1 %".to_owned(),
        100.0 if part < whole => "more than 99 %".to_owned(),
        rounded => format!("{rounded:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_all_or_nothing_only_if_it_is() {
        let cases = [
            (0, 0, "0 %"),
            (0, 7, "0 %"),
            (1, 1000, "less than 1 %"),
            (1, 6, "17 %"),
            (199, 200, "more than 99 %"),
            (49_999, 50_000, "more than 99 %"),
            (50_000, 50_000, "100 %"),
        ];
        for (part, whole, text) in cases {
            assert_eq!(percent(part, whole), text);
        }
    }

    #[test]
    fn numbers_read_well() {
        let cases = [
            (0.0, "0"),
            (0.012345, "0.0123"),
            (9.9999, "10.0"),
            (0.99999, "1.00"),
            (12.345, "12.3"),
            (123.45, "123"),
            (12_345.0, "12,300"),
            (1_234_567.0, "1,230,000"),
            (-4_321.0, "-4,320"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn the_last_digit_is_no_finer_than_the_ends_are_apart() {
        let cases = [
            (0.8725, (0.86, 0.89), 2),
            (0.8725, (0.8724, 0.8726), 3),
            (0.8725, (0.2, 3.1), 2),
            (2.492, (0.0, f64::INFINITY), 1),
            (2.49, (1.7, 4.9), 1),
            (12.34, (12.1, 12.5), 1),
            (12.34, (2.0, 30.0), 0),
            (9.996, (9.9, 10.1), 1),
            (1_234.5, (1_234.0, 1_235.0), 0),
            (0.667, (0.667, 0.667), 3),
            (0.0, (0.0, 0.0), 2),
        ];
        for (value, ends, wanted) in cases {
            assert_eq!(decimals(value, ends), wanted, "{value} in {ends:?}");
        }
    }
}
