//! The values of one axis of a sweep, as they are typed: `0,1k,64k`, `[1-8]`, `[1*16]`.
//!
//! | text | values |
//! |---|---|
//! | `a,b,c` | these, in this order |
//! | `[1-8]` | 1, 2, … 8 |
//! | `[0-100#5]` | 0, 5, … 100 |
//! | `[1*16]` | 1, 2, 4, 8, 16: each double the one before |
//!
//! A number may have underscores and the suffix `k` (thousand) or `M` (million). What is no number
//! is a word, such as `imix`, in small letters however it is typed.

use std::fmt;

use niclab_result::Coordinate;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// Most values one axis may have: a slip of the keyboard must not plan a year of measurements.
pub const VALUES_MAX: usize = 10_000;

/// The values of one axis, in the order they were typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(pub Vec<Coordinate>);

/// Why the text of an axis cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// Nothing stands between two commas.
    #[error("a value is missing in `{text}`: write values between commas, such as `0,1k,64k`")]
    Empty {
        /// The typed text.
        text: String,
    },
    /// A range is not one.
    #[error(
        "`{text}` is no range: write [1-8] for each, [0-100#5] for every fifth, [1*16] for doubles"
    )]
    BadRange {
        /// The typed text.
        text: String,
    },
    /// Too many values.
    #[error("`{text}` has more than {VALUES_MAX} values: take a greater step")]
    TooMany {
        /// The typed text.
        text: String,
    },
}

impl Values {
    /// Reads what was typed.
    pub fn parse(text: &str) -> Result<Values, ValuesError> {
        let mut values = Vec::new();
        for item in text.split(',').map(str::trim) {
            match item.strip_prefix('[') {
                Some(range) => values.extend(parse_range(item, range)?),
                None if item.is_empty() => return Err(ValuesError::Empty { text: text.into() }),
                None => values.push(coordinate(item)),
            }
            if values.len() > VALUES_MAX {
                return Err(ValuesError::TooMany { text: text.into() });
            }
        }
        Ok(Values(values))
    }

    /// One number.
    pub fn number(number: u64) -> Values {
        Values(vec![Coordinate::Number(number as f64)])
    }
}

fn parse_range(item: &str, range: &str) -> Result<Vec<Coordinate>, ValuesError> {
    let bad = || ValuesError::BadRange { text: item.into() };
    let range = range.strip_suffix(']').ok_or_else(bad)?;
    let (low, high, step) = if let Some((low, high)) = range.split_once('*') {
        (low, high, ValueStep::Double)
    } else {
        let (low, rest) = range.split_once('-').ok_or_else(bad)?;
        let (high, step) = rest.split_once('#').unwrap_or((rest, "1"));
        (low, high, ValueStep::Add(count(step).filter(|s| *s > 0).ok_or_else(bad)?))
    };
    let (low, high) = (count(low).ok_or_else(bad)?, count(high).ok_or_else(bad)?);
    if low > high || (step == ValueStep::Double && low == 0) {
        return Err(bad());
    }
    let next = |value: &u64| match step {
        ValueStep::Add(step) => value.checked_add(step),
        ValueStep::Double => value.checked_mul(2),
    };
    let all = std::iter::successors(Some(low), next).take_while(|value| *value <= high);
    let values: Vec<_> = all.take(VALUES_MAX + 1).map(|v| Coordinate::Number(v as f64)).collect();
    if values.len() > VALUES_MAX {
        return Err(ValuesError::TooMany { text: item.into() });
    }
    Ok(values)
}

#[derive(Clone, Copy, PartialEq)]
enum ValueStep {
    Add(u64),
    Double,
}

fn coordinate(text: &str) -> Coordinate {
    match count(text) {
        Some(number) => Coordinate::Number(number as f64),
        // What was to be a number is shown as it was typed: `1K`.
        None if text.starts_with(|c: char| c.is_ascii_digit()) => Coordinate::Word(text.into()),
        None => Coordinate::Word(text.to_lowercase()),
    }
}

/// Reads a count: `65_536`, `10k`, `4M`.
pub fn count(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(factor)
}

/// As typed: values between commas.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(Coordinate::to_string).collect();
        f.write_str(&words.join(","))
    }
}

/// From a text in the grammar above, a number, or a list of both.
impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Values, D::Error> {
        deserializer.deserialize_any(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("values such as \"0,1k,64k\", \"[1*16]\", 64 or [64, \"imix\"]")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Values, E> {
        let unsigned = u64::try_from(number);
        unsigned.map(Values::number).map_err(|_| E::custom("a value cannot be negative"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Values, E> {
        Values::parse(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some(part) = list.next_element::<Values>()? {
            values.extend(part.0);
        }
        Ok(Values(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match Values::parse(text) {
            Ok(values) => values.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(found.starts_with(expected), "{text}: {found}");
    }

    #[test]
    fn the_grammar_gives_the_values_it_promises() {
        check("0, 1k,65_536,4M", "0,1000,65536,4000000");
        check("[1-4]", "1,2,3,4");
        check("[0-100#25]", "0,25,50,75,100");
        check("[0-99#25]", "0,25,50,75");
        check("[1*16]", "1,2,4,8,16");
        check("[3*20],64", "3,6,12,64");
        check("64,IMIX", "64,imix");
        check("[1k-3k#1k]", "1000,2000,3000");
    }

    #[test]
    fn an_invalid_value_is_refused_with_the_valid_form() {
        check("", "a value is missing");
        check("1,,2", "a value is missing");
        for bad in ["[1-8", "[8-1]", "[1-8#0]", "[0*8]", "[a-b]", "[5]", "[1-8#x]"] {
            check(bad, &format!("`{bad}` is no range"));
        }
        check("[0-4M]", "`[0-4M]` has more than 10000 values");
        assert_eq!(count("18446744073709551615k"), None);
    }

    #[test]
    fn a_file_may_hold_text_numbers_or_lists() {
        #[derive(serde::Deserialize)]
        struct Axis {
            a: Values,
        }
        let read = |text: &str| toml::from_str::<Axis>(text).map(|axis| axis.a.to_string());
        assert_eq!(read("a = \"[1*4]\"").unwrap(), "1,2,4");
        assert_eq!(read("a = 64").unwrap(), "64");
        assert_eq!(read("a = [64, \"imix,1k\"]").unwrap(), "64,imix,1000");
        assert!(read("a = -1").unwrap_err().to_string().contains("negative"));
        assert!(read("a = true").unwrap_err().to_string().contains("values such as"));
    }
}
