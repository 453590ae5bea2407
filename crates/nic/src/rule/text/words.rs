//! The words of a line, and the values among them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::BOOLEANS;
use crate::rule::item::{Field, FieldKind};
use crate::text::{Problem, TextError};

/// A line that is read word by word; a `#` ends it.
pub(super) struct Words<'t> {
    pub(super) line: u64,
    pub(super) text: &'t str,
    /// The end of the word that was read last.
    at: usize,
    /// Where that word starts.
    start: usize,
    /// The word that ends the current list of items or actions.
    pub(super) closing: &'static str,
}

impl<'t> Words<'t> {
    pub(super) fn new(line: u64, text: &'t str) -> Words<'t> {
        Words::at(line, text, 0)
    }

    /// The words from this byte of the line on.
    pub(super) fn at(line: u64, text: &'t str, at: usize) -> Words<'t> {
        Words { line, text, at, start: at, closing: "end" }
    }

    /// The next word; empty at the end of the line.
    pub(super) fn next(&mut self) -> &'t str {
        let bytes = self.text.as_bytes();
        let mut start = self.at;
        while bytes.get(start).is_some_and(u8::is_ascii_whitespace) {
            start += 1;
        }
        let mut end = start;
        while bytes.get(end).is_some_and(|byte| !byte.is_ascii_whitespace() && *byte != b'#') {
            end += 1;
        }
        if start < end {
            (self.start, self.at) = (start, end);
        } else {
            // The caret of a missing word is one space after the last word.
            let last = self.text[..self.at].trim_end().len();
            self.start = start.min(last + usize::from(last > 0 && last < bytes.len()));
            self.at = self.start;
        }
        &self.text[start..end]
    }

    /// The position of the last word: its first byte and the byte after it.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.start, self.at)
    }

