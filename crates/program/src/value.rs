//! Numbers as bytes, the first byte first: as headers have them, whatever their width.

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

/// The number in bytes, the last eight where there are more.
pub(crate) fn to_number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
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
        assert_eq!(to_number(&[1, 2, 3]), 0x0001_0203);
        assert_eq!(to_number(&[9, 1, 0, 0, 0, 0, 0, 0, 2]), 0x0100_0000_0000_0002);
    }
}
