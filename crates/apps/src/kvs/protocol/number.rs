//! Decimal numbers, as memcached 1.6.18 reads them in lines, in flags and in values.
//!
//! The rules are those of `safe_strtoull` and its siblings in its util.c, which call C's
//! `strtoull`:
//! - Blanks and one sign may come before the digits.
//! - The digits end with the text, a NUL or a blank. After a NUL or a blank comes anything.
//! - An unsigned number may have a minus if the result, modulo 2^64, is below 2^63:
//!   `-18446744073709551615` is 1.
//! - A number of 32 bits is read as one of 64, and its upper half is dropped: `4294967297` is 1.

/// Whether there is a minus, and the number of the digits, `None` beyond 64 bits. `None` in place
/// of both where the text is no number.
#[inline]
fn scan(text: &[u8]) -> Option<(bool, Option<u64>)> {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    let (is_negative, digits) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_end = digits.get(count).is_none_or(|byte| *byte == 0 || is_blank(*byte));
    if count == 0 || !is_end {
        return None;
    }
    let add = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    Some((is_negative, digits[..count].iter().try_fold(0, add)))
}

/// C's `isspace`: a vertical tab is one, too.
#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// A number of 64 bits without a sign (`safe_strtoull`).
#[inline]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match scan(text)? {
        (false, number) => number,
        (true, number) => number.map(u64::wrapping_neg).filter(|number| *number < 1 << 63),
    }
}

/// A number of 32 bits without a sign (`safe_strtoul`).
#[inline]
pub fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned(text).map(|number| number as u32)
}

/// A number of 32 bits with a sign (`safe_strtol`).
#[inline]
pub fn signed_32(text: &[u8]) -> Option<i32> {
    let number = match scan(text)? {
        (false, number) => i64::try_from(number?).ok()?,
        (true, number) => 0_i64.checked_sub_unsigned(number?)?,
    };
    Some(number as i32)
}

/// Digits of the longest number of 64 bits.
pub const DIGITS_MAX: usize = 20;

/// The digits of a number, written to the end of `room`.
pub fn decimal(mut value: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        room[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &room[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts, and what C's functions make of them; the last column is of 32 bits with a sign.
    const TABLE: [(&str, Option<u64>, Option<i32>); 39] = [
        ("0", Some(0), Some(0)),
        ("5", Some(5), Some(5)),
        ("007", Some(7), Some(7)),
        ("00000000000000000000000000000000000000005", Some(5), Some(5)),
        ("5\n", Some(5), Some(5)),
        ("5 ", Some(5), Some(5)),
        ("5\t\r\n", Some(5), Some(5)),
        ("5 x", Some(5), Some(5)),
        ("5\u{b}x", Some(5), Some(5)),
        ("5\u{c}", Some(5), Some(5)),
        ("5\0x", Some(5), Some(5)),
        (" 5", Some(5), Some(5)),
        ("\t\n\u{b}\u{c}\r 5", Some(5), Some(5)),
        ("+5", Some(5), Some(5)),
        (" +5 ", Some(5), Some(5)),
        ("-0", Some(0), Some(0)),
        ("-5", None, Some(-5)),
        ("-9223372036854775807", None, Some(1)),
        ("-9223372036854775808", None, Some(0)),
        ("-9223372036854775809", Some(9_223_372_036_854_775_807), None),
        ("-18446744073709551615", Some(1), None),
        ("-18446744073709551616", None, None),
        ("2147483647", Some(2_147_483_647), Some(i32::MAX)),
        ("2147483648", Some(2_147_483_648), Some(i32::MIN)),
        ("4294967297", Some(4_294_967_297), Some(1)),
        ("9223372036854775807", Some(9_223_372_036_854_775_807), Some(-1)),
        ("9223372036854775808", Some(9_223_372_036_854_775_808), None),
        ("18446744073709551615", Some(u64::MAX), None),
        ("18446744073709551616", None, None),
        ("99999999999999999999", None, None),
        ("", None, None),
        (" ", None, None),
        ("+", None, None),
        ("-", None, None),
        ("--5", None, None),
        ("+ 5", None, None),
        ("\0", None, None),
        ("5x", None, None),
        ("0x5", None, None),
    ];

    #[test]
    fn numbers_are_those_of_c() {
        for (text, whole, signed) in TABLE {
            let bytes = text.as_bytes();
            assert_eq!(unsigned(bytes), whole, "{text:?}");
            assert_eq!(unsigned_32(bytes), whole.map(|number| number as u32), "{text:?}");
            assert_eq!(signed_32(bytes), signed, "{text:?}");
        }
        // No digit, sign or blank of Unicode, and no other byte behind a number.
        for byte in 0..=u8::MAX {
            let is_end = byte == 0 || (9..=13).contains(&byte) || byte == b' ';
            let ends = is_end.then_some(5);
            let goes_on = byte.is_ascii_digit().then(|| u64::from(50 + byte - b'0'));
            assert_eq!(unsigned(&[b'5', byte]), ends.or(goes_on), "{byte}");
        }
    }

    #[test]
    fn numbers_are_written_and_read_again() {
        for value in [0, 7, 10, 12_345, u64::MAX] {
            let mut room = [0; DIGITS_MAX];
            let text = decimal(value, &mut room).to_vec();
            assert_eq!(text, value.to_string().as_bytes());
            assert_eq!(unsigned(&text), Some(value));
        }
    }
}
