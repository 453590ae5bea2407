//! Writing answers: numbers and items as text.

use crate::kvs::protocol::number::{DIGITS_MAX, decimal};
use crate::kvs::store::Item;

/// Adds a number.
#[inline]
pub fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(decimal(value, &mut [0; DIGITS_MAX]));
}

/// Adds an answer, where one is wanted.
#[inline]
pub fn add_answer(out: &mut Vec<u8>, is_quiet: bool, text: &[u8]) {
    if !is_quiet {
        out.extend_from_slice(text);
    }
}

/// Adds an item, as `get` answers it.
#[inline]
pub fn item(out: &mut Vec<u8>, item: &Item<'_>, with_cas: bool) {
    out.reserve(item.key.len() + item.value.len() + 64);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(item.key);
    out.push(b' ');
    number(out, item.header.flags.into());
    out.push(b' ');
    number(out, item.value.len() as u64);
    if with_cas {
        out.push(b' ');
        number(out, item.header.cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(item.value);
    out.extend_from_slice(b"\r\n");
}

/// Adds a line of statistics.
pub fn statistic(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in ["STAT ", name, " ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}