    /// The word that was read last.
    pub(super) fn last(&self) -> &'t str {
        &self.text[self.start..self.at]
    }

    pub(super) fn error(&self, problem: Problem) -> TextError {
        TextError::new(self.line, self.text, self.place(), problem)
    }

    /// The error for a last word that is not allowed here.
    pub(super) fn expected(&self, expected: impl Into<String>) -> TextError {
        let found = self.last().to_owned();
        self.error(Problem::Expected { expected: expected.into(), found })
    }

    pub(super) fn not_supported(&self, name: impl Into<String>) -> TextError {
        self.error(Problem::NotSupported { name: name.into() })
    }

    fn unfit(&self, reason: String) -> TextError {
        self.error(Problem::Unfit { reason })
    }

    /// The error for a last word that is none of `words`: it is an abbreviation of one, or unknown.
    pub(super) fn unknown(&self, words: &[&'static str], expected: String) -> TextError {
        let word = self.last();
        match words.iter().find(|full| !word.is_empty() && full.starts_with(word)) {
            Some(full) => self.error(Problem::Abbreviated { word: word.to_owned(), full }),
            None => self.expected(expected),
        }
    }

    /// The error for a last word that is neither one of `words` nor a `/`. If nothing follows, or
    /// the word that follows a pattern, the end of the list is missing.
    pub(super) fn unended(&self, words: &[&'static str], expected: String) -> TextError {
        match self.last() {
            "" | "actions" => self.expected(format!("`/ {}`", self.closing)),
            _ => self.unknown(words, expected),
        }
    }

    /// The next word, which must be `word`.
    pub(super) fn keyword(&mut self, word: &'static str) -> Result<(), TextError> {
        match self.next() == word {
            true => Ok(()),
            false if word == "/" => Err(self.unended(&[word], "`/`".to_owned())),
            false => Err(self.unknown(&[word], format!("`{word}`"))),
        }
    }

    /// The end of the command.
    pub(super) fn end(&mut self) -> Result<(), TextError> {
        match self.next() {
            "" => Ok(()),
            _ => Err(self.expected("the end of the line")),
        }
    }

    /// The next word, a number from 0 to `max`.
    pub(super) fn number(&mut self, what: &str, max: u128) -> Result<u128, TextError> {
        let word = self.next();
        self.number_of(word, what, max)
    }

    pub(super) fn number_u16(&mut self, what: &str) -> Result<u16, TextError> {
        Ok(self.number(what, u16::MAX.into())? as u16)
    }

    pub(super) fn number_u32(&mut self, what: &str) -> Result<u32, TextError> {
        Ok(self.number(what, u32::MAX.into())? as u32)
    }

    /// A word that was read, as a number from 0 to `max`.
    pub(super) fn number_of(&self, word: &str, what: &str, max: u128) -> Result<u128, TextError> {
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let (digits, radix) = hex.map_or((word, 10), |digits| (digits, 16));
        if digits.is_empty() || !digits.bytes().all(|byte| (byte as char).is_digit(radix)) {
            let signed = digits.starts_with(['+', '-']);
            return Err(match signed {
                true => self.unfit(format!("{what} has no sign: write 0 to {max}")),
                false => self.expected(format!("{what}: a number, decimal or 0x…")),
            });
        }
        if radix == 10 && digits.len() > 1 && digits.starts_with('0') {
            let reason = format!("a leading 0 makes `{word}` octal in testpmd: leave it out");
            return Err(self.unfit(reason));
        }
        // Short numbers are read in a register.
        let value = match digits.len() {
            ..=16 => u64::from_str_radix(digits, radix).ok().map(u128::from),
            _ => u128::from_str_radix(digits, radix).ok(),
        };
        value
            .filter(|value| *value <= max)
            .ok_or_else(|| self.unfit(format!("{word} is too great: {what} is 0 to {max}")))
    }

    /// The next word, a value of a field.
    pub(super) fn value(&mut self, field: &Field) -> Result<u128, TextError> {
        let word = self.next();
        match field.kind {
            FieldKind::Signed if word.starts_with('-') => {
                let text = match word.parse::<i32>() {
                    Ok(value) => format!("{word} as {value:#x}"),
                    Err(_) => format!("a number of 32 bits, not {word}"),
                };
                Err(self.unfit(format!("testpmd reads no sign: write {text}")))
            }
            FieldKind::Boolean => {
                let known = BOOLEANS.iter().find(|(name, _)| *name == word);
                known.map(|(_, on)| u128::from(*on)).ok_or_else(|| {
                    self.expected(format!("{}: `0`, `1`, `false` or `true`", field.name))
                })
            }
            FieldKind::Number | FieldKind::Index | FieldKind::Signed => {
                self.number_of(word, field.name, field.ones())
            }
            FieldKind::Ipv4 => match word.parse::<Ipv4Addr>() {
                Ok(address) => Ok(address.to_bits().into()),
                Err(_) if word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x') => {
                    self.number_of(word, field.name, field.ones())
                }
                Err(_) => Err(self.expected(format!("{}: an IPv4 address", field.name))),
            },
            FieldKind::Ipv6 => match word.parse::<Ipv6Addr>() {
                Ok(address) => Ok(address.to_bits()),
                Err(_) => Err(self.expected(format!("{}: an IPv6 address", field.name))),
            },
            FieldKind::Mac => mac(word).ok_or_else(|| {
                let name = field.name;
                self.expected(format!("{name}: a MAC address, such as 02:00:00:00:00:01"))
            }),
        }
    }

    /// The next word, a number of leading ones (a prefix length), as a mask.
    pub(super) fn prefix(&mut self, field: &Field) -> Result<u128, TextError> {
        let len = self.number("prefix", field.bits as u128)? as usize;
        Ok(field.ones() & !(field.ones().checked_shr(len as u32).unwrap_or(0)))
    }
}

/// Pairs of hexadecimal digits, with or without `0x` before them; if their number is odd, the first
/// digit is a byte of its own.
pub(super) fn hex(word: &str) -> Option<Vec<u8>> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = is_hex.then_some(digits)?;
    let (first, rest) = digits.split_at(digits.len() % 2);
    let pairs = (0..rest.len()).step_by(2).map(|at| &rest[at..at + 2]);
    let all = Some(first).filter(|first| !first.is_empty()).into_iter().chain(pairs);
    all.map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// `02:00:00:00:00:01` or `0200:0000:0001`, each number with all its digits, as
/// `rte_ether_unformat_addr` of DPDK reads them.
pub(super) fn mac(word: &str) -> Option<u128> {
    let parts: Vec<&str> = word.split(':').collect();
    let len = match parts.len() {
        6 => 2,
        3 => 4,
        _ => return None,
    };
    let is_hex = |part: &&str| part.len() == len && part.bytes().all(|it| it.is_ascii_hexdigit());
    let digits = parts.iter().all(is_hex).then(|| parts.concat())?;
    u128::from_str_radix(&digits, 16).ok()
}
