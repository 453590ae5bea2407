//! Numbers in text, as the C library reads them for Suricata.

/// The number at the start of a text, and how many bytes it has: `strtoull` of C. Blanks and a sign
/// may be in front of it. Base 0 reads `0x1f` and `017`, too. `None` if there is no number, or if
/// it has more than 64 bits.
pub(super) fn leading_number(text: &[u8], base: u32) -> Option<(u64, usize)> {
    let mut at = text.iter().take_while(|byte| is_blank(**byte)).count();
    let sign = text.get(at).copied().filter(|byte| matches!(byte, b'+' | b'-'));
    at += usize::from(sign.is_some());
    let digit = |at: usize, base: u32| (*text.get(at)? as char).to_digit(base);
    let has_prefix = digit(at, 8) == Some(0)
        && matches!(text.get(at + 1), Some(b'x' | b'X'))
        && digit(at + 2, 16).is_some();
    let base = match base {
        0 | 16 if has_prefix => {
            at += 2;
            16
        }
        0 if digit(at, 8) == Some(0) => 8,
        0 => 10,
        base => base,
    };
    let start = at;
    let mut number = 0u64;
    while let Some(digit) = digit(at, base) {
        number = number.checked_mul(base.into())?.checked_add(digit.into())?;
        at += 1;
    }
    let number = if sign == Some(b'-') { number.wrapping_neg() } else { number };
    (at > start).then_some((number, at))
}

/// The number that a text is as a whole, in base 10, 16 (`0x`) or 8 (`0`).
pub(super) fn number(text: &str) -> Option<u64> {
    leading_number(text.as_bytes(), 0)
        .filter(|&(_, len)| len == text.len())
        .map(|(number, _)| number)
}

/// The same, of both signs.
pub(super) fn signed(text: &str) -> Option<i64> {
    let negative = text.trim_start().starts_with('-');
    let number = number(text)?;
    let magnitude = if negative { number.wrapping_neg() } else { number };
    let magnitude = i64::try_from(magnitude).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

/// The blanks of C.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_by_strtoull() {
        assert_eq!(leading_number(b"12ab", 10), Some((12, 2)));
        assert_eq!(leading_number(b"12ab", 16), Some((0x12ab, 4)));
        assert_eq!(leading_number(b" \t-1", 10), Some((u64::MAX, 4)));
        assert_eq!(leading_number(b"0x1f", 0), Some((0x1f, 4)));
        assert_eq!(leading_number(b"0x1f", 16), Some((0x1f, 4)));
        assert_eq!(leading_number(b"0xg", 16), Some((0, 1)), "the `0` is a number");
        assert_eq!(leading_number(b"0x1f", 10), Some((0, 1)));
        assert_eq!(leading_number(b"0178", 0), Some((0o17, 3)));
        assert_eq!(leading_number(b"08", 0), Some((0, 1)));
        assert_eq!(leading_number(b"0", 0), Some((0, 1)));
        assert_eq!(leading_number(b"18446744073709551615", 10), Some((u64::MAX, 20)));
        for wrong in [&b""[..], b"-", b"x", b"+ 1", b"18446744073709551616"] {
            assert_eq!(leading_number(wrong, 10), None);
        }
    }

    #[test]
    fn a_whole_number_has_nothing_behind_it() {
        assert_eq!((number("17"), number("17 "), number("")), (Some(17), None, None));
        assert_eq!((signed("-17"), signed("0x10"), signed("1-")), (Some(-17), Some(16), None));
        assert_eq!(signed("9223372036854775808"), None);
    }
}
