//! The common part of the protocols: requests are written one after the other, and answers are read
//! piece by piece.

use super::tally::Outcome;
use super::workload::{PlannedRequest, Workload};

/// Longest line of an answer, bytes: a key and some numbers, or an error.
pub const LINE_MAX: usize = 2048;
/// Longest body of an answer that is read, bytes. It is not kept, so this costs time alone.
pub const BODY_MAX: u64 = 1 << 30;

/// Requests and answers of one protocol.
pub trait Dialect {
    /// The progress of reading inside an answer.
    type Reading: Default;

    /// Writes a request behind what `out` has.
    fn write(&mut self, asked: &PlannedRequest, workload: &Workload, out: &mut Vec<u8>);

    /// Reads from the start of `bytes` as much as it can of the answer to `asked`.
    ///
    /// # Errors
    /// What stands there in place of an answer: the rest cannot be read then.
    fn read(
        &mut self,
        reading: &mut Self::Reading,
        bytes: &[u8],
        asked: &PlannedRequest,
        workload: &Workload,
    ) -> Result<ReadProgress, String>;

    /// The server has closed the connection: the answer that this ends, where it does.
    fn end(&mut self, _reading: &mut Self::Reading) -> Option<Outcome> {
        None
    }

    /// When to reconnect after the server has closed a connection.
    fn reconnect(&self, _reading: &Self::Reading) -> Reconnect {
        Reconnect::Never
    }
}

/// Whether a connection is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconnect {
    /// It is as good as the server.
    Never,
    /// When the server has closed it between two answers.
    Closed,
    /// Now: the server has said that it closes it.
    Said,
}

/// How far reading came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadProgress {
    /// Bytes that are not needed any more; what is behind them comes again with more.
    pub used: usize,
    /// The answer is whole.
    pub done: Option<Outcome>,
}

impl ReadProgress {
    /// Nothing more can be read of these bytes.
    pub fn more(used: usize) -> ReadProgress {
        ReadProgress { used, done: None }
    }

    /// The answer ends there.
    pub fn done(used: usize, outcome: Outcome) -> ReadProgress {
        ReadProgress { used, done: Some(outcome) }
    }
}

/// The progress of reading an answer whose first line may announce a value.
#[derive(Clone, Copy, Debug, Default)]
pub enum ValueProgress {
    /// Before the first line.
    #[default]
    Head,
    /// Inside the value.
    Value(Value),
    /// Behind it.
    Tail(Outcome),
}

impl ValueProgress {
    /// Reads on behind the first line, from `bytes[used..]`: the value, and `tail`, which follows
    /// it.
    ///
    /// # Errors
    /// The bytes in place of `tail`.
    #[inline]
    pub fn read(
        &mut self,
        bytes: &[u8],
        mut used: usize,
        stored: &[u8],
        tail: &[u8],
    ) -> Result<ReadProgress, String> {
        if let ValueProgress::Value(value) = self {
            used += value.take(&bytes[used..], stored);
            if !value.is_whole() {
                return Ok(ReadProgress::more(used));
            }
            *self = ValueProgress::Tail(value.outcome());
        }
        let end = bytes[used..].get(..tail.len());
        let (Some(end), ValueProgress::Tail(outcome)) = (end, *self) else {
            return Ok(ReadProgress::more(used));
        };
        if end != tail {
            return Err(unexpected(end));
        }
        *self = ValueProgress::Head;
        Ok(ReadProgress::done(used + tail.len(), outcome))
    }
}

/// A value that comes piece by piece, and that is compared with what is stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Value {
    len: u64,
    at: u64,
    is_right: bool,
}

impl Value {
    /// A value of so many bytes, which is the one asked for where `may_be_right`.
    pub fn new(len: u64, may_be_right: bool) -> Value {
        Value { len, at: 0, is_right: may_be_right }
    }

    /// Takes what is there of it; how many bytes.
    #[inline]
    pub fn take(&mut self, bytes: &[u8], stored: &[u8]) -> usize {
        let count = (self.len - self.at).min(bytes.len() as u64) as usize;
        let at = self.at as usize;
        self.is_right = self.is_right
            && stored.len() as u64 == self.len
            && stored.get(at..at + count) == Some(&bytes[..count]);
        self.at += count as u64;
        count
    }

    /// All of it has come.
    pub fn is_whole(&self) -> bool {
        self.at == self.len
    }

    /// The outcome of a get.
    pub fn outcome(&self) -> Outcome {
        if self.is_right { Outcome::Hit } else { Outcome::Foreign }
    }
}

/// The first line, without its end (`\n` or `\r\n`), and the bytes that it takes; `None` where its
/// end has not come.
///
/// # Errors
/// What stands there where a line has no end within [`LINE_MAX`].
#[inline]
pub fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    match memchr::memchr(b'\n', bytes) {
        Some(end) if end <= LINE_MAX => {
            let line = &bytes[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if bytes.len() <= LINE_MAX => Ok(None),
        _ => Err(unexpected(bytes)),
    }
}

/// Describes bytes that cannot be understood.
pub fn unexpected(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let shown = bytes.get(..SHOWN).unwrap_or(bytes).escape_ascii();
    format!("it said \"{shown}\"")
}

/// A number in decimal digits, at most [`BODY_MAX`].
#[inline]
pub fn number(digits: &[u8]) -> Option<u64> {
    let mut number = 0;
    for digit in digits {
        number = 10 * number + u64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        if number > BODY_MAX {
            return None;
        }
    }
    (!digits.is_empty()).then_some(number)
}
