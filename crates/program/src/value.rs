//! Numbers as bytes, the first byte first: as headers have them, whatever their width.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A number in `len` bytes; `None` where it does not fit.
pub(crate) fn from_number(number: u64, len: usize) -> Option<Vec<u8>> {
    let eight = number.to_be_bytes();
    match len.checked_sub(8) {
        Some(more) => Some([vec![0; more], eight.to_vec()].concat()),
        None => {
            let (front, back) = eight.split_at(8 - len);
            front.iter().all(|byte| *byte == 0).then(|| back.to_vec())
        }
    }
}

/// Hexadecimal digits in `len` bytes; `None` where they do not fit, or are none.
pub(crate) fn from_hex(digits: &str, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    for (at, digit) in digits.bytes().rev().enumerate() {
        let digit = (digit as char).to_digit(16)? as u8;
        match bytes.iter_mut().rev().nth(at / 2) {
            Some(byte) => *byte |= digit << (4 * (at % 2)),
            None if digit == 0 => {}
            None => return None,
        }
    }
    (!digits.is_empty()).then_some(bytes)
}

/// A value as people write it, in `len` bytes: a number in decimal, `0x` or `0b`; an IPv4 or IPv6
/// address; a MAC address. `None` where it is none of these, or does not fit.
pub(crate) fn parse(text: &str, len: usize) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        return from_hex(digits, len);
    }
    // `0b:…` is a MAC address.
    if let Some(digits) = text.strip_prefix("0b").or(text.strip_prefix("0B"))
        && !digits.contains(':')
    {
        return from_digits(digits, 2, len);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return from_digits(text, 10, len);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return (len == 4).then(|| address.octets().to_vec());
    }
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return (len == 16).then(|| address.octets().to_vec());
    }
    let byte = |digits: &str| match digits.len() {
        2 => u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        _ => None,
    };
    let mac: Option<Vec<u8>> = text.split(':').map(byte).collect();
    mac.filter(|mac| mac.len() == 6 && len == 6)
}

/// Digits in `len` bytes: a long multiplication.
fn from_digits(digits: &str, radix: u32, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; len];
    for digit in digits.chars() {
        let mut carry = digit.to_digit(radix)?;
        for byte in bytes.iter_mut().rev() {
            let value = u32::from(*byte) * radix + carry;
            (*byte, carry) = (value as u8, value >> 8);
        }
        if carry != 0 {
            return None;
        }
    }
    (!digits.is_empty()).then_some(bytes)
}

/// The number in bytes, the last eight where there are more.
pub(crate) fn to_number(bytes: &[u8]) -> u64 {
    let (mut eight, last) = ([0; 8], &bytes[bytes.len().saturating_sub(8)..]);
    eight[8 - last.len()..].copy_from_slice(last);
    u64::from_be_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_digits_fill_their_bytes_or_do_not_fit() {
        assert_eq!(from_number(0x1234, 2), Some(vec![0x12, 0x34]));
        assert_eq!(from_number(0x1234, 1), None);
        assert_eq!(from_number(5, 10), Some(vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 5]));
        assert_eq!(from_number(u64::MAX, 8), Some(vec![0xff; 8]));
        assert_eq!(from_hex("1ff", 2), Some(vec![1, 0xff]));
        assert_eq!(from_hex("0001ff", 2), Some(vec![1, 0xff]));
        assert_eq!(from_hex("1ffff", 2), None);
        assert_eq!(from_hex("", 2), None);
        assert_eq!(from_hex("1g", 2), None);
        assert_eq!(
            from_digits("340282366920938463463374607431768211455", 10, 16),
            Some(vec![0xff; 16])
        );
        assert_eq!(from_digits("340282366920938463463374607431768211456", 10, 16), None);
        assert_eq!(to_number(&[1, 2, 3]), 0x0001_0203);
        assert_eq!(to_number(&[9, 1, 0, 0, 0, 0, 0, 0, 2]), 0x0100_0000_0000_0002);
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        assert_eq!(parse("256", 2), Some(vec![1, 0]));
        assert_eq!(parse("0x100", 2), Some(vec![1, 0]));
        assert_eq!(parse("0b100000000", 2), Some(vec![1, 0]));
        assert_eq!(parse("10.0.0.1", 4), Some(vec![10, 0, 0, 1]));
        assert_eq!(parse("::1", 16), Some([vec![0; 15], vec![1]].concat()));
        assert_eq!(parse("02:00:00:00:00:ff", 6), Some(vec![2, 0, 0, 0, 0, 0xff]));
        assert_eq!(parse("0b:00:00:00:00:01", 6), Some(vec![0x0b, 0, 0, 0, 0, 1]));
        for (wrong, len) in [
            ("256", 1),
            ("0x100", 1),
            ("", 4),
            ("0x", 4),
            ("0b2", 4),
            ("10.0.0", 4),
            ("10.0.0.1", 6),
            ("::1", 4),
            ("2:0:0:0:0:0", 6),
            ("+1", 4),
            ("-1", 4),
            ("1e3", 4),
            ("02:00:00:00:00:+f", 6),
        ] {
            assert_eq!(parse(wrong, len), None, "{wrong}");
        }
    }
}
